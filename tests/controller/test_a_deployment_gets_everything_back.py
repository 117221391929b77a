"""Promise: a Deployment that was updated in place has its user's fields again, and none of them is ours any more.

At the end of an update, after an abort that was taken back, and when its Rollout is deleted, at rest and in a step.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest

from rollouts.manifests.ownership import FIELD_MANAGER, OWN_FIELDS, PREFIX
from rollouts.objects import DEPLOYMENT, EVENT, REPLICA_SET, ROLLOUT, Manifest
from rollouts.ports import JSON_PATCH, MERGE_PATCH, Request
from rollouts.sim.cluster import SimulatedCluster
from tests.controller.test_a_deployment_is_stepped_where_it_is import (
    LABELS,
    NAME,
    SPACE,
    at,
    deployment,
    found,
    held,
    rollout,
    sizes,
    told,
)
from tests.controller.test_the_process_outlives_what_objects_hold import until

__all__ = ["held"]  # a fixture
pytestmark = pytest.mark.virtual_time(limit_s=4_000)

OWN: dict[str, Any] = {"minReadySeconds": 3, "progressDeadlineSeconds": 77}


def fields(cluster: SimulatedCluster) -> dict[str, Any]:
    """The spec of the Deployment without its template; a pause that is not is none."""
    spec = {name: part for name, part in found(cluster, DEPLOYMENT)["spec"].items() if name != "template"}
    return {name: part for name, part in spec.items() if (name, part) != ("paused", False)}


async def owned_by_us(cluster: SimulatedCluster) -> set[str]:
    """The fields of its spec that our field manager owns, and our marks."""
    answer = await cluster.api.request(Request("GET", DEPLOYMENT.path(SPACE, NAME)), deadline_s=5)
    metadata = json.loads(answer.body)["metadata"]
    marks = {mark for part in ("labels", "annotations") for mark in metadata.get(part, {}) if mark.startswith(PREFIX)}
    entries = [entry for entry in metadata["managedFields"] if entry["manager"] == FIELD_MANAGER]
    owned = {name for entry in entries for name in entry["fieldsV1"].get("f:spec", {})}
    return owned | marks


def marked(cluster: SimulatedCluster) -> set[str]:
    """Our marks on the ReplicaSets of the Deployment."""
    marks = [
        each["metadata"].get(part, {})
        for each in cluster.list(REPLICA_SET, SPACE)
        for part in ("labels", "annotations")
    ]
    return {mark for each in marks for mark in each if mark.startswith(PREFIX)}


async def deleted(cluster: SimulatedCluster) -> None:
    """Deletes the Rollout, and gives the controller time."""
    gone = await cluster.api.request(Request("DELETE", ROLLOUT.path(SPACE, NAME)), deadline_s=5)
    assert gone.status == 200
    await asyncio.sleep(60)


def events(cluster: SimulatedCluster) -> list[tuple[str, str]]:
    """Of the Deployment: type and note."""
    seen = [each for each in cluster.list(EVENT, SPACE) if each["regarding"]["kind"] == DEPLOYMENT.kind]
    return [(each["type"], each["note"]) for each in seen if each["reason"] == "WorkloadReleased"]


@pytest.fixture
async def own_fields(held: SimulatedCluster) -> SimulatedCluster:
    """The Deployment has fields that its user gave, besides the limits."""
    held.apply(deployment(**OWN))
    await asyncio.sleep(30)
    return held


def unpaused(seen: dict[str, Any]) -> dict[str, Any]:
    """Without the pause between updates, where no policy holds the Deployment."""
    return {name: part for name, part in seen.items() if name != "paused"}


async def test_after_a_promotion_the_spec_is_the_users(own_fields: SimulatedCluster) -> None:
    """In value, and in the owners of its fields: else the user's own apply of other limits would be a conflict."""
    before = fields(own_fields)
    own_fields.apply(deployment("2", **OWN))
    await promoted(own_fields)
    await at(own_fields, "Healthy", v2=4)
    await asyncio.sleep(30)

    assert fields(own_fields) == before
    marks = {f"{PREFIX}managed", f"{PREFIX}hold", f"{PREFIX}managed-by"}
    assert await owned_by_us(own_fields) == marks | ({"f:paused"} if "paused" in before else set())


async def test_a_rollout_stays_healthy_while_its_deployment_gets_its_fields_back(own_fields: SimulatedCluster) -> None:
    """The ReplicaSet's controller counts anew then, by another `minReadySeconds`; its pods have been available all along."""
    phases: list[str] = []
    own_fields.api.history.listen(ROLLOUT, lambda change: phases.append(change.new.manifest["status"]["phase"]))
    own_fields.apply(deployment("2", **OWN))
    await promoted(own_fields)

    assert phases[-1] == "Healthy"
    assert "Progressing" not in phases[phases.index("Healthy") :]


async def test_a_rollout_is_healthy_once_its_deployment_has_its_fields_again(own_fields: SimulatedCluster) -> None:
    """Whoever waits for that, and deletes the Rollout then, finds nothing left of the update; until then it is told."""
    before, seen, reasons = fields(own_fields), list[dict[str, Any]](), list[str]()

    def noticed(change: Any) -> None:
        status = change.new.manifest["status"]
        reasons.append((status.get("waitingFor") or {}).get("reason", ""))
        if status["phase"] == "Healthy":
            seen.append(fields(own_fields))

    own_fields.apply(deployment("2", **OWN))
    await until(own_fields, NAME, lambda status: status.get("phase") == "Paused")
    own_fields.api.history.listen(ROLLOUT, noticed)
    await promoted(own_fields)

    assert reasons[-2:] == ["FieldsNotGivenBack", ""]
    assert seen[0] == before


async def test_a_rollout_that_is_deleted_before_its_last_write_was_seen_leaves_nothing(
    own_fields: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Deployment's controller is slow: its counts are of an earlier spec when the Rollout is gone."""
    before = unpaused(fields(own_fields))
    own_fields.apply(deployment("2", **OWN))
    for _ in range(2):
        await until(own_fields, NAME, lambda status: status.get("phase") == "Paused")
        told(own_fields, "promote", "true")
        await asyncio.sleep(60)
        monkeypatch.setattr("rollouts.sim.actors.deployments.controller._LAG_S", (5.0, 6.0))
    own_fields.apply(deployment("2", **OWN, revisionHistoryLimit=7))  # a generation that its controller has not seen
    await deleted(own_fields)

    assert fields(own_fields) == {**before, "revisionHistoryLimit": 7}
    assert await owned_by_us(own_fields) == set()
    assert events(own_fields) == []


async def test_after_an_abort_that_was_taken_back_the_spec_is_the_users(own_fields: SimulatedCluster) -> None:
    """With the stable template again."""
    before = fields(own_fields)
    own_fields.apply(deployment("2", **OWN))
    await at(own_fields, "Paused", v1=3, v2=1)
    told(own_fields, "abort", "true")
    await at(own_fields, "Aborted", v1=4)
    own_fields.apply(deployment("1", **OWN))
    await at(own_fields, "Healthy", v1=4)
    await asyncio.sleep(30)

    assert fields(own_fields) == before
    assert await owned_by_us(own_fields) <= {f"{PREFIX}managed", f"{PREFIX}hold", f"{PREFIX}managed-by", "f:paused"}


async def test_a_rollout_that_is_deleted_at_rest_leaves_nothing(own_fields: SimulatedCluster) -> None:
    """Nor the pause, where no policy held the Deployment; and there is nothing to tell."""
    own_fields.apply(deployment("2", **OWN))
    await promoted(own_fields)
    assert f"{PREFIX}name" in marked(own_fields)
    before = unpaused(fields(own_fields))
    await deleted(own_fields)

    assert fields(own_fields) == before
    assert await owned_by_us(own_fields) == set()
    assert marked(own_fields) == set()
    assert events(own_fields) == []
    own_fields.apply(deployment("3", **OWN))
    await asyncio.sleep(60)
    assert sizes(own_fields) == {"3": 4}, "its own controller rolls out what comes"


async def test_a_rollout_that_is_deleted_in_a_step_leaves_a_pause_and_tells_how_it_ends(
    own_fields: SimulatedCluster,
) -> None:
    """The Event is the Deployment's, as the Rollout is gone."""
    before = unpaused(fields(own_fields))
    own_fields.apply(deployment("2", **OWN))
    await at(own_fields, "Paused", v1=3, v2=1)
    await deleted(own_fields)

    assert fields(own_fields) == {**before, "paused": True}
    assert await owned_by_us(own_fields) == {"f:paused"}
    assert marked(own_fields) == set()
    ((kind, note),) = events(own_fields)
    assert kind == "Warning" and f"kubectl rollout resume deployment/{NAME} -n {SPACE}" in note
    own_fields.apply({**deployment("2", **OWN, paused=False)})
    await asyncio.sleep(60)
    assert sizes(own_fields) == {"2": 4}
    assert await owned_by_us(own_fields) == set()


async def undone(cluster: SimulatedCluster, tag: str) -> None:
    """`kubectl rollout undo` to the ReplicaSet of that image.

    Source: k8s.io/kubectl pkg/polymorphichelpers/rollback.go, `DeploymentRollbacker.Rollback`: the template and all annotations
    but a few become those of the ReplicaSet, to which the Deployment's controller has copied them.
    """
    (old,) = [each for each in cluster.list(REPLICA_SET, SPACE) if image_of(each) == f"web:{tag}"]
    template = {**old["spec"]["template"], "metadata": {"labels": LABELS}}
    kept = found(cluster, DEPLOYMENT)["metadata"]["annotations"]
    own = {name: text for name, text in kept.items() if name.startswith("deployment.kubernetes.io/")}
    annotations = {**old["metadata"]["annotations"], **own}
    body = [
        {"op": "replace", "path": "/spec/template", "value": template},
        {"op": "replace", "path": "/metadata/annotations", "value": annotations},
    ]
    query = {"fieldManager": "kubectl-rollout"}
    request = Request("PATCH", DEPLOYMENT.path(SPACE, NAME), query, msgspec.json.encode(body), JSON_PATCH)
    assert (await cluster.api.request(request, deadline_s=5)).status == 200


def image_of(one: Manifest) -> str:
    """Of a template."""
    image: str = one["spec"]["template"]["spec"]["containers"][0]["image"]
    return image


@pytest.mark.parametrize("again", [False, True], ids=["before Rollouts", "in an update"])
async def test_after_an_undo_in_a_step_the_spec_is_the_users(own_fields: SimulatedCluster, again: bool) -> None:
    """It replaces all annotations by those of the ReplicaSet: none of an update, or those of an earlier one."""
    own_fields.apply(deployment("2", **OWN))
    await at(own_fields, "Paused", v1=3, v2=1)
    if again:
        await promoted(own_fields)
        own_fields.apply(deployment("2", minReadySeconds=4, progressDeadlineSeconds=88))
        await asyncio.sleep(30)
        own_fields.apply(deployment("3", minReadySeconds=4, progressDeadlineSeconds=88))
        await at(own_fields, "Paused", v2=3, v3=1)
    await undone(own_fields, "2" if again else "1")
    await until(own_fields, NAME, lambda status: status.get("phase") == "Healthy")
    await asyncio.sleep(60)

    seen = fields(own_fields)
    assert sizes(own_fields) == {"2" if again else "1": 4}
    assert (seen["minReadySeconds"], seen["progressDeadlineSeconds"]) == ((4, 88) if again else (3, 77))
    assert seen["strategy"]["rollingUpdate"] == {"maxSurge": "25%", "maxUnavailable": "25%"}


async def promoted(cluster: SimulatedCluster) -> None:
    """Through both pauses to the end."""
    for _ in range(2):
        await until(cluster, NAME, lambda status: status.get("phase") == "Paused")
        told(cluster, "promote", "true")
        await asyncio.sleep(60)
    await until(cluster, NAME, lambda status: status.get("phase") == "Healthy")


async def test_an_undo_between_updates_brings_no_fields_of_an_earlier_one_back(own_fields: SimulatedCluster) -> None:
    """Those that the user has changed since stand after the update that it begins."""
    for tag in ("2", "3"):
        own_fields.apply(deployment(tag, **OWN))
        await promoted(own_fields)
    own_fields.apply(deployment("3", minReadySeconds=4, progressDeadlineSeconds=88))
    await asyncio.sleep(30)
    before = fields(own_fields)
    await undone(own_fields, "2")
    await promoted(own_fields)
    await asyncio.sleep(30)

    assert fields(own_fields) == before
    assert sizes(own_fields) == {"2": 4}


async def test_a_new_template_that_no_update_has_begun_with_stays_held(own_fields: SimulatedCluster) -> None:
    """The Rollout is paused by its user, and then deleted: nobody asked for these pods."""
    told(own_fields, "pause", "true")
    await asyncio.sleep(30)
    own_fields.apply(deployment("2", **OWN))
    await asyncio.sleep(30)
    await deleted(own_fields)

    assert found(own_fields, DEPLOYMENT)["spec"]["paused"]
    assert sizes(own_fields) == {"1": 4}
    assert [kind for kind, _ in events(own_fields)] == ["Warning"]


async def test_a_rollout_that_names_another_workload_tells_what_it_leaves(own_fields: SimulatedCluster) -> None:
    """In a step."""
    own_fields.apply(deployment("2", **OWN))
    await at(own_fields, "Paused", v1=3, v2=1)
    own_fields.apply(rollout(name="other"))
    await asyncio.sleep(60)

    assert (fields(own_fields)["minReadySeconds"], fields(own_fields)["paused"]) == (3, True)
    assert marked(own_fields) == set()
    notes = [each["note"] for each in own_fields.list(EVENT, SPACE) if each["reason"] == "WorkloadReleased"]
    assert [f"kubectl rollout resume deployment/{NAME}" in note for note in notes] == [True]


async def test_a_note_that_cannot_be_read_is_told_with_the_command_that_repairs_it(
    own_fields: SimulatedCluster,
) -> None:
    """Nothing is stepped by numbers that nobody knows; with the note again the update goes on."""
    own_fields.apply(deployment("2", **OWN))
    await at(own_fields, "Paused", v1=3, v2=1)
    await _noted(own_fields, "nonsense")
    await until(own_fields, NAME, lambda status: f"--overwrite {OWN_FIELDS}=" in status.get("message", ""))
    assert sizes(own_fields) == {"1": 3, "2": 1}
    told(own_fields, "promote", "true")
    await asyncio.sleep(60)
    assert sizes(own_fields) == {"1": 3, "2": 1}

    message = str(found(own_fields, ROLLOUT)["status"]["message"])
    await _noted(own_fields, message.partition(f"--overwrite {OWN_FIELDS}=")[2])
    await until(own_fields, NAME, lambda _: sizes(own_fields) == {"1": 2, "2": 2})


async def test_a_note_that_cannot_be_read_leaves_the_defaults_of_kubernetes_at_a_release(
    own_fields: SimulatedCluster,
) -> None:
    """The inflated fields would keep every later update of the Deployment from its end."""
    own_fields.apply(deployment("2", **OWN))
    await at(own_fields, "Paused", v1=3, v2=1)
    await _noted(own_fields, "nonsense")
    await deleted(own_fields)

    seen = fields(own_fields)
    assert (seen.get("minReadySeconds", 0), seen["paused"]) == (0, True)
    assert seen.get("progressDeadlineSeconds", 600) == 600
    assert seen["strategy"]["rollingUpdate"] == {"maxSurge": "25%", "maxUnavailable": "25%"}
    assert await owned_by_us(own_fields) == {"f:paused"}


async def _noted(cluster: SimulatedCluster, note: str) -> None:
    body: Manifest = {"metadata": {"labels": {OWN_FIELDS: note}}}
    path, query = DEPLOYMENT.path(SPACE, NAME), {"fieldManager": "a person"}
    request = Request("PATCH", path, query, msgspec.json.encode(body), MERGE_PATCH)
    answer = await cluster.api.request(request, deadline_s=5)
    assert answer.status == 200
