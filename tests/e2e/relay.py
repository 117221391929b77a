"""A relay between the controller and a real Prometheus that spoils some of the answers on their way."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from itertools import cycle

LISTEN = ("127.0.0.1", 0)
PATIENCE_S = 30.0
HEAD_END = b"\r\n\r\n"


class Way(Enum):
    """What becomes of one question."""

    WHOLE = "the answer comes as Prometheus gives it"
    DROPPED = "the connection ends before the question is passed on"
    LATE = "the answer comes when nobody waits for it any more"
    CUT = "the answer ends in the middle of its body"


@dataclass
class Relay:
    """One question for each connection.

    Args:
        url: whom the controller asks.
        taken: how many questions went which way.
    """

    url: str
    taken: Counter[Way] = field(default_factory=Counter)


@contextmanager
def relayed(url: str, ways: Sequence[Way]) -> Iterator[Relay]:
    """Passes questions on to the server of that URL while the block runs, these ways in turn."""
    host, _, port = url.removeprefix("http://").partition(":")
    turns, lock = cycle(ways), threading.Lock()

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            client: socket.socket = self.request
            client.settimeout(PATIENCE_S)
            with suppress(OSError):  # a client that goes ends its own question only
                if not (question := _question(client)):
                    return
                with lock:
                    way = next(turns)
                    relay.taken[way] += 1
                _answer(client, way, question, (host, int(port)))

    with socketserver.ThreadingTCPServer(LISTEN, Handler) as server:
        server.daemon_threads = True
        relay = Relay(f"http://127.0.0.1:{server.server_address[1]}")
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        try:
            yield relay
        finally:
            server.shutdown()


def _answer(client: socket.socket, way: Way, question: bytes, server: tuple[str, int]) -> None:
    if way is Way.DROPPED:
        return
    answer = _asked(server, question)
    head, _, body = answer.partition(HEAD_END)
    match way:
        case Way.CUT:
            client.sendall(head + HEAD_END + body[: len(body) // 2])
        case Way.LATE:
            client.recv(1)  # it ends when the client gives up
            client.sendall(answer)
        case Way.WHOLE:
            client.sendall(answer)


def _question(client: socket.socket) -> bytes:
    """The request with its body, which is the last one of its connection; empty when the client goes before."""
    read = b""
    while HEAD_END not in read:
        if not (part := client.recv(65_536)):
            return b""
        read += part
    head, _, body = read.partition(HEAD_END)
    lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"connection:")]
    lengths = [int(line.partition(b":")[2]) for line in lines if line.lower().startswith(b"content-length:")]
    while len(body) < sum(lengths):
        body += client.recv(65_536)
    return b"\r\n".join((*lines, b"Connection: close")) + HEAD_END + body


def _asked(server: tuple[str, int], question: bytes) -> bytes:
    with socket.create_connection(server, timeout=PATIENCE_S) as upstream:
        upstream.sendall(question)
        answer = b""
        while part := upstream.recv(65_536):
            answer += part
    return answer
