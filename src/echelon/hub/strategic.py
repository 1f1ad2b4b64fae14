"""Strategic merge patches as the API server answers them.

What it decides: which Status a bad patch gets. The algorithm is in
`rules/strategic.py`, which the member agent shares. Custom resources do not
take this patch type; `rest_patch` refuses it with 415 before anything is read.

Stable signature: `strategic_merge(original, patch, schema) -> dict`, raises StatusError.
"""

from __future__ import annotations

from typing import Any

from echelon.hub.patch import NOT_APPLICABLE, go_kind
from echelon.hub.status import StatusError, bad_request
from echelon.rules.strategic import BadStrategicPatch, apply_strategic

JSON = Any
Object = dict[str, Any]


def strategic_merge(original: Object, patch: JSON, schema: Any) -> Object:
    """Apply a strategic merge patch to an object of a built-in kind."""
    if type(patch) is not dict:
        raise bad_request(
            f"json: cannot unmarshal {go_kind(patch)} into Go value of type map[string]interface {{}}"
        )
    try:
        return apply_strategic(original, patch, schema)
    except BadStrategicPatch as error:
        if error.kind == "content":
            raise StatusError(422, "Invalid", NOT_APPLICABLE, {}) from error
        raise bad_request(str(error)) from error
