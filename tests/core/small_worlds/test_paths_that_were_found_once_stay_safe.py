"""Promise: a path on which the search has found a mistake once is played every time."""

from __future__ import annotations

from tests.core.small_worlds.paths import assert_path_is_safe
from tests.core.small_worlds.world_list import ALL


def test_a_template_goes_back_while_a_deleted_pod_is_still_counted() -> None:
    """S3: the stable revision grows again only once that pod is no longer counted; the other one stays until then."""
    assert_path_is_safe(
        ALL["ratio 2, an edit"],
        [
            "a pass",
            "ReplicaSets are looked at",
            "a pod of b becomes ready",
            "pods are heard of",
            "ReplicaSets are looked at",
            "a pass",
            "ReplicaSets are looked at",
            "the template becomes a",
            "a pass",
        ],
    )


def test_a_template_goes_back_when_the_pods_of_the_old_revision_are_on_their_way_out() -> None:
    """S1: they are still counted as available, and the active Service must not be pointed at them."""
    assert_path_is_safe(
        ALL["blue-green 1, an edit"],
        [
            "a pass",
            "ReplicaSets are looked at",
            "a pod of b becomes ready",
            "pods are heard of",
            "ReplicaSets are looked at",
            "a pass",
            "time passes",
            "a pass",
            "slices catch up",
            "a pass",
            "time passes",
            "a pass",
            "the template becomes a",
            "a pass",
            "time passes",
        ],
    )
