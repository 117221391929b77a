"""Promise: only the object that was meant is deleted, finalizers are waited for, dependents follow their owner."""

from __future__ import annotations

from typing import Any

import pytest

from rollouts.objects import CONFIG_MAP, POD, REPLICA_SET, Manifest
from rollouts.ports import MERGE_PATCH
from tests.build import replica_set
from tests.contract.conversation import WIDGET, Conversation, config_map, widget

FINALIZER = "contract.rollouts.dev/wait"


def owned(name: str, owner: Any, **reference: Any) -> Manifest:
    """A ConfigMap that belongs to `owner`."""
    metadata = owner["metadata"]
    one = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": metadata["name"], "uid": metadata["uid"]}
    return {"metadata": {"name": name, "ownerReferences": [{**one, "controller": True, **reference}]}}


async def test_a_deleted_object_is_gone_and_the_answer_names_it(api: Conversation) -> None:
    """The answer is a Status with the uid, not the object."""
    made = await api.made(WIDGET, widget("a"))

    answer = await api.delete(WIDGET, "a")

    assert (answer.status, answer.body["status"]) == (200, "Success")
    uid = made["metadata"]["uid"]
    assert answer.body["details"] == {"name": "a", "group": WIDGET.group, "kind": "widgets", "uid": uid}
    assert (await api.get(WIDGET, "a")).status == 404
    assert (await api.delete(WIDGET, "a")).status == 404


@pytest.mark.parametrize("precondition", ["uid", "resourceVersion"])
async def test_a_precondition_that_does_not_hold_keeps_the_object(api: Conversation, precondition: str) -> None:
    """A stale view never deletes what somebody made anew; one of the last version lets the deletion through."""
    made = await api.made(WIDGET, widget("a"))
    seen = {name: made["metadata"][name] for name in ("uid", "resourceVersion")}

    refused = await api.delete(WIDGET, "a", {"preconditions": {precondition: "1"}})
    kept = await api.get(WIDGET, "a")
    deleted = await api.delete(WIDGET, "a", {"preconditions": seen})

    assert (refused.status, refused.reason, kept.status) == (409, "Conflict", 200)
    assert "in the precondition (1) does not match" in refused.message
    assert (deleted.status, (await api.get(WIDGET, "a")).status) == (200, 404)


async def test_a_finalizer_holds_a_deletion_until_it_is_removed(api: Conversation) -> None:
    """In between the object has a deletionTimestamp and can still be written."""
    await api.made(WIDGET, {**widget("a"), "metadata": {"name": "a", "finalizers": [FINALIZER]}})

    deleted = await api.delete(WIDGET, "a")
    marked = await api.get(WIDGET, "a")
    again = await api.delete(WIDGET, "a")
    released = await api.patch(WIDGET, "a", {"metadata": {"finalizers": None}}, MERGE_PATCH)

    assert deleted.body["kind"] == "Widget"
    assert marked.metadata["deletionTimestamp"]
    assert marked.metadata["generation"] == 2
    assert again.version == marked.version
    assert released.status == 200
    assert (await api.get(WIDGET, "a")).status == 404


async def test_dependents_follow_their_owner(api: Conversation) -> None:
    """ReplicaSets and config copies of a Rollout need no clean-up of ours."""
    owner = await api.made(CONFIG_MAP, config_map("owner"))
    await api.made(CONFIG_MAP, owned("child", owner))
    await api.made(CONFIG_MAP, config_map("stranger"))

    await api.delete(CONFIG_MAP, "owner", {"propagationPolicy": "Background"})

    await api.until(lambda answer: answer.status == 404, CONFIG_MAP, "child")
    assert (await api.get(CONFIG_MAP, "stranger")).status == 200


async def test_an_object_whose_owner_never_was_is_collected(api: Conversation) -> None:
    """A ReplicaSet made for a Rollout that was deleted meanwhile goes by itself."""
    owner = await api.made(CONFIG_MAP, config_map("owner"))
    await api.delete(CONFIG_MAP, "owner")

    await api.made(CONFIG_MAP, owned("late", owner))

    await api.until(lambda answer: answer.status == 404, CONFIG_MAP, "late")


async def test_orphaned_dependents_stay(api: Conversation) -> None:
    """`kubectl delete --cascade=orphan` keeps the pods running."""
    owner = await api.made(CONFIG_MAP, config_map("owner"))
    await api.made(CONFIG_MAP, owned("child", owner))

    await api.delete(CONFIG_MAP, "owner", {"propagationPolicy": "Orphan"})
    await api.until(lambda answer: answer.status == 404, CONFIG_MAP, "owner")

    child = await api.get(CONFIG_MAP, "child")
    assert child.status == 200
    assert "ownerReferences" not in child.metadata


async def test_a_foreground_deletion_takes_the_dependents_first(api: Conversation) -> None:
    """The owner is there, marked, until they are gone."""
    owner = await api.made(CONFIG_MAP, config_map("owner"))
    child = owned("child", owner, blockOwnerDeletion=True)
    child["metadata"]["finalizers"] = [FINALIZER]
    await api.made(CONFIG_MAP, child)

    answer = await api.delete(CONFIG_MAP, "owner", {"propagationPolicy": "Foreground"})
    await api.until(lambda found: "deletionTimestamp" in found.metadata, CONFIG_MAP, "child")
    waiting = await api.get(CONFIG_MAP, "owner")
    await api.patch(CONFIG_MAP, "child", {"metadata": {"finalizers": None}}, MERGE_PATCH)

    assert answer.metadata["finalizers"] == ["foregroundDeletion"]
    assert waiting.status == 200
    await api.until(lambda found: found.status == 404, CONFIG_MAP, "owner")


async def test_a_replica_set_makes_pods_of_its_template_and_counts_them(api: Conversation) -> None:
    """Names, owner and labels are what the controller reads pods by."""
    made = await api.made(REPLICA_SET, replica_set("rs", replicas=2))
    await api.until(lambda found: found.body.get("status", {}).get("replicas") == 2, REPLICA_SET, "rs")

    pods = (await api.list(POD, labelSelector="app=rs")).body["items"]

    assert len(pods) == 2
    for pod in pods:
        assert pod["metadata"]["name"].startswith("rs-")
        assert len(pod["metadata"]["name"]) == len("rs-") + 5
        owner = pod["metadata"]["ownerReferences"][0]
        assert (owner["uid"], owner["controller"]) == (made["metadata"]["uid"], True)
    status = (await api.get(REPLICA_SET, "rs")).body["status"]
    assert status["observedGeneration"] == 1
    assert status["fullyLabeledReplicas"] == 2


async def test_an_evicted_pod_ends(api: Conversation) -> None:
    """Restarts go this way, so that disruption budgets hold."""
    await api.made(REPLICA_SET, replica_set("rs", replicas=1))
    await api.until(lambda found: found.body.get("status", {}).get("replicas") == 1, REPLICA_SET, "rs")
    pod = (await api.list(POD, labelSelector="app=rs")).body["items"][0]["metadata"]
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod["name"]}}
    wrong = {**eviction, "deleteOptions": {"preconditions": {"uid": "other"}}}

    refused = await api.send("POST", api.path(POD, pod["name"], "eviction"), wrong)
    answer = await api.send("POST", api.path(POD, pod["name"], "eviction"), eviction)

    assert (refused.status, refused.reason) == (409, "Conflict")
    assert (answer.status, answer.body["status"]) == (201, "Success")
    found = await api.get(POD, pod["name"])
    assert found.status == 404 or found.metadata["deletionTimestamp"]
