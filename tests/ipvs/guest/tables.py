"""What the kernel says about ipvs: /proc/net/ip_vs (virtual and real servers) and /proc/net/ip_vs_conn (connections)."""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.ipvs.guest import network

SAMPLED_EVERY_S = 0.1


@dataclass(frozen=True, slots=True)
class RealServer:
    """One line of the table of real servers; `service` and `address` are ADDRESS:PORT."""

    protocol: str
    service: str
    address: str
    weight: int
    active: int
    inactive: int


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the table of connections."""

    protocol: str
    source_port: int  # of the client
    service: str
    server: str  # ADDRESS:PORT of the real server
    state: str
    expires_s: int  # rest of its life, if no packet comes


def parse_servers(text: str) -> list[RealServer]:
    """Reads /proc/net/ip_vs."""
    servers: list[RealServer] = []
    protocol = service = ""
    for words in map(str.split, text.splitlines()[3:]):
        match words:
            case ["->", address, _, weight, active, inactive]:
                servers.append(
                    RealServer(protocol, service, _address(address), int(weight), int(active), int(inactive))
                )
            case [protocol, address, *_]:
                service = _address(address)
    return servers


def parse_entries(text: str) -> list[Entry]:
    """Reads /proc/net/ip_vs_conn."""
    entries = []
    for line in text.splitlines()[1:]:
        protocol, _, source_port, *places, state, expires = line.split()[:9]
        service, server = (_address(":".join(places[at : at + 2])) for at in (0, 2))
        entries.append(Entry(protocol, int(source_port, 16), service, server, state, int(expires)))
    return entries


def entries_of(node: str, server: str, *, state: str | None = None) -> list[Entry]:
    """The connections to one real server (ADDRESS:PORT) on a node."""
    found = parse_entries(_read(node, "ip_vs_conn"))
    return [one for one in found if one.server == server and state in (None, one.state)]


@dataclass(slots=True)
class Tables:
    """The tables of all nodes, read ten times a second, so that every change of a weight has its time."""

    nodes: Sequence[str]  # names of their namespaces
    _now: dict[tuple[str, str, str], int] = field(default_factory=dict)
    _seen_zero: set[tuple[str, str, str]] = field(default_factory=set)

    def weight(self, node: str, service: str, server: str) -> int | None:
        """Weight of a real server of a Service (both ADDRESS:PORT); None when the table does not list it."""
        return self._now.get((node, service, server))

    def zero_was_seen(self, node: str, service: str, server: str) -> bool:
        """Whether that real server has ever been listed with weight 0."""
        return (node, service, server) in self._seen_zero

    async def until(self, holds: Callable[[], bool], *, within_s: float, what: str) -> float:
        """Waits for a condition on the tables and returns the time (`time.monotonic`). Raises: TimeoutError saying `what`."""
        deadline = time.monotonic() + within_s
        while not holds():
            if time.monotonic() > deadline:
                raise TimeoutError(f"not within {within_s:.0f} s: {what}; the tables show {self._now}")
            await asyncio.sleep(SAMPLED_EVERY_S / 2)
        return time.monotonic()

    async def sample(self) -> None:
        """Reads the tables until cancelled."""
        while True:
            self.read()
            await asyncio.sleep(SAMPLED_EVERY_S)

    def read(self) -> None:
        now = {}
        for node in self.nodes:
            for one in parse_servers(_read(node, "ip_vs")):
                now[node, one.service, one.address] = one.weight
                if one.weight == 0:
                    self._seen_zero.add((node, one.service, one.address))
        self._now = now


def _read(node: str, table: str) -> str:
    with network.inside(node):
        return Path("/proc/thread-self/net", table).read_text()


def _address(text: str) -> str:
    address, _, port = text.partition(":")
    return f"{socket.inet_ntoa(struct.pack('!I', int(address, 16)))}:{int(port, 16)}"
