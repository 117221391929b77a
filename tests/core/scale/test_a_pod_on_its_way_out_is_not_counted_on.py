"""Promise: a pod on its way out is not counted on, whatever follows, though its ReplicaSet still counts it.

For a moment only the pod itself shows that it was evicted, or deleted: the status of its ReplicaSet changes when its controller
looks, with the generation that asked for it already observed. A ReplicaSet that is being deleted takes its pods along.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rollouts.core.decide import decide
from rollouts.core.model.drain import DrainSpec
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import AskPods, Intent, PatchReplicaSet
from rollouts.core.model.rollout import BlueGreen, Canary, Percent, Strategy, TrafficRouting
from rollouts.core.model.snapshot import PodsSeen
from rollouts.core.model.status import Phase
from rollouts.core.model.steps import PauseUntilPromoted, SetWeight
from rollouts.core.scale.restarts import COUNTED_WITHIN_S
from tests.core.coming_to_rest import assert_comes_to_rest
from tests.core.model import World, annotated, snapshot
from tests.core.test_any_world_is_safe_and_comes_to_rest import EVERY
from tests.core.updates import pods_there, updating
from tests.core.worlds import (
    as_pods_are,
    deleting,
    edited,
    later,
    one,
    pods_heard,
    pods_ready,
    quiet,
    reconciled,
    replica_sets_synced,
    running,
    settled,
    sizes,
    slices_caught_up,
    status_wiped,
    steps_of,
)

FOLLOWS: dict[str, Callable[[World], World]] = {
    "nothing": lambda there: there,
    "the restart is withdrawn": lambda there: annotated(there, "restart", None),
    "back to the stable template": lambda there: edited(there, revision="a"),
    "another template": lambda there: edited(there, revision="c"),
    "abort": lambda there: annotated(there, "abort", "true"),
    "promotion": lambda there: annotated(there, "promote", "true"),
    "promotion past all steps": lambda there: annotated(there, "promote", f"{there.status.current_revision}@full"),
    "fewer replicas": lambda there: edited(there, replicas=3),
    "the status is wiped": lambda there: edited(status_wiped(there), revision="a"),
}


@cache
def _just_evicted(strategy: int = 0) -> World:
    """A restart in the middle of an update has evicted its first pods; the ReplicaSet controller has not looked since.

    Args:
        strategy: its place in EVERY.
    """
    there = later(updating(EVERY[strategy], drain=DrainSpec(max_request_s=10.0)), 100)
    return _once_restarting(replace(there, writes=()))


def _once_restarting(there: World) -> World:
    """The world right after the first eviction of a restart."""
    for each in steps_of(annotated(there, "restart", str(there.now_s))):
        if "EvictPod" in each.writes:
            return each
    raise AssertionError("no pod is evicted")


@pytest.mark.parametrize("follows", FOLLOWS)
@pytest.mark.parametrize("strategy", range(len(EVERY)))
def test_no_write_after_an_eviction_takes_too_many_pods(strategy: int, follows: str) -> None:
    """`reconciled` judges each write by the pods that are there. A canary lost one pod too many, a route went to half of them."""
    there = FOLLOWS[follows](_just_evicted(strategy))

    there = reconciled(reconciled(reconciled(there)))

    assert_comes_to_rest(there)


@pytest.mark.parametrize("follows", FOLLOWS)
def test_the_pass_after_an_eviction_only_looks_at_the_pods(follows: str) -> None:
    """What ReplicaSets count may be gone, so no rule judges by it. Only commands are read, and stable may grow for an abort."""
    there = FOLLOWS[follows](_just_evicted())
    before: list[Intent] = []
    for _ in range(3):
        if AskPods() in (intents := decide(snapshot(there)).intents):
            break
        before += intents
        there = reconciled(there)

    assert intents == (AskPods(),)
    assert [each for each in before if not (isinstance(each, PatchReplicaSet) and each.replicas == 4)] == []


@pytest.mark.parametrize("time", [None, "later"])
def test_pods_that_a_restart_has_added_stay_until_the_evicted_ones_are_counted(time: str | None) -> None:
    """The ReplicaSet controller deletes all that it believes are too many: one more for each evicted pod that it still counts."""
    there = _once_restarting(later(running(Canary(max_surge=1, max_unavailable=0)), 100))

    there = annotated(there, "restart", time and str(there.now_s + 100))
    for _ in range(4):  # the controller has not heard of the eviction yet
        there = replica_sets_synced(reconciled(there))
        assert sum(pod.ready for pod in there.pods) >= 4

    assert one(settled(there), "a").restart_surge == 0


def test_evictions_are_on_record_before_the_first_and_until_all_are_counted() -> None:
    """A crash between the two writes leaves a record too much, never a pod too few. The record goes with the restart."""
    there = later(running(Canary(max_unavailable=1)), 100)
    for each in steps_of(annotated(there, "restart", "true")):
        assert each.status.evicting_since_s is not None or "EvictPod" not in each.writes[len(there.writes) :]
        there = each

    assert there.writes.count("EvictPod") == 4
    assert (there.status.evicting_since_s, there.status.phase) == (None, Phase.HEALTHY)


def test_an_old_record_of_evictions_is_renewed_before_the_next_one() -> None:
    """After a minute it says nothing any more about counts: a crash right after an eviction would leave it forgotten."""
    asked = steps_of(annotated(later(running(Canary(max_unavailable=1)), 100), "restart", "true"))
    there = later(next(each for each in asked if each.status.evicting_since_s is not None), COUNTED_WITHIN_S + 1.0)
    for each in steps_of(there):
        if "EvictPod" in each.writes[len(there.writes) :]:
            assert there.now_s - (there.status.evicting_since_s or 0) <= COUNTED_WITHIN_S / 2
        there = each

    assert there.writes.count("EvictPod") == 4


def test_the_record_of_a_withdrawn_restart_ends_when_its_pods_are_counted() -> None:
    """As long as it lasts, each new pod is believed only after a look at the list of pods."""
    there = annotated(_just_evicted(), "restart", None)

    uncounted = reconciled(reconciled(there))
    counted = settled(quiet(uncounted))

    assert uncounted.status.evicting_since_s == there.status.evicting_since_s is not None
    assert counted.status.evicting_since_s is None


@pytest.mark.parametrize(
    ("after_s", "listed", "shrinks"),
    [(1.0, True, 0), (COUNTED_WITHIN_S + 1.0, True, 1), (COUNTED_WITHIN_S + 1.0, False, 1)],
)
def test_a_pod_that_no_list_shows_holds_nothing_up_for_long(after_s: float, listed: bool, shrinks: int) -> None:
    """Somebody has taken our label off a pod: its ReplicaSet counts it, and no list will ever show it.

    Or the controller has lost its right to list pods. After a minute an update and an abort go on without a list.
    """
    there = later(running(Canary()), 100)
    unlisted = replace(there, status=replace(there.status, evicting_since_s=there.now_s - after_s))
    seen = snapshot(edited(unlisted, replicas=3))

    decision = decide(replace(seen, pods=PodsSeen(seen.now_s, there.pods[1:])) if listed else seen)

    assert sum(isinstance(each, PatchReplicaSet) for each in decision.intents) == shrinks
    assert (decision.status.evicting_since_s is None) is (shrinks > 0)


EXAMPLES = 20_000 if os.environ.get("ROLLOUTS_DEEP") == "1" else 300
STEPS = (SetWeight(20), SetWeight(60), PauseUntilPromoted(), SetWeight(80))
KINDS: tuple[Strategy, ...] = (
    Canary(steps=STEPS, max_surge=1, max_unavailable=0),
    Canary(steps=STEPS, max_surge=Percent(100), max_unavailable=0, stable_service="cart"),
    Canary(steps=STEPS, max_surge=1, max_unavailable=0, stable_service="cart", canary_service="cart-canary"),
    Canary(
        steps=STEPS, max_unavailable=0, traffic_routing=TrafficRouting(dynamic_stable_scale=True), canary_service="c"
    ),
    BlueGreen(active_service="cart", scale_down_delay_s=0),
)
"""Each with `maxUnavailable` 0 (a BlueGreen's default): then one pod that is not there breaks the promise."""


def _pass(there: World) -> World:
    """One pass; a step or a promotion that it records is one that it would record if it saw the true pods."""
    view = snapshot(there)
    told, true = decide(view).status, decide(as_pods_are(there, view)).status
    if (told.step_index, told.stable_revision) != (view.status.step_index, view.status.stable_revision):
        assert (told.step_index, told.stable_revision) == (true.step_index, true.stable_revision)
    return reconciled(there)


MOVES: dict[str, Callable[[World], World]] = {
    "pass": _pass,
    "sets are looked at": replica_sets_synced,
    "pods are heard of": pods_heard,
    "pods become ready": pods_ready,
    "slices follow": slices_caught_up,
    "abort": lambda there: annotated(there, "abort", "b"),
    "retry": lambda there: annotated(there, "abort", None),
    "promote": lambda there: annotated(there, "promote", "b@full"),
    "template taken back": lambda there: edited(there, revision="a"),
    "template": lambda there: edited(there, revision="b"),
    "third template": lambda there: edited(there, revision="c"),
    "a second": lambda there: later(there, 1.0),
}
OFTEN = ("pass", "sets are looked at", "pods are heard of", "pods become ready", "slices follow")


@pytest.mark.long
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    strategy=st.sampled_from(KINDS),
    replicas=st.sampled_from((3, 5)),
    tape=st.lists(
        st.one_of(st.sampled_from(OFTEN), st.sampled_from(OFTEN), st.sampled_from(sorted(MOVES))), max_size=80
    ),
)
def test_no_pass_counts_on_a_pod_that_was_deleted(strategy: Strategy, replicas: int, tape: list[str]) -> None:
    """Aborts, retries and new templates while sets shrink: `reconciled` holds each write to the rules with the true pods."""
    there = edited(running(strategy, replicas=replicas), revision="b")
    for name in tape:
        there = MOVES[name](there)
    settled(there)


def test_stable_pods_stay_while_the_new_replica_set_is_being_deleted() -> None:
    """Its status counts a ready pod until the garbage collector has come; a stable pod went for it, and 1 of 2 was left."""
    strategy = Canary(steps=(SetWeight(100),), max_surge=Percent(25), max_unavailable=Percent(25))
    there = pods_there(reconciled(edited(running(strategy, replicas=2), revision="b")))
    there = deleting(there, "b")
    assert sizes(there)["b"] == 1

    assert sizes(reconciled(there))["a"] == 2
