"""Promise: the claims of a StatefulSet's pods keep their names and contents, and go only when the user has said so."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from rollouts.objects import POD, STATEFUL_SET, Kind, Manifest
from rollouts.ports import MERGE_PATCH
from rollouts.sim.storage.registry import CLAIM
from tests.contract.conversation import Answer, Conversation
from tests.contract.workloads import NAME, template

VOLUME = Kind("", "v1", "PersistentVolume", "persistentvolumes", namespaced=False)


def stateful_set(api: Conversation, *, unbound: bool, **spec: Any) -> Manifest:
    """Two pods with a claim each; an unbound one has no volume on either server."""
    storage_class = f"{api.namespace}-{'none' if unbound else 'some'}"
    claim = {
        "metadata": {"name": "data", "annotations": {"sim.rollouts.dev/unbound": "true"} if unbound else {}},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": storage_class,
        },
    }
    usual = {
        "replicas": 2,
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": {"app": NAME}},
        "template": template(1),
        "volumeClaimTemplates": [claim],
    }
    return {"metadata": {"name": NAME}, "spec": {**usual, **spec}}


@pytest.fixture
async def volumes(api: Conversation) -> AsyncIterator[None]:
    """Three volumes that the test's claims fit; the simulation makes one for each claim."""
    names = [f"{api.namespace}-{number}" for number in range(3)]
    if api.is_simulated:
        names = []
    for name in names:
        spec = {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": f"{api.namespace}-some",
            "hostPath": {"path": f"/{name}"},
        }
        await api.made(VOLUME, {"metadata": {"name": name}, "spec": spec})
    yield
    for name in names:
        await api.delete(VOLUME, name)


def is_gone(answer: Answer) -> bool:
    return answer.status == 404


def is_there(answer: Answer) -> bool:
    return answer.status == 200


def is_owned(answer: Answer) -> bool:
    return is_there(answer) and "ownerReferences" in answer.metadata


def is_ready(answer: Answer) -> bool:
    conditions = answer.body["status"].get("conditions") or () if is_there(answer) else ()
    return any((each["type"], each["status"]) == ("Ready", "True") for each in conditions)


async def claim(api: Conversation, ordinal: int) -> Any:
    """The claim of a pod, when it is there."""
    return (await api.until(is_there, CLAIM, f"data-{NAME}-{ordinal}")).body


async def scale(api: Conversation, replicas: int) -> None:
    answer = await api.patch(STATEFUL_SET, NAME, {"spec": {"replicas": replicas}}, MERGE_PATCH)
    assert answer.status == 200, answer.body


async def test_a_pod_gets_its_claim_again(api: Conversation) -> None:
    """By its name: after a scale-down, and even after the StatefulSet itself."""
    await api.made(STATEFUL_SET, stateful_set(api, unbound=True))
    made = await claim(api, 1)
    (volume,) = [
        each for each in (await api.until(is_there, POD, f"{NAME}-1")).body["spec"]["volumes"] if each["name"] == "data"
    ]

    await scale(api, 1)
    await api.until(is_gone, POD, f"{NAME}-1")
    await scale(api, 2)
    await api.until(is_there, POD, f"{NAME}-1")
    again = await claim(api, 1)
    await api.delete(STATEFUL_SET, NAME, {"propagationPolicy": "Background"})
    await api.until(is_gone, POD, f"{NAME}-1")
    after = await claim(api, 1)

    assert volume["persistentVolumeClaim"]["claimName"] == f"data-{NAME}-1"
    assert made["metadata"]["labels"] == {"app": NAME}
    assert "ownerReferences" not in made["metadata"]
    assert [each["metadata"]["uid"] for each in (again, after)] == [made["metadata"]["uid"]] * 2


async def test_claims_go_with_a_scale_down_if_the_user_says_so(api: Conversation) -> None:
    """The claim belongs to the pod that goes; the next pod of that name has a claim of its own."""
    policy = {"whenScaled": "Delete"}
    await api.made(STATEFUL_SET, stateful_set(api, unbound=True, persistentVolumeClaimRetentionPolicy=policy))
    kept, gone = [(await claim(api, ordinal))["metadata"] for ordinal in (0, 1)]

    await scale(api, 1)
    await api.until(is_gone, CLAIM, gone["name"])
    await scale(api, 2)
    new = (await claim(api, 1))["metadata"]
    pod = (await api.get(POD, f"{NAME}-0")).metadata
    await api.delete(POD, pod["name"])
    await api.until(lambda answer: is_there(answer) and answer.metadata["uid"] != pod["uid"], POD, pod["name"])

    assert new["uid"] != gone["uid"]
    assert (await claim(api, 0))["metadata"]["uid"] == kept["uid"]


async def test_claims_go_with_the_stateful_set_if_the_user_says_so(api: Conversation) -> None:
    """They stay in a scale-down."""
    policy = {"whenDeleted": "Delete"}
    made = await api.made(STATEFUL_SET, stateful_set(api, unbound=True, persistentVolumeClaimRetentionPolicy=policy))
    owned = await api.until(is_owned, CLAIM, f"data-{NAME}-1")

    await scale(api, 1)
    await api.until(is_gone, POD, f"{NAME}-1")
    kept = await claim(api, 1)
    await api.delete(STATEFUL_SET, NAME, {"propagationPolicy": "Background"})

    assert [each["uid"] for each in owned.metadata["ownerReferences"]] == [made["metadata"]["uid"]]
    assert kept["metadata"]["uid"] == owned.metadata["uid"]
    for ordinal in (0, 1):
        await api.until(is_gone, CLAIM, f"data-{NAME}-{ordinal}")


async def test_a_pod_waits_for_its_volume(api: Conversation) -> None:
    """A step that waits for such a pod can name the claim."""
    await api.made(STATEFUL_SET, stateful_set(api, unbound=True))

    def is_refused(answer: Answer) -> bool:
        conditions = answer.body["status"].get("conditions") or () if is_there(answer) else ()
        return any((each["type"], each.get("reason")) == ("PodScheduled", "Unschedulable") for each in conditions)

    pod = (await api.until(is_refused, POD, f"{NAME}-0")).body

    assert (pod["status"]["phase"], "nodeName" in pod["spec"]) == ("Pending", False)
    assert "unbound immediate PersistentVolumeClaims" in pod["status"]["conditions"][0]["message"]
    assert (await claim(api, 0))["status"]["phase"] == "Pending"


@pytest.mark.usefixtures("volumes")
async def test_a_claim_in_use_goes_after_its_pod(api: Conversation) -> None:
    """Then the pod gets a new one, and another volume."""
    await api.made(STATEFUL_SET, stateful_set(api, unbound=False))
    first = (await api.until(is_ready, POD, f"{NAME}-1")).metadata
    bound = await claim(api, 1)

    await api.delete(CLAIM, f"data-{NAME}-1")
    going = await claim(api, 1)
    await api.delete(POD, f"{NAME}-1")
    await api.until(lambda answer: is_ready(answer) and answer.metadata["uid"] != first["uid"], POD, f"{NAME}-1")
    new = await claim(api, 1)

    assert bound["status"]["phase"] == new["status"]["phase"] == "Bound"
    assert going["metadata"]["deletionTimestamp"]
    assert new["metadata"]["uid"] != bound["metadata"]["uid"]
    assert new["spec"]["volumeName"] != bound["spec"]["volumeName"]
