"""A link that can be slow, lossy or cut: a transport around another one.

The sandbox uses it to let people rehearse (a slow member, a member cut off); simulations use it to prove that
nothing is lost. All chance comes from the rng given, so a simulated link replays from its seed. A lost answer
is a request that was carried out: exactly what makes retries dangerous.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from random import Random

from echelon.client.base import Reply, Transport
from echelon.client.errors import Unreachable


class Link:
    """Carries requests over another transport, badly on purpose."""

    def __init__(self, inner: Transport, rng: Random | None = None) -> None:
        self.inner = inner
        self.rng = rng or Random(0)
        self.latency_s = (0.0, 0.0)  # from, to: seconds each way
        self.lose_request = 0.0  # share of requests that never arrive
        self.lose_answer = 0.0  # share of requests carried out whose answer never arrives
        self.drop_watch = 0.0  # share of watch lines before which the stream breaks
        self.requests = 0
        self._up = asyncio.Event()
        self._up.set()
        self._streams: set[asyncio.Future[None]] = set()

    def cut(self) -> None:
        """Cut the link: requests fail, watches break."""
        self._up.clear()
        self.break_streams()

    def mend(self) -> None:
        """Let requests through again."""
        self._up.set()

    def break_streams(self) -> None:
        """Break every watch that is open."""
        for broken in tuple(self._streams):
            if not broken.done():
                broken.set_result(None)

    async def _delay(self) -> None:
        least, most = self.latency_s
        if most:
            await asyncio.sleep(self.rng.uniform(least, most))

    async def send(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None) -> Reply:
        """Send one request, if the link feels like it."""
        self.requests += 1
        await self._delay()
        if not self._up.is_set() or self.rng.random() < self.lose_request:
            raise Unreachable(f"{method} {path}: the link is down")
        reply = await self.inner.send(method, path, headers, body)
        await self._delay()
        if not self._up.is_set() or self.rng.random() < self.lose_answer:
            raise Unreachable(f"{method} {path}: the answer was lost")
        return reply

    async def stream(self, path: str, headers: Mapping[str, str]) -> AsyncIterator[bytes]:
        """Yield the lines of a stream until it, or the link, breaks."""
        self.requests += 1
        await self._delay()
        if not self._up.is_set():
            raise Unreachable(f"watch {path}: the link is down")
        broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._streams.add(broken)
        source = self.inner.stream(path, headers)
        try:
            while True:
                line = await self._next(source, broken)
                if line is None:
                    return
                await self._delay()
                if broken.done() or self.rng.random() < self.drop_watch:
                    raise Unreachable(f"watch {path}: the stream broke")
                yield line
        finally:
            self._streams.discard(broken)
            broken.cancel()
            close = getattr(source, "aclose", None)
            if close:
                with contextlib.suppress(RuntimeError):
                    await close()

    async def _next(self, source: AsyncIterator[bytes], broken: asyncio.Future[None]) -> bytes | None:
        step = asyncio.ensure_future(anext(source, None))
        await asyncio.wait((step, broken), return_when=asyncio.FIRST_COMPLETED)
        if step.done():
            return step.result()
        step.cancel()
        await asyncio.gather(step, return_exceptions=True)
        raise Unreachable("the stream broke")

    async def close(self) -> None:
        """Close the transport behind."""
        await self.inner.close()
