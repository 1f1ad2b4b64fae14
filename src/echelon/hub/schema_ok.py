"""Answers the usual case fast: whether a whole value is valid.

What it decides: yes or no. Nearly every object is valid, so the hub asks this
first; only on "no" does `schema_validate` walk again and word the causes.

What it must never do: accept what `schema_validate` refuses or the reverse (a
property test compares them), build paths, or follow CEL rules (`schema_cel`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import msgspec

from echelon.hub import regex
from echelon.hub.gotext import INT64_MAX, INT64_MIN
from echelon.hub.schema_formats import string_format
from echelon.hub.schema_node import JSON, MISSING, Schema
from echelon.rules.quantity import InvalidQuantity, parse_quantity

Check = Callable[[JSON], bool]

_RANGES = {"int32": (-(2**31), 2**31 - 1), "int64": (INT64_MIN, INT64_MAX)}
MAX_FLOAT32 = 3.4028234663852886e38
MAX_JSON_INTEGER = 2**53 - 1
"""Floats beyond this do not count as integers: they may stand for several."""


def is_ok(schema: Schema, value: JSON) -> bool:
    """Tell whether a value satisfies its schema, CEL rules apart."""
    return (schema.ok_fn or _compiled(schema))(value)


def is_ok_since(schema: Schema, value: JSON, old: JSON) -> bool:
    """Tell the same of a value that replaces another, without looking again at what is the very same object.

    Patches share what they do not touch, and what is unchanged does not have to answer.
    """
    if value is old:
        return True
    if value.__class__ is not dict or old.__class__ is not dict or not _is_plain(schema):
        return is_ok(schema, value)
    for name in schema.required:
        if name not in value:
            return False
    properties = schema.properties
    for name, item in value.items():
        was = old.get(name, MISSING)
        if item is not was:
            child = properties.get(name)
            if child is not None and not is_ok_since(child, item, was):
                return False
    return True


def _is_plain(schema: Schema) -> bool:
    """Tell whether an object is valid if each of its properties is."""
    return (
        schema.type == "object"
        and schema.additional is None
        and schema.max_properties is None
        and schema.min_properties is None
        and not schema.embedded_resource
        and not (schema.any_of or schema.one_of or schema.all_of or schema.not_ or schema.enum)
    )


def _compiled(schema: Schema) -> Check:
    """Return the check of a schema; a recursive one finds itself through the node, at call time."""
    if schema.ok_fn is None:
        compiled: list[Check] = []
        schema.ok_fn = lambda value: compiled[0](value)  # noqa: PLW0108 - the list is filled below
        compiled.append(_make(schema))
        schema.ok_fn = compiled[0]
    return schema.ok_fn


def _make(schema: Schema) -> Check:
    by_kind: dict[type, Check] = {}
    types = allowed_types(schema)
    if types is None or "string" in types:
        by_kind[str] = _string_check(schema)
    if types is None or "boolean" in types:
        by_kind[bool] = _always
    if types is None or "integer" in types or "number" in types:
        by_kind[int] = by_kind[float] = number_check(schema)
    if types is None or "array" in types:
        by_kind[list] = _list_check(schema)
    if types is None or "object" in types:
        by_kind[dict] = _object_check(schema)
    if types is None or schema.nullable:
        by_kind[type(None)] = _always
    rest = _composed(schema)
    if rest is None and len(by_kind) == 1:
        ((kind, only),) = by_kind.items()
        return lambda value: value.__class__ is kind and only(value)

    def check(value: JSON) -> bool:
        by = by_kind.get(value.__class__)
        return by is not None and by(value) and (rest is None or rest(value))

    return check


def allowed_types(schema: Schema) -> tuple[str, ...] | None:
    """Return the JSON types a schema allows, or None for all."""
    if schema.int_or_string:
        return ("integer", "string")
    return (schema.type,) if schema.type else None


def _always(_: JSON) -> bool:
    return True


def effective_format(schema: Schema) -> str:
    """Return the format if kube-apiserver checks it on this type, else the empty string."""
    if schema.type == "integer":
        return schema.format if schema.format in _RANGES else ""
    if schema.type == "number":
        return schema.format if schema.format in ("float", "double") else ""
    if schema.type in (None, "string") and string_format(schema.format) is not None:
        return schema.format
    return ""


def _string_check(schema: Schema) -> Check:
    if schema.int_or_string and schema.format == "quantity":
        return _is_quantity
    low, high = schema.min_length, schema.max_length
    matches = regex.search(schema.pattern) if schema.pattern else None
    has_format = string_format(effective_format(schema))
    if low is None and high is None and matches is None and has_format is None:
        return _always
    if low is None and high is None and (matches is None or has_format is None):
        only = matches or has_format
        assert only is not None
        return only

    def check(value: JSON) -> bool:
        size = len(value)
        return (
            (low is None or size >= low)
            and (high is None or size <= high)
            and (matches is None or matches(value))
            and (has_format is None or has_format(value))
        )

    return check


def _is_quantity(value: JSON) -> bool:
    try:
        parse_quantity(value)
    except InvalidQuantity:
        return False
    return True


def is_integral(value: float) -> bool:
    """Tell whether a JSON number counts as an integer."""
    if value.__class__ is int:
        return INT64_MIN <= value <= INT64_MAX
    return value.is_integer() and abs(value) <= MAX_JSON_INTEGER


def fits_type(schema: Schema, value: float) -> bool:
    """Tell whether a number is within the range that its type and format can hold."""
    if schema.type == "integer":
        if value.__class__ is float and not value.is_integer():
            return False
        low, high = _RANGES.get(schema.format, _RANGES["int64"])
        return low <= value <= high
    if schema.type == "number" and schema.format == "float":
        return abs(value) <= MAX_FLOAT32
    return True


def is_multiple(value: float, factor: float) -> bool:
    """Tell whether a number is a multiple of a positive factor."""
    if value.__class__ is int and float(factor).is_integer():
        return value % int(factor) == 0
    quotient = 1 / factor * value if factor < 1 else value / factor
    if abs(quotient) > MAX_JSON_INTEGER:
        return False
    return math.isclose(quotient, round(quotient), rel_tol=1e-9)


def number_check(schema: Schema) -> Check:
    """Return the check of integers and floats."""
    low, high, factor = schema.minimum, schema.maximum, schema.multiple_of
    integral = schema.type == "integer" or schema.int_or_string
    no_minimum_equal, no_maximum_equal = schema.exclusive_minimum, schema.exclusive_maximum
    range_low, range_high = _RANGES.get(schema.format if integral else "", _RANGES["int64"])

    def check(value: JSON) -> bool:
        if integral:
            if (value.__class__ is float and not is_integral(value)) or not range_low <= value <= range_high:
                return False
        elif not fits_type(schema, value):
            return False
        if low is not None and (value <= low if no_minimum_equal else value < low):
            return False
        if high is not None and (value >= high if no_maximum_equal else value > high):
            return False
        return factor is None or is_multiple(value, factor)

    return check


def _list_check(schema: Schema) -> Check:
    low, high = schema.min_items, schema.max_items
    item_ok = _compiled(schema.items) if schema.items is not None else None
    plain = plain_class(schema.items) if schema.items is not None else None
    distinct = _distinct(schema)

    def check(value: JSON) -> bool:
        if (low is not None and len(value) < low) or (high is not None and len(value) > high):
            return False
        if item_ok is not None:
            for item in value:
                if item.__class__ is not plain and not item_ok(item):
                    return False
        return distinct is None or len(value) < 2 or distinct(value)

    return check


def plain_class(schema: Schema) -> type | None:
    """Return the Python class all whose values are valid, if there is one; it saves a call."""
    if schema.enum is not None or _composed(schema) is not None:
        return None
    if schema.type == "string" and _string_check(schema) is _always:
        return str
    return bool if schema.type == "boolean" else None


def frozen(value: JSON) -> Any:
    """Return a hashable stand-in for a JSON value that keeps 1, 1.0 and true apart."""
    if value.__class__ is dict or value.__class__ is list:
        return msgspec.json.encode(value, order="deterministic")
    return value.__class__, value


def _distinct(schema: Schema) -> Check | None:
    """Return the check that list items differ, as far as the schema asks for it."""
    if schema.list_type == "set" or schema.unique_items:
        return lambda value: len({frozen(item) for item in value}) == len(value)
    if schema.list_type != "map":
        return None
    keys = schema.list_map_keys
    if len(keys) == 1:
        (key,) = keys

        def one_key(value: JSON) -> bool:
            seen = [item.get(key) if item.__class__ is dict else None for item in value]
            try:
                return len(set(seen)) == len(seen)
            except TypeError:
                return False  # an unhashable key is of the wrong type anyway

        return one_key
    return lambda value: (
        len(
            {
                tuple(frozen(item.get(key)) for key in keys) if item.__class__ is dict else None
                for item in value
            }
        )
        == len(value)
    )


def _object_check(schema: Schema) -> Check:
    checks: dict[str, Check] = {}
    plains: dict[str, type] = {}
    for name, child in schema.properties.items():
        plain = plain_class(child)
        if plain is not None:
            plains[name] = plain
        checks[name] = _compiled(child)
    required = frozenset(schema.required)
    low, high = schema.min_properties, schema.max_properties
    other = _compiled(schema.additional) if isinstance(schema.additional, Schema) else None
    if schema.embedded_resource:
        required |= {"apiVersion", "kind"}
        checks["apiVersion"] = _is_version
        checks["kind"] = _is_kind
        for name in ("apiVersion", "kind"):
            plains.pop(name, None)
        checks.setdefault("metadata", is_metadata)
    expected = plains.get
    checker = checks.get
    looks_inside = bool(checks) or other is not None

    def check(value: JSON) -> bool:
        if not required <= value.keys():
            return False
        for name, item in value.items() if looks_inside else ():
            if item.__class__ is expected(name):
                continue
            item_ok = checker(name, other)
            if item_ok is not None and not item_ok(item):
                return False
        return (low is None or len(value) >= low) and (high is None or len(value) <= high)

    return check


def _is_version(value: JSON) -> bool:
    return value.__class__ is str and bool(value) and value.count("/") <= 1


_KIND_NAME = re.compile(r"[A-Za-z]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?\Z")


def _is_kind(value: JSON) -> bool:
    return value.__class__ is str and _KIND_NAME.match(value) is not None


def is_metadata(value: JSON) -> bool:
    """Whether the metadata of an embedded object has the types every object's metadata has."""
    return value is None or metadata_misfit(value) is None


def metadata_misfit(value: JSON) -> tuple[str, JSON, str] | None:
    """Return the first field of wrong type in an embedded object's metadata, its value and the type it should have."""
    if value.__class__ is not dict:
        return "", value, "v1.ObjectMeta"
    for name in ("name", "generateName", "namespace"):
        if value.get(name) is not None and value[name].__class__ is not str:
            return name, value[name], "string"
    for name in ("labels", "annotations"):
        held = value.get(name)
        if held is None:
            continue
        if held.__class__ is not dict:
            return name, held, "map[string]string"
        for item in held.values():
            if item is not None and item.__class__ is not str:
                return name, item, "string"
    return None


def _composed(schema: Schema) -> Check | None:
    """Return the check of enum, allOf, anyOf, oneOf and not, or None if there are none."""
    checks: list[Check] = []
    if schema.enum is not None:
        allowed = frozenset(
            frozen(float(item) if item.__class__ is int else item) for item in schema.enum if item is not None
        )
        checks.append(lambda value: frozen(float(value) if value.__class__ is int else value) in allowed)
    checks.extend(_compiled(branch) for branch in schema.all_of)
    if schema.any_of:
        some = [_compiled(branch) for branch in schema.any_of]
        checks.append(lambda value: any(branch(value) for branch in some))
    if schema.one_of:
        one = [_compiled(branch) for branch in schema.one_of]
        checks.append(lambda value: sum(branch(value) for branch in one) == 1)
    if schema.not_ is not None:
        wrong = _compiled(schema.not_)
        checks.append(lambda value: not wrong(value))
    if not checks:
        return None
    if schema.enum is not None and len(checks) == 1:
        return checks[0]
    # Of null, only type and enum are asked.
    return lambda value: all(
        check(value) for check in (checks if value is not None else checks[: schema.enum is not None])
    )
