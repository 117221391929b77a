"""Holds every write of the controllers to what the data plane really does, for a canary whose HTTPRoute is split.

It begins with the first stable revision: before that there is no canary.

Truth is what the API server has and what each proxy of the simulated gateway does at that moment; nothing here asks the
controller, its codecs or its invariants. Numbers are those of the project's catalogue of invariants:

* S1: a write brings a Service no more than the ready pods in its EndpointSlices can take, nothing to none; not at 0 replicas;
* S2: a revision keeps pods for the most that any proxy's weights send it, or the stored route's would, unless `replicas` is 0;
* S5: after a durable abort the first write of the route gives stable all that it has pods for, and leaves no other way in;
* S6: what is stored is a share, the user's own parts of the route are as the user wrote them, and one split is one write;
* S20: in a user's route we own the rules, our label and annotations, and nothing else;
* S27: what status calls confirmed was in force on every proxy, and is what the route says.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import msgspec

from rollouts.core.model.traffic import IDLE_HEADER
from rollouts.objects import ENDPOINT_SLICE, POD, REPLICA_SET, ROLLOUT, SERVICE, Key, Manifest
from rollouts.sim.actors.endpointslices import SERVICE_NAME
from rollouts.sim.cluster import SimulatedCluster
from rollouts.sim.network.gateway import Gateway, Proxy
from rollouts.sim.network.gateway_types import HTTP_ROUTE
from rollouts.sim.network.route_table import PLAIN, RouteTable, ServiceKey
from rollouts.sim.storage.history import DELETED, CommittedWrite
from tests.behaviour.reading import EXPERIMENT, MANAGED_BY, REVISION, is_ours
from tests.behaviour.witness import Witness

RECENT_S = 2.0
"""A status may tell what was so when the proxies were asked: so long before it was written at most."""
OURS = "rollouts.dev/"


@dataclass(frozen=True, slots=True)
class _Doing:
    """What all proxies did for a time: the part of the pair's second Service, or None while they did different things."""

    from_s: float
    share: Fraction | None


class PlaneWitness:
    """Judges one Rollout with one route.

    Args:
        witness: tells which changes are a controller's, and collects what is wrong.
        route: name of the HTTPRoute.
        pinned: a step sets the canary's size apart from its weight, so one ready pod is enough for any share.
    """

    def __init__(
        self,
        cluster: SimulatedCluster,
        witness: Witness,
        gateway: Gateway,
        key: Key,
        *,
        route: str,
        pinned: bool = False,
    ) -> None:
        self.pinned = pinned
        self.weights: list[tuple[float, int, int]] = []
        """Every pair of weights of the first weighted rule that a controller has stored, with its loop time."""
        self._cluster = cluster
        self._witness = witness
        self._gateway = gateway
        self._key = key
        self._route: ServiceKey = (key.namespace, route)
        self._doing: deque[_Doing] = deque([_Doing(0.0, Fraction(0))], maxlen=64)
        self._after_abort: Fraction | None = None
        self._pair = ("stable", "canary")
        self._theirs: list[Manifest] = []
        """Rules of the route as its users created it: no way of ours to the canary, whatever they lead to."""
        gateway.loaded.append(lambda _: self._note_proxies())
        listen = cluster.api.history.listen
        listen(HTTP_ROUTE, self._only_by_controllers(self._on_route))
        listen(HTTP_ROUTE, self._on_creation)
        listen(REPLICA_SET, self._only_by_controllers(self._on_replica_set))
        listen(ROLLOUT, self._only_by_controllers(self._on_status))
        self._experiments: set[str] = set()
        """Names of the Services that Experiments have, or had."""
        listen(SERVICE, self._on_service)
        self._replaced: deque[tuple[float, int]] = deque(maxlen=64)
        listen(ROLLOUT, self._on_spec)

    # What is so

    @property
    def rollout(self) -> Manifest:
        """The Rollout as it is stored."""
        return self._cluster.get(ROLLOUT, self._key.namespace, self._key.name) or {}

    @property
    def services(self) -> tuple[ServiceKey, ServiceKey]:
        """The stable and the canary Service that the spec names, or did when it last named both; `pingPong`'s by their roles."""
        canary = self.rollout["spec"]["strategy"].get("canary") or {}
        if "stableService" in canary and "canaryService" in canary:
            self._pair = (canary["stableService"], canary["canaryService"])
        if turns := canary.get("pingPong"):
            self._pair = (turns["pingService"], turns["pongService"])
        stable, other = reversed(self._pair) if self._exchanged else self._pair
        return (self._key.namespace, stable), (self._key.namespace, other)

    @property
    def _exchanged(self) -> bool:
        return (self.rollout.get("status") or {}).get("stablePingPong") == "pong"

    def exposure(self, revision: str) -> Fraction:
        """The most that any proxy sends to a revision by its weights, or would if it obeyed the stored route.

        Through Services as they select now, or as their EndpointSlices still show; how late a proxy hears of those is what the
        requests are counted for.
        """
        obeyed = [proxy.service_shares() for proxy in self._gateway.proxies]
        shares = [
            sum((share for service, share in each.items() if self._brings(service, revision)), Fraction(0))
            for each in (*obeyed, self._stored())
        ]
        return max(shares)

    def _brings(self, service: ServiceKey, revision: str) -> bool:
        shown = {_revision(each) for each in self._pods_of(service)}
        selected = self._selected(service)
        # One that its user has back spreads what it gets over the pods of every revision.
        return selected == revision or (bool(selected) and revision in shown)

    def _pods_of(self, service: ServiceKey) -> Iterator[Manifest]:
        for each in self._slices(service):
            for endpoint in each["endpoints"]:
                pod = self._cluster.get(POD, service[0], endpoint["targetRef"]["name"])
                if pod is not None and endpoint["conditions"]["ready"]:
                    yield pod

    def canary_shares(self) -> list[Fraction]:
        """What each proxy sends to the canary Service, of what it sends to the two of them; -1 for nothing."""
        stable, canary = self.services
        shares = []
        for proxy in self._gateway.proxies:
            found = proxy.service_shares()
            both = sum((share for of, share in found.items() if of in (stable, canary) or of[1] in self._experiments))
            shares.append(found.get(canary, Fraction(0)) / both if both else Fraction(-1))
        return shares

    def reached(self, revision: str) -> bool:
        """Whether any proxy has any way to pods of a revision: a share, a rule for some requests, copies."""
        return any(service for proxy in self._gateway.proxies for service in self._ways(proxy, revision))

    def _ways(self, proxy: Proxy, revision: str) -> Iterator[ServiceKey]:
        for rule in proxy.table.rules_of(self._route):
            for service in (*rule.shares(), *(copy.service for copy in rule.copies)):
                if any(each.revision == revision for each in proxy.endpoints(service)):
                    yield service

    def _stored(self) -> dict[ServiceKey, Fraction]:
        stored = self._cluster.get(HTTP_ROUTE, *self._route)
        return _shares(stored) if stored is not None else {}

    def _selected(self, service: ServiceKey) -> str:
        manifest = self._cluster.get(SERVICE, *service)
        return str(((manifest or {}).get("spec", {}).get("selector") or {}).get(REVISION, ""))

    def _ready(self, service: ServiceKey) -> int:
        """Ready endpoints in the API's EndpointSlices."""
        return sum(endpoint["conditions"]["ready"] for each in self._slices(service) for endpoint in each["endpoints"])

    def _available(self, service: ServiceKey) -> int:
        """Available pods of the revision that a Service selects, as its ReplicaSet tells."""
        selected = self._selected(service)
        sets = [each for each in self._cluster.list(REPLICA_SET, service[0]) if _revision(each) == selected]
        return sum((each.get("status") or {}).get("availableReplicas", 0) for each in sets)

    def _slices(self, service: ServiceKey) -> list[Manifest]:
        found = self._cluster.list(ENDPOINT_SLICE, service[0])
        return [each for each in found if each["metadata"]["labels"].get(SERVICE_NAME) == service[1]]

    def _ready_pods(self, revision: str) -> int:
        pods = [each for each in self._cluster.list(POD, self._key.namespace) if _revision(each) == revision]
        return sum(_is_ready(each) for each in pods)

    def _replicas(self) -> int:
        return int(self.rollout["spec"]["replicas"])

    def _least_replicas(self) -> int:
        """What a pass that was under way may have known: `replicas`, or what somebody has replaced within the grace."""
        since_s = asyncio.get_running_loop().time() - self._witness.grace_s
        return min([self._replicas(), *(replicas for at_s, replicas in self._replaced if at_s >= since_s)])

    def _on_service(self, change: CommittedWrite) -> None:
        if EXPERIMENT in change.new.labels:
            self._experiments.add(change.new.key[1])

    def _on_spec(self, change: CommittedWrite) -> None:
        if change.old is not None:
            self._replaced.append((asyncio.get_running_loop().time(), change.old.manifest["spec"]["replicas"]))

    def _enough(self) -> int:
        """Ready pods with which stable takes everything; `maxUnavailable` is a number in these worlds."""
        return max(
            1, self._replicas() - int((self.rollout["spec"]["strategy"].get("canary") or {}).get("maxUnavailable", 0))
        )

    # What is written

    def _has_stable(self) -> bool:
        """There is no canary before there is a stable revision; how the first one comes is told by what users get."""
        return bool((self.rollout.get("status") or {}).get("stableRevision"))

    def _is_managed(self) -> bool:
        """The route is a Rollout's; one that was given back is its user's, but for what proxies still do (S2)."""
        route = self._cluster.get(HTTP_ROUTE, *self._route) or {"metadata": {}}
        return MANAGED_BY in (route["metadata"].get("annotations") or {})

    def _only_by_controllers(self, judge: Callable[[CommittedWrite], None]) -> Callable[[CommittedWrite], None]:
        def listener(change: CommittedWrite) -> None:
            is_update = change.event != DELETED and change.old is not None
            if self._witness.sender and is_update and self._has_stable():
                judge(change)

        return listener

    def _on_creation(self, change: CommittedWrite) -> None:
        if change.event != DELETED and change.old is None and change.new.key == self._route:
            self._theirs = list(change.new.manifest["spec"]["rules"])

    def _on_route(self, change: CommittedWrite) -> None:
        assert change.old is not None
        if change.new.key != self._route:
            return
        before, after = change.old.manifest, change.new.manifest
        self._s1(_shares(before), _shares(after), _reaches(self._without_theirs(after), self.services[1]))
        self._s5(before, after)
        self._s6(before, after)
        for owner in change.new.owners:
            if owner.manager == "rollouts" and not is_ours(after):
                self._s20(msgspec.json.decode(owner.wire()))

    def _s1(self, before: dict[ServiceKey, Fraction], after: dict[ServiceKey, Fraction], reaches: bool) -> None:
        stable, canary = self.services
        if not self._least_replicas():  # nobody is to answer
            return
        for service in (stable, canary):
            share = after.get(service, Fraction(0))
            if share <= before.get(service, Fraction(0)):
                continue
            ready, needed = self._ready(service), max(1, -(-self._replicas() * share // 1))
            if service == canary and self.pinned:
                needed = 1
            # Stable takes all with `replicas` - `maxUnavailable`; below that each pod takes its part.
            if ready < (min(needed, self._enough()) if service == stable else needed):
                self._tell("S1", f"{service[1]} gets {share} with {ready} ready endpoints, {needed} are needed")
        for service, share in after.items():
            raised = service[1] in self._experiments and share > before.get(service, Fraction(0))
            if raised and not self._ready(service):
                self._tell("S1", f"{service[1]} gets {share} without a ready endpoint")
        if reaches and not self._ready(canary):
            self._tell("S1", f"requests are sent to {canary[1]}, which has no ready endpoint")

    def _s5(self, before: Manifest, after: Manifest) -> None:
        if not is_aborted(self.rollout.get("status") or {}):
            self._after_abort = None
            return
        stable, canary = self.services
        share = _shares(after).get(canary, Fraction(0))
        ready = min(self._ready(stable), self._available(stable))
        most = Fraction(0) if ready >= self._enough() else 1 - Fraction(ready, self._replicas())
        known = _shares(before).get(canary, Fraction(0)) if self._after_abort is None else self._after_abort
        if share > min(most, known):
            self._tell("S5", f"an aborted canary keeps {share} of at most {min(most, known)}")
        if any(_other_ways(self._without_theirs(after), canary)):
            self._tell("S5", "an aborted canary keeps a header or mirror route")
        self._after_abort = share

    def _without_theirs(self, manifest: Manifest) -> Manifest:
        """The route without rules that are as their users created them."""
        kept = [
            each for each in manifest["spec"]["rules"] if each not in self._theirs or not _names(each) & set(self._pair)
        ]
        return {**manifest, "spec": {**manifest["spec"], "rules": kept}}

    def _without_experiments(self, manifest: Manifest) -> Manifest:
        """The route without the backends of Experiments, which are all ours."""
        rules = []
        for rule in manifest["spec"]["rules"]:
            backends = [each for each in rule.get("backendRefs") or () if each["name"] not in self._experiments]
            rules.append({**rule, "backendRefs": backends} if "backendRefs" in rule else rule)
        return {**manifest, "spec": {**manifest["spec"], "rules": rules}}

    def _s6(self, before: Manifest, after: Manifest) -> None:
        stable, canary = self.services
        pair = (stable[1], canary[1])
        before, after = self._without_experiments(before), self._without_experiments(after)
        lost = [
            each
            for each in self._theirs
            if _names(each) == {pair[1]} and each in before["spec"]["rules"] and each not in after["spec"]["rules"]
        ]
        if lost:
            self._tell("S6", f"a rule of the user's changed: {lost}")
        if _users(before, pair) != _users(after, pair) and not is_ours(after):
            self._tell("S6", f"what is the user's changed: {_users(before, pair)} became {_users(after, pair)}")
        for rule in after["spec"]["rules"]:
            weights = {each["name"]: each["weight"] for each in rule.get("backendRefs") or ()}
            if not weights and rule in self._theirs:  # a redirect
                continue
            if any(weight < 0 for weight in weights.values()) or not sum(weights.values()):
                self._tell("S6", f"{weights} is no split")
        if _foreign_shares(before, pair) != _foreign_shares(after, pair):
            self._tell("S6", "the share of somebody else's backend changed")
        split = next((each for each in after["spec"]["rules"] if set(pair) <= _names(each)), None)
        if split is not None:
            weights = {each["name"]: each["weight"] for each in split["backendRefs"]}
            self.weights.append((asyncio.get_running_loop().time(), weights[stable[1]], weights[canary[1]]))

    def _s20(self, owner: Manifest) -> None:
        for path in _paths(owner["fieldsV1"]):
            if path[0] == "f:metadata" and path[-1].startswith(f"f:{OURS}"):
                continue
            if path in (("f:metadata", "f:labels"), ("f:metadata", "f:annotations"), ("f:spec", "f:rules")):
                continue
            self._tell("S20", f"we own {'.'.join(path)} of the route")

    def _on_replica_set(self, change: CommittedWrite) -> None:
        assert change.old is not None
        size, was = change.new.manifest["spec"]["replicas"], change.old.manifest["spec"]["replicas"]
        if size >= was:
            return
        revision = change.new.labels.get(REVISION, "")
        share, replicas = self.exposure(revision), self._least_replicas()
        needed = min(-(-replicas * share // 1), self._ready_pods(revision))
        if self.pinned:
            needed = min(needed, 1)
        if size < needed:
            self._tell("S2", f"{revision} shrinks from {was} to {size}, {share} of the requests may come to it")
        if not size and replicas and self._is_managed() and self.reached(revision):
            self._tell("S2", f"{revision} loses its last pod, and a proxy still has a way to it")

    def _on_status(self, change: CommittedWrite) -> None:
        traffic = (change.new.manifest.get("status") or {}).get("traffic") or {}
        if traffic == ((change.old.manifest.get("status") or {}).get("traffic") or {} if change.old else {}):
            return
        if traffic.get("verifiedBy") not in ("Config", "Counters") or not self._is_managed():
            return
        desired, observed = traffic["desired"], traffic["observed"]
        if desired != observed:
            self._tell("S27", f"{observed} is called confirmed, {desired} is wanted")
        share = Fraction(str(observed["weight"])) / 100
        if not self._was_done(share):
            self._tell("S27", f"{share} is called confirmed, the proxies do {self.canary_shares()}")

    def _was_done(self, share: Fraction) -> bool:
        since_s = asyncio.get_running_loop().time() - RECENT_S
        share = 1 - share if self._exchanged else share
        until_s = float("inf")
        for each in reversed(self._doing):
            if each.share == share and until_s >= since_s:
                return True
            until_s = each.from_s
        return False

    def _note_proxies(self) -> None:
        if not self.rollout:
            return
        shares = self.canary_shares()
        same = shares[0] if len(set(shares)) == 1 else None
        if same is not None and same >= 0 and self._exchanged:
            same = 1 - same
        if self._doing[-1].share != same:
            self._doing.append(_Doing(asyncio.get_running_loop().time(), same))

    def _tell(self, rule: str, message: str) -> None:
        at_s = asyncio.get_running_loop().time()
        self._witness.violations.append(f"{at_s:.3f} s: {rule}, data plane: {message}")


def _shares(manifest: Manifest) -> dict[ServiceKey, Fraction]:
    rule = RouteTable([manifest]).find(PLAIN)
    return rule.shares() if rule is not None else {}


def _reaches(manifest: Manifest, service: ServiceKey) -> bool:
    return bool(_shares(manifest).get(service)) or any(_other_ways(manifest, service))


def _other_ways(manifest: Manifest, service: ServiceKey) -> Iterator[str]:
    """Ways to a Service besides a share of the plain requests."""
    for rule in RouteTable([manifest]).rules_of((manifest["metadata"]["namespace"], manifest["metadata"]["name"])):
        if rule.asks_for(IDLE_HEADER):
            continue
        if set(rule.shares()) == {service} and len(rule.backends) == 1:
            yield "a rule of its own"
        if any(copy.service == service for copy in rule.copies):
            yield "copies"


def _names(rule: Manifest) -> set[str]:
    return {each["name"] for each in rule.get("backendRefs") or ()}


def _copies_to(each: Manifest, service: str) -> bool:
    return each["type"] == "RequestMirror" and bool(each["requestMirror"]["backendRef"]["name"] == service)


def _users(manifest: Manifest, pair: tuple[str, str]) -> Any:
    """All but the pair's weights, copies to the canary, rules that lead to it alone, and what is ours of the metadata."""
    rules = []
    for rule in manifest["spec"]["rules"]:
        if _names(rule) == {pair[1]}:
            continue
        backends = [
            {**each, "weight": "ours"} if each["name"] in pair else each for each in rule.get("backendRefs") or ()
        ]
        filters = [each for each in rule.get("filters") or () if not _copies_to(each, pair[1])]
        rules.append({**rule, "backendRefs": backends, "filters": filters})
    metadata = manifest["metadata"]
    kept = {
        field: {name: value for name, value in (metadata.get(field) or {}).items() if not name.startswith(OURS)}
        for field in ("labels", "annotations")
    }
    rest = {field: value for field, value in manifest["spec"].items() if field != "rules"}
    return rules, rest, kept, manifest.get("status")


def _foreign_shares(manifest: Manifest, pair: tuple[str, str]) -> list[Fraction]:
    shares = []
    for rule in manifest["spec"]["rules"]:
        total = sum(each["weight"] for each in rule.get("backendRefs") or ())
        shares += [
            Fraction(each["weight"], total or 1) for each in rule.get("backendRefs") or () if each["name"] not in pair
        ]
    return shares


def _paths(fields: Manifest, *above: str) -> Iterator[tuple[str, ...]]:
    for name, inner in fields.items():
        if name == ".":
            yield above
        elif inner:
            yield from _paths(inner, *above, name)
        else:
            yield (*above, name)


def _revision(pod: Manifest) -> str:
    return str((pod["metadata"].get("labels") or {}).get(REVISION, ""))


def _is_ready(pod: Manifest) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    is_ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return is_ready and "deletionTimestamp" not in pod["metadata"]


def is_aborted(status: Manifest) -> bool:
    """Whether the abort of the current revision is durable: told, or on record as a command that was accepted."""
    revision = status.get("currentRevision")
    if abort := status.get("abort"):
        return bool(abort["revision"] == revision)
    asked = {"verb": "abort", "value": "true", "outcome": "Accepted", "revision": revision}
    return any(asked.items() <= each.items() for each in status.get("commands") or ())
