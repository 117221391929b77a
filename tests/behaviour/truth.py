"""The world as the API server has it, in the words of the core: nothing late, nothing filtered."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec

from rollouts.api.status.wire import status_from_wire
from rollouts.cluster.decoding import decode, decode_route
from rollouts.cluster.store import Store
from rollouts.cluster.structs import (
    AnalysisRunObject,
    AnalysisTemplateObject,
    EndpointSliceObject,
    ReplicaSetObject,
    RolloutObject,
    RouteObject,
    ServiceObject,
)
from rollouts.controller.facts.live_providers import LiveProviders
from rollouts.controller.facts.proxies import ClusterFacts
from rollouts.controller.facts.route_kinds import RouteKinds
from rollouts.controller.observe.analyses import Analyses
from rollouts.controller.observe.observer import Observer, Seen
from rollouts.controller.observe.places import is_at
from rollouts.controller.observe.routes import RouteReader
from rollouts.controller.providers.declarations import provider_of
from rollouts.controller.workqueue.inbox import Inbox, RouteAnswer
from rollouts.controller.workqueue.managed import ManagedRouteObjects, ManagedServices
from rollouts.controller.workqueue.triggers import SERVICE_NAME
from rollouts.core.model.analysis import AnalysisGate, AnalysisKind, RunDraft
from rollouts.core.model.drain import ProxyFacts, ProxyMode
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import (
    AdoptReplicaSet,
    CreateAnalysisRun,
    CreateReplicaSet,
    DeleteAnalysisRun,
    DeleteReplicaSet,
    EvictPod,
    Intent,
    MakeRoute,
    PatchReplicaSet,
    ReleaseRoute,
    ReleaseService,
    RemoveAnnotation,
    SetTraffic,
    SwitchService,
    TerminateAnalysisRun,
)
from rollouts.core.model.rollout import PodMetadata, Rollout
from rollouts.core.model.service_ref import SubsetName
from rollouts.core.model.snapshot import ReplicaSet, ServiceSeen, Snapshot
from rollouts.core.model.status import RolloutStatus, Verb
from rollouts.core.model.traffic import RouteName, RouteSeen
from rollouts.core.routing.services import is_subset
from rollouts.errors import SpecInvalid, Unroutable
from rollouts.manifests.analysis_run import gate_of
from rollouts.manifests.ownership import (
    ATTEMPT,
    MANAGED,
    NAME,
    RESTART_SURGE,
    REVISION,
    REVISION_NUMBER,
    ROUTER,
    config_note_of,
)
from rollouts.objects import (
    ANALYSIS_RUN,
    ANALYSIS_TEMPLATE,
    CLUSTER_ANALYSIS_TEMPLATE,
    ENDPOINT_SLICE,
    REPLICA_SET,
    ROLLOUT,
    SERVICE,
    TRAFFIC_PROVIDER,
    Key,
    Kind,
    Manifest,
)
from rollouts.ports import Request
from rollouts.sim.cluster import SimulatedCluster
from rollouts.sim.network.gateway_types import HTTP_ROUTE
from rollouts.sim.storage.history import DELETED, CommittedWrite, Stored
from rollouts.sim.storage.patches import json_patch
from rollouts.sim.storage.refusals import Refused
from rollouts.traffic.codec import Objects
from rollouts.traffic.istio.settings import SERVICE_KINDS
from rollouts.traffic.istio.subsets import RULE_KINDS, host_of
from rollouts.traffic.nginx.settings import INGRESS_KINDS
from rollouts.traffic.registry import registry
from tests.behaviour.config_truth import ConfigTruth
from tests.behaviour.standing import StandingPods

(INGRESS,) = INGRESS_KINDS
VIRTUAL_SERVICE, DESTINATION_RULE = SERVICE_KINDS[0], RULE_KINDS[0]
STRUCTS: tuple[tuple[Kind, Any], ...] = (
    (ROLLOUT, RolloutObject),
    (REPLICA_SET, ReplicaSetObject),
    (SERVICE, ServiceObject),
    (ENDPOINT_SLICE, EndpointSliceObject),
    (HTTP_ROUTE, RouteObject),
    (VIRTUAL_SERVICE, RouteObject),
    (DESTINATION_RULE, RouteObject),
    (INGRESS, RouteObject),
    (ANALYSIS_RUN, AnalysisRunObject),
    (ANALYSIS_TEMPLATE, AnalysisTemplateObject),
    (CLUSTER_ANALYSIS_TEMPLATE, AnalysisTemplateObject),
)
ROUTE_KINDS = tuple(kind for kind, struct in STRUCTS if struct is RouteObject)


class StatusWrite:
    """A write of the Rollout's status, which is no intent."""


@dataclass(frozen=True, slots=True)
class RunStatusWrite:
    """A write of an AnalysisRun's status, by a look at it.

    Args:
        was_over: it had a verdict already.
    """

    name: str
    was_over: bool


FACTS = ClusterFacts(proxy=ProxyFacts(mode=ProxyMode.IPTABLES, known_by="the simulated cluster", min_sync_period_s=1.0))

Meaning: TypeAlias = Intent | StatusWrite | RunStatusWrite


class _Served(RouteKinds):
    """Every version is served that a codec wants best."""

    def known(self, kinds: tuple[Kind, ...]) -> Kind | None:
        """The first one."""
        return kinds[0]


class _AllKnown(Inbox):
    """Nobody has to ask: a route that the store does not have is not there."""

    def route(self, key: Key, route: RouteName) -> RouteAnswer | None:  # noqa: ARG002 - as in Inbox
        """See `Inbox.route`."""
        return RouteAnswer(asked_s=asyncio.get_running_loop().time())


class Truth:
    """Follows the history of a simulated cluster.

    Args:
        by_us: whether what happens at this moment is a controller's own request.
    """

    def __init__(self, cluster: SimulatedCluster, *, by_us: Callable[[], bool]) -> None:
        self._cluster = cluster
        self._store = Store(clock=cluster.clock)
        for kind, struct in STRUCTS:
            labels = (SERVICE_NAME,) if kind == ENDPOINT_SLICE else ()
            orphans_by = NAME if kind == REPLICA_SET else ""
            owned = kind in (REPLICA_SET, ANALYSIS_RUN)
            self._store.add(kind, struct, by_owner=owned, orphans_by=orphans_by, labels=labels)
        self._managed = ManagedServices()
        self._managed_routes = ManagedRouteObjects()
        self._providers = LiveProviders(registry())
        self._providers.listed()
        self._config = ConfigTruth(cluster, self._store)
        inbox = _AllKnown(clock=cluster.clock)
        self._observer = Observer(
            store=self._store,
            inbox=inbox,
            managed=self._managed,
            clock=cluster.clock,
            routes=RouteReader(
                store=self._store,
                inbox=inbox,
                kinds=_Served(api=cluster.api, on_found=lambda _: None),
                managed=self._managed_routes,
                providers=self._providers,
            ),
            facts=lambda: FACTS,
            analyses=Analyses(self._store),
            configs=self._config.configs,
        )
        self.deleted_at_s = -float("inf")
        """Loop time of the last deletion of a Rollout."""
        self._earlier: deque[tuple[float, Rollout]] = deque(maxlen=8)
        self._standing = StandingPods(cluster, by_us=by_us)
        for kind, _ in STRUCTS:
            cluster.api.history.listen(kind, self._follow)
        cluster.api.history.listen(TRAFFIC_PROVIDER, self._follow_provider)

    def snapshot(self, key: Key) -> Snapshot | None:
        """What a controller that sees everything at once would see; None when there is no Rollout that can be carried out.

        No more pods are available than there are: a ReplicaSet counts those that were just deleted for a while.
        """
        observed = self._observer.observe(key)
        if not isinstance(observed, Seen):
            return None
        sets = tuple(
            replace(each, available=min(each.available, self._standing.of(each.uid)))
            for each in observed.snapshot.replica_sets
        )
        listed = observed.snapshot.copies or observed.snapshot.status.evicting_since_s is not None
        pods = self._config.pods(key.namespace) if listed else observed.snapshot.pods
        return replace(observed.snapshot, replica_sets=sets, pods=pods)

    def snapshots(self, key: Key, *, grace_s: float) -> list[Snapshot]:
        """The same, now and with each spec and source that somebody has replaced, or copy deleted, in the last `grace_s` seconds.

        And with the pods that somebody took away in this very moment.
        A pass that was under way then cannot have known better: no write can be bound to two objects.
        """
        now = self.snapshot(key)
        if now is None:
            return []
        since_s = asyncio.get_running_loop().time() - grace_s
        sources = self._config.earlier(since_s=since_s) if now.sources else ()
        return [
            now,
            *(replace(now, rollout=each) for at_s, each in self._earlier if at_s >= since_s),
            *(replace(now, sources={**now.sources, **each}) for each in sources),
            *(replace(now, copies=(*now.copies, each)) for each in self._config.deleted(since_s=since_s)),
            *([replace(now, replica_sets=seen)] if (seen := self._with_lost_pods(now)) != now.replica_sets else ()),
        ]

    def _with_lost_pods(self, now: Snapshot) -> tuple[ReplicaSet, ...]:
        """The ReplicaSets, with the available pods that were taken from them a moment ago, by neither us nor their controller."""
        return tuple(
            replace(each, available=each.available + self._standing.lost_unseen(each.uid)) for each in now.replica_sets
        )

    def status(self, key: Key) -> RolloutStatus:
        """The Rollout's status, also of one whose spec cannot be read."""
        manifest = self._cluster.get(ROLLOUT, key.namespace, key.name) or {}
        return status_from_wire(manifest.get("status") or {})

    def meaning(self, request: Request, key: Key) -> Meaning | None:
        """The intent that a write carries out, told from its bytes; None for one that no pass of ours makes.

        Args:
            key: the Rollout whose routes are meant.
        """
        target = self._cluster.api.target(request.path)
        if target is None:
            return None
        kind, name, body = target.resource.kind, target.name or "", msgspec.json.decode(request.body or b"null")
        match kind.plural, request.method, target.part:
            case "rollouts", "PATCH", "status":
                return StatusWrite()
            case "rollouts", "PATCH", "":
                removed = next(each for each in body if each["op"] == "remove")  # the note of who gave it goes with it
                return RemoveAnnotation(verb=Verb(removed["path"].rpartition("~1")[2]), value="")
            case "replicasets", method, "":
                return self._of_replica_set(method, target.home, name, body)
            case "pods", "POST", "eviction":
                return EvictPod(name=name, uid=body["deleteOptions"]["preconditions"]["uid"])
            case "configmaps" | "secrets", method, "":
                return self._config.meaning(kind, method, name, body)
            case "services", "PATCH", "":
                return self._marking(key, body) or _pointing(name, body)
            case "virtualservices", "PATCH", "":
                return self._steering(key, kind, target.home, name, body)
            case "httproutes" | "ingresses", method, "":
                return self._of_route(key, kind, method, target.home, name, body)
            case "analysisruns", method, part:
                return self._of_run(key, method, part, target.home, name, body)
            case "destinationrules", "PATCH", "":
                return self._pointing_subset(target.home, name, body)
            case _:
                return None

    def _of_replica_set(self, method: str, namespace: str, name: str, body: Any) -> Intent | None:
        match method:
            case "POST":
                return _creation(body)
            case "PATCH" if isinstance(body, list):
                given = {each["path"]: each["value"] for each in body}
                return AdoptReplicaSet(
                    name=name, uid=given["/metadata/uid"], resource_version=given["/metadata/resourceVersion"]
                )
            case "PATCH":
                return self._resizing(namespace, name, body)
            case "DELETE":
                seen = body.get("preconditions") or {}
                return DeleteReplicaSet(name=name, uid=seen["uid"], resource_version=seen["resourceVersion"])
            case _:
                return None

    def _of_route(self, key: Key, kind: Kind, method: str, namespace: str, name: str, body: Any) -> Intent | None:
        if kind == INGRESS and not isinstance(body, list):
            return self._beside(key, namespace, name, body if method == "PATCH" else None)
        match method:
            case "POST":
                return self._making(key, body)
            case "PATCH":
                return self._steering(key, kind, namespace, name, body)
            case _:
                return None

    def _of_run(
        self, key: Key, method: str, part: str, namespace: str, name: str, body: Any
    ) -> CreateAnalysisRun | TerminateAnalysisRun | DeleteAnalysisRun | RunStatusWrite | None:
        match method, part:
            case "POST", "":
                return self._run_made(key, body)
            case "PATCH", "":
                return TerminateAnalysisRun(name=name, uid=body["metadata"]["uid"])
            case "PATCH", "status":
                stored = self._cluster.get(ANALYSIS_RUN, namespace, name) or {}
                return RunStatusWrite(name, was_over="completedAt" in (stored.get("status") or {}))
            case "DELETE", "":
                seen = body["preconditions"]
                return DeleteAnalysisRun(name=name, uid=seen["uid"], resource_version=seen["resourceVersion"])
            case _:
                return None

    def _run_made(self, key: Key, manifest: Any) -> CreateAnalysisRun:
        """A run, and the draft that it was made of: the one of its gate, if it says the same."""
        metadata = manifest["metadata"]
        gate = gate_of(metadata["labels"]) or AnalysisGate(AnalysisKind.STEP)
        seen = self.snapshot(key)
        draft = seen.drafts.get(gate) if seen is not None else None
        if not isinstance(draft, RunDraft) or json.loads(draft.spec_json) != manifest["spec"]:
            draft = RunDraft(spec_json=json.dumps(manifest["spec"]).encode(), latest="", stable="")
        revision, attempt = metadata["labels"][REVISION], int(metadata["annotations"][ATTEMPT])
        return CreateAnalysisRun(name=metadata["name"], gate=gate, revision=revision, attempt=attempt, draft=draft)

    def _resizing(self, namespace: str, name: str, body: Any) -> PatchReplicaSet:
        stored = self._cluster.api.history.get(REPLICA_SET, namespace, name)
        annotations = body["metadata"].get("annotations") or {}
        told = annotations.get(RESTART_SURGE, "")
        return PatchReplicaSet(
            name=name,
            uid=body["metadata"]["uid"],
            revision=stored.labels.get(REVISION, "") if stored else "",
            resource_version=body["metadata"].get("resourceVersion", ""),
            replicas=(body.get("spec") or {}).get("replicas"),
            restart_surge=None if told == "" else int(told or 0),
            config=config_note_of(annotations),
        )

    def _marking(self, key: Key, body: Any) -> SwitchService | None:
        """The host of a DestinationRule is marked: the second half of pointing its subsets."""
        if body["spec"]["selector"][REVISION] is not None or body["metadata"]["labels"][MANAGED] is None:
            return None
        seen = self.snapshot(key)
        subsets = [each for each in (seen.services if seen else {}).values() if is_subset(each.name)]
        return next(
            (
                SwitchService(
                    name=each.name, uid=each.uid, resource_version=each.resource_version, revision=each.revision
                )
                for each in subsets
                if isinstance(each, ServiceSeen) and each.revision
            ),
            None,
        )

    def _making(self, key: Key, manifest: Any) -> MakeRoute | None:
        """The route of `trafficRouting.own` that it is, and what it says from the beginning."""
        observed = self._observer.observe(key)
        for read in observed.routes.values() if isinstance(observed, Seen) else ():
            place = read.place
            if place.own is not None and is_at(place, manifest, namespace=key.namespace) and place.provider is not None:
                return MakeRoute(place.route, place.provider.read(Objects(manifest), place.target, read.context))
        return None

    def _pointing_subset(self, namespace: str, name: str, operations: Any) -> SwitchService | ReleaseRoute | None:
        """Which subset changes the revision that it selects."""
        found = self._patched(DESTINATION_RULE, namespace, name, operations)
        if found is None:
            return None
        stored, after = found
        uid, version = stored.metadata["uid"], str(operations[0]["value"])
        if MANAGED not in (after["metadata"].get("labels") or {}):
            route = RouteName("istio", DESTINATION_RULE.kind, namespace, name)
            return ReleaseRoute(route=route, uid=uid, resource_version=version)
        host = self._cluster.api.history.get(SERVICE, namespace, host_of(after, namespace=namespace))
        before = stored.manifest["spec"]["subsets"]
        changed = [now for was, now in zip(before, after["spec"]["subsets"], strict=True) if was != now]
        if host is None or len(changed) != 1 or after["spec"] | {"subsets": before} != stored.manifest["spec"]:
            return None
        return SwitchService(
            name=SubsetName(name, changed[0]["name"]),
            uid=uid,
            resource_version=f"{version}/{host.metadata['resourceVersion']}",
            revision=changed[0]["labels"][REVISION],
        )

    def _patched(self, kind: Kind, namespace: str, name: str, operations: Any) -> tuple[Stored, Manifest] | None:
        """An object as it is, and as the patch would make it; None for one that is not there, or a patch that does not fit."""
        stored = self._cluster.api.history.get(kind, namespace, name)
        try:
            return None if stored is None else (stored, json_patch(stored.manifest, operations))
        except Refused:
            return None

    def _steering(
        self, key: Key, kind: Kind, namespace: str, name: str, operations: Any
    ) -> SetTraffic | ReleaseRoute | None:
        """What the route will say, in the words of the codec that the Rollout's spec names."""
        found = self._patched(kind, namespace, name, operations)
        if found is None:
            return None
        stored, after = found
        uid, version = stored.metadata["uid"], str(operations[0]["value"])
        if MANAGED not in (after["metadata"].get("labels") or {}):
            router = (stored.metadata.get("annotations") or {}).get(ROUTER, "")
            route = RouteName(router, kind.kind, namespace, name)
            return ReleaseRoute(route=route, uid=uid, resource_version=version)
        observed = self._observer.observe(key)
        for read in observed.routes.values() if isinstance(observed, Seen) else ():
            place = read.place
            here = (place.route.kind, place.target.namespace, place.target.name) == (kind.kind, namespace, name)
            if here and place.provider is not None:
                try:
                    split = place.provider.read(Objects(after), place.target, read.context)
                except Unroutable:  # no codec writes what it cannot read
                    return None
                return SetTraffic(route=place.route, uid=uid, resource_version=version, split=split)
        return None

    def _beside(self, key: Key, namespace: str, name: str, owned: Manifest | None) -> SetTraffic | None:
        """What the route will say with this object of ours beside the user's, or with none."""
        observed = self._observer.observe(key)
        for read in observed.routes.values() if isinstance(observed, Seen) else ():
            target, provider, route = read.place.target, read.place.provider, read.route
            ours = (target.namespace, target.owned_name) == (namespace, name)
            if ours and provider is not None and read.objects is not None and isinstance(route, RouteSeen):
                split = provider.read(Objects(read.objects.user, owned), target, read.context)
                uid = read.objects.user["metadata"]["uid"]
                return SetTraffic(route=route.route, uid=uid, resource_version=route.resource_version, split=split)
        return None

    def _follow_provider(self, change: CommittedWrite) -> None:
        name, spec = change.new.manifest["metadata"]["name"], change.new.manifest["spec"]
        if change.event == DELETED:
            self._providers.gone(name)
        elif change.old is None or change.old.manifest["spec"] != spec:
            try:
                self._providers.has(provider_of(name, spec, self._providers.fixed))
            except SpecInvalid as exc:
                self._providers.lacks(name, str(exc))

    def _follow(self, change: CommittedWrite) -> None:
        if change.kind == ROLLOUT and change.old is not None:
            self._remember(change.old, change.new)
        table = self._store.table(change.kind)
        seen = decode_route(change.new.raw()) if change.kind in ROUTE_KINDS else decode(change.kind, change.new.raw())
        difference = table.remove("", seen) if change.event == DELETED else table.put("", seen)
        if change.kind == ROLLOUT and change.event == DELETED:
            self.deleted_at_s = asyncio.get_running_loop().time()
        if change.kind == SERVICE and difference is not None:
            self._managed.learn(difference.before, difference.after)
        if change.kind in ROUTE_KINDS and difference is not None:
            self._managed_routes.learn(change.kind, difference.before, difference.after)

    def _remember(self, old: Stored, new: Stored) -> None:
        before = self.snapshot(Key(*old.key)) if old.metadata["generation"] != new.metadata["generation"] else None
        if before is not None:
            self._earlier.append((asyncio.get_running_loop().time(), before.rollout))


def _creation(body: Any) -> CreateReplicaSet:
    metadata = body["metadata"]
    return CreateReplicaSet(
        revision=metadata["labels"][REVISION],
        number=int(metadata["annotations"][REVISION_NUMBER]),
        replicas=body["spec"]["replicas"],
        pod_metadata=PodMetadata(),
        config=config_note_of(metadata["annotations"]) or (),
    )


def _pointing(name: str, body: Any) -> SwitchService | ReleaseService:
    uid, version = body["metadata"]["uid"], body["metadata"]["resourceVersion"]
    revision = body["spec"]["selector"][REVISION]
    if revision is None:
        return ReleaseService(name=name, uid=uid, resource_version=version)
    return SwitchService(name=name, uid=uid, resource_version=version, revision=revision)
