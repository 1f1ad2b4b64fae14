"""JSON patches (RFC 6902) and JSON merge patches as the API server applies them.

What it decides: the document after a patch, or the Status with which
kube-apiserver refuses it. What it must never do: change its arguments, or copy
subtrees a patch does not touch.

Two dialects of JSON patch exist in the systems we are compatible with, and
`json_patch` speaks both: the API server's (`replace` of an absent object member
adds it) and the stricter one of overrides (`strict=True`: it is an error, and
error texts begin in lower case). An API server tells its clients only that a
patch does not apply, never why; `PatchRejected` has the text.

Stable signatures:
- `merge_patch(doc, patch) -> dict`, raises StatusError 400 for a patch that is no object.
- `json_patch(doc, ops) -> JSON`, raises StatusError.
- `apply_operations(doc, ops, *, strict=False) -> JSON`, raises PatchRejected: no HTTP in it.
- `diff_merge(old, new)`, from `rules.merge`.
"""

from __future__ import annotations

from typing import Any

from echelon.hub.schema_prune import copy_json
from echelon.hub.status import StatusError, bad_request
from echelon.rules import merge
from echelon.rules.json_patch import PatchRejected, apply_operations
from echelon.rules.merge import diff_merge

__all__ = ["PatchRejected", "apply_operations", "diff_merge", "json_patch", "merge_patch"]

JSON = Any
Object = dict[str, Any]

MAX_OPERATIONS = 10_000
"""More operations in one JSON patch are refused with 413, as by kube-apiserver."""

NOT_APPLICABLE = "the server rejected our request due to an error in our request"

_GO_KINDS: dict[type, str] = {
    dict: "object",
    list: "array",
    str: "string",
    int: "number",
    float: "number",
    bool: "bool",
}


def merge_patch(doc: Object, patch: JSON) -> Object:
    """Apply a merge patch to an object of the API."""
    if type(patch) is not dict:
        raise bad_request(
            f"error decoding patch: json: cannot unmarshal {go_kind(patch)} into Go value of type map[string]interface {{}}"
        )
    patched: Object = merge.merge_patch(doc, patch)
    return patched


def json_patch(doc: JSON, ops: JSON) -> JSON:
    """Apply a JSON patch to an object of the API."""
    if type(ops) is not list:
        raise bad_request(
            f"error decoding patch: json: cannot unmarshal {go_kind(ops)} into Go value of type []handlers.jsonPatchOp"
        )
    for op in ops:
        if type(op) is not dict:
            raise bad_request(
                f"error decoding patch: json: cannot unmarshal {go_kind(op)} into Go value of type handlers.jsonPatchOp"
            )
    if len(ops) > MAX_OPERATIONS:
        text = f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(ops)}"
        raise StatusError(413, "RequestEntityTooLarge", text)
    try:
        patched = apply_operations(doc, ops)
    except PatchRejected as error:
        raise StatusError(422, "Invalid", NOT_APPLICABLE, {}) from error
    # What was copied or moved is in two places, here or in the old object, and what comes out is completed in place.
    return copy_json(patched) if any(op.get("op") in ("copy", "move") for op in ops) else patched


def go_kind(value: JSON) -> str:
    """Name a JSON value the way Go's decoder complains about it."""
    return _GO_KINDS.get(type(value), "null")
