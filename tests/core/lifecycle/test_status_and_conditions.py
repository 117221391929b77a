"""Promise: status says at any time what phase it is, what is waited for and until when, as kubectl and GitOps read it."""

from __future__ import annotations

from typing import Any

import pytest

from rollouts.core.decide import decide
from rollouts.core.model.drain import DrainSpec
from rollouts.core.model.frozen import replace
from rollouts.core.model.pod_exit import PodExit
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import BlueGreen, Canary, TrafficRouting
from rollouts.core.model.status import Phase
from rollouts.core.model.steps import Pause, PauseUntilPromoted, SetWeight
from tests.core.model import World, annotated, snapshot
from tests.core.updates import condition, pods_fail, waiting, waits_for
from tests.core.worlds import edited, later, pods_ready, reconciled, replica_sets_caught_up, running, settled, steps_of

GREEN = BlueGreen(active_service="cart")
STEPS = Canary(steps=(SetWeight(50), PauseUntilPromoted()))


def _conditions(there: World) -> dict[str, bool]:
    return {each.type: each.status for each in there.status.conditions}


def _phases() -> dict[Phase, World]:
    healthy = running(STEPS, progress_deadline_s=60)
    paused = settled(edited(healthy, revision="b"))
    return {
        Phase.HEALTHY: healthy,
        Phase.PROGRESSING: reconciled(edited(healthy, revision="b")),
        Phase.PAUSED: paused,
        Phase.ABORTED: settled(annotated(paused, "abort", "b")),
        Phase.ROLLED_BACK: settled(annotated(paused, "rollback", "previous@b")),
        Phase.DEGRADED: settled(edited(replace(healthy, bad=frozenset("b")), revision="b"), seconds=100),
    }


def test_status_counts_what_replica_sets_report() -> None:
    """`kubectl get`, an autoscaler and a dashboard read them; all seven differ in this update."""
    seen = snapshot(settled(edited(running(STEPS), revision="b")))
    reported = {"a": (5, 4, 3), "b": (3, 2, 1)}
    sets = []
    for each in seen.replica_sets:
        replicas, ready, available = reported[each.revision]
        sets.append(replace(each, replicas=replicas, ready=ready, available=available))

    status = decide(replace(seen, replica_sets=tuple(sets))).status

    assert (status.replicas, status.ready_replicas, status.available_replicas) == (8, 6, 4)
    updated = (status.updated_replicas, status.updated_ready_replicas, status.updated_available_replicas)
    assert updated == (3, 2, 1)
    assert status.hpa_replicas == seen.rollout.spec.replicas == 4


def test_a_grace_period_that_something_cut_short_is_told() -> None:
    """A policy that caps it ends pods before their requests; those of other revisions were asked for nothing."""
    drain = DrainSpec(max_request_s=40.0)
    seen = snapshot(running(STEPS, drain=drain, ends=PodExit(grace_s=60)))

    def told(**changes: Any) -> list[str]:
        sets = tuple(replace(each, **changes) for each in seen.replica_sets)
        status = decide(replace(seen, replica_sets=sets)).status
        return [each.message for each in status.conditions if each.type == "DrainUnsafe"]

    assert any("asked for 60, and it has 30" in each for each in told(grace_s=30))
    assert not any("asked for" in each for each in (*told(grace_s=60), *told(grace_s=30, revision="older")))


@pytest.mark.parametrize("phase", list(Phase))
def test_each_phase_has_its_conditions(phase: Phase) -> None:
    """`kubectl wait --for=condition=Ready` and kstatus read them: of Reconciling and Stalled the mere presence.

    Every phase but Healthy says what is waited for: reason, sentence, since when; and a deadline unless only a person can end it.
    """
    there = _phases()[phase]
    conditions = _conditions(there)

    assert there.status.phase is phase
    assert conditions["Ready"] is (phase is Phase.HEALTHY)
    assert conditions.get("Reconciling") is (True if phase is Phase.PROGRESSING else None)
    stalled = phase in (Phase.ABORTED, Phase.ROLLED_BACK, Phase.DEGRADED)
    assert conditions.get("Stalled") is (True if stalled else None)
    assert there.status.observed_generation == there.rollout.generation
    assert {each.observed_generation for each in there.status.conditions} == {there.rollout.generation}
    if phase is Phase.HEALTHY:
        assert (there.status.waiting_for, there.status.message) == (None, "")
        return
    assert waiting(there).message == there.status.message != ""
    assert (waiting(there).deadline_s is None) is (phase in (Phase.PAUSED, Phase.ABORTED, Phase.ROLLED_BACK))


def test_a_condition_keeps_the_time_of_its_last_change() -> None:
    """lastTransitionTime moves with the status, not with each message."""
    steps = (SetWeight(25), Pause(60), SetWeight(50), Pause(60))
    there = settled(edited(running(Canary(steps=steps)), revision="b"), seconds=5)
    since_s = condition(there, "Ready").since_s

    there = settled(there, seconds=60)

    assert (there.status.step_index, there.status.phase) == (3, Phase.PAUSED)
    assert condition(there, "Ready").since_s == since_s


def test_available_tells_of_the_pods_whatever_the_phase() -> None:
    """An aborted update may leave a wholly available Rollout; a healthy one may lose its pods."""
    assert _conditions(_phases()[Phase.ABORTED])["Available"] is True

    there = pods_fail(replace(running(STEPS), bad=frozenset("a")), "a", limit=3)
    assert _conditions(reconciled(there))["Available"] is False


def test_a_lost_pod_makes_it_unready_and_its_return_healthy_again() -> None:
    """Without any change of revision or history."""
    there = running(STEPS)
    lost = reconciled(pods_fail(there, "a", limit=1))
    assert lost.status.phase is Phase.PROGRESSING

    back = settled(lost)

    assert (back.status.phase, back.status.history) == (Phase.HEALTHY, there.status.history)


def test_pods_that_do_not_come_are_named_with_their_trouble() -> None:
    """After half a minute the pass asks for the pods once and says what the kubelet says. Asked again, nothing has changed.

    The answer is in memory alone, so a restart forgets it; status would change to and fro, a write and an Event each time. The
    pods of the next revision are others.
    """
    there = reconciled(edited(running(STEPS), revision="b"))
    there = replica_sets_caught_up(replace(there, bad=frozenset("bc")))
    trouble = "ImagePullBackOff: no such image"
    pods = tuple(replace(pod, problem=trouble) if pod.revision == "b" else pod for pod in there.pods)
    there = settled(replace(there, pods=pods), seconds=50)
    restarted = replace(there, pods_seen=None)

    assert trouble in there.status.message
    assert waiting(there).problem in there.status.message
    assert reconciled(restarted).status.waiting_for == there.status.waiting_for
    another = reconciled(edited(restarted, revision="c"))
    assert (another.status.current_revision, waiting(another).problem) == ("c", "")


def test_a_replica_set_that_cannot_make_pods_says_why() -> None:
    """Quota and admission: the ReplicaFailure condition's own words."""
    there = reconciled(edited(running(STEPS), revision="b"))
    sets = tuple(
        replace(each, failure="exceeded quota") if each.revision == "b" else each for each in there.replica_sets
    )

    there = settled(replace(there, replica_sets=sets), seconds=5)

    assert (waiting(there).reason, there.status.message) == (Reason.REPLICA_FAILURE, "exceeded quota")


def test_a_kept_old_revision_leaves_it_healthy() -> None:
    """The scale-down delay is no reason to call it unready; the time is shown."""
    strategy = Canary(steps=(), traffic_routing=TrafficRouting(), scale_down_delay_s=300)
    there = settled(edited(running(strategy), revision="b"), seconds=10)

    assert there.status.phase is Phase.HEALTHY
    assert waits_for(there) is Reason.SCALE_DOWN_DELAY


def test_a_rollout_that_is_being_deleted_is_left_alone() -> None:
    """Its ReplicaSets go with it, by their owner references."""
    there = edited(running(STEPS), revision="b")
    there = replace(there, rollout=replace(there.rollout, deleting=True))
    decision = decide(snapshot(later(there, 60)))

    assert (decision.intents, decision.status, decision.requeue_at_s) == ((), there.status, None)


@pytest.mark.parametrize("held", ["annotation", "spec"])
def test_pods_that_come_while_it_is_paused_are_no_news_for_its_conditions(held: str) -> None:
    """Each would be a write at once and an Event; the counts and `waitingFor` tell of them, and can wait."""
    there = edited(replace(running(GREEN), bad=frozenset("b")), revision="b", paused=held == "spec")
    there = settled(annotated(there, "pause", "true" if held == "annotation" else None), seconds=1)

    after = reconciled(replica_sets_caught_up(pods_ready(replace(there, bad=frozenset()), limit=2)))

    assert after.status.message != there.status.message
    assert _messages(after, "Paused") == _messages(there, "Paused") != set()


def test_an_abort_has_one_message_in_its_conditions_while_its_services_and_pods_come_back() -> None:
    """Who waits for it learns why it was aborted; how far it is stands in `waitingFor`."""
    there = edited(running(GREEN), revision="b")
    there = next(each for each in steps_of(there) if each.services["cart"].revision == "b")
    assert there.status.stable_revision == "a"
    messages, waits = set(), set()
    for after in steps_of(annotated(there, "abort", "b")):
        messages |= _messages(after, "Aborted")
        waits.add(after.status.message)

    assert len(waits) > 1
    (message,) = messages
    assert message.startswith("revision b was aborted by annotation; the stable revision takes its place; ")


def _messages(there: World, kind: str) -> set[str]:
    return {each.message for each in there.status.conditions if each.type == kind}
