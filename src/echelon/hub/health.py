"""/healthz, /livez and /readyz: one line a check, as kube-apiserver prints them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from echelon.hub.call import Request, Response

if TYPE_CHECKING:
    from echelon.hub.app import Hub

TEXT = "text/plain; charset=utf-8"
ENDPOINTS = frozenset({"healthz", "livez", "readyz"})
Check = Callable[["Hub"], str]


def _fine(_hub: Hub) -> str:
    return ""


def _log(hub: Hub) -> str:
    return hub.store.failure


def _shutdown(hub: Hub) -> str:
    return "process is shutting down" if hub.closing else ""


LIVE: dict[str, Check] = {"ping": _fine, "log": _log, "etcd": _log}
READY: dict[str, Check] = {**LIVE, "etcd-readiness": _log, "informer-sync": _fine, "shutdown": _shutdown}
"""`etcd` is what clients ask for: here it is the revision log."""


def page_not_found() -> Response:
    """Answer that nothing is at this path."""
    return Response(404, b"404 page not found\n", TEXT)


def serve(hub: Hub, path: str, request: Request) -> Response:
    """Answer a health check, or one part of it."""
    endpoint, _, part = path.strip("/").partition("/")
    checks = READY if endpoint == "readyz" else LIVE
    if part:
        if part not in checks:
            return page_not_found()
        problem = checks[part](hub)
        return Response(500, f"internal server error: {problem}\n".encode(), TEXT) if problem else _ok()
    excluded = set(request.query.get("exclude", ()))
    lines = []
    failed = False
    for name, check in checks.items():
        if name in excluded:
            lines.append(f"[+]{name} excluded: ok")
            continue
        problem = check(hub)
        failed = failed or bool(problem)
        lines.append(f"[-]{name} failed: {problem}" if problem else f"[+]{name} ok")
    if failed:
        return Response(500, ("\n".join(lines) + f"\n{endpoint} check failed\n").encode(), TEXT)
    if "verbose" in request.query:
        return Response(200, ("\n".join(lines) + f"\n{endpoint} check passed\n").encode(), TEXT)
    return _ok()


def _ok() -> Response:
    return Response(200, b"ok", TEXT)
