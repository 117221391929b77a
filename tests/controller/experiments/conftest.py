"""A cluster with AnalysisRuns, in virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import pytest

from rollouts.objects import Manifest
from tests.controller.analysis.stage import Stage, staged


@pytest.fixture
async def stage(crds: Sequence[Manifest]) -> AsyncIterator[Stage]:
    """No controller runs there yet, and Prometheus answers 1 to everything."""
    async with staged(crds=crds) as found:
        yield found
