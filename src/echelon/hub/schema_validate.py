"""Words the causes why an object does not satisfy its schema, as kube-apiserver does.

What it decides: the list of `Cause`s, with the reasons, messages and field paths
of a Status; and which of them an update does not have to answer for because the
old object had the same value there (ratcheting).

What it must never do: run on the usual path; `schema_ok` says first whether there
is anything to word. Changing the object is not its business either.

The order of checks at one value follows kube-apiserver: type, anyOf/oneOf/allOf/
not, string, format, number, items, enum, properties, required. The number of
checks that passed selects which branch of a failed anyOf is explained.
"""

from __future__ import annotations

import msgspec

from echelon.hub import regex
from echelon.hub.gotext import bad_value, number, quote
from echelon.hub.gotext import json_text as go_json
from echelon.hub.schema_formats import string_format
from echelon.hub.schema_node import JSON, MISSING, Schema
from echelon.hub.schema_ok import (
    allowed_types,
    effective_format,
    fits_type,
    frozen,
    is_integral,
    is_multiple,
)

NO_FIELD = "<nil>"
"""How kube-apiserver prints the path of a cause that has none."""

BLOCKING = frozenset(
    (
        "FieldValueNotSupported",
        "FieldValueRequired",
        "FieldValueTooLong",
        "FieldValueTooMany",
        "FieldValueTypeInvalid",
    )
)
"""Reasons after which CEL rules are not run: the object may not have the types they were checked for."""


class Cause(msgspec.Struct, frozen=True, omit_defaults=True):
    """One entry of `details.causes` of a Status."""

    reason: str
    message: str
    field: str


Found = dict[str, Cause]
"""Causes by the text that makes them one: the same text twice is reported once."""


class _Place(msgspec.Struct):
    """Where a value is: its path, the spine of the schema there, and its old value."""

    path: str
    spine: Schema | None
    old: JSON
    prefix: str

    def field(self, suffix: str = "") -> str:
        name = (self.path + suffix).removeprefix(".")
        if not name:
            return self.prefix or NO_FIELD
        return f"{self.prefix}.{name}" if self.prefix else name


def explain(schema: Schema, value: JSON, old: JSON = MISSING, prefix: str = "") -> list[Cause]:
    """Return the causes of a value; `prefix` is the path above a part that is validated alone."""
    found, _ = _ratcheted(schema, value, _Place("", schema, old, prefix))
    return list(found.values())


def _ratcheted(schema: Schema, value: JSON, place: _Place) -> tuple[Found, int]:
    found, count = _check(schema, value, place)
    if found and place.old is not MISSING and same(place.spine, value, place.old):
        return {}, count
    return found, count


def _check(schema: Schema, value: JSON, place: _Place) -> tuple[Found, int]:
    found: Found = {}
    count = _check_type(schema, value, place, found)
    if value is None:
        _check_enum(schema, value, place, found)
        return found, count
    count += _check_composed(schema, value, place, found) + 1
    kind = value.__class__
    if kind is str:
        count += _check_string(schema, value, place, found)
    elif kind is int or kind is float:
        _check_number(schema, value, place, found)
        count += 2
    elif kind is list:
        count += _check_list(schema, value, place, found) + 2
    _check_enum(schema, value, place, found)
    count += 1
    if kind is dict:
        count += _check_object(schema, value, place, found) + 1
    return found, count + 1


def _invalid(found: Found, place: _Place, value: JSON, text: str) -> None:
    found.setdefault(
        text, Cause("FieldValueInvalid", f"Invalid value: {bad_value(value)}: {text}", place.field())
    )


def _plain(found: Found, place: _Place, text: str) -> None:
    """Add a cause that kube-apiserver cannot attribute to a field."""
    found.setdefault(text, Cause("FieldValueInvalid", f'Invalid value: "": {text}', place.prefix or NO_FIELD))


_KINDS = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    list: "array",
    dict: "object",
    type(None): "null",
}

_NATIVE_FORMATS = {"integer": "int64", "number": "float64"}


def _check_type(schema: Schema, value: JSON, place: _Place, found: Found) -> int:
    """Check the JSON type; return the number of passed checks."""
    types = allowed_types(schema)
    if types is None:
        return 0
    kind = _KINDS[value.__class__]
    if kind == "integer" and not is_integral(value):
        kind = "number"  # beyond 64 bits it is a float to kube-apiserver
    allowed = (
        kind in types
        or (kind == "integer" and "number" in types)
        or (kind == "number" and "integer" in types and is_integral(value))
        or (kind == "null" and schema.nullable)
    )
    if allowed:
        return 1 if value is None else 2
    expected, shown = ",".join(types), kind
    if kind not in ("string", "array", "null") and effective_format(schema):
        expected, shown = effective_format(schema), _NATIVE_FORMATS.get(kind, "")
    text = f"{place.path} in body must be of type {expected}: {quote(shown)}"
    message = f"Invalid value: {quote(shown)}: {text}"
    found.setdefault(text, Cause("FieldValueTypeInvalid", message, place.field()))
    return 0 if value is None else 1


def _merge(found: Found, more: Found) -> None:
    for text, cause in more.items():
        found.setdefault(text, cause)


def _check_composed(schema: Schema, value: JSON, place: _Place, found: Found) -> int:
    """Check anyOf, oneOf, allOf and not; return the number of passed checks.

    Branches answer for unchanged values too: kube-apiserver does not ratchet inside them.
    """
    count = 0
    if place.old is not MISSING:
        place = _Place(place.path, place.spine, MISSING, place.prefix)
    if schema.any_of:
        count += _check_alternatives(schema.any_of, value, place, found, exclusive=False)
    if schema.one_of:
        count += _check_alternatives(schema.one_of, value, place, found, exclusive=True)
    if schema.all_of:
        passed = 0
        for branch in schema.all_of:
            below, below_count = _check(branch, value, place)
            passed += not below
            count += below_count
            _merge(found, below)
        if passed != len(schema.all_of):
            note = "" if passed else ". None validated"
            _plain(found, place, f"{quote(place.path)} must validate all the schemas (allOf){note}")
    if schema.not_ is not None and not _check(schema.not_, value, place)[0]:
        _plain(found, place, f"{quote(place.path)} must not validate the schema (not)")
    return count + 1


def _check_alternatives(
    branches: tuple[Schema, ...],
    value: JSON,
    place: _Place,
    found: Found,
    *,
    exclusive: bool,
) -> int:
    best: tuple[Found, int] | None = None
    valid: list[int] = []
    for branch in branches:
        below, count = _check(branch, value, place)
        if not below:
            valid.append(count)
            best = None
            if not exclusive:
                break
        elif not valid and (best is None or count > best[1]):
            best = (below, count)
    if valid and (not exclusive or len(valid) == 1):
        return valid[0]
    if exclusive:
        note = f"Found {len(valid)} valid alternatives" if valid else "Found none valid"
        _plain(found, place, f"{quote(place.path)} must validate one and only one schema (oneOf). {note}")
    else:
        _plain(found, place, f"{quote(place.path)} must validate at least one schema (anyOf)")
    if best is None:
        return 0
    _merge(found, best[0])
    return best[1]


def _check_string(schema: Schema, value: str, place: _Place, found: Found) -> int:
    """Check length, pattern and format; return the number of passed checks."""
    path = place.path
    if schema.max_length is not None and len(value) > schema.max_length:
        unit = "byte" if schema.max_length == 1 else "bytes"
        text = f"{path} in body should be at most {schema.max_length} chars long"
        message = f"Too long: may not be more than {schema.max_length} {unit}"
        found.setdefault(text, Cause("FieldValueTooLong", message, place.field()))
    elif schema.min_length is not None and len(value) < schema.min_length:
        _invalid(found, place, value, f"{path} in body should be at least {schema.min_length} chars long")
    elif schema.pattern and not regex.search(schema.pattern)(value):
        _invalid(found, place, value, f"{path} in body should match '{schema.pattern}'")
    name = effective_format(schema)
    has_format = string_format(name)
    if has_format is None:
        return 1
    if not has_format(value):
        text = f"{path} in body must be of type {name}: {quote(value)}"
        message = f"Invalid value: {quote(value)}: {text}"
        found.setdefault(text, Cause("FieldValueTypeInvalid", message, place.field()))
    return 2


def _check_number(schema: Schema, value: float, place: _Place, found: Found) -> None:
    path = place.path
    if not fits_type(schema, value):
        name = effective_format(schema)
        kind = f"{schema.type} with format {name}" if name else f"{schema.type} (default format)"
        _plain(found, place, f"Checked value must be of type {kind} in {path}")
    if schema.multiple_of is not None and not is_multiple(value, schema.multiple_of):
        _invalid(found, place, value, f"{path} in body should be a multiple of {number(schema.multiple_of)}")
    low, high = schema.minimum, schema.maximum
    if low is not None and (value <= low if schema.exclusive_minimum else value < low):
        words = "greater than" if schema.exclusive_minimum else "greater than or equal to"
        _invalid(found, place, value, f"{path} in body should be {words} {_bound(low, value)}")
    if high is not None and (value >= high if schema.exclusive_maximum else value > high):
        words = "less than" if schema.exclusive_maximum else "less than or equal to"
        _invalid(found, place, value, f"{path} in body should be {words} {_bound(high, value)}")


def _bound(bound: float, value: float) -> str:
    return str(int(bound)) if value.__class__ is int else number(float(bound))


def _check_list(schema: Schema, value: list[JSON], place: _Place, found: Found) -> int:
    count = 0
    if schema.items is not None:
        spine = place.spine.items if place.spine is not None else None
        old_items = old_item_finder(place.spine, place.old)
        for index, item in enumerate(value):
            below_place = _Place(f"{place.path}[{index}]", spine, old_items(item), place.prefix)
            below, below_count = _ratcheted(schema.items, item, below_place)
            count += below_count
            _merge(found, below)
    size = len(value)
    if schema.min_items is not None and size < schema.min_items:
        _invalid(found, place, size, f"{place.path} in body should have at least {schema.min_items} items")
    if schema.max_items is not None and size > schema.max_items:
        text = f"{place.path} in body should have at most {schema.max_items} items"
        found.setdefault(text, Cause("FieldValueTooMany", too_many(size, schema.max_items), place.field()))
    if schema.unique_items and len({frozen(item) for item in value}) < size:
        text = f"{place.path} in body shouldn't contain duplicates"
        found.setdefault(text, Cause("FieldValueInvalid", f'Invalid value: "": {text}', place.field()))
    return count


def too_many(size: int, most: int) -> str:
    """Word the cause "Too many"."""
    return f"Too many: {size}: must have at most {most} item{'' if most == 1 else 's'}"


def _check_enum(schema: Schema, value: JSON, place: _Place, found: Found) -> None:
    if schema.enum is None:
        return
    comparable = float(value) if value.__class__ is int else value
    for allowed in schema.enum:
        if allowed is not None and frozen(float(allowed) if allowed.__class__ is int else allowed) == frozen(
            comparable
        ):
            return
    names = ", ".join(quote(item if item.__class__ is str else go_json(item)) for item in schema.enum)
    text = f"{place.path} in body should be one of [{names}]"
    message = f"Unsupported value: {bad_value(value)}: supported values: {names}"
    found.setdefault(text, Cause("FieldValueNotSupported", message, place.field()))


def _check_object(schema: Schema, value: dict[str, JSON], place: _Place, found: Found) -> int:
    count, size, path = 0, len(value), place.path
    if schema.min_properties is not None and size < schema.min_properties:
        _invalid(
            found, place, size, f"{path} in body should have at least {schema.min_properties} properties"
        )
    if schema.max_properties is not None and size > schema.max_properties:
        text = f"{path} in body should have at most {schema.max_properties} properties"
        found.setdefault(
            text, Cause("FieldValueTooMany", too_many(size, schema.max_properties), place.field())
        )
    if isinstance(schema.additional, Schema):
        for name, item in value.items():
            if name not in schema.properties:
                below, below_count = _ratcheted(
                    schema.additional, item, _below(place, name, f"{path}.{name}")
                )
                count += below_count
                _merge(found, below)
    for name, child in schema.properties.items():
        if name in value:
            below_path = f"{path}.{name}" if path else name
            below, below_count = _ratcheted(child, value[name], _below(place, name, below_path))
            count += below_count
            _merge(found, below)
    for name in schema.required:
        if name not in value:
            text = f"{path}.{name} in body is required"
            found.setdefault(text, Cause("FieldValueRequired", "Required value", place.field(f".{name}")))
    return count


def _below(place: _Place, name: str, path: str) -> _Place:
    spine = None
    if place.spine is not None:
        spine = place.spine.properties.get(name)
        if spine is None and isinstance(place.spine.additional, Schema):
            spine = place.spine.additional
    old = MISSING
    if (
        place.old.__class__ is dict
        and spine is not None
        and not (not place.path and name in ("apiVersion", "kind"))
    ):
        old = place.old.get(name, MISSING)
    return _Place(path, spine, old, place.prefix)


_KEY_CLASSES = frozenset((str, int, float, bool))


class old_item_finder:  # noqa: N801 - used as the function it stands for
    """Finds the old item with the same keys as a new one, in lists of type map.

    An item that lacks a key, or whose key is no scalar, corresponds to nothing.
    """

    def __init__(self, schema: Schema | None, old: JSON) -> None:
        self.keys = schema.list_map_keys if schema is not None and schema.list_type == "map" else ()
        self.by_key: dict[object, JSON] = {}
        if self.keys and old.__class__ is list:
            for item in old:
                key = self._key(item)
                if key is not None:
                    self.by_key.setdefault(key, item)

    def _key(self, item: JSON) -> object:
        if item.__class__ is not dict:
            return None
        key = [item.get(name) for name in self.keys]
        if not all(part.__class__ in _KEY_CLASSES for part in key):
            return None
        return tuple((part.__class__, part) for part in key)

    def __call__(self, item: JSON) -> JSON:
        """Return the old item, or MISSING."""
        return self.by_key.get(self._key(item), MISSING) if self.by_key else MISSING


def same(schema: Schema | None, new: JSON, old: JSON) -> bool:
    """Tell whether a value is unchanged; items of map lists may have changed places.

    An object holding a field without a schema (below `metadata`, or preserved though
    unknown) never counts as unchanged: kube-apiserver cannot correlate such fields.
    """
    if new.__class__ is not old.__class__:
        return False
    if new.__class__ is dict:
        if new.keys() != old.keys():
            return False
        place = _Place(".", schema, old, "")
        for name, item in new.items():
            spine = _below(place, name, "").spine
            if spine is None or not same(spine, item, old[name]):
                return False
        return True
    if new.__class__ is list:
        if len(new) != len(old):
            return False
        if schema is not None and schema.list_type == "map" and new:
            finder = old_item_finder(schema, old)
            return all(
                found is not MISSING and same(schema.items, item, found)
                for item, found in ((item, finder(item)) for item in new)
            )
        return bool(frozen(new) == frozen(old))
    return bool(new == old)
