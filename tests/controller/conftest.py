"""A store, a queue and a performer over a scripted API server, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from rollouts.controller.act.performer import Performer
from tests.controller.routes import Reading
from tests.controller.world import World


@pytest.fixture
async def world() -> World:
    """On the loop of the test; its API server answers as the test says."""
    return World()


@pytest.fixture
def reading(world: World) -> Reading:
    """An observer of it that reads routes."""
    return Reading(world)


@pytest.fixture
async def performer(world: World) -> AsyncIterator[Performer]:
    """The world's performer; all its questions are answered when the test ends."""
    async with asyncio.TaskGroup() as questions:
        yield world.performer(questions)
