"""Routes as the API server has them: what each one says, in the words of its router's codec, and what our writes of them mean."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import MakeRoute, ReleaseRoute, SetTraffic, SwitchService
from rollouts.core.model.rollout import BlueGreen, Canary, Rollout
from rollouts.core.model.service_ref import ServiceRef, SubsetName
from rollouts.core.model.snapshot import ServiceSeen, Snapshot
from rollouts.core.model.status import RolloutStatus
from rollouts.core.model.traffic import Route, RouteAbsent, RouteName, RouteSeen, Split
from rollouts.errors import SpecInvalid, Unroutable
from rollouts.objects import SERVICE, TRAFFIC_PROVIDER, Kind, Manifest
from rollouts.sim.cluster import SimulatedCluster
from rollouts.sim.network.gateway_types import HTTP_ROUTE
from rollouts.sim.storage.history import Stored
from rollouts.sim.storage.patches import json_patch
from rollouts.sim.storage.refusals import Refused
from rollouts.traffic.codec import Context, Destination, Objects, Provider, Target
from rollouts.traffic.declared.codec import declared
from rollouts.traffic.istio.settings import SERVICE_KINDS
from rollouts.traffic.istio.subsets import RULE_KINDS
from rollouts.traffic.nginx.settings import INGRESS_KINDS
from rollouts.traffic.registry import registry
from tests.behaviour.reading import (
    BESIDE,
    MADE_FROM,
    MANAGED,
    REVISION,
    ROUTER,
    allows,
    annotations_of,
    is_ours,
    labels_of,
    manager_of,
)

(INGRESS,) = INGRESS_KINDS
VIRTUAL_SERVICE, DESTINATION_RULE = SERVICE_KINDS[0], RULE_KINDS[0]
ROUTE_KINDS = (HTTP_ROUTE, VIRTUAL_SERVICE, DESTINATION_RULE, INGRESS)


class Place(Struct, frozen=True, kw_only=True):
    """One object that moves requests, or tells subsets apart.

    Args:
        user, owned: the user's object and ours beside it; None for one that is not there.
        own: the manifest in the spec from which we create it; None for a user's.
    """

    route: RouteName
    provider: Provider | None
    target: Target
    context: Context
    user: Manifest | None
    owned: Manifest | None
    own: Manifest | None = None
    named: bool = True

    def read(self, user: Manifest, owned: Manifest | None) -> Split | None:
        """What the two objects say; None for what no codec can read."""
        if self.provider is None:
            return None
        try:
            return self.provider.read(Objects(user, owned), self.target, self.context)
        except (Unroutable, LookupError, TypeError, ValueError, AttributeError):
            return None


class RouteTruth:
    """Reads the routes of Rollouts."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._built_in = registry()
        self._declared: dict[tuple[str, bytes], Provider] = {}

    def places(self, of: Rollout, status: RolloutStatus) -> list[Place]:
        """Those that the spec names, and those that carry the Rollout's mark still.

        Raises: SpecInvalid for a router that nobody knows.
        """
        strategy, providers = of.spec.strategy, self._providers()
        context, found = _context(of, status), list[Place]()
        routing = strategy.traffic_routing if isinstance(strategy, Canary) else None
        for router in strategy.routers:
            if (provider := providers.get(router.name)) is None:
                raise SpecInvalid(())
            for target in provider.targets(router.settings, namespace=of.namespace):
                name = RouteName(router.name, target.kinds[0].kind, target.namespace, target.name)
                own = (
                    next((each for each in routing.own if _is_at(target, each)), None) if routing is not None else None
                )
                found.append(self._place(name, provider, target, context, own))
        found = _between_subsets(found)
        names = {(each.route.kind, each.target.namespace, each.target.name) for each in found}
        return [*found, *self._left_behind(of, context, providers, names)]

    def routes(self, places: list[Place], of: Rollout) -> dict[RouteName, Route]:
        """What each of them says. A route in a namespace that does not let the Rollout in is none of its own."""
        found: dict[RouteName, Route] = {}
        for each in places:
            if each.target.subsets:
                continue
            shared = each.user is not None and allows(each.user, of.namespace)
            if each.user is None or not (shared or manager_of(each.user) == (of.namespace, of.name)):
                found[each.route] = RouteAbsent(each.route, 0.0, ours=each.own is not None, named=each.named)
                continue
            metadata, (namespace, manager) = each.user["metadata"], manager_of(each.user)
            beside = f"/{each.owned['metadata']['resourceVersion']}" if each.owned is not None else ""
            found[each.route] = RouteSeen(
                route=each.route,
                uid=metadata["uid"],
                resource_version=f"{metadata['resourceVersion']}{beside}",
                split=each.read(each.user, each.owned) if shared else None,
                managed_by=manager if namespace == of.namespace else f"{namespace}/{manager}".strip("/"),
                named=each.named,
            )
        return found

    def subsets(
        self, places: list[Place], of: Rollout, services: Mapping[ServiceRef, ServiceSeen]
    ) -> dict[ServiceRef, ServiceSeen]:
        """The subsets of a DestinationRule, as Services: each is two objects, the rule and the Service that is its host."""
        found: dict[ServiceRef, ServiceSeen] = {}
        for place in places:
            host = services.get(host_of(place)) if place.user is not None else None
            if place.user is None or host is None:
                continue
            rule, labels = place.user["metadata"], _labels_of_subsets(place.user)
            marks = {manager_of(place.user)[1], host.managed_by}
            other = next(iter(marks - {"", of.name}), "")
            for subset in place.target.subsets or ():
                revision = labels.get(subset, {}).get(REVISION, "")
                ready = {revision: host.ready_by_revision.get(revision, 0)} if revision else host.ready_by_revision
                name = SubsetName(place.target.name, subset)
                found[name] = replace(
                    host,
                    name=name,
                    uid=rule["uid"],
                    resource_version=f"{rule['resourceVersion']}/{host.resource_version}",
                    revision=revision,
                    managed_by=other or (of.name if marks == {of.name} else ""),
                    ready_by_revision=ready,
                )
        return found

    # What our writes mean

    def steering(
        self, places: list[Place], kind: Kind, namespace: str, name: str, operations: Any
    ) -> SetTraffic | ReleaseRoute | None:
        """What the route will say."""
        found = self._patched(kind, namespace, name, operations)
        if found is None:
            return None
        stored, after = found
        uid, version = stored.metadata["uid"], str(operations[0]["value"])
        if MANAGED not in labels_of(after):
            router = annotations_of(stored.manifest).get(ROUTER, "")
            return ReleaseRoute(route=RouteName(router, kind.kind, namespace, name), uid=uid, resource_version=version)
        for each in places:
            if (each.route.kind, each.target.namespace, each.target.name) == (kind.kind, namespace, name):
                split = each.read(after, None)  # no codec writes what it cannot read
                return SetTraffic(route=each.route, uid=uid, resource_version=version, split=split) if split else None
        return None

    def beside(
        self, places: list[Place], seen: Snapshot, namespace: str, name: str, owned: Manifest | None
    ) -> SetTraffic | None:
        """What the route will say with this object of ours beside the user's, or with none."""
        for each in places:
            route = seen.routes.get(each.route)
            if (each.target.namespace, each.target.owned_name) != (namespace, name) or each.user is None:
                continue
            if isinstance(route, RouteSeen) and (split := each.read(each.user, owned)) is not None:
                version = route.resource_version
                return SetTraffic(route=each.route, uid=route.uid, resource_version=version, split=split)
        return None

    def making(self, places: list[Place], manifest: Manifest) -> MakeRoute | None:
        """The route of `trafficRouting.own` that it is, and what it says from the beginning."""
        for each in places:
            if each.own is not None and _is_at(each.target, manifest) and (split := each.read(manifest, None)):
                return MakeRoute(each.route, split)
        return None

    def pointing_subset(self, namespace: str, name: str, operations: Any) -> SwitchService | ReleaseRoute | None:
        """Which subset changes the revision that it selects."""
        found = self._patched(DESTINATION_RULE, namespace, name, operations)
        if found is None:
            return None
        stored, after = found
        uid, version = stored.metadata["uid"], str(operations[0]["value"])
        if MANAGED not in labels_of(after):
            route = RouteName("istio", DESTINATION_RULE.kind, namespace, name)
            return ReleaseRoute(route=route, uid=uid, resource_version=version)
        host = self._cluster.get(SERVICE, namespace, after["spec"]["host"].partition(".")[0])
        before = stored.manifest["spec"]["subsets"]
        changed = [now for was, now in zip(before, after["spec"]["subsets"], strict=True) if was != now]
        if host is None or len(changed) != 1 or after["spec"] | {"subsets": before} != stored.manifest["spec"]:
            return None
        return SwitchService(
            name=SubsetName(name, changed[0]["name"]),
            uid=uid,
            resource_version=f"{version}/{host['metadata']['resourceVersion']}",
            revision=changed[0]["labels"][REVISION],
        )

    def _patched(self, kind: Kind, namespace: str, name: str, operations: Any) -> tuple[Stored, Manifest] | None:
        """An object as it is, and as the patch would make it; None for one that is not there, or a patch that does not fit."""
        stored = self._cluster.api.history.get(kind, namespace, name)
        try:
            return None if stored is None else (stored, json_patch(stored.manifest, operations))
        except Refused:
            return None

    # Where they are

    def _providers(self) -> dict[str, Provider]:
        found = dict(self._built_in)
        for each in self._cluster.list(TRAFFIC_PROVIDER):
            name, spec = each["metadata"]["name"], msgspec.json.encode(each["spec"])
            if (name, spec) not in self._declared:
                try:
                    self._declared[name, spec] = declared({**each["spec"], "name": name})
                except SpecInvalid:
                    continue
            found.setdefault(name, self._declared[name, spec])
        return found

    def _place(
        self, name: RouteName, provider: Provider | None, target: Target, context: Context, own: Manifest | None = None
    ) -> Place:
        user = self._object(target.kinds, target.namespace, target.name)
        owned = self._object(target.owned_kinds or target.kinds, target.namespace, target.owned_name)
        owned = owned if owned is not None and is_ours(owned) else None
        return Place(
            route=name, provider=provider, target=target, context=context, user=user, owned=owned, own=own
        )  # fmt: skip

    def _object(self, kinds: tuple[Kind, ...], namespace: str, name: str) -> Manifest | None:
        found = (self._cluster.get(kind, namespace, name) for kind in kinds)
        return next((each for each in found if each is not None), None)

    def _left_behind(
        self, of: Rollout, context: Context, providers: Mapping[str, Provider], named: set[tuple[str, str, str]]
    ) -> Iterator[Place]:
        for kind in ROUTE_KINDS:
            for each in self._cluster.list(kind):
                metadata, marks = each["metadata"], annotations_of(each)
                where = (kind.kind, metadata["namespace"], metadata["name"])
                beside = is_ours(each) and MADE_FROM not in marks
                if beside or where in named or manager_of(each) != (of.namespace, of.name):
                    continue
                router, owned_name = marks.get(ROUTER, ""), marks.get(BESIDE, "")
                target = Target(kinds=(kind,), namespace=where[1], name=where[2], owned_name=owned_name)
                place = self._place(RouteName(router, *where), providers.get(router), target, context)
                yield replace(place, named=False)


def _context(of: Rollout, status: RolloutStatus) -> Context:
    """The two Services in the roles that status gives them."""
    strategy = of.spec.strategy
    if isinstance(strategy, BlueGreen):
        stable, canary = "", ""
    else:
        stable, canary = str(strategy.stable_service or ""), str(strategy.canary_service or "")
    if strategy.ping_pong and status.pong_is_stable:
        stable, canary = canary, stable
    return Context(
        rollout=of.name,
        namespace=of.namespace,
        stable=Destination(stable),
        canary=Destination(canary),
        ping_pong=strategy.ping_pong,
    )


def _between_subsets(places: list[Place]) -> list[Place]:
    """Routes between subsets lead to two parts of the Service that is the rule's host."""
    rule = next((each for each in places if each.target.subsets is not None and each.user is not None), None)
    if rule is None or rule.target.subsets is None:
        return places
    stable, canary = (Destination(host_of(rule), each) for each in rule.target.subsets)
    return [replace(each, context=replace(each.context, stable=stable, canary=canary)) for each in places]


def host_of(rule: Place) -> str:
    """The Service whose pods the subsets divide."""
    return str(((rule.user or {}).get("spec") or {}).get("host", "")).partition(".")[0]


def _labels_of_subsets(rule: Manifest) -> dict[str, Mapping[str, str]]:
    return {each["name"]: each.get("labels") or {} for each in rule["spec"].get("subsets") or ()}


def _is_at(target: Target, manifest: Manifest) -> bool:
    of_kind = (manifest["apiVersion"], manifest["kind"]) in [(each.api_version, each.kind) for each in target.kinds]
    return of_kind and manifest["metadata"]["name"] == target.name
