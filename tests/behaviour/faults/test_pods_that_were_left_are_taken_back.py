"""Promise: what `kubectl delete --cascade=orphan` leaves, the Rollout that is applied again takes back, and no pod is replaced.

Backup and restore, and takeovers by another tool, go that way. Deployments do the same (`ControllerRefManager.AdoptReplicaSet`).
"""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from rollouts.manifests.ownership import HASH_SCHEME_LABEL
from rollouts.objects import POD, REPLICA_SET, ROLLOUT, Manifest
from tests.api.specs import put
from tests.behaviour.scenarios import (
    ACTIVE_AND_PREVIEW,
    HALF,
    MANUAL,
    STABLE_AND_CANARY,
    at_gate,
    blue_green,
    canary,
    rollout,
)
from tests.behaviour.stage import KEY, Stage, play

STRATEGIES = pytest.mark.parametrize(
    "strategy",
    [canary(HALF, MANUAL), canary(HALF, MANUAL, services=True), blue_green(autoPromotionEnabled=False)],
    ids=["ratio", "Services", "blueGreen"],
)
THINGS = (*STABLE_AND_CANARY, *ACTIVE_AND_PREVIEW)


def _uids(stage: Stage) -> set[str]:
    return {each["metadata"]["uid"] for each in stage.cluster.list(POD)}


def _owners(stage: Stage) -> set[str]:
    owners = (each["metadata"].get("ownerReferences") or () for each in stage.cluster.list(REPLICA_SET))
    return {each["uid"] for found in owners for each in found if each.get("controller")}


@STRATEGIES
@pytest.mark.parametrize("pause_s", [0.0, 30.0])
def test_a_rollout_that_is_applied_again_has_its_pods_again(strategy: Manifest, pause_s: float) -> None:
    """At once, as `kubectl replace --force --cascade=orphan` does it, and later, as a restore does."""

    async def script(stage: Stage) -> None:
        await stage.until_phase("Healthy", "1")
        pods = _uids(stage)
        manifest = await stage.delete_and_orphan()
        await asyncio.sleep(pause_s)
        stage.cluster.apply(manifest)
        await stage.until_phase("Healthy", "1")
        await asyncio.sleep(5)

        again = stage.find(ROLLOUT)
        assert _uids(stage) == pods
        assert _owners(stage) == {again["metadata"]["uid"]}
        assert (stage.status["phase"], len(stage.cluster.list(REPLICA_SET))) == ("Healthy", 1)
        await stage.update("2", "Paused")
        await stage.order("promote", "true", "Healthy", "2")

    play((rollout(strategy), *THINGS), script).assert_clean()


@STRATEGIES
def test_an_update_that_was_under_way_begins_again_from_the_revision_that_serves(strategy: Manifest) -> None:
    """Both ReplicaSets come back; the one that serves stays the stable one."""

    async def script(stage: Stage) -> None:
        await at_gate(stage)
        stable = stage.status["stableRevision"]
        stage.cluster.apply(await stage.delete_and_orphan())
        await stage.until_phase("Paused", "2")

        assert (stage.status["stableRevision"], len(stage.cluster.list(REPLICA_SET))) == (stable, 2)

    play((rollout(strategy), *THINGS), script).assert_clean()


STRANGE: dict[str, list[tuple[str, str]]] = {
    "scheme": [(f"metadata labels {HASH_SCHEME_LABEL}", "v0")],
    "selector": [("spec selector matchLabels tier", "web"), ("spec template metadata labels tier", "web")],
    "name": [("metadata name", "somebody-elses")],
}


@pytest.mark.parametrize("changes", STRANGE.values(), ids=STRANGE)
def test_a_strangers_replica_set_under_our_label_is_left_alone_and_told(changes: list[tuple[str, str]]) -> None:
    """A label can be put on anything; whose pods would be scaled and deleted must be ours beyond doubt."""

    async def script(stage: Stage) -> None:
        await stage.until_phase("Healthy", "1")
        (ours,) = stage.cluster.list(REPLICA_SET)
        labels = {**ours["metadata"]["labels"], "rollouts.dev/revision": "zzzzzzzzzz"}
        stranger: Manifest = msgspec.json.decode(msgspec.json.encode({**ours, "status": {}}))
        stranger["metadata"] = {"name": f"{KEY.name}-zzzzzzzzzz", "namespace": KEY.namespace, "labels": labels}
        for part in (stranger["spec"]["selector"]["matchLabels"], stranger["spec"]["template"]["metadata"]["labels"]):
            part["rollouts.dev/revision"] = "zzzzzzzzzz"
        for way, value in changes:
            put(stranger, tuple(way.split()), value)
        stage.cluster.apply(stranger)
        name, told = stranger["metadata"]["name"], "ReplicaSetNotAdopted"
        await stage.until(lambda: bool(stage.condition(told)), within_s=10)
        assert name in stage.condition(told)["message"]
        await asyncio.sleep(30)
        assert "ownerReferences" not in stage.find(REPLICA_SET, name)["metadata"]
        assert (stage.status["phase"], len(stage.events("NotAdopted"))) == ("Healthy", 1)
        stage.merge(REPLICA_SET, name, {"metadata": {"labels": {"rollouts.dev/name": None}}})
        await stage.until(lambda: not stage.condition(told), within_s=10)
        stage.remove(REPLICA_SET, name)

    play((rollout(canary()),), script).assert_clean()
