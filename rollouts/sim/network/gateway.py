"""A gateway: a controller that writes route status, and proxies that follow the routes some time later.

The controller writes status at once, as Traefik and Contour do: it says that a route is accepted, not that proxies follow it.
Each proxy has its own lag for routes and for endpoints, so for a while some follow the new version and some the old. Shares are
exact.
Measured lags: Envoy Gateway and Contour 0-15 ms; Traefik 1.8-2.0 s, because it sends its configuration every 2 s (`throttle_s`).
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import partial

from msgspec import Struct

from rollouts.objects import ENDPOINT_SLICE, POD, SERVICE, Kind, Manifest
from rollouts.sim.actors.endpointslices import SERVICE_NAME
from rollouts.sim.actors.work import Actor, World
from rollouts.sim.apiserver.verbs import WriteOptions
from rollouts.sim.network.applications import REVISION_LABEL
from rollouts.sim.network.gateway_types import GATEWAY, GATEWAY_CLASS, GROUP, GRPC_ROUTE, HTTP_ROUTE
from rollouts.sim.network.route_table import (
    PLAIN,
    Copies,
    ProxyRule,
    RouteTable,
    RuleIndex,
    ServiceKey,
    WebRequest,
    services_of,
)
from rollouts.sim.storage.history import DELETED, CommittedWrite, ObjectKey, Stored

ROUTES: tuple[Kind, ...] = (HTTP_ROUTE, GRPC_ROUTE)
ALL_FEATURES = (
    "GRPCRoute",
    "HTTPRoute",
    "HTTPRouteMethodMatching",
    "HTTPRouteQueryParamMatching",
    "HTTPRouteRequestMirror",
    "HTTPRouteRequestPercentageMirror",
)


class GatewaySettings(Struct, frozen=True, kw_only=True):
    """How a gateway behaves; times are seconds of loop time.

    Args:
        route_lag_s: shortest and longest time from a route's write until a proxy follows it.
        endpoint_lag_s: shortest and longest time from a change of endpoints or Services until a proxy follows it.
        cluster_lag_s: shortest and longest time until a proxy has endpoints for a rule whose index in the route is new, because
            Envoy Gateway names its clusters by the index. (0, 0) for proxies that take rule and endpoints together.
        throttle_s: all changed routes reach the proxies together, this long after the first change; 0: each by itself.
        features: `supportedFeatures` of its class; None for a class without that field.
    """

    proxies: int = 2
    route_lag_s: tuple[float, float] = (0.002, 0.05)
    endpoint_lag_s: tuple[float, float] = (0.002, 0.05)
    cluster_lag_s: tuple[float, float] = (0.0, 0.0)
    throttle_s: float = 0.0
    features: tuple[str, ...] | None = ALL_FEATURES


ENVOY = GatewaySettings(cluster_lag_s=(0.001, 0.03))
TRAEFIK = GatewaySettings(throttle_s=2.0, route_lag_s=(0.0, 0.02))


class PodEndpoint(Struct, frozen=True):
    """A ready endpoint, with the revision label of its pod."""

    uid: str
    revision: str


class Forwarded(Struct, frozen=True):
    """What a proxy did with a request: status 200 when it went to `endpoint`, otherwise the proxy's own answer."""

    status: int
    endpoint: PodEndpoint | None = None
    copies: tuple[PodEndpoint, ...] = ()


class Proxy:
    """One proxy of a gateway, with the configuration that it has got so far."""

    def __init__(self, number: int, world: World) -> None:
        self.number = number
        self.is_frozen = False
        """Whether it has lost its control plane: it gets no changes and goes on with what it has."""
        self.answers = True
        """Whether its admin API can be reached."""
        self.active: Counter[str] = Counter()
        """Requests that it waits for, by the revision of their pods; its clients keep the count."""
        self.table = RouteTable(())
        self._world = world
        self._warm_at_s: dict[RuleIndex, float] = {}
        self._services: set[ServiceKey] = set()
        self._slices: dict[ServiceKey, dict[str, tuple[PodEndpoint, ...]]] = {}
        self._told: dict[str, float] = {}
        self._under_way: defaultdict[str, deque[Callable[[], None]]] = defaultdict(deque)
        self._waiting: list[Callable[[], None]] = []

    def forward(self, request: WebRequest) -> Forwarded:
        """Forwards one request. No route: 404; no weight above 0, or no such Service: 500; no ready endpoint: 503."""
        rule = self.table.find(request)
        if rule is None:
            return Forwarded(404)
        if not self.is_warm(rule):
            return Forwarded(503)
        picked = (self._pick(service) for service in rule.next_copies())
        copies = tuple(endpoint for endpoint in picked if endpoint is not None)
        service = rule.next_service()
        if service is None or service not in self._services:
            return Forwarded(500, copies=copies)
        endpoint = self._pick(service)
        return Forwarded(503, copies=copies) if endpoint is None else Forwarded(200, endpoint, copies)

    def shares(self, request: WebRequest = PLAIN) -> dict[str, Fraction]:
        """The share of such requests that it sends to each revision's pods; its own answers count for the revision ""."""
        rule = self.table.find(request)
        shares: dict[str, Fraction] = {}
        for service, share in (rule.shares() if rule else {}).items():
            endpoints = self.endpoints(service)
            for endpoint in endpoints:
                shares[endpoint.revision] = shares.get(endpoint.revision, Fraction(0)) + share / len(endpoints)
        missing = 1 - sum(shares.values(), Fraction(0))
        return {**shares, "": missing} if missing else shares

    def service_shares(self, request: WebRequest = PLAIN) -> dict[ServiceKey, Fraction]:
        """The share of such requests that it sends to each Service; empty when it has no rule for them."""
        rule = self.table.find(request)
        return rule.shares() if rule else {}

    def copies(self, request: WebRequest = PLAIN) -> tuple[Copies, ...]:
        """The copies that it makes of such requests."""
        rule = self.table.find(request)
        return rule.copies if rule else ()

    def endpoints(self, service: ServiceKey) -> list[PodEndpoint]:
        """The ready endpoints that it knows of a Service."""
        return [endpoint for endpoints in self._slices.get(service, {}).values() for endpoint in endpoints]

    def tell(self, channel: str, after_s: float, change: Callable[[], None]) -> None:
        """Makes a change reach the proxy after a time; changes on one channel arrive in order."""
        due_s = max(self._world.loop.time() + after_s, self._told.get(channel, 0.0))
        self._told[channel] = due_s
        self._under_way[channel].append(change)
        self._world.loop.call_at(due_s, self._hear, channel)

    def freeze(self) -> None:
        """Cuts it off from its control plane."""
        self.is_frozen = True

    def thaw(self) -> None:
        """Connects it to its control plane again; it catches up at once."""
        self.is_frozen = False
        waiting, self._waiting = self._waiting, []
        for change in waiting:
            change()

    def is_warm(self, rule: ProxyRule) -> bool:
        """Whether it has endpoints for a rule already."""
        return self._world.loop.time() >= self._warm_at_s.get((rule.route, rule.number), 0.0)

    def load(self, table: RouteTable, *, cluster_lag_s: tuple[float, float] = (0.0, 0.0)) -> None:
        """Takes new routes."""
        self.table = table
        now_s, before = self._world.loop.time(), self._warm_at_s
        self._warm_at_s = {
            place: before[place] if place in before else now_s + self._world.rng.uniform(*cluster_lag_s)
            for place in sorted(table.places())
        }

    def load_slice(self, service: ServiceKey, name: str, endpoints: tuple[PodEndpoint, ...] | None) -> None:
        """Takes new endpoints; None for a slice that was deleted."""
        slices = self._slices.setdefault(service, {})
        if endpoints is None:
            slices.pop(name, None)
        else:
            slices[name] = endpoints

    def load_service(self, service: ServiceKey, *, exists: bool) -> None:
        """Takes that a Service exists, or was deleted."""
        (self._services.add if exists else self._services.discard)(service)

    def _hear(self, channel: str) -> None:
        change = self._under_way[channel].popleft()  # timers at the same moment fire in any order
        if self.is_frozen:
            self._waiting.append(change)
        else:
            change()

    def _pick(self, service: ServiceKey) -> PodEndpoint | None:
        endpoints = self.endpoints(service)
        return self._world.rng.choice(endpoints) if endpoints and service in self._services else None


class Gateway(Actor):
    """One gateway of one class. It creates both objects, which have its name, if they do not exist."""

    def __init__(self, world: World, *, namespace: str, gateway: str, settings: GatewaySettings = ENVOY) -> None:
        super().__init__(world, lag_s=0.01)  # from a route's write to its status
        self.name = f"sim.rollouts.dev/{gateway}"
        self.settings = settings
        self.key = (namespace, gateway)
        self.proxies = tuple(Proxy(number, world) for number in range(settings.proxies))
        self.loaded: list[Callable[[Proxy], None]] = []
        """Called whenever a proxy has taken new routes."""
        self._routes: dict[tuple[str, ObjectKey], Manifest] = {}  # by kind
        self._due: set[int] = set()
        self._began = False
        self.options = WriteOptions(manager=gateway)

    def start(self) -> None:
        """Gives existing objects to the proxies at once, and later changes with the lags of the settings."""
        self._install()
        self.listen(SERVICE, self._on_service)
        self.listen(ENDPOINT_SLICE, self._on_slice)
        for kind in ROUTES:
            self.listen(kind, self._on_route)
        for proxy in self.proxies:
            self._load(proxy, self._table())
        self._began = True

    def sync(self, key: ObjectKey) -> None:
        """Writes the status of the routes with one name."""
        for kind in ROUTES:
            stored = self.world.history.get(kind, *key)
            if stored is not None:
                self._write_status(kind, stored)

    def _install(self) -> None:
        namespace, name = self.key
        if self.world.history.get(GATEWAY_CLASS, "", name) is None:
            manifest: Manifest = {"metadata": {"name": name}, "spec": {"controllerName": self.name}}
            stored = self.world.verbs.create(self.world.resource(GATEWAY_CLASS), "", manifest, self.options)
            status: Manifest = {"conditions": [self._condition("Accepted", stored)]}
            if self.settings.features is not None:
                status["supportedFeatures"] = [{"name": feature} for feature in sorted(self.settings.features)]
            self.write_status(GATEWAY_CLASS, stored, status)
        if self.world.history.get(GATEWAY, namespace, name) is None:
            listener = {"name": "web", "port": 80, "protocol": "HTTP"}
            spec = {"gatewayClassName": name, "listeners": [listener]}
            stored = self.world.verbs.create(
                self.world.resource(GATEWAY), namespace, {"metadata": {"name": name}, "spec": spec}, self.options
            )
            conditions = [self._condition("Accepted", stored), self._condition("Programmed", stored)]
            self.write_status(GATEWAY, stored, {"conditions": conditions})

    def _on_service(self, change: CommittedWrite) -> None:
        exists = change.event != DELETED
        if change.old is not None and exists:
            return
        for proxy in self.proxies:
            self._tell(proxy, partial(proxy.load_service, change.new.key, exists=exists))
        for (_, key), manifest in self._routes.items():
            if change.new.key in services_of(manifest):
                self.enqueue(key)

    def _on_slice(self, change: CommittedWrite) -> None:
        service = (change.new.key[0], change.new.labels.get(SERVICE_NAME, ""))
        endpoints = []
        for entry in change.new.manifest.get("endpoints") or ():
            target = entry["targetRef"]
            pod = self.world.history.get(POD, target["namespace"], target["name"])
            if entry["conditions"]["ready"]:
                endpoints.append(PodEndpoint(target["uid"], pod.labels.get(REVISION_LABEL, "") if pod else ""))
        known, name = None if change.event == DELETED else tuple(endpoints), change.new.metadata["name"]
        for proxy in self.proxies:
            self._tell(proxy, partial(proxy.load_slice, service, name, known))

    def _on_route(self, change: CommittedWrite) -> None:
        kind, manifest = change.kind.kind, change.new.manifest
        if change.event == DELETED or not self._is_ours(manifest):
            if self._routes.pop((kind, change.new.key), None) is None:
                return
        else:
            before = self._routes.get((kind, change.new.key))
            self._routes[kind, change.new.key] = manifest
            if before is not None and before["metadata"]["generation"] == manifest["metadata"]["generation"]:
                return
            self.enqueue(change.new.key)
        if self._began:
            for proxy in self.proxies:
                self._send_routes(proxy)

    def _send_routes(self, proxy: Proxy) -> None:
        lag_s = self.world.rng.uniform(*self.settings.route_lag_s)
        if not self.settings.throttle_s:
            proxy.tell("routes", lag_s, partial(self._load, proxy, self._table()))
        elif proxy.number not in self._due:
            self._due.add(proxy.number)
            after_s = self.settings.throttle_s * self.world.rng.uniform(0.9, 1.0) + lag_s
            self.world.loop.call_later(after_s, self._send_together, proxy)

    def _send_together(self, proxy: Proxy) -> None:
        self._due.discard(proxy.number)
        proxy.tell("routes", 0.0, partial(self._load, proxy, self._table()))

    def _tell(self, proxy: Proxy, change: Callable[[], None]) -> None:
        if not self._began:
            change()
            return
        proxy.tell("endpoints", self.world.rng.uniform(*self.settings.endpoint_lag_s), change)

    def _load(self, proxy: Proxy, table: RouteTable) -> None:
        proxy.load(table, cluster_lag_s=self.settings.cluster_lag_s if self._began else (0.0, 0.0))
        for told in self.loaded:
            told(proxy)

    def _table(self) -> RouteTable:
        return RouteTable(self._routes.values())

    def _is_ours(self, manifest: Manifest) -> bool:
        return any(self._names_us(parent, manifest) for parent in manifest["spec"].get("parentRefs") or ())

    def _names_us(self, parent: Manifest, manifest: Manifest) -> bool:
        where = (parent.get("namespace") or manifest["metadata"]["namespace"], parent["name"])
        return where == self.key and (parent.get("group", GROUP), parent.get("kind", "Gateway")) == (GROUP, "Gateway")

    def _write_status(self, kind: Kind, stored: Stored) -> None:
        if not self._is_ours(stored.manifest):
            return
        services = services_of(stored.manifest)
        missing = [service for service in services if self.world.history.get(SERVICE, *service) is None]
        resolved = self._condition("ResolvedRefs", stored)
        if missing:
            message = f"Service {missing[0][1]} not found"
            resolved |= {"status": "False", "reason": "BackendNotFound", "message": message}
        old = (stored.manifest.get("status") or {}).get("parents") or []
        before = [known for parent in old if parent["controllerName"] == self.name for known in parent["conditions"]]
        conditions = [_kept(condition, before) for condition in (self._condition("Accepted", stored), resolved)]
        parents = [parent for parent in old if parent["controllerName"] != self.name]  # other gateways' entries stay
        parents += [
            {"parentRef": parent, "controllerName": self.name, "conditions": conditions}
            for parent in stored.manifest["spec"]["parentRefs"]
            if self._names_us(parent, stored.manifest)
        ]
        self.write_status(kind, stored, {"parents": parents})

    def _condition(self, name: str, stored: Stored) -> Manifest:
        return {
            "type": name,
            "status": "True",
            "reason": name,
            "message": "",
            "observedGeneration": stored.metadata["generation"],
            "lastTransitionTime": self.world.verbs.now(),
        }


def _kept(condition: Manifest, before: Iterable[Manifest]) -> Manifest:
    time = {"lastTransitionTime": condition["lastTransitionTime"]}
    return next((old for old in before if {**old, **time} == condition), condition)
