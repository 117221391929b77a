"""Requests about single pods: their role's metadata, and their eviction."""

from __future__ import annotations

from rollouts.core.model.intents import EvictPod, PatchPod
from rollouts.manifests.workload import metadata_patch
from rollouts.objects import Manifest


def pod_patch(intent: PatchPod) -> Manifest:
    """Merge patch that gives one pod its role's metadata; another pod of the same name gives a conflict (409)."""
    return {"metadata": {"uid": intent.uid, **metadata_patch(intent.metadata, removed=intent.removed)}}


def eviction(intent: EvictPod, *, namespace: str) -> Manifest:
    """Body for `pods/eviction`, bound to the uid that was seen. A PodDisruptionBudget that refuses it gives a 429."""
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": intent.name, "namespace": namespace},
        "deleteOptions": {"preconditions": {"uid": intent.uid}},
    }
