"""`python -m tests.gateways.relay PORT OTHER_PORT`: passes on what comes to one port of the loopback to another one, both ways.

Stopped with SIGSTOP it holds back what comes, and both ends think that the other one has nothing to say.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress

HOST = "127.0.0.1"


async def main(port: int, other_port: int) -> None:
    """Until it is ended."""

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):  # the other end is not there: neither is this one, then
            there, to_there = await asyncio.open_connection(HOST, other_port)
            await asyncio.gather(_pass_on(reader, to_there), _pass_on(there, writer))
        writer.close()

    server = await asyncio.start_server(relay, HOST, port)
    await server.serve_forever()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while read := await reader.read(65_536):
            writer.write(read)
            await writer.drain()
    writer.close()


if __name__ == "__main__":
    asyncio.run(main(*map(int, sys.argv[1:3])))
