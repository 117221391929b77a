"""What we write on a user's route besides what its codec does: one label to watch it by, annotations, and a guard.

A JSON Patch, because lists of rules are atomic to a merge patch and to server-side apply; its first operation replaces the
resourceVersion by the one that was read, so that a plan made from an older view gets a 409. The codec plans on the object with
our marks already in it: it finds the maps of labels and annotations there, whether or not the user had any.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rollouts.core.model.rollout import Rollout
from rollouts.json_pointer import json_pointer
from rollouts.manifests.ownership import BESIDE, MANAGED, MANAGED_BY, MANAGED_VALUE, ROUTER
from rollouts.manifests.workload import owner_reference
from rollouts.objects import Manifest

Operation = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Marks:
    """What our annotations say, so that a route can be given back by somebody who knows nothing else.

    Args:
        managed_by: the Rollout's name, with its namespace where that is not the route's.
        router: name of the provider whose codec knows how to give it back.
        beside: name of the object of the same kind that we own beside the route; "" for none.
    """

    managed_by: str
    router: str
    beside: str = ""

    @property
    def annotations(self) -> Mapping[str, str]:
        """By name."""
        return {MANAGED_BY: self.managed_by, ROUTER: self.router} | ({BESIDE: self.beside} if self.beside else {})


def marked(route: Manifest, marks: Marks) -> Manifest:
    """A copy of the route with our marks."""
    metadata = route["metadata"]
    return {
        **route,
        "metadata": {
            **metadata,
            "labels": {**(metadata.get("labels") or {}), MANAGED: MANAGED_VALUE},
            "annotations": {**(metadata.get("annotations") or {}), **marks.annotations},
        },
    }


def route_patch(route: Manifest, operations: Iterable[Operation], marks: Marks) -> list[Operation]:
    """The guard, what is missing of our marks, and the codec's operations; [] when there is nothing to do."""
    found = [*_marks(route, marked(route, marks)), *operations]
    return [_guard(route), *found] if found else []


def route_release_with_marks(route: Manifest, operations: Iterable[Operation]) -> list[Operation]:
    """The guard and the codec's operations that bring back what was before us; our marks stay."""
    return [_guard(route), *operations]


def route_release(route: Manifest, operations: Iterable[Operation]) -> list[Operation]:
    """The guard, the codec's operations that bring back what was before us, and then our marks taken off."""
    metadata = route["metadata"]
    off = [
        {"op": "remove", "path": json_pointer("metadata", field, name)}
        for field, names in (("labels", (MANAGED,)), ("annotations", (MANAGED_BY, ROUTER, BESIDE)))
        for name in names
        if name in (metadata.get(field) or {})
    ]
    found = [*operations, *off]
    return [_guard(route), *found] if found else []


def owned_route(manifest: Manifest, rollout: Rollout, marks: Marks, *, before: Manifest | None) -> Manifest:
    """An object that we own beside a route, for server-side apply: it goes with the Rollout, and is watched like the route.

    Args:
        before: the object as it was read, None when there was none: another one under its name is then a conflict.
    """
    ours = marked(manifest, replace(marks, beside=""))
    metadata = ours["metadata"]
    if (
        metadata.get("namespace", rollout.namespace) == rollout.namespace
    ):  # an owner in another namespace counts as gone
        metadata = {**metadata, "namespace": rollout.namespace, "ownerReferences": [owner_reference(rollout)]}
    if before is not None:
        seen = before["metadata"]
        metadata = {**metadata, "uid": seen["uid"], "resourceVersion": seen["resourceVersion"]}
    return {**ours, "metadata": metadata}


def _marks(before: Manifest, after: Manifest) -> list[Operation]:
    operations: list[Operation] = []
    for field in ("labels", "annotations"):
        there, wanted = before["metadata"].get(field), after["metadata"][field]
        if there is None:
            operations.append({"op": "add", "path": json_pointer("metadata", field), "value": wanted})
            continue
        for name, value in wanted.items():
            if there.get(name) != value:
                operations.append({"op": "add", "path": json_pointer("metadata", field, name), "value": value})
    return operations


def _guard(route: Manifest) -> Operation:
    version = route["metadata"]["resourceVersion"]
    return {"op": "replace", "path": "/metadata/resourceVersion", "value": version}
