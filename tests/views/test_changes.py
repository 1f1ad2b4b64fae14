"""What lies between two versions: every difference told, no secret shown."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from echelon.views.changes import changes_between, masked, write_changes

KEY = b"k"


def deployment(image="nginx:1", **more):
    container = {"name": "nginx", "image": image}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "nginx", "namespace": "web"},
        "spec": {"template": {"spec": {"containers": [container]}}, **more},
    }


def secret(**data):
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "web"}, "data": data}


def test_an_added_a_removed_and_a_changed_object_are_told_apart():
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    told = changes_between([deployment(), secret()], [deployment("nginx:2"), config], KEY)
    assert [(one.verb, one.object) for one in told] == [
        ("changed", "Deployment web/nginx"),
        ("added", "ConfigMap c"),
        ("removed", "Secret web/s"),
    ]


def test_a_changed_field_says_before_and_after():
    told = changes_between([deployment()], [deployment("nginx:2", replicas=3)], KEY)
    assert write_changes(told) == [
        "~ Deployment web/nginx",
        "    /spec/replicas: + 3",
        "    /spec/template/spec/containers/0/image: nginx:1 → nginx:2",
    ]


def test_a_new_api_version_is_a_change_of_the_same_object():
    newer = {**deployment(), "apiVersion": "apps/v2"}
    assert [one.verb for one in changes_between([deployment()], [newer], KEY)] == ["changed"]


@settings(deadline=None)
@given(st.text(min_size=4, max_size=40), st.text(min_size=4, max_size=40))
def test_secret_values_are_never_shown(before, after):
    text = "\n".join(write_changes(changes_between([secret(p=before)], [secret(p=after)], KEY)))
    assert (before == after) is (text == "")
    assert "/data/p: (secret) " in text or before == after
    marks = [masked(secret(p=value), KEY)["data"]["p"] for value in (before, after)]
    assert all(mark.startswith("(secret) ") and len(mark) == 17 for mark in marks)


def test_secrets_in_envelopes_are_not_shown_either():
    def envelope(value):
        return {
            "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
            "kind": "ResourceEnvelope",
            "metadata": {"name": "e", "namespace": "web"},
            "data": {"s.yaml": secret(password=value)},
        }

    text = "\n".join(write_changes(changes_between([envelope("cGxhaW4=")], [envelope("b3RoZXI=")], KEY)))
    assert "/data/s.yaml/data/password: (secret) " in text
    assert "cGxhaW4=" not in text


def test_a_mark_depends_on_the_key():
    assert masked(secret(p="x"), b"a") != masked(secret(p="x"), b"b")


def test_long_values_are_cut():
    told = changes_between([deployment("a" * 1000)], [deployment("b" * 1000)], KEY)
    assert len(told[0].fields[0].after) < 250


def test_equal_versions_have_no_changes():
    assert changes_between([deployment(), secret(a="b")], [deployment(), secret(a="b")], KEY) == ()
