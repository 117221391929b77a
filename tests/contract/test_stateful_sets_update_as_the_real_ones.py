"""Promise: the pods of a StatefulSet change in the simulation as the real controller changes them. Steps are made of that."""

from __future__ import annotations

import pytest

from rollouts.objects import Manifest
from tests.contract.conversation import Conversation
from tests.contract.workloads import (
    BROKEN,
    MAX_INT32,
    Act,
    Deleted,
    Forgotten,
    Orphaned,
    Replaced,
    partition,
    pods,
    stateful_set,
)

HELD = partition(MAX_INT32)
ON_DELETE: Manifest = {"updateStrategy": {"type": "OnDelete", "rollingUpdate": None}}


def scale(replicas: int) -> Manifest:
    return {"replicas": replicas}


# What is seen: the versions of the pods by ordinal, `-` for none and `+` before those that are too many; then the version of
# currentRevision × currentReplicas, and that of updateRevision × updatedReplicas.
CASES: dict[str, tuple[Manifest, tuple[tuple[Act, str], ...]]] = {
    "a partition of 5 holds the pods there are, and a scale-up makes new ones": (
        partition(5),
        ((pods(2), "11111 1×5 2×0"), (scale(7), "1111122 1×5 2×2")),
    ),
    "the highest partition holds those of a scale-up, too": (
        HELD,
        ((pods(2), "11111 1×5 2×0"), (scale(7), "1111111 1×7 2×0")),
    ),
    "pods are replaced from the top down to the partition": (
        HELD,
        ((pods(2), "11111 1×5 2×0"), (partition(4), "11112 1×4 2×1"), (partition(2), "11222 1×2 2×3")),
    ),
    "a deleted pod comes back in the version of its side of the partition": (
        partition(2),
        ((pods(2), "11222 1×2 2×3"), (Deleted((0, 4)), "11222 1×2 2×3")),
    ),
    "in a step a scale-up makes new pods, and a scale-down takes them first": (
        partition(2),
        ((pods(2), "11222 1×2 2×3"), (scale(8), "11222222 1×2 2×6"), (scale(3), "112 1×2 2×1")),
    ),
    "a raised partition takes no pod back, and a deleted pod comes back stable": (
        partition(2),
        (
            (pods(2), "11222 1×2 2×3"),
            (HELD, "11222 1×2 2×3"),
            (Deleted((4,)), "11221 1×3 2×2"),
            (Deleted((2, 3)), "11111 1×5 2×0"),
        ),
    ),
    "a third template replaces the second's pods at once": (
        partition(3),
        ((pods(2), "11122 1×3 2×2"), (pods(3), "11133 1×3 3×2")),
    ),
    "a template that comes back is the current revision, and its pods are updated": (
        partition(3),
        ((pods(2), "11122 1×3 2×2"), (HELD, "11122 1×3 2×2"), (pods(1), "11122 1×3 1×3")),
    ),
    "partition 0 ends the update, and a hold after it changes nothing": (
        HELD,
        ((pods(2), "11111 1×5 2×0"), (partition(0), "22222 2×5 2×5"), (HELD, "22222 2×5 2×5")),
    ),
    "a pod that cannot start stays when the template is repaired, until it is deleted": (
        partition(4),
        (
            (pods(BROKEN), "11119 1×4 9×1"),
            (pods(2), "11119 1×4 2×0"),
            (HELD, "11119 1×4 2×0"),
            (Deleted((4,)), "11111 1×5 2×0"),
        ),
    ),
    "with Parallel it is replaced": (
        {**partition(4), "podManagementPolicy": "Parallel"},
        ((pods(BROKEN), "11119 1×4 9×1"), (pods(2), "11112 1×4 2×1")),
    ),
    "no pod is made above one that is broken, so of broken pods the lowest must be deleted first": (
        ON_DELETE,
        (
            (pods(BROKEN), "11111 1×5 9×0"),
            (Deleted((2,)), "11911 1×4 9×1"),
            (Deleted((4,)), "1191- 1×3 9×1"),
            (pods(1), "1191- 1×3 1×3"),
            (Deleted((3,)), "119-- 1×2 1×2"),
            (Deleted((2,)), "11111 1×5 1×5"),
        ),
    ),
    "scaled to 0, the template that was held becomes the current one, and the partition holds nothing": (
        HELD,
        ((pods(2), "11111 1×5 2×0"), (scale(0), " 2×0 2×0"), (scale(3), "222 2×3 2×3")),
    ),
    "of two broken pods that are too many the higher one waits for the lower one, which is not deleted": (
        ON_DELETE,
        (
            (pods(BROKEN), "11111 1×5 9×0"),
            (Deleted((4,)), "11119 1×4 9×1"),
            (Deleted((3,)), "11199 1×3 9×2"),
            (scale(3), "111+99 1×3 9×2"),
            (Deleted((3,)), "111 1×3 9×0"),
        ),
    ),
    "when the current revision is deleted the template that was held becomes the current one": (
        HELD,
        ((pods(2), "11111 1×5 2×0"), (Forgotten(1), "11111 ?×5 2×0"), (Deleted((4,)), "11112 2×1 2×1")),
    ),
    "the current revision moves when the last pod is Ready, before it is available": (
        {"podManagementPolicy": "Parallel"},
        ((scale(1), "1 1×1 1×1"), ({"minReadySeconds": MAX_INT32}, "1 1×1 1×1"), (pods(2), "2 2×1 2×1")),
    ),
    "a partition that is put back to 0 after an abort rolls all pods": (
        partition(4),
        (
            (pods(2), "11112 1×4 2×1"),
            (HELD, "11112 1×4 2×1"),
            (Deleted((4,)), "11111 1×5 2×0"),
            (partition(0), "22222 2×5 2×5"),
        ),
    ),
    "with OnDelete each deletion and each scale-up is new, and the current revision stays the old one": (
        ON_DELETE,
        (
            (pods(2), "11111 1×5 2×0"),
            (Deleted((1,)), "12111 1×4 2×1"),
            (scale(6), "121112 1×4 2×2"),
            (Deleted((0, 2, 3, 4)), "222222 1×0 2×6"),
            (HELD, "222222 2×6 2×6"),
        ),
    ),
    "a replace that names no partition rolls all pods": (
        {},
        ((HELD, "11111 1×5 1×5"), (Replaced(2), "22222 2×5 2×5")),
    ),
    "pods that were orphaned are adopted, and the template of then is the current one, whatever they are": (
        HELD,
        (
            (pods(2), "11111 1×5 2×0"),
            (Orphaned(), "11111 1×5 1×5"),
            (pods(2), "11111 1×5 2×0"),
            (partition(4), "11112 1×4 2×1"),
            (Orphaned(), "11112 1×4 1×4"),
            (Deleted((4,)), "11111 1×5 1×5"),
        ),
    ),
    "made again with a new template, no partition holds: that is the current revision, and a deleted pod is new": (
        HELD,
        ((Orphaned(2), "11111 2×0 2×0"), (Deleted((4,)), "11112 2×1 2×1")),
    ),
    "a rolling update without numbers rolls all pods": (
        {"updateStrategy": {"type": "RollingUpdate"}},
        ((pods(2), "22222 2×5 2×5"),),
    ),
    "the partition counts from the first ordinal": (
        {**partition(3), "ordinals": {"start": 3}},
        ((pods(2), "11122 1×3 2×2"), (Deleted((5, 6)), "11122 1×3 2×2")),
    ),
    "minReadySeconds that no pod reaches stop an ordered set": (
        {},
        ((({"minReadySeconds": MAX_INT32}), "11111 1×5 1×5"), (pods(2), "11111 1×5 2×0")),
    ),
    "and let a parallel one replace one pod": (
        {"podManagementPolicy": "Parallel"},
        ((({"minReadySeconds": MAX_INT32}), "11111 1×5 1×5"), (pods(2), "11112 1×4 2×1")),
    ),
}


@pytest.mark.parametrize("case", CASES)
async def test_pods_change_by_partition_and_by_deletion(api: Conversation, case: str) -> None:
    """Nothing but what is said moves: a pod whose version stays is the same pod, unless somebody deleted it."""
    spec, acts = CASES[case]
    watched = await stateful_set(api, **spec)

    for act, expected in acts:
        await watched.act(act)
        await watched.shows(expected)


async def test_a_template_that_comes_back_has_its_revision_again_with_the_next_number(api: Conversation) -> None:
    """So the second newest revision is not the stable one."""
    watched = await stateful_set(api, **HELD)

    for version in (2, 3, 1):
        await watched.act(pods(version))
        await watched.shows(f"11111 1×5 {version}×{5 if version == 1 else 0}")

    assert await watched.revisions() == {"1": 4, "2": 2, "3": 3}


async def test_revisions_that_no_pod_has_are_forgotten_beyond_the_limit(api: Conversation) -> None:
    """Those of pods, and the current and the latest one, do not count."""
    watched = await stateful_set(api, **HELD, revisionHistoryLimit=1)

    for version in (2, 3, 4):
        await watched.act(pods(version))
        await watched.shows(f"11111 1×5 {version}×0")

    assert await watched.revisions() == {"1": 1, "3": 3, "4": 4}
