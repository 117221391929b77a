"""`@pytest.mark.virtual_time`: a coroutine test, and its async fixtures, on an event loop that never waits.

    @pytest.mark.virtual_time  # or, for a file: pytestmark = pytest.mark.virtual_time(limit_s=600)
    async def test_pods_start() -> None: ...

`limit_s`: virtual seconds after which the test ends with TimeLimitPassed; a day when it is not given.
"""

from __future__ import annotations

import asyncio
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
