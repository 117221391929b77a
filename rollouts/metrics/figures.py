"""What the cluster's own measurements are to a condition, by source: numbers that it reads as `result.NAME`, and what follows.

A name that has no number says why; a condition that reads it has no evidence. What is partial, stale or not known is no evidence,
and says why in words of ours.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct, field

from rollouts.core.analysis.cluster_source import (
    AutoscalerMetric,
    ContainerResourceMetric,
    CustomMetric,
    ExternalMetric,
)
from rollouts.core.analysis.measurement import Measurement
from rollouts.core.analysis.metric import MetricCondition
from rollouts.core.model.analysis import AnalysisPhase
from rollouts.core.model.autoscaling import AutoscalerSeen, ContainerUse
from rollouts.core.model.frozen import replace
from rollouts.core.scale.settling import is_settled
from rollouts.metrics.evidence import measured
from rollouts.metrics.kubernetes_values import FUTURE_S
from rollouts.metrics.metric_values import MetricValue
from rollouts.metrics.samples import Absence, MetricData, NoEvidence, document

AGAIN_S = 15.0
"""Until the next sample: metrics-server's resolution."""

CONTAINER_NAMES = frozenset({"utilizationPercent", "averageValue", "value", "pods", "ageSeconds"})
AUTOSCALER_NAMES = frozenset(
    {
        *("current", "desired", "min", "max", "headroomPercent", "settled", "secondsSinceScale"),
        *("scalingActive", "ableToScale", "scalingLimited"),
    }
)
VALUE_NAMES = frozenset({"value", "averageValue", "maxValue", "minValue", "count", "ageSeconds"})
NAMES = {
    "containerResource": CONTAINER_NAMES,
    "hpa": AUTOSCALER_NAMES,
    "customMetric": VALUE_NAMES,
    "externalMetric": VALUE_NAMES,
}
"""What conditions may read of `result`, by provider."""

VALUES_MAX = 10_000
"""Of one metric: pods of a revision, or series."""


class Figures(Struct, frozen=True, kw_only=True):
    """What was found.

    Args:
        unknown: names without a number, and why.
        samples: pods or series that the numbers are made of; at least 1.
        oldest_at_s, newest_at_s: times of samples, seconds since 1970; None for what is as it is now.
    """

    values: Mapping[str, float | bool]
    samples: int
    unknown: Mapping[str, str] = field(default_factory=dict)
    oldest_at_s: float | None = None
    newest_at_s: float | None = None


class NotYet(Struct, frozen=True):
    """Evidence that is not whole and may soon be: a new pod has no sample for half a minute."""

    why: str


FiguresFound: TypeAlias = Figures | NotYet | NoEvidence


class LookTimes(Struct, frozen=True, kw_only=True):
    """When and for how long was asked.

    Args:
        since_s: when the run began; samples from before are of a revision that had another share of the requests.
        started_at_s: when the measurement began.
        now_s: when the answer was there. All in seconds since 1970.
        patience_s: how long a measurement waits for evidence that is whole and from after the beginning of the run.
    """

    since_s: float
    started_at_s: float
    now_s: float
    patience_s: float = 0.0


def figures_measured(found: FiguresFound, condition: MetricCondition, asked: LookTimes) -> Measurement:
    """The measurement; one that is Running looks again. Raises: nothing that a server or an author could cause."""
    if isinstance(found, Figures) and found.oldest_at_s is not None and found.oldest_at_s < asked.since_s:
        found = NotYet("there are no samples since the run began")
    if isinstance(found, NotYet):
        if asked.now_s < asked.started_at_s + asked.patience_s:
            return Measurement(
                phase=AnalysisPhase.RUNNING,
                started_at_s=asked.started_at_s,
                resume_at_s=asked.now_s + AGAIN_S,
                message=f"waits for evidence: {found.why}",
            )
        found = NoEvidence(found.why)
    # `minSamples` counts pods or series here, not names.
    with_names = replace(condition, min_samples=min(1, condition.min_samples))
    evidence = _evidence(found, condition)
    measurement = measured(evidence, with_names, started_at_s=asked.started_at_s, finished_at_s=asked.now_s)
    if isinstance(found, NoEvidence):
        return measurement
    value = " ".join(f"{name}={_told(number)}" for name, number in found.values.items())
    return replace(measurement, value=value, samples=found.samples)


def _evidence(found: Figures | NoEvidence, condition: MetricCondition) -> MetricData:
    if isinstance(found, NoEvidence):
        return found
    if found.samples < condition.min_samples:
        return NoEvidence(f"there are {found.samples} of the {condition.min_samples} samples that are needed")
    read = f"{condition.success} {condition.failure}"
    for name, why in found.unknown.items():
        if re.search(rf"\b{re.escape(name)}\b", read):
            return NoEvidence(why)
    return document(dict(found.values))


def _told(value: float | bool) -> str:
    """At most six digits behind the first one that counts, and no exponent for what people write without one."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.0f}" if 1e6 <= abs(value) < 1e15 else f"{value:.6g}"


def container_figures(source: ContainerResourceMetric, use: ContainerUse | None, *, now_s: float) -> FiguresFound:
    """Of what the container uses in the revision's pods; None when it has no ready pod."""
    if use is None or use.pods == 0:
        return NotYet("the revision has no ready pods")
    if not use.complete or use.used is None or use.oldest_at_s is None:
        return NotYet(use.message or "not all ready pods were measured")
    percent = use.utilization_percent
    why = f"container {source.container} requests no {source.resource} in some of the pods, so there is no utilization"
    figures: dict[str, float | bool | str] = {
        "utilizationPercent": why if percent is None else percent,
        "averageValue": use.used / use.pods,
        "value": use.used,
        "pods": float(use.pods),
        "ageSeconds": max(0.0, now_s - use.oldest_at_s),
    }
    return replace(_known_of(figures, samples=use.pods), oldest_at_s=use.oldest_at_s, newest_at_s=use.newest_at_s)


def autoscaler_figures(source: AutoscalerMetric, found: Sequence[AutoscalerSeen], *, now_s: float) -> FiguresFound:
    """Of the autoscaler that the source means."""
    if not found:
        named = f"there is no HorizontalPodAutoscaler {source.name}"
        return NoEvidence(named if source.name else "no HorizontalPodAutoscaler has the Rollout as its scaleTargetRef")
    if len(found) > 1:
        names = ", ".join(autoscaler.name for autoscaler in found)
        return NoEvidence(f"there are several HorizontalPodAutoscalers, {names}: give one as hpa.name", Absence.ERROR)
    seen = found[0]
    active, able = seen.scaling_active, seen.able_to_scale
    if seen.current is None or seen.desired is None or not seen.observed:
        return NoEvidence(f"autoscaler {seen.name} has not looked at its present spec yet")
    if active.status is None or able.status is None:
        return NoEvidence(f"autoscaler {seen.name} does not say whether it is active and able to scale")
    if seen.max_replicas < 1:
        return NoEvidence(f"autoscaler {seen.name} has no maximum")
    limited, scaled_at_s = seen.scaling_limited.status, seen.last_scale_at_s
    unlimited = f"autoscaler {seen.name} does not say whether it is limited"
    idle = f"autoscaler {seen.name} scales by nothing ({active.reason or 'no reason'}), so what it wants is not known"
    headroom = 100.0 * max(0, seen.max_replicas - seen.desired) / seen.max_replicas
    never = f"autoscaler {seen.name} has never scaled"
    figures: dict[str, float | bool | str] = {
        "current": float(seen.current),
        "min": float(seen.min_replicas),
        "max": float(seen.max_replicas),
        "settled": is_settled(seen, now_s=now_s),
        "scalingActive": active.status,
        "ableToScale": able.status,
        "scalingLimited": unlimited if limited is None else limited,
        "desired": float(seen.desired) if active.status else idle,
        "headroomPercent": headroom if active.status else idle,
        "secondsSinceScale": never if scaled_at_s is None else max(0.0, now_s - scaled_at_s),
    }
    return _known_of(figures, samples=1)


def _known_of(figures: Mapping[str, float | bool | str], *, samples: int) -> Figures:
    """The figures, some of which are a text instead: why there is no number."""
    values = {name: value for name, value in figures.items() if not isinstance(value, str)}
    unknown = {name: why for name, why in figures.items() if isinstance(why, str)}
    return Figures(values=values, unknown=unknown, samples=samples)


def custom_figures(
    source: CustomMetric, found: Iterable[MetricValue], pods: Collection[str] | None, *, now_s: float
) -> FiguresFound:
    """Of a metric of an object, or of pods.

    Args:
        pods: names of the revision's ready pods, each of which must have a value; None for an object.
    """
    values = tuple(found)
    if pods is None:
        if len(values) != 1:
            return NoEvidence(f"there are {len(values)} values of the object, not one")
        return _figures(values, source.max_age_s, now_s=now_s)
    if not pods:
        return NotYet("the revision has no ready pods")
    of_pods = tuple(value for value in values if value.of in pods)
    if len(of_pods) != len({value.of for value in of_pods}):
        return NoEvidence("a pod has several values")
    if missing := len(pods) - len(of_pods):
        return NotYet(f"{missing} of {len(pods)} pods have no value")
    return _figures(of_pods, source.max_age_s, now_s=now_s)


def external_figures(source: ExternalMetric, found: Iterable[MetricValue], *, now_s: float) -> FiguresFound:
    """Of a metric that is about nothing in the cluster; all of its series together, as an autoscaler takes them."""
    values = tuple(found)
    if not values:
        return NoEvidence("the metric has no values")
    return _figures(values, source.max_age_s, now_s=now_s)


def _figures(values: tuple[MetricValue, ...], max_age_s: float, *, now_s: float) -> FiguresFound:
    if len(values) > VALUES_MAX:
        return NoEvidence(f"the metric has more than {VALUES_MAX} values", Absence.ERROR)
    numbers = [value.value for value in values if value.value is not None]
    times = [value.at_s for value in values if value.at_s is not None]
    if len(numbers) < len(values):
        return NoEvidence("a value is no number", Absence.ERROR)
    if len(times) < len(values):
        return NoEvidence("a value has no time", Absence.ERROR)
    if max(times) > now_s + FUTURE_S:
        return NotYet("a value is of the future: a clock is wrong")
    if now_s - min(times) > max_age_s:
        return NotYet(f"a value is not of the last {max_age_s:g} s")
    return Figures(
        values={
            "value": sum(numbers),
            "averageValue": sum(numbers) / len(numbers),
            "maxValue": max(numbers),
            "minValue": min(numbers),
            "count": float(len(numbers)),
            "ageSeconds": max(0.0, now_s - min(times)),
        },
        samples=len(numbers),
        oldest_at_s=min(times),
        newest_at_s=max(times),
    )
