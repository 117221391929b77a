"""What `spec.drain` says, what is known of the proxies, and the numbers that follow."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

DEFAULT_MAX_REQUEST_S = 30.0  # as long as Kubernetes lets a pod end by default
DEFAULT_TIMEOUT_S = 300.0
DEFAULT_SCRAPE_S = 30.0  # twice the scrape interval of most Prometheus set-ups, so that a late scrape is covered


class ProxyMode(StrEnum):
    """How a node brings connections to a Service's pods."""

    IPTABLES = "iptables"
    NFTABLES = "nftables"
    IPVS = "ipvs"
    OTHER = "other"  # no kube-proxy: eBPF, or a network of the cloud's own
    UNKNOWN = "unknown"


class DrainMode(StrEnum):
    """Whether anything is waited for."""

    AUTO = "Auto"
    OFF = "Off"


class PreStop(StrEnum):
    """What happens to the pod template so that pods sleep before they end."""

    INJECT = "Inject"  # containers without a preStop get a sleep, and the grace period room for it
    VALIDATE = "Validate"  # the template stays as it is; what is missing is said
    OFF = "Off"


class OnTimeout(StrEnum):
    """What happens when a wait is not over after `timeoutSeconds`."""

    CONTINUE = "Continue"  # the pods go, and the record says that the wait ran out
    PAUSE = "Pause"  # the Rollout says so and waits to the end


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyFacts:
    """What is known of the proxies of a cluster; of many nodes the worst.

    Args:
        known_by: one sentence that says where this is from, or why it is not known and what to do.
        min_sync_period_s: the least time between two syncs; None when it is not known.
        oldest_kernel: (major, minor) of the oldest node; None when no node could be read.
        ipvs_tcp_timeout_s, ipvs_tcp_fin_timeout_s: None where kube-proxy keeps the kernel's 900 s and 120 s; `plan` tells them,
            as neither shortens a wait.
        learnt_lag_s: what proxies were seen to take, which counts if it is longer than what is assumed; None when none were.
        gateway_lag_s: how long the gateways of the Rollout's routes were seen to take from a route to what they do; None when
            that was not measured, or it has no routes.
    """

    mode: ProxyMode = ProxyMode.UNKNOWN
    known_by: str = "nothing was asked yet"
    min_sync_period_s: float | None = None
    oldest_kernel: tuple[int, int] | None = None
    ipvs_tcp_timeout_s: float | None = None
    ipvs_tcp_fin_timeout_s: float | None = None
    learnt_lag_s: float | None = None
    gateway_lag_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusProbe:
    """A query whose value is what is in flight at a revision's pods.

    Args:
        query: PromQL with `{{namespace}}`, `{{rollout}}`, `{{revision}}` and `{{service}}` in its strings.
        max_s: what it counts are long streams: they are waited for so long, apart from requests; None for requests.
        age_s: how old the samples may be that the query looks at: the scrape interval.
    """

    name: str
    query: str
    max_s: float | None = None
    age_s: float = DEFAULT_SCRAPE_S


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvoyProbe:
    """Active requests at a revision's pods, by the Envoys that are configured as data planes."""

    name: str
    max_s: float | None = None


DrainProbe: TypeAlias = PrometheusProbe | EnvoyProbe


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainSpec:
    """`spec.drain`. A Rollout without one has these defaults.

    Args:
        max_request_s: the longest request. Default: 30, or the template's `terminationGracePeriodSeconds` when that is less, as
            no longer request survives the end of a pod today.
        timeout_s: no wait for a revision that lost its traffic is longer, without its being said.
        probes: who is asked what is still in flight, so that the wait may end early.
    """

    mode: DrainMode = DrainMode.AUTO
    pre_stop: PreStop = PreStop.INJECT
    max_request_s: float = DEFAULT_MAX_REQUEST_S
    timeout_s: float = DEFAULT_TIMEOUT_S
    on_timeout: OnTimeout = OnTimeout.CONTINUE
    probes: tuple[DrainProbe, ...] = ()

    @property
    def max_stream_s(self) -> float:
        """The longest stream that a probe counts; 0 when none counts streams."""
        return max((each.max_s for each in self.probes if each.max_s is not None), default=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainNumbers:
    """What to wait, and why: one sentence for each number.

    Args:
        pre_stop_s: whole seconds that a container sleeps before it is told to end; 0 when nothing is to sleep.
        grace_s: `terminationGracePeriodSeconds` that holds the sleep and the longest request; 0 when nothing is asked of it.
        proxy_lag_s: until no proxy sends a new connection to a pod that left the EndpointSlices.
        drain_s: what a revision's pods are kept after the slices stopped showing them; `timeout_s` may cut it short.
    """

    pre_stop_s: int
    pre_stop_why: str
    grace_s: int
    grace_why: str
    proxy_lag_s: float
    proxy_lag_why: str
    drain_s: float
    drain_why: str
