"""The work queue: one entry a key, one worker a key, in order, and later when asked."""

from __future__ import annotations

import asyncio
import random

import pytest

from rollouts.controller.workqueue.queue import BACKOFF_MAX_S, WorkQueue
from rollouts.objects import Key
from rollouts.sim.clock import SimClock

pytestmark = pytest.mark.virtual_time

A, B, C = Key("n", "a"), Key("n", "b"), Key("n", "c")


def queue() -> WorkQueue:
    """An empty queue on the running loop's time."""
    return WorkQueue(clock=SimClock(asyncio.get_running_loop()), rng=random.Random(7), workers=4)  # noqa: S311 - jitter


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


async def test_a_key_that_is_worked_on_is_handed_out_again_only_after_it_is_done() -> None:
    """Two workers on one Rollout would undo each other's writes; a change during a pass must not be lost."""
    work = queue()
    work.add(A)
    await work.take()
    work.add(A)
    work.add(A)

    assert len(work) == 0

    work.done(A)

    assert await work.take() == A
    work.done(A)
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
