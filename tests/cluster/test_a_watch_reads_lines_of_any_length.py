"""A real connection to a hostile API server: long lines, deep ones, broken ones. Each harms its own object and no other."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from aiohttp import web

from rollouts.clock import SystemClock
from rollouts.cluster.connection import Lines
from rollouts.cluster.decoding import Decoder
from rollouts.cluster.store import Store
from rollouts.cluster.structs import ReplicaSetObject
from rollouts.cluster.watch import INITIAL_EVENTS_END
from rollouts.errors import AnswerTooLarge, ApiUnavailable
from rollouts.objects import REPLICA_SET
from rollouts.ports import BODY_MAX_BYTES, LINE_MAX_BYTES, Request
from tests.cluster.reflecting import Seen, reflecting
from tests.cluster.test_an_unreadable_object_harms_no_other import damaged, line, named
from tests.cluster.test_connection import Handler, connected, kubeconfig, serving


class Pieces:
    """A stream that gives the data in pieces of those sizes, then the rest, then its end for ever."""

    def __init__(self, data: bytes, sizes: Sequence[int]) -> None:
        self.data, self.sizes = data, list(sizes)

    async def read(self) -> bytes:
        size = self.sizes.pop(0) if self.sizes else len(self.data)
        piece, self.data = self.data[:size], self.data[size:]
        return piece


async def lines_of(data: bytes, sizes: Sequence[int], *, most_bytes: int) -> list[bytes]:
    reader, found = Lines(Pieces(data, sizes).read, most_bytes=most_bytes), []
    while each := await reader.readline():
        found.append(each)
    return found


async def test_lines_are_the_same_however_they_are_cut_into_packets() -> None:
    """A line over the limit comes cut to it; whatever is around it comes whole."""
    rng = random.Random(4)  # noqa: S311 - a test's
    for _ in range(1_000):
        texts = [bytes(rng.choices(b"abc", k=rng.choice([0, 1, 9, 10, 11, 50]))) for _ in range(rng.randrange(8))]
        data = b"".join(text + b"\n" for text in texts) + bytes(rng.choices(b"xyz", k=rng.choice([0, 5, 30])))
        sizes = [rng.randrange(1, 20) for _ in range(rng.randrange(40))]

        assert await lines_of(data, sizes, most_bytes=11) == [each[:11] for each in data.splitlines(keepends=True)]


def mark(version: int) -> bytes:
    metadata = {"resourceVersion": str(version), "annotations": {INITIAL_EVENTS_END: "true"}}
    return json.dumps({"type": "BOOKMARK", "object": {"metadata": metadata}}).encode() + b"\n"


class Hostile:
    """Lists nothing, then says its lines, then stays open."""

    def __init__(self, *lines: bytes) -> None:
        self.lines = lines
        self.opened = 0

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.opened += 1
        response = web.StreamResponse()
        await response.prepare(request)
        since = int(request.query.get("resourceVersion", 0))
        if not since:
            await response.write(mark(1))
        for each in self.lines[max(0, since - 1) :]:
            await response.write(each)
        await asyncio.sleep(60)
        return response


async def until(seen: Seen[ReplicaSetObject], name: str) -> None:
    async with asyncio.timeout(60):
        while seen.table.get("shop", name) is None:  # noqa: ASYNC110 - a real server, so real time
            await asyncio.sleep(0.01)


@asynccontextmanager
async def watching(folder: Path, answer: Handler) -> AsyncIterator[Seen[ReplicaSetObject]]:
    """A reflector on a real connection to a server that answers so."""
    async with (
        serving(answer) as url,
        connected(kubeconfig(folder, url, {"token": "t"})) as connection,
        reflecting(connection, Store(clock=SystemClock()).add(REPLICA_SET, ReplicaSetObject)) as seen,
    ):
        yield seen


def at(name: str, version: int, spec: bytes = b"{}") -> bytes:
    return line(named(name, spec, resourceVersion=str(version)))


async def test_a_line_of_nine_mebibytes_is_an_object_like_any_other(tmp_path: Path) -> None:
    """1.4 MB of `<` are 8.4 MB in JSON; aiohttp's reader gave up at 4 MiB, and with it every controller."""
    large = at("large", 2, b'{"replicas":4,"x":"%b"}' % (b"\\u003c" * 1_500_000))
    server = Hostile(at("a", 1), large, at("b", 3))
    async with watching(tmp_path, server.answer) as seen:
        await until(seen, "b")

        found = seen.table.get("shop", "large")
        assert found is not None
        assert found.spec.replicas == 4
        assert (seen.unreadable, seen.problems, server.opened) == ([], [], 1)


async def test_a_longer_line_is_skipped_and_its_object_named(tmp_path: Path) -> None:
    """etcd can be told to take larger objects; the watch neither ends, nor lists again, nor shows the object as absent."""
    longer = at("long", 2, b'{"x":"%b"}' % (b"x" * (LINE_MAX_BYTES + 100)))
    server = Hostile(at("long", 1), longer, at("b", 3))
    async with watching(tmp_path, server.answer) as seen:
        await until(seen, "b")

        assert [each.metadata.name for each in seen.unreadable] == ["long"]
        assert "16 MiB" in seen.table.unreadable["shop", "long"].why
        assert seen.table.get("shop", "long") is not None  # the version before
        assert (seen.problems, server.opened) == ([], 1)


@pytest.mark.long
async def test_twenty_thousand_hostile_lines_end_nothing(tmp_path: Path) -> None:
    """Each that says which object it is about is read or told, on one connection; the good line after them arrives."""
    rng = random.Random(3)  # noqa: S311 - a test's
    good = [named(f"a{index}", b'{"replicas":2}', labels={"x": "y"}) for index in range(20)]
    bodies = list[bytes]()
    while len(bodies) < 20_000:
        each = line(damaged(rng, rng.choice(good)).replace(b"\n", b" "))
        with suppress(ApiUnavailable):
            Decoder(ReplicaSetObject).event(each)
            bodies.append(each)
    server = Hostile(at("a", 1), b"".join(bodies), at("end", 90_000_000))
    async with watching(tmp_path, server.answer) as seen:
        await until(seen, "end")

        assert (seen.problems, server.opened) == ([], 1)
        assert seen.unreadable


async def test_an_answer_is_read_up_to_its_limit(tmp_path: Path) -> None:
    """64 MiB of one answer are enough to end a controller with a memory limit, so more is never read."""

    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(2 * BODY_MAX_BYTES // 1_000_000):
            await response.write(b"x" * 1_000_000)
        return response

    async with serving(endless) as url, connected(kubeconfig(tmp_path, url, {"token": "t"})) as connection:
        with pytest.raises(AnswerTooLarge, match="64 MiB"):
            await connection.request(Request("GET", "/x"), deadline_s=30)


async def test_a_connection_that_ends_in_a_line_is_no_object(tmp_path: Path) -> None:
    """Half a line would name an object as unreadable that is only on its way."""

    async def cut(request: web.Request) -> web.Response:
        return web.Response(body=at("a", 1) + at("b", 2)[:-5])

    async with serving(cut) as url, connected(kubeconfig(tmp_path, url, {"token": "t"})) as connection:
        watch = await connection.open_watch(Request("GET", "/x"), deadline_s=5, silence_s=5)
        assert await watch.readline() == at("a", 1)
        with pytest.raises(ApiUnavailable, match="middle of a line"):
            await watch.readline()
        await watch.aclose()
