import json

from hypothesis import given
from hypothesis import strategies as st

from echelon.hub.duplicates import doubled_fields

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)


def test_doubled_fields_are_named_in_the_order_of_the_document() -> None:
    body = b'{"data":{"k":"v","k":"w"},"data":{},"list":[{"a":1},{"b":1,"b":2}]}'
    assert doubled_fields(body) == ["data.k", "data", "list[1].b"]


def test_what_is_no_json_has_no_doubled_fields() -> None:
    assert doubled_fields(b"{") == []
    assert doubled_fields(b"[" * 100_000) == []


@given(JSON)
def test_a_document_without_doubled_fields_has_none(document: object) -> None:
    assert doubled_fields(json.dumps(document).encode()) == []
