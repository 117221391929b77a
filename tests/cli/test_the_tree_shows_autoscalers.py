"""Promise: `get` shows how much room the autoscaler has, and what the judged container uses beside each revision."""

from __future__ import annotations

from rollouts.api.times import parse_time
from rollouts.cli.view.objects import RolloutObjects, view_of
from rollouts.cli.view.scaling import scaling_text, use_text
from rollouts.manifests.ownership import REVISION
from rollouts.objects import Manifest

T0, T1 = "2026-11-21T10:00:00Z", "2026-11-21T10:05:00Z"
NOW_S = parse_time("2026-11-21T10:05:30Z")
TOLD: Manifest = {
    "at": T1,
    "autoscalers": [
        {"kind": "HorizontalPodAutoscaler", "name": "keda-hpa-cart", "owner": "ScaledObject cart", "desired": 4, "max": 5,
         "headroomPercent": 20, "settledSince": T0},
        {"kind": "HorizontalPodAutoscaler", "name": "other", "max": 1},
    ],
    "container": "app",
    "resource": "cpu",
    "use": [
        {"revision": "new", "utilizationPercent": 173, "measuredPods": 1, "pods": 1, "measuredAt": T1},
        {"revision": "old", "measuredPods": 2, "pods": 3},
    ],
}  # fmt: skip


def seen(told: object) -> RolloutObjects:
    """A canary `new` beside `old`, with that in `status.autoscaling`."""
    sets = tuple(
        {"metadata": {"name": f"cart-{each}", "labels": {REVISION: each}}, "spec": {"replicas": 1}}
        for each in ("new", "old")
    )
    status = {"currentRevision": "new", "stableRevision": "old", "observedGeneration": 1, "autoscaling": told}
    rollout = {"metadata": {"name": "cart", "namespace": "shop", "generation": 1},
               "spec": {"replicas": 2, "strategy": {"canary": {}}}, "status": status}  # fmt: skip
    return RolloutObjects(rollout=rollout, replica_sets=sets)


def test_each_autoscaler_is_told_in_a_line() -> None:
    """Whoever made it is named, because that is what people edit."""
    lines = [scaling_text(each, now_s=NOW_S) for each in view_of(seen(TOLD)).scaling]

    assert lines == [
        "autoscaler keda-hpa-cart of ScaledObject cart wants 4 of 5 pods: headroom 20 %, settled for 5m30s (read 30s ago)",
        "autoscaler other does not say how many of 1 pod it wants (read 30s ago)",
    ]


def test_the_use_stands_beside_its_revision() -> None:
    """An average over both would hide which one burns; pods without a sample are counted and not guessed."""
    lines = {
        each.revision: use_text(each.use, now_s=NOW_S) for each in view_of(seen(TOLD)).revisions if each.use is not None
    }

    assert lines == {"new": "app cpu 173 % 30s ago", "old": "app cpu ? (2 of 3 pods measured)"}


def test_a_status_without_it_shows_nothing_of_it() -> None:
    """At rest, and where somebody has spoilt it."""
    for told in (None, "5", {"use": [{"revision": "new"}]}):
        view = view_of(seen(told))

        assert view.scaling == ()
        assert [each.use for each in view.revisions] == [None, None]
