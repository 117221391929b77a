"""Promise: the pods of a DaemonSet change in the simulation as the real controller changes them. Batches are made of that."""

from __future__ import annotations

import pytest

from rollouts.objects import CONTROLLER_REVISION, POD, Manifest
from rollouts.ports import MERGE_PATCH
from tests.contract.conversation import Conversation
from tests.contract.workloads import BROKEN, MAX_INT32, Act, Deleted, Joins, Orphaned, daemon_set, pods

ON_DELETE: Manifest = {"updateStrategy": {"type": "OnDelete", "rollingUpdate": None}}
NEVER_AVAILABLE: Manifest = {"minReadySeconds": MAX_INT32}


def rolling(**limits: int | str) -> Manifest:
    return {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": limits}}


SURGE = rolling(maxSurge=1, maxUnavailable=0)

# What is seen: the versions of all pods, sorted, for which node is next is random; then two numbers of the status. It counts the
# older pod of a node, and of two that were made in the same second either.
CASES: dict[str, tuple[Manifest, tuple[tuple[Act, str], ...]]] = {
    "with OnDelete a new template moves nothing, and a deleted pod is new": (
        ON_DELETE,
        ((pods(2), "1111 updated 0 available 4"), (Deleted((1,)), "1112 updated 1 available 4")),
    ),
    "turned to RollingUpdate again, it rolls the rest": (
        ON_DELETE,
        ((pods(2), "1111 updated 0 available 4"), (rolling(maxUnavailable=1), "2222 updated 4 available 4")),
    ),
    "pods that were orphaned are adopted": (
        ON_DELETE,
        (
            (pods(2), "1111 updated 0 available 4"),
            (Deleted((1,)), "1112 updated 1 available 4"),
            (Orphaned(), "1112 updated 3 available 4"),
        ),
    ),
    "a node that joins gets the new template": (
        ON_DELETE,
        ((pods(2), "1111 updated 0 available 4"), (Joins(), "11112 updated 1 available 5")),
    ),
    "a template that comes back makes the old pods updated, and moves nothing": (
        ON_DELETE,
        (
            (pods(2), "1111 updated 0 available 4"),
            (Deleted((1,)), "1112 updated 1 available 4"),
            (pods(1), "1112 updated 3 available 4"),
            (Deleted((1,)), "1111 updated 4 available 4"),
        ),
    ),
    "a rolling update replaces all": (
        rolling(maxUnavailable=2),
        ((pods(2), "2222 updated 4 available 4"),),
    ),
    "and stops when as many pods are broken as may be unavailable": (
        rolling(maxUnavailable=1),
        ((pods(BROKEN), "1119 updated 1 available 3"), (pods(2), "2222 updated 4 available 4")),
    ),
    "a percentage is rounded up": (
        rolling(maxUnavailable="30%"),
        ((pods(BROKEN), "1199 updated 2 available 2"),),
    ),
    "OnDelete in the middle of it holds what is left": (
        rolling(maxUnavailable=1),
        (
            (pods(BROKEN), "1119 updated 1 available 3"),
            (ON_DELETE, "1119 updated 1 available 3"),
            (pods(2), "1119 updated 0 available 3"),
        ),
    ),
    "a surge replaces all": (
        SURGE,
        ((pods(2), "2222 updated 4 available 4"),),
    ),
    "and stops with as many broken pods beside the old ones": (
        SURGE,
        ((pods(BROKEN), "11119 updated ? available ?"), (pods(2), "2222 updated 4 available 4")),
    ),
    "with a surge an old pod that is not Ready goes as soon as there is a new one": (
        ON_DELETE,
        (
            (pods(BROKEN), "1111 updated 0 available 4"),
            (Deleted((1,)), "1119 updated 1 available 3"),
            ({**SURGE, **NEVER_AVAILABLE, **pods(2)}, "1112222 updated ? available 0"),
        ),
    ),
    "minReadySeconds that no pod reaches replace every pod at once": (
        rolling(maxUnavailable=1),
        ((NEVER_AVAILABLE, "1111 updated 4 available 0"), (pods(2), "2222 updated 4 available 0")),
    ),
    "also when they come after the template": (
        rolling(maxUnavailable=1),
        (
            (pods(BROKEN), "1119 updated 1 available 3"),
            (NEVER_AVAILABLE, "9999 updated 4 available 0"),
        ),
    ),
    "and with a surge they make a pod beside every pod": (
        SURGE,
        ((NEVER_AVAILABLE, "1111 updated 4 available 0"), (pods(2), "11112222 updated ? available 0")),
    ),
}


@pytest.mark.parametrize("case", CASES)
async def test_pods_change_by_strategy_and_by_deletion(api: Conversation, case: str) -> None:
    """Nothing but what is said moves: there are no other pods, and none is replaced by one of its version."""
    spec, acts = CASES[case]
    async with daemon_set(api, **spec) as watched:
        for act, expected in acts:
            await watched.act(act)
            await watched.shows(expected)


async def test_a_template_that_comes_back_has_its_revision_again_with_the_next_number(api: Conversation) -> None:
    """So the second newest revision is not the stable one."""
    async with daemon_set(api, **ON_DELETE) as watched:
        for version, expected in ((2, "1111 updated 0"), (1, "1111 updated 4")):
            await watched.act(pods(version))
            await watched.shows(f"{expected} available 4")

        assert await watched.revisions() == {"1": 3, "2": 2}
        listed = (await api.list(CONTROLLER_REVISION)).body["items"]
        assert all(
            each["metadata"]["name"].endswith(each["metadata"]["labels"]["controller-revision-hash"]) for each in listed
        )


async def test_revisions_that_no_pod_has_are_forgotten_beyond_the_limit(api: Conversation) -> None:
    """Those of pods stay, however many there are."""
    async with daemon_set(api, **ON_DELETE, revisionHistoryLimit=1) as watched:
        for version in (2, 3, 4):
            await watched.act(pods(version))
            await watched.shows("1111 updated 0 available 4")

        assert await watched.revisions() == {"1": 1, "4": 4}


async def test_a_pod_that_loses_its_label_is_released(api: Conversation) -> None:
    """People look into such a pod, while another one does its work."""
    async with daemon_set(api, **ON_DELETE) as watched:
        await watched.act(pods(2))
        await watched.shows("1111 updated 0 available 4")
        name = (await api.names(POD, labelSelector="app=db"))[0]
        labels = {"metadata": {"labels": {"app": "looked-at"}}}

        await api.patch(POD, name, labels, MERGE_PATCH)
        await watched.shows("1112 updated 1 available 4")
        released = await api.get(POD, name)
        await api.delete(POD, name)

        assert "ownerReferences" not in released.metadata
