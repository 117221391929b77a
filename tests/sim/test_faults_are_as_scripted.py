"""Promise: a fault happens to the request that the tape names, with the effect that it says, and to no other."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator

import pytest

from rollouts.errors import ApiUnavailable
from rollouts.objects import CONFIG_MAP, REPLICA_SET
from rollouts.ports import Request, Response
from rollouts.sim import faults
from rollouts.sim.apiserver.server import SimServer
from rollouts.sim.clock import SimClock, VirtualTimeLoop

PATH = CONFIG_MAP.path("default")


@pytest.fixture
def virtual() -> Iterator[VirtualTimeLoop]:
    """A virtual loop of its own."""
    loop = VirtualTimeLoop()
    yield loop
    loop.close()


def seeded(seed: int) -> random.Random:
    """Chance from a seed."""
    return random.Random(seed)  # noqa: S311  # a simulation's, no secret


def create(name: str) -> Request:
    """A write."""
    return Request("POST", PATH, {}, json.dumps({"metadata": {"name": name}}).encode())


def exists(server: SimServer, name: str) -> bool:
    """Whether the write took effect."""
    return server.history.get(CONFIG_MAP, "default", name) is not None


def outcome(
    loop: VirtualTimeLoop, fault: faults.Fault, *, at: int = 1
) -> tuple[list[Response | type[BaseException]], list[bool]]:
    """Answers to three writes under one fault, and which of them took effect."""

    async def run() -> tuple[list[Response | type[BaseException]], list[bool]]:
        server = SimServer(clock=SimClock(loop))
        faulty = faults.Faulty(server, faults.FaultTape({at: fault}))
        answers: list[Response | type[BaseException]] = []
        for name in ("a", "b", "c"):
            try:
                answers.append(await faulty.request(create(name), deadline_s=5.0))
            except (ApiUnavailable, faults.Crashed) as error:
                answers.append(type(error))
        return answers, [exists(server, name) for name in ("a", "b", "c")]

    return loop.run_until_complete(run())


@pytest.mark.parametrize(
    ("fault", "error", "effects"),
    [
        (faults.CrashBefore(), faults.Crashed, [True, False, False]),
        (faults.CrashAfter(), faults.Crashed, [True, True, False]),
        (faults.DropRequest(), ApiUnavailable, [True, False, True]),
        (faults.DropReply(), ApiUnavailable, [True, True, True]),
        (faults.Slow(9.0), ApiUnavailable, [True, True, True]),
    ],
)
def test_a_lost_answer_says_nothing_about_the_effect(
    virtual: VirtualTimeLoop, fault: faults.Fault, error: type[BaseException], effects: list[bool]
) -> None:
    """The client sees one thing; what happened is another: that is what crash safety is about."""
    answers, happened = outcome(virtual, fault)

    assert answers[1] is error
    assert happened == effects


@pytest.mark.parametrize(
    ("fault", "status", "retry_after_s"),
    [(faults.Conflict(), 409, None), (faults.Throttle(2.0), 429, 2.0), (faults.Unavailable(500), 500, None)],
)
def test_a_refusal_has_no_effect(
    virtual: VirtualTimeLoop, fault: faults.Fault, status: int, retry_after_s: float | None
) -> None:
    """The second write is refused, the others land."""
    answers, happened = outcome(virtual, fault)

    assert isinstance(answers[1], Response)
    assert (answers[1].status, answers[1].retry_after_s) == (status, retry_after_s)
    assert happened == [True, False, True]


def test_reads_leases_and_events_do_not_advance_the_tape() -> None:
    """Write number k is the same write in every run, however often the lease was renewed."""
    tape = faults.FaultTape({0: faults.Conflict()})

    for path in ("/apis/coordination.k8s.io/v1/namespaces/x/leases/y", "/apis/events.k8s.io/v1/namespaces/x/events"):
        assert tape.next_fault(Request("PATCH", path)) is None
    assert tape.next_fault(Request("GET", PATH)) is None
    assert tape.seen == 0
    assert tape.next_fault(create("a")) == faults.Conflict()


def test_a_drawn_tape_is_the_same_for_the_same_seed() -> None:
    """Property tests shrink to a seed."""
    choices = (faults.Conflict(), faults.DropReply(), faults.Throttle())
    tapes = [faults.FaultTape.drawn(seeded(5), faults=choices, length=50, share=0.3) for _ in range(2)]
    drawn = [[tape.next_fault(create("a")) for _ in range(60)] for tape in tapes]

    assert drawn[0] == drawn[1]
    assert any(drawn[0])
    assert not any(drawn[0][50:])


def watched(loop: VirtualTimeLoop, how: faults.WatchFaults) -> tuple[list[str], float]:
    """Types of the events of a watch during five changes of one object, and when the last came."""

    async def run() -> tuple[list[str], float]:
        server = SimServer(clock=SimClock(loop))
        liar = faults.FaultyWatches(server, how, seeded(1))
        stream = await liar.open_watch(Request("GET", PATH, {"timeoutSeconds": "60"}), deadline_s=1.0, silence_s=90.0)
        server.answer(create("a"))
        for number in range(4):
            body = json.dumps({"data": {"x": str(number)}}).encode()
            server.answer(Request("PATCH", f"{PATH}/a", {}, body, "application/merge-patch+json"))
        seen: list[str] = []
        last_s = 0.0
        try:
            while line := await stream.readline():
                seen.append(json.loads(line)["type"])
                last_s = loop.time()
        except ApiUnavailable:
            seen.append("BROKEN")
        return seen, last_s

    return loop.run_until_complete(run())


def test_watches_lie_as_told(virtual: VirtualTimeLoop) -> None:
    """Dropped, repeated, late and broken: each on its own."""
    all_five = ["ADDED"] + ["MODIFIED"] * 4

    events, last_s = watched(virtual, faults.WatchFaults())
    assert events == all_five
    assert last_s == pytest.approx(virtual.time() - 60, abs=60)
    assert watched(virtual, faults.WatchFaults(drop=1.0))[0] == ["ADDED"]
    assert watched(virtual, faults.WatchFaults(duplicate=1.0))[0] == [kind for kind in all_five for _ in range(2)]
    assert watched(virtual, faults.WatchFaults(break_after=2))[0] == ["ADDED", "MODIFIED", "BROKEN"]


def test_delayed_events_come_late_and_in_order(virtual: VirtualTimeLoop) -> None:
    """The store sees the past."""
    seen, last_s = watched(virtual, faults.WatchFaults(delay_s=(2.0, 2.0)))

    assert seen == ["ADDED"] + ["MODIFIED"] * 4
    assert last_s == pytest.approx(10.0)


def test_a_stale_list_is_an_older_answer(virtual: VirtualTimeLoop) -> None:
    """A frozen API server serves objects that are gone."""

    async def run() -> tuple[int, int]:
        server = SimServer(clock=SimClock(virtual))
        liar = faults.FaultyWatches(server, faults.WatchFaults(stale_lists=1.0), seeded(1))
        request = Request("GET", REPLICA_SET.path("default"))
        first = json.loads((await liar.request(request, deadline_s=1.0)).body)
        server.answer(create("a"))
        second = json.loads((await liar.request(request, deadline_s=1.0)).body)
        return int(first["metadata"]["resourceVersion"]), int(second["metadata"]["resourceVersion"])

    first, second = virtual.run_until_complete(run())
    assert first == second


def test_a_watch_that_is_silent_is_given_up(virtual: VirtualTimeLoop) -> None:
    """A half-open connection must not freeze the view for ever; a bookmark a minute keeps a good one alive."""

    async def run(**query: str) -> str:
        server = SimServer(clock=SimClock(virtual))
        stream = await server.open_watch(Request("GET", PATH, query), deadline_s=1.0, silence_s=90.0)
        try:
            return str(json.loads(await stream.readline())["type"])
        except ApiUnavailable:
            return "SILENT"

    assert virtual.run_until_complete(run()) == "SILENT"
    assert virtual.run_until_complete(run(allowWatchBookmarks="true")) == "BOOKMARK"


def test_compaction_expires_watches_and_pages(virtual: VirtualTimeLoop) -> None:
    """410 in both places: list again from the start."""

    async def run() -> tuple[str, int, int]:
        server = SimServer(clock=SimClock(virtual))
        for name in ("a", "b", "c"):
            server.answer(create(name))
        page = json.loads(server.answer(Request("GET", PATH, {"limit": "1"})).body)["metadata"]
        server.compact()
        query = {"resourceVersion": page["resourceVersion"]}
        stream = await server.open_watch(Request("GET", PATH, query), deadline_s=1.0, silence_s=9.0)
        event = json.loads(await stream.readline())
        rest = server.answer(Request("GET", PATH, {"limit": "1", "continue": page["continue"]}))
        return event["type"], event["object"]["code"], rest.status

    assert virtual.run_until_complete(run()) == ("ERROR", 410, 410)


def test_a_restarting_server_ends_its_watches(virtual: VirtualTimeLoop) -> None:
    """A clean end: what was sent can still be read."""

    async def run() -> tuple[bytes, bytes]:
        server = SimServer(clock=SimClock(virtual))
        stream = await server.open_watch(Request("GET", PATH), deadline_s=1.0, silence_s=9.0)
        server.answer(create("a"))
        server.end_watches()
        await asyncio.sleep(0)
        return await stream.readline(), await stream.readline()

    first, second = virtual.run_until_complete(run())
    assert first.startswith(b'{"type":"ADDED"')
    assert second == b""
