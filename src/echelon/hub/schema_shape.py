"""Checks what OpenAPI cannot say: keys of set and map lists, and embedded resources.

What it decides: duplicates in lists of type `set` and `map`, and whether embedded
resources name their `apiVersion` and `kind` and have metadata of the right types.

What it must never do: run on the usual path; `schema_ok` has looked already.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from echelon.hub.gotext import bad_value
from echelon.hub.schema_node import JSON, Schema
from echelon.hub.schema_ok import frozen, metadata_misfit
from echelon.hub.schema_validate import Cause

_KIND = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?\Z")
_KIND_ADVICE = (
    "may have mixed case, but should otherwise match: a DNS-1035 label must consist of lower case alphanumeric "
    "characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  "
    "or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)


def child_path(path: str, name: str) -> str:
    """Append a property to a field path."""
    return f"{path}.{name}" if path else name


def children(schema: Schema, value: JSON, path: str) -> Iterator[tuple[Schema, JSON, str]]:
    """Yield the parts of a value that have a schema, with their field paths."""
    if value.__class__ is dict:
        for name, item in value.items():
            child = schema.properties.get(name)
            if child is not None:
                yield child, item, child_path(path, name)
            elif isinstance(schema.additional, Schema):
                yield schema.additional, item, f"{path}[{name}]"
    elif value.__class__ is list and schema.items is not None:
        for index, item in enumerate(value):
            yield schema.items, item, f"{path}[{index}]"


def embedded_causes(schema: Schema, value: JSON, path: str = "") -> list[Cause]:
    """Return what is wrong with the type metadata of embedded resources."""
    causes: list[Cause] = []
    if schema.embedded_resource and value.__class__ is dict:
        for name in ("apiVersion", "kind"):
            causes += _type_meta(name, value, child_path(path, name))
        causes += _metadata(value.get("metadata"), child_path(path, "metadata"))
    for child, item, below in children(schema, value, path):
        if item.__class__ is dict or item.__class__ is list:
            causes += embedded_causes(child, item, below)
    return causes


def _metadata(value: JSON, field: str) -> list[Cause]:
    misfit = None if value is None else metadata_misfit(value)
    if misfit is None:
        return []
    name, wrong, wanted = misfit
    found = {dict: "object", list: "array", str: "string", bool: "bool"}.get(wrong.__class__, "number")
    where = f"Go struct field ObjectMeta.{name}" if name else "Go value"
    problem = f"json: cannot unmarshal {found} into {where} of type {wanted}"
    return [Cause("FieldValueInvalid", f"Invalid value: {bad_value(value)}: {problem}", field)]


def _type_meta(name: str, value: dict[str, JSON], field: str) -> list[Cause]:
    if name not in value:
        return [Cause("FieldValueRequired", "Required value", field)]
    text = value[name]
    if text.__class__ is not str:
        problem = "must be a string"
    elif not text:
        problem = "must not be empty"
    elif name == "apiVersion" and text.count("/") > 1:
        problem = f"unexpected GroupVersion string: {text}"
    elif name == "kind" and (len(text) > 63 or not _KIND.match(text.lower())):
        problem = (
            _KIND_ADVICE
            if len(text) <= 63
            else "may have mixed case, but should otherwise match: must be no more than 63 characters"
        )
    else:
        return []
    return [Cause("FieldValueInvalid", f"Invalid value: {bad_value(text)}: {problem}", field)]


def list_causes(schema: Schema, value: JSON, path: str = "") -> list[Cause]:
    """Return the duplicates in lists of type set and map."""
    causes: list[Cause] = []
    if value.__class__ is list:
        if schema.list_type == "set":
            causes += [_duplicate(value[index], f"{path}[{index}]") for index in _repeated(value)]
        elif schema.list_type == "map":
            causes += _map_causes(schema, value, path)
    for child, item, below in children(schema, value, path):
        if item.__class__ is dict or item.__class__ is list:
            causes += list_causes(child, item, below)
    return causes


def _duplicate(value: JSON, field: str) -> Cause:
    return Cause("FieldValueDuplicate", f"Duplicate value: {bad_value(value)}", field)


def _repeated(values: list[JSON]) -> list[int]:
    """Return the index of the first repetition of each value that occurs more than once."""
    seen: dict[object, int] = {}
    found: list[int] = []
    for index, value in enumerate(values):
        key = frozen(value)
        seen[key] = seen.get(key, 0) + 1
        if seen[key] == 2:
            found.append(index)
    return found


def _map_causes(schema: Schema, value: list[JSON], path: str) -> list[Cause]:
    for index, item in enumerate(value):
        if item is not None and item.__class__ is not dict:
            message = f"Invalid value: {bad_value(item)}: must be an object for an array of list-type map"
            return [Cause("FieldValueInvalid", message, f"{path}[{index}]")]
    keys = [{key: (item or {})[key] for key in schema.list_map_keys if key in (item or {})} for item in value]
    return [_duplicate(keys[index], f"{path}[{index}]") for index in _repeated(keys)]
