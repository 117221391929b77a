"""The cluster that most tests of the simulation look at."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from rollouts.sim.cluster import SimulatedCluster


@pytest.fixture
async def cluster() -> AsyncIterator[SimulatedCluster]:
    """A cluster in virtual time, in which nothing is installed."""
    async with SimulatedCluster(seed=2) as found:
        yield found
