"""Promise: the ReplicaSets of a simulated Deployment look as those of a real one: names, labels, owners, annotations, revisions.

Without replicas, so that nothing here waits for pods.
"""

from __future__ import annotations

from typing import Any

import pytest

from rollouts.objects import REPLICA_SET, Manifest
from rollouts.ports import MERGE_PATCH
from tests import build
from tests.build import DEPLOYMENT
from tests.contract.conversation import STRATEGIC, Answer, Conversation

REVISION, HISTORY = "deployment.kubernetes.io/revision", "deployment.kubernetes.io/revision-history"
SIZES = {"deployment.kubernetes.io/desired-replicas": "0", "deployment.kubernetes.io/max-replicas": "0"}
APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


async def _observed(api: Conversation) -> Any:
    """The Deployment when its controller has seen all of it."""

    def is_observed(answer: Answer) -> bool:
        observed: int | None = answer.body["status"].get("observedGeneration")
        return observed == int(answer.metadata["generation"])

    return (await api.until(is_observed, DEPLOYMENT, "web")).body


async def _made(api: Conversation, **spec: Any) -> Any:
    metadata = {"annotations": {"note": "one", APPLIED: "{}"}, "labels": {"team": "shop"}}
    await api.made(DEPLOYMENT, build.deployment("web", replicas=0, metadata=metadata, **spec))
    return await _observed(api)


async def _image(api: Conversation, image: str) -> Any:
    containers = [{"name": "app", "image": image}]
    answer = await api.patch(DEPLOYMENT, "web", {"spec": {"template": {"spec": {"containers": containers}}}}, STRATEGIC)
    assert answer.status == 200, answer.body
    return await _observed(api)


async def _replica_sets(api: Conversation) -> dict[str, Any]:
    """By image."""
    items = (await api.list(REPLICA_SET)).body["items"]
    return {item["spec"]["template"]["spec"]["containers"][0]["image"]: item for item in items}


async def test_a_new_replica_set_is_found_by_its_hash(api: Conversation) -> None:
    """The hash is in its name, its labels, its selector and its pods' labels; of the Deployment's labels it takes none."""
    deployment = await _made(api, minReadySeconds=3)
    (found,) = (await _replica_sets(api)).values()

    hashed = found["metadata"]["labels"]["pod-template-hash"]
    labels = {"app": "web", "pod-template-hash": hashed}
    assert set(hashed) <= set("bcdfghjklmnpqrstvwxz2456789")
    assert found["metadata"]["name"] == f"web-{hashed}"
    assert found["metadata"]["labels"] == found["spec"]["template"]["metadata"]["labels"] == labels
    assert found["spec"]["selector"] == {"matchLabels": labels}
    assert (found["spec"]["replicas"], found["spec"]["minReadySeconds"]) == (0, 3)
    assert found["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "name": "web",
            "uid": deployment["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]


async def test_annotations_go_to_the_new_replica_set(api: Conversation) -> None:
    """Except what tools and the controller itself wrote; also when they change later, and never away again."""
    first = await _made(api)
    (made,) = (await _replica_sets(api)).values()
    await api.patch(DEPLOYMENT, "web", {"metadata": {"annotations": {"note": None, "more": "two"}}}, MERGE_PATCH)
    again = await _observed(api)
    (changed,) = (await _replica_sets(api)).values()

    assert first["metadata"]["annotations"] == {"note": "one", APPLIED: "{}", REVISION: "1"}
    assert made["metadata"]["annotations"] == {"note": "one", REVISION: "1", **SIZES}
    assert again["metadata"]["annotations"] == {"more": "two", APPLIED: "{}", REVISION: "1"}
    assert changed["metadata"]["annotations"] == {"note": "one", "more": "two", REVISION: "1", **SIZES}
    assert (first["metadata"]["generation"], again["metadata"]["generation"]) == (1, 2)


async def test_a_template_that_comes_back_gets_a_new_number(api: Conversation) -> None:
    """The highest number is the newest; the numbers that it had are its history."""
    await _made(api)
    seen = []
    for image in ("app:2", "app:1", "app:2", "app:1"):
        deployment = await _image(api, image)
        seen.append(deployment["metadata"]["annotations"][REVISION])
    found = {image: one["metadata"]["annotations"] for image, one in (await _replica_sets(api)).items()}

    assert seen == ["2", "3", "4", "5"]
    assert {image: (one[REVISION], one[HISTORY]) for image, one in found.items()} == {
        "app:1": ("5", "1,3"),
        "app:2": ("4", "2"),
    }


@pytest.mark.parametrize(
    ("annotations", "noted"),
    [
        ({REVISION: "7"}, {REVISION: "7"}),
        ({REVISION: "1"}, {REVISION: "2", HISTORY: "1"}),
        ({REVISION: "none"}, {REVISION: "none"}),
        ({"own": "x"}, {"own": "x", REVISION: "2"}),
    ],
    ids=["higher", "lower", "no number", "none"],
)
async def test_a_replica_set_made_for_the_template_is_numbered(
    api: Conversation, annotations: Manifest, noted: Manifest
) -> None:
    """While the Deployment is paused: so whoever made it can wait for its number before the first step."""
    await _made(api)
    deployment = await _paused_at(api, "app:2")
    owner = (await _replica_sets(api))["app:1"]["metadata"]["ownerReferences"]
    labels = {"app": "web", "pod-template-hash": "ours"}
    pods = deployment["spec"]["template"] | {"metadata": {"labels": labels}}
    metadata = {"labels": {**labels, "extra": "kept"}, "ownerReferences": owner, "annotations": annotations}
    selector = {"matchLabels": labels}
    await api.made(REPLICA_SET, build.replica_set("web-ours", metadata=metadata, selector=selector, template=pods))

    number = noted[REVISION]
    taken = await api.until(lambda one: one.body["metadata"]["annotations"].get(REVISION) == number, DEPLOYMENT, "web")
    found = await _replica_sets(api)
    shown = found["app:2"]["metadata"]
    kept = {name: value for name, value in shown["annotations"].items() if name != "note"}
    assert (shown["labels"], kept) == (metadata["labels"], noted)
    assert (len(found), taken.body["spec"]["paused"], taken.body["status"].get("updatedReplicas")) == (2, True, None)


async def _paused_at(api: Conversation, image: str) -> Any:
    await api.patch(DEPLOYMENT, "web", {"spec": {"paused": True}}, MERGE_PATCH)
    return await _image(api, image)
