"""A pure model of the cluster, as far as one Rollout needs it.

A `World` is a value. `snapshot` shows it to `decide`, `applied` in `api_server.py` carries out what was decided. What else moves
in it, and who moves it, is in `worlds.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never

from msgspec import Struct, field

from rollouts.core.config.copies import additional_refs, sources_of_lost
from rollouts.core.config.target import as_its_sources_say
from rollouts.core.lifecycle.workload import as_its_workload_says
from rollouts.core.model.analysis import AnalysisGate, Draft, DraftProblem, RunDraft, RunSeen
from rollouts.core.model.author import Author
from rollouts.core.model.autoscaling import AutoscalingGate, AutoscalingSeen
from rollouts.core.model.config import Source
from rollouts.core.model.drain import DrainMode, DrainSpec, ProxyFacts, ProxyMode
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import Notice
from rollouts.core.model.rollout import (
    BlueGreen,
    Canary,
    Rollout,
    RolloutSpec,
    Router,
    Strategy,
    analyses,
    named_services,
)
from rollouts.core.model.service_ref import ServiceRef
from rollouts.core.model.snapshot import (
    DrainSeen,
    EvictionRefused,
    OrphanedReplicaSet,
    Pod,
    PodsSeen,
    ReplicaSet,
    Service,
    ServiceAbsent,
    ServiceSeen,
    ServiceUnasked,
    Snapshot,
)
from rollouts.core.model.status import RolloutStatus
from rollouts.core.model.steps import RunExperiment
from rollouts.core.model.traffic import (
    ALL_TO_STABLE,
    Feature,
    Route,
    RouteAbsent,
    RouteName,
    RouteSeen,
    RouteUnasked,
    Split,
)
from rollouts.core.model.workload import ReferencedWorkload, WorkloadSeen
from rollouts.core.one_way import target_of
from rollouts.core.routing.ping_pong import seen_from_the_other_side
from tests.core.autoscalers import Load
from tests.core.named_workloads import Sight, seen_workload
from tests.core.sources import Configs, SourceKey, seen_sources

T0 = 1_790_000_000.0  # some moment in 2026


ANSWER_S = 10.0  # how long the answer to a question about a Service is good for


class World(Struct, frozen=True, kw_only=True):
    """Everything there is.

    Args:
        version: counts writes of anybody; gives uids and resourceVersions.
        orphaned: names of ReplicaSets that nobody controls.
        pods: truth; ReplicaSets' statuses and Services' slices lag behind it until their controllers act.
        heard: pods as the ReplicaSet controller's watch last showed them; it acts on these and counts these.
        expecting: ReplicaSets whose pods it has made or deleted and not heard of yet: it does neither again until then.
        services: as the API server has them; ours show their slices.
        answers: Services that were asked about, when, and what the answer was.
        routes: as the API server has them; whether one may be asked about is in its name: `asked-…`, or `counted-…` where
            requests are counted. The Rollout makes those that are called `own-…`.
        unheard: so few requests come that nothing can be counted.
        planes: what the data plane of each route does.
        route_answers: routes that were asked about, when, and what the answer was.
        supported: what the class of every gateway names, once it was asked.
        probed: what probes find in flight; its time is when they are asked.
        drains: what they found.
        bad: revisions whose pods never become ready.
        patient: status writes that can wait are held back, as the controller does for some seconds.
        held: what was held back last, and the status that it is to follow; None for nothing, or when it was forgotten.
        runs: AnalysisRuns; who measures for them is not modelled: in a quiet round they succeed.
        unmeasured: they stay as they are.
        templates_wrong: why no run can be made now; "" when it can.
        templates_missing: the gates whose analyses name a template that does not exist.
        budget: evictions are refused unless more than so many pods are ready; None for no budget.
        configs: ConfigMaps: sources of users, and copies of ours.
        sight: how the workload that the spec names is seen.
        load: what autoscalers want and containers use.
        load_seen: the gate that asked about it last, and what it was told.
        workload: the Deployment that is updated in place; its controller is in `deployments.py`.
        spread: by ReplicaSet: the replicas, and the most pods, of the Deployment when its controller last sized it.
        writes: calls of ours that wrote, by name.
    """

    now_s: float
    rollout: Rollout
    version: int = 1
    status: RolloutStatus = RolloutStatus()
    replica_sets: tuple[ReplicaSet, ...] = ()
    orphaned: frozenset[str] = frozenset()
    pods: tuple[Pod, ...] = ()
    heard: tuple[Pod, ...] = ()
    expecting: frozenset[str] = frozenset()
    ready_since: Mapping[str, float] = field(default_factory=dict)
    services: Mapping[ServiceRef, ServiceSeen] = field(default_factory=dict)
    answers: Mapping[ServiceRef, tuple[float, ServiceSeen | None]] = field(default_factory=dict)
    routes: Mapping[RouteName, RouteSeen] = field(default_factory=dict)
    planes: Mapping[RouteName, Split] = field(default_factory=dict)
    unheard: bool = False
    route_answers: Mapping[RouteName, tuple[float, RouteSeen | None]] = field(default_factory=dict)
    supported: frozenset[Feature] = frozenset(Feature)
    pods_seen: PodsSeen | None = None
    probed: DrainSeen = DrainSeen(0.0, 0)
    drains: Mapping[str, DrainSeen] = field(default_factory=dict)
    refused: EvictionRefused | None = None
    bad: frozenset[str] = frozenset()
    patient: bool = False
    held: tuple[RolloutStatus, RolloutStatus] | None = None
    runs: tuple[RunSeen, ...] = ()
    unmeasured: bool = False
    templates_wrong: str = ""
    templates_missing: frozenset[AnalysisGate] = frozenset()
    budget: int | None = None
    configs: Configs = Configs()
    sight: Sight = Sight()
    load: Load = Load()
    load_seen: tuple[AutoscalingGate, AutoscalingSeen] | None = None
    workload: WorkloadSeen | None = None
    spread: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    writes: tuple[str, ...] = ()
    notices: tuple[Notice, ...] = ()


def service(name: ServiceRef, **changes: Any) -> ServiceSeen:
    """A Service as its user made it: not managed by anybody yet."""
    given: dict[str, Any] = {
        "name": name, "uid": f"uid-{name}", "resource_version": "1", "revision": "", "managed_by": "", "watched": False,
        "slices_seen": False,
    }  # fmt: skip
    return ServiceSeen(**{**given, **changes})


def route(name: RouteName, **changes: Any) -> RouteSeen:
    """A route as its user made it: all to the stable Service, not managed by anybody yet."""
    given: dict[str, Any] = {
        "uid": f"uid-{name.name}",
        "resource_version": "1",
        "split": ALL_TO_STABLE,
        "features": None,
    }
    counted = name.name.startswith("counted")
    asked = counted or name.name.startswith("asked")
    return RouteSeen(route=name, can_be_asked=asked, counted=counted, **{**given, **changes})


def router(name: str, route: str) -> Router:
    """A router of that name with one route: its name, or `namespace/name`."""
    return Router(name, {"route": route})


def named_routes(strategy: Strategy) -> tuple[RouteName, ...]:
    """Those that the strategy's routers name (`router`)."""
    if not isinstance(strategy, Canary) or strategy.traffic_routing is None:
        return ()
    routers = strategy.traffic_routing.routers
    places = [(each.name, str(each.settings["route"]).rpartition("/")) for each in routers]
    return tuple(RouteName(router, "HTTPRoute", space or "shop", name) for router, (space, _, name) in places)


def made_by_users(strategy: Strategy) -> tuple[RouteName, ...]:
    """The routes that the strategy names and does not make."""
    return tuple(name for name in named_routes(strategy) if not is_own(name))


def is_own(name: RouteName) -> bool:
    """Whether the Rollout makes that route itself."""
    return name.name.startswith("own")


UNDRAINED = DrainSpec(mode=DrainMode.OFF)
"""Most promises are about something else; those about draining give a spec of their own."""

PROXY = ProxyFacts(mode=ProxyMode.IPTABLES, known_by="the model says so", min_sync_period_s=1.0)


def spec(
    strategy: Strategy, *, revision: str = "a", replicas: int = 4, drain: DrainSpec = UNDRAINED, **changes: Any
) -> RolloutSpec:
    """A spec whose revision is named, not hashed."""
    return RolloutSpec(
        drain=drain,
        replicas=replicas,
        selector_json=b'{"matchLabels":{"app":"cart"}}',
        selector_text="app=cart",
        template_json=b"{}",
        template_hash=revision,
        revision=revision,
        strategy=strategy,
        strategy_hash=strategy_hash(strategy),
        **changes,
    )


def world(strategy: Strategy, *, replicas: int = 4, revision: str = "a", **changes: Any) -> World:
    """A Rollout that was just created, with the Services that its strategy names and nothing else."""
    rollout = Rollout(
        namespace="shop", name="cart", uid="uid-cart", resource_version="1", generation=1, created_at_s=T0,
        spec=spec(strategy, replicas=replicas, revision=revision, **changes),
    )  # fmt: skip
    services = {name: service(name) for name in named_services(strategy)}
    routes = {name: route(name) for name in made_by_users(strategy)}
    planes = dict.fromkeys(routes, ALL_TO_STABLE)
    return World(now_s=T0, rollout=rollout, services=services, routes=routes, planes=planes)


def snapshot(there: World) -> Snapshot:
    """The world as the controller sees it now."""
    names = {
        *named_services(there.rollout.spec.strategy),
        *(each.name for each in there.services.values() if each.managed_by == there.rollout.name and each.watched),
    }
    held = there.held
    rollout, workload = seen_workload(there.workload, there.sight, there.rollout, now_s=there.now_s)
    seen = Snapshot(
        now_s=there.now_s,
        rollout=rollout,
        workload=workload,
        left_workloads=there.sight.left,
        status=held[1] if held is not None and held[0] == there.status else there.status,
        replica_sets=tuple(each for each in there.replica_sets if each.name not in there.orphaned),
        orphans=tuple(
            _seen_orphan(each) for each in there.replica_sets if each.name in there.orphaned and not each.deleting
        ),
        services={name: _seen_service(there, name) for name in sorted(names, key=str)},
        routes=_seen_routes(there),
        drains=there.drains,
        pods=_pods_seen(there, workload),
        eviction_refused=there.refused,
        proxy=PROXY,
        runs=there.runs,
        sources=_seen_of_sources(there),
        copies=there.configs.copies,
        copy_looks=there.configs.copy_looks,
        autoscaling=_load_seen(there),
    )
    if not (gates := analyses(there.rollout.spec.strategy)):
        return seen
    latest = target_of(as_its_sources_say(as_its_workload_says(seen)), seen.status)
    return replace(seen, drafts={gate: _draft(there, gate, latest) for gate in gates})


def _pods_seen(there: World, workload: ReferencedWorkload | None) -> PodsSeen | None:
    """The last list; or the pods that are watched."""
    found = workload.in_place if isinstance(workload, WorkloadSeen) else None
    if found is None or not found.needs_pods:
        return there.pods_seen
    return PodsSeen(there.now_s, tuple([replace(pod, resource_version=pod_version(pod)) for pod in there.pods]))


def pod_version(pod: Pod) -> str:
    """Another one for each state that it can be in."""
    return f"{pod.uid} {pod.ready} {pod.deleting}"


def _seen_of_sources(there: World) -> Mapping[SourceKey, Source]:
    """The sources that the spec names, and those of copies that are lost."""
    named, configs = there.rollout.spec.config_refs, there.configs
    owned = [each for each in there.replica_sets if each.name not in there.orphaned]
    lost = sources_of_lost(owned, configs.copies, configs.copy_looks)
    return seen_sources(configs, (*named, *additional_refs(named, lost)))


def with_load_read(there: World, gate: AutoscalingGate) -> World:
    """What the cluster measures is read once more."""
    ready: dict[str, int] = {}
    for pod in there.pods:
        if pod.ready:
            ready[pod.revision] = ready.get(pod.revision, 0) + 1
    seen = there.load.seen(gate, at_s=there.now_s, pods=there.rollout.spec.replicas, ready=ready)
    return replace(there, load_seen=(gate, seen), load=replace(there.load, asked=there.load.asked + 1))


def _load_seen(there: World) -> AutoscalingSeen | None:
    gate, seen = there.load_seen or (None, None)
    return seen if gate is not None and gate == there.rollout.spec.autoscaling else None


def _draft(there: World, gate: AnalysisGate, latest: str) -> Draft:
    """What can be made of the templates: about the revision that the spec means, as the controller makes them."""
    if there.templates_wrong or gate in there.templates_missing:
        return DraftProblem(there.templates_wrong or f"{gate}: names AnalysisTemplate/good, which does not exist")
    strategy, kept = there.rollout.spec.strategy, False
    if isinstance(strategy, Canary) and gate.step is not None and gate.step < len(strategy.steps):
        step = strategy.steps[gate.step]
        kept = isinstance(step, RunExperiment) and bool(step.weights)
    return RunDraft(b"{}", latest=latest, stable=there.status.stable_revision, keeps_pods=kept)


def orphaned(there: World, name: str) -> World:
    """A ReplicaSet loses its owner reference."""
    return replace(moved(there, name), orphaned=there.orphaned | {name})


def deleted(there: World, revision: str) -> World:
    """Somebody deletes a revision's ReplicaSet; its pods go with it, and no other set of that name counts them."""
    sets = tuple(each for each in there.replica_sets if each.revision != revision)
    names = frozenset(each.name for each in sets)
    return replace(
        there,
        replica_sets=sets,
        orphaned=there.orphaned & names,
        pods=tuple(pod for pod in there.pods if pod.revision != revision),
        heard=tuple(pod for pod in there.heard if pod.revision != revision),
        expecting=there.expecting & names,
    )


def annotated(there: World, verb: str, value: str | None, *, by: Author | None = None) -> World:
    """An annotation set, or with None taken off."""
    annotations = {key: each for key, each in there.rollout.annotations.items() if key != verb}
    if value is not None:
        annotations[verb] = value
    version = there.version + 1
    authors = {key: each for key, each in there.rollout.annotated_by.items() if key != verb}
    if by is not None:
        authors[verb] = by
    rollout = replace(there.rollout, annotations=annotations, annotated_by=authors, resource_version=str(version))
    if verb == "restart":
        rollout = replace(rollout, restart_asked_at_s=_number(value))
    return replace(there, rollout=rollout, version=version)


def wrote(there: World, what: str) -> World:
    return replace(there, version=there.version + 1, writes=(*there.writes, what))


def moved(there: World, name: str) -> World:
    """The ReplicaSet in a new version."""
    there = replace(there, version=there.version + 1)
    sets = (
        replace(each, resource_version=str(there.version)) if each.name == name else each for each in there.replica_sets
    )
    return replace(there, replica_sets=tuple(sets))


def strategy_hash(strategy: Strategy) -> str:
    match strategy:
        case Canary(steps=steps):
            return f"canary {steps}"
        case BlueGreen():
            return "blue-green"
        case never:
            assert_never(never)


def _seen_orphan(found: ReplicaSet) -> OrphanedReplicaSet:
    return OrphanedReplicaSet(
        name=found.name, uid=found.uid, resource_version=found.resource_version, revision=found.revision
    )


def _seen_service(there: World, name: ServiceRef) -> Service:
    found = there.services.get(name)
    if found is not None and found.watched:
        return found
    asked_s, answer = there.answers.get(name, (None, None))
    if asked_s is None or there.now_s - asked_s > ANSWER_S:
        return ServiceUnasked(name)
    return ServiceAbsent(name, at_s=asked_s) if answer is None else answer


def _seen_routes(there: World) -> dict[RouteName, Route]:
    named = named_routes(there.rollout.spec.strategy)
    known = {name for name in there.routes if name.namespace == there.rollout.namespace} | {*there.status.elsewhere}
    managed = [name for name, each in there.routes.items() if each.managed_by == there.rollout.name and name in known]
    managed += [name for name in there.status.elsewhere if name in there.routes and name not in managed]
    routes = {name: _seen_route(there, name, named=name in named) for name in dict.fromkeys((*named, *managed))}
    if there.status.pong_is_stable:
        return {name: seen_from_the_other_side(each) for name, each in routes.items()}
    return routes


def _seen_route(there: World, name: RouteName, *, named: bool) -> Route:
    found = there.routes.get(name)
    if found is not None and found.managed_by:
        return found if found.named == named else replace(found, named=named)
    asked_s, answer = there.route_answers.get(name, (None, None))
    if asked_s is None or there.now_s - asked_s > ANSWER_S:
        return RouteUnasked(name, named)
    if answer is None:
        return RouteAbsent(name, at_s=asked_s, ours=named and is_own(name), named=named)
    return replace(answer, named=named)


def _number(value: str | None) -> float | None:
    try:
        return float(value) if value else None
    except ValueError:
        return None
