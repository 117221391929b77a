"""All situations, the flags that they are played with, and where it is recorded what the real controller did."""

from __future__ import annotations

from pathlib import Path

from rollouts.sim.actors.autoscaling.spec import AutoscalerFlags
from tests.contract.autoscaling.drawn import drawn
from tests.contract.autoscaling.named import NAMED, WITHOUT_THE_API

SERVED = (*NAMED, *drawn(110))
OUTCOMES = Path(__file__).parent / "outcomes.json"
FLAGS = AutoscalerFlags(sync_period_s=2.0, downscale_stabilization_s=3600.0, cpu_initialization_s=1800.0)
"""The stabilization is longer than any play: what is seen does not depend on how many looks fit into it."""

__all__ = ["FLAGS", "OUTCOMES", "SERVED", "WITHOUT_THE_API"]
