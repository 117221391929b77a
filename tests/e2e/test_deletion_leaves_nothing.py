"""A Rollout that is deleted in the middle of a step takes everything of its own with it, and gives back what is the user's.

With `--cascade=orphan` its pods stay, and are its own again when it is applied again.
"""

from __future__ import annotations

import json

import pytest

from tests.e2e.manifests import blue_green, canary, services
from tests.e2e.stage import Stage

pytestmark = pytest.mark.controlplane


def test_deletion_in_the_middle_of_a_step_leaves_nothing(stage: Stage) -> None:
    """ReplicaSets and pods go; Services stay, and select what their owner wrote, or they would select nobody for ever."""
    fronts = [*services("web", "stable", "canary"), *services("api", "active", "preview")]
    selectors = {one["metadata"]["name"]: one["spec"]["selector"] for one in fronts}
    web = canary("web", stableService="web-stable", canaryService="web-canary")
    stage.rolled_out(web, blue_green("api", autoPromotionEnabled=False), *fronts)
    for name in ("web", "api"):
        stage.gated(name, f"{name}:2")
    managed = {name: stage.selected(name) for name in selectors}

    stage.kubectl("delete", "rollouts", "--all", "--timeout=55s")
    for app in ("web", "api"):
        stage.until_pods(app, {}, within_s=60)  # the garbage collector looks for new kinds of owners every 30 s
    released = {
        name: stage.until("services", name, lambda one: "rollouts.dev/revision" not in one["spec"]["selector"])
        for name in selectors
    }

    assert all(managed.values())
    assert (stage.all("replicasets"), stage.all("pods")) == ([], [])
    assert {name: one["spec"]["selector"] for name, one in released.items()} == selectors
    assert [name for name, one in released.items() if "rollouts.dev" in _marks(one)] == []


def test_what_an_orphaning_delete_leaves_is_adopted_by_the_rollout_that_is_applied_again(stage: Stage) -> None:
    """Backup and restore: the same pods and ReplicaSets, controlled by the new Rollout, and no update."""
    manifest = canary("web", stableService="web-stable", canaryService="web-canary")
    stage.apply(manifest, *services("web", "stable", "canary"))
    before = stage.wait_ready("web")
    pods = {each["metadata"]["uid"] for each in stage.all("pods")}

    stage.kubectl("delete", "rollout", "web", "--cascade=orphan", "--timeout=60s")
    stage.apply(manifest)
    after = stage.wait_ready("web")

    (replica_set,) = stage.all("replicasets")
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert [each["uid"] for each in replica_set["metadata"]["ownerReferences"]] == [after["metadata"]["uid"]]
    assert {each["metadata"]["uid"] for each in stage.all("pods")} == pods
    assert after["status"]["stableRevision"] == before["status"]["stableRevision"]


def _marks(service: dict[str, dict[str, dict[str, str]]]) -> str:
    metadata = service["metadata"]
    annotations = metadata.get("annotations", {})
    mine = {key: value for key, value in annotations.items() if not key.startswith("kubectl.kubernetes.io/")}
    return json.dumps([metadata.get("labels", {}), mine])
