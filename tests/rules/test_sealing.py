"""Secrets in history are sealed: unreadable, bound to their place, equal when equal, and as big as before.

Rules: R-SEAL-1, R-SEAL-2.
"""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.rules.sealing import KEY_BYTES, CannotOpen, any_sealed, is_sealed, open_sealed, seal

KEY, OTHER = b"k" * KEY_BYTES, b"o" * KEY_BYTES
VALUES = st.one_of(
    st.text(max_size=40), st.binary(max_size=40).map(lambda raw: base64.b64encode(raw).decode())
)


def secret(name="s", **data):
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": "work"},
        "data": data,
    }


def envelope(**manifests):
    return {
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ResourceEnvelope",
        "metadata": {"name": "e", "namespace": "work"},
        "data": manifests,
    }


def b64(text):
    return base64.b64encode(text.encode()).decode()


@given(st.dictionaries(st.text(min_size=1, max_size=10), VALUES, max_size=4), st.booleans())
def test_what_is_sealed_opens_as_it_was(data, wrapped):
    manifest = envelope(x=secret(**data), y={"kind": "ConfigMap"}) if wrapped else secret(**data)
    sealed = seal([manifest], KEY)
    assert any_sealed(sealed)
    assert open_sealed(sealed, KEY) == [manifest]
    assert seal([manifest], KEY) == sealed, "sealing again gives the same"


def test_nothing_of_the_value_is_left():
    held = secret(password=b64("correct horse battery staple"))
    sealed = seal([held, envelope(x={**held, "stringData": {"p": "tr0ub4dor"}})], KEY)
    text = str(sealed)
    assert b64("correct horse")[:12] not in text
    assert "horse" not in text
    assert "tr0ub4dor" not in text
    assert list(sealed[0]["data"]) == ["password"]
    assert is_sealed(sealed[0])
    assert held["data"] == {"password": b64("correct horse battery staple")}, (
        "the object given is not changed"
    )


def test_a_sealed_secret_is_hardly_bigger():
    held = secret(v=base64.b64encode(b"x" * 300_000).decode())
    assert len(seal([held], KEY)[0]["data"]["v"]) < len(held["data"]["v"]) + 64


def test_a_value_that_is_moved_or_altered_does_not_open():
    one, other = secret("one", a=b64("1"), b=b64("2")), secret("two", a=b64("1"))
    sealed, foreign = seal([one, other], KEY)
    for data in (
        {"a": sealed["data"]["b"]},
        {"a": foreign["data"]["a"]},
        {"a": "AAAA"},
        {"a": "not base64!"},
    ):
        with pytest.raises(CannotOpen, match="work/one/a"):
            open_sealed([{**sealed, "data": data}], KEY)
    with pytest.raises(CannotOpen):
        open_sealed([sealed], OTHER)


def test_everything_else_passes_through():
    things = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "b"}}]
    assert seal(things, KEY) == things
    assert open_sealed(things, KEY) == things
    plain = secret(a=b64("1"))
    assert open_sealed([plain], KEY) == [plain], "versions from before sealing open too"


def test_an_authors_own_annotation_does_not_keep_a_secret_from_being_sealed():
    held = secret(a=b64("1"))
    held["metadata"]["annotations"] = {"echelon.dev/sealed": "v1", "mine": "x"}
    sealed = seal([held], KEY)
    assert sealed[0]["data"] != held["data"]
    opened = open_sealed(sealed, KEY)[0]
    assert (opened["data"], opened["metadata"]["annotations"]) == (held["data"], {"mine": "x"})
