"""Promise: a wait says in a sentence what is waited for, how much of it is there, and what ends it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rollouts.core.model.frozen import replace
from rollouts.core.model.rollout import BlueGreen, Canary, Percent, TrafficRouting
from rollouts.core.model.steps import Pause, PauseUntilPromoted, SetWeight
from tests.core.model import World, annotated, deleted
from tests.core.updates import updating
from tests.core.worlds import (
    edited,
    pods_ready,
    reconciled,
    replica_sets_caught_up,
    running,
    settled,
    steps_of,
)

GATE = Canary(steps=(SetWeight(50), PauseUntilPromoted()))
GREEN = BlueGreen(active_service="cart", preview_service="cart-preview", auto_promotion_enabled=False)
ROUTED = Canary(steps=(SetWeight(50), Pause(60)), traffic_routing=TrafficRouting(), scale_down_delay_s=300)


def _one_of_two_is_there() -> World:
    there = running(GATE)
    there = replica_sets_caught_up(reconciled(edited(replace(there, bad=frozenset("b")), revision="b")))
    one = replica_sets_caught_up(pods_ready(replace(there, bad=frozenset()), limit=1))
    return settled(replace(one, bad=frozenset("b")), seconds=1)


def _a_preview_of_which_nothing_is_there() -> World:
    return settled(edited(replace(running(GREEN), bad=frozenset("b")), revision="b"), seconds=1)


def _old_pods_terminate() -> World:
    there = edited(running(Canary(max_surge=Percent(100), max_unavailable=0)), revision="b")
    return next(each for each in steps_of(there) if "terminate" in each.status.message)


WORLDS: dict[str, tuple[Callable[[], World], str]] = {
    "pods of a canary": (
        _one_of_two_is_there,
        "waiting for 2 pods of revision b to be available; 1 is",
    ),
    "pods of a preview": (
        _a_preview_of_which_nothing_is_there,
        "waiting for 4 pods of revision b to be available; 0 are",
    ),
    "a gate": (
        lambda: updating(GATE),
        "step 1: waiting for promotion of revision b: rollouts promote cart -n shop",
    ),
    "a previewed revision": (
        lambda: updating(GREEN),
        "waiting for promotion of revision b, which is previewed: rollouts promote cart -n shop",
    ),
    "an abort whose stable revision is gone": (
        lambda: settled(annotated(settled(deleted(updating(GATE), "a")), "abort", "b")),
        (
            "revision b was aborted by annotation; no pods take the place of those that revision b has: the ReplicaSet of the "
            "stable one is gone; to try revision b again: rollouts retry cart -n shop"
        ),
    ),
    "an abort": (
        lambda: settled(annotated(updating(GATE), "abort", "b")),
        (
            "revision b was aborted by annotation; the stable revision takes its place; "
            "to try revision b again: rollouts retry cart -n shop"
        ),
    ),
    "a pause by annotation": (
        lambda: settled(annotated(edited(running(GATE), revision="b"), "pause", "true"), seconds=1),
        "paused by the annotation rollouts.dev/pause: rollouts resume cart -n shop",
    ),
    "a pause in the spec": (
        lambda: settled(edited(running(GATE), revision="b", paused=True), seconds=1),
        "paused by spec.paused: remove it from the manifest",
    ),
    "a delay": (
        lambda: settled(edited(running(ROUTED), revision="b"), seconds=100),
        "revision a keeps its 4 pods until its scale-down delay is over",
    ),
    "old pods": (_old_pods_terminate, "waiting for 4 pods of revision a to terminate"),
}


@pytest.mark.parametrize(("there", "sentence"), WORLDS.values(), ids=list(WORLDS))
def test_a_wait_says_what_it_waits_for_and_what_helps(there: Callable[[], World], sentence: str) -> None:
    """What `kubectl get` and `rollouts get` show at three in the morning."""
    message = there().status.message

    assert sentence in message, message
