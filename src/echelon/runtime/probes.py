"""The endpoints of an agent process: /healthz, /readyz and /metrics, on loopback unless told otherwise.

Says only whether the process follows what it should follow; object payloads never leave through here.
"""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web

from echelon.runtime.telemetry import Telemetry


class Probes:
    """A tiny HTTP server beside the agent."""

    def __init__(self, telemetry: Telemetry, not_ready: Callable[[], str]) -> None:
        self._telemetry = telemetry
        self._not_ready = not_ready
        self._runner: web.ServerRunner | None = None
        self.port = 0

    async def start(self, *addresses: tuple[str, int]) -> None:
        """Begin to listen at every address; port 0 takes a free one."""
        if not addresses:
            return
        self._runner = web.ServerRunner(web.Server(self._answer))
        await self._runner.setup()
        for host, port in addresses:
            await web.TCPSite(self._runner, host, port).start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Stop to listen."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        if request.method not in {"GET", "HEAD"}:
            return web.Response(status=405, text="only GET\n")
        if request.path == "/metrics":
            return web.Response(
                body=self._telemetry.page(), headers={"Content-Type": "text/plain; version=0.0.4"}
            )
        if request.path in {"/healthz", "/livez"}:
            return web.Response(text="ok\n")
        if request.path == "/readyz":
            why = self._not_ready()
            return web.Response(status=503 if why else 200, text=(why or "ok") + "\n")
        return web.Response(status=404, text="there are /healthz, /readyz and /metrics\n")
