"""`rollouts controller`: parses the flags, ends in order on a signal, and returns an exit code. Imports no terminal tools."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import importlib
import os
import signal
import sys
from collections.abc import Callable, Sequence

from rollouts.controller.wiring import run_controller
from rollouts.errors import SettingsInvalid
from rollouts.settings import (
    DEFAULT_LEASE_NAME,
    DEFAULT_METRICS_ADDRESS,
    JOB_SERVICE_ACCOUNT,
    METRICS_CREDENTIALS,
    MetricSettings,
    Settings,
    parse_metric_settings,
    parse_settings,
)
from rollouts.telemetry import Telemetry, set_up_logging

EXIT_USAGE = 2
GC_THRESHOLD = 50_000  # objects


def main(arguments: Sequence[str]) -> int:
    """Runs the controller and returns an exit code: 0 after SIGTERM or SIGINT, 1 when it lost its lease, 2 when its settings are
    invalid, 3 when its watches have failed for three minutes.
    """
    try:
        settings = _settings(arguments)
        set_up_logging(log_format=settings.log_format, log_level=settings.log_level, own_process=True)
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            return runner.run(_until_signalled(settings))
    except SettingsInvalid as exc:
        print(f"rollouts controller: {exc}", file=sys.stderr)
        return EXIT_USAGE


async def _until_signalled(settings: Settings) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return await run_controller(settings, stop=stop, on_ready=_keep_what_is_listed)


def _keep_what_is_listed(_telemetry: Telemetry) -> None:
    """Keeps the objects of the first lists out of garbage collection: they live long, and this process does nothing else.

    A pass creates no cycles, so the default, a collection for every 700 new objects, finds nothing and costs 3 % of the CPU.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD)


def _settings(arguments: Sequence[str]) -> Settings:
    parser = argparse.ArgumentParser(
        prog="rollouts controller",
        description="Moves every Rollout of the cluster, or of the given namespaces, from one revision to the next.",
    )
    add = parser.add_argument
    add(
        "--kubeconfig",
        metavar="FILE",
        help="the kubeconfig; default: $KUBECONFIG, ~/.kube/config, or the Pod's service account",
    )
    add("--context", metavar="NAME", help="context of the kubeconfig; default: its current context")
    add(
        "-n",
        "--namespace",
        metavar="NAME",
        action="append",
        default=[],
        help="work in this namespace only; repeatable; default: in all namespaces",
    )
    add(
        "--leader-elect",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="act only while this process holds the Lease; with --no-leader-elect only one controller may run",
    )
    add("--lease-namespace", metavar="NAME", help="namespace of the Lease; default: the Pod's or the context's")
    add("--lease-name", metavar="NAME", default=DEFAULT_LEASE_NAME, help="name of the Lease; default: %(default)s")
    _add_addresses(add)
    add("--log-format", metavar="json|console", default="json", help="format of log lines; default: %(default)s")
    add(
        "--log-level",
        metavar="LEVEL",
        default="info",
        help="the least level that is logged: debug, info, warning or error; default: %(default)s",
    )
    _add_work(add)
    _add_traffic(add)
    _add_metrics(add)
    given = parser.parse_args(arguments)
    return parse_settings(
        kubeconfig=given.kubeconfig,
        context=given.context,
        namespaces=given.namespace,
        leader_elect=given.leader_elect,
        lease_namespace=given.lease_namespace,
        lease_name=given.lease_name,
        metrics_address=given.metrics_address,
        health_address=given.health_address,
        log_format=given.log_format,
        log_level=given.log_level,
        workers=given.workers,
        proxy_mode=given.proxy_mode,
        routers=given.router,
        data_planes=given.data_plane,
        data_plane_ca=given.data_plane_ca,
        settle_times=given.settle_time,
        prometheus_url=given.prometheus_url,
        drain_queries=given.drain_queries,
        config_versioning=given.config_versioning,
        command_notes=given.command_notes,
        metrics=_metric_settings(given),
    )


def _metric_settings(given: argparse.Namespace) -> MetricSettings:
    return parse_metric_settings(
        ca_file=given.metrics_ca,
        credentials=given.metrics_credentials,
        tenant_hosts=given.tenant_metrics,
        tenant_ports=given.tenant_metrics_port,
        tenant_http=given.tenant_metrics_http,
        refused_networks=given.metrics_refused_network,
        jobs=given.job_metrics,
        job_service_account=given.job_service_account,
        at_once=given.measurements,
    )


def _add_work(add: Callable[..., object]) -> None:
    """Adds the flags about passes."""
    add("--workers", metavar="N", type=int, default=32, help="Rollouts to handle at once; default: %(default)s")
    add(
        "--config-versioning",
        metavar="on|off",
        default="on",
        help=(
            "whether each revision keeps the ConfigMaps that its template names, in copies (docs/config.md); off: it "
            "neither reads nor copies any; default: %(default)s"
        ),
    )

    add(
        "--command-notes",
        action="store_true",
        help=(
            "believe the notes beside commands that say which user gave them (rollouts.dev/abort-by); only where the chart's "
            "policies write them and let nobody else do so"
        ),
    )


def _add_addresses(add: Callable[..., object]) -> None:
    """Adds the flags about where the process listens."""
    add(
        "--metrics-address",
        metavar="HOST:PORT",
        default=DEFAULT_METRICS_ADDRESS,
        help="address for /metrics, and without --health-address for /healthz and /readyz; 0 for none; default: %(default)s",
    )
    add(
        "--health-address",
        metavar="HOST:PORT",
        default="",
        help="address for /healthz and /readyz alone; default: that of the metrics",
    )


def _add_traffic(add: Callable[..., object]) -> None:
    """Adds the flags about proxies of Services, routers and data planes."""
    add(
        "--proxy-mode",
        metavar="MODE",
        default="auto",
        help=(
            "how nodes proxy Services: iptables, nftables, ipvs or other (no kube-proxy); default: %(default)s, which asks the "
            "cluster (ConfigMaps of kube-proxy and Cilium, the DaemonSet of kube-proxy, the nodes' kernels)"
        ),
    )
    add(
        "--router",
        metavar="NAME",
        action="append",
        default=[],
        help=(
            "at the start, look for managed routes of this router, and release those whose Rollout was deleted while no "
            "controller ran; repeatable. Every router works without this flag"
        ),
    )
    add(
        "--data-plane",
        metavar="NAMESPACE/GATEWAY=KIND:URL",
        action="append",
        default=[],
        help=(
            "the proxies of a gateway; the controller asks them whether they do what the routes say. For example "
            "shop/web=envoy:http://eg-admin.shop:19000 (KIND is envoy or traefik; more URLs after commas). Or the proxies' "
            "counters of requests in Prometheus: istio=prometheus:istio (contour, istio, nginx or traefik). Or AWS: "
            "alb=aws:eu-west-1. A router's name stands for all its gateways, * for all that no other flag names. Repeatable. "
            "Without this flag the controller waits for the settle time"
        ),
    )
    add(
        "--data-plane-ca",
        metavar="FILE",
        help="PEM file of certificate authorities to trust for data planes and Prometheus, besides the public ones",
    )
    add(
        "--settle-time",
        metavar="NAME=SECONDS",
        action="append",
        default=[],
        help=(
            "how long the controller waits for a router, or a gateway (NAMESPACE/GATEWAY), to follow its routes when no data "
            "plane can be asked; repeatable; default: the router's own figure (docs/traffic-verification.md)"
        ),
    )
    add(
        "--prometheus-url",
        metavar="URL",
        default="",
        help=(
            "URL of Prometheus' HTTP API, for the probes of spec.drain, counters of requests, and metrics of analyses that name "
            "no other server"
        ),
    )
    add(
        "--drain-queries",
        metavar="own|any",
        default="own",
        help=(
            "which series the queries of spec.drain.probes may read: own (those of the Rollout's namespace, which each selector "
            "must name) or any; default: %(default)s"
        ),
    )


def _add_metrics(add: Callable[..., object]) -> None:
    """Adds the flags about the metrics of analyses."""
    add(
        "--metrics-ca",
        metavar="FILE",
        help="PEM file of certificate authorities to trust for servers with metrics, besides the public ones",
    )
    add(
        "--metrics-credentials",
        metavar="FOLDER",
        default=str(METRICS_CREDENTIALS),
        help="the only folder from which files that MetricProviders name are read; default: %(default)s",
    )
    add(
        "--tenant-metrics",
        metavar="HOST",
        action="append",
        default=[],
        help=(
            "a host that templates of analyses may ask besides --prometheus-url and MetricProviders: a.example, *.example, or * "
            "for all; only at public addresses; repeatable. Without this flag there are none"
        ),
    )
    add(
        "--tenant-metrics-port",
        metavar="PORT",
        type=int,
        action="append",
        default=[],
        help="a port of these hosts; repeatable; default: 443",
    )
    add("--tenant-metrics-http", action="store_true", help="these hosts may be asked without TLS, too")
    add(
        "--metrics-refused-network",
        metavar="CIDR",
        action="append",
        default=[],
        help="a network with public addresses that these hosts may not have: the cluster's own; repeatable",
    )
    add(
        "--job-metrics",
        action="store_true",
        help="metrics may be Jobs: who writes templates of analyses can then run pods in the same namespace",
    )
    add(
        "--job-service-account",
        metavar="NAME",
        default=JOB_SERVICE_ACCOUNT,
        help="the ServiceAccount of all these Jobs, in the namespace of each; default: %(default)s",
    )
    add("--measurements", metavar="N", type=int, default=64, help="measurements to take at once; default: %(default)s")


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's event loop if it is installed: 10 to 14 % less CPU for each request. ROLLOUTS_UVLOOP=0 turns it off."""
    if os.environ.get("ROLLOUTS_UVLOOP") != "0":
        with contextlib.suppress(ImportError):
            factory: Callable[[], asyncio.AbstractEventLoop] = importlib.import_module("uvloop").new_event_loop
            return factory
    return None
