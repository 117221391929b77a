"""What was measured, and what follows from it: the part of an AnalysisRun's status that the rules read and write."""

from __future__ import annotations

from msgspec import Struct

from rollouts.core.model.analysis import AnalysisPhase


class Measurement(Struct, frozen=True, kw_only=True):
    """One measurement of one metric.

    Args:
        phase: Pending and finished is the end of one without a verdict: it waits for evidence (`noData: wait`), or it was
            stopped. It does not count.
        started_at_s, finished_at_s: seconds since 1970; the second is None while it runs.
        resume_at_s: when one that runs is looked at again; None for the metric's own interval.
        value: the numbers, as text; never text of a server.
        message: why it is what it is, in words of ours.
        samples: numbers that it is made of.
        metadata: what the provider needs to go on with it, such as the name of a Job.
        carried: what the provider needs for the metric's next measurement; its result keeps that. () changes nothing.
    """

    phase: AnalysisPhase
    started_at_s: float
    finished_at_s: float | None = None
    resume_at_s: float | None = None
    value: str = ""
    message: str = ""
    samples: int = 0
    metadata: tuple[tuple[str, str], ...] = ()
    carried: tuple[tuple[str, str], ...] = ()

    @property
    def finished(self) -> bool:
        """Its provider has no more to say about it."""
        return self.finished_at_s is not None


class MetricResult(Struct, frozen=True, kw_only=True):
    """All that is known of one metric of a run.

    Args:
        message: of a metric that is over: why; of another: what its last measurement says.
        measurements: the latest, the oldest first.
        count: those that are judged: all but errors.
        consecutive_error, consecutive_success: at the end of what was measured.
        carried: what the provider needs for the next measurement, whichever measurements are kept.
    """

    name: str
    phase: AnalysisPhase = AnalysisPhase.PENDING
    message: str = ""
    measurements: tuple[Measurement, ...] = ()
    count: int = 0
    successful: int = 0
    failed: int = 0
    inconclusive: int = 0
    error: int = 0
    consecutive_error: int = 0
    consecutive_success: int = 0
    dry_run: bool = False
    carried: tuple[tuple[str, str], ...] = ()

    @property
    def last(self) -> Measurement | None:
        """The measurement that began last; None before the first."""
        return self.measurements[-1] if self.measurements else None

    @property
    def in_flight(self) -> Measurement | None:
        """The measurement that is not finished."""
        return self.last if self.last is not None and not self.last.finished else None


class RunStatus(Struct, frozen=True, kw_only=True):
    """`.status` of an AnalysisRun.

    Args:
        results: one for each metric, in the order of the spec.
        started_at_s: when the run began; None before its first pass.
        completed_at_s: when it was over; None before.
    """

    phase: AnalysisPhase = AnalysisPhase.PENDING
    message: str = ""
    results: tuple[MetricResult, ...] = ()
    started_at_s: float | None = None
    completed_at_s: float | None = None
