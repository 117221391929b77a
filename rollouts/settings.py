"""The controller's settings, parsed once from flags and environment, frozen. A Rollout's own settings are in its spec."""

from __future__ import annotations

import ipaddress
import os
import re
import socket
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from msgspec import Struct, field

from rollouts.errors import SettingsInvalid

LogFormat: TypeAlias = Literal["json", "console"]
LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]
ProxyModeSetting: TypeAlias = Literal["auto", "iptables", "nftables", "ipvs", "other"]
DrainQueries: TypeAlias = Literal["own", "any"]
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

DEFAULT_LEASE_NAME = "rollouts-controller"
DEFAULT_METRICS_ADDRESS = ":8080"
WORKERS_MAX = 1024
MEASUREMENTS_MAX = 1024
ROLLOUT_SERIES_MAX = 10_000  # to write so many takes the event loop 60 ms
METRICS_CREDENTIALS = Path("/etc/rollouts/metrics")
JOB_SERVICE_ACCOUNT = "rollouts-job-metrics"
HTTPS_PORT = 443
ANY_HOST = "*"

_HOST_PATTERN = re.compile(r"\*|(?:\*\.)?[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?")
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class Address(Struct, frozen=True):
    """An address to listen on. `host` is "" for every address of the machine."""

    host: str
    port: int


def own_identity() -> str:
    """A name for this process that no other process ever has."""
    # The host name is not enough: a container that restarts in its Pod keeps it, and must not take over its old lease.
    return f"{os.environ.get('POD_NAME') or socket.gethostname()}_{uuid.uuid4().hex[:8]}"


class MetricSettings(Struct, frozen=True, kw_only=True):
    """What an administrator may configure about the metrics of analyses; the help of each flag says more.

    Args:
        templates: a folder with ClusterAnalysisTemplates that the controller creates, as JSON.
        tenant_hosts: `a.example` or `*.example`; `*` for all public ones; () for none.
    """

    ca_file: Path | None = None
    credentials: Path = METRICS_CREDENTIALS
    tenant_hosts: tuple[str, ...] = ()
    tenant_ports: tuple[int, ...] = (HTTPS_PORT,)
    tenant_http: bool = False
    refused_networks: tuple[Network, ...] = ()
    jobs: bool = False
    job_service_account: str = JOB_SERVICE_ACCOUNT
    at_once: int = 64
    templates: Path | None = None


class Settings(Struct, frozen=True, kw_only=True):
    """What an administrator may configure; the help of each flag (`controller/command.py`) says more.

    Args:
        kubeconfig: None for $KUBECONFIG, ~/.kube/config, or the Pod's service account.
        namespaces: empty for all.
        leader_elect: without it two controllers would fight.
        lease_namespace: None for the connection's namespace.
        metrics_address, health_address: None to serve none, and for the address of the metrics.
        data_planes: read by `probes/named_planes.py`.
        settle_times: read by `controller/facts/settle_times.py`.
        config_versioning: without it nothing of ConfigMaps is read, whatever a spec says.
        flux_events: URL of Flux's notification-controller; "" to send it nothing.
        command_notes: whether a policy of the API server notes who gave a command; without it such a note is not believed.
        identity: the name of this process as holder of the Lease.
    """

    kubeconfig: Path | None = None
    context: str | None = None
    namespaces: tuple[str, ...] = ()
    leader_elect: bool = True
    lease_namespace: str | None = None
    lease_name: str = DEFAULT_LEASE_NAME
    metrics_address: Address | None = None
    health_address: Address | None = None
    log_format: LogFormat = "json"
    log_level: LogLevel = "info"
    workers: int = 32
    rollout_series: int = 0
    proxy_mode: ProxyModeSetting = "auto"
    routers: tuple[str, ...] = ()
    workloads: tuple[str, ...] = ()
    data_planes: tuple[str, ...] = ()
    data_plane_ca: Path | None = None
    settle_times: tuple[str, ...] = ()
    prometheus_url: str = ""
    drain_queries: DrainQueries = "own"
    flux_events: str = ""
    config_versioning: bool = True
    command_notes: bool = False
    identity: str = field(default_factory=own_identity)
    metrics: MetricSettings = field(default_factory=MetricSettings)


def parse_settings(*, metrics: MetricSettings | None = None, **flags: Any) -> Settings:
    """Settings from the values of flags, by the names of the fields. What no flag says keeps its default.

    Raises: SettingsInvalid for the first flag that cannot be used, naming it and the remedy.
    """
    return Settings(metrics=metrics or MetricSettings(), **_read(flags))


def parse_metric_settings(**flags: Any) -> MetricSettings:
    """As `parse_settings`."""
    settings = MetricSettings(**_read(flags))
    if not settings.tenant_hosts and (flags.get("tenant_ports") or settings.tenant_http):
        raise SettingsInvalid("--tenant-metrics: is missing; without it templates may name declared servers only")
    return settings


def _read(flags: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _READERS[name](value) if name in _READERS else value for name, value in flags.items()}


def parse_address(text: str, *, flag: str = "--metrics-address") -> Address | None:
    """Parses `:8080`, `127.0.0.1:8080`, `[::1]:8080`; "" or "0" for no server.

    Raises: SettingsInvalid, which names the flag.
    """
    if text in {"", "0"}:
        return None
    host, colon, port = text.rpartition(":")
    holds = bool(colon) and port.isascii() and port.isdigit() and int(port) <= 65535
    _check(holds, flag, text, "HOST:PORT or :PORT, for example :8080; 0 turns it off")
    return Address(host.removeprefix("[").removesuffix("]"), int(port))


def _check(holds: bool, flag: str, value: object, wanted: str) -> None:
    if not holds:
        raise SettingsInvalid(f"{flag}: {value!r} is not {wanted}")


def _path(text: str | None) -> Path | None:
    return Path(text) if text else None


def _kubeconfig(text: str | None) -> Path | None:
    path = Path(text).expanduser() if text else None
    if path is not None and not path.is_file():
        raise SettingsInvalid(f"--kubeconfig: there is no file {path}; give the path of a kubeconfig, or omit the flag")
    return path


def _between(flag: str, most: int, number: int, *, least: int = 1) -> int:
    _check(least <= number <= most, flag, number, f"between {least} and {most}")
    return number


def _folder(path: str) -> Path:
    _check(path.startswith("/"), "--metrics-credentials", path, "the absolute path of a folder")
    return Path(path)


def _host(host: str) -> str:
    valid = _HOST_PATTERN.fullmatch(host) is not None
    _check(valid, "--tenant-metrics", host, "a host such as a.example, *.example, or * for all")
    return host


def _network(text: str) -> Network:
    try:
        return ipaddress.ip_network(text)
    except ValueError as exc:
        message = f"--metrics-refused-network: {text!r} is not a network such as 203.0.113.0/24"
        raise SettingsInvalid(message) from exc


def _job_account(name: str) -> str:
    if name == "default":
        raise SettingsInvalid("--job-service-account: default is what all pods have; give Jobs an account of their own")
    return _name("--job-service-account", name)


def _name(flag: str, name: str) -> str:
    valid = _DNS_LABEL.fullmatch(name) is not None
    _check(valid, flag, name, "a name: use lower-case letters, digits and '-', at most 63 characters")
    return name


def _one_of(flag: str, choices: Sequence[str], text: str) -> str:
    if text in choices:
        return text
    which = f"neither {' nor '.join(choices)}" if len(choices) == 2 else f"none of {', '.join(choices)}"
    raise SettingsInvalid(f"{flag}: {text!r} is {which}")


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "kubeconfig": _kubeconfig,
    "context": lambda name: name or None,
    "namespaces": lambda names: tuple(dict.fromkeys(_name("--namespace", name) for name in names)),
    "lease_namespace": lambda name: None if name is None else _name("--lease-namespace", name),
    "lease_name": partial(_name, "--lease-name"),
    "metrics_address": parse_address,
    "health_address": partial(parse_address, flag="--health-address"),
    "log_format": partial(_one_of, "--log-format", get_args(LogFormat)),
    "log_level": partial(_one_of, "--log-level", get_args(LogLevel)),
    "workers": partial(_between, "--workers", WORKERS_MAX),
    "rollout_series": partial(_between, "--rollout-series", ROLLOUT_SERIES_MAX, least=0),
    "proxy_mode": partial(_one_of, "--proxy-mode", get_args(ProxyModeSetting)),
    "routers": lambda names: tuple(dict.fromkeys(names)),
    "workloads": lambda names: tuple(dict.fromkeys(names)),
    "data_planes": tuple,
    "data_plane_ca": _path,
    "settle_times": tuple,
    "drain_queries": partial(_one_of, "--drain-queries", get_args(DrainQueries)),
    "config_versioning": lambda text: _one_of("--config-versioning", ("on", "off"), text) == "on",
    "ca_file": _path,
    "templates": _path,
    "credentials": _folder,
    "tenant_hosts": lambda hosts: tuple(dict.fromkeys(map(_host, hosts))),
    "tenant_ports": lambda ports: (
        tuple(_between("--tenant-metrics-port", 65_535, port) for port in dict.fromkeys(ports)) or (HTTPS_PORT,)
    ),
    "refused_networks": lambda networks: tuple(map(_network, networks)),
    "job_service_account": _job_account,
    "at_once": partial(_between, "--measurements", MEASUREMENTS_MAX),
}
"""What makes a field of the settings of the value of its flag; the others are taken as they are."""
