"""Observes one Rollout at one instant, from the store, the inbox and one reading of the clock. No await, no network."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from msgspec import Struct, field

from rollouts.api.spec.parse import parse_rollout, parse_spec
from rollouts.api.status.wire import status_from_wire
from rollouts.api.times import time_or_0
from rollouts.cluster.decoding import json_object
from rollouts.cluster.store import Store
from rollouts.cluster.structs import (
    EndpointSliceObject,
    Metadata,
    ReplicaSetObject,
    RolloutObject,
    ServiceObject,
)
from rollouts.controller.configs.observed import Configs, config_of
from rollouts.controller.facts.gateway_lags import GatewayLags, names_of
from rollouts.controller.facts.proxies import ClusterFacts
from rollouts.controller.observe.analyses import Analyses
from rollouts.controller.observe.places import Place
from rollouts.controller.observe.routes import RouteRead, RouteReader
from rollouts.controller.observe.services import service_seen
from rollouts.controller.observe.sight import Sight, unreadable
from rollouts.controller.observe.subsets import host_name, rule_of, subset_services
from rollouts.controller.workqueue.inbox import Inbox
from rollouts.controller.workqueue.managed import ManagedServices
from rollouts.controller.workqueue.owned import replica_sets_of
from rollouts.controller.workqueue.selectors import Selectors
from rollouts.controller.workqueue.triggers import SERVICE_NAME
from rollouts.core.config.lost import additional_refs, sources_of_lost
from rollouts.core.config.target import as_its_sources_say
from rollouts.core.lifecycle.invalid_spec import spec_on_record
from rollouts.core.model.drain import ProxyFacts
from rollouts.core.model.frozen import replace
from rollouts.core.model.rollout import BlueGreen, Canary, Rollout, RolloutSpec, named_services
from rollouts.core.model.service_ref import ServiceRef
from rollouts.core.model.snapshot import (
    OrphanedReplicaSet,
    ReplicaSet,
    Service,
    ServiceAbsent,
    ServiceUnasked,
    Snapshot,
)
from rollouts.core.model.status import RolloutStatus
from rollouts.core.model.traffic import RouteName
from rollouts.core.routing.ping_pong import with_roles
from rollouts.errors import ObjectUnreadable, SpecInvalid, SpecProblem, WatchFailed
from rollouts.manifests.adoption import not_ours
from rollouts.manifests.ownership import (
    REVISION,
    abort_note_of,
    injection_of,
    name_label,
    pod_metadata_of,
    pods_carry_metadata,
    restart_surge_of,
    revision_number_of,
)
from rollouts.objects import ENDPOINT_SLICE, REPLICA_SET, ROLLOUT, SERVICE, Key, Manifest
from rollouts.ports import Clock
from rollouts.traffic.codec import Context, Destination

PARSED_MAX = 2_000  # specs kept parsed: 10 KB each; idle Rollouts need none


class Gone(Struct, frozen=True):
    """The Rollout does not exist."""


class Seen(Struct, frozen=True, kw_only=True):
    """A Rollout whose spec can be carried out.

    Args:
        status_wire: `.status` as the API server has it; a patch is computed against it.
        routes: the objects behind the snapshot's routes; a write to a route is computed against them.
        trouble: why the snapshot is incomplete, so that nothing may be decided on it; None when it is complete.
    """

    metadata: Metadata
    snapshot: Snapshot
    status_wire: Manifest
    routes: Mapping[RouteName, RouteRead] = field(default_factory=dict)
    trouble: ObjectUnreadable | WatchFailed | None = None


class Unreadable(Struct, frozen=True, kw_only=True):
    """A Rollout whose spec cannot be carried out, with all its problems.

    Args:
        snapshot: with the spec that status knows, its revision and its steps, and nothing else of a spec.
        trouble: as for `Seen`.
    """

    metadata: Metadata
    problems: tuple[SpecProblem, ...]
    snapshot: Snapshot
    status_wire: Manifest
    trouble: ObjectUnreadable | WatchFailed | None = None


class Illegible(Struct, frozen=True):
    """A Rollout object that cannot be decoded. Its status is unknown, so it cannot be written either."""

    metadata: Metadata
    trouble: ObjectUnreadable


class Undecided(Struct, frozen=True):
    """A Rollout that names a traffic provider which is not known yet. Its key is queued again when the provider is known."""


Observation: TypeAlias = Seen | Unreadable | Illegible | Undecided | Gone


class _Parsed(Struct, frozen=True):
    """A parsed spec, kept for each (uid, generation): parsing costs more than the rest of a pass.

    Args:
        providers: version of the providers that it was parsed with.
    """

    generation: int
    providers: int
    spec: RolloutSpec | tuple[SpecProblem, ...]
    places: tuple[Place, ...] = ()


class Observer:
    """Takes snapshots.

    Args:
        routes: reads the routes that the spec's routers name; None to read no routes.
        facts: returns the known facts about the cluster; by default nothing is known, and the waits are the safe ones.
        lags: the measured lags of gateways; None without measurements.
        analyses: reads AnalysisRuns and templates; None where there are none.
        configs: reads sources of configuration and their copies; None to leave all references of templates as they are.
        command_notes: whether the API server notes who gave a command.
        selectors: knows which Rollouts find each other's pods.
    """

    def __init__(  # noqa: PLR0913 - everything that is seen, by name
        self,
        *,
        store: Store,
        inbox: Inbox,
        managed: ManagedServices,
        clock: Clock,
        routes: RouteReader | None = None,
        facts: Callable[[], ClusterFacts] = ClusterFacts,
        lags: GatewayLags | None = None,
        analyses: Analyses | None = None,
        configs: Configs | None = None,
        command_notes: bool = False,
        selectors: Selectors | None = None,
    ) -> None:
        self._command_notes = command_notes
        self._rollouts = store.table(ROLLOUT)
        self._replica_sets = store.table(REPLICA_SET)
        self._services = store.table(SERVICE)
        self._slices = store.table(ENDPOINT_SLICE)
        self._inbox = inbox
        self._managed = managed
        self._routes = routes
        self._facts = facts
        self._lags = lags
        self._analyses = analyses
        self._configs = configs
        self._selectors = selectors or Selectors()
        self._clock = clock
        self._sight = Sight(store, clock)
        self._parsed: OrderedDict[str, _Parsed] = OrderedDict()
        self._read: OrderedDict[str, tuple[RolloutObject, RolloutStatus, Manifest]] = OrderedDict()

    def observe(self, key: Key) -> Observation:
        """Everything that a decision about `key` may depend on, as it is now. Raises: nothing on purpose."""
        if (illegible := self._rollouts.unreadable.get((key.namespace, key.name))) is not None:
            return Illegible(illegible.metadata, unreadable(ROLLOUT, illegible))
        rollout: RolloutObject | None = self._rollouts.get(key.namespace, key.name)
        if rollout is None:
            return Gone()
        now_s = self._clock.now_s()
        metadata = rollout.metadata
        status, status_wire = self._status(rollout)
        parsed = self._parse(rollout)
        if parsed is None:
            return Undecided()
        if not isinstance(parsed.spec, RolloutSpec):
            snapshot = Snapshot(
                now_s=now_s,
                rollout=self._rollout(rollout, spec_on_record(status)),
                status=status,
                replica_sets=tuple(map(_replica_set, replica_sets_of(self._replica_sets, key, metadata.uid))),
            )
            trouble = self._sight.trouble(key, metadata.uid, services=(), routes=())
            return Unreadable(
                metadata=metadata, problems=parsed.spec, snapshot=snapshot, status_wire=status_wire, trouble=trouble
            )
        facts = self._facts()
        replica_sets = tuple(map(_replica_set, replica_sets_of(self._replica_sets, key, metadata.uid)))
        orphans = self._replica_sets.orphans(key.namespace, name_label(key.name))
        routes = self._all_routes(key, parsed, status, now_s=now_s)
        services = self._all_services(key, parsed.spec, replica_sets, now_s=now_s)
        if (rule := rule_of(routes)) is not None:
            rule = replace(rule, host=self._host(key, host_name(rule)))
            routes = {**routes, rule.place.route: rule}
            subsets = self._subsets(key, rule, services, parsed.spec.template_labels, replica_sets, now_s=now_s)
            services = _beside(subsets, services, host=host_name(rule))
        snapshot = Snapshot(
            now_s=now_s,
            rollout=self._rollout(rollout, parsed.spec),
            status=status,
            replica_sets=replica_sets,
            orphans=tuple(_orphan(each, key, parsed.spec) for each in orphans if not each.metadata.deletion_timestamp),
            services=services,
            routes={name: read.route for name, read in routes.items() if not read.place.target.subsets},
            drains=self._inbox.drained(key),
            pods=self._inbox.pods(key),
            eviction_refused=self._inbox.refusal(key),
            creation_refused=self._inbox.creation_refused(key),
            autoscaling=self._inbox.autoscaling(key, gate) if (gate := parsed.spec.autoscaling) is not None else None,
            proxy=self._with_gateways(facts.proxy, routes.values()),
            native_sleep=facts.native_sleep,
            shares_pods_with=self._selectors.of(key),
        )
        snapshot = self._with_analyses(key, self._with_config(key, snapshot), rollout)
        trouble = self._sight.trouble(key, metadata.uid, services=services, routes=routes.values())
        return Seen(metadata=metadata, snapshot=snapshot, status_wire=status_wire, routes=routes, trouble=trouble)

    def _rollout(self, seen: RolloutObject, spec: RolloutSpec) -> Rollout:
        metadata = seen.metadata
        return parse_rollout(
            namespace=metadata.namespace,
            name=metadata.name,
            uid=metadata.uid,
            resource_version=metadata.resource_version,
            generation=metadata.generation,
            created_at_s=time_or_0(metadata.creation_timestamp),
            annotations=metadata.annotations or {},
            spec=spec,
            deleting=metadata.deletion_timestamp is not None,
            annotators=metadata.annotators,
            notes=self._command_notes,
        )

    def forget(self, key: Key, uid: str) -> None:
        """Drops what is known of a Rollout that is gone."""
        self._parsed.pop(uid, None)
        self._read.pop(uid, None)
        if self._analyses is not None:
            self._analyses.forget(key, uid)
        if self._configs is not None:
            self._configs.forget(key)

    def _with_config(self, key: Key, snapshot: Snapshot) -> Snapshot:
        if self._configs is None:
            return snapshot
        copies, looks = self._configs.copies(key, snapshot.rollout.uid), self._inbox.copies(key)
        named = snapshot.rollout.spec.config_refs
        lost = sources_of_lost(snapshot.replica_sets, copies, looks)
        sources = self._configs.sources(key, (*named, *additional_refs(named, lost)), snapshot.replica_sets, copies)
        if not (sources or copies or looks):
            return snapshot
        return replace(snapshot, sources=sources, copies=copies, copy_looks=looks)

    def _with_analyses(self, key: Key, snapshot: Snapshot, rollout: RolloutObject) -> Snapshot:
        if self._analyses is None:
            return snapshot
        uid = rollout.metadata.uid
        runs = self._analyses.runs(key, uid)
        drafts = self._analyses.drafts(as_its_sources_say(snapshot), rollout)
        if not runs and not drafts:
            return snapshot
        taken = self._analyses.taken(key, uid, snapshot.status)
        return replace(snapshot, runs=runs, taken_runs=taken, drafts=drafts)

    def _status(self, rollout: RolloutObject) -> tuple[RolloutStatus, Manifest]:
        """The Rollout's status, read once for each version of the object, because most passes have another cause."""
        uid = rollout.metadata.uid
        known = self._read.get(uid)
        if known is None or known[0] is not rollout:
            wire = json_object(bytes(rollout.status))
            known = self._read[uid] = (rollout, status_from_wire(wire), wire)
            if len(self._read) > PARSED_MAX:
                self._read.popitem(last=False)
        return known[1], known[2]

    def _parse(self, rollout: RolloutObject) -> _Parsed | None:
        """The parsed spec; None while one of its providers is not known yet."""
        metadata = rollout.metadata
        providers = self._routes.version if self._routes is not None else 0
        parsed = self._parsed.get(metadata.uid)
        if parsed is None or (parsed.generation, parsed.providers) != (metadata.generation, providers):
            try:
                spec = parse_spec(bytes(rollout.spec) or b"{}")
                if self._configs is None and spec.config_refs:
                    spec = replace(spec, config_refs=())
                if self._routes is not None and self._routes.undecided(spec):
                    return None
                places = self._routes.places(spec, namespace=metadata.namespace) if self._routes is not None else ()
                parsed = _Parsed(metadata.generation, providers, spec, places)
            except SpecInvalid as exc:
                parsed = _Parsed(metadata.generation, providers, exc.problems)
            self._parsed[metadata.uid] = parsed
            if len(self._parsed) > PARSED_MAX:
                self._parsed.popitem(last=False)
        self._parsed.move_to_end(metadata.uid)
        return parsed

    def _all_routes(
        self, key: Key, parsed: _Parsed, status: RolloutStatus, *, now_s: float
    ) -> Mapping[RouteName, RouteRead]:
        if self._routes is None or not isinstance(parsed.spec, RolloutSpec):
            return {}
        context = context_of(key, parsed.spec, status)
        return self._routes.read(key, parsed.places, context, now_s=now_s, elsewhere=status.elsewhere)

    def _with_gateways(self, proxy: ProxyFacts, routes: Iterable[RouteRead]) -> ProxyFacts:
        """`proxy` with the measured lag of the Rollout's gateways."""
        names = {name for each in routes for name in names_of(each.gateways, each.place.route)}
        lag_s = self._lags.slowest_s(names) if self._lags is not None and names else None
        return proxy if lag_s is None else replace(proxy, gateway_lag_s=lag_s)

    def _all_services(
        self,
        key: Key,
        spec: RolloutSpec,
        replica_sets: Iterable[ReplicaSet],
        *,
        now_s: float,
    ) -> dict[ServiceRef, Service]:
        named = (name for name in named_services(spec.strategy) if isinstance(name, str))
        names = {*named, *self._managed.of(key)}
        revision_of = {each.name: each.revision for each in replica_sets}
        return {
            name: self._service(key, name, spec.template_labels, revision_of, now_s=now_s) for name in sorted(names)
        }

    def _host(self, key: Key, name: str) -> ServiceObject | None:
        """The Service of that name, from its watch or from an answer."""
        watched: ServiceObject | None = self._services.get(key.namespace, name) if name else None
        if watched is not None or not name:
            return watched
        answer = self._inbox.service(key, name)
        return answer.service if answer is not None else None

    def _subsets(
        self,
        key: Key,
        rule: RouteRead,
        services: Mapping[ServiceRef, Service],
        template_labels: Mapping[str, str],
        replica_sets: Iterable[ReplicaSet],
        *,
        now_s: float,
    ) -> dict[ServiceRef, Service]:
        """The subsets of a DestinationRule, which are Services to core."""
        name = host_name(rule)
        revision_of = {each.name: each.revision for each in replica_sets}
        host = services.get(name) or self._service(key, name, template_labels, revision_of, now_s=now_s)
        slices = self._slices.labelled(SERVICE_NAME, key.namespace, name)
        ready = _ready_by_revision(slices, revision_of)
        return subset_services(rule, host, template_labels=template_labels, ready=ready)

    def _service(
        self, key: Key, name: str, template_labels: Mapping[str, str], revision_of: Mapping[str, str], *, now_s: float
    ) -> Service:
        watched: ServiceObject | None = self._services.get(key.namespace, name)
        if watched is not None:
            slices = self._slices.labelled(SERVICE_NAME, key.namespace, name)
            seen = service_seen(watched, template_labels, _ready_by_revision(slices, revision_of))
            return replace(seen, slices_seen=any(each.metadata.controller_uid == seen.uid for each in slices))
        answer = self._inbox.service(key, name)
        if answer is None:
            return ServiceUnasked(name)
        read_at_s = now_s - self._inbox.age_s(answer)
        if answer.service is None:
            return ServiceAbsent(name, at_s=read_at_s)
        return replace(service_seen(answer.service, template_labels, {}), read_at_s=read_at_s, slices_seen=False)


def _beside(
    subsets: Mapping[ServiceRef, Service], services: Mapping[ServiceRef, Service], *, host: str
) -> dict[ServiceRef, Service]:
    """The subsets, and the Services without the subsets' host, which the subsets stand for.

    While the host is not known, any Service that we manage may be it, and none may be released.
    """
    return {**subsets, **{name: each for name, each in services.items() if host and name != host}}


def context_of(key: Key, spec: RolloutSpec, status: RolloutStatus) -> Context:
    """The two destinations between which a Rollout's routes split the requests."""
    stable, canary, ping_pong = "", "", False
    match with_roles(spec.strategy, status):
        case Canary(stable_service=stable_service, canary_service=canary_service, ping_pong=ping_pong):
            stable, canary = str(stable_service or ""), str(canary_service or "")
        case BlueGreen():
            pass
    return Context(
        rollout=key.name,
        namespace=key.namespace,
        stable=Destination(stable),
        canary=Destination(canary),
        ping_pong=ping_pong,
    )


def _ready_by_revision(slices: Iterable[EndpointSliceObject], revision_of: Mapping[str, str]) -> dict[str, int]:
    """Ready endpoints, each pod counted once (a dual-stack Service has a slice for each address family)."""
    revisions: dict[str, str] = {}
    for each in slices:
        for endpoint in each.endpoints or ():
            if endpoint.conditions.ready is False:  # absent means "unknown", which consumers treat as ready
                continue
            target = endpoint.target_ref
            if target is None or target.kind != "Pod":
                revisions[f"{each.metadata.name}#{len(revisions)}"] = ""
                continue
            # A ReplicaSet's pods are named after it, with five characters more (generateName).
            revisions[target.name] = revision_of.get(target.name[:-6], "")
    ready: dict[str, int] = {}
    for revision in revisions.values():
        ready[revision] = ready.get(revision, 0) + 1
    return ready


def _replica_set(seen: ReplicaSetObject) -> ReplicaSet:
    metadata, spec, status = seen.metadata, seen.spec, seen.status
    annotations = metadata.annotations or {}
    return ReplicaSet(
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        revision=(metadata.labels or {}).get(REVISION, ""),
        number=revision_number_of(annotations),
        created_at_s=time_or_0(metadata.creation_timestamp),
        spec_replicas=spec.replicas,
        replicas=status.replicas,
        ready=status.ready_replicas,
        available=status.available_replicas,
        terminating=status.terminating_replicas,
        observed=status.observed_generation >= metadata.generation,
        min_ready_s=spec.min_ready_seconds,
        pod_metadata=pod_metadata_of(annotations),
        pods_carry_metadata=pods_carry_metadata(annotations),
        injection=injection_of(annotations),
        grace_s=spec.template.spec.termination_grace_period_seconds,
        failure=next(
            (
                each.message
                for each in status.conditions or ()
                if each.type == "ReplicaFailure" and each.status == "True"
            ),
            "",
        ),
        deleting=metadata.deletion_timestamp is not None,
        abort_note=abort_note_of(annotations),
        restart_surge=min(restart_surge_of(annotations), spec.replicas),
        config=config_of(seen),
    )


def _orphan(seen: ReplicaSetObject, key: Key, spec: RolloutSpec) -> OrphanedReplicaSet:
    metadata = seen.metadata
    labels = metadata.labels or {}
    return OrphanedReplicaSet(
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        revision=labels.get(REVISION, ""),
        has_owners=bool(metadata.owner_references),
        problem=not_ours(
            metadata.name, labels, bytes(seen.spec.selector), rollout=key.name, users_selector=spec.selector_json
        ),
    )
