"""What judges revisions in this process: AnalysisRuns, their templates and servers, what the cluster measures, Experiments."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

from rollouts.cluster.client import Client
from rollouts.cluster.store import Store
from rollouts.cluster.watch import OnChange, OnUnreadable
from rollouts.controller.act.events import EventSender
from rollouts.controller.analysis.brought_templates import create_templates
from rollouts.controller.analysis.cluster_measurements import cluster_sources
from rollouts.controller.analysis.http_measurements import ArgumentSecrets, HttpMeasurements
from rollouts.controller.analysis.job_measurements import JobMeasurements
from rollouts.controller.analysis.measuring import MEASUREMENT_DEADLINE_S
from rollouts.controller.analysis.pace import PacedEndpoints
from rollouts.controller.analysis.pod_measurements import PodMeasurements
from rollouts.controller.analysis.runs import AnalysisRuns
from rollouts.controller.analysis.sources import MeasurementSource
from rollouts.controller.experiments.experiments import Experiments
from rollouts.controller.facts.cluster_metrics import ClusterMetrics
from rollouts.controller.facts.in_place import in_place_in
from rollouts.controller.providers.metric_providers import FreshCredentials, MetricProviders
from rollouts.controller.workqueue.optional_watch import OptionalWatch
from rollouts.controller.workqueue.standing_watches import TEMPLATES
from rollouts.core.analysis.source import COMPARED, JobMetric, PodEvidence
from rollouts.metrics.sources import HTTP_CODECS
from rollouts.objects import ANALYSIS_RUN, EXPERIMENT, Kind
from rollouts.ports import ApiServer, BoundedCalls, Clock, MetricEndpoints
from rollouts.settings import Settings
from rollouts.telemetry import Telemetry

PROVIDERS_KNOWN_DEADLINE_S = 5.0
"""For the servers that metrics may ask: the first measurements should know them, and can be errors without them."""


@dataclass(kw_only=True, eq=False)
class Evidence:
    """All parts about evidence, connected.

    Args:
        metrics: what asks servers.
        bounded: what evaluates the conditions of metrics.
        namespace: the controller's own.
        on_change, on_unreadable: as for `cluster.watch.reflect`.
    """

    settings: Settings
    api: ApiServer
    client: Client
    store: Store
    clock: Clock
    metrics: MetricEndpoints
    bounded: BoundedCalls
    namespace: str
    events: EventSender
    telemetry: Telemetry
    on_change: OnChange
    on_unreadable: OnUnreadable

    def __post_init__(self) -> None:
        settings = self.settings
        self.cluster_metrics = ClusterMetrics(self.client, self.clock, in_place_in(self.store))
        """What containers use, and autoscalers: the same lists for runs and for gates."""
        self._providers = MetricProviders(
            api=self.api,
            client=self.client,
            clock=self.clock,
            rng=random.Random(f"{settings.identity} metrics"),  # noqa: S311 - jitter of its own: most clusters have none
            namespace=self.namespace,
            folder=settings.metrics.credentials,
            prometheus_url=settings.prometheus_url,
        )
        rng = random.Random("TemplateWatches")  # noqa: S311 - jitter of its own: some clusters have none to watch
        self._templates = {
            kind: OptionalWatch(
                self.store.table(kind),
                api=self.api,
                rng=rng,
                on_change=self.on_change,
                on_unreadable=self.on_unreadable,
                on_seen=partial(self.telemetry.follow_table, self.store.table(kind)),
            )
            for kind in TEMPLATES
        }
        self._runs = AnalysisRuns(
            api=self.api,
            client=self.client,
            store=self.store,
            sources=self._sources(),
            events=self.events,
            telemetry=self.telemetry,
            clock=self.clock,
            rng=random.Random(settings.identity),  # noqa: S311 - jitter of its own
            identity=settings.identity,
            measurements=settings.metrics.at_once,
            on_change=partial(self.follow, ANALYSIS_RUN),
        )
        self._experiments = Experiments(
            api=self.api,
            client=self.client,
            store=self.store,
            events=self.events,
            telemetry=self.telemetry,
            clock=self.clock,
            rng=random.Random(f"{settings.identity} experiments"),  # noqa: S311 - jitter of its own: most clusters have none
            identity=settings.identity,
            why_unseen=self.why_unseen,
            on_change=self.on_change,
            on_unreadable=self.on_unreadable,
        )

    def follow(self, kind: Kind, before: Any, after: Any) -> None:
        """Tells of a change whoever may wait for it: Experiments, and then Rollouts. The store shows the change already."""
        self._experiments.seen(kind, before, after)
        self.on_change(kind, before, after)

    def _sources(self) -> Mapping[str, MeasurementSource]:
        """What takes the measurements of AnalysisRuns in this installation."""
        http = HttpMeasurements(
            endpoints=PacedEndpoints(
                FreshCredentials(self.metrics, providers=self._providers, clock=self.clock), self.clock
            ),
            declared=self._providers.declared,
            why_not=self._providers.why_not,
            secret_values=ArgumentSecrets(client=self.client),
            bounded=self.bounded,
            clock=self.clock,
            deadline_s=MEASUREMENT_DEADLINE_S,
        )
        sources: dict[str, MeasurementSource] = {
            **dict.fromkeys((*HTTP_CODECS, COMPARED), http),
            PodEvidence.provider: PodMeasurements(
                client=self.client, clock=self.clock, in_place=self.cluster_metrics.in_place
            ),
            **cluster_sources(self.cluster_metrics, client=self.client, bounded=self.bounded, clock=self.clock),
        }
        if self.settings.metrics.jobs:
            account = self.settings.metrics.job_service_account
            sources[JobMetric.provider] = JobMeasurements(client=self.client, clock=self.clock, service_account=account)
        return sources

    def why_unseen(self, kind: Kind, namespace: str) -> str:
        """Why objects of that kind, runs, templates or Experiments, cannot be seen in a namespace; "" when they can."""
        if kind == EXPERIMENT:
            return self._experiments.why_not_seen(namespace)
        watch = self._runs.watch if kind == ANALYSIS_RUN else self._templates[kind]
        return watch.why_unseen(namespace)

    async def wait_listed(self) -> None:
        """Returns when it is known which runs and templates there are. Cancellation: safe."""
        for watch in (self._runs.watch, *self._templates.values()):
            await watch.listed.wait()
        await self._experiments.wait_listed()

    async def run(self) -> NoReturn:
        """Follows the cluster until cancelled. Raises: nothing on purpose."""
        async with asyncio.TaskGroup() as watches:
            for watch in (*self._templates.values(), self._runs.watch):
                watches.create_task(watch.run())
            watches.create_task(self._providers.watch())
            watches.create_task(self._experiments.run())
        raise AssertionError("a watch ended by itself")

    async def lead(self) -> None:
        """Looks at runs and measures until `close`. Cancellation: ends looks and measurements, and waits for that."""
        async with asyncio.TaskGroup() as tasks:
            beside = [tasks.create_task(self._providers.judge())]
            if (folder := self.settings.metrics.templates) is not None:
                beside.append(tasks.create_task(create_templates(folder, self.client)))
            await self._providers.wait_known(PROVIDERS_KNOWN_DEADLINE_S)
            experiments = tasks.create_task(self._experiments.lead())
            await self._runs.lead()
            await asyncio.wait({experiments})
            for task in beside:
                task.cancel()

    def close(self) -> None:
        """Begins no more looks; those that have begun are finished."""
        self._runs.close()
        self._experiments.close()
