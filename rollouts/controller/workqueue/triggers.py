"""Which Rollouts need a pass after one change in the cluster. No scans, and no pass for fields that no decision reads.

The reason for a wake-up is not passed on: `decide` looks at the world, not at what happened to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, TypeAlias, assert_never

from rollouts.cluster.store import NamespacedName, Store
from rollouts.cluster.structs import (
    STRUCTS,
    AnalysisRunObject,
    AnalysisTemplateObject,
    ConfigMapObject,
    EndpointSliceObject,
    ExperimentObject,
    Metadata,
    ReplicaSetObject,
    RolloutObject,
    RouteObject,
    ServiceObject,
    WorkloadObject,
)
from rollouts.controller.workqueue.askers import Askers, SourceKey
from rollouts.controller.workqueue.inbox import Inbox
from rollouts.controller.workqueue.managed import is_rollout, managed_by, manager_of
from rollouts.controller.workqueue.runs_seen import RunsSeen
from rollouts.controller.workqueue.selectors import Selectors
from rollouts.core.model.analysis import AnalysisKind, RunSeen
from rollouts.core.model.config import ConfigKind
from rollouts.core.model.frozen import replace
from rollouts.manifests.ownership import LABEL_VALUE_MAX, NAME, name_label
from rollouts.objects import EXPERIMENT, ROLLOUT, SERVICE, Key, Kind

SERVICE_NAME = "kubernetes.io/service-name"
"""Label of an EndpointSlice: the Service it belongs to (KEP-752)."""

Watched: TypeAlias = (
    RolloutObject
    | ReplicaSetObject
    | ServiceObject
    | EndpointSliceObject
    | RouteObject
    | AnalysisRunObject
    | ExperimentObject
    | AnalysisTemplateObject
    | ConfigMapObject
    | WorkloadObject
)
"""The kinds that the controller watches."""

_METADATA = attrgetter("uid", "generation", "deletion_timestamp", "labels", "annotations", "owner_references")
_CONTENT: Mapping[type[Watched], Callable[[Any], object]] = {
    RolloutObject: attrgetter("spec", "status"),
    ReplicaSetObject: attrgetter("spec", "status"),
    ServiceObject: attrgetter("spec"),
    EndpointSliceObject: attrgetter("endpoints"),
    RouteObject: attrgetter("spec", "status"),  # its status says which gateways accepted it
    AnalysisTemplateObject: attrgetter("spec"),
    WorkloadObject: attrgetter("spec", "status", "template"),
}
"""What decisions read. Of a ConfigMap only a read of the new version says whether its content is another one."""


@dataclass(slots=True, kw_only=True, eq=False)
class Triggers:
    """Finds the keys that a change concerns.

    Args:
        inbox: knows which Rollouts asked about a Service or a route while it was not watched.
        store: shows each change already.
        runs: reads AnalysisRuns.
        templates: knows which Rollouts depend on a template, or on a run of somebody else, while their update is under way.
        sources: knows which Rollouts name a source of configuration.
    """

    inbox: Inbox
    store: Store
    runs: RunsSeen
    templates: Askers[NamespacedName]
    sources: Askers[SourceKey]
    selectors: Selectors = field(default_factory=Selectors, init=False)
    """Which Rollouts find each other's pods; each change of a Rollout that comes here is learnt."""

    def keys(self, before: Watched | None, after: Watched | None) -> frozenset[Key]:
        """Rollouts whose next decision may differ after this change.

        Args:
            before: None for an object that is new, or new to a label-filtered watch.
            after: None for an object that is gone.
        """
        others: frozenset[Key] = frozenset()
        if isinstance(before, RolloutObject | None) and isinstance(after, RolloutObject | None):
            others = self.selectors.learn(before, after)
        if before is not None and after is not None and self._says_the_same(before, after):
            return others
        if isinstance(before, AnalysisRunObject | ExperimentObject) and after is None:
            self.runs.forget(before.metadata.uid)
        return others | frozenset(key for each in (before, after) if each is not None for key in self._keys_of(each))

    def keys_of_unreadable(self, kind: Kind, metadata: Metadata) -> frozenset[Key]:
        """Rollouts that an object concerns that cannot be read: by what is known of its metadata, and by its version before."""
        before: Watched | None = self.store.table(kind).get(metadata.namespace, metadata.name)
        keys = frozenset[Key]() if before is None else self.keys(None, before)
        return keys | self.keys(None, STRUCTS.get(kind, RouteObject)(metadata=metadata))

    def _keys_of(self, seen: Watched) -> Iterable[Key]:
        namespace = seen.metadata.namespace
        match seen:
            case RolloutObject():
                return (Key(namespace, seen.metadata.name),)
            case ReplicaSetObject() if seen.metadata.controller_uid is None:  # some Rollout may adopt it
                return self._named(namespace, (seen.metadata.labels or {}).get(NAME, ""))
            case ReplicaSetObject():
                if seen.metadata.is_in_a_deployment:  # updated in place
                    return self._named(namespace, (seen.metadata.labels or {}).get(NAME, ""))
                return _controller_keys(seen.metadata)
            case ServiceObject():
                return self._keys_of_service(namespace, seen.metadata.name, seen)
            case EndpointSliceObject():
                name = (seen.metadata.labels or {}).get(SERVICE_NAME, "")
                return self._keys_of_service(namespace, name, self.store.table(SERVICE).get(namespace, name))
            case RouteObject():
                askers, owner = self.inbox.route_askers.of((namespace, seen.metadata.name)), manager_of(seen)
                return askers if owner is None else askers | {owner}
            case AnalysisRunObject() | ExperimentObject():
                return (*_controller_keys(seen.metadata), *self.templates.of((namespace, seen.metadata.name)))
            case AnalysisTemplateObject():
                return self.templates.of((namespace, seen.metadata.name))
            case WorkloadObject():
                rollout = managed_by(seen)
                naming = self.inbox.workload_askers.of((namespace, seen.metadata.name))
                return {Key(namespace, rollout)} | naming if rollout else naming
            case ConfigMapObject():  # of a copy, its label names the Rollout
                of_copy = self._named(namespace, (seen.metadata.labels or {}).get(NAME, ""))
                return (*of_copy, *self.sources.of((ConfigKind.CONFIG_MAP, namespace, seen.metadata.name)))
            case _:
                assert_never(seen)

    def _named(self, namespace: str, value: str) -> Iterable[Key]:
        """The Rollouts of a namespace by the value of `rollouts.dev/name`; a name too long for a label is searched for."""
        if len(value) < LABEL_VALUE_MAX:
            return (Key(namespace, value),) if value else ()
        rollouts = (rollout.metadata for rollout in self.store.table(ROLLOUT).all())
        return [
            Key(namespace, rollout.name)
            for rollout in rollouts
            if rollout.namespace == namespace and name_label(rollout.name) == value
        ]

    def _says_the_same(self, before: Watched, after: Watched) -> bool:
        """Whether two versions of one object differ only in what no decision reads (resourceVersion, managedFields …)."""
        if isinstance(before, AnalysisRunObject | ExperimentObject) and isinstance(
            after, AnalysisRunObject | ExperimentObject
        ):
            same_owners = before.metadata.owner_references == after.metadata.owner_references
            return same_owners and _decided_on(self.runs.seen(before)) == _decided_on(self.runs.seen(after))
        content = _CONTENT.get(type(after))
        same_metadata = _METADATA(before.metadata) == _METADATA(after.metadata)
        return same_metadata and content is not None and content(before) == content(after)

    def _keys_of_service(self, namespace: str, name: str, service: ServiceObject | None) -> Iterable[Key]:
        owner = managed_by(service) if service is not None else ""
        manager_of = {Key(namespace, owner)} if owner else frozenset[Key]()
        return manager_of | self.inbox.service_askers.of((namespace, name)) | self._of_experiment(service)

    def _of_experiment(self, service: ServiceObject | None) -> frozenset[Key]:
        """The Rollout whose routes may send requests to a Service of its Experiment."""
        owners = () if service is None else service.metadata.owner_references or ()
        for owner in owners:
            if service is not None and is_rollout(owner, EXPERIMENT):
                of: ExperimentObject | None = self.store.table(EXPERIMENT).get(service.metadata.namespace, owner.name)
                return frozenset() if of is None else frozenset(_controller_keys(of.metadata))
        return frozenset()


def _controller_keys(metadata: Metadata) -> Iterable[Key]:
    for owner in metadata.owner_references or ():
        if is_rollout(owner):
            return (Key(metadata.namespace, owner.name),)
    return ()


def _decided_on(run: RunSeen) -> RunSeen:
    """The run without what changes no decision: its version, and what an analysis beside the steps says while it runs."""
    beside = run.gate is not None and run.gate.kind is AnalysisKind.BACKGROUND and not run.phase.over
    return replace(run, resource_version="", message="" if beside else run.message)
