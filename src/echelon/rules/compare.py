"""The differences between what the hub wants and what a member has, field by field, as people read them.

`differences(wanted, live)` walks two decoded objects and names every place where they differ: as a JSON pointer, with
the value on either side written out. Pure; it never changes what it is given, and never hides anything (secrets are
the caller's business).

Order: object keys in alphabetical order, depth first. Of two lists, first what only the hub has, then the places
both have, then what only the member has (`/-`, the place behind the end).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from echelon.api.placement import PatchDetail
from echelon.rules.gojson import format_value
from echelon.rules.merge import same

MAX_DIFFERENCES = 100  # of one object: the API's own limit for the list, and more than anybody reads

_ABSENT: Any = object()


def differences(wanted: Any, live: Any) -> tuple[PatchDetail, ...]:
    """R-WORK-11: differences are named field by field with both values, the first `MAX_DIFFERENCES` of them."""
    return tuple(islice(_walk("", wanted, live), MAX_DIFFERENCES))


def _walk(path: str, wanted: Any, live: Any) -> Iterator[PatchDetail]:
    if same(wanted, live):
        return
    if isinstance(wanted, Mapping) and isinstance(live, Mapping):
        for key in sorted(wanted.keys() | live.keys()):
            yield from _member(f"{path}/{_escaped(key)}", wanted.get(key, _ABSENT), live.get(key, _ABSENT))
    elif isinstance(wanted, list) and isinstance(live, list):
        yield from _items(path, wanted, live)
    else:
        yield _detail(path, wanted, live)


def _member(path: str, wanted: Any, live: Any) -> Iterator[PatchDetail]:
    if wanted is _ABSENT or live is _ABSENT:
        yield _detail(path, wanted, live)
    else:
        yield from _walk(path, wanted, live)


def _items(path: str, wanted: list[Any], live: list[Any]) -> Iterator[PatchDetail]:
    common = min(len(wanted), len(live))
    for index in range(common, len(wanted)):
        yield _detail(f"{path}/{index}", wanted[index], _ABSENT)
    for index in range(common):
        yield from _walk(f"{path}/{index}", wanted[index], live[index])
    for item in live[common:]:
        yield _detail(f"{path}/-", _ABSENT, item)


def _detail(path: str, wanted: Any, live: Any) -> PatchDetail:
    return PatchDetail(
        path=path,
        value_in_member=None if live is _ABSENT else format_value(live),
        value_in_hub=None if wanted is _ABSENT else format_value(wanted),
    )


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
