"""Promise: with `spec.autoscaling` no step is complete, and nothing is promoted, until the evidence that it asks for is there.

Evidence is newer than the pods and the traffic of the step. No evidence is never a pass, and a person may pass the gate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rollouts.core.decide import decide
from rollouts.core.model.analysis import Analysis
from rollouts.core.model.autoscaling import LOOK_S, AutoscalingGate, ContainerLimit, ContainerMetric, ScalingCondition
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import AskAutoscaling
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import BlueGreen, Canary, Strategy, TrafficRouting
from rollouts.core.model.status import Phase
from rollouts.core.model.steps import Analyze, Pause, PauseUntilPromoted, SetWeight
from rollouts.core.strategy.autoscaling import FRESH_S, POLL_S
from tests.core.autoscalers import LIMITED, Load
from tests.core.model import World, annotated, snapshot
from tests.core.updates import waiting
from tests.core.worlds import edited, later, looks_again_in_s, reconciled, running, settled, sizes

SETTLED = AutoscalingGate(settled=True)
ROOM = AutoscalingGate(min_headroom_percent=20)
LIMIT = AutoscalingGate(
    container=ContainerLimit(container="app", resource=ContainerMetric.CPU, max_utilization_percent=90)
)
WHOLE = replace(LIMIT, settled=True, min_headroom_percent=20)
CHECKED = Analysis(path="spec.strategy.canary.steps[0].analysis", settings={}, templates=("good",))

CANARY = Canary(steps=(SetWeight(25), SetWeight(50)))
ROUTED = replace(CANARY, traffic_routing=TrafficRouting())
TIMED = Canary(steps=(SetWeight(25), Pause(60)))
JUDGED = Canary(steps=(SetWeight(25), Analyze(CHECKED)))
GREEN = BlueGreen(active_service="cart", preview_service="cart-preview")


def updating(load: Load, *, gate: AutoscalingGate = WHOLE, strategy: Strategy = CANARY, **spec: Any) -> World:
    """Revision `b` is on its way since an instant."""
    there = replace(running(strategy, autoscaling=gate, **spec), load=load)
    return edited(there, revision="b")


def held(load: Load, *, gate: AutoscalingGate = WHOLE, strategy: Strategy = CANARY, **spec: Any) -> World:
    """Revision `b`, ten minutes later."""
    return settled(updating(load, gate=gate, strategy=strategy, **spec), seconds=600)


def at_step(index: int, strategy: Strategy) -> World:
    """Revision `b` has just come to that step; all is well so far."""
    there = reconciled(updating(Load(), strategy=strategy))
    while there.status.step_index < index:
        there = settled(there, seconds=1)
    assert (there.status.current_revision, there.status.step_index) == ("b", index)
    return there


def told(there: World) -> tuple[Reason, str]:
    return waiting(there).reason, waiting(there).message


def limited(reason: str) -> ScalingCondition:
    return ScalingCondition(status=True, reason=reason)


HOLDS: dict[str, tuple[AutoscalingGate, Load, Reason, str]] = {
    "it scales up": (SETTLED, Load(changes={"desired": 6}), Reason.AUTOSCALER_NOT_SETTLED,
        "waiting for autoscaler cart to settle: 4 pods, it wants 6"),
    "it has just scaled, and has not looked since": (SETTLED, Load(changes={"current": 2}), Reason.AUTOSCALER_NOT_SETTLED,
        "waiting for autoscaler cart to settle: 2 pods, it wants 4"),
    "it scales as fast as it may": (SETTLED, Load(changes={"scaling_limited": limited("ScaleUpLimit")}),
        Reason.AUTOSCALER_NOT_SETTLED, "it scales as fast as its behavior allows"),
    "it waits before it grows": (SETTLED,
        Load(changes={"able_to_scale": limited("ScaleUpStabilized"), "stabilization_up_s": 60}),
        Reason.AUTOSCALER_NOT_SETTLED, "it will add pods when its window of 60 s is over"),
    "it knows no metric": (SETTLED,
        Load(changes={"scaling_active": ScalingCondition(False, "FailedGetResourceMetric", "no metrics")}),
        Reason.AUTOSCALING_UNKNOWN, "autoscaler cart scales by nothing: FailedGetResourceMetric: no metrics"),
    "whether it knows one is unknown": (ROOM, Load(changes={"scaling_active": ScalingCondition()}),
        Reason.AUTOSCALING_UNKNOWN, "autoscaler cart scales by nothing"),
    "it cannot scale": (SETTLED, Load(changes={"able_to_scale": ScalingCondition(False, "FailedGetScale", "")}),
        Reason.AUTOSCALING_UNKNOWN, "autoscaler cart cannot scale: FailedGetScale"),
    "it has not looked": (SETTLED, Load(changes={"desired": None}), Reason.AUTOSCALING_UNKNOWN,
        "autoscaler cart has not looked at this Rollout yet"),
    "its status is about an older spec": (ROOM, Load(changes={"observed": False}), Reason.AUTOSCALING_UNKNOWN,
        "autoscaler cart has not looked at this Rollout yet"),
    "there is none": (SETTLED, Load(none=True), Reason.AUTOSCALER_NOT_FOUND,
        "no HorizontalPodAutoscaler has Rollout cart as its scaleTargetRef"),
    "it cannot be read": (ROOM, Load(unread=True), Reason.AUTOSCALING_UNKNOWN,
        "horizontalpodautoscalers cannot be read: the controller may not list them"),
    "it is near its maximum": (AutoscalingGate(min_headroom_percent=30), Load(changes={"max_replicas": 5}),
        Reason.NO_HEADROOM,
        "autoscaler cart is at 4 of 5 pods: headroom 20 %, the next step needs 30 %: raise maxReplicas"),
    "it wants more than its maximum": (SETTLED, Load(changes={"max_replicas": 4, "scaling_limited": LIMITED}),
        Reason.NO_HEADROOM, "autoscaler cart wants more than its maximum of 4 pods: raise maxReplicas"),
    "a container burns": (LIMIT, Load(percent={"a": 15, "b": 130.2}), Reason.CONTAINER_OVER_LIMIT,
        "container app of revision b uses 131 % of its cpu request (limit 90 %)"),
    "there is no metrics-server": (LIMIT, Load(unmeasured=True), Reason.AUTOSCALING_UNKNOWN,
        "metrics.k8s.io cannot be read: the cluster does not have it; install metrics-server"),
    "no pod was measured": (LIMIT, Load(measured=0), Reason.AUTOSCALING_UNKNOWN,
        "container app of revision b was measured in 0 of 1 pod: pods without a sample"),
    "all samples are old": (LIMIT, Load(lag_s=3600), Reason.AUTOSCALING_UNKNOWN,
        "container app of revision b was not measured in each of its pods since this step"),
    "a container requests nothing": (LIMIT, Load(requests=0.0), Reason.AUTOSCALING_UNKNOWN,
        "container app of revision b has no cpu request in each of its pods"),
    "a use below nothing": (LIMIT, Load(percent={"b": -5}), Reason.AUTOSCALING_UNKNOWN,
        "container app of revision b has no cpu use that can be right"),
    "a use that is no number": (LIMIT, Load(percent={"b": float("nan")}), Reason.AUTOSCALING_UNKNOWN,
        "container app of revision b has no cpu use that can be right"),
}  # fmt: skip


@pytest.mark.parametrize("strategy", [CANARY, ROUTED, GREEN], ids=["by ratio", "by weights", "blue-green"])
@pytest.mark.parametrize("case", HOLDS)
def test_an_update_stays_where_it_is_and_says_why(case: str, strategy: Strategy) -> None:
    """With the numbers and what to do. Three idle pods and one that burns are 45 % together, which an HPA calls fine.

    A canary asks at each step, and blue-green once, before the switch. With the evidence it goes on by itself.
    """
    gate, load, reason, words = HOLDS[case]

    there = held(load, gate=gate, strategy=strategy)

    assert (there.status.step_index, there.status.gate_passed) == (0, False)
    assert told(there)[0] is reason
    assert words in told(there)[1] or strategy is GREEN
    if strategy is CANARY:
        assert settled(replace(there, load=Load())).status.stable_revision == "b"


SHRINKS = ScalingCondition(True, "ScaleDownStabilized", "recent recommendations were higher than current one")


@pytest.mark.parametrize("strategy", [CANARY, ROUTED, TIMED, JUDGED, GREEN], ids=repr)
@pytest.mark.parametrize(
    "load",
    [Load(), Load(percent={"a": 300}), Load(changes={"able_to_scale": SHRINKS})],
    ids=["all is well", "the next step relieves a hot stable revision", "after a peak it waits before it shrinks"],
)
def test_an_update_goes_on(strategy: Strategy, load: Load) -> None:
    """A gate that never opens is a bug of ours."""
    there = settled(updating(load, strategy=strategy))

    assert there.status.stable_revision == "b"
    assert there.load.asked > 0


@pytest.mark.parametrize(
    ("strategy", "index"),
    [(TIMED, 1), (JUDGED, 1), (Canary(steps=(SetWeight(25),)), 1), (replace(ROUTED, steps=(SetWeight(25),)), 1)],
    ids=["a timed pause", "an analysis", "the promotion by ratio", "the promotion by weights"],
)
def test_every_way_on_is_held(strategy: Strategy, index: int) -> None:
    """The end of a pause, of an analysis, and the promotion, each after a step that the autoscaler let pass."""
    there = at_step(index, strategy)

    there = settled(replace(there, load=Load(percent={"b": 200})), seconds=600)

    assert (there.status.step_index, there.status.stable_revision) == (index, "a")
    assert told(there)[0] is Reason.CONTAINER_OVER_LIMIT


def test_what_was_measured_before_the_traffic_was_there_says_nothing() -> None:
    """A sample is a quarter of a minute old when it is read: that of an idle canary would pass every first step."""
    there = held(Load(lag_s=15), gate=LIMIT)
    assert there.status.stable_revision == "b"

    there = settled(updating(Load(lag_s=15), gate=LIMIT), seconds=14)

    assert there.status.step_index == 0
    assert told(there)[0] is Reason.AUTOSCALING_UNKNOWN


def test_an_autoscaler_has_time_to_look_at_what_the_step_changed() -> None:
    """Content at once is an autoscaler that has not looked yet: it looks every 15 s at samples of 15 s."""
    there = settled(updating(Load(), gate=SETTLED), seconds=LOOK_S - 1)
    assert there.status.step_index == 0
    assert f"is given {LOOK_S:g} s to see what this step has changed" in told(there)[1]

    assert settled(there, seconds=POLL_S + 1).status.step_index == 1


def test_a_pause_counts_as_time_to_look() -> None:
    """The traffic of a pause has been there since it began, so it lasts no second longer than was asked for."""
    there = at_step(1, TIMED)
    begun_s = there.status.step_started_at_s or 0.0

    there = settled(there, seconds=61)

    assert there.status.step_index == 2
    assert (there.status.step_started_at_s or 0.0) - begun_s < 60.1


def test_a_change_of_size_counts_for_the_stabilization_window() -> None:
    """It may be taken back for so long; without one no step waits for that window."""
    scaled = Load(changes={"last_scale_at_s": running(CANARY).now_s, "stabilization_down_s": 300})
    there = settled(updating(scaled, gate=SETTLED), seconds=250)
    assert there.status.step_index == 0
    assert told(there)[1].startswith("waiting for autoscaler cart to settle: it scaled less than 300 s ago")
    assert waiting(there).deadline_s == scaled.changes["last_scale_at_s"] + 300

    assert settled(there, seconds=70).status.step_index > 0


def test_min_headroom_percent_is_enough_for_what_the_new_revision_uses_more() -> None:
    """At 25 % it uses as much as all others together: at 50 % it needs what the maximum does not have."""
    hungry = Load(percent={"a": 20, "b": 60}, changes={"max_replicas": 6})
    gate = replace(ROOM, container=LIMIT.container)

    there = held(hungry, gate=gate)

    assert there.status.step_index == 0
    assert told(there)[1].startswith(
        "autoscaler cart is at 4 of 6 pods: headroom 33 %, the next step needs 20 % and about 2 pods for what the new"
    )
    assert held(replace(hungry, changes={"max_replicas": 40}), gate=gate).status.stable_revision == "b"


def _held_up(seconds: float) -> World:
    return settled(updating(Load(percent={"b": 200})), seconds=seconds)


HOUR = Canary(steps=(Pause(3600), SetWeight(25)))
ASKED: dict[str, tuple[Callable[[], World], float, float]] = {
    "an idle Rollout": (lambda: settled(later(running(CANARY, autoscaling=WHOLE), 3600)), 0, 0),
    "a spec without the gate": (lambda: settled(edited(running(CANARY), revision="b")), 0, 0),
    "a long pause, only whose end needs an answer": (lambda: settled(updating(Load(), strategy=HOUR), seconds=3500), 0, 0),
    "a held step, as often as there is anything new": (lambda: _held_up(600), 600 / POLL_S - 3, 600 / POLL_S + 1),
    "somebody holds it, whatever the answer": (
        lambda: settled(annotated(_held_up(60), "pause", "true"), seconds=600), 1, 60 / POLL_S + 2),
}  # fmt: skip


@pytest.mark.parametrize(("there", "least", "most"), ASKED.values(), ids=list(ASKED))
def test_no_more_is_asked_than_somebody_needs(there: Callable[[], World], least: float, most: float) -> None:
    """Each question is one to the metrics API."""
    assert least <= there().load.asked <= most


def test_a_preview_is_looked_at_again_though_its_time_is_over() -> None:
    """The end of autoPromotionSeconds has passed by then, and hid every later time."""
    there = held(Load(changes={"desired": 9}), gate=SETTLED, strategy=replace(GREEN, auto_promotion_s=20))

    assert 0 < looks_again_in_s(there) <= POLL_S


def test_an_answer_that_is_too_old_is_none() -> None:
    """The controller may have been away for a while."""
    there = held(Load(percent={"b": 200}), gate=LIMIT)
    gate, seen = there.load_seen or pytest.fail("nothing was asked")
    fine = replace(
        there, load=Load(), load_seen=(gate, Load().seen(gate, at_s=seen.at_s, pods=4, ready={"a": 3, "b": 1}))
    )

    there = reconciled(later(fine, FRESH_S + POLL_S))

    assert there.status.step_index == 0


def test_an_answer_to_another_gate_is_none() -> None:
    """The container in it may be another one."""
    there = held(Load(percent={"b": 200}), gate=LIMIT)

    there = edited(there, autoscaling=replace(WHOLE, settled=False))

    assert decide(snapshot(there)).intents == (AskAutoscaling(replace(WHOLE, settled=False)),)
    assert reconciled(there).status.step_index == 0


MANUAL = Canary(steps=(SetWeight(25), PauseUntilPromoted(), SetWeight(50)))


@pytest.mark.parametrize(
    ("strategy", "index", "value", "passed"),
    [
        (CANARY, 0, "true", 1),
        (JUDGED, 1, "b@1", 2),
        (Canary(steps=(SetWeight(25),)), 1, "true", 1),
        (MANUAL, 1, "true", 2),
    ],
    ids=["of one step", "after an analysis, whose verdict is there", "after the last step", "who looked at a pause"],
)
def test_a_promotion_passes_the_gate_where_the_update_stands(
    strategy: Canary, index: int, value: str, passed: int
) -> None:
    """Once: the next step asks again. After the last step there is none to name, and `true` is enough."""
    there = at_step(index, strategy)
    there = settled(replace(there, load=Load(percent={"b": 200})), seconds=60)
    at_pause = strategy is MANUAL
    assert told(there)[0] is (Reason.PROMOTION_NEEDED if at_pause else Reason.CONTAINER_OVER_LIMIT)

    there = settled(annotated(there, "promote", value), seconds=600)

    last = len(strategy.steps) == passed == index
    assert (there.status.step_index, there.status.stable_revision == "b") == (passed, last)
    assert last or told(there)[0] is Reason.CONTAINER_OVER_LIMIT
    assert value != "true" or "promote" not in there.rollout.annotations


def test_a_step_that_waits_for_nothing_but_pods_cannot_be_promoted() -> None:
    """A `true` names what status shows, and that is no gate."""
    there = settled(updating(Load(), gate=LIMIT), seconds=1)
    unready = settled(edited(replace(there, bad=frozenset("c")), revision="c"), seconds=5)
    assert told(unready)[0] is Reason.PODS_NOT_AVAILABLE

    there = reconciled(annotated(unready, "promote", "true"))

    assert there.status.commands[-1].refusal is not None


@pytest.mark.parametrize("strategy", [CANARY, ROUTED, GREEN], ids=["by ratio", "by weights", "blue-green"])
def test_an_abort_a_promotion_in_full_and_the_way_back_wait_for_no_autoscaler(strategy: Strategy) -> None:
    """Going back is always safe, and most urgent when the load is high; a full promotion passes this as every other wait."""
    there = held(Load(unmeasured=True, none=True), strategy=strategy)

    aborted = settled(annotated(there, "abort", "true"), seconds=60)
    assert (aborted.status.phase, sizes(aborted)["a"]) == (Phase.ABORTED, 4)
    assert settled(edited(there, revision="a")).status.phase is Phase.HEALTHY
    assert settled(annotated(there, "promote", "b@full")).status.stable_revision == "b"


def test_no_deadline_aborts_an_update_at_the_gate() -> None:
    """The revision does nothing wrong while the cluster is busy; a missing autoscaler is a mistake, which somebody mends."""
    there = held(Load(changes={"desired": 9}), gate=SETTLED, progress_deadline_s=60.0, progress_deadline_abort=True)
    assert (there.status.phase, told(there)[0]) == (Phase.PROGRESSING, Reason.AUTOSCALER_NOT_SETTLED)

    there = held(Load(none=True), gate=SETTLED)

    assert {each.type for each in there.status.conditions if each.status} >= {"Stalled"}
    assert there.status.phase is Phase.DEGRADED
