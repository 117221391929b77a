"""The routes of one Rollout: those that its spec names, each read by the codec of its router. No I/O.

A route that cannot be read is a value too: one that nobody asked for yet, one that does not exist, one that its codec refuses.
The controller may read every namespace, and the authors of Rollouts may not. So a route whose owner does not allow the Rollout's
namespace is reported in the same words as one that does not exist, and its content is not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

import msgspec
from msgspec import Struct

from rollouts.cluster.decoding import LEVELS_MAX
from rollouts.cluster.store import Store
from rollouts.cluster.structs import RouteObject, ServiceObject
from rollouts.controller.facts.gateway_classes import GatewayClasses
from rollouts.controller.facts.live_providers import LiveProviders, undecided
from rollouts.controller.facts.route_kinds import RouteKinds, kinds_named
from rollouts.controller.facts.settle_times import SettleTimes, settle_s
from rollouts.controller.observe.places import Place, name_problems, routing_of
from rollouts.controller.workqueue.inbox import Inbox
from rollouts.controller.workqueue.managed import (
    ManagedRouteObject,
    ManagedRouteObjects,
    is_rollout,
    lets,
    managed_by_text,
    manager_of,
    marked_by,
)
from rollouts.core.model.frozen import replace
from rollouts.core.model.rollout import RolloutSpec
from rollouts.core.model.traffic import (
    Feature,
    LiveSeen,
    Route,
    RouteAbsent,
    RouteName,
    RouteSeen,
    RouteUnasked,
    Split,
    VerifiedBy,
)
from rollouts.errors import Unroutable
from rollouts.manifests.own_route import is_made, remake_reason
from rollouts.manifests.ownership import ALLOW_FROM, BESIDE, ROUTER
from rollouts.objects import VALUES_MAX, Key, Kind, Manifest, has_more_values, is_deeper
from rollouts.ports import DataPlanes
from rollouts.recent import Recent
from rollouts.traffic.codec import Context, Destination, Objects, Provider, Target
from rollouts.traffic.gateway_api.features import features_of_class
from rollouts.traffic.gateway_api.parents import GROUP
from rollouts.traffic.istio.subsets import host_of

UNREADABLE = (LookupError, TypeError, ValueError, AttributeError)
"""What a codec may raise for an object that no API server has validated."""

READ_MAX = 4_000  # routes kept decoded, a few KB each


class RouteRead(Struct, frozen=True, kw_only=True):
    """A place, its route as core sees it, and what a write to it needs.

    Args:
        objects: None when the route was not read.
        gateways: those whose data planes follow the route.
        host: for a DestinationRule, the Service whose pods are in its subsets; None while it was not read.
    """

    place: Place
    context: Context
    route: Route
    kind: Kind
    owned_kind: Kind
    objects: Objects | None = None
    gateways: tuple[str, ...] = ()
    host: ServiceObject | None = None


@dataclass(slots=True)
class RouteReader:
    """Reads routes from the store if they are watched, otherwise from the inbox.

    Args:
        planes: None when no data plane can be asked.
        classes: None to treat every feature of the Gateway API as supported.
        settle_times: the operator's figures.
    """

    store: Store
    inbox: Inbox
    kinds: RouteKinds
    managed: ManagedRouteObjects
    providers: Mapping[str, Provider]
    planes: DataPlanes | None = None
    classes: GatewayClasses | None = None
    settle_times: SettleTimes = field(default_factory=dict)
    _decoded: Recent[str, tuple[RouteObject, Manifest]] = field(default_factory=partial(Recent, READ_MAX))
    _splits: Recent[tuple[str, str, RouteName], tuple[Provider, Objects, Place, Context, tuple[Split | None, str]]] = (
        field(default_factory=partial(Recent, READ_MAX))
    )

    def undecided(self, spec: RolloutSpec) -> bool:
        """Whether it is not known yet if each of the spec's routers has a provider."""
        return any(undecided(router.name, self.providers) for router in routing_of(spec.strategy).routers)

    @property
    def version(self) -> int:
        """Counts changes of the providers, because the places of a spec may change with them."""
        return self.providers.version if isinstance(self.providers, LiveProviders) else 0

    def read(
        self,
        key: Key,
        places: Iterable[Place],
        context: Context,
        *,
        now_s: float,
        elsewhere: Iterable[RouteName] | None = (),
    ) -> dict[RouteName, RouteRead]:
        """Reads every place, then every route that Rollout `key` still manages and no place names any more.

        Args:
            elsewhere: the routes in other namespaces that the Rollout's status records as managed by it. None for a Rollout that
                is gone together with its record: then a mark counts if the route's owner allows it, because the only result is
                a write to that route.
        """
        places = tuple(places)
        rule = next((place for place in places if place.target.subsets), None)
        if rule is None:
            reads = {place.route: self._read(key, place, context, now_s=now_s) for place in places}
        else:
            reads = self._read_by_subsets(key, rule, places, context, now_s=now_s)
        for place in tuple(self._left_behind(key, reads, elsewhere=elsewhere)):
            reads[place.route] = self._read(key, place, context, now_s=now_s)
        return reads

    def _read_by_subsets(
        self, key: Key, rule: Place, places: Iterable[Place], context: Context, *, now_s: float
    ) -> dict[RouteName, RouteRead]:
        """Reads routes between subsets: the destinations are known only after the DestinationRule, which names their host."""
        rule_read = self._read(key, rule, context, now_s=now_s)
        between, problem = None, ""
        match rule_read.route:
            case RouteUnasked():
                pass
            case RouteAbsent(message=message):
                problem = f"{rule.route}: {message or 'it does not exist; create it or remove it from trafficRouting'}"
            case RouteSeen() if rule_read.objects is not None and rule.target.subsets is not None:
                try:
                    host = host_of(rule_read.objects.user, namespace=rule.target.namespace)
                    stable, canary = (Destination(host, subset) for subset in rule.target.subsets)
                    between = replace(context, stable=stable, canary=canary)
                except Unroutable as exc:
                    problem = f"{rule.route}: {exc}"
        reads = {rule.route: rule_read}
        for place in places:
            if place is rule:
                continue
            read = self._read(key, place, between or context, now_s=now_s)
            if between is None and isinstance(read.route, RouteSeen):
                unread = replace(read.route, split=None, problem=problem) if problem else RouteUnasked(place.route)
                read = replace(read, route=unread)
            reads[place.route] = read
        return reads

    def _left_behind(
        self, key: Key, reads: Mapping[RouteName, RouteRead], *, elsewhere: Iterable[RouteName] | None
    ) -> Iterator[Place]:
        """The routes that Rollout `key` manages and that were not read, without the objects that it owns."""
        yield from (place for name in elsewhere or () if name not in reads and (place := self._recorded(name)))
        known = set[tuple[Kind, str, str]]()
        for read in reads.values():
            target = read.place.target
            known.add((read.kind, target.namespace, target.name))
            known.add((read.owned_kind, target.namespace, target.owned_name))
        for managed in self.managed.of(key):
            if managed.namespace != key.namespace and elsewhere is not None:
                continue
            if (managed.kind, managed.namespace, managed.name) not in known:
                yield self._left(managed)

    def _left(self, managed: ManagedRouteObject) -> Place:
        """A place that only our marks show."""
        table = self.store.watched(managed.kind)
        seen: RouteObject | None = table.get(managed.namespace, managed.name) if table is not None else None
        marks = (seen.metadata.annotations or {}) if seen is not None else {}
        router = marks.get(ROUTER, "")
        target = Target(
            kinds=(managed.kind,), namespace=managed.namespace, name=managed.name, owned_name=marks.get(BESIDE, "")
        )
        route = RouteName(router, managed.kind.kind, managed.namespace, managed.name)
        return Place(route, self.providers.get(router), target, named=False)

    def _recorded(self, name: RouteName) -> Place | None:
        """The place that a record in status names; None while the provider that it names does not exist."""
        provider = self.providers.get(name.router)
        kinds = kinds_named(provider, name.kind)
        if not kinds:
            return None
        target = Target(kinds=kinds, namespace=name.namespace, name=name.name)
        return None if any(name_problems(target)) else Place(name, provider, target, named=False)

    def _read(self, key: Key, place: Place, context: Context, *, now_s: float) -> RouteRead:
        target = place.target
        owned_kinds = target.owned_kinds or target.kinds
        kind = self.kinds.known(target.kinds) or target.kinds[0]
        owned_kind = self.kinds.known(owned_kinds) or owned_kinds[0]
        absent, user, owned = self._objects(key, place, kind, owned_kind, now_s=now_s)
        if owned is not None and not place.named and not _is_ours(owned, key):
            owned = None  # a mark alone does not make it ours: we delete objects that are ours
        read = RouteRead(place=place, context=context, route=absent, kind=kind, owned_kind=owned_kind)
        answers = self.inbox.of(key)
        refused = answers.refused_routes.get(place.route)
        if user is None:
            if isinstance(absent, RouteAbsent):
                if place.own is not None and not absent.message:
                    absent = _to_be_made(absent, place, place.own, context)
                absent = replace(absent, refused=refused)
            return replace(read, route=absent)
        try:
            manifest = self._manifest(kind, user)
            objects = Objects(manifest, None if owned is None else self._manifest(owned_kind, owned))
        except Unroutable as exc:
            return replace(read, route=RouteAbsent(place.route, now_s, f"{place.route}: {exc}"))
        gateways = place.provider.gateways(objects, target) if place.provider is not None else ()
        seen = self._seen(place, context, objects, user, owned, gateways, answers.live.get(place.route))
        return replace(read, route=replace(seen, refused=refused), objects=objects, gateways=gateways)

    def _objects(
        self, key: Key, place: Place, kind: Kind, owned_kind: Kind, *, now_s: float
    ) -> tuple[Route, RouteObject | None, RouteObject | None]:
        """The user's object and ours beside it, as Rollout `key` may see them, or why there is none.

        A route that its owner no longer shares is still visible while it carries the Rollout's mark: nobody knows any more where
        its requests go, and no pod may be removed meanwhile.
        """
        target, name = place.target, place.route
        absent: Route = RouteUnasked(name, place.named)
        owned: RouteObject | None = None
        if (user := self._watched(kind, target.namespace, target.name)) is not None:
            owned = self._watched(owned_kind, target.namespace, target.owned_name)
        elif (answer := self.inbox.route(key, name)) is not None:
            absent = RouteAbsent(name, now_s - self.inbox.age_s(answer), answer.message, named=place.named)
            user, owned = answer.user, answer.owned
        if name.namespace == key.namespace or (
            user is not None and (lets(user, key.namespace) or marked_by(user) == key)
        ):
            return absent, user, owned
        if user is None and (not isinstance(absent, RouteAbsent) or absent.message):
            return absent, None, owned
        at_s = absent.at_s if isinstance(absent, RouteAbsent) else now_s
        message = f"{name} does not exist, or {_how_to_allow(key.namespace, name, kind)}"
        return RouteAbsent(name, at_s, message, named=place.named), None, owned

    def _watched(self, kind: Kind, namespace: str, name: str) -> RouteObject | None:
        table = self.store.watched(kind)
        return table.get(namespace, name) if table is not None and name else None

    def _seen(
        self,
        place: Place,
        context: Context,
        objects: Objects,
        user: RouteObject,
        owned: RouteObject | None,
        gateways: tuple[str, ...],
        live: LiveSeen | None,
    ) -> RouteSeen:
        version = user.metadata.resource_version
        if owned is not None:
            version = f"{version}/{owned.metadata.resource_version}"
        asked_by = self.planes.asked_by(place.route, gateways) if self.planes is not None else None
        manager = manager_of(user)
        managed_by = managed_by_text(manager, namespace=context.namespace) if manager is not None else ""
        seen = RouteSeen(
            route=place.route,
            uid=user.metadata.uid,
            resource_version=version,
            split=None,
            problem=f"no traffic provider is named {place.route.router!r}, so the controller cannot release the route",
            managed_by=managed_by,
            named=place.named,
            can_be_asked=asked_by is not None,
            counted=asked_by is VerifiedBy.COUNTERS,
            settle_s=settle_s(self.settle_times, router=place.route.router, target=place.target, gateways=gateways),
            live=live,
        )
        provider, target = place.provider, place.target
        if provider is None:
            return seen
        if not lets(user, context.namespace):
            remedy = _how_to_allow(context.namespace, place.route, target.kinds[0])
            return replace(seen, problem=f"its owner no longer allows this Rollout to manage it; {remedy}")
        if owned is not None and not _is_ours(owned, Key(context.namespace, context.rollout)):
            problem = (
                f"{owned.metadata.name}, which it needs beside it, exists and is not the Rollout's; rename or delete it"
            )
            return replace(seen, problem=problem)
        rewrite_because = remake_reason(objects.user, place.own) if place.own is not None else ""
        if rewrite_because and not is_made(objects.user) and not seen.managed_by:
            problem = "it exists, and no Rollout created it; delete it, or remove it from trafficRouting.own"
            return replace(seen, problem=problem)
        split, problem = self._split(provider, objects, place, context)
        return replace(
            seen,
            split=split,
            problem=problem,
            rewrite_because=rewrite_because,
            accepted=provider.accepted(objects, target),
            features=self._features(provider.features(objects, target), target, gateways),
        )

    def _split(self, provider: Provider, objects: Objects, place: Place, context: Context) -> tuple[Split | None, str]:
        """What the provider reads. Read once for each version of the objects, because most passes have another cause."""
        at = (context.namespace, context.rollout, place.route)
        if (known := self._splits.get(at)) is not None:
            by, of, *where, read = known
            same_objects = of.user is objects.user and of.owned is objects.owned
            if by is provider and same_objects and where == [place, context]:
                return read
        read = _split(provider, objects, place, context)
        self._splits[at] = provider, objects, place, context, read
        return read

    def _features(
        self, features: frozenset[Feature], target: Target, gateways: tuple[str, ...]
    ) -> frozenset[Feature] | None:
        """The features that the gateways' class, or the spec, says are supported; None when the class was not asked yet."""
        if target.kinds[0].group != GROUP or self.classes is None:
            return features
        supported = self.classes.known(gateways)
        if supported is None:
            return None
        return features & features_of_class(supported | frozenset(target.options.get("features") or ()))

    def _manifest(self, kind: Kind, seen: RouteObject) -> Manifest:
        """The whole object, decoded once for each version; read-only. Raises: Unroutable, when it is nested too deeply."""
        uid = seen.metadata.uid
        known = self._decoded.get(uid)
        if known is None or known[0] is not seen:
            known = self._decoded[uid] = (seen, _shallow_manifest(kind, seen))
        return known[1]


def _shallow_manifest(kind: Kind, seen: RouteObject) -> Manifest:
    """The object as the API server gave it, without the metadata that is never read.

    Raises: Unroutable, for one that the recursive codecs cannot follow; no router's kind has half as many levels.
    """
    parts = {name: data for name, raw in (("spec", seen.spec), ("status", seen.status)) if (data := bytes(raw))}
    name = seen.metadata.name
    if any(map(has_more_values, parts.values())):
        raise Unroutable(
            f"{name} has more than {VALUES_MAX:,} fields and entries of lists in its spec or its status; split it"
        )
    try:
        decoded = {part: msgspec.json.decode(data) for part, data in parts.items()}
        too_deep = any(is_deeper(value, most_levels=LEVELS_MAX) for value in decoded.values())
    except RecursionError:
        too_deep = True
    except ValueError as error:
        raise Unroutable(f"{name} cannot be read: {error}") from error
    if too_deep:
        raise Unroutable(f"{name} is nested more than {LEVELS_MAX} levels deep; reduce the nesting")
    metadata = msgspec.to_builtins(seen.metadata)
    return {**kind.head, "metadata": metadata, **decoded}


def _is_ours(owned: RouteObject, key: Key) -> bool:
    """Whether Rollout `key` created an object beside a route: the object has its mark, and is controlled by it."""
    owners = owned.metadata.owner_references or ()
    controlled = any(is_rollout(owner) and owner.name == key.name for owner in owners)
    return manager_of(owned) == key and controlled and owned.metadata.namespace == key.namespace


def _split(provider: Provider, objects: Objects, place: Place, context: Context) -> tuple[Split | None, str]:
    try:
        return provider.read(objects, place.target, context), ""
    except Unroutable as exc:
        return None, str(exc)
    except UNREADABLE as exc:
        if place.named:
            raise
        # The spec no longer has the settings that its codec reads by; to release it, the codec needs only its own note.
        return None, f"the spec no longer names it ({type(exc).__name__})"


def _to_be_made(absent: RouteAbsent, place: Place, own: Manifest, context: Context) -> RouteAbsent:
    """`absent`, with whether we create it, or why its codec cannot manage its manifest."""
    if place.provider is None:
        return absent
    try:
        _, problem = _split(place.provider, Objects(own), place, context)
    except UNREADABLE as exc:
        problem = f"the provider cannot read it ({type(exc).__name__}: {exc})"
    if problem:
        return replace(
            absent, message=f"{place.route} cannot be created from its manifest in trafficRouting.own: {problem}"
        )
    return replace(absent, ours=True)


def _how_to_allow(namespace: str, name: RouteName, kind: Kind) -> str:
    """What the route's owner must do to allow Rollouts of `namespace`, with the command."""
    command = f"kubectl annotate {kind.plural}.{kind.group} -n {name.namespace} {name.name} {ALLOW_FROM}={namespace}"
    return f"its owner must allow Rollouts of namespace {namespace}: {command}"
