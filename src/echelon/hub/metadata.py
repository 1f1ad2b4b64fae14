"""ObjectMeta: what a client may say about an object's identity, and what only the hub says.

Names, labels, annotations, finalizers and owners are checked in kube-apiserver's
words. Nothing here knows the store.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import msgspec

from echelon.hub.kinds import Kind
from echelon.hub.status import StatusError, bad_request, invalid
from echelon.hub.world import World, rfc3339

Json = dict[str, Any]
Cause = dict[str, str]

OTHER_NAMESPACE = "the namespace of the provided object does not match the namespace sent on the request"
MAX_NAME = 253
MAX_ANNOTATIONS = 256 * 1024
"""Bytes of all annotations together."""

SUBDOMAIN_FMT = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
LABEL_FMT = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = re.compile(SUBDOMAIN_FMT + r"\Z")
_WILDCARD = re.compile(r"\*\." + SUBDOMAIN_FMT + r"\Z")
_LABEL = re.compile(LABEL_FMT + r"\Z")
_QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]\Z")
_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?\Z")

SUBDOMAIN_MESSAGE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    f"end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{SUBDOMAIN_FMT}')"
)
WILDCARD_MESSAGE = (
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower "
    "case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', regex used for "
    rf"validation is '\*\.{SUBDOMAIN_FMT}')"
)
LABEL_MESSAGE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    f"an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '{LABEL_FMT}')"
)
DNS1035_MESSAGE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and "
    "end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)
QUALIFIED_MESSAGE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
VALUE_MESSAGE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)

LABEL_NAMES = frozenset({"/namespaces", "/services"})
"""Resources whose names are DNS labels of at most 63 characters."""

PATH_NAMES = frozenset(
    {
        "rbac.authorization.k8s.io/roles",
        "rbac.authorization.k8s.io/clusterroles",
        "rbac.authorization.k8s.io/rolebindings",
        "rbac.authorization.k8s.io/clusterrolebindings",
    }
)
"""Resources whose names are any path segment."""

GENERATE_MAX = 58
"""A generateName longer than this is cut, so that the name still fits a DNS label."""

_META_FIELDS: dict[str, type | tuple[type, ...]] = {
    "name": str,
    "generateName": str,
    "namespace": str,
    "selfLink": str,
    "uid": str,
    "resourceVersion": str,
    "generation": int,
    "creationTimestamp": str,
    "deletionTimestamp": str,
    "deletionGracePeriodSeconds": int,
    "labels": dict,
    "annotations": dict,
    "ownerReferences": list,
    "finalizers": list,
    "managedFields": list,
}
_OWNER_FIELDS = frozenset({"apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"})


def invalid_value(field: str, value: str, message: str) -> Cause:
    """Say that a field's value is not allowed."""
    return {"reason": "FieldValueInvalid", "message": f'Invalid value: "{value}": {message}', "field": field}


def required(field: str, message: str) -> Cause:
    """Say that a field is missing."""
    text = f"Required value: {message}" if message else "Required value"
    return {"reason": "FieldValueRequired", "message": text, "field": field}


def immutable(field: str, value: str) -> Cause:
    """Say that a field may not change."""
    return invalid_value(field, value, "field is immutable")


def shape(obj: Json, *, custom: bool = False) -> tuple[Json, list[str]]:
    """Return the metadata with only known fields of the right types, and the unknown field paths."""
    given = obj.get("metadata")
    what = f'{obj.get("kind")} in version "{str(obj.get("apiVersion")).rpartition("/")[2]}"'
    prefix = f"{what} cannot be handled as a {obj.get('kind')}: "
    try:
        return _shape(obj, given)
    except StatusError as error:
        problem = error.message
        if custom:  # whose metadata is decoded apart
            problem = problem.replace("ObjectMeta.metadata.", "ObjectMeta.")
            problem = problem.replace(f"Go struct field {obj.get('kind')}.metadata", "Go value")
        raise bad_request(prefix + problem) from None


def _shape(obj: Json, given: Any) -> tuple[Json, list[str]]:
    if given is None:
        obj["metadata"] = {}
        return obj["metadata"], []
    if not isinstance(given, dict):
        raise bad_request(
            f"json: cannot unmarshal {_go(given)} into Go struct field {obj.get('kind')}.metadata of type v1.ObjectMeta"
        )
    unknown: list[str] = []
    drop: list[str] = []
    for name, value in given.items():
        expected = _META_FIELDS.get(name)
        if expected is None:
            unknown.append(f"metadata.{name}")
            drop.append(name)
        elif value is None:
            drop.append(name)
        elif not isinstance(value, expected) or isinstance(value, bool) or _too_big(value):
            raise wrong_type(f"ObjectMeta.metadata.{name}", value, expected)
    if drop:
        given = {name: value for name, value in given.items() if name not in drop}
        obj["metadata"] = given
    _shape_maps(given)
    _shape_owners(given, unknown)
    return given, unknown


def _too_big(value: Any) -> bool:
    return isinstance(value, int) and not -(2**63) <= value < 2**63


def _shape_maps(given: Json) -> None:
    for name in ("labels", "annotations"):
        values = given.get(name)
        if values and not all(isinstance(value, str) for value in values.values()):
            if all(isinstance(value, str) or value is None for value in values.values()):
                given[name] = {key: value or "" for key, value in values.items()}
                continue
            wrong = next(value for value in values.values() if not isinstance(value, str))
            raise wrong_type(f"ObjectMeta.metadata.{name}", wrong, str)
    finalizers = given.get("finalizers")
    if finalizers and None in finalizers:
        finalizers = given["finalizers"] = [value or "" for value in finalizers]
    for name in ("labels", "annotations", "finalizers", "ownerReferences"):
        if name in given and not given[name]:
            del given[name]  # empty is the same as absent, also for who owns it
    if finalizers and not all(isinstance(value, str) for value in finalizers):
        raise wrong_type(
            "ObjectMeta.metadata.finalizers", next(v for v in finalizers if not isinstance(v, str)), str
        )


def _shape_owners(given: Json, unknown: list[str]) -> None:
    owners = given.get("ownerReferences")
    for index, owner in enumerate(owners or ()):
        if not isinstance(owner, dict):
            raise wrong_type("ObjectMeta.metadata.ownerReferences", owner, dict)
        unknown.extend(
            f"metadata.ownerReferences[{index}].{name}" for name in owner if name not in _OWNER_FIELDS
        )
        for name in ("apiVersion", "kind", "name", "uid"):
            if not isinstance(owner.setdefault(name, ""), str):
                raise wrong_type(f"OwnerReference.metadata.ownerReferences.{name}", owner[name], str)


def wrong_type(field: str, value: Any, expected: type | tuple[type, ...]) -> StatusError:
    """Answer as Go's JSON decoder does when a value is of the wrong type."""
    names = {str: "string", int: "int64", dict: "map[string]string", list: "[]string"}
    given = _go(value)
    if given == "number" and expected is int:
        given = f"number {value}"
    wanted = names.get(expected, "object") if isinstance(expected, type) else "object"
    return bad_request(f"json: cannot unmarshal {given} into Go struct field {field} of type {wanted}")


def _go(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    names: dict[type, str] = {str: "string", list: "array", dict: "object"}
    return names.get(type(value), "number")


def name_problem(kind: Kind, name: str) -> str:
    """Return what is wrong with a name, or nothing."""
    if kind.resource in PATH_NAMES:
        if name in {".", ".."}:
            return f"may not be '{name}'"
        if "/" in name or "%" in name:
            return f"may not contain '{'/' if '/' in name else '%'}'"
        return ""
    if kind.resource in LABEL_NAMES:
        if "." in name:
            return "must not contain dots"
        return _sized(name, 63) or ("" if _LABEL.match(name) else LABEL_MESSAGE)
    return _sized(name, MAX_NAME) or ("" if _SUBDOMAIN.match(name) else SUBDOMAIN_MESSAGE)


def label_name_problems(name: str) -> list[str]:
    """Return what is wrong with a name that must be a DNS label."""
    return _problems(name, 63, _LABEL, LABEL_MESSAGE)


def subdomain_problems(name: str) -> list[str]:
    """Return what is wrong with a name that must be a DNS subdomain."""
    return _problems(name, MAX_NAME, _SUBDOMAIN, SUBDOMAIN_MESSAGE)


def wildcard_problems(name: str) -> list[str]:
    """Return what is wrong with a name of which the first part is a wildcard."""
    return _problems(name, MAX_NAME, _WILDCARD, WILDCARD_MESSAGE)


def _problems(name: str, limit: int, form: re.Pattern[str], message: str) -> list[str]:
    found = [_sized(name, limit)] if _sized(name, limit) else []
    return found if form.match(name) else [*found, message]


def _sized(text: str, limit: int) -> str:
    return f"must be no more than {limit} characters" if len(text) > limit else ""


def problems(kind: Kind, metadata: Json) -> list[Cause]:
    """Return everything wrong with an object's metadata."""
    causes: list[Cause] = []
    name = metadata.get("name", "")
    if not name:
        causes.append(required("metadata.name", "name or generateName is required"))
    elif wrong := name_problem(kind, name):
        causes.append(invalid_value("metadata.name", name, wrong))
    if metadata.get("labels"):
        causes += label_problems(metadata["labels"], "metadata.labels")
    if metadata.get("annotations"):
        causes += _annotation_problems(metadata["annotations"])
    if metadata.get("ownerReferences"):
        causes += _owner_problems(metadata["ownerReferences"])
    for index, finalizer in enumerate(metadata.get("finalizers") or ()):
        causes += [
            invalid_value("metadata.finalizers", finalizer, text) for text in qualified_problems(finalizer)
        ]
        if "/" not in finalizer and finalizer not in STANDARD_FINALIZERS:
            why = "name is neither a standard finalizer name nor is it fully qualified"
            causes.append(invalid_value(f"metadata.finalizers[{index}]", finalizer, why))
    return causes


STANDARD_FINALIZERS = frozenset({"orphan", "foregroundDeletion", "kubernetes"})


@lru_cache(maxsize=4096)
def qualified_problems(key: str, what: str = "a qualified name") -> tuple[str, ...]:
    """Return what is wrong with a label key or finalizer; the same few are asked for all the time."""
    prefix, slash, name = key.rpartition("/")
    found: list[str] = []
    if key.count("/") > 1:
        return (
            (
                f"{what} must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
                "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
                "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. "
                "'example.com/MyName')"
            ),
        )
    if slash:
        if not prefix:
            found.append("prefix part must be non-empty")
        elif not _SUBDOMAIN.match(prefix):
            found.append("prefix part " + SUBDOMAIN_MESSAGE)
    if not name:
        found.append("name part must be non-empty")
    elif len(name) > 63:
        found.append("name part must be no more than 63 characters")
    if not _QUALIFIED.match(name):
        found.append(QUALIFIED_MESSAGE)
    return tuple(found)


def label_problems(labels: dict[str, str], field: str) -> list[Cause]:
    """Return what is wrong with labels."""
    causes: list[Cause] = []
    for key in sorted(labels):
        causes += [invalid_value(field, key, text) for text in qualified_problems(key, "a valid label key")]
        value = labels[key]
        if len(value) > 63:
            causes.append(invalid_value(field, value, "must be no more than 63 bytes"))
        if not _VALUE.match(value):
            causes.append(invalid_value(field, value, VALUE_MESSAGE))
    return causes


def _annotation_problems(annotations: dict[str, str]) -> list[Cause]:
    causes: list[Cause] = []
    for key in sorted(annotations):
        causes += [
            invalid_value("metadata.annotations", key, text) for text in qualified_problems(key.lower())
        ]
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if size > MAX_ANNOTATIONS:
        causes.append(
            {
                "reason": "FieldValueTooLong",
                "field": "metadata.annotations",
                "message": f"Too long: may not be more than {MAX_ANNOTATIONS} bytes",
            }
        )
    return causes


_OWNER_MUST = ("apiVersion", "kind", "name", "uid")


def _owner_problems(owners: list[Json]) -> list[Cause]:
    causes: list[Cause] = []
    controllers = [owner for owner in owners if owner.get("controller")]
    for index, owner in enumerate(owners):
        if owner.get("kind") == "Event" and owner.get("apiVersion") in {"v1", "events.k8s.io/v1"}:
            group = "" if owner["apiVersion"] == "v1" else "events.k8s.io"
            message = f"Invalid value: {_owner_text(owner)}: {group}/v1, Kind=Event is disallowed from being an owner"
            field = f"metadata.ownerReferences[{index}]"
            causes.append({"reason": "FieldValueInvalid", "message": message, "field": field})
    for index, owner in enumerate(owners):
        causes += [
            required(f"metadata.ownerReferences[{index}].{name}", "must not be empty")
            for name in _OWNER_MUST
            if not owner.get(name)
        ]
        version = owner.get("apiVersion", "")
        if version.count("/") > 1:
            why = f'Invalid value: "{version}": must be <group>/<version> or <version>'
            field = f"metadata.ownerReferences[{index}].apiVersion"
            causes.append({"reason": "FieldValueInvalid", "message": why, "field": field})
    if len(controllers) > 1:
        listed = ",".join(map(_owner_text, owners))
        message = (
            f'Invalid value: [{listed}]: Only one reference can have Controller set to true. Found "true" in references for '
            f"{controllers[0]['kind']}/{controllers[0]['name']} and {controllers[1]['kind']}/{controllers[1]['name']}"
        )
        causes.append(
            {"reason": "FieldValueInvalid", "message": message, "field": "metadata.ownerReferences"}
        )
    return causes


def _owner_text(owner: Json) -> str:
    names = ("apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion")
    return msgspec.json.encode({name: owner[name] for name in names if name in owner}).decode()


def born(kind: Kind, metadata: Json, namespace: str, world: World) -> Json:
    """Return the metadata of a new object: the client's part, and the hub's."""
    if metadata.get("resourceVersion"):
        raise bad_request("resourceVersion should not be set on objects to be created")
    given = metadata.get("namespace")
    if kind.namespaced and given and given != namespace:
        raise bad_request(OTHER_NAMESPACE)
    made: Json = {}
    if metadata.get("generateName"):
        made["generateName"] = metadata["generateName"]
        made["name"] = metadata.get("name") or metadata["generateName"][:GENERATE_MAX] + world.suffix()
    else:
        made["name"] = metadata.get("name", "")
    if kind.namespaced:
        made["namespace"] = namespace
    made["uid"] = world.uuid()
    made["resourceVersion"] = ""
    made["creationTimestamp"] = rfc3339(world.now())
    for name in ("generation", "labels", "annotations", "ownerReferences", "finalizers", "managedFields"):
        if metadata.get(name):
            made[name] = metadata[name]
    return made


def kept(kind: Kind, name: str, new: Json, old: Json) -> Json:
    """Return the metadata after an update: identity stays as it was."""
    causes = identity_problems(kind, new, old)
    if causes:
        raise invalid(kind.group, kind.kind, new.get("name") or name, causes)
    made = {key: value for key, value in old.items() if key not in _CLIENTS_OWN}
    for key in _CLIENTS_OWN:
        if new.get(key):
            made[key] = new[key]
    if new.get("managedFields") == []:
        made["managedFields"] = []  # asks to forget them; leaving them out does not
    if old.get("deletionTimestamp"):
        added = [
            value for value in made.get("finalizers") or () if value not in (old.get("finalizers") or ())
        ]
        if added:
            raise invalid(
                kind.group,
                kind.kind,
                name,
                [
                    {
                        "reason": "FieldValueForbidden",
                        "field": "metadata.finalizers",
                        "message": "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers "
                        "[]string{" + ", ".join(f'"{value}"' for value in added) + "}",
                    }
                ],
            )
    return made


_CLIENTS_OWN = ("generateName", "labels", "annotations", "ownerReferences", "finalizers", "managedFields")


def identity_problems(kind: Kind, new: Json, old: Json) -> list[Cause]:
    """Return attempts to change what cannot change."""
    causes: list[Cause] = []
    if new.get("name") and new["name"] != old["name"]:
        causes.append(immutable("metadata.name", new["name"]))
    if kind.namespaced and new.get("namespace") and new["namespace"] != old["namespace"]:
        causes.append(immutable("metadata.namespace", new["namespace"]))
    for name in ("uid", "deletionTimestamp"):
        if new.get(name) and new[name] != old.get(name):
            causes.append(immutable(f"metadata.{name}", new[name]))
    return causes
