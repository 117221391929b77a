"""`rollouts controller`: parses the flags, ends in order on a signal, and returns an exit code. Imports no terminal tools."""

from __future__ import annotations

import argparse
import asyncio
import gc
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rollouts.controller.wiring import run_controller
from rollouts.core.model.workload_ref import WORKLOAD_RESOURCES
from rollouts.errors import SettingsInvalid
from rollouts.event_loop import new_event_loop
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

_REPEATABLE: Mapping[str, Any] = {"action": "append", "default": []}

_FLAGS: Mapping[str, Mapping[str, Any]] = {
    "--kubeconfig": {
        "metavar": "FILE",
        "help": "the kubeconfig; default: $KUBECONFIG, ~/.kube/config, or the Pod's service account",
    },
    "--context": {"metavar": "NAME", "help": "context of the kubeconfig; default: its current context"},
    "-n --namespace": {
        "dest": "namespaces",
        "metavar": "NAME",
        **_REPEATABLE,
        "help": "work in this namespace only; repeatable; default: in all namespaces",
    },
    "--leader-elect": {
        "action": argparse.BooleanOptionalAction,
        "default": True,
        "help": "act only while this process holds the Lease; with --no-leader-elect only one controller may run",
    },
    "--lease-namespace": {"metavar": "NAME", "help": "namespace of the Lease; default: the Pod's or the context's"},
    "--lease-name": {
        "metavar": "NAME",
        "default": DEFAULT_LEASE_NAME,
        "help": "name of the Lease; default: %(default)s",
    },
    "--metrics-address": {
        "metavar": "HOST:PORT",
        "default": DEFAULT_METRICS_ADDRESS,
        "help": "address for /metrics, and without --health-address for /healthz and /readyz; 0 for none; default: "
        "%(default)s",
    },
    "--health-address": {
        "metavar": "HOST:PORT",
        "default": "",
        "help": "address for /healthz and /readyz alone; default: that of the metrics",
    },
    "--rollout-series": {
        "metavar": "N",
        "type": int,
        "default": 0,
        "help": "give at most N Rollouts a series rollouts_info with namespace, name, phase and reason; "
        "rollouts_info_omitted counts the others; default: %(default)s, for none",
    },
    "--log-format": {"metavar": "json|console", "default": "json", "help": "format of log lines; default: %(default)s"},
    "--log-level": {
        "metavar": "LEVEL",
        "default": "info",
        "help": "the least level that is logged: debug, info, warning or error; default: %(default)s",
    },
    "--workers": {
        "metavar": "N",
        "type": int,
        "default": 32,
        "help": "Rollouts to handle at once; default: %(default)s",
    },
    "--config-versioning": {
        "metavar": "on|off",
        "default": "on",
        "help": "whether each revision keeps the ConfigMaps that its template names, in copies; off: "
        "it neither reads nor copies any; default: %(default)s",
    },
    "--command-notes": {
        "action": "store_true",
        "help": "believe the notes beside commands that say which user gave them (rollouts.dev/abort-by); only where "
        "the chart's policies write them and let nobody else do so",
    },
    "--proxy-mode": {
        "metavar": "MODE",
        "default": "auto",
        "help": "how nodes proxy Services: iptables, nftables, ipvs or other (no kube-proxy); default: %(default)s, "
        "which asks the cluster (ConfigMaps of kube-proxy and Cilium, the DaemonSet of kube-proxy, the nodes' "
        "kernels)",
    },
    "--workload": {
        "dest": "workloads",
        "metavar": "KIND",
        **_REPEATABLE,
        "choices": [kind.plural for kind in WORKLOAD_RESOURCES],
        "help": "watch marked workloads of this kind from the start, and release those whose Rollout was deleted while no "
        "controller ran; repeatable. Without this flag a kind is watched when a Rollout names one in workloadRef",
    },
    "--router": {
        "dest": "routers",
        "metavar": "NAME",
        **_REPEATABLE,
        "help": "at the start, look for managed routes of this router, and release those whose Rollout was deleted "
        "while no controller ran; repeatable. Every router works without this flag",
    },
    "--data-plane": {
        "dest": "data_planes",
        "metavar": "NAMESPACE/GATEWAY=KIND:URL",
        **_REPEATABLE,
        "help": "the proxies of a gateway; the controller asks them whether they do what the routes say. For example "
        "shop/web=envoy:http://eg-admin.shop:19000 (KIND is envoy or traefik; more URLs after commas). Or the "
        "proxies' counters of requests in Prometheus: istio=prometheus:istio (contour, istio, nginx or traefik). Or "
        "AWS: alb=aws:eu-west-1. A router's name stands for all its gateways, * for all that no other flag names. "
        "Repeatable. Without this flag the controller waits for the settle time",
    },
    "--data-plane-ca": {
        "metavar": "FILE",
        "help": "PEM file of certificate authorities to trust for data planes, Prometheus and --flux-events, besides the "
        "public ones",
    },
    "--settle-time": {
        "dest": "settle_times",
        "metavar": "NAME=SECONDS",
        **_REPEATABLE,
        "help": "how long the controller waits for a router, or a gateway (NAMESPACE/GATEWAY), to follow its routes "
        "when no data plane can be asked; repeatable; default: the router's own figure",
    },
    "--prometheus-url": {
        "metavar": "URL",
        "default": "",
        "help": "URL of Prometheus' HTTP API, for the probes of spec.drain, counters of requests, and metrics of "
        "analyses that name no other server",
    },
    "--drain-queries": {
        "metavar": "own|any",
        "default": "own",
        "help": "which series the queries of spec.drain.probes may read: own (those of the Rollout's namespace, which "
        "each selector must name) or any; default: %(default)s",
    },
    "--flux-events": {
        "metavar": "URL",
        "default": "",
        "help": "URL of Flux's notification-controller, such as http://notification-controller.flux-system.svc/; each Event "
        "is sent there too, so that Flux's Alerts can report on Rollouts. Without this flag nothing is sent",
    },
    "--metrics-ca": {
        "dest": "ca_file",
        "metavar": "FILE",
        "help": "PEM file of certificate authorities to trust for servers with metrics, besides the public ones",
    },
    "--metrics-credentials": {
        "dest": "credentials",
        "metavar": "FOLDER",
        "default": str(METRICS_CREDENTIALS),
        "help": "the only folder from which files that MetricProviders name are read; default: %(default)s",
    },
    "--tenant-metrics": {
        "dest": "tenant_hosts",
        "metavar": "HOST",
        **_REPEATABLE,
        "help": "a host that templates of analyses may ask besides --prometheus-url and MetricProviders: a.example, "
        "*.example, or * for all; only at public addresses; repeatable. Without this flag there are none",
    },
    "--tenant-metrics-port": {
        "dest": "tenant_ports",
        "metavar": "PORT",
        "type": int,
        **_REPEATABLE,
        "help": "a port of these hosts; repeatable; default: 443",
    },
    "--tenant-metrics-http": {
        "dest": "tenant_http",
        "action": "store_true",
        "help": "these hosts may be asked without TLS, too",
    },
    "--metrics-refused-network": {
        "dest": "refused_networks",
        "metavar": "CIDR",
        **_REPEATABLE,
        "help": "a network with public addresses that these hosts may not have: the cluster's own; repeatable",
    },
    "--job-metrics": {
        "dest": "jobs",
        "action": "store_true",
        "help": "metrics may be Jobs: who writes templates of analyses can then run pods in the same namespace",
    },
    "--job-service-account": {
        "metavar": "NAME",
        "default": JOB_SERVICE_ACCOUNT,
        "help": "the ServiceAccount of all these Jobs, in the namespace of each; default: %(default)s",
    },
    "--analysis-templates": {
        "dest": "templates",
        "metavar": "FOLDER",
        "help": "a folder with ClusterAnalysisTemplates as JSON, which the controller creates where they are missing; the "
        "chart gives it to the first install, as Helm cannot create objects of a kind that it has just brought",
    },
    "--measurements": {
        "dest": "at_once",
        "metavar": "N",
        "type": int,
        "default": 64,
        "help": "measurements to take at once; default: %(default)s",
    },
}
"""Options of `add_argument` by flag. Each sets the parameter of its name of `parse_settings` or `parse_metric_settings`."""


def main(arguments: Sequence[str]) -> int:
    """Runs the controller and returns an exit code: 0 after SIGTERM or SIGINT, 1 when it lost its lease, 2 when its settings are
    invalid, 3 when its watches have failed for three minutes.
    """
    try:
        settings = _settings(arguments)
        set_up_logging(log_format=settings.log_format, log_level=settings.log_level, own_process=True)
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
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
    for names, options in _FLAGS.items():
        parser.add_argument(*names.split(), **options)
    flags = vars(parser.parse_args(arguments))
    metrics = parse_metric_settings(**{name: flags.pop(name) for name in MetricSettings.__struct_fields__})
    return parse_settings(**flags, metrics=metrics)
