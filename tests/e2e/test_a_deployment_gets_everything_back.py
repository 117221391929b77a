"""Promise: at every end the Deployment of a user is as its manifest says, in the real API server's own words.

Field by field, and by managed fields: what the controller has given back is not its own any more.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rollouts.manifests.ownership import HELD, HOLD, MANAGED, MANAGED_BY, PREFIX
from rollouts.objects import DEPLOYMENT, ROLLOUT
from tests.e2e.controllers import confined_controller
from tests.e2e.stage import Stage
from tests.e2e.test_a_deployment_stays_one import account, by_image, deployment, rollout, until
from tests.lab.chart import hold_workloads
from tests.lab.control_plane import ControlPlane

__all__ = ["account"]  # a fixture
pytestmark = pytest.mark.controlplane

OWN = {"minReadySeconds": 1, "progressDeadlineSeconds": 77}
MARKS = {MANAGED, HOLD, MANAGED_BY}


def manifest(tag: str) -> dict[str, Any]:
    """The user's manifest, with fields that an update takes."""
    made = deployment(f"web:{tag}")
    return {**made, "spec": {**made["spec"], **OWN}}


def applied(at: Stage, tag: str, *, force: bool = False, **more: Any) -> None:
    """As a GitOps tool does, server-side; at rest without force: a field that is ours would be a conflict."""
    made = manifest(tag)
    words = ["--server-side", "--field-manager=git", *(["--force-conflicts"] if force else [])]
    at.kubectl("apply", *words, "-f", "-", input=json.dumps({**made, "spec": {**made["spec"], **more}}))


def spec_of(at: Stage) -> dict[str, Any]:
    """All of the spec."""
    return dict(at.get("deployments", "web")["spec"])


def ours(at: Stage) -> set[str]:
    """Our marks, and the fields of the spec that are our field manager's."""
    metadata = at.get("deployments", "web")["metadata"]
    marks = {mark for part in ("labels", "annotations") for mark in metadata.get(part, {}) if mark.startswith(PREFIX)}
    return marks | at.our_fields("deployment", "web")


def settled(at: Stage, **sizes: int) -> None:
    """Waits for the end of the update, and until the Deployment has its fields again."""
    until(at, "Healthy", **sizes)
    at.until("deployments", "web", lambda one: HELD not in one["metadata"].get("annotations", {}))
    at.until("deployments", "web", lambda _: not ours(at) - MARKS - {"f:paused"})


@pytest.fixture(params=["Policy", "AtRest"])
def owned(
    control_plane: ControlPlane, account: Path, namespace: str, request: pytest.FixtureRequest
) -> Iterator[Stage]:
    """The user's own manifest is applied by its manager and rolled out, and then it gets a Rollout."""
    if request.param == "Policy":
        hold_workloads(control_plane, namespace, DEPLOYMENT)
    with confined_controller(control_plane, account, namespace, leader_elect=False):
        found = Stage(control_plane, namespace)
        applied(found, "1")
        found.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
        found.apply(rollout(request.param))
        settled(found, v1=4)
        yield found
        control_plane.end_in(namespace)


def test_after_promotion_abort_and_deletion_the_deployment_is_its_users(owned: Stage) -> None:
    """One after the other; the user's next manifest, with other numbers, is no conflict."""
    before = spec_of(owned)
    applied(owned, "2")
    until(owned, "Paused", v1=3, v2=1)
    owned.annotate("web", "promote", "true")
    until(owned, "Paused", step=3, v1=2, v2=2)
    owned.annotate("web", "promote", "true")
    settled(owned, v2=4)
    promoted = spec_of(owned)
    assert {**promoted, "template": {}} == {**before, "template": {}}
    assert promoted["template"]["spec"]["containers"][0]["image"] == "web:2"

    applied(owned, "3")
    until(owned, "Paused", v2=3, v3=1)
    owned.annotate("web", "abort", "true")
    until(owned, "Aborted", v2=4)
    applied(owned, "2", force=True)
    settled(owned, v2=4)
    assert spec_of(owned) == promoted

    applied(owned, "2", minReadySeconds=2, progressDeadlineSeconds=99)
    applied(owned, "2")

    owned.kubectl("delete", ROLLOUT.plural, "web")
    owned.until("deployments", "web", lambda _: ours(owned) == set())
    assert spec_of(owned) == {name: part for name, part in promoted.items() if name != "paused"}
    sets = [each["metadata"] for each in owned.all("replicasets", "app=web")]
    assert [each["name"] for each in sets if "rollouts.dev/name" in each["labels"]] == []
    assert [each["name"] for each in sets if "rollouts.dev/held" in each["annotations"]] == []
    applied(owned, "1")
    owned.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    assert by_image(owned) == {"v1": 4}


def test_after_an_undo_in_a_step_the_deployment_is_its_users(owned: Stage) -> None:
    """kubectl replaces all annotations, also the note of an update."""
    before = spec_of(owned)
    applied(owned, "2")
    until(owned, "Paused", v1=3, v2=1)
    owned.kubectl("rollout", "undo", "deployment/web")
    settled(owned, v1=4)
    assert spec_of(owned) == before


def test_a_deletion_in_a_step_is_told_and_one_command_ends_it(owned: Stage) -> None:
    """The command is the one that the Event prints."""
    before = {name: part for name, part in spec_of(owned).items() if name not in ("paused", "template")}
    applied(owned, "2")
    until(owned, "Paused", v1=3, v2=1)
    owned.kubectl("delete", ROLLOUT.plural, "web")
    owned.until("deployments", "web", lambda _: ours(owned) == {"f:paused"})
    spec = spec_of(owned)
    assert ({name: part for name, part in spec.items() if name != "template"}) == {**before, "paused": True}

    about = "involvedObject.kind=Deployment,reason=WorkloadReleased"
    with owned.plane.watch(f"/api/v1/namespaces/{owned.namespace}/events", timeout_s=30, fieldSelector=about) as events:
        note = next(event["object"]["message"] for event in events)
    command = note.partition("to go on with it: ")[2].partition(";")[0]
    owned.kubectl(*command.split()[1:])
    owned.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    assert by_image(owned) == {"v2": 4}
    assert ours(owned) == set()
