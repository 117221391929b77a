"""The Snapshot: what was seen at one moment, and the only input of `decide`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from msgspec import Struct, field

from rollouts.core.model.analysis import AnalysisGate, Draft, RunSeen
from rollouts.core.model.autoscaling import AutoscalingSeen
from rollouts.core.model.config import ConfigKind, ConfigPlan, ConfigUse, CopyLook, CopySeen, Source
from rollouts.core.model.drain import ProxyFacts
from rollouts.core.model.pod_exit import Injection
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import PodMetadata, Rollout
from rollouts.core.model.service_ref import ServiceRef
from rollouts.core.model.service_traits import PLAIN, ServicePort, ServiceTraits
from rollouts.core.model.status import AbortNote, RolloutStatus
from rollouts.core.model.traffic import Route, RouteName
from rollouts.core.model.workload import ReferencedWorkload, WorkloadSeen
from rollouts.core.model.workload_ref import WorkloadMode


class ReplicaSet(Struct, frozen=True, kw_only=True):
    """One revision's ReplicaSet, controlled by the Rollout.

    Args:
        revision: label `rollouts.dev/revision`.
        number: annotation `rollouts.dev/revision-number`, counts up; 0 when unreadable.
        spec_replicas: inside `decide` without those of `restart_surge`.
        abort_note: an abort that it grew for (annotation `rollouts.dev/abort-accepted`).
        restart_surge: extra pods for the time of a restart (annotation `rollouts.dev/restart-surge`).
        overcounted: while evictions are on record: pods that its status counts as available and the list of pods does not show
            as ready; they are taken out of `available`.
        counted: False while evictions are on record and its controller may not have counted the last of them.
        replicas, ready, available: pods it reports; stale while `observed` is False.
        terminating: pods that are still ending (KEP-3973); None when the server does not report them.
        observed: its controller has seen its latest spec.
        pod_metadata: the ephemeral metadata in its template.
        pods_carry_metadata: its pods were given `pod_metadata` too.
        injection: what was added to its template at its creation (annotation `rollouts.dev/pre-stop`).
        grace_s: `terminationGracePeriodSeconds` of its template, as it was admitted.
        failure: message of its ReplicaFailure condition (quota, admission).
        config: what its template names of the sources, as its annotation `rollouts.dev/config` notes; () without that
            annotation, None when it cannot be read.
        inside: the Deployment that is updated in place controls it, not the Rollout.
    """

    name: str
    uid: str
    resource_version: str
    revision: str
    number: int
    created_at_s: float
    spec_replicas: int
    replicas: int = 0
    ready: int = 0
    available: int = 0
    terminating: int | None = None
    observed: bool = True
    min_ready_s: int = 0
    pod_metadata: PodMetadata = PodMetadata()
    pods_carry_metadata: bool = True
    failure: str = ""
    injection: Injection | None = None
    grace_s: int | None = None
    deleting: bool = False
    restart_surge: int = 0
    overcounted: int = 0
    counted: bool = True
    abort_note: AbortNote | None = None
    config: tuple[ConfigUse, ...] | None = ()
    inside: bool = False

    @property
    def count_is_true(self) -> bool:
        """Whether its counts fit its present size: no deleted pod is still counted."""
        return self.observed and self.replicas <= self.spec_replicas + self.restart_surge

    @property
    def staying_available(self) -> int:
        """Available pods that stay: those above its size, and all of one that is being deleted, are on their way out."""
        return 0 if self.deleting else min(self.spec_replicas, self.available)

    @property
    def available_for_steps(self) -> int:
        """Available pods without those that a restart has added; more than `spec_replicas` while the set shrinks."""
        return max(min(self.spec_replicas, self.available), self.available - self.restart_surge)


class OrphanedReplicaSet(Struct, frozen=True, kw_only=True):
    """A ReplicaSet with the Rollout's name label and no controller: left by `kubectl delete --cascade=orphan`, or a stranger's.

    Args:
        has_owners: it has owners that do not control it.
        problem: why it is not ours although its label says so.
    """

    name: str
    uid: str
    resource_version: str
    revision: str
    has_owners: bool = False
    problem: str = ""


class ServiceSeen(Struct, frozen=True, kw_only=True):
    """A Service that the spec names, or that this Rollout manages.

    Args:
        revision: value of `rollouts.dev/revision` in its selector, "" when its selector has no such key.
        managed_by: name of the Rollout that manages it (annotation `rollouts.dev/managed-by`).
        watched: it carries the label `rollouts.dev/managed: "true"`, so its slices are watched.
        selects_template: its selector, without our key, matches the labels of the Rollout's pod template.
        ready_by_revision: ready endpoints in its EndpointSlices per revision; "" counts pods that are not ours.
        problem: why it cannot be managed, and what to do; "" when the other fields decide that.
        read_at_s: when it was read; None for one that a watch shows, whether its own or that of a route.
        ports: as they are in its spec.
        slices_seen: its EndpointSlices are seen. They get the label by which they are watched a moment after their Service.
    """

    name: ServiceRef
    uid: str
    resource_version: str
    revision: str
    managed_by: str
    watched: bool
    selects_template: bool = True
    has_selector: bool = True
    traits: ServiceTraits = PLAIN
    ready_by_revision: Mapping[str, int] = field(default_factory=dict)
    problem: str = ""
    read_at_s: float | None = None
    slices_seen: bool = True
    ports: tuple[ServicePort, ...] = ()


class ServiceAbsent(Struct, frozen=True):
    """The API server said at `at_s` that there is no such Service; no watch reports when it is created.

    Args:
        message: what is missing and what to do, unless it is simply the Service.
    """

    name: ServiceRef
    at_s: float
    message: str = ""


class ServiceUnasked(Struct, frozen=True):
    """A Service that is not watched and was not read yet, or whose answer is too old."""

    name: ServiceRef


Service: TypeAlias = ServiceSeen | ServiceAbsent | ServiceUnasked


class Pod(Struct, frozen=True, kw_only=True):
    """One pod of the Rollout, from a list that a pass asked for.

    Args:
        problem: why it is not ready in the kubelet's or scheduler's words: `CrashLoopBackOff: back-off 10s …`, "" if fine.
        ready_since_s: since when it is ready; None while it is not.
        node: where it runs; "" while that is not decided.
        claims: names of the PersistentVolumeClaims that it mounts.
    """

    name: str
    uid: str
    revision: str
    created_at_s: float
    ready: bool
    deleting: bool = False
    problem: str = ""
    ready_since_s: float | None = None
    resource_version: str = ""
    node: str = ""
    claims: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


class PodsSeen(Struct, frozen=True):
    """Answer to `AskPods`: all pods of the Rollout as they were at `at_s`.

    Args:
        unowned: how many more pods have a revision and the Rollout's labels: a ReplicaSet that is gone may have made them.
    """

    at_s: float
    pods: tuple[Pod, ...]
    unowned: int = 0


class EvictionRefused(Struct, frozen=True):
    """A PodDisruptionBudget refused an eviction at `at_s`."""

    at_s: float
    pod: str
    message: str


class CreationRefused(Struct, frozen=True, kw_only=True):
    """Why the ReplicaSet of `revision` was not created at `at_s`: the API server refused it, or the copy of a ConfigMap for it.

    Args:
        generation: of the Rollout, whose spec says what was to be created.
        again_s: seconds after which it is tried again, because rights, quotas and policies change without an event that we see.
    """

    revision: str
    at_s: float
    generation: int
    reason: Reason
    message: str
    again_s: float


class DrainSeen(Struct, frozen=True):
    """What the probes of `spec.drain` said about one revision at `at_s`.

    Args:
        in_flight: requests at its pods; None when a probe could not be asked (`message` says why), or none counts requests.
        streams: long streams at its pods, from the probes with a `max_s`; None when one could not be asked.
        age_s: how much older than `at_s` the counts may be: a scrape interval.
    """

    at_s: float
    in_flight: int | None
    message: str = ""
    streams: int | None = 0
    age_s: float = 0.0


class Snapshot(Struct, frozen=True, kw_only=True):
    """Everything one decision may depend on.

    Args:
        now_s: wall clock, seconds since 1970, read once for the pass.
        replica_sets: those that this Rollout's uid controls, or the Deployment that it updates in place.
        orphans: those with its name label that nobody controls; without those that are being deleted.
        services: by name: every Service that the spec names and every one whose `managed_by` is this Rollout. A subset of a
            DestinationRule counts as one.
        routes: every route that the spec's routers name, in their order, and every one that this Rollout still manages.
        drains: the last answer of the drain probes, by revision.
        pods: the last list of pods that a pass asked for, or those that a watch shows (`WorkloadSeen.in_place.needs_pods`).
        creation_refused: the last refusal of a ReplicaSet, or of a copy that it needs first.
        workload: the workload that the spec names; None when it names none.
        left_workloads: those that this Rollout still manages and the spec does not name.
        runs: the AnalysisRuns that this Rollout's uid controls.
        taken_runs: names of AnalysisRuns with one of our names that another owner has.
        drafts: by gate: the run that can be made there; only while an update is under way.
        sources: by kind and name: every source that the spec's template names, and that of every copy that is lost.
        copies: this Rollout's copies of ConfigMaps.
        copy_looks: the last answer about each copy of a Secret that a pass asked about, by name.
        config: what follows from them, once `decide` has worked it out; None where the template names no source.
        autoscaling: the last answer, to the gate that the spec has now.
        native_sleep: the server supports `preStop.sleep` (Kubernetes 1.34 and later).
        shares_pods_with: the Rollouts whose selector finds its pods, or whose pods its selector finds; as `Rollout cart`.
    """

    now_s: float
    rollout: Rollout
    status: RolloutStatus
    replica_sets: tuple[ReplicaSet, ...] = ()
    orphans: tuple[OrphanedReplicaSet, ...] = ()
    services: Mapping[ServiceRef, Service] = field(default_factory=dict)
    routes: Mapping[RouteName, Route] = field(default_factory=dict)
    drains: Mapping[str, DrainSeen] = field(default_factory=dict)
    pods: PodsSeen | None = None
    eviction_refused: EvictionRefused | None = None
    creation_refused: CreationRefused | None = None
    workload: ReferencedWorkload | None = None
    left_workloads: tuple[WorkloadSeen, ...] = ()
    runs: tuple[RunSeen, ...] = ()
    taken_runs: frozenset[str] = frozenset()
    drafts: Mapping[AnalysisGate, Draft] = field(default_factory=dict)
    sources: Mapping[tuple[ConfigKind, str], Source] = field(default_factory=dict)
    copies: tuple[CopySeen, ...] = ()
    copy_looks: Mapping[str, CopyLook] = field(default_factory=dict)
    config: ConfigPlan | None = None
    autoscaling: AutoscalingSeen | None = None
    proxy: ProxyFacts = ProxyFacts()
    native_sleep: bool = True
    shares_pods_with: tuple[str, ...] = ()


def is_in_place(seen: Snapshot) -> bool:
    """Whether the Rollout leaves its pods to the workload that it names."""
    ref = seen.rollout.spec.workload_ref
    return ref is not None and ref.mode is WorkloadMode.IN_PLACE
