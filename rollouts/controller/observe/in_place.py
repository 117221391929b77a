"""A workload that is updated in place at one instant: its ReplicaSets, their names, and what the spec takes from it. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rollouts.api.times import time_or_0
from rollouts.cluster.decoding import json_object
from rollouts.cluster.store import Store, Table
from rollouts.cluster.structs import ControllerRevisionObject, ReplicaSetObject, WorkloadObject
from rollouts.controller.observe.replica_sets import replica_set_seen
from rollouts.controller.workqueue.inbox import RevisionsAnswer, SetsAnswer
from rollouts.core.carrier.update_in_place import HELD_MIN_READY_S
from rollouts.core.model.frozen import replace
from rollouts.core.model.limits import ceil_percent
from rollouts.core.model.nodes import DaemonSetSeen, NodeRevision
from rollouts.core.model.revision import canonical_json, short_hash
from rollouts.core.model.rollout import PODS_LIMIT, Canary, IntOrPercent, Percent, RolloutSpec
from rollouts.core.model.snapshot import ReplicaSet
from rollouts.core.model.workload import (
    NO_POD,
    DeploymentSeen,
    NamedReplicaSet,
    StatefulSetSeen,
    WorkloadSeen,
)
from rollouts.core.model.workload_ref import WorkloadKind
from rollouts.manifests.ownership import (
    CONTROLLER_REVISION_HASH,
    DEPLOYMENT_REVISION,
    OWN_FIELDS,
    POD_TEMPLATE_HASH,
    revision_of,
)
from rollouts.objects import DEPLOYMENT, mapping


def sets_inside(found: Iterable[ReplicaSetObject], workload: WorkloadSeen) -> tuple[ReplicaSet, ...]:
    """Those of `found` that the Deployment controls."""
    return tuple(
        [replica_set_seen(each, inside=True) for each in found if _is_controlled(each, workload.name, workload.uid)]
    )


def with_labelled_sets(workload: WorkloadSeen, table: Table[ReplicaSetObject], namespace: str) -> WorkloadSeen:
    """The workload with the ReplicaSets that a release of it has to take our marks off."""
    found = [
        each for each in table.owned_by(namespace, workload.uid) if _is_controlled(each, workload.name, workload.uid)
    ]
    labelled = tuple([NamedReplicaSet(each.metadata.name, each.metadata.uid) for each in found])
    return replace(workload, labelled=labelled) if labelled else workload


def spec_in_place(spec: RolloutSpec, workload: WorkloadSeen, *, revision: str | None) -> RolloutSpec:
    """The spec with what the workload says: its size, and its user's own limits. No template while the name is not known."""
    surge: IntOrPercent
    unavailable: IntOrPercent
    match workload.in_place:
        case DeploymentSeen() as deployment:
            own = deployment.held.own if deployment.held is not None else deployment.fields
            surge = PODS_LIMIT if own.max_surge is None else own.max_surge
            unavailable = PODS_LIMIT if own.max_unavailable is None else own.max_unavailable
            min_ready_s = own.min_ready_s or 0
        case StatefulSetSeen(max_unavailable=limit, min_ready_s=min_ready_s):
            surge, unavailable = 0, 1 if limit is None else limit
        case DaemonSetSeen(update=update, min_ready_s=min_ready_s):
            surge, unavailable = 0, _nodes_at_once(update.max_unavailable, nodes=workload.replicas)
        case None:
            return spec
    strategy = spec.strategy
    if isinstance(strategy, Canary):
        strategy = replace(strategy, max_surge=surge, max_unavailable=unavailable)
    elif own.max_unavailable is not None:
        strategy = replace(strategy, max_unavailable=own.max_unavailable)
    return replace(
        spec,
        replicas=workload.replicas,
        min_ready_s=min_ready_s,
        strategy=strategy,
        revision=revision or "",
        template_hash=spec.template_hash if revision else "",
    )


def rolled_out_revision(deployment: WorkloadObject, workload: WorkloadSeen, sets: Iterable[ReplicaSetObject]) -> str:
    """The revision of the ReplicaSet that has all pods of a Deployment, which are all of its template.

    Its controller notes one number on both, so that views of different times do not fit. "" where that does not tell: in an
    update, without pods, or while no watch shows that ReplicaSet.
    """
    found, status = workload.deployment, deployment.status
    number = (deployment.metadata.annotations or {}).get(DEPLOYMENT_REVISION)
    has_one = workload.observed and 0 < status.replicas == status.updated_replicas
    if found is None or found.held is not None or not has_one or not number:
        return ""
    for each in sets:
        its_number = (each.metadata.annotations or {}).get(DEPLOYMENT_REVISION)
        if its_number == number and _is_controlled(each, workload.name, workload.uid):
            return revision_of(each.metadata.labels or {})
    return ""


def strays(
    template_hash: str, workload: WorkloadSeen, sets: Iterable[ReplicaSet], answer: SetsAnswer | None
) -> tuple[str, tuple[NamedReplicaSet, ...] | None]:
    """The revision of the Deployment's template, and its ReplicaSets that no watch shows yet; None while that is not known.

    A template's own hash names its ReplicaSet where the controller has made it. Of others only a list tells, by equality of the
    templates as the API server gives them now: an upgrade that adds a default changes both.
    """
    watched = {each.uid: each.revision for each in sets}
    held = workload.deployment is not None and workload.deployment.held is not None
    if template_hash in watched.values():
        return template_hash, ()
    if answer is None or (answer.template_hash, answer.held) != (template_hash, held):
        return "", None
    unseen = tuple([stray for stray in answer.sets if stray.uid not in watched])
    return ("" if unseen else answer.revision or template_hash), unseen


def sets_answer(
    deployment: WorkloadObject, sets: Iterable[WorkloadObject], *, rollout_uid: str, asked_s: float
) -> SetsAnswer:
    """What a list of ReplicaSets says about the Deployment as it was seen before; `asked_s` is monotonic.

    One that the Rollout controls beside it may have its template, too; it is watched.
    """
    metadata, revision, found = deployment.metadata, "", []
    template_hash = template_hash_of(deployment)
    for each in sets:
        inside = _is_controlled(each, metadata.name, metadata.uid)
        if not inside and each.metadata.controller_uid != rollout_uid:
            continue
        is_its_own = _hash(json_object(bytes(each.spec.template))) == template_hash
        if is_its_own:
            revision = revision_of(each.metadata.labels or {})
        if inside and (is_its_own or each.spec.replicas or each.status.replicas):
            found.append(NamedReplicaSet(each.metadata.name, each.metadata.uid))
    held = OWN_FIELDS in (metadata.labels or {}) or deployment.spec.min_ready_seconds == HELD_MIN_READY_S
    return SetsAnswer(asked_s=asked_s, template_hash=template_hash, held=held, revision=revision, sets=tuple(found))


def _nodes_at_once(limit: IntOrPercent | None, *, nodes: int) -> int:
    """How many nodes of a DaemonSet may be without an available pod: one with OnDelete; a percentage rounds up.

    Source: k8s.io/kubernetes pkg/controller/daemon/util/daemonset_util.go, `UnavailableCount`.
    """
    if limit is None:
        return 1
    return max(1, ceil_percent(nodes, limit.value) if isinstance(limit, Percent) else limit)


def revisions_answer(daemon_set: WorkloadObject, listed: Iterable[ControllerRevisionObject]) -> RevisionsAnswer:
    """What a list of ControllerRevisions says about the DaemonSet as it was seen before."""
    uid = daemon_set.metadata.uid
    mine = [each for each in listed if each.metadata.controller_uid == uid]
    found = [
        NodeRevision(
            name=each.metadata.name,
            revision=(each.metadata.labels or {}).get(CONTROLLER_REVISION_HASH, ""),
            number=each.revision,
            created_at_s=time_or_0(each.metadata.creation_timestamp),
        )
        for each in sorted(mine, key=lambda each: each.revision)
    ]
    return RevisionsAnswer(uid=uid, template_hash=template_hash_of(daemon_set), revisions=tuple(found))


def rests_free(store: Store, kind: WorkloadKind, namespace: str, name: str) -> bool:
    """Whether nothing but a policy may hold a workload that is watched: a yes about it says that the policy is there."""
    table = store.watched(kind.resource)
    seen: WorkloadObject | None = None if table is None else table.get(namespace, name)
    return seen is not None and not is_held(kind, seen)


def is_held(kind: WorkloadKind, written: WorkloadObject) -> bool:
    """Whether nothing follows the template of a workload as it was written."""
    spec = written.spec
    match kind:
        case WorkloadKind.STATEFUL_SET:
            rolling = spec.update_strategy.rolling_update
            stops = rolling is not None and rolling.partition == NO_POD
            return stops or spec.update_strategy.type == "OnDelete"
        case WorkloadKind.DAEMON_SET:
            return spec.update_strategy.type == "OnDelete"
        case _:
            return spec.paused


def template_hash_of(workload: WorkloadObject) -> str:
    """The hash of a workload's template, as the spec has it."""
    return short_hash(canonical_json(json_object(bytes(workload.spec.template))))


def _is_controlled(seen: ReplicaSetObject | WorkloadObject, name: str, uid: str) -> bool:
    wanted = (DEPLOYMENT.api_version, DEPLOYMENT.kind, name, uid)
    owners = [owner for owner in seen.metadata.owner_references or () if owner.controller]
    return any((owner.api_version, owner.kind, owner.name, owner.uid) == wanted for owner in owners)


def _hash(template: Mapping[str, Any]) -> str:
    """Of a template without the label that the Deployment's controller adds to it."""
    metadata = mapping(template.get("metadata"))
    labels = {key: value for key, value in mapping(metadata.get("labels")).items() if key != POD_TEMPLATE_HASH}
    without = {key: value for key, value in metadata.items() if key != "labels"}
    return short_hash(canonical_json({**template, "metadata": {**without, **({"labels": labels} if labels else {})}}))
