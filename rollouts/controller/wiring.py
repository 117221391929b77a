"""Puts the controller together: with `adapters`, the only module here that names concrete adapters.

A standby does everything except passes: its watches run and fill its store, so a takeover needs no list. When the lease is lost,
the passes are cancelled and awaited before it expires, and the process exits, because its state is from the time when it led.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import structlog

from rollouts.api.spec.parse import warm_up
from rollouts.clock import SystemClock
from rollouts.cluster.client import Client
from rollouts.cluster.decoding import UnreadableObject
from rollouts.cluster.lease import Elector
from rollouts.cluster.sign_in import SignIn
from rollouts.cluster.structs import RouteObject
from rollouts.cluster.watch import reflect
from rollouts.controller.act.answers import Answers
from rollouts.controller.act.orphans import Orphans
from rollouts.controller.act.performer import Performer
from rollouts.controller.adapters import (
    bounded_process,
    connected,
    correcting,
    data_planes_of,
    elector_of,
    event_sender_of,
    metric_asker,
    providers_of,
)
from rollouts.controller.configs.configuration import Configuration
from rollouts.controller.evidence import Evidence
from rollouts.controller.facts.data_planes import AllDataPlanes
from rollouts.controller.facts.gateway_classes import GatewayClasses
from rollouts.controller.facts.gateway_lags import GatewayLags
from rollouts.controller.facts.live_providers import LiveProviders
from rollouts.controller.facts.off_loop import WorkedOut
from rollouts.controller.facts.proxies import Proxies
from rollouts.controller.facts.route_kinds import RouteKinds, kinds_of
from rollouts.controller.facts.settle_times import parse_settle_times
from rollouts.controller.health.readiness import Readiness
from rollouts.controller.health.server import serving
from rollouts.controller.loop.deferred import DeferredStatus
from rollouts.controller.loop.worker import Worker
from rollouts.controller.observe.analyses import Analyses
from rollouts.controller.observe.observer import Observer
from rollouts.controller.observe.routes import RouteReader
from rollouts.controller.observe.workloads import WorkloadReader
from rollouts.controller.providers.traffic_providers import TrafficProviders
from rollouts.controller.workqueue.barrier import Barrier
from rollouts.controller.workqueue.inbox import Inbox
from rollouts.controller.workqueue.managed import ManagedNames, ManagedRouteObjects
from rollouts.controller.workqueue.pod_watches import PodWatches
from rollouts.controller.workqueue.queue import WorkQueue
from rollouts.controller.workqueue.standing_watches import WATCHED, new_store
from rollouts.controller.workqueue.triggers import Triggers
from rollouts.controller.workqueue.workload_watches import WorkloadWatches
from rollouts.core.model.drain import ProxyMode
from rollouts.manifests.ownership import FIELD_MANAGER, MANAGED, MANAGED_VALUE
from rollouts.objects import ROLLOUT, SERVICE, Key, Kind
from rollouts.ports import ApiServer, BoundedCalls, Clock, DataPlanes, MetricEndpoints
from rollouts.probes.declared_probes import DeclaredProbes
from rollouts.probes.kube_proxy import learnt_lag_s
from rollouts.settings import Settings
from rollouts.telemetry import Telemetry
from rollouts.traffic.codec import Provider

REQUEST_DEADLINE_S = 15.0
EVENT_DEADLINE_S = 5.0
ANSWERS_DEADLINE_S = 5.0  # for facts that the first passes should have, and can do without
EVENTS_DRAIN_S = 1.0
STOP_DEADLINE_S = 20.0  # below a Pod's default terminationGracePeriodSeconds of 30

EXIT_STOPPED = 0
EXIT_LEASE_LOST = 1
EXIT_BLIND = 3

log = structlog.get_logger()


async def run_controller(  # noqa: PLR0913 - each is a port, and a test replaces it
    settings: Settings,
    *,
    api: ApiServer | None = None,
    lease_api: ApiServer | None = None,
    clock: Clock | None = None,
    rng: random.Random | None = None,
    stop: asyncio.Event | None = None,
    on_ready: Callable[[Telemetry], None] | None = None,
    planes: DataPlanes | None = None,
    metrics: MetricEndpoints | None = None,
    bounded: BoundedCalls | None = None,
) -> int:
    """Runs the controller until `stop` is set or its lease is lost; returns the exit code for the process.

    Args:
        api: None to connect to the cluster that `settings` names. A given one is not closed.
        lease_api: a connection for the Lease alone; None for `api`, or for a second connection to the same cluster.
        clock, rng: None for this machine's.
        stop: set it for an orderly end: no new pass, the writes that have begun are finished, the lease is released.
        on_ready: called once, when everything has been listed.
        planes, metrics: None for those that `settings` names. Given ones are not closed.
        bounded: evaluates expressions; None for a process of its own, which starts with the first one.

    Raises: SettingsInvalid. Any other exception is a bug: the process should exit, and Kubernetes start it again.
    """
    async with contextlib.AsyncExitStack() as stack:
        namespace = settings.lease_namespace or "default"
        if api is None:
            steady = SystemClock()
            clock = clock or steady
            connection = await stack.enter_async_context(connected(settings, on_date=correcting(steady)))
            api, namespace = connection, settings.lease_namespace or connection.namespace
            if settings.leader_elect and lease_api is None:
                # A connection pool of its own: passes that wait for connections must not cost the lease.
                lease_api = await stack.enter_async_context(connected(settings))
        clock = clock or SystemClock()
        rng = rng or random.Random()  # noqa: S311 - jitter, not a secret
        sign_in = SignIn(clock)
        api, lease_api = sign_in.through(api), sign_in.through(lease_api or api)
        elector = elector_of(settings, lease_api, namespace=namespace, clock=clock, rng=rng)
        if planes is None:
            named = data_planes_of(settings, api=api, clock=clock)
            planes = await stack.enter_async_context(contextlib.aclosing(named))
        if metrics is None:
            metrics = await stack.enter_async_context(contextlib.aclosing(metric_asker(settings, clock=clock)))
        if bounded is None:
            bounded = await stack.enter_async_context(contextlib.aclosing(bounded_process(clock)))
        declared = DeclaredProbes(settings.data_plane_ca, bounded=bounded, clock=clock)
        probes = await stack.enter_async_context(contextlib.aclosing(declared))
        controller = Controller(
            settings=settings,
            api=api,
            sign_in=sign_in,
            elector=elector,
            clock=clock,
            rng=rng,
            planes=planes,
            probes=probes,
            metrics=metrics,
            bounded=bounded,
            namespace=namespace,
        )
        health = serving(settings, not_ready=controller.readiness.why_not, exposition=controller.telemetry.exposition)
        await stack.enter_async_context(health)
        loop = type(asyncio.get_running_loop()).__module__.partition(".")[0]
        log.info(
            "starting", namespaces=settings.namespaces or "all", leader_elect=settings.leader_elect, event_loop=loop
        )
        return await controller.run(stop or asyncio.Event(), on_ready=on_ready)


@dataclass(kw_only=True, eq=False)
class Controller:
    """All parts of one controller, connected."""

    settings: Settings
    api: ApiServer
    sign_in: SignIn
    elector: Elector | None
    clock: Clock
    rng: random.Random
    planes: DataPlanes
    probes: DeclaredProbes
    metrics: MetricEndpoints
    bounded: BoundedCalls
    namespace: str
    telemetry: Telemetry = field(init=False)
    _leading: bool = field(default=False, init=False)
    _group: asyncio.TaskGroup | None = field(default=None, init=False)
    _background: list[asyncio.Task[None]] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        settings, clock, elector = self.settings, self.clock, self.elector
        self.telemetry = Telemetry(rollout_series=settings.rollout_series)
        self._scopes = settings.namespaces or ("",)
        may_write = elector.holds if elector is not None else lambda: True
        self._store = new_store(clock, self._scopes)
        self.readiness = Readiness(self._store, sign_in=self.sign_in, wake_all=self._wake_all)
        self.telemetry.credentials_refused.set_function(lambda: float(self.sign_in.refused))
        self._queue = WorkQueue(clock=clock, rng=self.rng, workers=settings.workers)
        self._inbox = Inbox(clock=clock)
        self._managed, self._managed_routes = ManagedNames(), ManagedRouteObjects()
        changes, wakes = (self._on_change, self._on_unreadable), self._wake_rollouts_naming
        self._workloads = WorkloadWatches(self._store, self.api, self.telemetry, *changes, wakes, settings.workloads)
        self._pods = PodWatches(api=self.api, clock=clock, wake=self._queue.add)
        self._kinds = RouteKinds(api=self.api, on_found=self._watch_routes)
        self._classes, self._lags = GatewayClasses(clock=clock), GatewayLags(clock=clock)
        providers = LiveProviders(providers_of(settings))
        self._planes = AllDataPlanes(self.planes, probes=self.probes, providers=providers)
        self._routes = self._route_reader(providers)
        self._barrier = Barrier(store=self._store, queue=self._queue, clock=clock)
        client = partial(
            Client,
            self.api,
            clock=clock,
            may_write=may_write,
            on_request=self.telemetry.on_request,
            rng=self.rng,
            field_manager=FIELD_MANAGER,
        )
        self._client = client(request_deadline_s=REQUEST_DEADLINE_S)
        self._events = event_sender_of(settings, client(request_deadline_s=EVENT_DEADLINE_S), self.telemetry, may_write)
        self._evidence = self._new_evidence()
        analyses = Analyses(self._store, why_unseen=self._evidence.why_unseen)
        self._configuration = Configuration(
            settings, self.api, self._store, self._queue, clock, self.telemetry, self._on_change, self._on_unreadable
        )
        named = self._configuration.contents.askers
        self._triggers = Triggers(
            inbox=self._inbox, store=self._store, runs=analyses.seen, templates=analyses.askers, sources=named
        )
        self._deferred = DeferredStatus(clock=clock)
        self._traffic_providers = self._new_traffic_providers(providers)
        declared = None if settings.proxy_mode == "auto" else ProxyMode(settings.proxy_mode)
        self._proxies = Proxies(
            client=self._client, api=self.api, declared=declared, on_change=self._wake_all, ask_nodes=learnt_lag_s
        )
        workloads = (self._workloads.managed, self._workloads.why_unseen, self._pods)
        self._observer = Observer(
            store=self._store,
            inbox=self._inbox,
            managed=self._managed,
            clock=clock,
            workloads=WorkloadReader(self._store, self._inbox, *workloads),
            routes=self._routes,
            facts=lambda: self._proxies.facts,
            lags=self._lags,
            analyses=analyses,
            configs=self._configuration.configs,
            command_notes=settings.command_notes,
            selectors=self._triggers.selectors,
        )
        # What the watches queue before a process leads waits for the lead, and not for a worker.
        self.telemetry.queue_depth.set_function(lambda: len(self._queue) if self._leading else 0)
        self.telemetry.leader.set_function(lambda: float(self._leading and may_write()))
        for kind, _ in WATCHED:
            self.telemetry.follow_table(self._store.table(kind))

    def _new_traffic_providers(self, providers: LiveProviders) -> TrafficProviders:
        return TrafficProviders(
            api=self.api,
            client=self._client,
            clock=self.clock,
            rng=random.Random(self.settings.identity),  # noqa: S311 - jitter of its own: most clusters have none to watch
            providers=providers,
            answers=WorkedOut(self.bounded, clock=self.clock),
            namespace=self.namespace,
            named=lambda name: bool(self._rollouts_naming(name)),
            on_change=self._wake_rollouts_naming,
            on_ready=lambda provider: self._look_for_routes((provider.kinds,)),
        )

    def _new_evidence(self) -> Evidence:
        return Evidence(
            settings=self.settings,
            api=self.api,
            client=self._client,
            store=self._store,
            clock=self.clock,
            metrics=self.metrics,
            bounded=self.bounded,
            namespace=self.namespace,
            events=self._events,
            telemetry=self.telemetry,
            on_change=self._on_change,
            on_unreadable=self._on_unreadable,
        )

    async def run(self, stop: asyncio.Event, *, on_ready: Callable[[Telemetry], None] | None) -> int:
        """See `run_controller`."""
        async with asyncio.TaskGroup() as group:  # a watch that crashes ends the whole controller
            self._group, background = group, self._background
            for kind, labels in WATCHED:
                background += [group.create_task(self._watch(kind, labels, scope)) for scope in self._scopes]
            parts = (self._events, self._proxies, self._configuration.watch, self._evidence)
            background += [group.create_task(part.run()) for part in (*parts, self._workloads, self._pods)]
            background += map(group.create_task, (self._when_ready(on_ready), self._traffic_providers.watch()))
            self._look_for_routes(
                kinds for name in self.settings.routers for kinds in kinds_of(self._routes.providers.get(name)) if kinds
            )
            try:
                return await self._lead_until(stop)
            finally:
                self._group = None  # no new watch starts from now on
                for task in background:
                    task.cancel()

    async def _lead_until(self, stop: asyncio.Event) -> int:
        leading = asyncio.ensure_future(self._stand())
        stopping = asyncio.ensure_future(stop.wait())
        blind = asyncio.ensure_future(self.readiness.blind.wait())
        try:
            await asyncio.wait({leading, stopping, blind}, return_when=asyncio.FIRST_COMPLETED)
            if stop.is_set():
                log.info("stopping", leading=self._leading)
                self._queue.close()
                self._evidence.close()
                if self._leading:
                    await asyncio.wait({leading}, timeout=STOP_DEADLINE_S)
        finally:
            for task in (stopping, blind, leading):
                task.cancel()
            await asyncio.wait({leading, stopping, blind})
        if not leading.cancelled():
            leading.result()
        if stop.is_set():
            return EXIT_STOPPED
        if self.readiness.blind.is_set():
            return EXIT_BLIND
        log.error("lease_lost", identity=self.settings.identity)
        return EXIT_LEASE_LOST

    async def _stand(self) -> None:
        """Takes part in the election once the lists are complete: a leader that sees nothing would block one that does."""
        await self.readiness.ready.wait()
        await (self._lead() if self.elector is None else self.elector.run(self._lead))

    async def _lead(self) -> None:
        """Runs passes until the queue is closed. Cancellation: ends the passes at their next await."""
        self._leading = True
        log.info("leading", rollouts=len(self._store.table(ROLLOUT)))
        try:
            async with asyncio.TaskGroup() as questions:
                analysing = questions.create_task(self._evidence.lead())
                judging = questions.create_task(self._traffic_providers.judge())
                answers = Answers(
                    client=self._client,
                    store=self._store,
                    inbox=self._inbox,
                    queue=self._queue,
                    kinds=self._kinds,
                    classes=self._classes,
                    load=self._evidence.cluster_metrics,
                    planes=self._planes,
                    lags=self._lags,
                    clock=self.clock,
                    questions=questions,
                )
                sources = self._configuration.sources(client=self._client, barrier=self._barrier, reads=questions)
                performer = Performer(
                    client=self._client,
                    store=self._store,
                    barrier=self._barrier,
                    inbox=self._inbox,
                    queue=self._queue,
                    clock=self.clock,
                    answers=answers,
                    sources=sources,
                )
                worker = self._worker(performer)
                async with asyncio.TaskGroup() as workers:
                    for _ in range(self.settings.workers):
                        workers.create_task(worker.run())
                await asyncio.wait({analysing})
                judging.cancel()
                await self._events.drained(deadline_s=EVENTS_DRAIN_S)
                answers.stop()
                sources.stop()
        finally:
            self._leading = False
            self.telemetry.forget_objects()

    def _route_reader(self, providers: Mapping[str, Provider]) -> RouteReader:
        return RouteReader(
            store=self._store,
            inbox=self._inbox,
            kinds=self._kinds,
            managed=self._managed_routes,
            providers=providers,
            planes=self._planes,
            classes=self._classes,
            settle_times=parse_settle_times(self.settings.settle_times),
        )

    def _worker(self, performer: Performer) -> Worker:
        return Worker(
            queue=self._queue,
            barrier=self._barrier,
            observer=self._observer,
            inbox=self._inbox,
            performer=performer,
            orphans=Orphans(
                client=self._client,
                store=self._store,
                barrier=self._barrier,
                managed=self._managed,
                workloads=self._workloads.managed,
                routes=self._routes,
            ),
            deferred=self._deferred,
            events=self._events,
            telemetry=self.telemetry,
            clock=self.clock,
            identity=self.settings.identity,
        )

    def _look_for_routes(self, routers: Iterable[tuple[Kind, ...]]) -> None:
        """Looks once for routes whose Rollout was deleted while no controller ran, as soon as all Rollouts are listed."""

        async def look_once() -> None:
            await self._store.wait_synced()
            await self._kinds.look_for_managed(routers, client=self._client, namespaces=self._scopes)

        if self._group is not None:
            self._background.append(self._group.create_task(look_once()))

    def _watch_routes(self, kind: Kind) -> None:
        """Starts to watch the managed routes of a kind that a Rollout names, until the process ends."""
        if self._group is None or self._store.watched(kind) is not None:
            return
        self.telemetry.follow_table(self._store.add(kind, RouteObject, namespaces=self._scopes))
        for scope in self._scopes:
            watch = self._watch(kind, f"{MANAGED}={MANAGED_VALUE}", scope)
            self._background.append(self._group.create_task(watch))
        log.info("watching_routes", kind=kind.kind, api_version=kind.api_version)

    async def _watch(self, kind: Kind, labels: str, scope: str) -> None:
        await reflect(
            self.api,
            self._store.table(kind),
            namespace=scope,
            label_selector=labels,
            on_change=self._evidence.follow,
            on_problem=self.readiness.on_problem,
            on_unreadable=self._on_unreadable,
            rng=self.rng,
        )

    def _on_change(self, kind: Kind, before: Any, after: Any) -> None:
        """Queues the Rollouts that one change in the cluster concerns. The store shows the change already."""
        metadata = (after or before).metadata
        if kind == SERVICE:
            self._managed.learn(before, after)
        elif isinstance(after or before, RouteObject):
            self._managed_routes.learn(kind, before, after)
        elif kind == ROLLOUT:
            self.readiness.crd_is_there()
            self._configuration.follow(after)
            self._workloads.follow(after)
            if before is not None and (after is None or after.metadata.uid != before.metadata.uid):
                self._forget(Key(metadata.namespace, metadata.name), before.metadata.uid)
        self._barrier.shown(kind, metadata.namespace, metadata.name)
        for key in self._triggers.keys(before, after):
            self._queue.add(key)

    def _on_unreadable(self, kind: Kind, seen: UnreadableObject) -> None:
        """Queues the Rollouts of an object that exists and cannot be read: their passes report it, and all others go on."""
        metadata = seen.metadata
        log.error("object_unreadable", kind=kind.kind, namespace=metadata.namespace, name=metadata.name, why=seen.why)
        self._barrier.shown(kind, metadata.namespace, metadata.name)
        for key in self._triggers.keys_of_unreadable(kind, metadata):
            self._queue.add(key)

    def _forget(self, key: Key, uid: str) -> None:
        self._observer.forget(key, uid)
        self._inbox.forget(key)
        self._deferred.forget(key)
        self._queue.forget(key)
        self.telemetry.show(key, None)

    def _rollouts_naming(self, provider: str) -> list[Key]:
        """Rollouts with that text in their spec: those that name the provider, and perhaps a few more."""
        text = f'"{provider}"'.encode()
        rollouts = (rollout for rollout in self._store.table(ROLLOUT).all() if text in bytes(rollout.spec))
        return [Key(rollout.metadata.namespace, rollout.metadata.name) for rollout in rollouts]

    def _wake_rollouts_naming(self, provider: str) -> None:
        for key in (*self._rollouts_naming(provider), *self._managed_routes.keys()):
            self._queue.add(key)

    def _wake_all(self) -> None:
        """Queues all Rollouts, because any wait may have changed; few of these passes write."""
        for rollout in self._store.table(ROLLOUT).all():
            self._queue.add(Key(rollout.metadata.namespace, rollout.metadata.name))

    async def _when_ready(self, on_ready: Callable[[Telemetry], None] | None) -> None:
        await self._store.wait_synced()
        with contextlib.suppress(TimeoutError):  # a late answer must not keep the process from leading
            async with asyncio.timeout(ANSWERS_DEADLINE_S):
                await self._proxies.asked.wait()
                await self._traffic_providers.known.wait()
                await self._evidence.wait_listed()
                await self._configuration.watch.wait_listed()
                await self._workloads.wait_listed()
        self.readiness.crd_is_there()
        warm_up()  # otherwise the first pass would spend the time to build the validators
        self.readiness.ready.set()
        log.info("ready", rollouts=len(self._store.table(ROLLOUT)))
        if on_ready is not None:
            on_ready(self.telemetry)
