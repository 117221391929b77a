"""The world as the API server has it, in the words of the core: nothing late, nothing filtered.

The history of the simulated cluster tells it, read by `reading.py`: the controller's Store and Observer have no part.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from rollouts.api.spec.analysis.arguments import Updated
from rollouts.api.spec.analysis.in_rollouts import use_in
from rollouts.api.spec.analysis.templates import TemplateName, run_of
from rollouts.api.spec.experiment_step import PodsBeside, experiment_of, pods_beside
from rollouts.api.status.wire import status_from_wire
from rollouts.core.model.analysis import AnalysisGate, AnalysisKind, Draft, DraftProblem, RunDraft
from rollouts.core.model.drain import ProxyFacts, ProxyMode
from rollouts.core.model.frozen import replace
from rollouts.core.model.rollout import Canary, Rollout, RolloutSpec, analyses, named_services
from rollouts.core.model.service_ref import ServiceRef
from rollouts.core.model.snapshot import PodsSeen, ReplicaSet, ServiceSeen, Snapshot
from rollouts.core.model.status import RolloutStatus
from rollouts.errors import SpecInvalid
from rollouts.objects import (
    ANALYSIS_RUN,
    ANALYSIS_TEMPLATE,
    CLUSTER_ANALYSIS_TEMPLATE,
    ENDPOINT_SLICE,
    EXPERIMENT,
    POD,
    REPLICA_SET,
    ROLLOUT,
    SERVICE,
    Key,
    Manifest,
)
from rollouts.sim.actors.endpointslices import SERVICE_NAME
from rollouts.sim.cluster import SimulatedCluster
from rollouts.sim.storage.history import DELETED, CommittedWrite, Stored
from tests.behaviour import reading
from tests.behaviour.config_truth import ConfigTruth
from tests.behaviour.in_place_truth import POD_TEMPLATE_HASH, InPlaceTruth
from tests.behaviour.reading import MANAGED, NAME, REVISION, controller_of, is_owned_by, labels_of
from tests.behaviour.route_truth import Place, RouteTruth, host_of
from tests.behaviour.standing import StandingPods
from tests.behaviour.workload_truth import STORED, WorkloadTruth

FACTS = ProxyFacts(mode=ProxyMode.IPTABLES, known_by="the simulated cluster", min_sync_period_s=1.0)


class Truth:
    """Follows the history of a simulated cluster.

    Args:
        by_us: whether what happens at this moment is a controller's own request.
    """

    def __init__(self, cluster: SimulatedCluster, *, by_us: Callable[[], bool]) -> None:
        self._cluster = cluster
        self.config = ConfigTruth(cluster)
        self.routes = RouteTruth(cluster)
        self.workloads = WorkloadTruth(cluster)
        self.in_place = InPlaceTruth(cluster, self.workloads)
        self.deleted_at_s = -float("inf")
        """Loop time of the last deletion of a Rollout."""
        self._earlier: deque[tuple[float, Rollout]] = deque(maxlen=8)
        self._specs: dict[tuple[str, int, str], RolloutSpec] = {}
        self._revisions: dict[tuple[str, str], str] = {}
        self._standing = StandingPods(cluster, by_us=by_us)
        cluster.api.history.listen(ROLLOUT, self._follow)
        cluster.api.history.listen(POD, self._follow_pod)
        for kind in STORED.values():
            cluster.api.history.listen(kind, self._follow_workload)

    def snapshot(self, key: Key) -> Snapshot | None:
        """What a controller that sees everything at once would see; None when there is no Rollout that can be carried out.

        No more pods are available than there are: a ReplicaSet counts those that were just deleted for a while.
        """
        manifest = self._cluster.get(ROLLOUT, key.namespace, key.name)
        of = self._rollout(manifest) if manifest is not None else None
        if manifest is None or of is None:
            return None
        status = self.status(key)
        try:
            places = self.routes.places(of, status)
        except SpecInvalid:
            return None
        sets = [each for each in self._cluster.list(REPLICA_SET, key.namespace) if is_owned_by(each, of.uid)]
        runs = [each for kind in (ANALYSIS_RUN, EXPERIMENT) for each in self._cluster.list(kind, key.namespace)]
        now_s = self._cluster.clock.now_s()
        seen = Snapshot(
            now_s=now_s,
            rollout=of,
            status=status,
            replica_sets=tuple(map(self._replica_set, sets)),
            workload=self.workloads.seen(manifest),
            left_workloads=self.workloads.left(key, manifest),
            orphans=tuple(reading.orphan(each, manifest) for each in self._orphans(key)),
            services=self._services(of, places),
            routes=self.routes.routes(places, of),
            pods=PodsSeen(now_s, tuple(map(reading.pod, self._pods(key)))),
            runs=tuple(
                reading.run(each, self._ready_of_experiments(key)) for each in runs if is_owned_by(each, of.uid)
            ),
            taken_runs=frozenset(each["metadata"]["name"] for each in runs if not is_owned_by(each, of.uid)),
            drafts={gate: self._draft(of, status, manifest, gate, sets) for gate in analyses(of.spec.strategy)},
            sources=self.config.sources(of),
            copies=self.config.copies(of),
            proxy=FACTS,
        )
        in_place = self.in_place.of(manifest)
        return seen if in_place is None else in_place.joined(seen)

    def snapshots(self, key: Key, *, grace_s: float) -> list[Snapshot]:
        """The same, now and with each spec and source that somebody has replaced, or copy deleted, in the last `grace_s` seconds.

        And with the pods that somebody took away in this very moment.
        A pass that was under way then cannot have known better: no write can be bound to two objects.
        """
        now = self.snapshot(key)
        if now is None:
            return []
        since_s = asyncio.get_running_loop().time() - grace_s
        return [
            now,
            *(
                replace(now, rollout=each)
                for at_s, each in self._earlier
                if at_s >= since_s and each.uid == now.rollout.uid
            ),
            *(replace(now, sources={**now.sources, **each}) for each in self.config.earlier(since_s=since_s)),
            *(replace(now, copies=(*now.copies, each)) for each in self.config.deleted(now.rollout, since_s=since_s)),
            *([replace(now, replica_sets=seen)] if (seen := self._with_lost_pods(now)) != now.replica_sets else ()),
        ]

    def places(self, key: Key) -> list[Place]:
        """The routes of the Rollout; none while its spec cannot be carried out."""
        manifest = self._cluster.get(ROLLOUT, key.namespace, key.name)
        of = self._rollout(manifest) if manifest is not None else None
        with suppress(SpecInvalid):
            return self.routes.places(of, self.status(key)) if of is not None else []
        return []

    def status(self, key: Key) -> RolloutStatus:
        """The Rollout's status, also of one whose spec cannot be read."""
        manifest = self._cluster.get(ROLLOUT, key.namespace, key.name) or {}
        return status_from_wire(manifest.get("status") or {})

    def _rollout(self, manifest: Manifest) -> Rollout | None:
        """None for a spec that cannot be carried out. A spec is parsed once for each template."""
        metadata, template = manifest["metadata"], self.workloads.template(manifest)
        version = (metadata["uid"], metadata["generation"], repr(template))
        try:
            found = reading.rollout(manifest, self._specs.get(version), template)
        except SpecInvalid:
            return None
        self._specs[version] = found.spec
        return found

    def _replica_set(self, found: Manifest) -> ReplicaSet:
        seen = reading.replica_set(found)
        return replace(seen, available=min(seen.available, self._standing.of(seen.uid)))

    def _with_lost_pods(self, now: Snapshot) -> tuple[ReplicaSet, ...]:
        """The ReplicaSets, with the available pods that were taken from them a moment ago, by neither us nor their controller."""
        return tuple(
            replace(each, available=each.available + self._standing.lost_unseen(each.uid)) for each in now.replica_sets
        )

    def _orphans(self, key: Key) -> list[Manifest]:
        return [
            each
            for each in self._cluster.list(REPLICA_SET, key.namespace)
            if labels_of(each).get(NAME) == key.name
            and controller_of(each) is None
            and "deletionTimestamp" not in each["metadata"]
        ]

    def _pods(self, key: Key) -> list[Stored]:
        found = self._cluster.api.history.select(POD, key.namespace)
        return [each for each in found if each.labels.get(NAME) == key.name and REVISION in each.labels]

    def _services(self, of: Rollout, places: list[Place]) -> Mapping[ServiceRef, ServiceSeen]:
        """Those that the spec names and those that carry the Rollout's mark, and the subsets that stand for some of them."""
        slices = self._cluster.list(ENDPOINT_SLICE, of.namespace)
        found: dict[ServiceRef, ServiceSeen] = {}
        for each in self._cluster.list(SERVICE, of.namespace):
            name = each["metadata"]["name"]
            its = [one for one in slices if labels_of(one).get(SERVICE_NAME) == name]
            ready = Counter(self._revisions.get((of.namespace, pod), "") for pod in set(reading.ready_endpoints(its)))
            found[name] = reading.service(each, ready, slices_seen=any(MANAGED in labels_of(one) for one in its))
        subsets = self.routes.subsets(places, of, found)
        hosts = {host_of(each) for each in places if each.target.subsets}
        ours = {
            name: each
            for name, each in found.items()
            if (name in named_services(of.spec.strategy) or each.managed_by == of.name) and name not in hosts
        }
        return {**subsets, **ours}

    def _ready_of_experiments(self, key: Key) -> dict[str, int]:
        """Ready pods by Service, of those that Experiments have."""
        slices, found = self._cluster.list(ENDPOINT_SLICE, key.namespace), dict[str, int]()
        for each in self._cluster.list(SERVICE, key.namespace):
            if reading.EXPERIMENT in labels_of(each):
                name = each["metadata"]["name"]
                its = [one for one in slices if labels_of(one).get(SERVICE_NAME) == name]
                found[name] = len(set(reading.ready_endpoints(its)))
        return found

    def _draft(
        self, of: Rollout, status: RolloutStatus, manifest: Manifest, gate: AnalysisGate, sets: Iterable[Manifest]
    ) -> Draft:
        """The run, or the Experiment, that the templates of now make there."""

        def find(name: TemplateName) -> Manifest | None:
            kind, namespace = (
                (CLUSTER_ANALYSIS_TEMPLATE, "") if name.cluster_scope else (ANALYSIS_TEMPLATE, of.namespace)
            )
            found = self._cluster.get(kind, namespace, name.name)
            return found["spec"] if found is not None else None

        updated = Updated(manifest=manifest, stable=status.stable_revision, latest=status.current_revision)
        analysis = analyses(of.spec.strategy)[gate]
        try:
            if gate.kind is AnalysisKind.EXPERIMENT:
                name = (of.spec.strategy.stable_service if isinstance(of.spec.strategy, Canary) else None) or ""
                service = self._cluster.get(SERVICE, of.namespace, str(name))
                return experiment_of(analysis, find, updated, _beside(of, status, sets, service))
            spec = run_of(use_in(analysis), find, updated)
        except SpecInvalid as invalid:
            return DraftProblem(str(invalid))
        return RunDraft(spec_json=json.dumps(spec).encode(), latest=updated.latest, stable=updated.stable)

    def _follow(self, change: CommittedWrite) -> None:
        now_s, before = asyncio.get_running_loop().time(), change.old
        if before is not None and before.metadata["generation"] != change.new.metadata["generation"]:
            earlier = self._rollout(before.manifest)
            self._earlier += [(now_s, earlier)] if earlier is not None else []
        if change.event == DELETED:
            self.deleted_at_s = now_s

    def _follow_workload(self, change: CommittedWrite) -> None:
        """A Rollout may act for a moment on the template that its workload had."""
        now_s, before, namespace = asyncio.get_running_loop().time(), change.old, change.new.key[0]
        for manifest in self._cluster.list(ROLLOUT, namespace) if before is not None else ():
            metadata = manifest["metadata"]
            for (uid, generation, _), spec in tuple(self._specs.items()):
                if (uid, generation) == (metadata["uid"], metadata["generation"]) and spec.workload_ref is not None:
                    self._earlier.append((now_s, reading.rollout(manifest, spec)))

    def _follow_pod(self, change: CommittedWrite) -> None:
        """What a slice shows may be gone already."""
        labels = change.new.labels
        self._revisions[change.new.key] = labels.get(REVISION) or labels.get(POD_TEMPLATE_HASH, "")


def _beside(of: Rollout, status: RolloutStatus, sets: Iterable[Manifest], service: Manifest | None) -> PodsBeside:
    """The pods of both revisions, of which an Experiment makes more."""
    of_revision = {labels_of(each).get(REVISION, ""): each for each in sets}
    roles = {"stable": status.stable_revision, "canary": status.current_revision}
    there = {role: of_revision[revision] for role, revision in roles.items() if revision in of_revision}
    return replace(
        pods_beside(of.spec),
        sets={role: (each["metadata"]["name"], each["metadata"]["uid"]) for role, each in there.items()},
        templates={role: json.dumps(each["spec"]["template"]).encode() for role, each in there.items()},
        ports=None if service is None else tuple(map(reading.port, service["spec"]["ports"])),
    )
