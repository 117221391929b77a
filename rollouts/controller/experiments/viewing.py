"""An Experiment and everything that it controls, as its policy sees them: from the store, without a request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from rollouts.api.spec.analysis.templates import TemplateName
from rollouts.api.spec.experiment import drafts_of
from rollouts.api.times import time_or_0
from rollouts.cluster.store import Store
from rollouts.cluster.structs import ExperimentObject, Metadata, ReplicaSetObject, ServiceObject
from rollouts.controller.observe.analyses import READ_BYTES_MAX, WhyUnseen, template_spec, too_much
from rollouts.controller.observe.services import ready_pods
from rollouts.controller.workqueue.owned import is_controlled_by
from rollouts.controller.workqueue.runs_seen import RunsSeen, unread
from rollouts.core.experiment.model import (
    ExperimentSpec,
    ExperimentStatus,
    ExperimentView,
    GroupPods,
    GroupService,
    name_of_pods,
    name_of_service,
)
from rollouts.core.model.analysis import Draft, DraftProblem, RunSeen
from rollouts.manifests.ownership import kept_until_s
from rollouts.objects import ANALYSIS_RUN, EXPERIMENT, EXPERIMENT_REPLICA_SET, SERVICE, Key


class ExperimentRead(Struct, frozen=True):
    """What an Experiment says.

    Args:
        raw: its spec as it is written.
    """

    raw: Mapping[str, Any]
    spec: ExperimentSpec
    status: ExperimentStatus


def view_of(
    store: Store, runs: RunsSeen, why_unseen: WhyUnseen, seen: ExperimentObject, read: ExperimentRead, *, now_s: float
) -> ExperimentView:
    """The Experiment at this moment.

    Args:
        runs: reads AnalysisRuns.
    """
    metadata = seen.metadata
    key, uid = Key(metadata.namespace, metadata.name), metadata.uid
    owned = _runs(store, runs, key, uid)
    return ExperimentView(
        name=key.name,
        uid=uid,
        generation=metadata.generation,
        created_at_s=time_or_0(metadata.creation_timestamp),
        now_s=now_s,
        spec=read.spec,
        status=read.status,
        pods=_pods(store, key, uid, read.spec),
        services=_services(store, key, uid, read),
        runs=owned,
        runs_seen=not why_unseen(ANALYSIS_RUN, key.namespace),
        drafts=_drafts(store, why_unseen, metadata, read, owned, now_s=now_s),
        kept_until_s=kept_until_s(metadata.annotations or {}),
    )


def _pods(store: Store, key: Key, uid: str, spec: ExperimentSpec) -> dict[str, GroupPods]:
    """The ReplicaSets by template; one of a template that the spec no longer has by its own name."""
    groups = {name_of_pods(key.name, uid, group): group.name for group in spec.groups}
    owned = store.table(EXPERIMENT_REPLICA_SET).owned_by(key.namespace, uid)
    return {
        groups.get(each.metadata.name, each.metadata.name): _group_pods(each)
        for each in owned
        if is_controlled_by(each.metadata, key, uid, EXPERIMENT) and each.metadata.deletion_timestamp is None
    }


def _group_pods(seen: ReplicaSetObject) -> GroupPods:
    spec, status = seen.spec, seen.status
    failures = [
        each.message for each in status.conditions or () if (each.type, each.status) == ("ReplicaFailure", "True")
    ]
    return GroupPods(
        name=seen.metadata.name,
        uid=seen.metadata.uid,
        replicas=spec.replicas,
        min_ready_s=spec.min_ready_seconds,
        current=status.replicas,
        ready=status.ready_replicas,
        available=status.available_replicas,
        settled=status.observed_generation >= seen.metadata.generation,
        failure="; ".join(failures),
    )


def _services(store: Store, key: Key, uid: str, read: ExperimentRead) -> dict[str, GroupService]:
    names = {group.service_name: group.name for group in read.status.groups if group.service_name}
    names |= {name: group.name for group in read.spec.groups if (name := name_of_service(key.name, uid, group))}
    found: dict[str, GroupService] = {}
    for name, group in names.items():
        service: ServiceObject | None = store.table(SERVICE).get(key.namespace, name)
        if service is None or not is_controlled_by(service.metadata, key, uid, EXPERIMENT):
            continue
        if service.metadata.deletion_timestamp is None:
            version = service.metadata.resource_version
            ready = ready_pods(store, key.namespace, name)
            found[group] = GroupService(name=name, uid=service.metadata.uid, resource_version=version, ready=ready)
    return found


def _runs(store: Store, runs: RunsSeen, key: Key, uid: str) -> dict[str, RunSeen]:
    table = store.table(ANALYSIS_RUN)
    owned = {
        run.metadata.name: runs.seen(run)
        for run in table.owned_by(key.namespace, uid)
        if is_controlled_by(run.metadata, key, uid, EXPERIMENT)
    }
    for (namespace, name), run in table.unreadable.items():
        if namespace == key.namespace and is_controlled_by(run.metadata, key, uid, EXPERIMENT):
            owned[name] = unread(run)
    return owned


def _drafts(
    store: Store,
    why_unseen: WhyUnseen,
    metadata: Metadata,
    read: ExperimentRead,
    runs: Mapping[str, RunSeen],
    *,
    now_s: float,
) -> Mapping[str, Draft]:
    """The runs that are to be made, or that are to be possible before the first pod; {} when none is."""
    spec, status = read.spec, read.status
    made = {record.name for record in status.runs if record.uid or record.phase.over or record.run in runs}
    begins = status.started_at_s is None or status.available_at_s is not None
    if status.phase.over or not begins or all(analysis.name in made for analysis in spec.analyses):
        return {}
    if why := why_unseen(ANALYSIS_RUN, metadata.namespace):
        return {analysis.name: DraftProblem(f"no AnalysisRun can be made: {why}") for analysis in spec.analyses}
    read_bytes = 0

    def find(name: TemplateName) -> Mapping[str, Any] | None:
        nonlocal read_bytes
        found, size_bytes = template_spec(store, why_unseen, name, "" if name.cluster_scope else metadata.namespace)
        read_bytes += size_bytes
        if read_bytes > READ_BYTES_MAX:
            raise too_much(name)
        return found

    available_at_s = now_s if status.available_at_s is None else status.available_at_s
    return drafts_of(read.raw, spec, find, name=metadata.name, uid=metadata.uid, available_at_s=available_at_s)
