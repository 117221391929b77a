"""Makes the adapters that settings name: connections, askers of data planes and of metrics, traffic providers."""

from __future__ import annotations

import contextlib
import random
from collections.abc import AsyncIterator, Callable, Mapping
from importlib.metadata import PackageNotFoundError, version

import structlog

from rollouts import expressions
from rollouts.bounded.process import BoundedProcess
from rollouts.clock import SystemClock
from rollouts.cluster.client import Client
from rollouts.cluster.connection import KubernetesConnection, OnDate, connect
from rollouts.cluster.lease import Elector
from rollouts.controller.act.events import EventSender
from rollouts.controller.act.flux_events import FluxEvents
from rollouts.errors import SettingsInvalid
from rollouts.metrics.addresses import TenantUrls
from rollouts.ports import ApiServer, Clock
from rollouts.probes.lazy_metric_asker import LazyMetricAsker
from rollouts.probes.named_planes import parse_data_planes, parse_url
from rollouts.probes.planes import NamedDataPlanes
from rollouts.settings import ANY_HOST, Settings
from rollouts.telemetry import Telemetry
from rollouts.traffic.codec import Provider
from rollouts.traffic.registry import installed, registry, unknown

WATCH_READS_BYTES = 64 * 1024

log = structlog.get_logger()


def bounded_process(clock: Clock) -> BoundedProcess:
    """What evaluates expressions beside the event loop."""
    imports = (
        "rollouts.controller.facts.off_loop",
        "rollouts.metrics.figures",
        "rollouts.metrics.comparison_arms",
        *expressions.LIBRARY,
    )
    return BoundedProcess(clock=clock, imports=imports)


def correcting(clock: SystemClock) -> OnDate:
    """Takes the API server's Date headers from a connection: sets this process's clock by them, and logs each correction."""

    def on_date(date_s: float) -> None:
        if corrected_s := clock.heard(date_s):
            why = "the API server's Date header differs"
            log.warning("clock_corrected", by_s=round(corrected_s, 1), why=why)

    return on_date


@contextlib.asynccontextmanager
async def connected(settings: Settings, *, on_date: OnDate | None = None) -> AsyncIterator[KubernetesConnection]:
    """A connection to the cluster that settings name, closed at the end. Raises: SettingsInvalid."""
    user_agent = "rollouts"
    with contextlib.suppress(PackageNotFoundError):
        user_agent += f"/{version('rollouts')}"
    connection = await connect(
        kubeconfig=settings.kubeconfig,
        context=settings.context,
        user_agent=user_agent,
        on_date=on_date,
        watch_reads_bytes=WATCH_READS_BYTES,
    )
    try:
        yield connection
    finally:
        await connection.aclose()


def metric_asker(settings: Settings, *, clock: Clock) -> LazyMetricAsker:
    """What asks metric endpoints. Raises: SettingsInvalid for a CA file without a certificate in it."""
    of = settings.metrics
    tenants = TenantUrls(
        allowed=bool(of.tenant_hosts),
        hosts=() if ANY_HOST in of.tenant_hosts else of.tenant_hosts,
        ports=frozenset(of.tenant_ports),
        plain_http=of.tenant_http,
        refused=of.refused_networks,
    )
    return LazyMetricAsker(tenants=tenants, clock=clock, ca_file=of.ca_file or settings.data_plane_ca)


def data_planes_of(settings: Settings, *, api: ApiServer, clock: Clock) -> NamedDataPlanes:
    """What asks the data planes that settings name. Raises: SettingsInvalid."""
    named, ca_file = parse_data_planes(settings.data_planes), settings.data_plane_ca
    any_query = settings.drain_queries == "any"
    return NamedDataPlanes(
        named, prometheus_url=settings.prometheus_url, any_query=any_query, ca_file=ca_file, clock=clock, api=api
    )


def event_sender_of(
    settings: Settings, client: Client, telemetry: Telemetry, may_write: Callable[[], bool]
) -> EventSender:
    """What sends Events, to the API server and to whom settings name besides. Raises: SettingsInvalid."""
    if not settings.flux_events:
        return EventSender(client=client, telemetry=telemetry)
    from rollouts.probes.exchange import Asker  # noqa: PLC0415 - httpx costs 5 MiB, so only when it is needed

    url = parse_url("--flux-events", settings.flux_events)
    asker = Asker(tls=url.lower().startswith("https:"), ca_file=settings.data_plane_ca)
    flux = FluxEvents(url=url, asker=asker, may_write=may_write, dropped=telemetry.flux_events_dropped)
    return EventSender(client=client, telemetry=telemetry, flux=flux)


def providers_of(settings: Settings) -> Mapping[str, Provider]:
    """Every traffic provider of this installation. Raises: SettingsInvalid for a --router that does not exist."""
    providers = registry(installed())
    for name in settings.routers:
        if name not in providers:
            raise SettingsInvalid(f"--router: {name}: {unknown(name, providers)}")
    return providers


def elector_of(
    settings: Settings, api: ApiServer, *, namespace: str, clock: Clock, rng: random.Random
) -> Elector | None:
    """What takes part in the election of a leader; None where there is none."""
    if not settings.leader_elect:
        return None
    return Elector(
        api,
        namespace=namespace,
        name=settings.lease_name,
        identity=settings.identity,
        clock=clock,
        rng=rng,
        on_trouble=lambda exc: log.warning("lease_trouble", error=type(exc).__name__, why=str(exc)),
    )
