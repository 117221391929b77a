"""ReplicaSets as `decide` sees them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rollouts.api.times import time_or_0
from rollouts.cluster.structs import ReplicaSetObject
from rollouts.controller.configs.observed import config_of
from rollouts.core.model.snapshot import ReplicaSet
from rollouts.manifests.ownership import (
    abort_note_of,
    injection_of,
    pod_metadata_of,
    pods_carry_metadata,
    restart_surge_of,
    revision_number_of,
    revision_of,
)


def replica_set_seen(seen: ReplicaSetObject, *, inside: bool = False) -> ReplicaSet:
    """What decisions read of a ReplicaSet.

    Args:
        inside: the Deployment that is updated in place controls it.
    """
    metadata, spec, status = seen.metadata, seen.spec, seen.status
    annotations = metadata.annotations or {}
    failures = (condition for condition in status.conditions or () if condition.type == "ReplicaFailure")
    return ReplicaSet(
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        revision=revision_of(metadata.labels or {}),
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
        failure=next((condition.message for condition in failures if condition.status == "True"), ""),
        deleting=metadata.deletion_timestamp is not None,
        abort_note=abort_note_of(annotations),
        restart_surge=min(restart_surge_of(annotations), spec.replicas),
        config=config_of(seen),
        inside=inside,
    )


def labels_on_record(replica_sets: Iterable[ReplicaSetObject], revision: str) -> Mapping[str, str]:
    """The labels of the pods of a revision, while the template of the spec is not known."""
    for replica_set in replica_sets:
        if revision_of(replica_set.metadata.labels or {}) == revision:
            return replica_set.spec.template.metadata.labels or {}
    return {}
