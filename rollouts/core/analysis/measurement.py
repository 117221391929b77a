"""What was measured, and what follows from it: the part of an AnalysisRun's status that the rules read and write.

Its fields are declared here (`core/model/declared.py`); their names in JSON are Argo Rollouts'.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import Struct

from rollouts.core.analysis.metric import KEPT_MAX, METRICS_MAX
from rollouts.core.model.analysis import AnalysisPhase
from rollouts.core.model.declared import HIDDEN, LEFT_OUT, LISTED, NEEDED, AtMost, Entries, Json, Time

RUN_MESSAGE_MAX = 1_024
"""Characters of each message: there are up to 1,000 of a metric, and an object of the API server holds 1.5 MB."""

_Message: TypeAlias = Annotated[str, AtMost(RUN_MESSAGE_MAX)]
_Pairs: TypeAlias = tuple[tuple[str, str], ...]


class Measurement(Struct, frozen=True, kw_only=True):
    """One measurement.

    Args:
        phase: Pending and finished is the end of one without a verdict: it waits for evidence (`noData: wait`), or it was
            stopped. It does not count.
        resume_at_s: None for the metric's own interval.
        value: never text of a server.
        message: in words of ours.
        carried: what the provider needs for the metric's next measurement; its result keeps that.
    """

    phase: Annotated[AnalysisPhase, "Its verdict.", LISTED, NEEDED]
    started_at_s: Annotated[Time, "When it began.", NEEDED]
    finished_at_s: Annotated[Time | None, "When it ended."] = None
    resume_at_s: Annotated[Time | None, "When one that runs is looked at again."] = None
    value: Annotated[str, "The numbers that were measured."] = ""
    message: Annotated[_Message, "Why it is what it is."] = ""
    samples: Annotated[int, "Numbers that it is made of.", LEFT_OUT] = 0
    metadata: Annotated[_Pairs, "What its provider needs to go on, such as a Job's name."] = ()
    carried: Annotated[_Pairs, HIDDEN] = ()

    @property
    def finished(self) -> bool:
        """Its provider has no more to say about it."""
        return self.finished_at_s is not None


class MetricResult(Struct, frozen=True, kw_only=True):
    """All that is known of one metric.

    Args:
        message: of a metric that is over: why; of another: what its last measurement says.
        carried: what the provider needs for the next measurement, whichever measurements are kept.
    """

    name: Annotated[str, "Name of the metric.", NEEDED]
    phase: Annotated[AnalysisPhase, "Its verdict.", LISTED, NEEDED] = AnalysisPhase.PENDING
    message: Annotated[_Message, "Why."] = ""
    measurements: Annotated[tuple[Measurement, ...], "The latest, the oldest first.", Entries(last=KEPT_MAX)] = ()
    count: Annotated[int, "Measurements that were judged: all but errors.", LEFT_OUT] = 0
    successful: Annotated[int, "Those that were good.", LEFT_OUT] = 0
    failed: Annotated[int, "Those that were bad.", LEFT_OUT] = 0
    inconclusive: Annotated[int, "Those that were neither.", LEFT_OUT] = 0
    error: Annotated[int, "Those that could not be taken.", LEFT_OUT] = 0
    consecutive_error: Annotated[int, "Errors at the end.", LEFT_OUT] = 0
    consecutive_success: Annotated[int, "Successes at the end.", LEFT_OUT] = 0
    dry_run: Annotated[bool, "It is measured and never judged."] = False
    carried: Annotated[_Pairs, "What its provider tells of it.", Json("metadata")] = ()

    @property
    def last(self) -> Measurement | None:
        """The measurement that began last."""
        return self.measurements[-1] if self.measurements else None

    @property
    def in_flight(self) -> Measurement | None:
        """The measurement that is not finished."""
        return self.last if self.last is not None and not self.last.finished else None


class RunStatus(Struct, frozen=True, kw_only=True):
    """What was measured, and what follows."""

    phase: Annotated[AnalysisPhase, "The worst of the metrics that count.", LISTED] = AnalysisPhase.PENDING
    message: Annotated[_Message, "Why."] = ""
    results: Annotated[tuple[MetricResult, ...], "Each metric.", Json("metricResults"), Entries(first=METRICS_MAX)] = ()
    started_at_s: Annotated[Time | None, "When it began."] = None
    completed_at_s: Annotated[Time | None, "When it ended."] = None
