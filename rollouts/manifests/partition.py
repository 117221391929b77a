"""The writes of an update in place to a user's StatefulSet: its `updateStrategy`, and the note of what it was."""

from __future__ import annotations

import json
from collections.abc import Mapping

from rollouts.core.model.in_place_intents import StepStatefulSet
from rollouts.core.model.workload import NO_POD, PartitionFields, PartitionHeld
from rollouts.manifests.ownership import HELD, PARTITION
from rollouts.objects import Manifest, whole_number


def stateful_set_patch(intent: StepStatefulSet) -> Manifest:
    """The merge patch for the intent."""
    held = None if intent.held is None else partition_held_text(intent.held)
    return {
        "metadata": {
            "uid": intent.uid,
            "resourceVersion": intent.resource_version,
            "annotations": {HELD: held, PARTITION: None},
        },
        "spec": partition_fields(intent.fields),
    }


def partition_fields(fields: PartitionFields) -> Manifest:
    """Those of a StatefulSet's `spec`, for a merge patch. The API server allows no `rollingUpdate` with OnDelete."""
    rolling = None if fields.partition is None or fields.on_delete else {"partition": fields.partition}
    return {"updateStrategy": {"type": "OnDelete" if fields.on_delete else "RollingUpdate", "rollingUpdate": rolling}}


def partition_held_text(held: PartitionHeld) -> str:
    """Value of `rollouts.dev/held` of a StatefulSet."""
    own: Manifest = {"type": "OnDelete"} if held.own.on_delete else {}
    if held.own.partition is not None:
        own["partition"] = held.own.partition
    noted = {"number": held.number, "own": own, "partition": held.partition, "replicas": held.replicas}
    return json.dumps({**noted, **({"surplus": held.surplus} if held.surplus else {})}, separators=(",", ":"))


def partition_held_of(annotations: Mapping[str, str]) -> PartitionHeld | None:
    """The note of an update under way; None without one.

    Raises: ValueError for a note that cannot be read: the user's own fields are not known then.
    """
    if (text := annotations.get(HELD)) is None:
        return None
    try:
        noted = json.loads(text)
        own = noted["own"]
        partition = own.get("partition")
        return PartitionHeld(
            number=_count(noted["number"]),
            replicas=_count(noted["replicas"]),
            partition=_count(noted["partition"]),
            own=PartitionFields(
                on_delete=own.get("type") == "OnDelete", partition=None if partition is None else _count(partition)
            ),
            surplus=_count(noted.get("surplus", 0)),
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as exc:
        raise ValueError(f"annotation {HELD} cannot be read: {exc}") from exc


def replaced_of(annotations: Mapping[str, str]) -> PartitionFields | None:
    """The fields that the policy has replaced; None when it has noted none. What cannot be read counts as no partition."""
    text = annotations.get(PARTITION)
    return None if text is None else PartitionFields(partition=whole_number(text, digits=9))


def _count(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= NO_POD:
        return value
    raise ValueError(f"{value!r} is not a number from 0 to {NO_POD}")
