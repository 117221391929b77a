"""What the tests of this room share: virtual time, and an API server with nothing behind it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from rollouts.ports import Request, Response, WatchStream
from rollouts.sim.clock import VirtualTimeLoop


def run(main: Coroutine[Any, Any, Any], *, limit_s: float = 7200.0) -> Any:
    """Runs on virtual time, so that nothing waits for real; a task left behind fails the test.

    The loop is not made the thread's current one: pytest-asyncio keeps its own there.
    """
    loop = VirtualTimeLoop(limit_s=limit_s)
    try:
        result = loop.run_until_complete(main)
        left = asyncio.all_tasks(loop)
        assert not left, left
        return result
    finally:
        loop.run_until_complete(_cancel_all())
        loop.close()


class NoServer:
    """An `ApiServer` that answers nothing; tests override what they need."""

    async def request(self, request: Request, *, deadline_s: float) -> Response:
        raise AssertionError(f"{request.method} {request.path} was not expected within {deadline_s} s")

    async def open_watch(self, request: Request, *, deadline_s: float, silence_s: float) -> WatchStream:
        raise AssertionError(f"no watch of {request.path} was expected ({deadline_s} s, {silence_s} s)")

    async def aclose(self) -> None:
        """Holds nothing."""


async def _cancel_all() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
