"""Promise: of pods with our labels, those of our ReplicaSets are ours; others are counted, since they may read what is ours."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from rollouts.cluster.decoding import decode
from rollouts.controller.observe.pods import pod_page, pods_seen
from rollouts.manifests.ownership import REVISION
from rollouts.objects import REPLICA_SET

OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "cart-a", "uid": "uid-a", "controller": True}


def _pod(
    name: str, *, owner: dict[str, Any] | None = OWNER, phase: str = "Running", revision: str = "a"
) -> dict[str, Any]:
    labels = {"app": "cart"} | ({REVISION: revision} if revision else {})
    metadata = {"namespace": "shop", "name": name, "uid": f"uid-{name}", "resourceVersion": "1", "labels": labels}
    return {"metadata": {**metadata, "ownerReferences": [owner] if owner else []}, "status": {"phase": phase}}


@pytest.mark.parametrize(
    ("other", "ours", "unowned"),
    [
        (_pod("x", owner={**OWNER, "name": "cart-x", "uid": "uid-x"}), ["mine"], 1),
        (_pod("x", owner={**OWNER, "uid": "an earlier one of that name"}), ["mine"], 1),
        (_pod("x", owner=None), ["mine"], 1),
        (_pod("x", owner=None, phase="Succeeded"), ["mine"], 0),
        (_pod("x", owner=None, revision=""), ["mine"], 0),
        (_pod("x"), ["mine", "x"], 0),
    ],
)
def test_a_running_pod_with_a_revision_and_without_a_replica_set_is_counted(
    other: dict[str, Any], ours: list[str], unowned: int
) -> None:
    """It is neither touched nor taken for a pod of a revision; its copy of a ConfigMap must stay."""
    page = {"metadata": {"resourceVersion": "1"}, "items": [_pod("mine"), other]}
    owner = decode(
        REPLICA_SET,
        msgspec.json.encode(
            {"metadata": {"namespace": "shop", "name": "cart-a", "uid": "uid-a", "resourceVersion": "1"}, "spec": {}}
        ),
    )

    seen = pods_seen(pod_page(msgspec.json.encode(page)).items, (owner,), at_s=7.0)

    assert seen.unowned == unowned
    assert [each.name for each in seen.pods] == ours
