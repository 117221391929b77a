"""Promise: a fault happens to the request that the tape names, with the effect that it says, and to no other."""

from __future__ import annotations

import asyncio
import json
import random

import pytest

from rollouts.errors import ApiUnavailable
from rollouts.objects import CONFIG_MAP, REPLICA_SET
from rollouts.ports import Request
from rollouts.sim import faults
from rollouts.sim.apiserver.server import SimServer
from rollouts.sim.clock import SimClock

pytestmark = pytest.mark.virtual_time
PATH = CONFIG_MAP.path("default")


@pytest.fixture
async def server() -> SimServer:
    """Its timestamps are those of the loop."""
    return SimServer(clock=SimClock(asyncio.get_running_loop()))


def seeded(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311  # a simulation's, no secret


def create(name: str) -> Request:
    return Request("POST", PATH, {}, json.dumps({"metadata": {"name": name}}).encode())


@pytest.mark.parametrize(
    ("fault", "answer", "effects"),
    [
        (faults.CrashBefore(), faults.Crashed, [True, False, False]),
        (faults.CrashAfter(), faults.Crashed, [True, True, False]),
        (faults.DropRequest(), ApiUnavailable, [True, False, True]),
        (faults.DropReply(), ApiUnavailable, [True, True, True]),
        (faults.Slow(9.0), ApiUnavailable, [True, True, True]),
        (faults.Conflict(), (409, None), [True, False, True]),
        (faults.Throttle(2.0), (429, 2.0), [True, False, True]),
        (faults.Unavailable(500), (500, None), [True, False, True]),
    ],
)
async def test_what_the_client_sees_of_a_fault_is_not_what_happened(
    server: SimServer, fault: faults.Fault, answer: object, effects: list[bool]
) -> None:
    """A lost answer says nothing about the effect: that is what crash safety is about. The second of three writes has it."""
    faulty = faults.Faulty(server, faults.FaultTape({1: fault}))
    seen: list[object] = []
    for name in ("a", "b", "c"):
        try:
            said = await faulty.request(create(name), deadline_s=5.0)
            seen.append((said.status, said.retry_after_s))
        except (ApiUnavailable, faults.Crashed) as error:
            seen.append(type(error))

    assert seen[1] == answer
    assert [server.history.get(CONFIG_MAP, "default", name) is not None for name in ("a", "b", "c")] == effects


def test_reads_leases_and_events_do_not_advance_the_tape() -> None:
    """Write number k is the same write in every run, however often the lease was renewed."""
    tape = faults.FaultTape({0: faults.Conflict()})

    for path in ("/apis/coordination.k8s.io/v1/namespaces/x/leases/y", "/apis/events.k8s.io/v1/namespaces/x/events"):
        assert tape.next_fault(Request("PATCH", path)) is None
    assert tape.next_fault(Request("GET", PATH)) is None
    assert tape.seen == 0
    assert tape.next_fault(create("a")) == faults.Conflict()


async def watched(how: faults.WatchFaults) -> tuple[list[str], float]:
    """Types of the events of a watch during five changes of one object, and after how many seconds the last came."""
    loop = asyncio.get_running_loop()
    server, began_s = SimServer(clock=SimClock(loop)), loop.time()
    liar = faults.FaultyWatches(server, how, seeded(1))
    stream = await liar.open_watch(Request("GET", PATH, {"timeoutSeconds": "60"}), deadline_s=1.0, silence_s=90.0)
    server.answer(create("a"))
    for number in range(4):
        body = json.dumps({"data": {"x": str(number)}}).encode()
        server.answer(Request("PATCH", f"{PATH}/a", {}, body, "application/merge-patch+json"))
    seen: list[str] = []
    took_s = 0.0
    try:
        while line := await stream.readline():
            seen.append(json.loads(line)["type"])
            took_s = loop.time() - began_s
    except ApiUnavailable:
        seen.append("BROKEN")
    return seen, took_s


ALL_FIVE = ["ADDED"] + ["MODIFIED"] * 4


@pytest.mark.parametrize(
    ("how", "seen", "took_s"),
    [
        (faults.WatchFaults(), ALL_FIVE, 0.0),
        (faults.WatchFaults(drop=1.0), ["ADDED"], 0.0),
        (faults.WatchFaults(duplicate=1.0), [kind for kind in ALL_FIVE for _ in range(2)], 0.0),
        (faults.WatchFaults(break_after=2), ["ADDED", "MODIFIED", "BROKEN"], 0.0),
        (faults.WatchFaults(delay_s=(2.0, 2.0)), ALL_FIVE, 10.0),
        (faults.WatchFaults(lag_s={"configmaps": 170.0}), ALL_FIVE, 170.0),
        (faults.WatchFaults(lag_s={"pods": 170.0}), ALL_FIVE, 0.0),
    ],
    ids=["none", "dropped", "repeated", "broken", "late and in order", "all as late", "those of another kind"],
)
async def test_watches_lie_as_told(how: faults.WatchFaults, seen: list[str], took_s: float) -> None:
    """Each on its own."""
    events, last_s = await watched(how)

    assert events == seen
    assert last_s == pytest.approx(took_s, abs=0.1)


async def test_a_stale_list_is_an_older_answer(server: SimServer) -> None:
    """A frozen API server serves objects that are gone."""
    liar = faults.FaultyWatches(server, faults.WatchFaults(stale_lists=1.0), seeded(1))
    request = Request("GET", REPLICA_SET.path("default"))

    first = json.loads((await liar.request(request, deadline_s=1.0)).body)
    server.answer(create("a"))
    second = json.loads((await liar.request(request, deadline_s=1.0)).body)

    assert first["metadata"]["resourceVersion"] == second["metadata"]["resourceVersion"]


async def test_a_watch_that_is_silent_is_given_up(server: SimServer) -> None:
    """A half-open connection must not freeze the view for ever; a bookmark a minute keeps a good one alive."""
    silent = await server.open_watch(Request("GET", PATH), deadline_s=1.0, silence_s=90.0)
    with pytest.raises(ApiUnavailable):
        await silent.readline()

    query = {"allowWatchBookmarks": "true"}
    alive = await server.open_watch(Request("GET", PATH, query), deadline_s=1.0, silence_s=90.0)
    assert json.loads(await alive.readline())["type"] == "BOOKMARK"


async def test_compaction_expires_watches_and_pages(server: SimServer) -> None:
    """410 in both places: list again from the start."""
    for name in ("a", "b", "c"):
        server.answer(create(name))
    page = json.loads(server.answer(Request("GET", PATH, {"limit": "1"})).body)["metadata"]
    server.compact()

    query = {"resourceVersion": page["resourceVersion"]}
    stream = await server.open_watch(Request("GET", PATH, query), deadline_s=1.0, silence_s=9.0)
    event = json.loads(await stream.readline())
    rest = server.answer(Request("GET", PATH, {"limit": "1", "continue": page["continue"]}))

    assert (event["type"], event["object"]["code"], rest.status) == ("ERROR", 410, 410)


async def test_a_restarting_server_ends_its_watches(server: SimServer) -> None:
    """A clean end: what was sent can still be read."""
    stream = await server.open_watch(Request("GET", PATH), deadline_s=1.0, silence_s=9.0)
    server.answer(create("a"))
    server.end_watches()
    await asyncio.sleep(0)

    assert (await stream.readline()).startswith(b'{"type":"ADDED"')
    assert await stream.readline() == b""
