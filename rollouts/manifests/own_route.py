"""Routes that we create from a manifest in the Rollout's spec (`trafficRouting.own`), so that Git does not write them too.

The manifest stands for the object without us, like a route that a user wrote; the codec writes the split into it as into any
other. We write it whole when we create the object, and again when the manifest changes; what others added to the object stays.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from rollouts.core.model.revision import canonical_json, short_hash
from rollouts.core.model.rollout import Rollout
from rollouts.manifests.ownership import MADE_FROM, owner_reference
from rollouts.objects import ROLLOUT, Manifest

_MAPS = ("labels", "annotations")


class _MadeFrom(Struct, frozen=True):
    """The annotation's content: the manifest's hash, and the names of the labels and annotations in it."""

    hash: str
    labels: tuple[str, ...] = ()
    annotations: tuple[str, ...] = ()


def made_route(manifest: Manifest, rollout: Rollout) -> Manifest:
    """The object to create, still without our marks and the split; it is deleted together with the Rollout."""
    noted = with_note(manifest)
    owned = {"namespace": rollout.namespace, "ownerReferences": [owner_reference(rollout)]}
    return {**noted, "metadata": {**noted["metadata"], **owned}}


def with_note(manifest: Manifest) -> Manifest:
    """The manifest with the annotation `rollouts.dev/made-from`."""
    annotations = {**_part(manifest, "annotations"), MADE_FROM: _text(manifest)}
    return {**manifest, "metadata": {**manifest["metadata"], "annotations": annotations}}


def remade_route(live: Manifest, manifest: Manifest, *, without: str) -> Manifest:
    """The object `live`, with everything that comes from the manifest as the manifest has it now.

    Args:
        without: the annotation in which the codec keeps the object's original state; the manifest replaces that state.
    """
    made = _made_from(live) or _MadeFrom("")
    maps: dict[str, Any] = {}
    for field, old in zip(_MAPS, (made.labels, made.annotations), strict=True):
        kept = {name: value for name, value in _part(live, field).items() if name not in old}
        maps[field] = {**kept, **_part(manifest, field)}
    maps["annotations"] = {name: text for name, text in maps["annotations"].items() if name != without}
    maps["annotations"][MADE_FROM] = _text(manifest)
    return {**live, "metadata": {**live["metadata"], **maps}, "spec": manifest["spec"]}


def remake_reason(live: Manifest, manifest: Manifest) -> str:
    """Why the object must be written again; "" when it was made from this manifest."""
    made = _made_from(live)
    if made is None:
        return "becomes managed, as trafficRouting.own says"
    return "" if made.hash == _hash(manifest) else "has a changed manifest in trafficRouting.own"


def is_made(live: Manifest) -> bool:
    """Whether some Rollout made the object."""
    return _made_from(live) is not None


def owner_operations(live: Manifest, rollout: Rollout) -> tuple[Mapping[str, Any], ...]:
    """The JSON Patch that makes this Rollout the owner instead of an earlier one of its name; () when it is the owner."""
    owners: Sequence[Manifest] = live["metadata"].get("ownerReferences") or ()
    if any(owner.get("uid") == rollout.uid for owner in owners):
        return ()
    path, ours = "/metadata/ownerReferences", owner_reference(rollout)
    if not owners:
        return ({"op": "add", "path": path, "value": [ours]},)
    earlier = [index for index, owner in enumerate(owners) if owner.get("kind") == ROLLOUT.kind]
    gone = ({"op": "remove", "path": f"{path}/{index}"} for index in reversed(earlier))
    return (*gone, {"op": "add", "path": f"{path}/-", "value": ours})


def _part(manifest: Manifest, field: str) -> Manifest:
    return manifest["metadata"].get(field) or {}


def _text(manifest: Manifest) -> str:
    brought = {field: names for field in _MAPS if (names := sorted(_part(manifest, field)))}
    return json.dumps({"hash": _hash(manifest), **brought}, separators=(",", ":"))


def _hash(manifest: Manifest) -> str:
    return short_hash(canonical_json(manifest))


def _made_from(live: Manifest) -> _MadeFrom | None:
    """The content of the annotation; None when it is absent or cannot be read."""
    try:
        said = json.loads(_part(live, "annotations")[MADE_FROM])
        return _MadeFrom(str(said["hash"]), *(tuple(map(str, said.get(field, ()))) for field in _MAPS))
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError):
        return None
