"""Tells the C library to keep large buffers instead of giving them back after each answer.

A list of 500 objects is a megabyte; glibc would map and unmap such a buffer for every
answer, and the page faults cost more than the answer (2.8 ms against 1.5 ms measured).

What it must never do: fail; on other C libraries it does nothing.
"""

from __future__ import annotations

import ctypes

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
KEPT_BYTES = 256 * 1024 * 1024
"""Buffers up to this size come from the heap, and as much of its top stays with the process."""


def keep_buffers() -> bool:
    """Keep freed memory for the next answer; say whether the C library listened."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return all(mallopt(name, KEPT_BYTES) == 1 for name in (_TRIM_THRESHOLD, _MMAP_THRESHOLD))
