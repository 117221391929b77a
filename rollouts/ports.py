"""Every side effect that the program can have, on one page.

`cluster/connection.py` (a real API server) and `sim/apiserver/server.py` (the simulated one) implement `ApiServer`; the same
client, watches and store run on both, and `tests/contract` holds them to the same answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Protocol, TypeVar, TypeVarTuple, Unpack

import msgspec
from msgspec import Struct

from rollouts.core.model.autoscaling import AutoscalingGate, AutoscalingSeen
from rollouts.core.model.drain import DrainProbe, EnvoyProbe
from rollouts.core.model.snapshot import DrainSeen
from rollouts.core.model.traffic import LiveSeen, RouteName, RuleSaid, Split, VerifiedBy
from rollouts.errors import NotLeader
from rollouts.metrics.requests import HttpRequest, MetricAnswer, MetricEndpoint
from rollouts.objects import Key, Manifest

_Result = TypeVar("_Result")
_Arguments = TypeVarTuple("_Arguments")

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
"""Asks for the metadata of an object, or of each object of a watch, without the rest.

Source: https://kubernetes.io/docs/reference/using-api/api-concepts/#metadata-only-fetches
"""
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
"""Asks for the metadata of each object of a list."""

LINE_MAX_BYTES = 16 * 1024 * 1024
"""The longest line of a watch. etcd accepts objects of 1.5 MiB, and JSON may need six bytes for one (`<` is `\\u003c`): 9 MiB."""

BODY_MAX_BYTES = 64 * 1024 * 1024
"""The largest answer: one object, or one page of a list."""


class Request(Struct, frozen=True):
    """One call to the API server.

    Args:
        path: starts with `/api/` or `/apis/`; percent-encoded; no query.
        query: parameters, not yet escaped.
        body: JSON, or empty.
        content_type, accept: of the body and of the answer; constants above.
        fence: whether it may be sent now; asked again at the last moment, as a process may be stopped while it connects.
    """

    method: str
    path: str
    query: Mapping[str, str] = msgspec.field(default_factory=dict)
    body: bytes = b""
    content_type: str = JSON
    accept: str = JSON
    fence: Callable[[], bool] = lambda: True

    def ask_fence(self) -> None:
        """Raises: NotLeader."""
        if not self.fence():
            raise NotLeader(f"{self.method} {self.path} was not sent: this process does not hold the lease")


class Response(Struct, frozen=True):
    """The API server's answer, with any HTTP status. The body is JSON, for an error a `Status` object.

    Args:
        retry_after_s: the header Retry-After in seconds, >= 0 and possibly inf; None when it is absent or unreadable.
    """

    status: int
    body: bytes
    retry_after_s: float | None = None


class WatchStream(Protocol):
    """An open watch: JSON lines until the server or the caller ends it."""

    status: int
    """HTTP status; unless it is 200, the first line is the `Status` object with the reason."""

    async def readline(self) -> bytes:
        """The next event's line; b"" at the end of the stream.

        A line of more than LINE_MAX_BYTES is cut to that length; the rest of it is skipped.

        Raises: ApiUnavailable when the connection broke, also in the middle of a line, or was silent for too long.
        Cancellation: safe.
        """
        ...

    async def aclose(self) -> None:
        """Ends the watch; safe to call twice."""
        ...


class ApiServer(Protocol):
    """A Kubernetes API server, real or simulated."""

    async def request(self, request: Request, *, deadline_s: float) -> Response:
        """Sends one request and reads the whole answer.

        Raises: ApiUnavailable (refused, reset, deadline passed; a write may have taken effect); NotLeader (the fence).
        Cancellation: safe; whether a write happened shows in the next observation.
        """
        ...

    async def open_watch(self, request: Request, *, deadline_s: float, silence_s: float) -> WatchStream:
        """Opens a watch. `deadline_s` is for the head of the answer; `silence_s` is the longest wait for one line.

        Raises: ApiUnavailable.
        """
        ...

    async def aclose(self) -> None:
        """Closes connections."""
        ...


class Clock(Protocol):
    """The two clocks. The event loop does the waiting, so virtual time needs no other port."""

    def now_s(self) -> float:
        """Wall clock, seconds since 1970-01-01T00:00:00Z; may be corrected, usually by seconds."""
        ...

    def monotonic_s(self) -> float:
        """Seconds that never go back; only differences have a meaning."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveQuestion:
    """Does every proxy do what this version of the route says?

    Args:
        namespace: the Services' namespace, which is the Rollout's; "" for the route's own.
        gateways: those whose data planes are asked, as the codec names them (`traffic.codec.Provider.gateways`).
        objects: the route as it was read in that version, and what we own beside it. An Envoy Gateway's answer needs the route,
            because its Envoys number a rule's backends instead of naming them.
        rules: the rules of the route in that version (`traffic.codec.Provider.rules`); those of the user's are not judged.
        since_s: when the routes were first seen to say it, seconds since 1970: only counters of requests use it.
        before: the canary's share until then; None when it is not known.
    """

    route: RouteName
    resource_version: str
    split: Split
    stable_service: str
    canary_service: str
    namespace: str = ""
    gateways: tuple[str, ...] = ()
    objects: tuple[Manifest, ...] = field(default=(), hash=False)
    rules: tuple[RuleSaid, ...] = ()
    since_s: float = 0.0
    before: Fraction | None = None

    @property
    def pair(self) -> tuple[tuple[str, str], tuple[str, str]]:
        """Namespace and name of the stable and of the canary Service."""
        namespace = self.namespace or self.route.namespace
        return (namespace, self.stable_service), (namespace, self.canary_service)

    @property
    def services(self) -> tuple[tuple[str, str], ...]:
        """Namespace and name of the two Services, and of those of the split's Experiments."""
        namespace = self.namespace or self.route.namespace
        return (*self.pair, *[(namespace, each.service) for each in self.split.experiments])

    @property
    def names(self) -> frozenset[str]:
        """Names of the objects that form the route, in its namespace."""
        own = {str(manifest.get("metadata", {}).get("name", "")) for manifest in self.objects}
        return frozenset({self.route.name, *own} - {""})


class DrainQuestion(Struct, frozen=True, kw_only=True):
    """What is still in flight at the pods of a revision that its Service left?

    Args:
        probes: `spec.drain.probes`, at least one.
        addresses: IP addresses of the revision's pods; empty when they are not known, and then no Envoy can answer.
        others: IP addresses of the Rollout's other pods, which identify the Envoy clusters that the revision was in.
        gateways: those whose data planes may have its requests; () for every configured Envoy.
        selector: of the Rollout's pods where a Deployment keeps them; "" for those with the Rollout's label.
    """

    namespace: str
    rollout: str
    revision: str
    service: str
    probes: tuple[DrainProbe, ...]
    addresses: frozenset[str] = frozenset()
    others: frozenset[str] = frozenset()
    gateways: tuple[str, ...] = ()
    selector: str = ""

    @property
    def needs_addresses(self) -> bool:
        """Whether some probe finds the revision by the addresses of its pods; the others find it by name."""
        return any(isinstance(probe, EnvoyProbe) for probe in self.probes)


class ClusterLoad(Protocol):
    """What autoscalers want and what containers use; `controller/facts/cluster_metrics.py` reads it."""

    async def seen(self, key: Key, gate: AutoscalingGate) -> AutoscalingSeen:
        """What a Rollout's gate asks about. Cancellation: safe. Raises: nothing that a server could cause."""
        ...


class DataPlanes(Protocol):
    """The data planes of all configured gateways.

    `probes/planes.py` asks real data planes, `sim/network/data_planes.py` simulated ones.
    """

    def asked_by(self, route: RouteName, gateways: tuple[str, ...]) -> VerifiedBy | None:
        """How the data planes of `route` can be asked whether it is live; None when one of them cannot be asked.

        Args:
            gateways: the route's gateways, as the codec names them; () where it does not know them.
        """
        ...

    async def live(self, question: LiveQuestion, *, deadline_s: float) -> LiveSeen:
        """Whether every replica does what the route says.

        Cancellation: safe. Raises: nothing that a proxy could cause.
        """
        ...

    async def drained(self, question: DrainQuestion, *, deadline_s: float) -> DrainSeen:
        """Asks what is in flight. Cancellation: safe. Raises: nothing that a proxy could cause."""
        ...


class MetricEndpoints(Protocol):
    """Whoever has metrics: Prometheus, and web servers of any kind. `probes/metric_asker.py` asks real ones."""

    async def ask(self, request: HttpRequest, endpoint: MetricEndpoint, *, deadline_s: float) -> MetricAnswer:
        """Sends one request to its endpoint and reads the whole answer, of any status.

        Cancellation: safe; a request with a body may have been sent. Raises: nothing that a server could cause.
        """
        ...


class BoundedCalls(Protocol):
    """Calls pure functions with limits, beside the event loop: those that evaluate what tenants write.

    `bounded/process.py` has a process for them; `bounded/here.py` calls them at once.
    """

    async def call(
        self, function: Callable[[Unpack[_Arguments]], _Result], *arguments: *_Arguments, tenant: str
    ) -> _Result:
        """The function's value for these arguments.

        Args:
            function: one of a module; its arguments and its value can be pickled.
            tenant: the namespace whose text is evaluated; namespaces take turns.

        Raises: what the function raises; CallEnded. Cancellation: safe.
        """
        ...
