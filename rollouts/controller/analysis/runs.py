"""All AnalysisRuns of the cluster: their watch, their queue, and, while this controller leads, looks and measurements.

Every controller watches them; only the leader looks at them. Without the CRD, or without the right to watch it, there are none.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping

import structlog

from rollouts.api.status.wire import read_status
from rollouts.cluster.client import Client
from rollouts.cluster.decoding import UnreadableObject
from rollouts.cluster.store import Store, Table
from rollouts.cluster.structs import AnalysisRunObject, Metadata, RolloutObject
from rollouts.controller.act.events import EventSender
from rollouts.controller.analysis.measuring import Measuring
from rollouts.controller.analysis.sources import MeasurementSource, SourceName
from rollouts.controller.analysis.worker import About, RunWorker
from rollouts.controller.workqueue.barrier import Barrier
from rollouts.controller.workqueue.managed import is_rollout
from rollouts.controller.workqueue.optional_watch import OptionalWatch
from rollouts.controller.workqueue.queue import WorkQueue
from rollouts.core.model.analysis import AnalysisRecord
from rollouts.manifests.ownership import NAME, REVISION, name_label
from rollouts.objects import ANALYSIS_RUN, ROLLOUT, Key, Kind
from rollouts.ports import ApiServer, Clock
from rollouts.telemetry import Telemetry

LOOKS_AT_ONCE = 16

log = structlog.get_logger()


class AnalysisRuns:
    """Carries out AnalysisRuns.

    Args:
        sources: those that this installation has.
        measurements: that may be taken at once.
        on_change: called for each change of a run, after this room knows of it.
    """

    def __init__(  # noqa: PLR0913 - keyword-only: the ports, and what looks share with passes
        self,
        *,
        api: ApiServer,
        client: Client,
        store: Store,
        sources: Mapping[SourceName, MeasurementSource],
        events: EventSender,
        telemetry: Telemetry,
        clock: Clock,
        rng: random.Random,
        identity: str,
        measurements: int,
        on_change: Callable[[AnalysisRunObject | None, AnalysisRunObject | None], None],
    ) -> None:
        self._rollouts: Table[RolloutObject] = store.table(ROLLOUT)
        self._on_change = on_change
        self._queue = WorkQueue(clock=clock, rng=rng, workers=LOOKS_AT_ONCE)
        self._barrier = Barrier(store=store, queue=self._queue, clock=clock)
        self._measuring = Measuring(
            sources=sources,
            clock=clock,
            rng=rng,
            telemetry=telemetry,
            at_once=measurements,
            on_taken=self._queue.add,
        )
        self._worker = RunWorker(
            queue=self._queue,
            barrier=self._barrier,
            table=store.table(ANALYSIS_RUN),
            measuring=self._measuring,
            client=client,
            keeps=self._is_awaited,
            about=self._about,
            events=events,
            telemetry=telemetry,
            clock=clock,
            identity=identity,
        )
        self.watch = OptionalWatch(
            store.table(ANALYSIS_RUN),
            api=api,
            rng=rng,
            on_change=self._changed,
            on_unreadable=self._unreadable,
            on_seen=lambda: telemetry.follow_table(store.table(ANALYSIS_RUN)),
        )
        """Whether runs can be seen, and where not."""
        telemetry.analysis.measurements_active.set_function(lambda: self._measuring.active)
        telemetry.analysis.measurements_waiting.set_function(lambda: len(self._measuring))
        telemetry.analysis.runs_active.set_function(lambda: len(self._worker))

    async def lead(self) -> None:
        """Looks at runs and measures until `close`. Cancellation: ends looks and measurements, and waits for that."""
        async with asyncio.TaskGroup() as tasks:
            measuring = tasks.create_task(self._measuring.run())
            async with asyncio.TaskGroup() as looks:
                for _ in range(LOOKS_AT_ONCE):
                    looks.create_task(self._worker.run())
            measuring.cancel()

    def close(self) -> None:
        """Begins no more looks; those that have begun are finished."""
        self._queue.close()

    def _changed(self, _kind: Kind, before: AnalysisRunObject | None, after: AnalysisRunObject | None) -> None:
        self._worker.changed(before, after)
        self._on_change(before, after)

    def _unreadable(self, kind: Kind, seen: UnreadableObject) -> None:
        """A look at a run that exists and cannot be read ends its measurements, and its Rollout says so; all others go on."""
        metadata = seen.metadata
        log.error("object_unreadable", kind=kind.kind, namespace=metadata.namespace, name=metadata.name, why=seen.why)
        self._barrier.shown(kind, metadata.namespace, metadata.name)
        self._queue.add(Key(metadata.namespace, metadata.name))
        self._on_change(None, AnalysisRunObject(metadata=metadata))

    def _is_awaited(self, run: Metadata) -> bool:
        """Whether the run's Rollout has not recorded its verdict yet: without the run it would measure again."""
        rollout = self._rollout_of(run)
        record = None if rollout is None else _record_of(run, rollout)[1]
        return record is not None and not record.phase.over

    def _about(self, run: Metadata) -> About | None:
        """What a run measures: its labels say it, or, as tenants may edit labels, the status of the Rollout that controls it.

        None while that status does not name the run.
        """
        labels = run.labels or {}
        rollout = self._rollout_of(run)
        if rollout is None:
            return About(labels.get(NAME, ""), labels.get(REVISION, ""))
        revision, record = _record_of(run, rollout)
        return None if record is None else About(name_label(rollout.metadata.name), revision)

    def _rollout_of(self, run: Metadata) -> RolloutObject | None:
        """The Rollout that controls a run."""
        for owner in run.owner_references or ():
            if owner.controller and is_rollout(owner):
                rollout = self._rollouts.get(run.namespace, owner.name)
                if rollout is not None and rollout.metadata.uid == owner.uid:
                    return rollout
        return None


def _record_of(run: Metadata, rollout: RolloutObject) -> tuple[str, AnalysisRecord | None]:
    """The revision that a Rollout updates to, and what its status says of a run; None when it does not name it."""
    status = read_status(bytes(rollout.status)).status
    return status.current_revision, next((each for each in status.analyses if each.run == run.name), None)
