"""Validation of CustomResourceDefinitions: names, versions, and what may not change.

What it decides: everything about a definition but its schemas, which are judged in
`crd_schema_rules`; worded, placed and ordered as the server does, which speaks of
`spec.validation` where all versions have the same schema.

What it must never do: run for custom resources themselves.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import msgspec

from echelon.hub import metadata
from echelon.hub.builtins_hook_rules import conversion
from echelon.hub.builtins_pod_rules import Found
from echelon.hub.crd_schema_rules import schema_rules

Json = dict[str, Any]

_DNS1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?\Z")
_SUBDOMAIN = re.compile(metadata.SUBDOMAIN_FMT + r"\Z")
_MIXED = "may have mixed case, but should otherwise match: "
_PROTECTED = ("k8s.io", "kubernetes.io")
_APPROVED = "api-approved.kubernetes.io"
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
MAX_SELECTABLE = 8
_SIMPLE_PATH = "must be a simple json path starting with ."


def definition(found: Found, obj: Json, old: Json | None) -> None:
    """Check a definition."""
    spec = obj.get("spec") or {}
    names, group = spec.get("names") or {}, spec.get("group", "")
    if old is None and obj["metadata"].get("name") != f"{names.get('plural', '')}.{group}":
        name = obj["metadata"].get("name", "")
        found.invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')
    _group(found, obj, group)
    _names(found, names)
    scope = spec.get("scope")
    if not scope:
        found.required("spec.scope")
    elif scope not in ("Cluster", "Namespaced"):
        found.unsupported("spec.scope", scope, ["Cluster", "Namespaced"])
    _versions(found, spec, obj.get("status") or {}, (old or {}).get("spec") or {})
    if spec.get("preserveUnknownFields"):
        found.invalid(
            "spec.preserveUnknownFields",
            True,
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
        )
    conversion(found, spec)
    if old is not None:
        _unchanged(found, obj, old)


def _group(found: Found, obj: Json, group: str) -> None:
    if not group:
        found.required("spec.group")
    elif not _SUBDOMAIN.match(group):
        found.invalid("spec.group", group, metadata.SUBDOMAIN_MESSAGE)
    elif "." not in group:
        found.invalid("spec.group", group, "should be a domain with at least one dot")
    elif any(group == each or group.endswith("." + each) for each in _PROTECTED):
        approval = (obj["metadata"].get("annotations") or {}).get(_APPROVED)
        if not approval:
            found.required(
                f"metadata.annotations[{_APPROVED}]",
                f'protected groups must have approval annotation "{_APPROVED}", see '
                "https://github.com/kubernetes/enhancements/pull/1111",
            )


def _label(found: Found, field: str, value: str | None, *, mixed: bool = False) -> None:
    if not value:
        found.required(field)
    elif len(value) > 63 or not _DNS1035.match(value.lower() if mixed else value):
        why = metadata.DNS1035_MESSAGE if len(value) <= 63 else "must be no more than 63 characters"
        found.invalid(field, value, (_MIXED if mixed else "") + why)


def _names(found: Found, names: Json) -> None:
    _label(found, "spec.names.plural", names.get("plural"))
    _label(found, "spec.names.singular", names.get("singular"))
    _label(found, "spec.names.kind", names.get("kind"), mixed=True)
    _label(found, "spec.names.listKind", names.get("listKind"), mixed=True)
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        found.invalid("spec.names.listKind", names["listKind"], "kind and listKind may not be the same")
    for field in ("shortNames", "categories"):
        for index, each in enumerate(names.get(field) or ()):
            _label(found, f"spec.names.{field}[{index}]", each)


def _shown(version: Json) -> msgspec.Raw:
    """Print a version as the server's own type, fields in its order."""
    made = {
        "Name": version.get("name", ""),
        "Served": bool(version.get("served")),
        "Storage": bool(version.get("storage")),
        "Deprecated": bool(version.get("deprecated")),
        "DeprecationWarning": version.get("deprecationWarning"),
        "Schema": None,
        "Subresources": None,
        "AdditionalPrinterColumns": None,
        "SelectableFields": None,
    }
    return msgspec.Raw(msgspec.json.encode(made))


def _versions(found: Found, spec: Json, status: Json, before: Json) -> None:
    known = {each.get("name"): each.get("schema") for each in before.get("versions") or ()}
    versions = spec.get("versions")
    if versions is not None:
        versions = [each or {} for each in versions]  # null in a list of Go structs is an empty one
    listed: Any = [_shown(each) for each in versions] if versions is not None else None
    stored = [each.get("name") for each in versions or () if each.get("storage")]
    if len(stored) != 1:
        found.invalid("spec.versions", listed, "must have exactly one version marked as storage version")
    given = [each.get("name", "") for each in versions or ()]
    if len(set(given)) != len(given):
        found.invalid("spec.versions", listed, "must contain unique version names")
    for index, each in enumerate(versions or ()):
        _label(found, f"spec.versions[{index}].name", each.get("name"))
    for field, check in (
        ("schema", partial(_schema, known)),
        ("subresources", _subresources),
        ("additionalPrinterColumns", _columns),
        ("selectableFields", _selectable),
    ):
        _each(found, versions or [], field, check)
    kept = status.get("storedVersions") or []
    if not stored:
        found.invalid("status.storedVersions", None, "must have at least one stored version")
    elif stored[-1] not in kept:
        found.invalid("status.storedVersions", kept, f"must have the storage version {stored[-1]}")
    for index, name in enumerate(kept):
        if name not in given:
            found.invalid(
                f"status.storedVersions[{index}]",
                name,
                f"missing from spec.versions; {name} was previously a storage version, and must remain in "
                f"spec.versions until a storage migration ensures no data remains persisted in {name} and removes "
                f"{name} from status.storedVersions",
            )


_SHARED = {"schema": "spec.validation", "subresources": "spec.subresources"}


def _schema(known: dict[Any, Any], found: Found, value: Json, path: str, version: Json) -> None:
    schema_rules(found, value, path, is_new=known.get(version.get("name", "")) != value)


def _each(found: Found, versions: list[Json], field: str, check: Any) -> None:
    """Check what each version says; what all say alike is reported once, at the place of old."""
    first = versions[0].get(field) if versions else None
    if versions and all(each.get(field) == first for each in versions):
        if field == "schema" and not (first or {}).get("openAPIV3Schema"):
            found.required("spec.versions[0].schema.openAPIV3Schema")
            return
        if first is not None:
            check(found, first, _SHARED.get(field, f"spec.{field}"), versions[0])
        return
    for index, each in enumerate(versions):
        value = each.get(field)
        if field == "schema" and not (value or {}).get("openAPIV3Schema"):
            found.required(f"spec.versions[{index}].schema.openAPIV3Schema")
        elif value is not None:
            check(found, value, f"spec.versions[{index}].{field}", each)


def _path(found: Found, field: str, value: str | None, *, needed: bool = True, below: str = "") -> None:
    if not value:
        if needed:
            found.required(field)
    elif not re.fullmatch(r"(\.[A-Za-z0-9_-]+)+", value):
        found.invalid(field, value, _SIMPLE_PATH)
    elif below and not value.startswith(below):
        found.invalid(field, value, f"must be a json path under {below}")


def _subresources(found: Found, value: Json, path: str, _version: Json) -> None:
    scale = value.get("scale")
    if scale is not None:
        where = f"{path}.scale"
        _path(found, f"{where}.specReplicasPath", scale.get("specReplicasPath"), below=".spec")
        _path(found, f"{where}.statusReplicasPath", scale.get("statusReplicasPath"), below=".status")
        selector = scale.get("labelSelectorPath")
        _path(found, f"{where}.labelSelectorPath", selector, needed=False)


def _columns(found: Found, value: list[Json], path: str, _version: Json) -> None:
    for index, column in enumerate(value):
        where = f"{path}[{index}]"
        if not column.get("name"):
            found.required(f"{where}.name")
        if column.get("type") not in _COLUMN_TYPES:
            if not column.get("type"):
                found.required(f"{where}.type", f"must be one of {','.join(_COLUMN_TYPES)}")
            else:
                found.invalid(f"{where}.type", column["type"], f"must be one of {','.join(_COLUMN_TYPES)}")
        text = column.get("jsonPath")
        if not text:
            found.required(f"{where}.JSONPath")
        elif not text.startswith("."):
            found.invalid(f"{where}.JSONPath", text, _SIMPLE_PATH)


def _selectable(found: Found, value: list[Json], path: str, version: Json) -> None:
    root = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    if len(value) > MAX_SELECTABLE:
        why = f"Too many: {len(value)}: must have at most {MAX_SELECTABLE} items"
        found.add("FieldValueTooMany", path, why)
    texts = [field.get("jsonPath", "") for field in value]
    for index, text in enumerate(texts):
        where = f"{path}[{index}].jsonPath"
        node: Any = root
        for name in text.strip(".").split("."):
            node = ((node or {}).get("properties") or {}).get(name)
        if not text:
            found.required(where)
        elif text[0] not in ".[":
            first = text.partition(".")[0]
            found.invalid(where, text, f"is an invalid path: expected [ or . but got: {first}")
        elif text in texts[:index]:
            found.duplicate(where, text)
        elif node is None:
            found.invalid(where, text, "is an invalid path: does not refer to a valid field")
        elif node.get("type") not in ("string", "boolean", "integer"):
            found.invalid(
                where,
                text,
                "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.",
            )


def _unchanged(found: Found, obj: Json, old: Json) -> None:
    spec, was = obj.get("spec") or {}, old.get("spec") or {}
    for path in ("scope", "names.kind", "names.plural", "group"):
        new, before = spec, was
        for name in path.split("."):
            new, before = (new or {}).get(name, ""), (before or {}).get(name, "")
        if new != before and path in ("scope", "names.plural", "group", "names.kind"):
            found.invalid(f"spec.{path}", new, "field is immutable")
