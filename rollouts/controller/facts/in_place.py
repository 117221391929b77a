"""How the pods of a Rollout are found that updates a workload in place: they carry no label of the Rollout."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from msgspec import Struct

from rollouts.cluster.decoding import json_object
from rollouts.cluster.store import Store
from rollouts.cluster.structs import RolloutObject
from rollouts.core.model.workload_ref import WorkloadKind, WorkloadMode
from rollouts.manifests.ownership import CONTROLLER_REVISION_HASH, NAME, POD_TEMPLATE_HASH, REVISION
from rollouts.objects import ROLLOUT, Key, mapping


class InPlace(Struct, frozen=True):
    """The workload that a Rollout updates in place, and its selector as text."""

    kind: WorkloadKind
    name: str
    selector: str


InPlaceOf: TypeAlias = Callable[[Key], InPlace | None]
"""The workload of the Rollout of that key; None for pods of its own."""


def in_place_in(store: Store) -> InPlaceOf:
    """Reads the Rollouts of the store; the selector is the one that status has."""

    def of(key: Key) -> InPlace | None:
        rollout: RolloutObject | None = store.table(ROLLOUT).get(key.namespace, key.name)
        if rollout is None or b'"workloadRef"' not in bytes(rollout.spec):
            return None
        return in_place_of(json_object(bytes(rollout.spec)), json_object(bytes(rollout.status)))

    return of


def in_place_of(spec: Mapping[str, Any], status: Mapping[str, Any]) -> InPlace | None:
    """The workload of the Rollout with that spec and status; None for pods of its own."""
    reference, selector = mapping(spec.get("workloadRef")), status.get("selector")
    if reference.get("mode") != WorkloadMode.IN_PLACE.value or not isinstance(selector, str) or not selector:
        return None
    try:
        kind = WorkloadKind(str(reference.get("kind") or WorkloadKind.DEPLOYMENT))
    except ValueError:
        return None  # its spec is refused
    return InPlace(kind, str(reference.get("name")), selector)


def pods_of_revision(key: Key, revision: str, in_place: InPlace | None) -> str:
    """Label selector of the pods of one revision; of a Rollout's name what the label has of it."""
    if in_place is None:
        return f"{NAME}={key.name},{REVISION}={revision}"
    label = POD_TEMPLATE_HASH if in_place.kind is WorkloadKind.DEPLOYMENT else CONTROLLER_REVISION_HASH
    return f"{in_place.selector},{label}={revision}"
