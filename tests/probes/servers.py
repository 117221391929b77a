"""Loopback servers that answer as proxies' admin interfaces do, or fail as they do."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

HEAD = "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"


@dataclass
class Server:
    """Answers GETs; what it was asked is written down.

    Args:
        answers: by the beginning of the path, with its query: what is sent, byte for byte; None never answers.
    """

    answers: Mapping[str, bytes | None]
    port: int = 0
    asked: list[str] = field(default_factory=list)
    hosts: list[str] = field(default_factory=list)

    def url(self, host: str = "127.0.0.1") -> str:
        """Where it listens."""
        return f"http://{host}:{self.port}"


def ok(value: Any) -> bytes:
    """200 with JSON."""
    return raw(json.dumps(value).encode())


def raw(body: bytes, *, status: str = "200 OK", length: int | None = None) -> bytes:
    """An answer with any body, of which `length` bytes are promised."""
    return HEAD.format(status=status, length=len(body) if length is None else length).encode() + body


def redirect(to: str) -> bytes:
    """302."""
    return f"HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode()


@contextlib.asynccontextmanager
async def serving(
    answers: Mapping[str, bytes | None], *, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Server]:
    """A server for as long as the block runs; `port` 0 for any."""
    server = Server(answers, port)
    conversations = set[asyncio.Task[None]]()

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(answered(reader, writer))
        conversations.add(task)
        try:
            await task
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.transport.abort()  # what was drained is sent; nothing of it outlives the loop

    async def answered(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            path = head.split(" ")[1]
            server.asked.append(path)
            server.hosts += [line.partition(": ")[2] for line in head.splitlines() if line.lower().startswith("host:")]
            answer = next(
                (each for start, each in server.answers.items() if path.startswith(start)),
                raw(b"", status="404 Not Found"),
            )
            if answer is None:
                await reader.read()  # until the client gives up
            else:
                writer.write(answer)
                await writer.drain()
            writer.close()
            await writer.wait_closed()

    listener = await asyncio.start_server(converse, host, port, ssl=tls)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()
        for task in conversations:
            task.cancel()
        await asyncio.gather(*conversations, return_exceptions=True)
        await asyncio.sleep(0)  # their transports close in the next round of the loop
        await listener.wait_closed()


async def refused_port() -> int:
    """A port of the loopback on which nobody listens."""
    listener = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port: int = listener.sockets[0].getsockname()[1]
    listener.close()
    await listener.wait_closed()
    return port
