"""`Object{...}` and `JSONPatch{...}`: what the expressions of mutating policies build.

What it decides: which fields such a literal may have, and which plain JSON it stands for. The type of an object
names the path it belongs to (`Object.spec.template`); that it does is known only when the whole is built.

What it must never do: know schemas or apply anything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from echelon.hub.cel_closures import Frame, Term
from echelon.hub.cel_overloads import Overload
from echelon.hub.cel_parse import Field, Node, dotted
from echelon.hub.cel_types import DYN, STRING, Type, fits, list_of
from echelon.hub.cel_values import NONE, CelError, Duration, Timestamp, TypeValue, UInt
from echelon.hub.policy_authorizer import PolicyCompiler
from echelon.rules.json_patch import join_pointer

OBJECT = "Object"
JSON_PATCH = "JSONPatch"
PATCH_FIELDS = {"op": STRING, "path": STRING, "from": STRING, "value": DYN}
PATCHES = list_of(Type(JSON_PATCH, is_open=True))

Json = dict[str, Any]


class Built(dict[Any, Any]):
    """The value of a literal with a type name; its fields are the dict's."""

    def __init__(self, name: str, fields: Json) -> None:
        super().__init__(fields)
        self.name = name

    @property
    def cel_type(self) -> str:
        """Return the name of the value's type."""
        return self.name


class NotBuilt(Exception):
    """What an expression built cannot be used; the text says why."""


ESCAPE_KEY = "jsonpatch.escapeKey"
ESCAPING = [Overload((STRING,), STRING, lambda key: join_pointer([key])[1:])]


class MutationCompiler(PolicyCompiler):
    """A compiler that knows the literals of mutating policies."""

    def _method(self, node: Node) -> Term:
        if f"{dotted(node.items[0])}.{node.value}" == ESCAPE_KEY:
            return self.resolved(node, ESCAPE_KEY, ESCAPING, node.items[1:])
        return super()._method(node)

    def _struct(self, node: Node) -> Term:
        name, fields = node.value
        if name not in (JSON_PATCH, OBJECT) and not name.startswith(f"{OBJECT}."):
            return super()._struct(node)
        terms = [self.term(item) for item in node.items]
        if any(term.type.kind == "error" for term in terms):
            return terms[0] if terms[0].type.kind == "error" else self.fail(node.at, "")
        for field, term in zip(fields, terms, strict=True):
            wanted = DYN if name != JSON_PATCH else PATCH_FIELDS.get(field.name)
            given = term.type.args[0] if field.optional and term.type.args else term.type
            if wanted is None or not fits(given, wanted, {}):
                wrong = f"expected type of field '{field.name}' is '{wanted or ''}' but provided type is '{given}'"
                return self.fail(field.at, wrong)
        return Term(Type(name, is_open=True), _builder(name, fields, [term.get for term in terms]))


def _builder(
    name: str, fields: tuple[Field, ...], gets: list[Callable[[Frame], Any]]
) -> Callable[[Frame], Any]:
    def build(frame: Frame) -> Built:
        made: Json = {}
        for field, get in zip(fields, gets, strict=True):
            value = get(frame)
            if field.optional:
                if value is NONE:
                    continue
                value = value.value
            if name == JSON_PATCH and field.name != "value" and value.__class__ is not str:
                shown = _GO_TYPES.get(value.__class__, "map[string]interface {}")
                raise CelError(f"unexpected type {shown} for JSONPatchType '{field.name}' field")
            made[field.name] = value
        return Built(name, made)

    return build


_GO_TYPES: dict[type, str] = {
    int: "int64",
    UInt: "uint64",
    float: "float64",
    bool: "bool",
    type(None): "structpb.NullValue",
    bytes: "[]uint8",
    list: "[]ref.Val",
}


def configuration(built: Built) -> Json:
    """Return the configuration that an Object stands for."""
    _check_names(built, OBJECT)
    made = _native(built, null=0)  # a null is no absence here: it never fits its field
    assert isinstance(made, dict)
    return made


def operations(built: list[Built]) -> list[Json]:
    """Return the operations that a list of JSONPatch stands for, complete as the server prints them."""
    made = []
    for one in built:
        value = one.get("value")
        if isinstance(value, Built):
            _check_names(value, value.name)
        operation: Json = {"op": one.get("op", ""), "path": one.get("path", "")}
        if one.get("from"):
            operation["from"] = one["from"]
        if "value" in one:
            operation["value"] = _native(value, null=None)
        made.append(operation)
    return made


def _check_names(value: Any, path: str) -> None:
    """Refuse objects whose type is not named by the path they stand at; maps and lists have no names."""
    if isinstance(value, Built):
        if value.name != path:
            expected = f'expected "{path}", which matches field name path from root Object type'
            raise NotBuilt(f'type mismatch: unexpected type name "{value.name}", {expected}')
        for name, item in value.items():
            _check_names(item, f"{path}.{name}")
    elif isinstance(value, dict):
        for item in value.values():
            _check_names(item, path)
    elif isinstance(value, list):
        for item in value:
            _check_names(item, path)


def _native(value: Any, *, null: Any) -> Any:
    if value is None:
        return null
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise NotBuilt("invalid return type: *dynamic.ObjectVal")
        return {key: _native(item, null=null) for key, item in value.items()}
    if isinstance(value, list):
        return [_native(item, null=null) for item in value]
    if isinstance(value, UInt):
        return int(value)
    if isinstance(value, Duration):
        return value.nanos
    if isinstance(value, float) and value.is_integer():
        return int(value)  # Go prints it so
    if isinstance(value, (Timestamp, TypeValue, bytes)) or not isinstance(value, (str, int, float, bool)):
        raise NotBuilt(f"error applying patch: a value of type {type(value).__name__} is no JSON")
    return value
