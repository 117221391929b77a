"""Promise: a wait says in a sentence what is waited for, how much of it is there, and what ends it, and claims nothing else."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from rollouts.core.model.analysis import Analysis, AnalysisPhase, OnFailure
from rollouts.core.model.frozen import replace
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import BlueGreen, Canary, Percent, TrafficRouting
from rollouts.core.model.status import Phase
from rollouts.core.model.steps import Analyze, Pause, PauseUntilPromoted, SetWeight
from tests.core.measured_runs import runs_measured
from tests.core.model import World, annotated, deleted
from tests.core.updates import condition, measuring, pods_fail, routed, updating, waits_for
from tests.core.worlds import edited, pods_ready, reconciled, replica_sets_caught_up, running, settled, steps_of

GATE = Canary(steps=(SetWeight(50), PauseUntilPromoted()))
GREEN = BlueGreen(active_service="cart", preview_service="cart-preview", auto_promotion_enabled=False)
WITH_ROUTE = routed(*GATE.steps)
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
    "pods of a canary": (_one_of_two_is_there, "waiting for 2 pods of revision b to be available; 1 is"),
    "pods of a preview": (_a_preview_of_which_nothing_is_there,
        "waiting for 4 pods of revision b to be available; 0 are"),
    "a gate": (lambda: updating(GATE), "step 2: waiting for promotion of revision b: rollouts promote cart -n shop"),
    "a previewed revision": (lambda: updating(GREEN),
        "waiting for promotion of revision b, which is previewed: rollouts promote cart -n shop"),
    "an abort whose stable revision is gone": (lambda: settled(annotated(settled(deleted(updating(GATE), "a")), "abort", "b")),
        "no pods take the place of those that revision b has: the ReplicaSet of the stable one is gone; to try revision b again"),
    "an abort": (lambda: settled(annotated(updating(GATE), "abort", "b")),
        "the stable revision takes its place; to try revision b again: rollouts retry cart -n shop"),
    "a pause by annotation": (lambda: settled(annotated(edited(running(GATE), revision="b"), "pause", "true"), seconds=1),
        "paused by the annotation rollouts.dev/pause: rollouts resume cart -n shop"),
    "a pause in the spec": (lambda: settled(edited(running(GATE), revision="b", paused=True), seconds=1),
        "paused by spec.paused: remove it from the manifest"),
    "a delay": (lambda: settled(edited(running(ROUTED), revision="b"), seconds=100),
        "revision a keeps its 4 pods until its scale-down delay is over"),
    "old pods": (_old_pods_terminate, "waiting for 4 pods of revision a to terminate"),
}  # fmt: skip


@pytest.mark.parametrize(("there", "sentence"), WORLDS.values(), ids=list(WORLDS))
def test_a_wait_says_what_it_waits_for_and_what_helps(there: Callable[[], World], sentence: str) -> None:
    """What `kubectl get` and `rollouts get` show at three in the morning."""
    message = there().status.message

    assert sentence in message, message


@pytest.mark.parametrize("strategy", [GATE, WITH_ROUTE, GREEN], ids=["ratio", "routed", "blue-green"])
@pytest.mark.parametrize(
    ("broken", "words"), [(0, ";"), (3, ", with fewer than"), (4, ", and no pod of it is available")]
)
def test_an_abort_says_whether_the_stable_revision_can_serve(
    strategy: Canary | BlueGreen, broken: int, words: str
) -> None:
    """Argo Rollouts issue 777: stable had 0 of 4 pods ready, and the conditions said that it serves."""
    there = settled(annotated(updating(strategy), "abort", "b"))
    there = settled(pods_fail(replace(there, bad=frozenset("a")), "a", limit=broken), seconds=1)

    told = {condition(there, kind).message for kind in ("Aborted", "Ready", "Stalled", "Progressing")}
    assert there.status.phase is Phase.ABORTED
    assert [each for each in told if f"takes its place{words}" not in each] == []
    assert "serves" not in " ".join((*told, there.status.message))


def test_a_canary_without_pods_says_where_its_traffic_is() -> None:
    """The proxies still send it requests for a moment, and the stable revision may have no pod either."""
    there = updating(WITH_ROUTE)
    lost = pods_fail(replace(there, bad=frozenset("ab")), "b")

    going = reconciled(lost)
    gone = settled(going, seconds=1)
    both = settled(pods_fail(gone, "a"), seconds=1)

    assert "its traffic returns to the stable revision" in going.status.message
    assert "its traffic is at the stable revision" in gone.status.message
    assert "its traffic is at the stable revision, and no pod of it is available" in both.status.message


def test_a_weight_that_goes_back_is_there_only_when_the_proxies_have_it() -> None:
    """A failed verdict took it back: until the data plane says so, the clients still get the old share."""
    failed = Analyze(Analysis(path="", settings={}, templates=("rate",), on_failure=OnFailure.STEP_BACK))
    steps = (SetWeight(25), SetWeight(50), failed)
    there = measuring(replace(WITH_ROUTE, steps=steps))
    going = reconciled(reconciled(runs_measured(there, AnalysisPhase.FAILED)))
    there = settled(going)

    assert "the weight returns to 25 %" in going.status.message
    assert "the weight is back at 25 %" in there.status.message


CHECK = Analysis(path="spec.strategy.canary.analysis", settings={}, templates=("success-rate",))
AT_STEP = Canary(steps=(SetWeight(50), Analyze(CHECK), SetWeight(75)))


@pytest.mark.parametrize(("errors", "told"), [(0, False), (3, False), (4, True), (10_000, True)])
def test_a_run_that_gets_no_answers_says_what_helps(*, errors: int, told: bool) -> None:
    """A metric without count and with a high `consecutiveErrorLimit` asks forever; nothing else would say so."""
    there = measuring(AT_STEP)

    there = settled(replace(there, runs=tuple(replace(each, errors_in_a_row=errors) for each in there.runs)))

    unjudged = "rollouts promote cart -n shop --skip-analysis"
    ways = (f"rollouts analysis terminate {there.runs[0].name} -n shop", unjudged, "rollouts abort cart -n shop")
    assert [each in there.status.message for each in ways] == [told] * 3
    assert waits_for(there) is Reason.ANALYSIS_RUNNING


@pytest.mark.parametrize(
    ("shortest_s", "words", "ends"),
    [
        (None, "", False),
        (5.0, "", False),
        (300.0, ", which takes 300 s at least", False),
        (math.inf, ", which has no count of measurements and runs until somebody ends it", True),
    ],
)
def test_a_wait_for_a_run_says_how_long_it_takes(shortest_s: float | None, words: str, *, ends: bool) -> None:
    """A step whose metric has no count stands there forever, and looked like one that is nearly done."""
    there = measuring(AT_STEP)

    there = settled(replace(there, runs=tuple(replace(each, shortest_s=shortest_s) for each in there.runs)))

    (run,) = there.runs
    assert there.status.message.startswith(f"step 2: waiting for AnalysisRun {run.name}{words}")
    assert (f"rollouts analysis terminate {run.name} -n shop" in there.status.message) == ends
