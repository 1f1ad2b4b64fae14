"""Strategic merge patches: apply one, make the two-way and the three-way one.

What it decides: how lists with a merge key and lists of scalars merge, what the
directives (`$patch`, `$retainKeys`, `$setElementOrder/...`,
`$deleteFromPrimitiveList/...`) do, and which patch client-side apply sends for
built-in kinds. What it must never do: change its arguments, or know where
schemas come from: a schema is anything with `properties`, `additional`,
`items`, `patch_strategy` and `patch_merge_key`.

Stable signatures:
- `apply_strategic(original, patch, schema) -> dict`, as the API server does; raises `BadStrategicPatch`.
- `three_way_strategic(last_applied, desired, live, schema) -> dict`, as kubectl apply does.
- `two_way_strategic(old, new, schema) -> dict`.

Names: a *delta* is a patch made by comparing; making a three-way patch merges
the delta of additions into the delta of deletions, and there directives are
carried along (`server=False`) instead of being obeyed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from echelon.rules.gojson import format_value
from echelon.rules.merge import same

JSON = Any
Object = dict[str, Any]

DIRECTIVE = "$patch"
RETAIN_KEYS = "$retainKeys"
DELETE_ITEMS = "$deleteFromPrimitiveList"
ELEMENT_ORDER = "$setElementOrder"

_ABSENT: Any = object()


class BadStrategicPatch(ValueError):
    """The patch cannot be applied or made. `kind`: "format", "content" or "other", as the API server tells them apart."""

    def __init__(self, text: str, kind: str = "other") -> None:
        super().__init__(text)
        self.kind = kind


class _Field(NamedTuple):
    """How one field merges."""

    schema: Any
    strategy: str
    retain_keys: bool
    merge_key: str


def _field(schema: Any, name: str) -> _Field:
    child = None
    if schema is not None and schema is not True:
        child = (schema.properties or {}).get(name)
        if child is None:
            child = schema.additional
    if child is None or child is True:
        return _Field(None, "", False, "")
    strategies = [word for word in (child.patch_strategy or "").split(",") if word]
    retain_keys = "retainKeys" in strategies
    rest = [word for word in strategies if word != "retainKeys"]
    return _Field(child, rest[0] if rest else "", retain_keys, child.patch_merge_key or "")


def _items(schema: Any) -> Any:
    return None if schema is None else schema.items


def apply_strategic(original: Object, patch: Object, schema: Any) -> Object:
    """Apply a strategic merge patch to an object of a built-in kind."""
    return _merge_map(original, patch, schema, server=True)


def two_way_strategic(old: Object, new: Object, schema: Any) -> Object:
    """Make the patch that turns `old` into `new`."""
    return _diff_maps(old, new, schema, _Diff())


def three_way_strategic(last_applied: Object | None, desired: Object, live: Object, schema: Any) -> Object:
    """Make the patch of client-side apply: what `desired` adds to `live`, and what it dropped since `last_applied`."""
    additions = _diff_maps(live, desired, schema, _Diff(deletions=False))
    deletions = _diff_maps(last_applied or {}, desired, schema, _Diff(changes=False))
    return _merge_map(deletions, additions, schema, server=False)


# --- applying ----------------------------------------------------------------------------------


def _merge_map(original: Object, patch: Object, schema: Any, *, server: bool) -> Object:
    if DIRECTIVE in patch:
        return _obey_directive(patch)
    out = dict(original)
    rest = dict(patch)
    _retain_keys(out, rest, server=server)
    _merge_ordered_lists(out, rest, schema, server=server)
    for key, value in rest.items():
        name, deleting = key, False
        if key.startswith(DELETE_ITEMS):
            if not server:
                out[key] = value
                continue
            name, deleting = (
                _directive_field(key, DELETE_ITEMS, "invalid patch format of primitive list"),
                True,
            )
        _merge_member(out, name, value, schema, deleting=deleting, server=server)
    if len(out) == len(original) and all(out[key] is original.get(key, _ABSENT) for key in out):
        return original
    return out


def _obey_directive(patch: Object) -> Object:
    directive = patch[DIRECTIVE]
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != DIRECTIVE}
    if directive == "delete":
        return {}
    raise BadStrategicPatch(f"unknown patch type: {format_value(directive)} in map: {format_value(patch)}")


def _merge_member(out: Object, name: str, value: JSON, schema: Any, *, deleting: bool, server: bool) -> None:
    if value is None:
        out.pop(name, None)
        if server:
            return
    current = out.get(name, _ABSENT)
    if type(current) is dict and type(value) is dict:
        field = _field(schema, name)
        out[name] = (
            value if field.strategy == "replace" else _merge_map(current, value, field.schema, server=server)
        )
    elif type(current) is list and type(value) is list:
        field = _field(schema, name)
        if field.strategy == "merge" or deleting:
            out[name] = _merge_list(current, value, field, deleting=deleting, server=server)
        else:
            out[name] = current if same(current, value) else value
    elif not deleting:
        fresh = _without_directives(_without_nulls(value) if server else value)
        if fresh is _ABSENT:
            out.pop(name, None)
        elif current is _ABSENT or not same(current, fresh):
            out[name] = fresh


def _directive_field(key: str, prefix: str, problem: str) -> str:
    head, slash, name = key.partition("/")
    if head != prefix or not slash:
        raise BadStrategicPatch(problem, "format")
    return name


def _retain_keys(out: Object, patch: Object, *, server: bool) -> None:
    """Obey `$retainKeys`: drop every member of the object that is not listed."""
    if RETAIN_KEYS not in patch:
        return
    wanted = patch.pop(RETAIN_KEYS)
    if not server:
        if RETAIN_KEYS in out and not same(out[RETAIN_KEYS], wanted):
            raise BadStrategicPatch(
                f"{format_value(out[RETAIN_KEYS])} and {format_value(wanted)} are not deep equal: "
                "this may happen when calculating the 3-way diff patch",
            )
        out[RETAIN_KEYS] = wanted
        return
    if type(wanted) is not list:
        raise BadStrategicPatch("invalid patch format of retainKeys", "format")
    kept = {name for name in wanted if type(name) is str}
    for key, value in patch.items():
        if value is not None and not key.startswith((DELETE_ITEMS, ELEMENT_ORDER)) and key not in kept:
            raise BadStrategicPatch("invalid patch format of retainKeys", "format")
    for key in [key for key in out if key not in kept]:
        del out[key]


def _merge_ordered_lists(out: Object, patch: Object, schema: Any, *, server: bool) -> None:
    """Merge the lists that come with a `$setElementOrder/...` and put them in that order."""
    for key in [key for key in patch if key.startswith(ELEMENT_ORDER)]:
        order = patch.pop(key)
        if not server:
            if key in out and not same(out[key], order):
                raise BadStrategicPatch("invalid patch format of setElementOrder list", "format")
            out[key] = order
        if type(order) is not list:
            raise _bad_type(list, order)
        name = _directive_field(key, ELEMENT_ORDER, "invalid patch format of setElementOrder list")
        current = out.get(name, _ABSENT)
        change = patch.get(name, _ABSENT)
        for value in (current, change):
            if value is not _ABSENT and type(value) is not list:
                raise _bad_type(list, value)
        field = _field(schema, name)
        _check_order([] if change is _ABSENT else change, order, field.merge_key)
        if current is _ABSENT and change is _ABSENT:
            continue
        if change is _ABSENT:
            merged = current
        elif current is _ABSENT:
            merged = _without_directives(change)
        elif field.strategy == "merge":
            merged = _merge_list(current, change, field, deleting=False, server=server)
        else:
            merged = change
        ours, theirs = _partition(merged, order, field.merge_key)
        _same_kind([] if current is _ABSENT else current, [] if change is _ABSENT else change)
        live = [] if current is _ABSENT else _live_order(current, merged, field.merge_key)
        ordered = _in_order(ours, theirs, order, live, field.merge_key)
        out[name] = ordered if current is _ABSENT or not same(ordered, current) else current
        patch.pop(name, None)


def _live_order(current: list[JSON], merged: list[JSON], key: str) -> list[JSON]:
    """Return the order of the live list, in which new items have moved into the places of deleted ones.

    Observed on a real server: [A, E] without A and with B is [E, B], while [E] with B is [B, E].
    """
    if not key or not all(type(item) is dict for item in (*current, *merged)):
        return current
    stays, was = _position(merged, key), _position(current, key)
    kept = [item for item in current if stays(item) >= 0]
    return [*kept, *(item for item in merged if was(item) < 0)][: len(current)]


def _check_order(change: list[JSON], order: list[JSON], merge_key: str) -> None:
    """The items of the patch must appear in the order list, in that order."""
    if not change or not order:
        return
    items = (
        [item for item in change if not (type(item) is dict and item.get(DIRECTIVE) == "delete")]
        if merge_key
        else change
    )
    position = 0
    for item in items:
        if type(item) is dict and DIRECTIVE in item:
            continue
        identity = _identity(item, merge_key)
        while position < len(order) and not same(_identity(order[position], merge_key), identity):
            position += 1
        if position == len(order):
            raise BadStrategicPatch(
                f"The order in patch list:\n{format_value(change)}\n doesn't match {ELEMENT_ORDER} list:\n{format_value(order)}\n",
            )
        position += 1


def _identity(item: JSON, merge_key: str) -> JSON:
    if not merge_key:
        return item
    if type(item) is not dict:
        raise _bad_type(dict, item)
    if merge_key not in item:
        raise _no_merge_key(item, merge_key)
    return item[merge_key]


def _no_merge_key(item: Object, merge_key: str) -> BadStrategicPatch:
    return BadStrategicPatch(f"map: {format_value(item)} does not contain declared merge key: {merge_key}")


_GO_TYPES: dict[type, str] = {
    dict: "map[string]interface {}",
    list: "[]interface {}",
    str: "string",
    bool: "bool",
    int: "int64",
    float: "float64",
}


def _bad_type(expected: type, actual: JSON) -> BadStrategicPatch:
    return BadStrategicPatch(
        f"expected a {_GO_TYPES[expected]}, but received a {_GO_TYPES.get(type(actual), '%!s(<nil>)')}"
    )


def _same_kind(*lists: list[JSON]) -> type:
    """Return the one type of all items of the lists."""
    kinds = {type(item) for items in lists for item in items}
    if list in kinds:
        raise BadStrategicPatch("lists of lists are not supported", "content")
    if not kinds:
        raise BadStrategicPatch("no elements in any of the given slices")
    if len(kinds) > 1 or type(None) in kinds:
        raise BadStrategicPatch(f"list element types are not identical: {' '.join(map(format_value, lists))}")
    return kinds.pop()


def _merge_list(
    current: list[JSON], change: list[JSON], field: _Field, *, deleting: bool, server: bool
) -> list[JSON]:
    if not current and not change:
        return current
    key = ""
    if _same_kind(current, change) is dict:
        key = field.merge_key
        if not key:
            raise BadStrategicPatch("cannot merge lists without merge key")
        current_left, change = _obey_item_directives(current, change, key)
        merged = _merge_items(current_left, change, key, _items(field.schema), server=server)
        order = current_left
    elif deleting:
        marks = {_mark(item) for item in change}
        left = [item for item in current if _mark(item) not in marks]
        return current if len(left) == len(current) else left
    else:
        merged = _unique([*current, *change])
        order = current
    ours, theirs = _partition(merged, change, key)
    ordered = _in_order(ours, theirs, change, order, key)
    return current if same(ordered, current) else ordered


def _unique(items: list[JSON]) -> list[JSON]:
    seen: set[tuple[type, JSON]] = set()
    kept = []
    for item in items:
        mark = _mark(item)
        if mark not in seen:
            seen.add(mark)
            kept.append(item)
    return kept


def _obey_item_directives(current: list[JSON], change: list[JSON], key: str) -> tuple[list[JSON], list[JSON]]:
    plain = []
    gone: set[tuple[type, JSON]] = set()
    replace = False
    for item in change:
        directive = item.get(DIRECTIVE, _ABSENT)
        if directive is _ABSENT:
            plain.append(item)
        elif directive == "delete":
            if key not in item:
                raise _no_merge_key(item, key)
            gone.add(_mark(item[key]))
        elif directive == "replace":
            replace = True
        elif directive == "merge":
            raise BadStrategicPatch("merging lists cannot yet be specified in the patch")
        else:
            raise BadStrategicPatch(
                f"unknown patch type: {format_value(directive)} in map: {format_value(item)}"
            )
    if replace:
        return plain, []
    if gone:
        current = [item for item in current if key not in item or _mark(item[key]) not in gone]
    return current, plain


def _merge_items(
    current: list[JSON], change: list[JSON], key: str, schema: Any, *, server: bool
) -> list[JSON]:
    merged = list(current)
    places: dict[tuple[type, JSON], int] = {}
    for index, item in enumerate(merged):
        if key in item:
            places.setdefault(_mark(item[key]), index)
    for item in change:
        mark = _mark(_identity(item, key))
        if mark in places:
            merged[places[mark]] = _merge_map(merged[places[mark]], item, schema, server=server)
        else:
            places[mark] = len(merged)
            merged.append(item)
    return merged


def _partition(merged: list[JSON], listed: list[JSON], key: str) -> tuple[list[JSON], list[JSON]]:
    """Split into items whose identity is listed, and the others."""
    marks = {_mark(_identity(item, key)) for item in listed}
    ours: list[JSON] = []
    theirs: list[JSON] = []
    for item in merged:
        (ours if _mark(_identity(item, key)) in marks else theirs).append(item)
    return ours, theirs


def _mark(identity: JSON) -> tuple[type, JSON]:
    """Make an identity hashable, so that long lists merge in linear time; 1, 1.0 and true are three."""
    kind = type(identity)
    return kind, format_value(identity) if kind in (dict, list) else identity


def _position(items: list[JSON], key: str) -> Callable[[JSON], int]:
    """Return a function from an item to its place in `items`, or -1."""
    places: dict[tuple[type, JSON], int] = {}
    for index, item in enumerate(items):
        places.setdefault(_mark(item.get(key) if key else item), index)
    return lambda item: places.get(_mark(item.get(key) if key else item), -1)


def _sorted_by(items: list[JSON], order: list[JSON], key: str) -> list[JSON]:
    if key:
        for item in (*items, *order):
            _identity(item, key)
    place = _position(order, key)
    gone = [item for item in items if key and item.get(DIRECTIVE) == "delete"]
    kept = [item for item in items if not (key and item.get(DIRECTIVE) == "delete")]
    kept.sort(key=lambda item: place(item) if place(item) >= 0 else len(order))
    return kept + gone


def _in_order(
    ours: list[JSON], theirs: list[JSON], order: list[JSON], live: list[JSON], key: str
) -> list[JSON]:
    """Sort the patch's items by its order and the others by the live order, then interleave by the live order."""
    right = _sorted_by(ours, order, key)
    left = _sorted_by(theirs, live, key)
    place = _position(live, key)
    out: list[JSON] = []
    i = j = 0
    while i < len(left) and j < len(right):
        mine, other = place(left[i]), place(right[j])
        if 0 <= mine < other:
            out.append(left[i])
            i += 1
        else:
            out.append(right[j])
            j += 1
    return out + right[j:] + left[i:]


def _without_directives(value: JSON) -> JSON:
    """Drop objects that are nothing but a directive; `_ABSENT` if this one is."""
    if type(value) is dict:
        if DIRECTIVE in value:
            return _ABSENT
        members = {key: _without_directives(item) for key, item in value.items()}
        return {key: item for key, item in members.items() if item is not _ABSENT}
    if type(value) is list:
        items = [_without_directives(item) for item in value]
        return [item for item in items if item is not _ABSENT]
    return value


def _without_nulls(value: JSON) -> JSON:
    if type(value) is dict:
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if type(value) is list else value


# --- making ------------------------------------------------------------------------------------


class _Diff(NamedTuple):
    """What a delta is to contain."""

    changes: bool = True
    deletions: bool = True
    retain_keys: bool = False


def _diff_maps(old: Object, new: Object, schema: Any, options: _Diff) -> Object:
    patch: Object = {}
    for key, value in new.items():
        before = old.get(key, _ABSENT)
        if before is _ABSENT or type(before) is not type(value):
            if options.changes:
                patch[key] = value
        elif key == DIRECTIVE:
            if before != value:
                patch[key] = value
        elif type(value) is dict:
            _diff_object_field(patch, key, (before, value), schema, options)
        elif type(value) is list:
            _diff_list_field(patch, key, (before, value), schema, options)
        elif options.changes and not same(before, value):
            patch[key] = value
    if options.deletions:
        for key in old:
            if key not in new:
                patch[key] = None
    if options.retain_keys:
        kept = sorted(key for key, value in new.items() if value is not None)
        dropped = any(value is not None and key not in new for key, value in old.items())
        if kept and (patch or dropped):
            patch[RETAIN_KEYS] = kept
    return patch


def _diff_object_field(
    patch: Object, key: str, pair: tuple[Object, Object], schema: Any, options: _Diff
) -> None:
    before, value = pair
    field = _field(schema, key)
    if field.strategy == "replace":
        if options.changes:
            patch[key] = value
        return
    inner = _diff_maps(before, value, field.schema, options._replace(retain_keys=field.retain_keys))
    if inner:
        patch[key] = inner


def _diff_list_field(
    patch: Object, key: str, pair: tuple[list[JSON], list[JSON]], schema: Any, options: _Diff
) -> None:
    before, value = pair
    field = _field(schema, key)
    if field.strategy != "merge":
        if options.changes and not same(before, value):
            patch[key] = value
        return
    change, gone, order = _diff_lists(before, value, field, options._replace(retain_keys=field.retain_keys))
    if change:
        patch[key] = change
    if gone:
        patch[f"{DELETE_ITEMS}/{key}"] = gone
    if order:
        patch[f"{ELEMENT_ORDER}/{key}"] = order


_Lists = tuple[list[JSON], list[JSON], list[JSON]]


def _diff_lists(old: list[JSON], new: list[JSON], field: _Field, options: _Diff) -> _Lists:
    """Return the patch list, the scalars to delete and the order of elements."""
    if not old:
        return (new if options.changes else []), [], []
    if _same_kind(old, new) is not dict:
        return _diff_scalars(old, new, options)
    key = field.merge_key
    change, gone = _diff_items(old, new, key, _items(field.schema), options)
    change = _sorted_by(change, new, key) + gone
    reordered = len(old) != len(new) or any(
        not same(_identity(a, key), _identity(b, key)) for a, b in zip(old, new, strict=True)
    )
    if (options.changes and (change or reordered)) or (options.deletions and change):
        return change, [], [{key: item[key]} for item in new]
    return change, [], []


def _diff_scalars(old: list[JSON], new: list[JSON], options: _Diff) -> _Lists:
    before = {format_value(item): item for item in old}
    after = {format_value(item) for item in new}
    change = [item for item in new if format_value(item) not in before] if options.changes else []
    gone = (
        sorted((item for text, item in before.items() if text not in after), key=format_value)
        if options.deletions
        else []
    )
    if gone or (options.changes and not same(old, new)):
        return change, gone, new
    return change, gone, []


def _diff_items(
    old: list[JSON], new: list[JSON], key: str, schema: Any, options: _Diff
) -> tuple[list[JSON], list[JSON]]:
    left = sorted(((format_value(_identity(item, key)), item) for item in old), key=lambda pair: pair[0])
    right = sorted(((format_value(_identity(item, key)), item) for item in new), key=lambda pair: pair[0])
    change: list[JSON] = []
    gone: list[JSON] = []
    i = j = 0
    while i < len(left) or j < len(right):
        if i < len(left) and j < len(right) and left[i][0] == right[j][0]:
            inner = _diff_maps(left[i][1], right[j][1], schema, options)
            if inner:
                change.append({**inner, key: right[j][1][key]})
            i += 1
            j += 1
        elif i == len(left) or (j < len(right) and left[i][0] > right[j][0]):
            if options.changes:
                change.append(right[j][1])
            j += 1
        else:
            if options.deletions:
                gone.append({key: left[i][1][key], DIRECTIVE: "delete"})
            i += 1
    return change, gone
