"""The stage of the demo: a cluster (simulated in this process, or a real one), a controller on it, clients, and their counts.

The controller is the real one, wired as `rollouts controller` wires it; only the API server underneath differs.
"""

from __future__ import annotations

import asyncio
import random
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from msgspec import Struct

from rollouts.api.schema import crd_manifests
from rollouts.bounded.here import Here
from rollouts.cli.commands.doctor_reads import CRD
from rollouts.cli.demo.manifests import rollout
from rollouts.cli.view.follow import Collection, Followed, following
from rollouts.cli.view.objects import RolloutObjects, status_of, view_of
from rollouts.cli.view.reading import seen_in
from rollouts.cli.view.session import Options, Session, open_session, session_on
from rollouts.clock import SystemClock
from rollouts.controller.wiring import run_controller
from rollouts.errors import APPLY_CRDS, ApiNotFound, RolloutsError, SettingsInvalid
from rollouts.objects import (
    ANALYSIS_RUN,
    ANALYSIS_TEMPLATE,
    EVENT,
    EXPERIMENT,
    POD,
    REPLICA_SET,
    ROLLOUT,
    SERVICE,
    Key,
    Manifest,
)
from rollouts.ports import JSON_PATCH, ApiServer, Clock, Request, Response, WatchStream
from rollouts.settings import Settings
from rollouts.sim.actors.kubelet import KubeletSettings
from rollouts.sim.apiserver.http import SimHttp
from rollouts.sim.cluster import SimulatedCluster
from rollouts.sim.network.data_planes import SimDataPlanes
from rollouts.sim.network.gateway import Gateway, GatewaySettings
from rollouts.sim.network.gateway_clients import GatewayClients
from rollouts.sim.network.gateway_types import HTTP_ROUTE, gateway_crds
from rollouts.sim.network.prometheus.scraping import ScrapeSettings
from rollouts.sim.network.traffic import ClientTraffic
from rollouts.sim.storage.registry import NAMESPACE
from rollouts.telemetry import set_up_logging

REQUESTS_PER_S = 50.0
ALREADY_RUNNING_S = 4.0  # a controller in the cluster answers within this time
_CLOSE_S = 15.0
GATEWAY = "public"
PROXIES = GatewaySettings(proxies=3, route_lag_s=(0.05, 0.5))  # long enough to be seen
SCRAPES = ScrapeSettings(interval_s=0.5, discovery_s=0.5)  # nobody waits a minute for the first number
_KINDS = {kind.kind: kind for kind in (ROLLOUT, SERVICE, NAMESPACE, HTTP_ROUTE, ANALYSIS_TEMPLATE)}


class NotAsPromised(Exception):
    """An outcome of the demo is not what the program promises; the message says which."""


class Sent(Struct, frozen=True):
    """How many requests the clients have sent and lost so far, and how many the applications answered with an error."""

    sent: int = 0
    lost: int = 0
    failed: int = 0


class CountingApi:
    """A `ports.ApiServer` that counts the writes that pass through it."""

    def __init__(self, api: ApiServer) -> None:
        self._api = api
        self.writes = 0

    async def request(self, request: Request, *, deadline_s: float) -> Response:
        """As in the port."""
        if request.method != "GET":
            self.writes += 1
        return await self._api.request(request, deadline_s=deadline_s)

    async def open_watch(self, request: Request, *, deadline_s: float, silence_s: float) -> WatchStream:
        """As in the port."""
        return await self._api.open_watch(request, deadline_s=deadline_s, silence_s=silence_s)

    async def aclose(self) -> None:
        """Leaves the connection open: it belongs to the stage."""


@dataclass(slots=True, kw_only=True)
class DemoStage:
    """What an act can do and see.

    Args:
        sim: None on a real cluster; this process cannot reach its Services, so there are no clients.
        controller: None when a controller in the cluster does the work; its writes cannot be counted.
        gateway: the gateway through which clients reach routed apps; None on a real cluster.
        patience: how many times longer than in the simulated cluster everything may take.
        changed: called after every change, to draw it.
    """

    session: Session
    followed: Followed
    sim: SimulatedCluster | None
    controller: CountingApi | None
    gateway: Gateway | None = None
    patience: float
    changed: Callable[[], None] = lambda: None
    clients: dict[str, ClientTraffic | GatewayClients] = field(default_factory=dict)
    watched: str = ""

    @property
    def namespace(self) -> str:
        """The namespace of all objects of the demo."""
        return self.session.namespace

    @property
    def sent(self) -> Sent:
        """The counts of all clients since the beginning."""
        tallies = [traffic.tally for traffic in self.clients.values()]
        return Sent(
            sent=sum(tally.sent.total() for tally in tallies),
            lost=sum(tally.lost.total() for tally in tallies),
            failed=sum(tally.failed.total() for tally in tallies),
        )

    @property
    def writes(self) -> int:
        """API writes of the controller since the beginning."""
        return self.controller.writes if self.controller is not None else 0

    def seen(self, name: str) -> RolloutObjects | None:
        """A Rollout with its ReplicaSets, pods and Events, as the watch shows them; None when it does not exist."""
        return seen_in(self.followed, Key(self.namespace, name))

    def shares(self, name: str) -> dict[str, float]:
        """The share of the last two seconds' requests that each revision got, as its clients counted."""
        traffic = self.clients.get(name)
        if traffic is None or self.sim is None:
            return {}
        last = int(asyncio.get_running_loop().time())
        recent: Counter[str] = Counter()
        for second in (last - 1, last):
            for revision in traffic.tally.sent:
                recent[revision] += traffic.tally.sent_by_second[second, revision]
        total = recent.total()
        return {revision: count / total for revision, count in recent.items() if count} if total else {}

    async def install(self, manifests: Iterable[Manifest]) -> None:
        """Creates the objects in the demo's namespace."""
        for manifest in manifests:
            await self.session.client.create(_KINDS[manifest["kind"]], self.namespace, manifest)

    async def change(self, name: str, patch: list[Manifest]) -> None:
        """Changes a Rollout, as `kubectl patch` would."""
        await self.session.client.patch(ROLLOUT, self.namespace, name, patch, JSON_PATCH)

    def send_requests(self, service: str) -> None:
        """Starts clients of a Service, through the gateway if a route has its name. Does nothing on a real cluster."""
        if self.sim is None:
            return
        if self.gateway is not None and self.sim.get(HTTP_ROUTE, self.namespace, service) is not None:
            self.clients[service] = self.sim.gateway_clients(self.gateway, rate_per_s=REQUESTS_PER_S)
        else:
            self.clients[service] = self.sim.clients(
                namespace=self.namespace, service=service, rate_per_s=REQUESTS_PER_S
            )

    async def until(
        self, name: str, holds: Callable[[RolloutObjects], bool], *, deadline_s: float, what: str
    ) -> RolloutObjects:
        """Waits until `holds` is true of the Rollout; checks it after every change.

        Args:
            deadline_s: for the simulated cluster; a real one may take `patience` times longer.
            what: what is waited for, for the error: `the Rollout is at its first pause`.

        Raises: NotAsPromised.
        """
        self.watched = name
        limit_s = deadline_s * self.patience
        seen: RolloutObjects | None = None
        try:
            async with asyncio.timeout(limit_s):
                while True:
                    self.followed.changed.clear()
                    seen = self.seen(name)
                    self.changed()
                    if seen is not None and holds(seen):
                        return seen
                    await self.followed.changed.wait()
        except TimeoutError:
            now = "it does not exist"
            if seen is not None:
                view = view_of(seen)
                now = f"it is {view.phase or 'Unknown'} with {view.step_index} of {len(view.steps)} steps done: {view.message}"
            raise NotAsPromised(f"expected within {limit_s:g} s that {what}; {now}") from None


@asynccontextmanager
async def simulated_stage(*, serve: Path | None, seed: int, clock: Clock | None = None) -> AsyncIterator[DemoStage]:
    """A cluster inside this process, with the controller on it.

    Args:
        serve: where to write a kubeconfig, so that kubectl can look into the cluster.
        clock: None for this machine's, in real time; a `SimClock` where the event loop's time is virtual.
    """
    clock = clock or SystemClock()
    namespace = "rollouts-demo"
    async with AsyncExitStack() as stack:
        kubelet = KubeletSettings(startup_s=(0.4, 1.0), shutdown_s=0.1)
        crds = (*crd_manifests(), *gateway_crds())
        sim = SimulatedCluster(seed=seed, clock=clock, crds=crds, kubelet=kubelet)
        await stack.enter_async_context(sim)
        if serve is not None:
            http = await stack.enter_async_context(SimHttp(sim.api))
            http.write_kubeconfig(serve, namespace=namespace)
        session = session_on(sim.api, namespace=namespace, request_timeout_s=10.0, clock=clock)
        await session.client.create(NAMESPACE, None, {"metadata": {"name": namespace}})
        gateway = sim.gateway(namespace=namespace, name=GATEWAY, settings=PROXIES)
        followed = await stack.enter_async_context(following(session, *_everything(namespace)))
        controller = CountingApi(sim.api)
        planes = SimDataPlanes([gateway], clock=sim.clock)
        prometheus = sim.prometheus(settings=SCRAPES)
        rng = random.Random(seed)  # noqa: S311  a simulation's seed
        run = partial(run_controller, clock=clock, rng=rng, planes=planes, metrics=sim.metrics, bounded=Here())
        await stack.enter_async_context(_controller(controller, namespace, run=run, prometheus_url=prometheus.url))
        yield DemoStage(
            session=session, followed=followed, sim=sim, controller=controller, gateway=gateway, patience=1.0
        )


@asynccontextmanager
async def real_stage(options: Options) -> AsyncIterator[DemoStage]:
    """A namespace of its own on the kubeconfig's cluster, deleted at the end; the controller runs here unless one is there.

    Raises: SettingsInvalid when the Rollout resource is not installed; what `Client` raises.
    """
    namespace = f"rollouts-demo-{secrets.token_hex(3)}"
    async with AsyncExitStack() as stack:
        opened = await stack.enter_async_context(open_session(options))
        session = session_on(opened.api, namespace=namespace, request_timeout_s=options.request_timeout_s)
        try:
            await session.client.get(CRD, None, "rollouts.rollouts.dev")
        except ApiNotFound:
            raise SettingsInvalid(f"the CRDs are not installed in this cluster: `{APPLY_CRDS}`") from None
        await session.client.create(NAMESPACE, None, {"metadata": {"name": namespace}})

        @stack.push_async_callback
        async def delete_namespace() -> None:
            """With everything that the demo made. An error is reported, so that somebody deletes it by hand."""
            try:
                async with asyncio.timeout(_CLOSE_S):
                    await session.client.delete(NAMESPACE, None, namespace)
            except (RolloutsError, TimeoutError) as error:
                raise NotAsPromised(f"namespace {namespace} could not be deleted: {error}") from error

        followed = await stack.enter_async_context(following(session, *_everything(namespace)))
        controller = None
        if not await _is_served(session, followed):
            controller = CountingApi(opened.api)
            await stack.enter_async_context(_controller(controller, namespace))
        yield DemoStage(session=session, followed=followed, sim=None, controller=controller, patience=6.0)


@asynccontextmanager
async def _controller(
    api: ApiServer,
    namespace: str,
    *,
    run: Callable[..., Awaitable[int]] = run_controller,
    prometheus_url: str = "",
) -> AsyncIterator[None]:
    """Runs the controller for this namespace while the block lasts. If it ends earlier, the block ends too."""
    set_up_logging(log_format="console", log_level="error", own_process=False)
    settings = Settings(
        identity=namespace,  # a process' own name would make the jitter of its watches differ from play to play
        namespaces=(namespace,),
        leader_elect=False,
        metrics_address=None,
        log_format="console",
        log_level="error",
        prometheus_url=prometheus_url,
    )
    stop = asyncio.Event()

    async def until_stopped() -> None:
        await run(settings, api=api, stop=stop)
        if not stop.is_set():
            raise NotAsPromised("the controller ended by itself")

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(until_stopped())
        try:
            yield
        finally:
            stop.set()


async def _is_served(session: Session, followed: Followed) -> bool:
    manifest = rollout(session.namespace, "probe", {"canary": {}})
    manifest["spec"]["replicas"] = 0
    await session.client.create(ROLLOUT, session.namespace, manifest)
    try:
        async with asyncio.timeout(ALREADY_RUNNING_S):
            while not any(status_of(seen).observed_generation for seen in followed.all(ROLLOUT)):
                followed.changed.clear()
                await followed.changed.wait()
        return True
    except TimeoutError:
        return False
    finally:
        await session.client.delete(ROLLOUT, session.namespace, "probe")


def _everything(namespace: str) -> tuple[Collection, ...]:
    return tuple(
        Collection(kind=kind, namespace=namespace, optional=kind in (EVENT, ANALYSIS_RUN, EXPERIMENT))
        for kind in (ROLLOUT, REPLICA_SET, POD, SERVICE, EVENT, ANALYSIS_RUN, EXPERIMENT)
    )


def selector_of(stage: DemoStage, service: str) -> dict[str, str]:
    """The selector of a Service, as the watch shows it."""
    specs = {stored["metadata"]["name"]: stored["spec"] for stored in stage.followed.all(SERVICE)}
    return dict(specs.get(service, {}).get("selector") or {})
