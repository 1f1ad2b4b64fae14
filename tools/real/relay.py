"""A TCP relay in one direction of trust: whoever connects to PORT talks to HOST:PORT behind it.

    python3 tools/real/relay.py PORT HOST:PORT

A process of its own, so that a network can be cut by signals: stopped (SIGSTOP) it swallows everything, as a network
that drops packets; killed it resets every connection, as one whose gateway is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys

PIECE_BYTES = 64 * 1024


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Carry bytes one way until either side ends."""
    with contextlib.suppress(OSError):
        while piece := await reader.read(PIECE_BYTES):
            writer.write(piece)
            await writer.drain()
    writer.close()


async def serve(port: int, host: str, target: int) -> None:
    """Relay every connection."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            to_reader, to_writer = await asyncio.open_connection(host, target)
        except OSError:
            writer.close()
            return
        await asyncio.gather(pump(reader, to_writer), pump(to_reader, writer))

    server = await asyncio.start_server(connected, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    where, _, number = sys.argv[2].rpartition(":")
    asyncio.run(serve(int(sys.argv[1]), where, int(number)))
