"""The work queue: one entry a key, one worker a key, in order, later when asked, and no namespace keeps another one waiting.

Turns go round the namespaces, and none may hold all workers however slow its passes are.
"""

from __future__ import annotations

import asyncio
import random
from functools import partial

import pytest

from rollouts.controller.workqueue.queue import BACKOFF_MAX_S, WorkQueue
from rollouts.controller.workqueue.runtime import reconcile_loop
from rollouts.errors import Delays
from rollouts.objects import Key
from rollouts.sim.clock import SimClock
from tests.hostile.work import lines_of

pytestmark = pytest.mark.virtual_time

WORKERS = 32
A, B, C = Key("n", "a"), Key("n", "b"), Key("n", "c")


def queue(workers: int = WORKERS) -> WorkQueue:
    """An empty queue on the running loop's time."""
    rng = random.Random(7)  # noqa: S311 - jitter
    return WorkQueue(clock=SimClock(asyncio.get_running_loop()), rng=rng, workers=workers)


def now_s() -> float:
    """The running loop's time."""
    return asyncio.get_running_loop().time()


async def test_keys_come_in_the_order_in_which_they_became_ready() -> None:
    """No Rollout starves behind a busy one."""
    work = queue()
    for key in (A, B, A, C, B):
        work.add(key)

    assert [await work.take(), await work.take(), await work.take()] == [A, B, C]
    assert len(work) == 0


async def test_the_earliest_of_several_times_counts() -> None:
    """A later wish must not push an earlier one back."""
    work = queue()
    work.add_at(A, 50.0)
    work.add_at(A, 10.0)
    work.add_at(A, 30.0)

    assert await work.take() == A
    assert now_s() == pytest.approx(10.0, abs=0.01)
    work.done(A)
    work.add_at(B, 60.0)
    assert await work.take() == B  # and nothing of A at 30 or 50


async def test_a_pass_forgets_the_time_that_was_set_before_it() -> None:
    """The pass that begins says itself when the next one is due."""
    work = queue()
    work.add_at(A, 20.0)
    work.add(A)
    await work.take()
    work.done(A)
    work.add_at(B, 100.0)

    assert await work.take() == B


async def test_failures_back_off_exponentially_with_jitter_up_to_30_seconds() -> None:
    """A broken dependency is not hammered, and keys that failed together do not return together."""
    work = queue()
    delays_s = [work.failed(A) for _ in range(15)]
    whole_s = [min(BACKOFF_MAX_S, 0.05 * 2**failures) for failures in range(15)]

    assert all(whole / 2 <= delay <= whole for whole, delay in zip(whole_s, delays_s, strict=True))

    work.succeeded(A)

    assert work.failed(A) <= 0.05


async def test_an_event_ends_a_back_off_but_not_a_hold() -> None:
    """What changed may have mended the fault; but a server that asks for patience, or a poisoned object, sets the pace."""
    work = queue()
    work.failed(A, retry_in_s=30.0)
    work.failed(B, retry_in_s=30.0, hold_s=5.0)
    work.add(B)
    work.add(A)

    assert await work.take() == A
    assert now_s() == 0.0
    assert await work.take() == B
    assert now_s() == pytest.approx(5.0, abs=0.01)


async def test_a_cancelled_taker_loses_no_key() -> None:
    """A worker that is cancelled between its wake-up and its turn passes the wake-up on."""
    work = queue()
    first, second = asyncio.create_task(work.take()), asyncio.create_task(work.take())
    await asyncio.sleep(0)
    work.add(A)
    first.cancel()

    assert await second == A


async def test_a_closed_queue_sends_every_worker_home() -> None:
    """SIGTERM: passes that have begun end, no other begins."""
    work = queue()
    takers = [asyncio.create_task(work.take()) for _ in range(3)]
    await asyncio.sleep(0)
    work.add_at(A, 5.0)
    work.close()
    work.add(B)

    assert await asyncio.gather(*takers) == [None, None, None]
    assert await work.take() is None


async def serve(work: WorkQueue, *, workers: int, took_s: dict[str, float], began_s: dict[Key, float]) -> None:
    """Workers whose passes take as long as their namespace says."""

    async def worker() -> None:
        while (key := await work.take()) is not None:
            began_s.setdefault(key, now_s())
            await asyncio.sleep(took_s.get(key.namespace, 0.0))
            work.done(key)

    async with asyncio.TaskGroup() as group:
        for _ in range(workers):
            group.create_task(worker())


async def first_passes(slow: dict[str, int], *, workers: int = WORKERS, slow_s: float = 10.0) -> float:
    """When the first pass of another namespace begins that comes a second after `slow` namespaces' many Rollouts, in s."""
    work, began_s, quick = queue(workers), dict[Key, float](), Key("quick", "cart")
    for namespace, count in slow.items():
        for index in range(count):
            work.add(Key(namespace, f"r{index}"))
    serving = asyncio.create_task(serve(work, workers=workers, took_s=dict.fromkeys(slow, slow_s), began_s=began_s))
    await asyncio.sleep(1)
    asked_s = now_s()
    work.add(quick)
    while quick not in began_s:  # noqa: ASYNC110 - virtual time
        await asyncio.sleep(0.1)
    work.close()
    await serving
    return began_s[quick] - asked_s


async def test_a_namespace_behind_a_slow_webhook_delays_no_other() -> None:
    """64 Rollouts whose writes took 10 s each delayed another tenant's first write by 50 s."""
    assert await first_passes({"slow": 64}) < 0.01


async def test_several_slow_namespaces_leave_a_worker_to_the_others() -> None:
    """Each may hold two thirds of what the others have left, so there is room for a few of them."""
    assert await first_passes({"slow": 64, "slower": 64, "slowest": 64}) < 0.01


async def test_a_lone_worker_goes_round() -> None:
    """Where there is nothing to keep free, it waits for the pass that runs and for one whose turn it was already."""
    assert await first_passes({"slow": 64}, workers=1) < 20


async def test_turns_go_round_the_namespaces() -> None:
    """A namespace with a thousand Rollouts has one turn in two beside a namespace with two."""
    work = queue()
    for name in ("1", "2", "3", "4"):
        work.add(Key("many", name))
    for name in ("1", "2"):
        work.add(Key("few", name))
    order = []
    for _ in range(6):
        key = await work.take()
        assert key is not None
        work.done(key)
        order.append(str(key))

    assert order == ["many/1", "few/1", "many/2", "few/2", "many/3", "many/4"]


async def test_a_namespace_alone_still_gets_most_workers() -> None:
    """A cluster with one namespace must not be served at the pace of one of many."""
    work = queue()
    for index in range(100):
        work.add(Key("only", f"r{index}"))
    taken = [asyncio.ensure_future(work.take()) for _ in range(WORKERS)]
    await asyncio.sleep(0)

    assert sum(each.done() for each in taken) >= WORKERS * 2 // 3
    work.close()
    await asyncio.wait(taken)


@pytest.mark.parametrize("seed", range(30))
async def test_no_key_is_lost_or_worked_on_twice_at_a_time(seed: int) -> None:
    """Whatever comes, goes, fails and is cancelled: each key that was added is handed out, and by one worker at a time."""
    rng = random.Random(seed)  # noqa: S311 - a test's
    workers = rng.choice([1, 2, 5])
    work, active, owed = queue(workers), set[Key](), set[Key]()

    async def worker() -> None:
        while (key := await work.take()) is not None:
            assert key not in active
            active.add(key)
            owed.discard(key)
            await asyncio.sleep(rng.choice([0, 0, 0.5, 3]))
            active.discard(key)
            work.done(key)

    tasks = [asyncio.create_task(worker()) for _ in range(workers)]
    for _ in range(200):
        key = Key(f"n{rng.randrange(4)}", f"r{rng.randrange(5)}")
        owed.add(key)
        work.add(key)
        if rng.random() < 0.1:
            lost = asyncio.ensure_future(work.take())
            await asyncio.sleep(0)
            if lost.done() and (taken := lost.result()) is not None:
                owed.discard(taken)
                work.done(taken)
            lost.cancel()
        await asyncio.sleep(rng.choice([0, 0.1]))
    await asyncio.sleep(1_000)
    assert (owed, len(work), work.active) == (set(), 0, 0)
    work.close()
    await asyncio.wait(tasks)


async def test_a_turn_costs_the_same_with_many_namespaces() -> None:
    """A key each, in a hundred namespaces and in ten thousand: no scan finds the next one."""
    few, many = (lines_of(partial(_turns, count)) / count for count in (100, 10_000))

    assert many < few * 1.1


def _turns(namespaces: int) -> None:
    """One turn of each namespace; a `take` that finds a key does not wait."""
    work = queue()
    for index in range(namespaces):
        work.add(Key(f"n{index}", "web"))
    for _ in range(namespaces):
        with pytest.raises(StopIteration) as taken:
            work.take().send(None)
        work.done(taken.value.value)


async def test_between_two_passes_everybody_else_has_a_turn() -> None:
    """A pass that writes nothing waits for nothing: 10,000 of them in a row would hold up probes and the Lease for seconds."""
    work, passes = queue(), []

    async def reconcile(key: Key) -> None:
        passes.append(key)

    def failed(key: Key, error: Exception, retry_in_s: float) -> None:
        raise AssertionError(key, retry_in_s) from error

    for key in (A, B, C):
        work.add(key)
    delays = Delays(transient_s=1.0, refused_s=1.0)
    running = asyncio.create_task(reconcile_loop(work, reconcile, on_error=failed, delays=delays))
    await asyncio.sleep(0)
    assert passes == [A]
    await asyncio.sleep(1)
    assert passes == [A, B, C]
    work.close()
    await running
