"""MetricProviders in a simulated cluster, and who follows them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import structlog

from rollouts.objects import METRIC_PROVIDER
from rollouts.sim.cluster import SimulatedCluster
from tests.controller.door import refusal
from tests.controller.providers.metric_world import NAMESPACE, TOKEN, Running


@pytest.fixture
def prometheus_url() -> str:
    """None."""
    return ""


@pytest.fixture
def leads() -> bool:
    """Whether who follows them leads from the beginning."""
    return True


@pytest.fixture
def may_watch() -> bool:
    """Whether who follows them has the right to."""
    return True


@pytest.fixture
async def running(
    cluster: SimulatedCluster, tmp_path: Path, prometheus_url: str, leads: bool, may_watch: bool
) -> AsyncIterator[Running]:
    """Who follows them, and logs no token; files of credentials are in `tmp_path`."""
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    with structlog.testing.capture_logs() as logged:
        found = Running(cluster, tmp_path, prometheus_url)
        if not may_watch:
            refused = refusal(403, "Forbidden")
            found.door.answers = lambda asked: refused if METRIC_PROVIDER.plural in asked.path else None
        if leads:
            found.lead()
        yield found
        await found.stop()
    assert TOKEN not in str(logged)
