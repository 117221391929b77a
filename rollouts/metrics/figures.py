"""Numbers with names that conditions read as `result.NAME`, and the measurement that follows from them.

A name that has no number says why; a condition that reads it has no evidence.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeAlias

from msgspec import Struct, field

from rollouts.core.analysis.measurement import Measurement
from rollouts.core.analysis.metric import MetricCondition
from rollouts.core.model.analysis import AnalysisPhase
from rollouts.core.model.frozen import replace
from rollouts.metrics.evidence import measured
from rollouts.metrics.samples import MetricData, NoEvidence, document

AGAIN_S = 15.0
"""Until the next sample: metrics-server's resolution."""


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
