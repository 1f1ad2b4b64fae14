"""What a server asks of its process: to keep large buffers, and as many connections as the system allows.

A list of 500 objects is a megabyte; glibc would map and unmap such a buffer for every
answer, and the page faults cost more than the answer (2.8 ms against 1.5 ms measured).

What it must never do: fail; where the system does not listen, it does nothing.
"""

from __future__ import annotations

import contextlib
import ctypes
import resource

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


def allow_files() -> int:
    """Let the process open as many files as it may: each watch is one, and shells begin with 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):  # macOS names a hard limit that it does not grant
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
