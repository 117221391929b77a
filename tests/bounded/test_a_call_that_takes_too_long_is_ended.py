"""Promise: what a tenant's text makes a function do is ended after its part of CPU time or memory, and harms no other call.

With the real process: nothing but a kernel ends what is busy in a library.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest

from rollouts.bounded.process import BoundedProcess
from rollouts.clock import SystemClock
from rollouts.errors import CallEnded
from tests.bounded.functions import PIPE, backtracking, decoded, endless, gone, large, root_of


@pytest.fixture
async def bounded() -> AsyncIterator[BoundedProcess]:
    """A process of this test's own."""
    process = BoundedProcess(clock=SystemClock(), imports=("tests.bounded.functions", "a_module_that_there_is_not"))
    yield process
    await process.aclose()


async def test_values_and_exceptions_come_back(bounded: BoundedProcess) -> None:
    """As from a call in this process, which it is not."""
    assert await bounded.call(decoded, '{"a": [1.5]}', tenant="a") == {"a": [1.5]}
    with pytest.raises(ValueError, match="math domain"):
        await bounded.call(root_of, -1.0, tenant="a")
    assert await bounded.call(os.getpid, tenant="a") != os.getpid()


async def test_one_that_computes_for_too_long_is_ended_in_whatever_it_does(bounded: BoundedProcess) -> None:
    """The next one is answered, by another process."""
    before = await bounded.call(os.getpid, tenant="a")
    with pytest.raises(CallEnded, match="more than 100 ms of CPU time"):
        await bounded.call(endless, 1, tenant="a")
    with pytest.raises(CallEnded):
        await bounded.call(backtracking, "a" * 60, tenant="b")

    assert await bounded.call(os.getpid, tenant="c") != before


async def test_a_call_that_waits_no_longer_leaves_the_start_to_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With little CPU the imports take longer than an answer may: each call ended the process, and none was ever answered."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    monkeypatch.setenv(PIPE, str(pipe))
    async with aclosing(BoundedProcess(clock=SystemClock(), imports=("tests.bounded.held_import",))) as process:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await process.call(os.getpid, tenant="a")
        await asyncio.to_thread(pipe.write_text, "")

        assert await process.call(os.getpid, tenant="b") != os.getpid()
        assert len(process._started) == 1


async def test_a_process_that_cannot_start_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as one that the kernel ends for want of memory."""
    monkeypatch.setattr("sys.executable", "/bin/false")
    async with aclosing(BoundedProcess(clock=SystemClock())) as process:
        with pytest.raises(CallEnded, match="has not started"):
            await process.call(os.getpid, tenant="a")


async def test_one_that_takes_too_much_memory_is_ended(bounded: BoundedProcess) -> None:
    """Before the machine, or the container, has none left for the controller."""
    with pytest.raises(CallEnded, match="too much memory"):
        await bounded.call(large, 1 << 30, tenant="a")

    assert await bounded.call(large, 1 << 20, tenant="b") == bytearray(1 << 20)


async def test_the_event_loop_goes_on_meanwhile(bounded: BoundedProcess) -> None:
    """That is what it is for: other Rollouts, the Lease and /healthz share the loop."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    with pytest.raises(CallEnded):
        await bounded.call(endless, 1, tenant="a")
    counting.cancel()

    assert turns > 1_000


async def test_a_caller_that_no_longer_waits_gets_nobody_elses_answer(bounded: BoundedProcess) -> None:
    """A run is deleted while its condition is evaluated."""
    await bounded.call(root_of, 4.0, tenant="a")
    given_up = asyncio.create_task(bounded.call(endless, 1, tenant="b"))
    await asyncio.sleep(0.01)
    given_up.cancel()
    with pytest.raises(asyncio.CancelledError):
        await given_up

    assert await bounded.call(root_of, 9.0, tenant="c") == 3.0


async def test_a_process_that_is_gone_is_replaced(bounded: BoundedProcess) -> None:
    """An administrator, or the kernel without memory, ends it."""
    with pytest.raises(CallEnded, match="has not answered"):
        await bounded.call(gone, 1, tenant="a")

    assert await bounded.call(root_of, 9.0, tenant="b") == 3.0


async def test_it_ends_with_the_process_that_started_it(bounded: BoundedProcess) -> None:
    """Its connection is closed then, whatever ended the other."""
    child = await bounded.call(os.getpid, tenant="a")
    parent = await bounded.call(os.getppid, tenant="b")
    await bounded.aclose()

    for process in (child, parent):
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)
