"""Virtual time: an event loop that never waits, and the clock that reads it.

With `VirtualTimeLoop` an hour of a rollout takes only the time of its work, and the same seed gives the same run. With the plain
loop and `SystemClock` the same cluster runs in real time.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

EPOCH_S = 1_767_225_600.0  # 2026-01-01T00:00:00Z: a fixed start, so that runs can be compared
DAY_S = 86_400.0


class Deadlock(RuntimeError):
    """Nothing is ready and no timer is set: all tasks wait for each other."""


class TimeLimitPassed(RuntimeError):
    """The virtual clock has passed its limit: what is awaited will not come."""


class _JumpingSelector(selectors.PollSelector):
    """A selector whose waits cost no time: it adds the wait to the clock, and polls if there is anything to poll for.

    The pipe by which threads wake their loop is nothing of that kind: who writes to it has left its call with the loop before.
    A PollSelector keeps nothing in the kernel, which a fork would share.
    """

    def __init__(self, *, limit_s: float) -> None:
        super().__init__()
        self._limit_s = limit_s
        self.now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0) if timeout is None or len(self.get_map()) > 1 else []
        if ready or (timeout is not None and timeout <= 0):
            return ready
        if timeout is None:
            raise Deadlock("nothing is ready and no timer is set")
        self.now_s += timeout
        if self.now_s > self._limit_s:
            limit_s, self._limit_s = self._limit_s, float("inf")  # once: clean-up may still use timers
            raise TimeLimitPassed(f"virtual time has passed {limit_s:g} s")
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop that jumps to the next timer when nothing is ready, and ends with TimeLimitPassed after `limit_s`.

    It polls threads and sockets but never waits for them: a program under virtual time must not depend on either.

    Raises (out of `run_until_complete`): Deadlock, TimeLimitPassed.
    """

    def __init__(self, *, limit_s: float = DAY_S) -> None:
        self._jumping = _JumpingSelector(limit_s=limit_s)
        super().__init__(self._jumping)

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._jumping.now_s


def run_virtual(main: Coroutine[Any, Any, T], *, limit_s: float = DAY_S) -> T:
    """Runs `main` to its end on a fresh `VirtualTimeLoop`; tasks it leaves behind are cancelled.

    Raises: what `main` raises; Deadlock; TimeLimitPassed.
    """
    with asyncio.Runner(loop_factory=lambda: VirtualTimeLoop(limit_s=limit_s)) as runner:
        return runner.run(main)


class SimClock:
    """`ports.Clock` over an event loop's time, virtual on a `VirtualTimeLoop`; `epoch_s` is the wall clock at its beginning."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, epoch_s: float = EPOCH_S) -> None:
        self._loop = loop
        self._epoch_s = epoch_s

    def now_s(self) -> float:
        """Wall clock, seconds since 1970-01-01T00:00:00Z."""
        return self._epoch_s + self._loop.time()

    def monotonic_s(self) -> float:
        """The loop's time."""
        return self._loop.time()
