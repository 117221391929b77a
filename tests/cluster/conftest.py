"""What the tests of this room share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest


@pytest.fixture(autouse=True)
async def no_task_is_left(request: pytest.FixtureRequest) -> AsyncIterator[None]:
    """What a test in virtual time has started ends with it: a task that nobody awaits goes on writing."""
    yield
    left = asyncio.all_tasks() - {asyncio.current_task()}
    assert not left or request.node.get_closest_marker("virtual_time") is None, left
