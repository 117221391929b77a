"""`@pytest.mark.virtual_time`: a coroutine test, and its async fixtures, on an event loop that never waits.

    @pytest.mark.virtual_time  # or, for a file: pytestmark = pytest.mark.virtual_time(limit_s=600)
    async def test_pods_start() -> None: ...

`limit_s`: virtual seconds after which the test ends with TimeLimitPassed; a day when it is not given.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from functools import partial

import pytest

from rollouts.sim.clock import DAY_S, VirtualTimeLoop


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The loop of a coroutine test: pytest-asyncio asks for each."""
    marker = item.get_closest_marker("virtual_time")
    if marker is None:
        return {"loop": asyncio.new_event_loop}
    return {"loop": partial(VirtualTimeLoop, limit_s=marker.kwargs.get("limit_s", DAY_S))}


def pytest_itemcollected(item: pytest.Item) -> None:
    """A plain test gets no loop of its own, so its async fixtures would wait in real time.

    Raises: pytest.UsageError.
    """
    if not isinstance(item, pytest.Function) or inspect.iscoroutinefunction(item.function):
        return
    asked = item._fixtureinfo
    fixtures = [each.func for name in asked.argnames for each in asked.name2fixturedefs.get(name, ())]
    waits = any(inspect.iscoroutinefunction(each) or inspect.isasyncgenfunction(each) for each in fixtures)
    if waits and item.get_closest_marker("virtual_time"):
        raise pytest.UsageError(
            f"{item.nodeid} asks for async fixtures on virtual time: make the test `async def`, too"
        )
