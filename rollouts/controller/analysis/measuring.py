"""Takes measurements beside the looks at runs: so many at once, fair to namespaces, each with a deadline.

A result stays here until a look has recorded it in its run's status. What is lost with the process is taken again.
"""

from __future__ import annotations

import asyncio
import random
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import structlog

from rollouts.controller.analysis.sources import JOBS_OFF, MeasuredRun, MeasurementSource, failed
from rollouts.controller.workqueue.queue import WorkQueue
from rollouts.core.analysis.measurement import Measurement
from rollouts.core.analysis.metric import Metric
from rollouts.core.analysis.run import RETRY_S, Due, Task
from rollouts.core.analysis.source import JobMetric
from rollouts.errors import CallEnded, RolloutsError, TransientError
from rollouts.objects import Key
from rollouts.ports import Clock
from rollouts.telemetry import Telemetry

MEASUREMENT_DEADLINE_S = 330.0
"""For all of a measurement: somewhat longer than the longest timeout that a metric may have for its request."""

log = structlog.get_logger()


Taken: TypeAlias = tuple[int, Measurement]
"""A result that is not recorded yet; its number tells it apart from one that was recorded before."""


@dataclass(eq=False, slots=True)
class _Order:
    key: Key
    run: MeasuredRun
    metric: Metric
    due: Due
    task: asyncio.Task[None] | None = None

    def cancel(self) -> None:
        if self.task is not None:
            self.task.cancel()


@dataclass(slots=True)
class _OfRun:
    orders: dict[str, _Order] = field(default_factory=dict)  # by metric
    taken: dict[str, Taken] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True, eq=False)
class Measuring:
    """Takes measurements while this controller leads.

    Args:
        sources: all but that of Jobs, which an installation may turn off; by `provider`.
        at_once: measurements at the same time, of all namespaces together.
        on_taken: called with the run's key when a result is there.
    """

    sources: Mapping[str, MeasurementSource]
    clock: Clock
    rng: random.Random
    telemetry: Telemetry
    at_once: int
    on_taken: Callable[[Key], None]
    _queue: WorkQueue = field(init=False)
    _runs: dict[str, _OfRun] = field(default_factory=dict, init=False)  # by uid

    def __post_init__(self) -> None:
        self._queue = WorkQueue(clock=self.clock, rng=self.rng, workers=self.at_once)

    def __len__(self) -> int:
        """Measurements that wait for their turn."""
        return len(self._queue)

    @property
    def active(self) -> int:
        """Measurements that are being taken."""
        return self._queue.active

    def ask(self, key: Key, run: MeasuredRun, metric: Metric, due: Due) -> None:
        """Orders a measurement, unless the metric has one under way."""
        of_run = self._runs.setdefault(run.uid, _OfRun())
        if due.metric in of_run.orders:
            return
        of_run.orders[due.metric] = _Order(key, run, metric, due)
        self._queue.add(Key(run.namespace, f"{run.uid}/{due.metric}"))  # a uid has no slash

    def asked(self, uid: str) -> frozenset[str]:
        """Metrics of the run whose measurement is under way."""
        return frozenset(self._runs[uid].orders) if uid in self._runs else frozenset()

    def taken(self, uid: str) -> Mapping[str, Taken]:
        """Results that are not recorded yet, by metric; a copy."""
        return dict(self._runs[uid].taken) if uid in self._runs else {}

    def recorded(self, uid: str, results: Mapping[str, Taken]) -> None:
        """Forgets results: they are in the run's status, or nobody needs them."""
        of_run = self._runs.get(uid)
        for metric, result in results.items():
            if of_run is not None and of_run.taken.get(metric) is result:
                del of_run.taken[metric]

    def give_up(self, uid: str) -> None:
        """Ends the run's measurements that leave nothing behind; nobody waits for them any more."""
        orders = self._runs[uid].orders if uid in self._runs else {}
        for metric, order in tuple(orders.items()):
            if not isinstance(order.metric.source, JobMetric):
                order.cancel()
                del orders[metric]

    def forget(self, uid: str) -> None:
        """Ends all measurements of a run that is over or gone."""
        for order in self._runs.pop(uid, _OfRun()).orders.values():
            order.cancel()

    async def run(self) -> None:
        """Takes measurements until cancelled; then those under way are cancelled and awaited."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(self.at_once):
                tasks.create_task(self._take_turns(tasks))

    async def _take_turns(self, tasks: asyncio.TaskGroup) -> None:
        while (slot := await self._queue.take()) is not None:
            try:
                uid, _, metric = slot.name.partition("/")
                order = self._runs[uid].orders.get(metric) if uid in self._runs else None
                if order is not None:
                    order.task = tasks.create_task(self._carry_out(order))
                    await asyncio.wait({order.task})
            finally:
                self._queue.done(slot)

    async def _carry_out(self, order: _Order) -> None:
        began_s = self.clock.monotonic_s()
        measurement = await self._measured(order)
        name = order.metric.source.provider
        self.telemetry.analysis.measurements.labels(name, measurement.phase.value).inc()
        self.telemetry.analysis.measurement_seconds.labels(name).observe(self.clock.monotonic_s() - began_s)
        of_run = self._runs.get(order.run.uid)
        if of_run is not None and of_run.orders.get(order.due.metric) is order:
            del of_run.orders[order.due.metric]
            of_run.taken[order.due.metric] = (order.due.number, measurement)
            self.on_taken(order.key)

    async def _measured(self, order: _Order) -> Measurement:
        """The measurement; an Error where there is none. Raises: nothing but cancellation."""
        began_at_s = self.clock.now_s()
        name = order.metric.source.provider
        source = self.sources.get(name)
        if source is None:
            return self._failed(JOBS_OFF, began_at_s)
        try:
            async with asyncio.timeout(MEASUREMENT_DEADLINE_S):
                return await self._patiently(source, order)
        except TimeoutError:
            return self._failed(f"no measurement within {MEASUREMENT_DEADLINE_S:g} s", began_at_s)
        except CallEnded as exc:
            return self._failed(f"{exc}: write the condition with fewer calls, or let the query give less", began_at_s)
        except RolloutsError as exc:
            log.warning("measurement_failed", run=str(order.key), source=name, error=type(exc).__name__, why=str(exc))
            return self._failed(f"the API server does not answer as it must: {type(exc).__name__}", began_at_s)
        except Exception as exc:  # a bug; it affects this metric alone. Its text may have a secret in it
            where = [f"{frame.name}:{frame.lineno}" for frame in traceback.extract_tb(exc.__traceback__)]
            log.error("measurement_crashed", run=str(order.key), source=name, error=type(exc).__name__, where=where)
            return self._failed(f"the controller failed ({type(exc).__name__}), which is a bug in it", began_at_s)

    async def _patiently(self, source: MeasurementSource, order: _Order) -> Measurement:
        """The measurement. One that has begun is not lost because the API server gives no answer about it.

        Raises: what the source raises.
        """
        while True:
            try:
                return await source.measure(order.run, order.metric, order.due, now_s=self.clock.now_s())
            except TransientError as exc:
                if order.due.task is Task.TAKE:
                    raise
                log.warning("measurement_not_seen", run=str(order.key), error=type(exc).__name__, why=str(exc))
                await asyncio.sleep(RETRY_S)

    def _failed(self, why: str, began_at_s: float) -> Measurement:
        return failed(why, started_at_s=began_at_s, finished_at_s=self.clock.now_s())
