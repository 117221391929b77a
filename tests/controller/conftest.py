"""What the tests of the controller share: a world over a scripted API server, and a simulated cluster, both in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import pytest

from rollouts.api.schema import crd_manifests
from rollouts.controller.act.performer import Performer
from rollouts.objects import Manifest
from rollouts.sim.cluster import SimulatedCluster
from tests.controller.configured import Configured, configured
from tests.controller.routes import Reading
from tests.controller.world import World


@pytest.fixture
async def world() -> World:
    """On the loop of the test; its API server answers as the test says."""
    return World()


@pytest.fixture
def reading(world: World) -> Reading:
    """An observer of the world that reads routes."""
    return Reading(world)


@pytest.fixture
async def performer(world: World) -> AsyncIterator[Performer]:
    """The world's performer; all its questions are answered when the test ends."""
    async with asyncio.TaskGroup() as questions:
        yield world.performer(questions)


@pytest.fixture
def crds() -> Sequence[Manifest]:
    """Ours, all of them."""
    return crd_manifests()


@pytest.fixture
async def cluster(crds: Sequence[Manifest]) -> AsyncIterator[SimulatedCluster]:
    """Without a controller."""
    async with SimulatedCluster(seed=3, crds=crds) as found:
        yield found


@pytest.fixture
def settings() -> Mapping[str, Any]:
    """Of the controller: the usual ones."""
    return {}


@pytest.fixture
async def stage(settings: Mapping[str, Any]) -> AsyncIterator[Configured]:
    """A cluster with a controller, behind a door."""
    async with configured(**settings) as found:
        yield found
