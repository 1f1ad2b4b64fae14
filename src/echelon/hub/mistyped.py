"""Objects whose fields have no owners, because a value does not fit its schema or a list item cannot be told from others.

What it decides: whether an API server could follow who set what in a write. It cannot where an item of a keyed list
has no key, or where a part that the request does not write (the status, for example) holds nonsense; what such a
request writes has no owner then, and the owners from before stay.

What it must never do: look twice at what validation looks at anyway.
"""

from __future__ import annotations

from typing import Any

from echelon.hub.fieldset import FieldSet
from echelon.hub.shape import Shape
from echelon.hub.typed import Mistyped, fields_of

Object = dict[str, Any]

_ALWAYS_FIT = frozenset({"apiVersion", "kind", "metadata"})


def is_mistyped(live: Object | None, new: Object, shape: Shape, reset: FieldSet) -> bool:
    """Say whether the owners of a write's fields cannot be told; `reset` is what this endpoint does not write."""
    before = live or {}
    if shape.typed:
        gone = {name: value for name, value in before.items() if value is not new.get(name)}
        return bool(misfits(new, shape) or misfits(gone, shape))
    unwritten = {
        name: value for name, value in new.items() if f"f:{name}" in reset and value is not before.get(name)
    }
    return bool(misfits(unwritten, shape))


def misfits(obj: Object, shape: Shape) -> list[str]:
    """Return what does not fit, in the server's words; items that are there twice do."""
    try:
        fields_of({name: value for name, value in obj.items() if name not in _ALWAYS_FIT}, shape)
    except Mistyped as error:
        return [text for text in error.errors if "duplicate entries for key" not in text]
    return []
