"""`spec.drain`, the facts about the proxies, and the waits that follow from both."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

from msgspec import Struct

DEFAULT_MAX_REQUEST_S = 30.0  # as long as Kubernetes lets a pod end by default
DEFAULT_TIMEOUT_S = 300.0
DEFAULT_SCRAPE_S = 30.0  # twice the scrape interval of most Prometheus set-ups, so that a late scrape is covered


class ProxyMode(StrEnum):
    """How a node sends connections to a Service's pods."""

    IPTABLES = "iptables"
    NFTABLES = "nftables"
    IPVS = "ipvs"
    OTHER = "other"  # no kube-proxy: eBPF, or the cloud's own network
    UNKNOWN = "unknown"


class DrainMode(StrEnum):
    """Whether the controller drains at all."""

    AUTO = "Auto"
    OFF = "Off"


class PreStop(StrEnum):
    """What happens to the pod template so that pods sleep before they end."""

    INJECT = "Inject"  # containers without a preStop get a sleep, and the grace period gets room for it
    VALIDATE = "Validate"  # the template stays as it is; a condition says what is missing
    OFF = "Off"


class OnTimeout(StrEnum):
    """What happens when a wait is not over after `timeoutSeconds`."""

    CONTINUE = "Continue"  # the pods go, and status records that the wait timed out
    PAUSE = "Pause"  # the wait goes on to its end, and the Rollout says so


class ProxyFacts(Struct, frozen=True, kw_only=True):
    """What is known about a cluster's proxies; where nodes differ, the worst of them.

    Args:
        known_by: one sentence that says where this is from, or why it is not known and what to do.
        min_sync_period_s: the shortest time between two syncs.
        oldest_kernel: (major, minor) of the oldest node.
        ipvs_tcp_timeout_s, ipvs_tcp_fin_timeout_s: None where kube-proxy keeps the kernel's 900 s and 120 s. Only `plan` reports
            them, as neither shortens a wait.
        learnt_lag_s: the measured lag of proxies, which counts if it is longer than the assumed one.
        gateway_lag_s: the measured time from a change of the Rollout's routes until their gateways follow.
    """

    mode: ProxyMode = ProxyMode.UNKNOWN
    known_by: str = "the cluster was not asked yet"
    min_sync_period_s: float | None = None
    oldest_kernel: tuple[int, int] | None = None
    ipvs_tcp_timeout_s: float | None = None
    ipvs_tcp_fin_timeout_s: float | None = None
    learnt_lag_s: float | None = None
    gateway_lag_s: float | None = None


class PrometheusProbe(Struct, frozen=True, kw_only=True):
    """A query whose value is the number of requests or streams in flight at a revision's pods.

    Args:
        query: PromQL with `{{namespace}}`, `{{rollout}}`, `{{revision}}` and `{{service}}` in its strings.
        max_s: the longest stream, for a query that counts streams; None for one that counts requests.
        age_s: how old the samples may be that the query reads: the scrape interval.
    """

    name: str
    query: str
    max_s: float | None = None
    age_s: float = DEFAULT_SCRAPE_S


class EnvoyProbe(Struct, frozen=True, kw_only=True):
    """Counts active requests at a revision's pods, by asking the Envoys that are configured as data planes."""

    name: str
    max_s: float | None = None


DrainProbe: TypeAlias = PrometheusProbe | EnvoyProbe


class DrainSpec(Struct, frozen=True, kw_only=True):
    """`spec.drain`. A Rollout without one has these defaults.

    Args:
        max_request_s: the longest request. Default: 30, or the template's `terminationGracePeriodSeconds` when that is less,
            because no longer request survives the end of a pod today.
        timeout_s: the longest drain; one that needs more time is cut short or reported, by `on_timeout`.
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
        return max((probe.max_s for probe in self.probes if probe.max_s is not None), default=0.0)


class DrainNumbers(Struct, frozen=True, kw_only=True):
    """What to wait, and why: one sentence for each number.

    Args:
        pre_stop_s: whole seconds that a container sleeps before SIGTERM; 0 for no sleep.
        grace_s: `terminationGracePeriodSeconds` with room for the sleep and the longest request; 0 for no requirement.
        proxy_lag_s: until no proxy sends a new connection to a pod that left the EndpointSlices.
        drain_s: how long a revision's pods are kept after the slices stopped showing them; `timeout_s` may cut it short.
    """

    pre_stop_s: int
    pre_stop_why: str
    grace_s: int
    grace_why: str
    proxy_lag_s: float
    drain_s: float
    drain_why: str
