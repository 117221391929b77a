"""The writes of an update in place to a user's DaemonSet: the type of its `updateStrategy`, its note, and a template it had."""

from __future__ import annotations

import json
from collections.abc import Mapping

from rollouts.core.model.in_place_intents import RevertTemplate, StepDaemonSet
from rollouts.core.model.nodes import HeldNodes, OwnType
from rollouts.manifests.ownership import HELD
from rollouts.objects import Manifest, mapping

_TYPES = {True: "OnDelete", False: "RollingUpdate"}


def daemon_set_patch(intent: StepDaemonSet) -> Manifest:
    """The merge patch for the intent. The limits of its `rollingUpdate` stay as they are."""
    held = None if intent.held is None else nodes_held_text(intent.held)
    return {
        "metadata": {"uid": intent.uid, "resourceVersion": intent.resource_version, "annotations": {HELD: held}},
        "spec": update_type(OwnType(intent.on_delete)),
    }


def update_type(own: OwnType) -> Manifest:
    """The type of a DaemonSet's `spec.updateStrategy`, for a merge patch."""
    return {"updateStrategy": {"type": _TYPES[own.on_delete]}}


def revert_patch(intent: RevertTemplate, controller_revision: Mapping[str, object]) -> list[Manifest]:
    """The JSON patch that gives the DaemonSet the template of that ControllerRevision.

    Its data are a strategic merge patch. Source: k8s.io/kubernetes pkg/controller/daemon/update.go, `getPatch`.

    Raises: ValueError when the ControllerRevision holds no template.
    """
    data = mapping(mapping(controller_revision.get("data")).get("spec"))
    template = {name: value for name, value in mapping(data.get("template")).items() if name != "$patch"}
    if not template:
        raise ValueError(f"ControllerRevision {intent.controller_revision} holds no pod template")
    return [
        {"op": "test", "path": "/metadata/uid", "value": intent.uid},
        {"op": "test", "path": "/metadata/resourceVersion", "value": intent.resource_version},
        {"op": "replace", "path": "/spec/template", "value": template},
    ]


def nodes_held_text(held: HeldNodes) -> str:
    """Value of `rollouts.dev/held` of a DaemonSet."""
    noted = {"number": held.number, "own": {"type": _TYPES[held.own.on_delete]}}
    return json.dumps(noted, separators=(",", ":"))


def nodes_held_of(annotations: Mapping[str, str]) -> HeldNodes | None:
    """The note of an update under way; None without one.

    Raises: ValueError for a note that cannot be read: the user's own type is not known then.
    """
    if (text := annotations.get(HELD)) is None:
        return None
    try:
        noted = json.loads(text)
        number, own_type = noted["number"], noted["own"]["type"]
        if isinstance(number, int) and not isinstance(number, bool) and own_type in _TYPES.values():
            return HeldNodes(number=number, own=OwnType(own_type == _TYPES[True]))
    except (ValueError, TypeError, KeyError, RecursionError) as exc:
        raise ValueError(f"annotation {HELD} cannot be read: {exc}") from exc
    raise ValueError(f"annotation {HELD} cannot be read: {text[:100]}")
