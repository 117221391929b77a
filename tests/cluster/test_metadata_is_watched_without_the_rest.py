"""A table that needs only metadata is kept equal to the cluster, and no list and no event brings it anything else."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from rollouts.cluster.store import Store
from rollouts.cluster.structs import ConfigMapObject
from rollouts.errors import ApiForbidden
from rollouts.objects import CONFIG_MAP, Manifest
from rollouts.ports import METADATA, METADATA_LIST, ApiServer, Request, Response, WatchStream
from rollouts.sim.clock import SimClock
from rollouts.sim.cluster import SimulatedCluster
from rollouts.sim.faults import FaultyWatches, WatchFaults
from tests import build
from tests.cluster.reflecting import Seen, reflecting
from tests.cluster.stand_ins import NoServer, PassesOn

pytestmark = pytest.mark.virtual_time(limit_s=600)

SECRETIVE = "nobody-should-read-this"
LABEL = "rollouts.dev/name"


class Listener(PassesOn):
    """Keeps what it was asked for and what it answered."""

    def __init__(self, api: ApiServer) -> None:
        super().__init__(api)
        self.asked: list[tuple[str, str]] = []
        self.said: list[bytes] = []

    async def request(self, request: Request, *, deadline_s: float) -> Response:
        self.asked.append(("list", request.accept))
        answer = await super().request(request, deadline_s=deadline_s)
        self.said.append(answer.body)
        return answer

    async def open_watch(self, request: Request, *, deadline_s: float, silence_s: float) -> WatchStream:
        self.asked.append(("watch", request.accept))
        stream = await super().open_watch(request, deadline_s=deadline_s, silence_s=silence_s)
        return Overheard(stream, self.said)


class Overheard:
    def __init__(self, stream: WatchStream, said: list[bytes]) -> None:
        self.status = stream.status
        self.stream = stream
        self.said = said

    async def readline(self) -> bytes:
        line = await self.stream.readline()
        self.said.append(line)
        return line

    async def aclose(self) -> None:
        await self.stream.aclose()


def config_map(name: str, **metadata: Any) -> Manifest:
    """A ConfigMap with data that must not come here."""
    return build.config_map(name, "default", metadata=metadata, data={"key": SECRETIVE})


@dataclass
class Watched:
    """A watch of all ConfigMaps of a cluster: what it asked for and was answered, and what it shows."""

    cluster: SimulatedCluster
    listener: Listener
    seen: Seen[ConfigMapObject]


@pytest.fixture
def faults() -> WatchFaults | None:
    """None, unless a test says more."""
    return None


@pytest.fixture
async def watched(faults: WatchFaults | None) -> AsyncIterator[Watched]:
    """A watch that has been there for five seconds, of three ConfigMaps and that of kube-proxy."""
    async with SimulatedCluster(seed=5) as cluster:
        for number in range(3):
            cluster.apply(config_map(f"old-{number}"))
        rng = random.Random(1)  # noqa: S311 - a simulation's
        listener = Listener(cluster.api if faults is None else FaultyWatches(cluster.api, faults, rng))
        store = Store(clock=cluster.clock)
        table = store.add(CONFIG_MAP, ConfigMapObject, labels=(LABEL,), optional=True, metadata_only=True)
        async with reflecting(listener, table) as seen:
            await asyncio.sleep(5)
            yield Watched(cluster, listener, seen)


@pytest.mark.parametrize(
    ("faults", "asked"),
    [
        (None, [("watch", METADATA)]),
        (WatchFaults(streaming_lists=False), [("watch", METADATA), ("list", METADATA_LIST), ("watch", METADATA)]),
    ],
    ids=["streaming list", "pages"],
)
async def test_the_table_shows_every_change_and_no_content(watched: Watched, asked: list[tuple[str, str]]) -> None:
    """A change of the content is a new resourceVersion; a copy is found by its label."""
    table = watched.seen.table
    assert {each.metadata.name for each in table.all()} == {"kube-proxy", "old-0", "old-1", "old-2"}
    first = table.get("default", "old-1")
    watched.cluster.apply({**config_map("old-1"), "data": {"key": f"{SECRETIVE}-any-more"}})
    watched.cluster.apply(config_map("copy", labels={LABEL: "cart"}))
    await asyncio.sleep(1)

    second = table.get("default", "old-1")
    assert first is not None
    assert second is not None
    assert second.metadata.version > first.metadata.version
    (copy,) = table.labelled(LABEL, "default", "cart")
    assert copy.metadata.name == "copy"
    assert len(watched.seen.changes) == 6
    assert watched.listener.asked == asked
    assert SECRETIVE not in b"".join(watched.listener.said).decode()


async def test_the_time_of_the_last_change_moves_with_the_content(watched: Watched) -> None:
    """A simulated cluster keeps the times of field owners as the real one does."""
    before = watched.seen.table.get("default", "old-1")
    await asyncio.sleep(100)
    watched.cluster.apply({**config_map("old-1"), "data": {"key": "new"}})
    await asyncio.sleep(1)
    after = watched.seen.table.get("default", "old-1")

    assert before is not None
    assert after is not None
    assert before.metadata.changed_at == before.metadata.creation_timestamp == after.metadata.creation_timestamp
    assert (after.metadata.changed_at or "") > (before.metadata.changed_at or "")


class Indented(NoServer):
    """Refuses a watch as kube-apiserver 1.36 does for who asks for metadata: with an indented object, line by line."""

    status = 403

    def __init__(self) -> None:
        said = {"kind": "Status", "reason": "Forbidden", "message": "configmaps is forbidden", "details": {"a": {}}}
        self.lines = [line.encode() + b"\n" for line in json.dumps(said, indent=2).splitlines()]

    async def open_watch(self, request: Request, *, deadline_s: float, silence_s: float) -> WatchStream:
        assert request.accept == METADATA
        assert min(deadline_s, silence_s) > 0
        return self

    async def readline(self) -> bytes:
        if not self.lines:
            await asyncio.sleep(1e6)
        return self.lines.pop(0)


async def test_a_refusal_of_several_lines_is_read_to_its_end() -> None:
    """Otherwise people would read `{` where the reason should be; and the connection may stay open behind it."""
    table = Store(clock=SimClock(asyncio.get_running_loop())).add(CONFIG_MAP, ConfigMapObject, metadata_only=True)
    async with reflecting(Indented(), table) as seen:
        await asyncio.sleep(0.5)

    (problem,) = seen.problems
    assert isinstance(problem, ApiForbidden)
    assert "403 Forbidden configmaps is forbidden" in str(problem)
