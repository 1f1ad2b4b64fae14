"""Make an object what its schema says: prune what is unknown, fill in defaults, list what is wrong.

The one place where the verbs meet the schema modules. Unknown fields become an
error, a warning or nothing, as the client's fieldValidation asks.
"""

from __future__ import annotations

from typing import Any

from echelon.hub import metadata, schema
from echelon.hub.call import Call
from echelon.hub.status import bad_request

Json = dict[str, Any]
MODES = ("Ignore", "Warn", "Strict")
MAX_WARNINGS = 20
"""Warning headers on one answer: enough to see the mistake, small enough for header limits."""


def shape(call: Call, obj: Json) -> None:
    """Prune and default an object in place."""
    mode = call.option("fieldValidation")
    if mode and mode not in MODES:
        raise bad_request(
            f'fieldValidation: Unsupported value: "{mode}": supported values: "Ignore", "Strict", "Warn"'
        )
    _meta, unknown = metadata.shape(obj)
    compiled = call.kind.schema
    if compiled is not None:
        unknown += schema.prune(compiled, obj)
        schema.apply_defaults(compiled, obj)
    if unknown:
        report(call, mode or "Warn", [f'unknown field "{path}"' for path in unknown])


def report(call: Call, mode: str, found: list[str]) -> None:
    """Refuse or warn about what strict decoding found."""
    if mode == "Strict":
        raise bad_request("strict decoding error: " + ", ".join(found))
    if mode == "Warn":
        call.warnings += found[:MAX_WARNINGS]


def problems(call: Call, obj: Json, old: Json | None) -> list[dict[str, str]]:
    """Return everything that is wrong with an object."""
    causes = metadata.problems(call.kind, obj["metadata"])
    compiled = call.kind.schema
    if compiled is not None:
        causes += [
            {"reason": cause.reason, "message": cause.message, "field": cause.field}
            for cause in schema.validate(compiled, obj, old)
        ]
    return causes
