"""ReplicaSets, one for each revision, and their pods."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from rollouts.core.model.intents import CreateReplicaSet, PatchPod, PatchReplicaSet
from rollouts.core.model.revision import HASH_SCHEME_V1, HASH_SCHEME_V2, replica_set_name, without_nulls
from rollouts.core.model.rollout import PodMetadata, Rollout
from rollouts.manifests.config_copy import rewritten
from rollouts.manifests.ownership import (
    ABORT_ACCEPTED,
    CONFIG_NOTE,
    EPHEMERAL_METADATA,
    HASH_SCHEME_LABEL,
    NAME,
    PODS_METADATA,
    PODS_WITHOUT_METADATA,
    PRE_STOP,
    RESTART_SURGE,
    REVISION,
    REVISION_NUMBER,
    abort_note_text,
    config_note_text,
    injection_text,
    name_label,
    owner_reference,
    pod_metadata_text,
)
from rollouts.objects import REPLICA_SET, Manifest

_HOST = "kubernetes.io/hostname"


def users_template(rollout: Rollout) -> Manifest:
    """The template of the spec, for a ReplicaSet."""
    template: Manifest = without_nulls(json.loads(rollout.spec.template_json))
    return template


def replica_set(rollout: Rollout, intent: CreateReplicaSet) -> Manifest:
    """The whole ReplicaSet for the template of the spec. Of the fields that the user gave it, only names of sources change."""
    template = users_template(rollout)
    users = template.get("metadata", {}).get("labels", {})
    by_name = not intent.config or intent.revision == rollout.spec.template_hash
    scheme = HASH_SCHEME_V1 if by_name else HASH_SCHEME_V2
    ours = {NAME: name_label(rollout.name), REVISION: intent.revision, HASH_SCHEME_LABEL: scheme}
    annotations = {REVISION_NUMBER: str(intent.number)}
    if (note := pod_metadata_text(intent.pod_metadata)) is not None:
        annotations[EPHEMERAL_METADATA] = note
    if intent.injection is not None:
        annotations[PRE_STOP] = injection_text(intent.injection)
    if intent.config:
        annotations[CONFIG_NOTE] = config_note_text(intent.config)
    return {
        **REPLICA_SET.head,
        "metadata": {
            "name": replica_set_name(rollout=rollout.name, revision=intent.revision),
            "namespace": rollout.namespace,
            "labels": users | ours,
            "annotations": annotations,
            "ownerReferences": [owner_reference(rollout)],
        },
        "spec": {
            "replicas": intent.replicas,
            "minReadySeconds": rollout.spec.min_ready_s,
            "selector": revision_selector(rollout.spec.selector_json, intent.revision),
            "template": _completed(template, rollout, intent),
        },
    }


def revision_selector(users_selector: bytes, revision: str) -> Manifest:
    """The user's selector (canonical JSON), limited to the pods of one revision."""
    selector: Manifest = json.loads(users_selector)
    selector["matchLabels"] = selector.get("matchLabels", {}) | {REVISION: revision}
    return selector


def replica_set_patch(intent: PatchReplicaSet) -> Manifest:
    """The merge patch for the intent; it conflicts with another uid, or another version if the intent has one."""
    notes: tuple[tuple[str, Any, Callable[[Any], str | None]], ...] = (
        (REVISION_NUMBER, intent.number, str),
        (RESTART_SURGE, intent.restart_surge, lambda surge: str(surge) if surge else None),
        (ABORT_ACCEPTED, intent.abort_note, abort_note_text),
        (CONFIG_NOTE, intent.config, config_note_text),
        (EPHEMERAL_METADATA, intent.pod_metadata, pod_metadata_text),
        (PODS_METADATA, intent.pods_carry_metadata, lambda carried: None if carried else PODS_WITHOUT_METADATA),
    )
    annotations = {name: text(value) for name, value, text in notes if value is not None}
    spec: Manifest = {}
    role = intent.pod_metadata
    if role is not None and (changes := _metadata_patch(role, removed=intent.replaced_metadata)):
        spec["template"] = {"metadata": changes}
    if intent.replicas is not None:
        spec["replicas"] = intent.replicas
    if intent.min_ready_s is not None:
        spec["minReadySeconds"] = intent.min_ready_s
    metadata: Manifest = {"uid": intent.uid}
    if intent.resource_version:
        metadata["resourceVersion"] = intent.resource_version
    if annotations:
        metadata["annotations"] = annotations
    return {"metadata": metadata, "spec": spec} if spec else {"metadata": metadata}


def pod_patch(intent: PatchPod) -> Manifest:
    """Merge patch that gives one pod its role's metadata; another pod of the same name gives a conflict (409)."""
    return {"metadata": {"uid": intent.uid, **_metadata_patch(intent.metadata, removed=intent.removed)}}


def _metadata_patch(metadata: PodMetadata, *, removed: PodMetadata) -> Manifest:
    """Merge patch for `metadata`: sets the keys of the present role, and removes those of the earlier role."""
    patch: Manifest = {}
    for field, now, before in (
        ("labels", metadata.labels, removed.labels),
        ("annotations", metadata.annotations, removed.annotations),
    ):
        entries: dict[str, str | None] = {key: None for key in before if key not in now} | dict(now)
        if entries:
            patch[field] = entries
    return patch


def _completed(template: Manifest, rollout: Rollout, intent: CreateReplicaSet) -> Manifest:
    template = rewritten(template, intent.config)
    metadata: dict[str, Any] = template.setdefault("metadata", {})
    if (injection := intent.injection) is not None:
        native, command = {"seconds": injection.pre_stop_s}, {"command": ["sleep", str(injection.pre_stop_s)]}
        pre_stop: Manifest = {"sleep": native} if injection.native else {"exec": command}
        for container in template["spec"]["containers"]:
            if container.get("name") in injection.containers:
                container["lifecycle"] = {**(container.get("lifecycle") or {}), "preStop": pre_stop}
        template["spec"]["terminationGracePeriodSeconds"] = injection.grace_s
    metadata["labels"] = {
        **metadata.get("labels", {}),
        **intent.pod_metadata.labels,
        NAME: name_label(rollout.name),
        REVISION: intent.revision,
    }
    if intent.pod_metadata.annotations:
        metadata["annotations"] = {**metadata.get("annotations", {}), **intent.pod_metadata.annotations}
    rule = rollout.spec.strategy.anti_affinity
    if rule is not None and intent.anti_affinity_revision:
        others = [{"key": REVISION, "operator": "In", "values": [intent.anti_affinity_revision]}]
        term = {"labelSelector": {"matchExpressions": others}, "topologyKey": _HOST}
        terms = template["spec"].setdefault("affinity", {}).setdefault("podAntiAffinity", {})
        if rule.required:
            terms.setdefault("requiredDuringSchedulingIgnoredDuringExecution", []).append(term)
        else:
            preference = {"weight": rule.weight, "podAffinityTerm": term}
            terms.setdefault("preferredDuringSchedulingIgnoredDuringExecution", []).append(preference)
    return template
