"""Promise: an update in place writes the type of the DaemonSet that it names, and nothing else, and gives it back."""

from __future__ import annotations

import pytest

from rollouts.core.model.in_place_intents import RevertTemplate, StepDaemonSet
from rollouts.core.model.nodes import HeldNodes, OwnType
from rollouts.manifests.nodes import daemon_set_patch, nodes_held_of, nodes_held_text, revert_patch
from rollouts.manifests.ownership import HELD

NOTE = HeldNodes(number=3, own=OwnType(on_delete=False))


def test_a_step_is_one_write_of_the_type_and_the_note() -> None:
    """The uid and the version refuse it if somebody has written in between; limits stay as they are."""
    step = StepDaemonSet(name="agent", uid="d-1", resource_version="7", on_delete=True, held=NOTE)

    assert daemon_set_patch(step) == {
        "metadata": {
            "uid": "d-1",
            "resourceVersion": "7",
            "annotations": {HELD: '{"number":3,"own":{"type":"RollingUpdate"}}'},
        },
        "spec": {"updateStrategy": {"type": "OnDelete"}},
    }


def test_the_end_of_an_update_removes_the_note() -> None:
    """The user's own type stands again."""
    step = StepDaemonSet(name="agent", uid="d-1", resource_version="7", on_delete=False, held=None)

    assert daemon_set_patch(step)["metadata"]["annotations"] == {HELD: None}
    assert daemon_set_patch(step)["spec"] == {"updateStrategy": {"type": "RollingUpdate"}}


@pytest.mark.parametrize("own_on_delete", [True, False])
def test_a_note_reads_as_it_was_written(own_on_delete: bool) -> None:
    """Without one no update is under way."""
    note = HeldNodes(number=12, own=OwnType(own_on_delete))

    assert nodes_held_of({HELD: nodes_held_text(note)}) == note
    assert nodes_held_of({}) is None


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"number":1,"own":{}}', '{"number":true,"own":{"type":"OnDelete"}}', "[" * 9_000]
)
def test_a_note_that_cannot_be_read_is_refused(text: str) -> None:
    """The user's own type is not known then."""
    with pytest.raises(ValueError, match=HELD):
        nodes_held_of({HELD: text})


REVERT = RevertTemplate(name="agent", uid="d-1", resource_version="7", controller_revision="agent-5d4")


def test_a_template_that_comes_back_replaces_the_whole_one() -> None:
    """A ControllerRevision keeps it as a strategic merge patch; nothing of the newer one may stay."""
    template = {"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": []}}
    kept = {"data": {"spec": {"template": {"$patch": "replace", **template}}}}

    assert revert_patch(REVERT, kept) == [
        {"op": "test", "path": "/metadata/uid", "value": "d-1"},
        {"op": "test", "path": "/metadata/resourceVersion", "value": "7"},
        {"op": "replace", "path": "/spec/template", "value": template},
    ]


@pytest.mark.parametrize("kept", [{}, {"data": None}, {"data": {"spec": {"template": {"$patch": "replace"}}}}])
def test_a_controller_revision_without_a_template_is_refused(kept: dict[str, object]) -> None:
    """Nothing is written."""
    with pytest.raises(ValueError, match="agent-5d4"):
        revert_patch(REVERT, kept)
