"""Loopback servers that answer as proxies' admin interfaces and metric endpoints do, or fail as they do."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests.certificates import write_certificate

HEAD = (
    "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n{more}\r\n"
)


@dataclass(frozen=True)
class Sent:
    """One request as it came: its first line, its headers by name in lower case, and its body."""

    line: str
    headers: Mapping[str, str]
    body: bytes


Answer: TypeAlias = bytes | Callable[[Sent], bytes] | None


@dataclass
class Server:
    """Answers by path; what it was asked is written down.

    Args:
        answers: by the beginning of the path, with its query: what is sent, byte for byte, or what makes it of the request; None
            never answers.
    """

    answers: Mapping[str, Answer]
    port: int = 0
    asked: list[str] = field(default_factory=list)
    hosts: list[str] = field(default_factory=list)
    sent: list[Sent] = field(default_factory=list)

    def url(self, host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}"


def ok(value: Any) -> bytes:
    return raw(json.dumps(value).encode())


def raw(body: bytes, *, status: str = "200 OK", length: int | None = None, headers: Sequence[str] = ()) -> bytes:
    """An answer with any body, of which `length` bytes are promised, and more headers as they are written."""
    more = "".join(f"{each}\r\n" for each in headers)
    return HEAD.format(status=status, length=len(body) if length is None else length, more=more).encode() + body


def redirect(to: str) -> bytes:
    return f"HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode()


@contextlib.asynccontextmanager
async def serving(
    answers: Mapping[str, Answer],
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    tls: ssl.SSLContext | None = None,
    drip_s: float = 0.0,
) -> AsyncIterator[Server]:
    """A server for as long as the block runs.

    Args:
        port: 0 for any.
        drip_s: so long after each byte of an answer.
    """
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
            line, *rest = head.strip().splitlines()
            headers = {name.lower(): value for name, _, value in (each.partition(": ") for each in rest)}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            server.sent.append(Sent(line, headers, body))
            path = line.split(" ")[1]
            server.asked.append(path)
            server.hosts += [line.partition(": ")[2] for line in head.splitlines() if line.lower().startswith("host:")]
            found = next(
                (each for start, each in server.answers.items() if path.startswith(start)),
                raw(b"", status="404 Not Found"),
            )
            answer = found(server.sent[-1]) if callable(found) else found
            if answer is None:
                await reader.read()  # until the client gives up
            else:
                for piece in (answer,) if not drip_s else (answer[at : at + 1] for at in range(len(answer))):
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(drip_s)
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
    listener = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port: int = listener.sockets[0].getsockname()[1]
    listener.close()
    await listener.wait_closed()
    return port


def served_as(name: str, folder: Path) -> ssl.SSLContext:
    """What serves with a certificate for `name` that nobody signed; it is in `cert.pem`."""
    write_certificate(folder / "cert.pem", folder / "key.pem", names=f"DNS:{name}")
    served = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    served.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return served


needs_openssl = pytest.mark.skipif(
    shutil.which("openssl") is None, reason="no openssl program to make a certificate with"
)
