"""Promise: an update in place writes a StatefulSet's partition and type alone, and gives back what the user had."""

from __future__ import annotations

import json

import pytest

from rollouts.core.model.frozen import replace
from rollouts.core.model.in_place_intents import StepStatefulSet
from rollouts.core.model.intents import ReleaseWorkload
from rollouts.core.model.workload import NO_POD, PartitionFields, PartitionHeld
from rollouts.core.model.workload_ref import WorkloadKind
from rollouts.manifests.named_workload import release_workload
from rollouts.manifests.partition import (
    partition_held_of,
    partition_held_text,
    replaced_of,
    stateful_set_patch,
)

HELD = PartitionHeld(number=3, replicas=5, partition=4, own=PartitionFields(partition=0))
STEP = StepStatefulSet(name="db", uid="s-1", resource_version="7", fields=PartitionFields(partition=4), held=HELD)
FIELDS = {
    "nothing": (PartitionFields(), {"type": "RollingUpdate", "rollingUpdate": None}),
    "a partition": (PartitionFields(partition=3), {"type": "RollingUpdate", "rollingUpdate": {"partition": 3}}),
    "OnDelete": (PartitionFields(on_delete=True), {"type": "OnDelete", "rollingUpdate": None}),
}


def test_a_step_is_one_write_of_its_fields_and_the_note() -> None:
    """The uid and the version refuse it if somebody has written in between. The policy's note has done its work."""
    noted = {"rollouts.dev/held": partition_held_text(HELD), "rollouts.dev/partition": None}

    assert stateful_set_patch(STEP) == {
        "metadata": {"uid": "s-1", "resourceVersion": "7", "annotations": noted},
        "spec": {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 4}}},
    }


@pytest.mark.parametrize("what", FIELDS)
def test_the_user_gets_back_what_the_manifest_says(what: str) -> None:
    """A `rollingUpdate` that is absent there is absent again; the API server allows none beside OnDelete."""
    fields, written = FIELDS[what]
    patch = stateful_set_patch(replace(STEP, fields=fields, held=None))

    assert patch["spec"] == {"updateStrategy": written}
    assert patch["metadata"]["annotations"] == {"rollouts.dev/held": None, "rollouts.dev/partition": None}


@pytest.mark.parametrize("own", [each for each, _ in FIELDS.values()])
@pytest.mark.parametrize("surplus", [0, 2])
def test_the_note_of_an_update_is_read_as_it_was_written(own: PartitionFields, surplus: int) -> None:
    """Without the fields that the user has not."""
    held = replace(HELD, own=own, surplus=surplus, partition=NO_POD)

    assert partition_held_of({"rollouts.dev/held": partition_held_text(held)}) == held
    assert partition_held_of({}) is None


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "null", '{"number":1}', "[" * 100_000),
        *(
            json.dumps({**json.loads(partition_held_text(HELD)), "partition": value})
            for value in (-1, "4", True, 2**31)
        ),
        json.dumps({**json.loads(partition_held_text(HELD)), "own": {"partition": -1}}),
    ],
)
def test_a_note_that_cannot_be_read_is_told(text: str) -> None:
    """The user's own fields are not known then, and nothing is guessed."""
    with pytest.raises(ValueError, match=r"rollouts\.dev/held cannot be read"):
        partition_held_of({"rollouts.dev/held": text})


def test_the_partition_that_a_policy_has_replaced_is_known() -> None:
    """An empty note is a manifest without one."""
    assert replaced_of({}) is None
    assert replaced_of({"rollouts.dev/partition": ""}) == PartitionFields()
    assert replaced_of({"rollouts.dev/partition": "3"}) == PartitionFields(partition=3)
    assert replaced_of({"rollouts.dev/partition": "many"}) == PartitionFields()


def test_a_release_gives_the_fields_back_and_pauses_nothing() -> None:
    """In a step they stay: a partition holds what nobody asked for."""
    given = ReleaseWorkload(
        kind=WorkloadKind.STATEFUL_SET, name="db", uid="s-1", resource_version="7", own=PartitionFields(partition=0)
    )

    assert release_workload(given)["spec"] == {
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}
    }
    assert "spec" not in release_workload(replace(given, own=None))
