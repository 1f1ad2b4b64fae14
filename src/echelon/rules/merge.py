"""JSON merge patches (RFC 7386): apply one, make the smallest one, make the three-way one.

What it decides: what a document looks like after a merge patch, and which merge
patch turns one document into another. Shared by the hub's API server, by the
member agent (client-side apply of custom resources) and by the rollout rules.

What it must never do: change its arguments, or copy what did not change. A
result shares every unchanged subtree with its input, so "did anything change"
is an `is` test and later comparisons stop at shared subtrees.

Stable signatures:
- `same(a, b) -> bool`: JSON equality (1 equals 1.0, but true is not 1).
- `merge_patch(doc, patch) -> JSON`; returns `doc` itself when nothing changes.
- `diff_merge(old, new) -> dict`: the smallest merge patch from old to new.
- `three_way_json_merge(last_applied, desired, live) -> dict`.
"""

from __future__ import annotations

from typing import Any

JSON = Any
Object = dict[str, Any]

_ABSENT: Any = object()


def same(a: JSON, b: JSON) -> bool:
    """Tell whether two decoded JSON values are equal; Python alone takes true for 1."""
    if a is b:
        return True
    kind = type(a)
    if kind is dict:
        if type(b) is not dict or len(a) != len(b):
            return False
        for key, value in a.items():
            other = b.get(key, _ABSENT)
            if other is not value and (other is _ABSENT or not same(value, other)):
                return False
        return True
    if kind is list:
        return type(b) is list and len(a) == len(b) and all(map(same, a, b))
    if kind is bool or type(b) is bool:
        return False  # the only two booleans were compared by identity above
    return bool(a == b)


def merge_patch(doc: JSON, patch: JSON) -> JSON:
    """Apply a merge patch.

    Where the patch brings a new value, nulls inside it mean "absent" and are
    left out, also inside its lists; the API server does the same.
    """
    if type(patch) is not dict:
        return patch
    if type(doc) is not dict:
        return without_nulls(patch)
    out: Object = doc
    for key, value in patch.items():
        current = out.get(key, _ABSENT)
        if value is None:
            if current is not _ABSENT:
                out = dict(out) if out is doc else out
                del out[key]
            continue
        merged = merge_patch(current, value) if type(current) is dict else without_nulls(value)
        if merged is not current and not same(merged, current):
            out = dict(out) if out is doc else out
            out[key] = merged
    return out


def without_nulls(value: JSON) -> JSON:
    """Drop null members of objects at any depth; nulls that are list items stay."""
    if type(value) is dict:
        kept = {key: without_nulls(item) for key, item in value.items() if item is not None}
        return value if _all_shared(kept, value) else kept
    if type(value) is list:
        items = [without_nulls(item) for item in value]
        return value if all(new is old for new, old in zip(items, value, strict=True)) else items
    return value


def _all_shared(kept: Object, original: Object) -> bool:
    return len(kept) == len(original) and all(kept[key] is original[key] for key in kept)


def diff_merge(old: Object, new: Object) -> Object:
    """Make the smallest merge patch that turns `old` into `new`.

    A merge patch cannot say "set to null": a null in `new` reads as absent.
    """
    patch: Object = {}
    for key, value in new.items():
        before = old.get(key, _ABSENT)
        if before is value:
            continue
        if before is _ABSENT:
            patch[key] = value
        elif type(before) is dict and type(value) is dict:
            inner = diff_merge(before, value)
            if inner:
                patch[key] = inner
        elif not same(before, value):
            patch[key] = value
    for key in old:
        if key not in new:
            patch[key] = None
    return patch


def three_way_json_merge(last_applied: Object | None, desired: Object, live: Object) -> Object:
    """Make the merge patch of client-side apply.

    Additions and changes are what `desired` has and `live` has not; deletions
    are what `last_applied` had and `desired` has no more. What others added to
    `live` is left alone. Lists are replaced whole.
    """
    additions = _only_values(diff_merge(live, desired))
    deletions = _only_nulls(diff_merge(last_applied or {}, desired))
    return _overlay(deletions, additions)


def _only_values(patch: Object) -> Object:
    kept: Object = {}
    for key, value in patch.items():
        if value is None:
            continue
        if type(value) is dict and value:
            value = _only_values(value)
            if not value:
                continue
        kept[key] = value
    return kept


def _only_nulls(patch: Object) -> Object:
    kept: Object = {}
    for key, value in patch.items():
        if value is None:
            kept[key] = None
        elif type(value) is dict:
            inner = _only_nulls(value)
            if inner:
                kept[key] = inner
    return kept


def _overlay(deletions: Object, additions: Object) -> Object:
    """Join two patches that never speak about the same leaf."""
    joined = dict(deletions)
    for key, value in additions.items():
        before = joined.get(key)
        joined[key] = _overlay(before, value) if type(before) is dict and type(value) is dict else value
    return joined
