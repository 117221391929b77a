"""One look at what the cluster measures, as a measurement: what its sources share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from rollouts.controller.analysis.sources import MeasuredRun, failed, stopped
from rollouts.core.analysis.measurement import Measurement
from rollouts.core.analysis.metric import Metric
from rollouts.core.analysis.run import Due, Task
from rollouts.errors import ApiForbidden, ApiThrottled, ApiUnavailable, RolloutsError
from rollouts.manifests.ownership import NAME, REVISION
from rollouts.metrics.figures import FiguresFound, LookTimes, figures_measured
from rollouts.metrics.samples import Absence, NoEvidence
from rollouts.ports import BoundedCalls, Clock

Look: TypeAlias = Callable[[MeasuredRun], Awaitable[FiguresFound]]


async def figures_taken(
    look: Look,
    run: MeasuredRun,
    metric: Metric,
    due: Due,
    *,
    bounded: BoundedCalls,
    clock: Clock,
    now_s: float,
    patience_s: float,
) -> Measurement:
    """The measurement that follows from one look; one that waits for a newer sample looks again later.

    Args:
        bounded: evaluates the condition.
        now_s: seconds since 1970.
        patience_s: how long it waits for evidence that is whole and from after the beginning of the run.
    """
    if due.task is Task.STOP:
        return stopped(due, now_s=now_s)
    began_s = now_s if due.measurement is None else due.measurement.started_at_s
    found = await look(run)
    asked = LookTimes(since_s=run.started_at_s, started_at_s=began_s, now_s=clock.now_s(), patience_s=patience_s)
    return await bounded.call(figures_measured, found, metric.condition, asked, tenant=run.namespace)


async def of_adapter(group: str, setting: str, asked: Awaitable[FiguresFound]) -> FiguresFound:
    """What an adapter's answer shows; what it does wrong is no evidence, with the remedy.

    Args:
        group: the API that the adapter serves.
        setting: of the chart, which names what the controller may read there.
        asked: may raise what `Client` raises, and ValueError for an answer that cannot be read.
    """
    try:
        return await asked
    except ApiForbidden:
        why = f"{group} cannot be read: the controller may not; name the metric in {setting} of the chart"
    except (ApiUnavailable, ApiThrottled):
        why = f"{group} cannot be read: it does not answer; see kubectl get apiservice"
    except RolloutsError as exc:
        why = f"{group} cannot be read: it does not answer as it must ({type(exc).__name__})"
    except ValueError:
        why = f"the answer of {group} cannot be read"
    return NoEvidence(why, Absence.ERROR)


def absent(group: str) -> NoEvidence:
    """Of a cluster without the API."""
    return NoEvidence(f"the cluster does not have {group}: install an adapter that serves it", Absence.ERROR)


def nameless(run: MeasuredRun, now_s: float, *, revision: bool = True) -> Measurement | None:
    """The error of a run whose labels do not say which pods, or which Rollout, it is about; None when they do.

    Args:
        revision: the revision matters too.
    """
    if run.rollout and (run.revision or not revision):
        return None
    needed = f"the labels {NAME} and {REVISION}" if revision else f"the label {NAME}"
    return failed(f"the AnalysisRun needs {needed}", started_at_s=now_s, finished_at_s=now_s)
