"""Where the numbers of a metric come from: a closed union. What each of them asks is for the room `metrics` to say.

URL, values of headers, body and authentication may hold `{{args.name}}` of an argument that is a secret: whoever sends the
request puts it in, at that moment. `Metric.secrets` says which those are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from msgspec import Struct

from rollouts.core.analysis.cluster_source import (
    ClusterSource,
    ContainerResourceMetric,
    CustomMetric,
    ExternalMetric,
)
from rollouts.objects import Manifest

DEFAULT_ENDPOINT = "default"
"""The endpoint that `--prometheus-url` names."""

RESTARTS_MAX = 0
READY_PERCENT_MIN = 100
PROMETHEUS_TIMEOUT_S = 30.0
WEB_TIMEOUT_S = 10.0
ALPHA = 0.05
"""Chance that the answer of a comparison is wrong, where its author says nothing."""


class QueryRange(Struct, frozen=True, kw_only=True):
    """A range query instead of an instant one: expressions that give times, and the step between two samples.

    Args:
        start, end: expressions over `now()`, such as `now() - duration("5m")`.
    """

    start: str
    end: str
    step_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuth2:
    """OAuth 2.0 client credentials (RFC 6749, section 4.4), for a request that a template makes on its own account."""

    token_url: str
    client_id: str
    client_secret: str = field(repr=False)  # arguments that were filled in may be secrets
    scopes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BasicAuth:
    """User and password (RFC 7617), for a request that a template makes on its own account."""

    username: str
    password: str = field(repr=False)  # as above


Authentication: TypeAlias = OAuth2 | BasicAuth


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusQuery:
    """A query of Prometheus.

    Args:
        endpoint: name of a MetricProvider, or the URL of one; "default" for what `--prometheus-url` names.
        query: PromQL.
        range: None for an instant query.
        insecure: the certificate is not checked; only where the operator allows it.
        authentication: None for what the endpoint itself has.
    """

    query: str = field(repr=False)  # arguments that were filled in may be secrets
    endpoint: str = DEFAULT_ENDPOINT
    range: QueryRange | None = None
    timeout_s: float = PROMETHEUS_TIMEOUT_S
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    insecure: bool = False
    authentication: Authentication | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WebQuery:
    """A request whose answer is JSON, or text.

    Args:
        method: GET, POST or PUT.
        body_is_json: the body is JSON, so a secret is written into it as a part of a JSON string.
        json_path: which part of the answer is the result, as kubectl's JSONPath; "" for all of it.
        insecure: the certificate is not checked; only where the operator allows it.
    """

    url: str = field(repr=False)  # arguments that were filled in may be secrets
    method: str = "GET"
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    body: str = field(default="", repr=False)
    json_path: str = ""
    timeout_s: float = WEB_TIMEOUT_S
    insecure: bool = False
    body_is_json: bool = False
    authentication: Authentication | None = None


class JobMetric(Struct, frozen=True, kw_only=True):
    """A Kubernetes Job in the Rollout's namespace: its success is the measurement's.

    Args:
        metadata: labels and annotations that the Job gets.
    """

    metadata: Manifest
    spec: Manifest


class PodEvidence(Struct, frozen=True, kw_only=True):
    """What Kubernetes shows of the revision's own pods: restarts, kills for memory, readiness. It needs no server.

    Args:
        restarts_max: restarts of containers since the run began, of all pods together; more fail.
        ready_percent_min: pods that are ready, of those that there are; fewer fail.
        containers: only these; () for all but native sidecars.
    """

    restarts_max: int = RESTARTS_MAX
    ready_percent_min: int = READY_PERCENT_MIN
    containers: tuple[str, ...] = ()


ComparedSource: TypeAlias = PrometheusQuery | WebQuery | ContainerResourceMetric | CustomMetric | ExternalMetric
"""What gives a number of each arm. An autoscaler has one for all revisions; Jobs and pods give success or failure."""


class ComparedBy(Enum):
    """How the arms of a comparison are told apart."""

    RATES = "sequential test of rates"
    VALUES = "sequential test of values"
    RANKS = "Mann-Whitney U test"


class Effect(Struct, frozen=True, kw_only=True):
    """How much worse the canary may be.

    Args:
        size: above 0.
        relative: it is a share of stable's value; otherwise a difference.
    """

    size: float
    relative: bool = False


class Comparison(Struct, frozen=True, kw_only=True):
    """Canary against stable: the same query for both, with what tells their pods apart in place of `{{arm}}`.

    Args:
        canary, stable: what stands in place of `{{arm}}`, such as revisions. Of pods' own metrics they are revisions.
        of: of rates the events that `less_is_worse` calls good or bad, as counters of Prometheus; otherwise the value.
        total: PromQL of all events, of rates; "" otherwise.
        alpha: chance that the answer is wrong.
        less_is_worse: of rates: `of` counts good events.
        looks_max: after so many looks it ends without an answer; None for the one look of a test that takes one.
        undecided_fails: the end without an answer is a failure; otherwise it is inconclusive.
        warm_up_s: from the start of the run to what is compared first.
    """

    canary: str
    stable: str
    by: ComparedBy
    of: ComparedSource
    total: str = ""
    effect: Effect
    alpha: float = ALPHA
    less_is_worse: bool = False
    looks_max: int | None = None
    undecided_fails: bool = False
    warm_up_s: float = 0.0


MetricSource: TypeAlias = PrometheusQuery | WebQuery | JobMetric | PodEvidence | Comparison | ClusterSource
