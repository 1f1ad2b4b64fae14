"""The options of a write: dry run, field manager, field validation, delete options.

Reads and checks them in kube-apiserver's words and order, before anything is
decoded; afterwards every module may trust what the query says.
"""

from __future__ import annotations

from typing import Any

from echelon.hub.body import decode_document
from echelon.hub.call import Call
from echelon.hub.gotext import quote
from echelon.hub.patch import go_kind
from echelon.hub.status import bad_request, invalid

Json = dict[str, Any]

MAX_MANAGER_BYTES = 128
"""Longest name a field manager may give itself."""

POLICIES = {"Orphan": "orphan", "Foreground": "foregroundDeletion", "Background": ""}
"""What a propagation policy puts among the finalizers."""

_KINDS = {"create": "CreateOptions", "update": "UpdateOptions", "patch": "PatchOptions"}
_APPLY = "application/apply-patch"


def check(call: Call) -> None:
    """Refuse options of a create, update or patch that make no sense."""
    query = call.request.query
    kind = _KINDS.get(call.verb)
    if kind is None:
        return
    applying = call.verb == "patch" and call.request.headers.get("content-type", "").startswith(_APPLY)
    causes: list[Json] = []
    if applying or "force" in query:
        causes += _apply_causes(call, applying=applying)
    if "fieldManager" in query:
        causes += _manager_causes(query["fieldManager"][0])
    if "dryRun" in query:
        causes += dry_run_causes(query["dryRun"])
    if "fieldValidation" in query and query["fieldValidation"][0] not in {"", "Ignore", "Strict", "Warn"}:
        causes.append(
            {
                "reason": "FieldValueNotSupported",
                "message": f"Unsupported value: {quote(query['fieldValidation'][0])}: "
                'supported values: "", "Ignore", "Strict", "Warn"',
                "field": "fieldValidation",
            }
        )
    if causes:
        raise invalid("meta.k8s.io", kind, "", causes)


def _apply_causes(call: Call, *, applying: bool) -> list[Json]:
    if applying and not call.option("fieldManager"):
        return [
            {
                "reason": "FieldValueRequired",
                "message": "Required value: is required for apply patch",
                "field": "fieldManager",
            }
        ]
    if applying:
        return []
    return [
        {
            "reason": "FieldValueForbidden",
            "message": "Forbidden: may not be specified for non-apply patch",
            "field": "force",
        }
    ]


def _manager_causes(name: str) -> list[Json]:
    causes: list[Json] = []
    if len(name.encode(errors="replace")) > MAX_MANAGER_BYTES:
        causes.append(
            {
                "reason": "FieldValueTooLong",
                "message": f"Too long: may not be more than {MAX_MANAGER_BYTES} bytes",
                "field": "fieldManager",
            }
        )
    for position, char in enumerate(name):
        if not char.isprintable():
            wrong = f"invalid character U+{ord(char):04X} (at position {position})"
            message = f"Invalid value: {quote(name)}: {wrong}"
            causes.append({"reason": "FieldValueInvalid", "message": message, "field": "fieldManager"})
            break
    return causes


def dry_run_causes(values: list[str]) -> list[Json]:
    """Return what is wrong with a dryRun option."""
    if all(value == "All" for value in values):
        return []
    listed = "[" + ",".join(map(quote, values)) + "]"
    message = f'Unsupported value: {listed}: supported values: "All"'
    return [{"reason": "FieldValueNotSupported", "message": message, "field": "dryRun"}]


def read_delete_options(call: Call) -> Json:
    """Return the DeleteOptions of the body, else those of the query."""
    options: Json = {}
    if call.request.body.strip():
        decoded = decode_document(call)
        if not isinstance(decoded, dict):
            raise bad_request(
                f"json: cannot unmarshal {go_kind(decoded)} into Go value of type v1.DeleteOptions"
            )
        if decoded.get("kind") not in (None, "", "DeleteOptions"):
            raise bad_request(
                f'no kind "{decoded.get("kind")}" is registered for version "{decoded.get("apiVersion", "")}" '
                'in scheme "pkg/runtime/scheme.go:111"'
            )
        options = {name: value for name, value in decoded.items() if value is not None}
    else:
        options = _from_query(call)
    check_types(options)
    causes = _delete_causes(options)
    if causes:
        raise invalid("meta.k8s.io", "DeleteOptions", "", causes)
    return options


def _from_query(call: Call) -> Json:
    options: Json = {}
    grace = call.option("gracePeriodSeconds")
    if grace:
        try:
            options["gracePeriodSeconds"] = int(grace)
        except ValueError:
            raise bad_request(f"strconv.ParseInt: parsing {quote(grace)}: invalid syntax") from None
    if call.option("propagationPolicy"):
        options["propagationPolicy"] = call.option("propagationPolicy")
    if call.option("orphanDependents"):
        options["orphanDependents"] = call.flag("orphanDependents")
    if "dryRun" in call.request.query:
        options["dryRun"] = call.request.query["dryRun"]
    return options


_TYPES: dict[str, tuple[type, str]] = {
    "gracePeriodSeconds": (int, "int64"),
    "propagationPolicy": (str, "v1.DeletionPropagation"),
    "orphanDependents": (bool, "bool"),
    "preconditions": (dict, "v1.Preconditions"),
    "dryRun": (list, "[]string"),
}


def check_types(options: Json) -> None:
    """Refuse DeleteOptions with values of the wrong types."""
    for name, (wanted, called) in _TYPES.items():
        value = options.get(name)
        if value is None:
            continue
        if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is int):
            raise bad_request(
                f"json: cannot unmarshal {go_kind(value)} into Go struct field DeleteOptions.{name} of type {called}"
            )
    for name, value in (options.get("preconditions") or {}).items():
        if name in {"uid", "resourceVersion"} and value is not None and not isinstance(value, str):
            raise bad_request(
                f"json: cannot unmarshal {go_kind(value)} into Go struct field "
                f"Preconditions.preconditions.{name} of type string"
            )
    for value in options.get("dryRun") or ():
        if not isinstance(value, str):
            raise bad_request(
                f"json: cannot unmarshal {go_kind(value)} into Go struct field DeleteOptions.dryRun of type string"
            )


def _delete_causes(options: Json) -> list[Json]:
    causes: list[Json] = []
    policy = options.get("propagationPolicy")
    if policy is not None and options.get("orphanDependents") is not None:
        causes.append(
            {
                "reason": "FieldValueInvalid",
                "field": "propagationPolicy",
                "message": f"Invalid value: {quote(policy)}: "
                "orphanDependents and deletionPropagation cannot be both set",
            }
        )
    if policy is not None and policy not in POLICIES:
        causes.append(
            {
                "reason": "FieldValueNotSupported",
                "field": "propagationPolicy",
                "message": f"Unsupported value: {quote(policy)}: "
                'supported values: "Foreground", "Background", "Orphan", "nil"',
            }
        )
    return causes + dry_run_causes(options.get("dryRun") or [])
