"""The controller's settings, parsed once from flags and environment, frozen. A Rollout's own settings are in its spec."""

from __future__ import annotations

import os
import re
import socket
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from rollouts.errors import SettingsInvalid

LogFormat: TypeAlias = Literal["json", "console"]
LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]

ProxyModeSetting: TypeAlias = Literal["auto", "iptables", "nftables", "ipvs", "other"]

DrainQueries: TypeAlias = Literal["own", "any"]

DEFAULT_LEASE_NAME = "rollouts-controller"
DEFAULT_METRICS_ADDRESS = ":8080"
WORKERS_MAX = 1024

_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Address:
    """An address to listen on. `host` is "" for every address of the machine."""

    host: str
    port: int


def own_identity() -> str:
    """A name for this process that no other process ever has."""
    # The host name is not enough: a container that restarts in its Pod keeps it, and must not take over its old lease.
    return f"{os.environ.get('POD_NAME') or socket.gethostname()}_{uuid.uuid4().hex[:8]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What an administrator may configure.

    Args:
        kubeconfig: None for $KUBECONFIG, ~/.kube/config, or the Pod's service account.
        context: a context of the kubeconfig; None for its current one.
        namespaces: the namespaces to work in; empty for all.
        leader_elect: act only while holding the Lease. Without it two controllers would fight.
        lease_namespace: None for the connection's namespace.
        metrics_address: where to serve /metrics, /healthz and /readyz; None to serve nothing.
        workers: passes that may run at the same time, each for another Rollout.
        proxy_mode: how nodes proxy Services, if the cluster cannot be asked; `auto` asks it.
        routers: names of traffic providers whose routes may have been managed before this process began.
        data_planes: `NAMESPACE/GATEWAY=KIND:URL[,URL]` or `alb=aws:REGION`, read by `probes/named_planes.py`: the data planes
            that can be asked.
        data_plane_ca: file of CA certificates to trust for data planes and Prometheus, besides the public ones; None for none.
        settle_times: `ROUTER=SECONDS` or `NAMESPACE/GATEWAY=SECONDS`, read by `controller/facts/settle_times.py`.
        prometheus_url: URL of Prometheus' HTTP API; "" for none.
        drain_queries: which series the queries of drain probes may read: those of their `own` namespace, or `any`.
        identity: the name of this process as holder of the Lease.
    """

    kubeconfig: Path | None = None
    context: str | None = None
    namespaces: tuple[str, ...] = ()
    leader_elect: bool = True
    lease_namespace: str | None = None
    lease_name: str = DEFAULT_LEASE_NAME
    metrics_address: Address | None = None
    log_format: LogFormat = "json"
    log_level: LogLevel = "info"
    workers: int = 32
    proxy_mode: ProxyModeSetting = "auto"
    routers: tuple[str, ...] = ()
    data_planes: tuple[str, ...] = ()
    data_plane_ca: Path | None = None
    settle_times: tuple[str, ...] = ()
    prometheus_url: str = ""
    drain_queries: DrainQueries = "own"
    identity: str = field(default_factory=own_identity)


def parse_settings(  # noqa: PLR0913 - one for each flag
    *,
    kubeconfig: str | None = None,
    context: str | None = None,
    namespaces: Sequence[str] = (),
    leader_elect: bool = True,
    lease_namespace: str | None = None,
    lease_name: str = DEFAULT_LEASE_NAME,
    metrics_address: str = DEFAULT_METRICS_ADDRESS,
    log_format: str = "json",
    log_level: str = "info",
    workers: int = 32,
    proxy_mode: str = "auto",
    routers: Sequence[str] = (),
    data_planes: Sequence[str] = (),
    data_plane_ca: str | None = None,
    settle_times: Sequence[str] = (),
    prometheus_url: str = "",
    drain_queries: str = "own",
) -> Settings:
    """Settings from the text of flags.

    Raises: SettingsInvalid for the first flag that cannot be used, naming it and the remedy.
    """
    path = Path(kubeconfig).expanduser() if kubeconfig else None
    if path is not None and not path.is_file():
        raise SettingsInvalid(f"--kubeconfig: there is no file {path}; give the path of a kubeconfig, or omit the flag")
    for namespace in namespaces:
        _check_name("--namespace", namespace)
    if lease_namespace is not None:
        _check_name("--lease-namespace", lease_namespace)
    _check_name("--lease-name", lease_name)
    if not 1 <= workers <= WORKERS_MAX:
        raise SettingsInvalid(f"--workers: {workers} is not between 1 and {WORKERS_MAX}")
    return Settings(
        kubeconfig=path,
        context=context or None,
        namespaces=tuple(dict.fromkeys(namespaces)),
        leader_elect=leader_elect,
        lease_namespace=lease_namespace,
        lease_name=lease_name,
        metrics_address=parse_address(metrics_address),
        log_format=_log_format(log_format),
        log_level=_log_level(log_level),
        workers=workers,
        proxy_mode=_proxy_mode(proxy_mode),
        routers=tuple(dict.fromkeys(routers)),
        data_planes=tuple(data_planes),
        data_plane_ca=Path(data_plane_ca) if data_plane_ca else None,
        settle_times=tuple(settle_times),
        prometheus_url=prometheus_url,
        drain_queries=_drain_queries(drain_queries),
    )


def parse_address(text: str) -> Address | None:
    """Parses `:8080`, `127.0.0.1:8080`, `[::1]:8080`; "" or "0" for no server.

    Raises: SettingsInvalid.
    """
    if text in {"", "0"}:
        return None
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise SettingsInvalid(
            f"--metrics-address: {text!r} is not HOST:PORT or :PORT, for example :8080; 0 turns it off"
        )
    return Address(host.removeprefix("[").removesuffix("]"), int(port))


def _check_name(flag: str, name: str) -> None:
    if not _DNS_LABEL.fullmatch(name):
        raise SettingsInvalid(
            f"{flag}: {name!r} is not a name: use lower-case letters, digits and '-', at most 63 characters"
        )


def _log_format(text: str) -> LogFormat:
    match text:
        case "json" | "console":
            return text
        case _:
            raise SettingsInvalid(f"--log-format: {text!r} is neither json nor console")


def _proxy_mode(text: str) -> ProxyModeSetting:
    match text:
        case "auto" | "iptables" | "nftables" | "ipvs" | "other":
            return text
        case _:
            raise SettingsInvalid(f"--proxy-mode: {text!r} is none of auto, iptables, nftables, ipvs, other")


def _drain_queries(text: str) -> DrainQueries:
    match text:
        case "own" | "any":
            return text
        case _:
            raise SettingsInvalid(f"--drain-queries: {text!r} is neither own nor any")


def _log_level(text: str) -> LogLevel:
    match text:
        case "debug" | "info" | "warning" | "error":
            return text
        case _:
            raise SettingsInvalid(f"--log-level: {text!r} is none of debug, info, warning, error")
