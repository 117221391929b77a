"""Promise: with `beforeSetWeight` no weight rises before its own analysis has succeeded, or a person has passed it by name."""

from __future__ import annotations

import pytest

from rollouts.core.model.analysis import Analysis, AnalysisGate, AnalysisKind, AnalysisPhase, OnDeadline, OnFailure
from rollouts.core.model.frozen import replace
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import Canary
from rollouts.core.model.status import Phase
from rollouts.core.model.steps import Pause, PauseUntilPromoted, SetWeight
from tests.core import daemonsets
from tests.core.deployments import deployed, template_changed
from tests.core.measured_runs import runs_measured
from tests.core.model import World, annotated
from tests.core.stateful_sets import new_template, stateful
from tests.core.updates import measuring, routed, waiting, waits_for, with_services
from tests.core.worlds import edited, later, reconciled, running, settled, sizes

GOOD, BAD = AnalysisPhase.SUCCESSFUL, AnalysisPhase.FAILED
CHECK = Analysis(path="spec.strategy.canary.beforeSetWeight", settings={}, templates=("approved",))
WEIGHTS = (25, 50, 75)


def _steps(check: Analysis = CHECK) -> tuple[SetWeight | Pause, ...]:
    """Three weights that rise, one that falls, and pauses that are over after a moment."""
    rising = [each for weight in WEIGHTS for each in (SetWeight(weight, check), Pause(1))]
    return (*rising, SetWeight(50), Pause(1))


STRATEGIES = {
    "by ratio": with_services(*_steps()),
    "by routes": routed(*_steps()),
    "by routes, with a small stable": routed(*_steps(), dynamic=True),
}
of_each_strategy = pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)


def _weight(there: World) -> object:
    """The weight in force, as it is recorded."""
    return there.status.weight_percent


def _with(strategy: Canary, check: Analysis) -> Canary:
    return replace(strategy, steps=_steps(check))


@of_each_strategy
def test_each_increase_is_asked_for_alone(strategy: Canary) -> None:
    """A yes to 25 % is none to 50 %: as many runs as weights that rise, and none for one that falls, nor for the promotion."""
    there = measuring(strategy)
    for number, weight in enumerate(WEIGHTS):
        asked = [each for each in there.runs if not each.phase.over]
        assert [each.gate for each in asked] == [AnalysisGate(AnalysisKind.STEP, number * 2)]
        assert _weight(there) == (0, *WEIGHTS)[number]
        assert waits_for(there) is Reason.ANALYSIS_RUNNING
        there = settled(later(there, 3_600.0), seconds=60)
        assert _weight(there) == (0, *WEIGHTS)[number], "it waits for as long as it takes"

        there = settled(runs_measured(there, GOOD), seconds=60)
        assert _weight(there) == (weight if weight != 75 else None) or there.status.stable_revision == "b"

    assert (there.status.phase, there.status.stable_revision) == (Phase.HEALTHY, "b")
    assert len(there.runs) == len(WEIGHTS)


@of_each_strategy
def test_no_pod_comes_for_a_weight_that_has_not_passed(strategy: Canary) -> None:
    """The first one makes the first pods."""
    assert sizes(measuring(strategy)).get("b", 0) == 0
    there = settled(runs_measured(measuring(strategy), GOOD), seconds=60)
    assert sizes(there)["b"] == 1


@of_each_strategy
def test_a_refusal_aborts_holds_or_goes_back(strategy: Canary) -> None:
    """As with any analysis; one that is held stays at the weight that has passed."""
    at_25 = settled(runs_measured(measuring(strategy), GOOD), seconds=60)
    aborted = settled(runs_measured(at_25, BAD), seconds=60)
    assert (aborted.status.phase, _weight(aborted)) == (Phase.ABORTED, 0)
    again = settled(annotated(aborted, "retry", "true"), seconds=60)
    assert (again.status.step_index, _weight(again), waits_for(again)) == (0, 0, Reason.ANALYSIS_RUNNING)

    for on_failure, weight in ((OnFailure.HOLD, 25), (OnFailure.STEP_BACK, 0)):
        there = settled(
            runs_measured(measuring(_with(strategy, replace(CHECK, on_failure=on_failure))), GOOD), seconds=60
        )
        there = settled(runs_measured(there, BAD), seconds=3_600)
        assert (_weight(there), waits_for(there)) == (weight, Reason.ANALYSIS_INCONCLUSIVE)
        assert "rollouts promote cart -n shop" in waiting(there).message
        passed = settled(annotated(there, "promote", "true"), seconds=60)
        assert passed.status.abort is None
        if on_failure is OnFailure.HOLD:
            assert (_weight(passed), waits_for(passed)) == (50, Reason.ANALYSIS_RUNNING), "it passes one increase"
        else:
            assert (passed.status.step_index, waits_for(passed)) == (0, Reason.ANALYSIS_RUNNING), "it is asked again"


@pytest.mark.parametrize("policy", OnDeadline)
@of_each_strategy
def test_one_that_never_answers_ends_by_its_policy(strategy: Canary, policy: OnDeadline) -> None:
    """Never by going on."""
    limited = replace(CHECK, deadline_s=600.0, on_deadline=policy)
    there = settled(edited(replace(running(_with(strategy, limited)), unmeasured=True), revision="b"), seconds=500)
    assert waits_for(there) is Reason.ANALYSIS_RUNNING

    there = settled(there, seconds=200)

    assert (_weight(there), sizes(there).get("b", 0)) == (0, 0)
    assert there.status.phase is (Phase.ABORTED if policy is OnDeadline.ABORT else Phase.PAUSED)


@of_each_strategy
def test_a_person_passes_one_by_its_step(strategy: Canary) -> None:
    """Without a verdict only by that name, and no other increase with it; in full all of them."""
    there = measuring(strategy)
    assert _weight(settled(annotated(there, "promote", "true"), seconds=60)) == 0

    passed = settled(annotated(there, "promote", "b@skip-0"), seconds=60)

    assert (_weight(passed), waits_for(passed)) == (25, Reason.ANALYSIS_RUNNING)
    assert settled(annotated(there, "promote", "b@full"), seconds=60).status.stable_revision == "b"


@of_each_strategy
def test_a_newer_revision_has_passed_nothing(strategy: Canary) -> None:
    """Also at a weight that the one before had."""
    there = settled(runs_measured(measuring(strategy), GOOD), seconds=60)
    assert _weight(there) == 25

    there = settled(edited(there, revision="c"), seconds=60)

    assert (_weight(there), waits_for(there)) == (0, Reason.ANALYSIS_RUNNING)
    assert [each.revision for each in there.runs if not (each.phase.over or each.terminate)] == ["c"]


def test_a_workload_that_keeps_its_pods_changes_none_for_a_weight_that_has_not_passed() -> None:
    """A Deployment, a StatefulSet and a DaemonSet in place: their own controllers would go on by themselves."""
    by_ratio = Canary(steps=(SetWeight(50, CHECK), PauseUntilPromoted()))
    for there in (
        template_changed(replace(settled(deployed(by_ratio)), unmeasured=True), "b"),
        new_template(replace(settled(stateful(by_ratio)), unmeasured=True), "b"),
    ):
        asked = settled(there, seconds=3_600)
        assert ({each.revision for each in asked.pods}, waits_for(asked)) == ({"a"}, Reason.ANALYSIS_RUNNING)
        passed = settled(runs_measured(asked, GOOD))
        assert {each.revision for each in passed.pods} == {"a", "b"}

    nodes = replace(daemonsets.settled(daemonsets.daemons(by_ratio)), unmeasured=True)
    nodes = daemonsets.settled(daemonsets.later(daemonsets.settled(daemonsets.template_changed(nodes, "b")), 3_600.0))
    assert (set(daemonsets.runs(nodes)), nodes.deleted) == ({"a"}, ())
    assert set(daemonsets.runs(daemonsets.settled(daemonsets.measured(nodes, GOOD)))) == {"a", "b"}


@of_each_strategy
def test_each_write_of_an_increase_is_safe_alone(strategy: Canary) -> None:
    """A controller that ends after any of its writes leaves what the next one goes on from: one run for each increase."""
    begun = settled(runs_measured(measuring(strategy), GOOD), seconds=60)
    for passes in range(1, 5):
        for writes in range(4):
            there = begun
            for _ in range(passes):
                there = reconciled(there)
            there = settled(reconciled(there, writes=writes), seconds=60)
            assert (_weight(there), len(there.runs)) == (25, 2)
            there = runs_measured(there, GOOD)
            for _ in range(passes):
                there = reconciled(there)
            there = settled(reconciled(there, writes=writes), seconds=60)
            assert (_weight(there), len(there.runs)) == (50, 3)
