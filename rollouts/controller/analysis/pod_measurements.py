"""Measurements of `kubernetes`: one list of the revision's pods, which every cluster can answer."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import msgspec

from rollouts.cluster.client import Client
from rollouts.cluster.structs import Partial
from rollouts.controller.analysis.sources import MeasuredRun, failed, stopped
from rollouts.controller.facts.in_place import InPlaceOf, pods_of_revision
from rollouts.core.analysis.measurement import Measurement
from rollouts.core.analysis.metric import Metric
from rollouts.core.analysis.run import Due, Task
from rollouts.core.analysis.source import PodEvidence
from rollouts.errors import ApiForbidden, ApiUnavailable
from rollouts.manifests.ownership import NAME, REVISION
from rollouts.metrics.pods import PodSeen, pod_seen, pods_measured
from rollouts.objects import POD, Key
from rollouts.ports import Clock

LISTS_AT_ONCE = 4  # the API server looks at every pod of a namespace to find those of one revision


class _PodMetadata(Partial, frozen=True):
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None


class _Pod(Partial, frozen=True):
    metadata: _PodMetadata = _PodMetadata()
    status: dict[str, Any] = msgspec.field(default_factory=dict)


class _ListMetadata(Partial, frozen=True):
    continue_: str = msgspec.field(default="", name="continue")


class _Page(Partial, frozen=True):
    metadata: _ListMetadata = _ListMetadata()
    items: tuple[_Pod, ...] | None = None


_PAGE = msgspec.json.Decoder(_Page)


@dataclass(slots=True, kw_only=True, eq=False)
class PodMeasurements:
    """Lists pods.

    Args:
        in_place: the Deployment that a Rollout updates in place, which has its pods.
    """

    client: Client
    clock: Clock
    in_place: InPlaceOf = lambda _: None
    _room: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(LISTS_AT_ONCE), init=False)

    async def measure(self, run: MeasuredRun, metric: Metric, due: Due, *, now_s: float) -> Measurement:
        """See `MeasurementSource.measure`. Nothing is ever in flight between two lists."""
        assert isinstance(metric.source, PodEvidence)  # noqa: S101 - the registry knows no other for us
        if due.task is Task.STOP:
            return stopped(due, now_s=now_s)
        if not run.rollout or not run.revision:
            why = f"the AnalysisRun names no pods: it needs the labels {NAME} and {REVISION}"
            return failed(why, started_at_s=now_s, finished_at_s=now_s)
        try:
            async with self._room:
                pods = await self._pods(run)
        except ApiForbidden:
            why = "the controller may not list pods"
            return failed(why, started_at_s=now_s, finished_at_s=self.clock.now_s())
        finished_at_s = self.clock.now_s()
        return pods_measured(
            metric.source, pods, since_s=run.started_at_s, started_at_s=now_s, finished_at_s=finished_at_s
        )

    async def _pods(self, run: MeasuredRun) -> list[PodSeen]:
        key = Key(run.namespace, run.rollout)
        selector = pods_of_revision(key, run.revision, self.in_place(key))
        pods: list[PodSeen] = []
        token = ""
        while True:
            answer = await self.client.list_page(POD, run.namespace, label_selector=selector, continue_token=token)
            try:
                page = _PAGE.decode(answer)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
                raise ApiUnavailable(f"the list of pods cannot be read ({type(exc).__name__})") from exc
            pods += [pod_seen(msgspec.to_builtins(pod)) for pod in page.items or ()]
            token = page.metadata.continue_
            if not token:
                return pods
