"""What we write on a user's route besides the codec's changes: a label to watch it by, annotations, and a guard.

We use a JSON Patch, because a merge patch and server-side apply replace lists of rules as a whole. Its first operation sets the
resourceVersion to the one that was read, so a plan from an older view gets a 409. The codec plans on the object with our marks
already in it, so the maps of labels and annotations always exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from rollouts.core.model.frozen import replace
from rollouts.core.model.rollout import Rollout
from rollouts.json_pointer import json_pointer
from rollouts.manifests.ownership import BESIDE, MANAGED, MANAGED_BY, MANAGED_VALUE, ROUTER, owner_reference
from rollouts.objects import Manifest

Operation = Mapping[str, Any]


class Marks(Struct, frozen=True):
    """What our annotations say: enough to release a route without any other knowledge.

    Args:
        managed_by: the Rollout's name, with its namespace where that is not the route's.
        router: name of the provider whose codec can release the route.
        beside: name of the object of the same kind that we own beside the route; "" for none.
    """

    managed_by: str
    router: str
    beside: str = ""

    @property
    def annotations(self) -> Mapping[str, str]:
        """The annotations by name."""
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
    """The guard, our missing marks, and the codec's operations; [] when there is nothing to do."""
    added: list[Operation] = []
    wanted = marked(route, marks)["metadata"]
    for field in ("labels", "annotations"):
        present = route["metadata"].get(field)
        if present is None:
            added.append({"op": "add", "path": json_pointer("metadata", field), "value": wanted[field]})
            continue
        for name, value in wanted[field].items():
            if present.get(name) != value:
                added.append({"op": "add", "path": json_pointer("metadata", field, name), "value": value})
    changes = [*added, *operations]
    return [_guard(route), *changes] if changes else []


def route_release_with_marks(route: Manifest, operations: Iterable[Operation]) -> list[Operation]:
    """The guard and the codec's operations that restore the user's route; our marks stay."""
    return [_guard(route), *operations]


def route_release(route: Manifest, operations: Iterable[Operation]) -> list[Operation]:
    """The guard, the codec's operations that restore the user's route, and the removal of our marks."""
    metadata = route["metadata"]
    off = [
        {"op": "remove", "path": json_pointer("metadata", field, name)}
        for field, names in (("labels", (MANAGED,)), ("annotations", (MANAGED_BY, ROUTER, BESIDE)))
        for name in names
        if name in (metadata.get(field) or {})
    ]
    changes = [*operations, *off]
    return [_guard(route), *changes] if changes else []


def owned_route(manifest: Manifest, rollout: Rollout, marks: Marks, *, before: Manifest | None) -> Manifest:
    """An object that we own beside a route, for server-side apply: it is deleted with the Rollout, and watched like the route.

    Args:
        before: the object as it was read; None when there was none: then another one of its name is a conflict.
    """
    ours = marked(manifest, replace(marks, beside=""))
    metadata = ours["metadata"]
    # An owner in another namespace counts as gone.
    if metadata.get("namespace", rollout.namespace) == rollout.namespace:
        metadata = {**metadata, "namespace": rollout.namespace, "ownerReferences": [owner_reference(rollout)]}
    if before is not None:
        seen = before["metadata"]
        metadata = {**metadata, "uid": seen["uid"], "resourceVersion": seen["resourceVersion"]}
    return {**ours, "metadata": metadata}


def _guard(route: Manifest) -> Operation:
    version = route["metadata"]["resourceVersion"]
    return {"op": "replace", "path": "/metadata/resourceVersion", "value": version}
