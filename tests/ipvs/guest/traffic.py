"""Servers that say who they are, and clients that write down what happened to every single request."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import struct
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

from tests.ipvs.guest import network

PORT = 8080  # of every server, TCP and UDP
ANSWER_WITHIN_S = 6.0
"""A neighbour that does not answer is given up by the kernel after 3 s, and a SYN that is lost is sent again after 1 s."""

_FAILURES = {
    ConnectionRefusedError: "refused",
    ConnectionResetError: "reset",
    BrokenPipeError: "reset",
    TimeoutError: "timed out",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of one request."""

    by: str  # name of the pod that answered; empty when none did
    failure: str  # why none did: refused, reset, timed out, cut, or the system's words (no route to host)
    seconds: float
    at: float  # when it was over (`time.monotonic`)

    @classmethod
    def now(cls, by: str, failure: str, *, since: float) -> Answer:
        return cls(by, failure, time.monotonic() - since, time.monotonic())


def failures(answers: Iterable[Answer]) -> dict[str, int]:
    return dict(Counter(one.failure for one in answers if one.failure))


def _failure(error: OSError) -> str:
    known = _FAILURES.get(type(error))
    return known or (os.strerror(error.errno).lower() if error.errno else repr(error))


@dataclass(frozen=True, slots=True)
class Server:
    """A process inside a pod's namespace that answers TCP and UDP with the pod's name."""

    pod: network.Pod
    says: str
    process_id: int

    def kill(self) -> None:
        """Ends the process at once, as an app does that has no handler for SIGTERM."""
        os.kill(self.process_id, signal.SIGKILL)
        os.waitpid(self.process_id, 0)


def serve(pod: network.Pod, *, says: str) -> Server:
    """Starts the server of a pod. To be called before this process runs an event loop: it forks."""
    listening = network.socket_in(pod.name, socket.SOCK_STREAM)
    listening.bind((pod.address, PORT))
    listening.listen(512)
    datagrams = network.socket_in(pod.name, socket.SOCK_DGRAM)
    datagrams.bind((pod.address, PORT))
    process_id = os.fork()
    if process_id == 0:
        try:
            asyncio.run(_answer_for_ever(listening, datagrams, says.encode() + b"\n"))
        finally:
            os._exit(1)
    listening.close()
    datagrams.close()
    return Server(pod, says, process_id)


async def _answer_for_ever(listening: socket.socket, datagrams: socket.socket, name: bytes) -> None:
    """Answers a line with the name; after `once` the server closes first, after `half` it only ends its own half."""

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while line := await reader.readline():
                writer.write(name)
                await writer.drain()
                match line.strip():
                    case b"once":
                        break
                    case b"half":
                        writer.write_eof()
        writer.close()

    class Echo(asyncio.DatagramProtocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self.transport = cast(asyncio.DatagramTransport, transport)

        def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
            self.transport.sendto(data + b" " + name, addr)

    await asyncio.get_running_loop().create_datagram_endpoint(Echo, sock=datagrams)
    await (await asyncio.start_server(converse, sock=listening)).serve_forever()


@dataclass(slots=True)
class Connection:
    """A TCP connection of a client, kept open between requests."""

    namespace: str  # of the client
    service: str  # ADDRESS:PORT
    source_port: int = 0  # 0 takes one that the kernel gives
    _socket: socket.socket | None = None

    async def ask(self, word: bytes = b"more", *, within_s: float = ANSWER_WITHIN_S) -> Answer:
        """Sends one request, connecting first if need be."""
        started = time.monotonic()
        try:
            async with asyncio.timeout(within_s):
                by, failure = (await self._exchange(word)).decode().strip(), ""
        except OSError as error:  # TimeoutError is one
            by, failure = "", _failure(error)
        if not by and not failure:
            failure = "cut"
        return Answer.now(by, failure, since=started)

    async def close_after_the_server(self) -> None:
        """Reads the server's end and closes: so the client's kernel keeps no TIME_WAIT and may use the port again."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                async with asyncio.timeout(ANSWER_WITHIN_S):
                    await asyncio.get_running_loop().sock_recv(self._socket, 1)
        self.close()

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def reset(self) -> None:
        """Ends the connection with a reset."""
        if self._socket is not None:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    async def _exchange(self, word: bytes) -> bytes:
        loop = asyncio.get_running_loop()
        if self._socket is None:
            address, _, port = self.service.partition(":")
            self._socket = network.socket_in(self.namespace, socket.SOCK_STREAM)
            if self.source_port:
                self._socket.bind(("", self.source_port))
            await loop.sock_connect(self._socket, (address, int(port)))
        await loop.sock_sendall(self._socket, word + b"\n")
        answer = b""
        while not answer.endswith(b"\n"):
            part = await loop.sock_recv(self._socket, 100)
            if not part:
                return b""
            answer += part
        return answer


async def ask_once(namespace: str, service: str, *, source_port: int = 0) -> Answer:
    """One request on a connection of its own, which the server closes first."""
    connection = Connection(namespace, service, source_port)
    answer = await connection.ask(b"once")
    if answer.failure:
        connection.reset()
    else:
        await connection.close_after_the_server()
    return answer


@dataclass(slots=True)
class Flow:
    """A UDP flow: one source port, and what came back."""

    namespace: str
    service: str
    source_port: int
    _socket: socket.socket | None = None
    _sent: int = 0

    async def ask(self, *, within_s: float) -> Answer:
        """Sends one datagram and waits for its answer; answers to earlier ones are passed over."""
        loop = asyncio.get_running_loop()
        started = time.monotonic()
        self._sent += 1
        by = failure = ""
        try:
            if self._socket is None:
                address, _, port = self.service.partition(":")
                self._socket = network.socket_in(self.namespace, socket.SOCK_DGRAM)
                self._socket.bind(("", self.source_port))
                self._socket.connect((address, int(port)))
            async with asyncio.timeout(within_s):
                await loop.sock_sendall(self._socket, b"%d" % self._sent)
                number = ""
                while number != str(self._sent):
                    number, _, by = (await loop.sock_recv(self._socket, 100)).decode().strip().partition(" ")
        except OSError as error:
            by, failure = "", _failure(error)
        return Answer.now(by, failure, since=started)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
