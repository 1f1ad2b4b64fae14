"""CustomResourceDefinitions, generated from the types so that schema and code cannot differ.

Reads type annotations and the facts beside them (`schema.py`) and returns plain dicts. Every version of a kind gets
the same schema: reading and writing through any of them loses nothing.

`python -m echelon.api.crds` prints them as YAML, ready for `kubectl apply -f -`.
"""

import sys
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any

import msgspec
from msgspec import inspect

from echelon.api.meta import Object
from echelon.api.own import OWN
from echelon.api.resource import Definition, Resource
from echelon.api.schema import Always, ServerDefault

Schema = dict[str, Any]

# What a fact is called in a schema. Facts not listed here are handled by name below.
_KEYWORDS: Mapping[str, str] = {
    "format": "format",
    "pattern": "pattern",
    "min_length": "minLength",
    "max_length": "maxLength",
    "minimum": "minimum",
    "maximum": "maximum",
    "min_items": "minItems",
    "max_items": "maxItems",
    "min_properties": "minProperties",
    "max_properties": "maxProperties",
    "embedded_resource": "x-kubernetes-embedded-resource",
    "preserve_unknown_fields": "x-kubernetes-preserve-unknown-fields",
}
_STANDARD: Mapping[str, Schema] = {
    "apiVersion": {
        "type": "string",
        "description": "The API group and version this object is written in.",
    },
    "kind": {"type": "string", "description": "The kind of this object."},
    "metadata": {"type": "object"},
}


def crds(resources: Iterable[Resource] = OWN) -> list[dict[str, Any]]:
    """Return the definitions of our kinds (or of some of them)."""
    return [crd(resource) for resource in resources]


def crd(resource: Resource) -> dict[str, Any]:
    """Return the definition of one kind."""
    definition = resource.definition
    if definition is None:
        raise ValueError(f"{resource.kind} is not defined by a CustomResourceDefinition")
    names: dict[str, Any] = {
        "kind": resource.kind,
        "listKind": f"{resource.kind}List",
        "plural": resource.plural,
        "singular": resource.singular,
    }
    if resource.short_names:
        names["shortNames"] = list(resource.short_names)
    if resource.categories:
        names["categories"] = list(resource.categories)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": resource.full_name},
        "spec": {
            "group": resource.group,
            "names": names,
            "scope": _scope_of(resource),
            "versions": [
                _version(resource, definition, version)
                for version in (*definition.also_served, resource.version)
            ],
        },
    }


def _scope_of(resource: Resource) -> str:
    return "Namespaced" if resource.namespaced else "Cluster"


def _version(resource: Resource, definition: Definition, name: str) -> dict[str, Any]:
    version: dict[str, Any] = {
        "name": name,
        "served": True,
        "storage": name == resource.version,
        "schema": {"openAPIV3Schema": object_schema(resource)},
    }
    if definition.has_status:
        version["subresources"] = {"status": {}}
    if definition.columns:
        version["additionalPrinterColumns"] = [
            {"name": column.name, "type": column.type, "jsonPath": column.json_path}
            | ({"priority": column.priority} if column.priority else {})
            for column in definition.columns
        ]
    return version


def object_schema(resource: Resource) -> Schema:
    """Return the OpenAPI schema of one of our kinds."""
    definition = resource.definition
    if definition is None or not issubclass(resource.type, Object):
        raise ValueError(f"{resource.kind} has no schema of ours")
    info = inspect.type_info(resource.type)
    assert isinstance(info, inspect.StructType)
    schema = _Generator(_scope_of(resource)).struct(info, definition.description)
    schema["properties"] = {**_copy(_STANDARD), **schema["properties"]}
    if definition.cel:
        schema["x-kubernetes-validations"] = [_cel(rule) for rule in definition.cel]
    return schema


def _copy(schemas: Mapping[str, Schema]) -> dict[str, Schema]:
    return {name: dict(schema) for name, schema in schemas.items()}


def _cel(rule: Any) -> dict[str, str]:
    return {"rule": rule.rule, "message": rule.message}


class _Generator:
    """Turns types into schemas, for the kind of one scope."""

    def __init__(self, scope: str) -> None:
        self.scope = scope

    def struct(self, info: inspect.StructType, description: str = "") -> Schema:
        """Schema of a struct: its fields, and which of them are required."""
        properties: dict[str, Schema] = {}
        required: list[str] = []
        for field in info.fields:
            if issubclass(info.cls, Object) and field.encode_name in _STANDARD:
                continue
            text, facts, type_ = _unwrap(field.type)
            if facts.get("only") not in (None, self.scope):
                continue
            schema = self.typed(type_, text, facts)
            default = field.default_factory
            if isinstance(default, ServerDefault) and not isinstance(default, Always):
                schema["default"] = _plain(default.value)
            properties[field.encode_name] = schema
            if field.required or isinstance(default, Always) or facts.get("required"):
                required.append(field.encode_name)
        result: Schema = {"type": "object", "description": description or _summary(info.cls)}
        result["properties"] = properties
        if required:
            result["required"] = sorted(required)
        if getattr(info.cls, "ATOMIC", False):
            result["x-kubernetes-map-type"] = "atomic"
        return result

    def typed(self, type_: inspect.Type, text: str, facts: Mapping[str, Any]) -> Schema:
        """Schema of a field, list item or map value: its shape, then the facts beside it."""
        schema = self.shape(type_, text, facts)
        if text:
            schema["description"] = text
        for fact, keyword in _KEYWORDS.items():
            if fact in facts:
                schema[keyword] = facts[fact]
        if "enum" in facts:
            schema["enum"] = list(facts["enum"])
        if "list_map_keys" in facts:
            schema["x-kubernetes-list-type"] = "map"
            schema["x-kubernetes-list-map-keys"] = list(facts["list_map_keys"])
        if facts.get("atomic"):
            schema["x-kubernetes-list-type"] = "atomic"
        rules = [_cel(rule) for rule in facts.get("cel", ()) if rule.only in (None, self.scope)]
        if rules:
            schema["x-kubernetes-validations"] = rules
        return schema

    def shape(self, type_: inspect.Type, text: str, facts: Mapping[str, Any]) -> Schema:
        """Schema of a type alone."""
        match type_:
            case inspect.StructType():
                return self.struct(type_, text)
            case inspect.VarTupleType(item_type=item):
                return {"type": "array", "items": self.nested(item, facts)}
            case inspect.DictType(value_type=inspect.AnyType()):
                return {"type": "object"}
            case inspect.DictType(value_type=value):
                return {"type": "object", "additionalProperties": self.nested(value, facts)}
            case inspect.EnumType(cls=cls):
                return {"type": "string", "enum": [_plain(member) for member in cls]}
            case inspect.UnionType():
                return {
                    "anyOf": [{"type": "integer"}, {"type": "string"}],
                    "x-kubernetes-int-or-string": True,
                }
            case inspect.AnyType():
                return {}
            case _:
                return dict(_SCALARS[type(type_)]) | _literal(type_)

    def nested(self, type_: inspect.Type, facts: Mapping[str, Any]) -> Schema:
        """Schema of the items of a list or the values of a map, from the facts that begin with `item_`."""
        item_facts = {key[5:]: value for key, value in facts.items() if key.startswith("item_")}
        _, _, bare = _unwrap(type_)
        return self.typed(bare, str(item_facts.pop("description", "")), item_facts)


_SCALARS: Mapping[type[inspect.Type], Schema] = {
    inspect.StrType: {"type": "string"},
    inspect.LiteralType: {"type": "string"},
    inspect.IntType: {"type": "integer"},
    inspect.BoolType: {"type": "boolean"},
    inspect.BytesType: {"type": "string", "format": "byte"},
    inspect.DateTimeType: {"type": "string", "format": "date-time"},
}


def _literal(type_: inspect.Type) -> Schema:
    return {"enum": list(type_.values)} if isinstance(type_, inspect.LiteralType) else {}


def _unwrap(type_: inspect.Type) -> tuple[str, dict[str, Any], inspect.Type]:
    """Split a type into its description, its facts, and the type itself without None."""
    text = ""
    facts: dict[str, Any] = {}
    while True:
        if isinstance(type_, inspect.Metadata):
            text = (type_.extra_json_schema or {}).get("description", text)
            facts |= type_.extra or {}
            type_ = type_.type
        elif isinstance(type_, inspect.UnionType) and type_.includes_none:
            rest = tuple(item for item in type_.types if not isinstance(item, inspect.NoneType))
            type_ = rest[0] if len(rest) == 1 else inspect.UnionType(rest)
        else:
            return text, facts, type_


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, Enum) else value


def _summary(cls: type) -> str:
    return (cls.__doc__ or "").partition("\n")[0].strip()


def main() -> None:
    """Print the definitions as YAML."""
    import yaml  # noqa: PLC0415 - only printing needs it, and api/ is imported everywhere

    sys.stdout.write(yaml.safe_dump_all(msgspec.to_builtins(crds()), sort_keys=False, width=100))


if __name__ == "__main__":
    main()
