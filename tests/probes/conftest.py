"""Whoever asks is closed after a test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from rollouts.clock import SystemClock
from rollouts.metrics.addresses import TenantUrls
from rollouts.probes.metric_asker import MetricAsker
from tests.probes.metric_questions import OPEN, Make


@pytest.fixture
async def asker() -> AsyncIterator[Make]:
    """Askers; closed afterwards."""
    made: list[MetricAsker] = []

    def make(*, tenants: TenantUrls = OPEN, clock: Any = None, **more: Any) -> MetricAsker:
        made.append(MetricAsker(tenants=tenants, clock=clock or SystemClock(), **more))
        return made[-1]

    yield make
    for each in (*made, *made):
        await each.aclose()
