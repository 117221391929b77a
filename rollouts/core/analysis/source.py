"""Where the numbers of a metric come from. What each source asks is for the room `metrics` to say.

URL, values of headers, body and authentication may hold `{{args.name}}` of an argument that is a secret: whoever sends the
request puts it in, at that moment. `Metric.secrets` says which those are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Any, ClassVar, NamedTuple, Self, TypeAlias

from msgspec import Struct, structs

from rollouts.core.analysis.recipe import Recipe, ServerFields, fields_of_servers
from rollouts.core.model.frozen import replace
from rollouts.objects import Manifest

DEFAULT_ENDPOINT = "default"
"""The endpoint that `--prometheus-url` names."""

COMPARED, COMPARED_IN_CLUSTER = "compare", "compare of the cluster's own"

RESTARTS_MAX = 0
READY_PERCENT_MIN = 100
ALPHA = 0.05
"""Chance that the answer of a comparison is wrong, where its author says nothing."""

_Fill: TypeAlias = Callable[[str], str]


class Fills(NamedTuple):
    """How values are put into each kind of text."""

    plain: _Fill
    url: _Fill
    body: _Fill
    json: _Fill
    query: _Fill


class MetricSource:
    """What a metric is measured with: its fields, and where values that are known late go."""

    __slots__ = ()

    @property
    def provider(self) -> str:
        """Its name in `provider` of a metric, and in metrics and logs."""
        raise NotImplementedError

    @property
    def of_rollout(self) -> bool:
        """Whether it is about the pods of a Rollout, or about its autoscaler: its run must say which."""
        return False

    def filled(self, fills: Fills) -> Self:
        """The source with the values of secrets, or of an arm, in their places; itself where it can have none."""
        del fills
        return self

    def urls(self) -> tuple[str, ...]:
        """Every URL that its author names."""
        return ()


class ComparedSource(MetricSource):
    """Gives a number of each arm. An autoscaler has one for all revisions; Jobs and pods give success or failure."""

    __slots__ = ()


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

    def filled(self, fills: Fills) -> OAuth2:
        """With the values of secrets in their places."""
        return OAuth2(
            token_url=fills.url(self.token_url),
            client_id=fills.plain(self.client_id),
            client_secret=fills.plain(self.client_secret),
            scopes=tuple(map(fills.plain, self.scopes)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BasicAuth:
    """User and password (RFC 7617), for a request that a template makes on its own account."""

    username: str
    password: str = field(repr=False)  # as above

    def filled(self, fills: Fills) -> BasicAuth:
        """With the values of secrets in their places."""
        return BasicAuth(username=fills.plain(self.username), password=fills.plain(self.password))


Authentication: TypeAlias = OAuth2 | BasicAuth


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSource(ComparedSource):
    """A source that is asked over HTTP; `metrics/sources.py` has the module of each.

    Args:
        endpoint: name of a MetricProvider, or the URL of one; "default" for what `--prometheus-url` names, "" where the source
            has a URL of its own.
        insecure: the certificate is not checked; only where the operator allows it.
        authentication: None for what the endpoint itself has.
    """

    timeout_s: float
    endpoint: str = ""
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    insecure: bool = False
    authentication: Authentication | None = None

    def filled(self, fills: Fills) -> Self:
        """See `MetricSource.filled`."""
        return replace(
            self,
            headers=tuple((name, fills.plain(value)) for name, value in self.headers),
            authentication=None if self.authentication is None else self.authentication.filled(fills),
        )

    def urls(self) -> tuple[str, ...]:
        """See `MetricSource.urls`."""
        return (self.authentication.token_url,) if isinstance(self.authentication, OAuth2) else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusQuery(HttpSource):
    """A query of Prometheus.

    Args:
        query: PromQL.
        range: None for an instant query.
    """

    provider: ClassVar[str] = "prometheus"
    query: str = field(repr=False)  # arguments that were filled in may be secrets
    endpoint: str = DEFAULT_ENDPOINT
    range: QueryRange | None = None
    timeout_s: float = 30.0

    def filled(self, fills: Fills) -> PrometheusQuery:
        """See `MetricSource.filled`."""
        return replace(HttpSource.filled(self, fills), query=fills.query(self.query))


class WebResult(StrEnum):
    """What a condition sees of an answer."""

    BODY = "body"
    STATUS = "status"


@dataclass(frozen=True, slots=True, kw_only=True)
class WebQuery(HttpSource):
    """A request whose answer is JSON, or text.

    Args:
        method: GET, POST or PUT.
        body_is_json: the body is JSON, so a secret is written into it as a part of a JSON string.
        json_path: which part of the answer is the result, as kubectl's JSONPath; "" for all of it.
        result: its body, or its HTTP status, whatever the body is.
        not_yet: HTTP statuses that say nothing yet: the measurement does not count, and the server is asked again.
    """

    provider: ClassVar[str] = "web"
    url: str = field(repr=False)  # arguments that were filled in may be secrets
    method: str = "GET"
    body: str = field(default="", repr=False)
    json_path: str = ""
    result: WebResult = WebResult.BODY
    not_yet: tuple[int, ...] = ()
    timeout_s: float = 10.0
    body_is_json: bool = False

    def filled(self, fills: Fills) -> WebQuery:
        """See `MetricSource.filled`."""
        body = (fills.json if self.body_is_json else fills.body)(self.body)
        return replace(HttpSource.filled(self, fills), url=fills.url(self.url), body=body)

    def urls(self) -> tuple[str, ...]:
        """See `MetricSource.urls`."""
        return (self.url, *HttpSource.urls(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerQuery(HttpSource):
    """A question to a kind of server that has a recipe.

    Args:
        kind: name of the recipe.
        fields: of the metric.
        endpoint: name of a MetricProvider or the URL of one; "" for the only one of the kind.
        recipe: that of the MetricProvider, once that is known; None for the kind's.
    """

    kind: str
    fields: ServerFields = field(repr=False)  # arguments that were filled in may be secrets
    recipe: Recipe | None = None

    @property
    def provider(self) -> str:
        """See `MetricSource.provider`."""
        return self.kind

    def filled(self, fills: Fills) -> ServerQuery:
        """See `MetricSource.filled`. Which server is asked is said by no value that is known late."""
        fields = {
            name: _filled(value, fills.plain)
            for name, value in structs.asdict(self.fields).items()
            if name not in fields_of_servers(type(self.fields))
        }
        return replace(HttpSource.filled(self, fills), fields=structs.replace(self.fields, **fields))


def _filled(value: Any, fill: _Fill) -> Any:
    """A field with values in the places of all its texts."""
    match value:
        case str():
            return fill(value)
        case Struct():
            return structs.replace(value, **{name: _filled(part, fill) for name, part in structs.asdict(value).items()})
        case Mapping():
            return {fill(name): _filled(part, fill) for name, part in value.items()}
        case tuple() | list():
            return type(value)(_filled(part, fill) for part in value)
        case _:
            return value


class JobMetric(Struct, MetricSource, frozen=True, kw_only=True):
    """A Kubernetes Job in the Rollout's namespace: its success is the measurement's.

    Args:
        metadata: labels and annotations that the Job gets.
    """

    provider: ClassVar[str] = "job"
    metadata: Manifest
    spec: Manifest


class PodEvidence(Struct, MetricSource, frozen=True, kw_only=True):
    """What Kubernetes shows of the revision's own pods: restarts, kills for memory, readiness. It needs no server.

    Args:
        restarts_max: restarts of containers since the run began, of all pods together; more fail.
        ready_percent_min: pods that are ready, of those that there are; fewer fail.
        containers: only these; () for all but native sidecars.
    """

    provider: ClassVar[str] = "kubernetes"
    restarts_max: int = RESTARTS_MAX
    ready_percent_min: int = READY_PERCENT_MIN
    containers: tuple[str, ...] = ()

    @property
    def of_rollout(self) -> bool:
        """See `MetricSource.of_rollout`."""
        return True

    def counts(self, container: str) -> bool:
        """Whether the container of that name is asked about."""
        return not self.containers or container in self.containers


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


class Comparison(Struct, MetricSource, frozen=True, kw_only=True):
    """Canary against stable: the same query for both, with what tells their pods apart in place of `{{arm}}`.

    Args:
        canary, stable: what stands in place of `{{arm}}`, such as revisions. Of pods' own metrics they are revisions.
        of: of rates the events that `less_is_worse` calls good or bad, as counters of Prometheus; otherwise the value.
        total: PromQL of all events, of rates; "" otherwise.
        path: where in the JSON of a monitoring service the number is (`metrics/member_paths.py`); "" for one that gives numbers.
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
    path: str = ""
    effect: Effect
    alpha: float = ALPHA
    less_is_worse: bool = False
    looks_max: int | None = None
    undecided_fails: bool = False
    warm_up_s: float = 0.0

    @property
    def provider(self) -> str:
        """Also by who is asked, a server or the cluster."""
        return COMPARED if isinstance(self.of, HttpSource) else COMPARED_IN_CLUSTER

    @property
    def of_rollout(self) -> bool:
        """See `MetricSource.of_rollout`."""
        return self.of.of_rollout

    def filled(self, fills: Fills) -> Comparison:
        """See `MetricSource.filled`."""
        return replace(self, of=self.of.filled(fills))

    def urls(self) -> tuple[str, ...]:
        """See `MetricSource.urls`."""
        return self.of.urls()
