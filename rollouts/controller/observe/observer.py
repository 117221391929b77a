"""Observes one Rollout at one instant, from the store, the inbox and one reading of the clock. No await, no network."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TypeAlias

import msgspec
from msgspec import Struct

from rollouts.api.spec.parse import parse_rollout, parse_spec
from rollouts.api.status.wire import status_from_wire
from rollouts.api.times import time_or_0
from rollouts.cluster.decoding import UnreadableObject, json_object
from rollouts.cluster.store import Store
from rollouts.cluster.structs import Metadata, ReplicaSetObject, RolloutObject, WorkloadObject
from rollouts.cluster.watch_state import FAILED_TELL_S
from rollouts.controller.configs.observed import Configs
from rollouts.controller.facts.gateway_lags import GatewayLags, names_of
from rollouts.controller.facts.proxies import ClusterFacts
from rollouts.controller.observe.analyses import Analyses
from rollouts.controller.observe.places import Place, places_of
from rollouts.controller.observe.replica_sets import labels_on_record, replica_set_seen
from rollouts.controller.observe.routes import RouteRead, RouteReader
from rollouts.controller.observe.services import ServiceReader, rule_of
from rollouts.controller.observe.workloads import (
    WorkloadLook,
    WorkloadReader,
    gives_the_same,
    template_json_of,
    template_of,
)
from rollouts.controller.workqueue.inbox import Inbox
from rollouts.controller.workqueue.managed import ManagedNames
from rollouts.controller.workqueue.owned import replica_sets_of
from rollouts.controller.workqueue.selectors import Selectors
from rollouts.controller.workqueue.standing_watches import WATCHED_KINDS
from rollouts.controller.workqueue.triggers import SERVICE_NAME
from rollouts.core.lifecycle.commands import spec_on_record
from rollouts.core.model.drain import ProxyFacts
from rollouts.core.model.frozen import replace
from rollouts.core.model.rollout import BlueGreen, Canary, Rollout, RolloutSpec, named_services
from rollouts.core.model.service_ref import ServiceRef
from rollouts.core.model.snapshot import OrphanedReplicaSet, Service, Snapshot
from rollouts.core.model.status import RolloutStatus
from rollouts.core.model.traffic import RouteName
from rollouts.core.model.workload import is_of
from rollouts.core.model.workload_ref import NamedWorkload, WorkloadMode
from rollouts.core.routing.ping_pong import with_roles
from rollouts.errors import ObjectUnreadable, SpecInvalid, SpecProblem, WatchFailed
from rollouts.manifests.adoption import not_ours
from rollouts.manifests.ownership import (
    NAME,
    REVISION,
    name_label,
)
from rollouts.objects import ENDPOINT_SLICE, POD, REPLICA_SET, ROLLOUT, SERVICE, Key, Kind, mapping
from rollouts.ports import Clock
from rollouts.recent import Recent
from rollouts.traffic.codec import Context, Destination

PARSED_MAX = 2_000  # specs kept parsed: 10 KB each; idle Rollouts need none


class Gone(Struct, frozen=True):
    """The Rollout does not exist."""


class Seen(Struct, frozen=True, kw_only=True):
    """A Rollout whose spec can be carried out.

    Args:
        status_json: `.status` as the API server has it; a patch is computed against it.
        routes: the objects behind the snapshot's routes; a write to a route is computed against them.
        trouble: why the snapshot is incomplete, so that nothing may be decided on it; None when it is complete.
    """

    metadata: Metadata
    snapshot: Snapshot
    status_json: bytes
    routes: Mapping[RouteName, RouteRead] = msgspec.field(default_factory=dict)
    trouble: ObjectUnreadable | WatchFailed | None = None


class Unreadable(Struct, frozen=True, kw_only=True):
    """A Rollout whose spec cannot be carried out, with all its problems.

    Args:
        snapshot: with the spec that status knows, its revision and its steps, and nothing else of a spec.
        trouble: as for `Seen`.
        in_place: the pods are those of a workload, which is not looked at.
    """

    metadata: Metadata
    problems: tuple[SpecProblem, ...]
    snapshot: Snapshot
    status_json: bytes
    trouble: ObjectUnreadable | WatchFailed | None = None
    in_place: bool = False


class Illegible(Struct, frozen=True):
    """A Rollout object that cannot be decoded. Its status is unknown, so it cannot be written either."""

    metadata: Metadata
    trouble: ObjectUnreadable


class Undecided(Struct, frozen=True):
    """A Rollout that names a traffic provider which is not known yet, or whose pods are not listed. Its key is queued then."""


Observation: TypeAlias = Seen | Unreadable | Illegible | Undecided | Gone


class _Parsed(Struct, frozen=True):
    """A parsed spec, kept for each version of what it was parsed of: parsing costs more than the rest of a pass.

    Args:
        version: generation of the Rollout, and version of the providers.
        taken: the workload that gave the template.
        reference: to that workload, also where the spec with its template cannot be used.
        spec: without the text of that template, which is in memory with the workload.
    """

    version: tuple[int, int]
    taken: WorkloadObject | None
    reference: NamedWorkload | None
    spec: RolloutSpec | tuple[SpecProblem, ...]
    places: tuple[Place, ...] = ()


@dataclass(slots=True, kw_only=True, eq=False)
class Observer:
    """Takes snapshots.

    Args:
        routes: reads the routes that the spec's routers name; None to read no routes.
        facts: returns the known facts about the cluster; by default nothing is known, and the waits are the safe ones.
        lags: the measured lags of gateways; None without measurements.
        analyses: reads AnalysisRuns and templates; None where there are none.
        configs: reads sources of configuration and their copies; None to leave all references of templates as they are.
        workloads: reads the workloads that specs name; None where there are none.
        command_notes: whether the API server notes who gave a command.
    """

    store: Store
    inbox: Inbox
    managed: ManagedNames
    clock: Clock
    routes: RouteReader | None = None
    facts: Callable[[], ClusterFacts] = ClusterFacts
    lags: GatewayLags | None = None
    analyses: Analyses | None = None
    configs: Configs | None = None
    workloads: WorkloadReader | None = None
    command_notes: bool = False
    selectors: Selectors = field(default_factory=Selectors)
    _parsed: Recent[str, _Parsed] = field(default_factory=partial(Recent, PARSED_MAX))
    _read: Recent[str, tuple[RolloutObject, RolloutStatus]] = field(default_factory=partial(Recent, PARSED_MAX))

    def observe(self, key: Key) -> Observation:
        """Everything that a decision about `key` may depend on, as it is now. Raises: nothing on purpose."""
        rollouts = self.store.table(ROLLOUT)
        if (illegible := rollouts.unreadable.get((key.namespace, key.name))) is not None:
            return Illegible(illegible.metadata, _unreadable_error(ROLLOUT, illegible))
        rollout: RolloutObject | None = rollouts.get(key.namespace, key.name)
        if rollout is None:
            return Gone()
        now_s, metadata = self.clock.now_s(), rollout.metadata
        status = self._status(rollout)
        parsed = self._with_workload(key, rollout, now_s=now_s)
        if parsed is None:
            return Undecided()
        spec = parsed.spec
        ours = replica_sets_of(self.store.table(REPLICA_SET), key, metadata.uid)
        replica_sets = tuple(map(replica_set_seen, ours))
        if not isinstance(spec, RolloutSpec):
            on_record = self._rollout(rollout, spec_on_record(status))
            snapshot = Snapshot(now_s=now_s, rollout=on_record, status=status, replica_sets=replica_sets)
            return self._refused(key, rollout, spec, snapshot)
        look = WorkloadLook(spec=spec, replica_sets=replica_sets)
        if self.workloads is not None:
            look = self.workloads.in_place(key, spec, replica_sets, now_s=now_s)
            spec, replica_sets = look.spec, look.replica_sets
        facts, answers = self.facts(), self.inbox.of(key)
        routes: Mapping[RouteName, RouteRead] = {}
        if self.routes is not None:
            context = context_of(key, spec, status)
            routes = self.routes.read(key, parsed.places, context, now_s=now_s, elsewhere=status.elsewhere)
        revision_of = {replica_set.name: replica_set.revision for replica_set in replica_sets}
        labels = spec.template_labels if spec.template_hash else labels_on_record(ours, status.current_revision)
        reader = ServiceReader(self.store, self.inbox, key, labels, revision_of, now_s, spec.revision_label)
        named = (name for name in named_services(spec.strategy) if isinstance(name, str))
        services: dict[ServiceRef, Service] = {
            name: reader.service(name) for name in sorted({*named, *self.managed.of(key)})
        }
        if (rule := rule_of(routes)) is not None:
            rule = replace(rule, host=reader.host(rule))
            routes = {**routes, rule.place.route: rule}
            services = reader.with_subsets(rule, services)
        snapshot = Snapshot(
            now_s=now_s,
            rollout=self._rollout(rollout, spec),
            status=status,
            replica_sets=replica_sets,
            orphans=self._orphans(key, spec),
            services=services,
            routes={name: read.route for name, read in routes.items() if not read.place.target.subsets},
            drains=answers.drained,
            pods=self.inbox.pods.get(key),
            eviction_refused=answers.eviction_refused,
            creation_refused=answers.creation_refused,
            autoscaling=self.inbox.autoscaling(key, gate) if (gate := spec.autoscaling) is not None else None,
            proxy=self._with_gateways(facts.proxy, routes.values()),
            native_sleep=facts.native_sleep,
            shares_pods_with=self.selectors.of(key),
        )
        if self.workloads is not None:
            snapshot = self.workloads.observed(snapshot, look)
        if self.configs is not None:
            snapshot = self.configs.observed(snapshot, answers.copies)
        if self.analyses is not None:
            snapshot = self.analyses.observed(snapshot, rollout, answers.templates)
        trouble = self._trouble(key, metadata.uid, services, routes.values(), spec.workload_ref)
        status_json = bytes(rollout.status)
        return Seen(metadata=metadata, snapshot=snapshot, status_json=status_json, routes=routes, trouble=trouble)

    def _refused(
        self, key: Key, rollout: RolloutObject, problems: tuple[SpecProblem, ...], snapshot: Snapshot
    ) -> Unreadable:
        reference = mapping(json_object(bytes(rollout.spec)).get("workloadRef"))
        return Unreadable(
            metadata=rollout.metadata,
            problems=problems,
            snapshot=snapshot,
            status_json=bytes(rollout.status),
            trouble=self._trouble(key, rollout.metadata.uid, (), ()),
            in_place=reference.get("mode") == WorkloadMode.IN_PLACE,
        )

    def _orphans(self, key: Key, spec: RolloutSpec) -> tuple[OrphanedReplicaSet, ...]:
        """ReplicaSets with the Rollout's label that nobody controls."""
        found = self.store.table(REPLICA_SET).orphans(key.namespace, name_label(key.name))
        return tuple([_orphan(orphan, key, spec) for orphan in found if not orphan.metadata.deletion_timestamp])

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
            notes=self.command_notes,
        )

    def forget(self, key: Key, uid: str) -> None:
        """Drops what is known of a Rollout that is gone."""
        self._parsed.pop(uid, None)
        self._read.pop(uid, None)
        if self.analyses is not None:
            self.analyses.forget(key, uid)
        if self.configs is not None:
            self.configs.forget(key)
        if self.workloads is not None:
            self.workloads.forget(key)

    def _trouble(
        self,
        key: Key,
        uid: str,
        services: Collection[ServiceRef],
        routes: Collection[RouteRead],
        workload: NamedWorkload | None = None,
    ) -> ObjectUnreadable | WatchFailed | None:
        """Why no decision about the Rollout of that key and uid can be made now; None when it can. O(1) while all is well.

        An object that cannot be seen is not absent: a ReplicaSet that cannot be read still has its pods. So nothing is
        decided, and status says why.
        """
        others = [(read.kind, read.place.target.namespace) for read in routes]
        if workload is not None:
            others.append((workload.kind.resource, key.namespace))
        for kind, namespace in (*((kind, key.namespace) for kind in WATCHED_KINDS), *others):
            table = self.store.watched(kind)
            if table is None or not table.covers(namespace):
                continue
            watch = table.watch(namespace)
            failing_s = watch.failing_for_s(now_s=self.clock.monotonic_s())
            if failing_s >= FAILED_TELL_S:
                return self._watch_failed(kind, failing_s, watch.trouble)
        watched_pods = None if self.workloads is None else self.workloads.watched_pods
        if watched_pods is not None and (failing := watched_pods.failing(key))[0] >= FAILED_TELL_S:
            return self._watch_failed(POD, *failing)
        if workload is not None:
            resource = workload.kind.resource
            if (unread := self.store.table(resource).unreadable.get((key.namespace, workload.name))) is not None:
                return _unreadable_error(resource, unread)
        for kind, unreadable_object in self._unreadable(key, self._owners(key, uid, workload), services, routes):
            return _unreadable_error(kind, unreadable_object)
        return None

    def _watch_failed(self, kind: Kind, failing_s: float, trouble: str) -> WatchFailed:
        since = datetime.fromtimestamp(self.clock.now_s() - failing_s, UTC).strftime("%Y-%m-%dT%H:%MZ")
        return WatchFailed(
            f"the watch of {kind.plural} has failed since {since}; nothing is decided until it works: {trouble}; "
            f"check that the controller's ServiceAccount may list and watch {kind.plural}"
        )

    def _owners(self, key: Key, uid: str, workload: NamedWorkload | None) -> Collection[str]:
        """uids of the controllers of the Rollout's ReplicaSets: itself, and the Deployment that it updates in place."""
        if workload is None or workload.mode is not WorkloadMode.IN_PLACE:
            return (uid,)
        seen: WorkloadObject | None = self.store.table(workload.kind.resource).get(key.namespace, workload.name)
        return (uid,) if seen is None else (uid, seen.metadata.uid)

    def _unreadable(
        self, key: Key, owners: Collection[str], services: Collection[ServiceRef], routes: Iterable[RouteRead]
    ) -> Iterator[tuple[Kind, UnreadableObject]]:
        """Those that the Rollout depends on; usually there is none in the whole cluster.

        Args:
            owners: uids of the controllers of its ReplicaSets.
        """
        depends: Mapping[Kind, Callable[[Metadata], bool]] = {
            REPLICA_SET: lambda seen: (
                seen.controller_uid in owners
                or (seen.controller_uid is None and (seen.labels or {}).get(NAME) == name_label(key.name))
            ),
            SERVICE: lambda seen: seen.name in services,
            ENDPOINT_SLICE: lambda seen: (seen.labels or {}).get(SERVICE_NAME) in services,
        }
        for kind, is_needed in depends.items():
            unread = self.store.table(kind).unreadable
            yield from (
                (kind, unread[at]) for at in unread if at[0] == key.namespace and is_needed(unread[at].metadata)
            )
        for read in routes:
            target = read.place.target
            for kind, name in ((read.kind, target.name), (read.owned_kind, target.owned_name)):
                table = self.store.watched(kind)
                if table is not None and (route := table.unreadable.get((target.namespace, name))) is not None:
                    yield kind, route

    def _status(self, rollout: RolloutObject) -> RolloutStatus:
        """The Rollout's status, read once for each version of the object, because most passes have another cause."""
        uid = rollout.metadata.uid
        known = self._read.get(uid)
        if known is None or known[0] is not rollout:
            known = self._read[uid] = (rollout, status_from_wire(json_object(bytes(rollout.status))))
        return known[1]

    def _with_workload(self, key: Key, rollout: RolloutObject, *, now_s: float) -> _Parsed | None:
        """The spec with the template of the workload that it names, if that can be used; None while its pods are listed."""
        parsed = self._parsed.get(rollout.metadata.uid)
        if parsed is None or parsed.version != self._version(rollout):
            parsed = self._parse(rollout)
        if self.workloads is None or parsed is None:
            return parsed
        reference, workload = parsed.reference, None
        if reference is not None:
            workload = self.workloads.workload(key, reference, now_s=now_s)
            found = self.workloads.found(key, reference) if is_of(workload, key.name) else None
            parsed = self._parse(rollout, found, reference)
            if parsed is not None and found is not None and isinstance(parsed.spec, RolloutSpec):
                parsed = replace(parsed, spec=replace(parsed.spec, template_json=template_json_of(found)))
        self.workloads.follow(key, reference, workload)
        selector = parsed.spec.selector_text if parsed is not None and isinstance(parsed.spec, RolloutSpec) else ""
        return parsed if self.workloads.pods_known(key, workload, selector) else None

    def _version(self, rollout: RolloutObject) -> tuple[int, int]:
        return rollout.metadata.generation, self.routes.version if self.routes is not None else 0

    def _parse(
        self, rollout: RolloutObject, workload: WorkloadObject | None = None, reference: NamedWorkload | None = None
    ) -> _Parsed | None:
        """The parsed spec, with the template of that workload; None while one of its providers is not known yet."""
        uid, reader = rollout.metadata.uid, self.routes
        version = self._version(rollout)
        parsed = self._parsed.get(uid)
        if parsed is not None and parsed.version == version and gives_the_same(parsed.taken, workload):
            if parsed.taken is not workload:  # the store has forgotten the one before
                parsed = self._parsed[uid] = replace(parsed, taken=workload)
            self._parsed.move_to_end(uid)
            return parsed
        try:
            template = template_of(workload) if workload is not None else None
            spec = parse_spec(bytes(rollout.spec) or b"{}", template)
            if template is not None:
                spec = replace(spec, template_json=b"")  # `_with_workload` gives it back
            if self.configs is None and spec.config_refs:
                spec = replace(spec, config_refs=())
            places: tuple[Place, ...] = ()
            if reader is not None:
                if reader.undecided(spec):
                    return None
                places = places_of(spec, reader.providers, namespace=rollout.metadata.namespace)
            parsed = _Parsed(version, workload, spec.workload_ref, spec, places)
        except SpecInvalid as exc:
            parsed = _Parsed(version, workload, reference, exc.problems)
        self._parsed[uid] = parsed
        return parsed

    def _with_gateways(self, proxy: ProxyFacts, routes: Iterable[RouteRead]) -> ProxyFacts:
        """`proxy` with the measured lag of the Rollout's gateways."""
        names = {name for read in routes for name in names_of(read.gateways, read.place.route)}
        lag_s = self.lags.slowest_s(names) if self.lags is not None and names else None
        return proxy if lag_s is None else replace(proxy, gateway_lag_s=lag_s)


def context_of(key: Key, spec: RolloutSpec, status: RolloutStatus) -> Context:
    """The two destinations between which a Rollout's routes split the requests."""
    match with_roles(spec.strategy, status):
        case Canary(stable_service=stable_service, canary_service=canary_service, ping_pong=ping_pong):
            stable, canary = Destination(str(stable_service or "")), Destination(str(canary_service or ""))
        case BlueGreen():
            stable, canary, ping_pong = Destination(""), Destination(""), False
    return Context(rollout=key.name, namespace=key.namespace, stable=stable, canary=canary, ping_pong=ping_pong)


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


def _unreadable_error(kind: Kind, seen: UnreadableObject) -> ObjectUnreadable:
    metadata = seen.metadata
    where = f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name
    return ObjectUnreadable(
        f"the controller cannot read {kind.kind} {where}, and decides nothing until it can: {seen.why}; repair it or delete it"
    )
