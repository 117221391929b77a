"""Makes what settings name: connections, askers of data planes, sources of metrics, what carries out analyses, providers."""

from __future__ import annotations

import contextlib
import random
from collections.abc import AsyncIterator, Callable, Mapping
from importlib.metadata import PackageNotFoundError, version

import structlog

from rollouts.cluster.client import Client
from rollouts.cluster.connection import KubernetesConnection, OnDate, connect
from rollouts.cluster.lease import Elector
from rollouts.cluster.store import Store
from rollouts.cluster.structs import AnalysisRunObject
from rollouts.controller.act.events import EventSender
from rollouts.controller.analysis.argument_secrets import ArgumentSecrets
from rollouts.controller.analysis.http_measurements import HttpMeasurements
from rollouts.controller.analysis.job_measurements import JobMeasurements
from rollouts.controller.analysis.measuring import MEASUREMENT_DEADLINE_S
from rollouts.controller.analysis.pod_measurements import PodMeasurements
from rollouts.controller.analysis.runs import AnalysisRuns
from rollouts.controller.analysis.sources import MeasurementSource, SourceName
from rollouts.controller.facts.live_providers import LiveProviders
from rollouts.controller.providers.fresh_credentials import FreshCredentials
from rollouts.controller.providers.metric_providers import MetricProviders
from rollouts.controller.providers.traffic_providers import TrafficProviders
from rollouts.errors import SettingsInvalid
from rollouts.metrics.addresses import TenantUrls
from rollouts.ports import ApiServer, Clock, MetricEndpoints
from rollouts.probes.lazy_metric_asker import LazyMetricAsker
from rollouts.probes.named_planes import parse_data_planes
from rollouts.probes.planes import NamedDataPlanes
from rollouts.settings import ANY_HOST, Settings
from rollouts.telemetry import Telemetry
from rollouts.traffic.codec import Provider
from rollouts.traffic.declared.codec import Declared
from rollouts.traffic.registry import installed, registry, unknown

log = structlog.get_logger()


@contextlib.asynccontextmanager
async def connected(settings: Settings, *, on_date: OnDate | None = None) -> AsyncIterator[KubernetesConnection]:
    """A connection to the cluster that settings name, closed at the end. Raises: SettingsInvalid."""
    connection = await connect(
        kubeconfig=settings.kubeconfig, context=settings.context, user_agent=_user_agent(), on_date=on_date
    )
    try:
        yield connection
    finally:
        await connection.aclose()


def metric_providers_of(
    settings: Settings, *, api: ApiServer, client: Client, clock: Clock, namespace: str
) -> MetricProviders:
    """The servers that MetricProviders and `--prometheus-url` declare.

    Args:
        namespace: the controller's own.
    """
    return MetricProviders(
        api=api,
        client=client,
        clock=clock,
        rng=random.Random(f"{settings.identity} metrics"),  # noqa: S311 - jitter of its own: most clusters have none
        namespace=namespace,
        folder=settings.metrics.credentials,
        prometheus_url=settings.prometheus_url,
    )


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


def metric_sources(
    settings: Settings, metrics: MetricEndpoints, providers: MetricProviders, client: Client, clock: Clock
) -> Mapping[SourceName, MeasurementSource]:
    """What takes the measurements of AnalysisRuns in this installation."""
    http = HttpMeasurements(
        endpoints=FreshCredentials(metrics, providers=providers, clock=clock),
        declared=providers.declared,
        why_not=providers.why_not,
        secret_values=ArgumentSecrets(client=client),
        clock=clock,
        deadline_s=MEASUREMENT_DEADLINE_S,
    )
    pods = PodMeasurements(client=client, clock=clock)
    sources: dict[SourceName, MeasurementSource] = {
        SourceName.PROMETHEUS: http,
        SourceName.WEB: http,
        SourceName.KUBERNETES: pods,
    }
    if settings.metrics.jobs:
        account = settings.metrics.job_service_account
        sources[SourceName.JOB] = JobMeasurements(client=client, clock=clock, service_account=account)
    return sources


def analysis_runs_of(  # noqa: PLR0913 - keyword-only: the ports, and what looks share with passes
    settings: Settings,
    metrics: MetricEndpoints,
    providers: MetricProviders,
    *,
    api: ApiServer,
    client: Client,
    store: Store,
    events: EventSender,
    telemetry: Telemetry,
    clock: Clock,
    on_change: Callable[[AnalysisRunObject | None, AnalysisRunObject | None], None],
) -> AnalysisRuns:
    """What carries out AnalysisRuns, with the sources of this installation."""
    return AnalysisRuns(
        api=api,
        client=client,
        store=store,
        sources=metric_sources(settings, metrics, providers, client, clock),
        events=events,
        telemetry=telemetry,
        clock=clock,
        rng=random.Random(settings.identity),  # noqa: S311 - jitter of its own
        identity=settings.identity,
        measurements=settings.metrics.at_once,
        on_change=on_change,
    )


def traffic_providers_of(  # noqa: PLR0913 - keyword-only: the ports, and whom a change concerns
    settings: Settings,
    providers: LiveProviders,
    *,
    api: ApiServer,
    client: Client,
    clock: Clock,
    namespace: str,
    named: Callable[[str], bool],
    on_change: Callable[[str], None],
    on_ready: Callable[[Declared], None],
) -> TrafficProviders:
    """The routers that TrafficProviders declare; what is ready joins `providers`.

    Args:
        namespace: the controller's own.
        named, on_change, on_ready: as for `TrafficProviders`.
    """
    return TrafficProviders(
        api=api,
        client=client,
        clock=clock,
        rng=random.Random(settings.identity),  # noqa: S311 - jitter of its own: most clusters have none to watch
        providers=providers,
        namespace=namespace,
        named=named,
        on_change=on_change,
        on_ready=on_ready,
    )


def data_planes_of(settings: Settings, *, api: ApiServer, clock: Clock) -> NamedDataPlanes:
    """What asks the data planes that settings name. Raises: SettingsInvalid."""
    named, ca_file = parse_data_planes(settings.data_planes), settings.data_plane_ca
    any_query = settings.drain_queries == "any"
    return NamedDataPlanes(
        named, prometheus_url=settings.prometheus_url, any_query=any_query, ca_file=ca_file, clock=clock, api=api
    )


def providers_of(settings: Settings) -> Mapping[str, Provider]:
    """Every traffic provider of this installation. Raises: SettingsInvalid for a --router that does not exist."""
    providers = registry(installed())
    for name in settings.routers:
        if name not in providers:
            raise SettingsInvalid(f"--router: {name}: {unknown(name, providers)}")
    return providers


def _user_agent() -> str:
    try:
        return f"rollouts/{version('rollouts')}"
    except PackageNotFoundError:
        return "rollouts"


def elector_of(settings: Settings, api: ApiServer, *, namespace: str, clock: Clock, rng: random.Random) -> Elector:
    """What takes part in the election of a leader."""
    return Elector(
        api,
        namespace=namespace,
        name=settings.lease_name,
        identity=settings.identity,
        clock=clock,
        rng=rng,
        on_trouble=lambda exc: log.warning("lease_trouble", error=type(exc).__name__, why=str(exc)),
    )
