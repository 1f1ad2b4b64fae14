"""What becomes of a container in the sandbox, told from its image alone. Nothing is pulled, nothing runs.

    a name that is no image reference (`nginx:`, `Nginx`, `nginx:bad:tag`)        InvalidImageName
    the registry ends in `.invalid`, or a word of name or tag says so:
      missing, unknown, nonexistent, notfound, no-such, not-found, does-not-exist  ErrImagePull, ImagePullBackOff
    a word of name or tag is crash, crashing, fail or failing                       exits with 1: CrashLoopBackOff
    a word of name or tag is unready or slow-start                                  runs and never gets ready
    everything else                                                                 runs

Words are what stands between the marks `/ : . _ -` of the last part of the name and of the tag, so `nginx:1.27-crash`
and `crash-test:1` crash and `crashpad:1` does not. Pure; the texts are those of a real kubelet.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from enum import Enum
from typing import Any

_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_HOST_LABEL = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_REFERENCE = re.compile(
    rf"(?:(?P<host>{_HOST_LABEL}(?:\.{_HOST_LABEL})*(?::[0-9]+)?)/)?"
    rf"(?P<path>{_COMPONENT}(?:/{_COMPONENT})*)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?"
    r"(?:@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})?",
)
MAX_IMAGE_NAME = 255  # of the repository, as registries have it

_MISSING = frozenset({"missing", "unknown", "nonexistent", "notfound"})
_MISSING_PHRASES = ("no-such", "not-found", "does-not-exist")
_CRASHING = frozenset({"crash", "crashing", "fail", "failing"})
_UNREADY = frozenset({"unready"})
_UNREADY_PHRASES = ("slow-start",)


class Fate(Enum):
    """What becomes of a container."""

    RUNS = "runs"
    INVALID_NAME = "its image name is no reference"
    CANNOT_BE_PULLED = "its image cannot be pulled"
    CRASHES = "it exits with an error"
    NEVER_READY = "it runs and never gets ready"


def fate_of(image: str) -> Fate:
    """Tell what becomes of a container of this image."""
    found = _REFERENCE.fullmatch(image)
    if found is None or len(found["path"]) > MAX_IMAGE_NAME:
        return Fate.INVALID_NAME
    host = (found["host"] or "").partition(":")[0]
    text = f"{found['path'].rsplit('/', 1)[-1]}:{found['tag'] or ''}".lower()
    words = set(re.split(r"[:._-]+", text))
    if host.endswith(".invalid") or words & _MISSING or _says(text, _MISSING_PHRASES):
        return Fate.CANNOT_BE_PULLED
    if words & _CRASHING:
        return Fate.CRASHES
    if words & _UNREADY or _says(text, _UNREADY_PHRASES):
        return Fate.NEVER_READY
    return Fate.RUNS


def _says(text: str, phrases: tuple[str, ...]) -> bool:
    return any(phrase in text for phrase in phrases)


def full_name(image: str) -> str:
    """Return the name as a container runtime shows it: with registry and tag."""
    found = _REFERENCE.fullmatch(image)
    if found is None:
        return image
    host = found["host"] or ""
    is_host = "." in host or ":" in host or host == "localhost"
    path = image if is_host else f"docker.io/{image if '/' in image else f'library/{image}'}"
    return path if found["tag"] or "@" in image else f"{path}:latest"


def invalid_name_message(image: str) -> str:
    """Say what a kubelet says about a name that is no reference."""
    why = "invalid reference format"
    if image != image.lower() and _REFERENCE.fullmatch(image.lower()):
        why = "invalid reference format: repository name must be lowercase"
    return f'Failed to apply default image tag "{image}": couldn\'t parse image name "{image}": {why}'


def pull_message(image: str) -> str:
    """Say what a kubelet says about an image that is not there."""
    name = full_name(image)
    return (
        f'failed to pull and unpack image "{name}": failed to resolve image: {name}: not found'
        " (the sandbox takes this image to be missing because of its name)"
    )


def log_of(pod: Mapping[str, Any], container: str) -> str:
    """Make up what a container has printed."""
    spec = pod.get("spec") or {}
    every = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    image = next((str(one.get("image") or "") for one in every if one.get("name") == container), "")
    started = str((pod.get("status") or {}).get("startTime") or "")
    name = pod["metadata"]["name"]
    lines = [f"{started} container {container} of pod {name} started (simulated by Echelon's sandbox)"]
    match fate_of(image):
        case Fate.CRASHES:
            lines.append(f"{started} fatal: {image} exits with code 1, as its name says")
        case Fate.NEVER_READY:
            lines.append(f"{started} {image} runs but will not report ready, as its name says")
        case _:
            lines.append(f"{started} {image} is serving")
    return "\n".join(lines) + "\n"


def address_of(uid: str, network: str) -> str:
    """Return an address in a /16 network (`10.244`) that an object keeps for life."""
    number = zlib.crc32(uid.encode()) % (256 * 254)
    return f"{network}.{number // 254}.{number % 254 + 1}"
