"""Promise: a restart replaces every older pod, as few at once as `maxUnavailable` says, by eviction, so budgets hold."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rollouts.core.model.frozen import replace
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import BlueGreen, Canary, PodMetadata, Strategy, TrafficRouting
from rollouts.core.model.status import Phase
from rollouts.core.model.steps import Pause, PauseUntilPromoted, SetWeight
from tests.core.model import World, annotated
from tests.core.updates import condition, pods_fail, updating, waiting, waits_for, with_services
from tests.core.worlds import (
    edited,
    later,
    one,
    pods_ready,
    reconciled,
    running,
    settled,
    sizes,
    slices_caught_up,
    steps_of,
)

CANARY = Canary(max_unavailable=1)
GREEN = BlueGreen(active_service="cart", max_unavailable=1)


ASKED: dict[str, Callable[[World], World]] = {
    "by `spec.restartAt`": lambda there: edited(there, restart_at_s=there.now_s),
    "by the annotation's time": lambda there: annotated(there, "restart", str(there.now_s)),
    "by `true`": lambda there: annotated(there, "restart", "true"),
}


@pytest.mark.parametrize("strategy", [CANARY, GREEN])
@pytest.mark.parametrize("asked", ASKED.values(), ids=list(ASKED))
def test_every_older_pod_is_replaced_once(strategy: Strategy, asked: Callable[[World], World]) -> None:
    """Younger pods stay, and so does the revision."""
    there = later(running(strategy), 100)
    old = {pod.uid for pod in there.pods}

    there = settled(asked(there))

    assert not old & {pod.uid for pod in there.pods}
    assert (there.writes.count("EvictPod"), there.status.phase, len(there.replica_sets)) == (4, Phase.HEALTHY, 1)
    assert settled(later(there, 3600)).writes.count("EvictPod") == 4


SURGES = (
    Canary(max_surge=1, max_unavailable=0),
    Canary(max_surge=1, max_unavailable=0, stable_service="cart"),
    BlueGreen(active_service="cart"),
)


@pytest.mark.parametrize("replicas", [1, 3])
@pytest.mark.parametrize("strategy", SURGES)
def test_with_max_unavailable_0_a_new_pod_comes_before_an_old_one_goes(strategy: Strategy, replicas: int) -> None:
    """An eviction takes a pod at once and its replacement takes its time: alone it would take the only one that serves."""
    there = later(running(strategy, replicas=replicas), 100)
    old, asked_s = {pod.uid for pod in there.pods}, there.now_s
    there = annotated(there, "restart", "true")

    for after in steps_of(there):
        assert sum(pod.ready for pod in after.pods) >= replicas
        assert len(after.pods) <= replicas + 1
        there = after

    assert not old & {pod.uid for pod in there.pods}
    assert (sizes(there), there.status.phase) == ({"a": replicas}, Phase.HEALTHY)
    assert one(there, "a").restart_surge == 0
    assert there.status.restarted_at_s is not None
    assert there.now_s - asked_s < 2 * replicas + 1, "each is replaced when the one before has its replacement"


@pytest.mark.parametrize("strategy", SURGES)
def test_no_pod_is_evicted_while_nobody_makes_new_ones(strategy: Strategy) -> None:
    """The ReplicaSet controller stands still: what serves stays, and status says what is waited for."""
    there = annotated(later(running(strategy, replicas=1), 100), "restart", "true")
    there = next(each for each in steps_of(there) if one(each, "a").restart_surge)
    assert "after adding 1 pod" in waiting(there).message
    for _ in range(30):
        there = later(reconciled(pods_ready(slices_caught_up(there))), 1)

    assert "EvictPod" not in there.writes
    assert "after adding 1 pod" in waiting(there).message
    refused = tuple([replace(each, failure="quota exceeded") for each in there.replica_sets])
    told = reconciled(later(replace(there, replica_sets=refused), 1))
    assert (waits_for(told), waiting(told).message.endswith(": quota exceeded")) == (Reason.REPLICA_FAILURE, True)
    assert not {pod.uid for pod in settled(there).pods} & {pod.uid for pod in there.pods}


def test_the_only_pod_of_a_canary_is_replaced_before_it_goes() -> None:
    """Its Service brings requests to it alone, however many pods the stable revision has."""
    routing = TrafficRouting()
    strategy = with_services(SetWeight(25), PauseUntilPromoted(), max_unavailable=1, traffic_routing=routing)
    there = settled(edited(later(running(strategy), 100), revision="b"))
    assert sizes(there) == {"a": 4, "b": 1}
    there = annotated(later(there, 100), "restart", "true")
    old = {pod.uid for pod in there.pods}

    for after in steps_of(there):
        assert sum(pod.ready for pod in after.pods if pod.revision == "b") >= 1
        assert sum(pod.ready for pod in after.pods if pod.revision == "a") >= 3
        there = after

    assert not old & {pod.uid for pod in there.pods}
    assert (sizes(there), there.status.phase) == ({"a": 4, "b": 1}, Phase.PAUSED)


def test_a_step_may_need_exactly_the_pods_that_a_restart_had_added() -> None:
    """Somebody promotes to a step of that size while they come up, and takes the restart back: the update stood still."""
    steps = (SetWeight(50), PauseUntilPromoted(), SetWeight(75), PauseUntilPromoted())
    routed = Canary(steps=steps, traffic_routing=TrafficRouting(), max_surge=1, max_unavailable=0)
    there = updating(routed)
    there = later(there, 100)
    there = edited(there, restart_at_s=there.now_s)
    while not one(there, "b").restart_surge:
        there = reconciled(there)
    before = one(there, "b")
    there = reconciled(reconciled(annotated(there, "promote", "true")))

    there = settled(edited(there, restart_at_s=None))

    after = one(there, "b")
    assert (before.spec_replicas, before.restart_surge) == (3, 1)
    assert (after.spec_replicas, after.restart_surge, after.available) == (3, 0, 3)
    assert (there.status.phase, there.status.step_index) == (Phase.PAUSED, 3)


def test_pods_that_a_restart_added_go_when_their_metadata_changes_in_the_same_pass() -> None:
    """One patch says both; a mark that stays behind would make the set look smaller than it is for ever."""
    strategy = SURGES[1]
    there = annotated(later(running(strategy, replicas=1), 100), "restart", "true")
    while there.status.restarted_at_s is None:
        there = next(steps_of(there))

    there = settled(edited(there, strategy=replace(strategy, stable_metadata=PodMetadata(labels={"role": "old"}))))

    assert (sizes(there), one(there, "a").restart_surge, there.status.phase) == ({"a": 1}, 0, Phase.HEALTHY)


def test_a_budget_that_refuses_is_respected_and_told() -> None:
    """Eviction, not deletion; it is tried again later."""
    there = later(running(CANARY), 100)
    old = {pod.uid for pod in there.pods}
    there = settled(replace(annotated(there, "restart", "true"), budget=4), seconds=60)
    assert waits_for(there) is Reason.DISRUPTION_BUDGET
    assert old == {pod.uid for pod in there.pods}

    there = settled(replace(there, budget=None))

    assert there.status.phase is Phase.HEALTHY
    assert not old & {pod.uid for pod in there.pods}


def test_a_time_to_come_is_waited_for() -> None:
    """`restartAt` tomorrow wakes the pass tomorrow. By one that cannot be read no pod goes by mistake."""
    there = running(CANARY)
    there = settled(edited(there, restart_at_s=there.now_s + 500), seconds=400)
    assert "EvictPod" not in there.writes

    assert settled(there, seconds=200).writes.count("EvictPod") == 4

    unread = settled(annotated(running(CANARY), "restart", "soon"))
    assert condition(unread, "InvalidCommand").reason is Reason.COMMAND_INVALID
    assert "EvictPod" not in unread.writes


def test_broken_pods_do_not_stop_a_restart() -> None:
    """Restarting is what people do when pods are broken."""
    there = pods_fail(running(CANARY), "a", limit=1)
    old = {pod.uid for pod in there.pods}

    there = settled(annotated(later(there, 10), "restart", str(there.now_s + 5)))

    assert not old & {pod.uid for pod in there.pods}


def test_a_restart_in_the_middle_of_an_update_takes_both_sides() -> None:
    """And the update goes on where it was."""
    there = settled(edited(running(Canary(steps=(SetWeight(50), Pause(3000)))), revision="b"), seconds=10)
    old = {pod.uid for pod in there.pods}

    there = settled(annotated(later(there, 10), "restart", "true"), seconds=200)

    assert not old & {pod.uid for pod in there.pods}
    assert (there.status.step_index, there.status.phase) == (1, Phase.PAUSED)


@pytest.mark.parametrize("again", [False, True], ids=["first restart", "after an earlier one"])
def test_a_restart_goes_on_when_another_revision_comes_in_between(again: bool) -> None:
    """It was given while the second one was there; the stable revision has old pods still when that one goes."""
    there = updating(Canary(steps=(SetWeight(25), PauseUntilPromoted()), max_unavailable=1))
    if again:
        there = settled(annotated(later(there, 100), "restart", "true"))
    old = {pod.uid for pod in there.pods}
    there = settled(annotated(later(there, 100), "restart", "true"), seconds=0.5)
    assert old & {pod.uid for pod in there.pods}

    there = settled(edited(there, revision="c"))

    assert not old & {pod.uid for pod in there.pods}
