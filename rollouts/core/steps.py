"""The steps of a canary, a closed union: every place that acts on a step matches all of its members."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class SetWeight:
    """Gives the canary `weight_percent` of the traffic; complete when the pods that this needs are available."""

    weight_percent: int


@dataclass(frozen=True, slots=True)
class Pause:
    """Waits `duration_s` seconds from the start of the step; `promote` ends it early."""

    duration_s: float


@dataclass(frozen=True, slots=True)
class PauseUntilPromoted:
    """Waits for somebody to promote this revision past this step."""


@dataclass(frozen=True, slots=True)
class SetCanaryReplicas:
    """`setCanaryScale.replicas`: so many canary pods, whatever the weight; only with traffic routing."""

    replicas: int


@dataclass(frozen=True, slots=True)
class SetCanaryScalePercent:
    """`setCanaryScale.weight`: canary pods for this percentage of the replicas; only with traffic routing."""

    percent: int


@dataclass(frozen=True, slots=True)
class MatchTrafficWeight:
    """`setCanaryScale.matchTrafficWeight`: canary pods follow the weight again."""


Step: TypeAlias = (
    SetWeight | Pause | PauseUntilPromoted | SetCanaryReplicas | SetCanaryScalePercent | MatchTrafficWeight
)
