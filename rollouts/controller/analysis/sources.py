"""Who takes a measurement: one `MeasurementSource` for each kind of metric source."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from rollouts.core.analysis.measurement import Measurement
from rollouts.core.analysis.metric import Metric
from rollouts.core.analysis.run import Due
from rollouts.core.model.analysis import AnalysisPhase

JOBS_OFF = "metrics of the source job are off: start the controller with --job-metrics"


class MeasuredRun(Struct, frozen=True, kw_only=True):
    """The AnalysisRun that a measurement is for.

    Args:
        rollout, revision: the Rollout, as its label `rollouts.dev/name` says it, and the revision that it is about; "" for none.
        started_at_s: seconds since 1970.
    """

    namespace: str
    name: str
    uid: str
    rollout: str
    revision: str
    started_at_s: float


class MeasurementSource(Protocol):
    """Takes measurements of one kind of source."""

    async def measure(self, run: MeasuredRun, metric: Metric, due: Due, *, now_s: float) -> Measurement:
        """Takes, resumes or stops one measurement, as `due.task` says.

        A measurement that is not finished is recorded in the run's status, and resumed or stopped later. One that is stopped is
        answered by a finished one: the truth if there is one, otherwise Pending. What was not recorded is taken again with the
        same `due.number`, so whatever a source creates has that number in its name.

        Args:
            now_s: seconds since 1970.

        Raises: what `Client` raises. Cancellation: safe.
        """
        ...


def failed(why: str, *, started_at_s: float, finished_at_s: float) -> Measurement:
    """A measurement that could not be taken.

    Args:
        why: in words of ours.
    """
    return Measurement(phase=AnalysisPhase.ERROR, started_at_s=started_at_s, finished_at_s=finished_at_s, message=why)


def stopped(due: Due, *, now_s: float) -> Measurement:
    """The end of a measurement without a verdict, for sources that leave nothing behind."""
    began_s = now_s if due.measurement is None else due.measurement.started_at_s
    return Measurement(phase=AnalysisPhase.PENDING, started_at_s=began_s, finished_at_s=now_s)
