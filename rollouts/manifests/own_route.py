"""Routes that we make ourselves from a manifest in the Rollout's spec (`trafficRouting.own`), so that Git has none to fight over.

The manifest is what such an object is without us, as a user's own one is; its codec then says the split in it as in any other. It
is written whole when the object is made, and again when the manifest has changed; what others add to it meanwhile stays.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rollouts.core.model.revision import canonical_json, short_hash
from rollouts.core.model.rollout import Rollout
from rollouts.manifests.ownership import MADE_FROM
from rollouts.manifests.workload import owner_reference
from rollouts.objects import ROLLOUT, Manifest

_MAPS = ("labels", "annotations")


@dataclass(frozen=True, slots=True)
class _MadeFrom:
    """What the annotation says: the manifest's hash, and the names of the labels and annotations that it brought."""

    hash: str
    labels: tuple[str, ...] = ()
    annotations: tuple[str, ...] = ()


def made_route(manifest: Manifest, rollout: Rollout) -> Manifest:
    """The object as it is made, but for our marks and the split: it goes when the Rollout goes."""
    noted = with_note(manifest)
    owned = {"namespace": rollout.namespace, "ownerReferences": [owner_reference(rollout)]}
    return {**noted, "metadata": {**noted["metadata"], **owned}}


def with_note(manifest: Manifest) -> Manifest:
    """The manifest with the annotation that says that it is made from it."""
    annotations = {**_part(manifest, "annotations"), MADE_FROM: _text(manifest)}
    return {**manifest, "metadata": {**manifest["metadata"], "annotations": annotations}}


def made_anew(there: Manifest, manifest: Manifest, *, without: str) -> Manifest:
    """The object `there` with all that is the manifest's as the manifest has it now.

    Args:
        without: the annotation in which the codec keeps what the object was before it: it is as the manifest says.
    """
    made = _made_from(there) or _MadeFrom("")
    maps: dict[str, Any] = {}
    for field, old in zip(_MAPS, (made.labels, made.annotations), strict=True):
        kept = {name: value for name, value in _part(there, field).items() if name not in old}
        maps[field] = {**kept, **_part(manifest, field)}
    maps["annotations"] = {name: text for name, text in maps["annotations"].items() if name != without}
    maps["annotations"][MADE_FROM] = _text(manifest)
    return {**there, "metadata": {**there["metadata"], **maps}, "spec": manifest["spec"]}


def why_anew(there: Manifest, manifest: Manifest) -> str:
    """Why the object is to be written anew; "" when it was made from this manifest."""
    made = _made_from(there)
    if made is None:
        return "becomes managed, as trafficRouting.own says"
    return "" if made.hash == _hash(manifest) else "differs from its manifest in trafficRouting.own"


def is_made(there: Manifest) -> bool:
    """Whether some Rollout made it."""
    return _made_from(there) is not None


def owner_operations(there: Manifest, rollout: Rollout) -> tuple[Mapping[str, Any], ...]:
    """The JSON Patch that makes this Rollout the owner, not an earlier one of its name; () when it is."""
    owners: Sequence[Manifest] = there["metadata"].get("ownerReferences") or ()
    if any(each.get("uid") == rollout.uid for each in owners):
        return ()
    path, ours = "/metadata/ownerReferences", owner_reference(rollout)
    if not owners:
        return ({"op": "add", "path": path, "value": [ours]},)
    earlier = [at for at, each in enumerate(owners) if each.get("kind") == ROLLOUT.kind]
    gone = ({"op": "remove", "path": f"{path}/{at}"} for at in reversed(earlier))
    return (*gone, {"op": "add", "path": f"{path}/-", "value": ours})


def _part(manifest: Manifest, field: str) -> Manifest:
    return manifest["metadata"].get(field) or {}


def _text(manifest: Manifest) -> str:
    """Value of `rollouts.dev/made-from`."""
    brought = {field: names for field in _MAPS if (names := sorted(_part(manifest, field)))}
    return json.dumps({"hash": _hash(manifest), **brought}, separators=(",", ":"))


def _hash(manifest: Manifest) -> str:
    return short_hash(canonical_json(manifest))


def _made_from(there: Manifest) -> _MadeFrom | None:
    """What the annotation says; None without it, or when it cannot be read."""
    try:
        said = json.loads(_part(there, "annotations")[MADE_FROM])
        return _MadeFrom(str(said["hash"]), *(tuple(map(str, said.get(field, ()))) for field in _MAPS))
    except (LookupError, TypeError, ValueError, AttributeError):
        return None
