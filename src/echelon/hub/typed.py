"""Walks over objects with their shape: compare, list the fields, merge, remove.

What it decides: which fields differ between two objects, which fields an applied
configuration speaks about, and what comes out when a configuration is merged
into an object or fields are taken out of it.

What it must never do: change an object or copy what stays the same. All results
share subtrees with their inputs, and identical subtrees are never entered;
that makes tracking a one-field change cost microseconds.

Stable signatures:
- `compare(old, new, shape) -> (touched, removed)`: fields added or changed, and fields gone.
- `fields_of(config, shape) -> FieldSet`, raises `Mistyped` for what the schema does not know.
- `merge(live, config, shape) -> JSON`; `remove(value, fields, shape) -> JSON`.
"""

from __future__ import annotations

from typing import Any

from echelon.hub.fieldset import LEAF, FieldSet, element_text, key_element, value_element
from echelon.hub.shape import ATOMIC, MAP, OBJECT_META, SET, Shape
from echelon.rules.merge import same

JSON = Any
Object = dict[str, Any]

ABSENT: Any = object()

UNTRACKED_ROOT = frozenset({"apiVersion", "kind"})
UNTRACKED_METADATA = frozenset(
    {
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    }
)
"""Fields nobody owns."""


class Mistyped(ValueError):
    """The value does not fit the schema; `errors` are the lines of the API server's message."""

    def __init__(self, errors: list[str]) -> None:
        super().__init__(
            errors[0] if len(errors) == 1 else "\n".join(["errors:", *(f"  {text}" for text in errors)])
        )
        self.errors = errors


_NULL_ELEMENT = "associative list without keys has an element that's an explicit null"


class _NoIdentity(ValueError):
    """A list item that cannot be told from the others."""


def is_granular(value: JSON, shape: Shape) -> bool:
    """Tell whether the members of a value have owners of their own."""
    if type(value) is dict:
        return bool(value) and not shape.map_atomic
    return type(value) is list and bool(value) and shape.list_kind != ATOMIC


def item_element(item: JSON, shape: Shape) -> str:
    """Name one item of a set or keyed list; `shape` is the list's."""
    if shape.list_kind != MAP:
        if type(item) is dict:
            raise _NoIdentity("associative list without keys has an element that's a map type")
        if type(item) is list:
            raise _NoIdentity("not supported: associative list with lists as elements")
        if item is None:
            raise _NoIdentity(_NULL_ELEMENT)
        return value_element(item)
    if item is None:
        raise _NoIdentity("associative list with keys may not have a null element")
    if type(item) is not dict:
        raise _NoIdentity("associative list with keys may not have non-map elements")
    fields = []
    for key in shape.keys:
        value = item[key] if key in item else shape.item.key_default(key)
        if value is not None or key in item:
            fields.append((key, value))
    if not fields:
        names = " ".join(f'"{key}"' for key in shape.keys)
        raise _NoIdentity(
            f"associative list with keys has an element that omits all key fields [{names}] (and doesn't have default values for any key fields)",
        )
    return key_element(fields)


def _grouped(items: list[JSON], shape: Shape) -> dict[str, list[JSON]]:
    groups: dict[str, list[JSON]] = {}
    for item in items:
        groups.setdefault(item_element(item, shape), []).append(item)
    return groups


# --- compare -----------------------------------------------------------------------------------


def compare(old: Object, new: Object, shape: Shape) -> tuple[FieldSet, FieldSet]:
    """Return the fields of `new` that are added or changed, and those of `old` that are gone."""
    touched: FieldSet = {}
    removed: FieldSet = {}
    for key in (*new, *(key for key in old if key not in new)):
        before = old.get(key, ABSENT)
        after = new.get(key, ABSENT)
        if before is after or key in UNTRACKED_ROOT:
            continue
        if key == "metadata":
            _compare_metadata(before, after, shape.field(key), touched, removed)
        else:
            _compare_member(key, before, after, shape, touched, removed)
    return touched, removed


def _compare_metadata(before: JSON, after: JSON, shape: Shape, touched: FieldSet, removed: FieldSet) -> None:
    old = before if type(before) is dict else {}
    new = after if type(after) is dict else {}
    inner_touched: FieldSet = {}
    inner_removed: FieldSet = {}
    shape = shape if shape.named else OBJECT_META
    for key in {**old, **new}:
        before = old.get(key, ABSENT)
        after = new.get(key, ABSENT)
        if before is not after and key not in UNTRACKED_METADATA:
            _compare_member(key, before, after, shape, inner_touched, inner_removed)
    if inner_touched:
        touched["f:metadata"] = inner_touched
    if inner_removed:
        removed["f:metadata"] = inner_removed


def _compare_member(
    key: str, before: JSON, after: JSON, shape: Shape, touched: FieldSet, removed: FieldSet
) -> None:
    child = shape.field(key)
    if before is ABSENT:
        before = shape.zero(key, child, ABSENT)
        if before is ABSENT:
            touched["f:" + key] = _whole(after, child)
            return
    elif after is ABSENT:
        after = shape.zero(key, child, ABSENT)
        if after is ABSENT:
            removed["f:" + key] = _whole(before, child)
            return
    changed, gone = _compare(before, after, child)
    if changed is not None:
        touched["f:" + key] = changed
    if gone is not None:
        removed["f:" + key] = gone


_Pair = tuple[FieldSet | None, FieldSet | None]


def _compare(old: JSON, new: JSON, shape: Shape) -> _Pair:
    if type(old) is dict and type(new) is dict:
        if shape.map_atomic or not (old or new):
            return (None if same(old, new) else LEAF), None
        touched: FieldSet = {}
        removed: FieldSet = {}
        for key, after in new.items():
            before = old.get(key, ABSENT)
            if before is not after:
                _compare_member(key, before, after, shape, touched, removed)
        for key, before in old.items():
            if key not in new:
                _compare_member(key, before, ABSENT, shape, touched, removed)
        return touched or None, removed or None
    if type(old) is list and type(new) is list:
        if shape.list_kind == ATOMIC or not (old or new):
            return (None if same(old, new) else LEAF), None
        return _compare_lists(old, new, shape)
    if not is_granular(old, shape) and not is_granular(new, shape):
        return (None if same(old, new) else LEAF), None
    return _compare_kinds(old, new, shape)


def _compare_kinds(old: JSON, new: JSON, shape: Shape) -> _Pair:
    """Compare values of different JSON types, at least one with members of its own. Null takes the other's type."""
    gone = _members(old, shape) if is_granular(old, shape) else None
    come = _members(new, shape) if is_granular(new, shape) else LEAF
    if new is None:
        return None, gone
    if come and old is not None:
        come = {".": LEAF, **come}
    return come, gone


def _compare_lists(old: list[JSON], new: list[JSON], shape: Shape) -> _Pair:
    try:
        before = _grouped(old, shape)
        after = _grouped(new, shape)
    except _NoIdentity:
        return (None if same(old, new) else LEAF), None
    touched: FieldSet = {}
    removed: FieldSet = {}
    for element in {**before, **after}:
        ours = before.get(element, ())
        theirs = after.get(element, ())
        if len(ours) == 1 and len(theirs) == 1:
            if ours[0] is not theirs[0]:
                changed, gone = _compare(ours[0], theirs[0], shape.item)
                if changed is not None:
                    touched[element] = changed
                if gone is not None:
                    removed[element] = gone
        else:
            _compare_repeated(element, list(ours), list(theirs), shape, touched, removed)
    return touched or None, removed or None


def _compare_repeated(
    element: str, ours: list[JSON], theirs: list[JSON], shape: Shape, touched: FieldSet, removed: FieldSet
) -> None:
    """Compare items with one identity where a side has none, or more than one: repeated items are one value."""
    if len(ours) > 1 and len(theirs) > 1:
        if not same(ours, theirs):
            touched[element] = LEAF
        return
    if theirs:
        touched[element] = _whole(theirs[0], shape.item) if len(theirs) == 1 else LEAF
    if ours:
        removed[element] = _whole(ours[0], shape.item) if len(ours) == 1 else LEAF


def _members(value: JSON, shape: Shape) -> FieldSet:
    """List everything inside a granular value."""
    out: FieldSet = {}
    if type(value) is dict:
        for key, item in value.items():
            out["f:" + key] = _whole(item, shape.field(key))
        return out
    try:
        groups = _grouped(value, shape)
    except _NoIdentity:
        return {}
    for element, items in groups.items():
        out[element] = _whole(items[0], shape.item) if len(items) == 1 else LEAF
    return out


def _whole(value: JSON, shape: Shape) -> FieldSet:
    """List a value that came or went as a whole: itself and everything inside."""
    if is_granular(value, shape):
        inner = _members(value, shape)
        if inner:
            return {".": LEAF, **inner}
    return LEAF


# --- fields of a configuration -----------------------------------------------------------------

_Errors = list[str] | None
"""Where misfits are noted; None when the value was accepted before."""


def fields_of(config: Object, shape: Shape, *, check: bool = True) -> FieldSet:
    """List the fields a configuration speaks about; without `check`, misfits are passed over."""
    errors: list[str] | None = [] if check else None
    out = _config_members(config, shape, "", errors)
    if errors:
        raise Mistyped(errors)
    metadata = out.get("f:metadata")
    if metadata:
        kept = {
            key: child for key, child in metadata.items() if key[2:] not in UNTRACKED_METADATA and key != "."
        }
        out = (
            {**out, "f:metadata": kept}
            if kept
            else {key: child for key, child in out.items() if key != "f:metadata"}
        )
    else:
        out.pop("f:metadata", None)
    for key in UNTRACKED_ROOT:
        out.pop("f:" + key, None)
    return out


def _config_members(config: Object, shape: Shape, path: str, errors: _Errors) -> FieldSet:
    out: FieldSet = {}
    for key, value in config.items():
        known = key in shape.named
        if not known and shape.rigid and errors is not None:
            errors.append(f"{path}.{key}: field not declared in schema")
            break
        inner = _config_value(value, shape.field(key), f"{path}.{key}", errors)
        if inner is None:  # granular: a named field is there with its members, a map key is an entry itself
            continue
        if inner and not known:
            inner = {".": LEAF, **inner}
        out["f:" + key] = inner
    return out


def _config_value(value: JSON, shape: Shape, path: str, errors: _Errors) -> FieldSet | None:
    """Return the entry of one value: a leaf, its members, or None where a list without items says nothing."""
    if value is None:
        return LEAF
    if errors is not None:
        problem = shape.misfit(value)
        if problem is not None:
            errors.append(f"{path}: {problem}")
            return LEAF
    if type(value) is dict:
        if shape.map_atomic:
            if errors is not None:
                _check_atomic(value, shape, path, errors)
            return LEAF
        return (_config_members(value, shape, path, errors) or None) if value else LEAF
    if type(value) is list:
        if shape.list_kind == ATOMIC:
            if errors is not None:
                _check_atomic(value, shape, path, errors)
            return LEAF
        return _config_items(value, shape, path, errors) if value else None
    return LEAF


def _config_items(items: list[JSON], shape: Shape, path: str, errors: _Errors) -> FieldSet:
    out: FieldSet = {}
    for index, item in enumerate(items):
        try:
            element = item_element(item, shape)
        except _NoIdentity as error:
            if errors is not None:
                errors.append(f"{path}: element {index}: {error}")
            return out
        if element in out:
            if errors is not None:
                errors.append(f"{path}: duplicate entries for key {element_text(element)}")
            out[element] = LEAF
            continue
        inner = _config_value(item, shape.item, path + element_text(element), errors)
        out[element] = {".": LEAF, **inner} if inner else LEAF
    return out


def _check_atomic(value: JSON, shape: Shape, path: str, errors: list[str]) -> None:
    """Look for misfits inside a value that is one for ownership."""
    if type(value) is dict:
        for key, item in value.items():
            if shape.rigid and key not in shape.named:
                errors.append(f"{path}.{key}: field not declared in schema")
                return
            _check_inside(item, shape.field(key), f"{path}.{key}", errors)
    elif type(value) is list:
        seen: set[str] = set()
        for item in value if shape.list_kind == SET else ():
            if item is None:
                errors.append(f"{path}: element {len(seen)}: {_NULL_ELEMENT}")
            if type(item) is str and item in seen:
                errors.append(f"{path}: duplicate entries for key {element_text(value_element(item))}")
            seen.add(item if type(item) is str else "")
        for index, item in enumerate(value):
            _check_inside(item, shape.item, f"{path}[{index}]", errors)


def _check_inside(item: JSON, shape: Shape, path: str, errors: list[str]) -> None:
    if item is None:
        return  # the decoder makes it the empty value
    problem = shape.misfit(item)
    if problem is not None:
        errors.append(f"{path}: {problem}")
    else:
        _check_atomic(item, shape, path, errors)


# --- merge -------------------------------------------------------------------------------------


def merge(live: JSON, config: JSON, shape: Shape) -> JSON:
    """Merge a configuration into a live value: what it does not mention stays."""
    if type(live) is dict and type(config) is dict and not shape.map_atomic:
        return _merge_maps(live, config, shape) if config else live
    if type(live) is list and type(config) is list and shape.list_kind != ATOMIC:
        return _merge_lists(live, config, shape) if live and config else (live or config or live)
    if config is None and is_granular(live, shape):
        return live
    return live if same(live, config) else config


def _merge_maps(live: Object, config: Object, shape: Shape) -> Object:
    out = live
    for key, wanted in config.items():
        current = live.get(key, ABSENT)
        merged = wanted if current is ABSENT else merge(current, wanted, shape.field(key))
        if merged is not current:
            out = dict(live) if out is live else out
            out[key] = merged
    return out


def _merge_lists(live: list[JSON], config: list[JSON], shape: Shape) -> list[JSON]:
    """Merge by identity: the configuration's order wins, items only the live list has keep their place between."""
    try:
        ours = [(item_element(item, shape), item) for item in live]
        theirs = [(item_element(item, shape), item) for item in config]
    except _NoIdentity:
        return config
    current: dict[str, JSON] = {}
    for element, item in ours:
        current[element] = ABSENT if element in current else item  # repeated items merge with nothing
    wanted = dict(theirs)
    merged = [item for _, item in _interleave(ours, theirs, current, wanted, shape)]
    unchanged = len(merged) == len(live) and all(new is old for new, old in zip(merged, live, strict=True))
    return live if unchanged else merged


def _interleave(
    ours: list[tuple[str, JSON]],
    theirs: list[tuple[str, JSON]],
    current: dict[str, JSON],
    wanted: dict[str, JSON],
    shape: Shape,
) -> list[tuple[str, JSON]]:
    out: list[tuple[str, JSON]] = []
    shared = [element for element, _ in theirs if element in current]
    next_shared = 0
    done: set[str] = set()

    def take(element: str) -> None:
        before = current.get(element, ABSENT)
        after = wanted[element]
        out.append((element, after if before is ABSENT else merge(before, after, shape.item)))
        done.add(element)

    left = right = 0
    while left < len(ours) or right < len(theirs):
        if left < len(ours):
            element, item = ours[left]
            if right < len(theirs):
                if element == theirs[right][0]:
                    take(element)
                    left += 1
                    right += 1
                    next_shared += 1
                    continue
                if element in wanted and next_shared < len(shared) and shared[next_shared] != element:
                    left += 1  # it has its turn when the configuration comes to it
                    continue
            if element not in wanted:
                out.append((element, item))
                left += 1
                continue
            if element in done:
                left += 1
        if right < len(theirs):
            element = theirs[right][0]
            take(element)
            right += 1
            if next_shared < len(shared) and shared[next_shared] == element:
                next_shared += 1
    return out


# --- remove ------------------------------------------------------------------------------------


def remove(value: JSON, fields: FieldSet, shape: Shape) -> JSON:
    """Take members out of a value; `ABSENT` when nothing is left of it."""
    if type(value) is dict and value:
        return _remove_from_map(value, fields, shape)
    if type(value) is list and value:
        return _remove_from_list(value, fields, shape)
    return ABSENT if type(value) in (dict, list) else value


def _is_member(node: FieldSet) -> bool:
    return not node or "." in node


def _remove_from_map(value: Object, fields: FieldSet, shape: Shape) -> JSON:
    if shape.map_atomic:
        return ABSENT
    out = value
    for element, node in fields.items():
        key = element[2:]
        if key not in value or not element.startswith("f:"):
            continue
        left = ABSENT if _is_member(node) else remove(value[key], node, shape.field(key))
        if left is value[key]:
            continue
        out = dict(value) if out is value else out
        if _is_member(node):
            del out[key]
        else:
            out[key] = None if left is ABSENT else left
    return out or ABSENT


def _remove_from_list(value: list[JSON], fields: FieldSet, shape: Shape) -> JSON:
    if shape.list_kind == ATOMIC:
        return ABSENT
    out: list[JSON] = []
    for item in value:
        node = fields.get(item_element(item, shape))
        if node is None:
            out.append(item)
        elif not _is_member(node):
            left = remove(item, node, shape.item)
            out.append(None if left is ABSENT else left)
    if len(out) == len(value) and all(new is old for new, old in zip(out, value, strict=True)):
        return value
    return out or ABSENT
