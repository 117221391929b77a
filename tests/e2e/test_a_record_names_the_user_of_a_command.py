"""Who gave a command: the API server notes the user, the controller records it, and nobody can write another name."""

from __future__ import annotations

import json

import pytest

from rollouts.objects import ROLLOUT
from tests.e2e.manifests import GATE, canary
from tests.e2e.stage import Stage
from tests.lab.chart import as_user

pytestmark = pytest.mark.controlplane

ALICE, BOB = "alice@example.com", "bob"


@pytest.fixture(scope="module")
def controller_flags() -> tuple[str, ...]:
    """As the chart sets them where it installs its policies."""
    return ("--command-notes",)


def gives(stage: Stage, user: str, **annotations: str) -> None:
    """The user sets annotations of Rollout `web`, as kubectl does."""
    given = {f"rollouts.dev/{name.replace('_', '-')}": value for name, value in annotations.items()}
    patch = {"metadata": {"annotations": given}}
    content = {"Content-Type": "application/merge-patch+json"}
    query = {"fieldManager": "kubectl-annotate"}
    with as_user(stage.plane, user, "system:masters") as client:
        path = ROLLOUT.path(stage.namespace, "web")
        client.patch(path, content=json.dumps(patch), headers=content, params=query).raise_for_status()


def test_a_promotion_and_an_abort_have_the_names_of_their_users(stage: Stage) -> None:
    """In status.commands, in Events and in the message of the abort; and the note goes with the command that was carried out."""
    stage.rolled_out(canary("web", replicas=2, steps=[{"setWeight": 50}, {"pause": {}}, {"pause": {}}]))
    stage.gated("web", "web:2", step=GATE)

    gives(stage, ALICE, promote="true")
    stage.until_at("web", "PromotionNeeded", step=GATE + 1)
    promoted = stage.until_events("web", "Promoted")
    gives(stage, BOB, abort="true", abort_by=ALICE)
    aborted = stage.until_phase("web", "Aborted")
    left = stage.until(
        "rollouts", "web", lambda one: "rollouts.dev/abort" not in one["metadata"].get("annotations", {})
    )

    assert [each["message"].endswith(f"(by {ALICE})") for each in promoted if each["reason"] == "Promoted"] == [True]
    (record,) = [each for each in aborted["status"]["commands"] if each["verb"] == "abort"]
    assert (record["by"], record["byKind"]) == (BOB, "User")
    assert f"(by {BOB})" in aborted["status"]["message"]
    assert not any(name.startswith("rollouts.dev/") for name in left["metadata"].get("annotations", {}))
