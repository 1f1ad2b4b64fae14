"""What an API server says when it refuses something, without the objects it quotes: they may hold secrets.

A server that refuses a patch quotes the whole patched object. Such a text ends up in logs and conditions, which more
people read than the object. Pure.
"""

from __future__ import annotations

import re

_MARK = "Invalid value: "
_QUOTED_OBJECT = re.compile(_MARK + r"(\"\{.*\}\"|\{.*\}|\"\[.*\]\"|\[.*\])", re.DOTALL)


def without_objects(refusal: str) -> str:
    """Return the text with every quoted object and list left out; short values stay, they say what is wrong."""
    if _MARK not in refusal:
        return refusal
    return _QUOTED_OBJECT.sub(f"{_MARK}(not shown)", refusal)
