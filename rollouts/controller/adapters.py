"""Makes the adapters that settings name: connections, askers of data planes, sources of metrics, traffic providers."""

from __future__ import annotations

import contextlib
import random
from collections.abc import AsyncIterator, Mapping
from importlib.metadata import PackageNotFoundError, version

import structlog

from rollouts import expressions
from rollouts.bounded.process import BoundedProcess
from rollouts.cluster.client import Client
from rollouts.cluster.connection import KubernetesConnection, OnDate, connect
from rollouts.cluster.lease import Elector
from rollouts.controller.analysis.cluster_measurements import cluster_sources
from rollouts.controller.analysis.http_measurements import ArgumentSecrets, HttpMeasurements
from rollouts.controller.analysis.job_measurements import JobMeasurements
from rollouts.controller.analysis.measuring import MEASUREMENT_DEADLINE_S
from rollouts.controller.analysis.pod_measurements import PodMeasurements
from rollouts.controller.analysis.sources import MeasurementSource, SourceName
from rollouts.controller.facts.cluster_metrics import ClusterMetrics
from rollouts.controller.providers.metric_providers import FreshCredentials, MetricProviders
from rollouts.errors import SettingsInvalid
from rollouts.metrics.addresses import TenantUrls
from rollouts.ports import ApiServer, BoundedCalls, Clock, MetricEndpoints
from rollouts.probes.lazy_metric_asker import LazyMetricAsker
from rollouts.probes.named_planes import parse_data_planes
from rollouts.probes.planes import NamedDataPlanes
from rollouts.settings import ANY_HOST, Settings
from rollouts.traffic.codec import Provider
from rollouts.traffic.registry import installed, registry, unknown

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
    settings: Settings,
    metrics: MetricEndpoints,
    providers: MetricProviders,
    cluster: ClusterMetrics,
    client: Client,
    bounded: BoundedCalls,
    clock: Clock,
) -> Mapping[SourceName, MeasurementSource]:
    """What takes the measurements of AnalysisRuns in this installation."""
    http = HttpMeasurements(
        endpoints=FreshCredentials(metrics, providers=providers, clock=clock),
        declared=providers.declared,
        why_not=providers.why_not,
        secret_values=ArgumentSecrets(client=client),
        bounded=bounded,
        clock=clock,
        deadline_s=MEASUREMENT_DEADLINE_S,
    )
    pods = PodMeasurements(client=client, clock=clock)
    sources: dict[SourceName, MeasurementSource] = {
        SourceName.PROMETHEUS: http,
        SourceName.WEB: http,
        SourceName.KUBERNETES: pods,
        **cluster_sources(cluster, client=client, bounded=bounded, clock=clock),
        SourceName.COMPARE: http,
    }
    if settings.metrics.jobs:
        account = settings.metrics.job_service_account
        sources[SourceName.JOB] = JobMeasurements(client=client, clock=clock, service_account=account)
    return sources


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
