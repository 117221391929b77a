"""The steps of a canary, a closed union: every place that acts on a step matches all of its members."""

from __future__ import annotations

from fractions import Fraction
from typing import TypeAlias

from msgspec import Struct

from rollouts.core.model.analysis import Analysis
from rollouts.core.model.traffic import MirrorRoute, RequestMatch

WeightPercent: TypeAlias = int | Fraction
"""0..100, exact: with `maxTrafficWeight: 1000` a weight of 1 is 1/10 of a percent."""


class SetWeight(Struct, frozen=True, repr_omit_defaults=True):
    """Gives the canary `weight_percent` of the traffic; complete when the pods that this needs are available.

    Args:
        before: the analysis without whose success the weight does not rise; None where nothing is asked.
    """

    weight_percent: WeightPercent
    before: Analysis | None = None


class Pause(Struct, frozen=True):
    """Waits `duration_s` seconds from the start of the step; `promote` ends it early."""

    duration_s: float


class PauseUntilPromoted(Struct, frozen=True):
    """Waits for somebody to promote this revision past this step."""


class SetCanaryReplicas(Struct, frozen=True):
    """`setCanaryScale.replicas`: this number of canary pods, whatever the weight; only with traffic routing."""

    replicas: int


class SetCanaryScalePercent(Struct, frozen=True):
    """`setCanaryScale.weight`: canary pods for this percentage of the replicas; only with traffic routing."""

    percent: int


class MatchTrafficWeight(Struct, frozen=True):
    """`setCanaryScale.matchTrafficWeight`: canary pods follow the weight again."""


class SetHeaderRoute(Struct, frozen=True):
    """Sends matching requests to the canary from this step on; `match: None` ends that. `name` is one of `managedRoutes`."""

    name: str
    match: RequestMatch | None


class SetMirrorRoute(Struct, frozen=True):
    """Sends copies of requests to the canary from this step on; `mirror: None` ends that. `name` is one of `managedRoutes`."""

    name: str
    mirror: MirrorRoute | None


class Analyze(Struct, frozen=True):
    """Measures the new revision; complete when the verdict is Successful, or somebody promotes it past another verdict."""

    analysis: Analysis


class TemplateWeight(Struct, frozen=True):
    """The part of the requests, in percent, that goes to the pods of one template of an Experiment while it runs."""

    template: str
    weight_percent: WeightPercent


class RunExperiment(Struct, frozen=True):
    """Runs pods of both revisions beside all others; complete when that is Successful, or somebody promotes it past that.

    Args:
        weights: of the templates that get requests, in their order; the canary keeps its own weight, and stable gets the rest.
    """

    analysis: Analysis
    weights: tuple[TemplateWeight, ...] = ()


Step: TypeAlias = (
    SetWeight
    | Pause
    | PauseUntilPromoted
    | SetCanaryReplicas
    | SetCanaryScalePercent
    | MatchTrafficWeight
    | SetHeaderRoute
    | SetMirrorRoute
    | Analyze
    | RunExperiment
)
