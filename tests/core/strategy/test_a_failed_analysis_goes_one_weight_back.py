"""Promise: with `onFailure: stepBack` a failed analysis takes the weight one step back, and only a person goes on from there."""

from __future__ import annotations

from fractions import Fraction

import pytest

from rollouts.core.model.analysis import Analysis, AnalysisKind, AnalysisPhase, OnFailure
from rollouts.core.model.frozen import replace
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import Canary
from rollouts.core.model.status import Outcome, Phase, RolloutStatus
from rollouts.core.model.steps import Analyze, Pause, PauseUntilPromoted, SetCanaryReplicas, SetWeight, Step
from rollouts.core.strategy.canary_steps import LowerWeight, one_weight_back
from tests.core.measured_runs import runs_ended, runs_measured
from tests.core.model import World, annotated
from tests.core.updates import measuring, routed, waits_for
from tests.core.worlds import edited, later, settled, sizes

BACK = Analysis(
    path="spec.strategy.canary.analysis", settings={}, templates=("success-rate",), on_failure=OnFailure.STEP_BACK
)
STEPS = (SetWeight(25), PauseUntilPromoted(), SetWeight(50), Pause(60), Analyze(BACK), SetWeight(75))
GOOD, BAD = AnalysisPhase.SUCCESSFUL, AnalysisPhase.FAILED
EITHER = pytest.mark.parametrize("strategy", [Canary(), routed(dynamic=True)], ids=["by ratio", "routed"])


def _at_the_analysis(strategy: Canary = Canary(steps=STEPS)) -> World:  # noqa: B008 - a frozen value
    """Revision b at 50 %, and its run of step 4 measures."""
    there = measuring(strategy)
    return settled(annotated(there, "promote", "true"))


def _ended(there: World, phase: AnalysisPhase) -> World:
    return settled(runs_measured(there, phase))


def _at(there: World) -> tuple[int, object, int]:
    status = there.status
    return status.step_index, status.weight_percent, status.attempt


@pytest.mark.parametrize(
    ("steps", "index", "back"),
    [
        ((SetWeight(5), SetWeight(20), Analyze(BACK)), 2, LowerWeight(1, 5)),
        ((SetWeight(5), Analyze(BACK)), 1, LowerWeight(0, 0)),
        ((SetWeight(5), SetWeight(20), SetWeight(20), Analyze(BACK)), 3, LowerWeight(2, 5)),
        ((SetWeight(5), SetWeight(50), SetWeight(20), Analyze(BACK)), 3, LowerWeight(2, 5)),
        ((SetWeight(Fraction(1, 10)), SetWeight(1), Analyze(BACK)), 2, LowerWeight(1, Fraction(1, 10))),
        ((SetCanaryReplicas(1), Analyze(BACK), SetWeight(5)), 1, LowerWeight(1, 0)),
        ((SetWeight(5), SetWeight(50), Pause(9)), 3, LowerWeight(2, 50)),
        ((SetWeight(50), SetWeight(100), Pause(9)), 3, LowerWeight(1, 50)),
        ((), 0, LowerWeight(0, 0)),
    ],
)
def test_it_is_the_latest_weight_below_the_present_one(steps: tuple[Step, ...], index: int, back: LowerWeight) -> None:
    """Without one it is 0. The step that set the present weight is done again; after the last step that is the last one."""
    assert one_weight_back(Canary(steps=steps), RolloutStatus(step_index=index)) == back


@EITHER
def test_a_failure_goes_back_and_stands_still(strategy: Canary) -> None:
    """Neither an abort nor a promotion: fewer people meet the revision while somebody looks."""
    there = _at_the_analysis(replace(strategy, steps=STEPS))
    assert _at(there) == (4, 50, 0)

    there = settled(later(_ended(there, BAD), 86_400))

    assert _at(there) == (2, 25, 0)
    assert (there.status.phase, there.status.abort) == (Phase.PAUSED, None)
    assert waits_for(there) is Reason.ANALYSIS_INCONCLUSIVE
    assert sizes(there) == {"a": 3, "b": 1}
    assert "the weight is back at 25 %" in there.status.message
    assert "to do step 3 and what follows again: rollouts promote cart -n shop" in there.status.message
    told = [each.message for each in there.notices if each.reason is Reason.ANALYSIS_FAILED]
    assert [each.endswith("; the weight returns to 25 %") for each in told] == [True]


def test_without_a_lower_weight_the_revision_gets_no_requests() -> None:
    """Back from the first weight is back to 0."""
    there = _ended(measuring(Canary(steps=(SetWeight(50), Analyze(BACK)))), BAD)

    assert (_at(there), sizes(there)) == ((0, 0, 0), {"a": 4})
    assert there.status.phase is Phase.PAUSED


def test_the_verdict_holds_though_its_step_is_ahead_and_its_analysis_leaves_the_spec() -> None:
    """What has failed is not undone by an edit; only a person lets the weight rise again."""
    beside = Canary(steps=(SetWeight(25), SetWeight(50), PauseUntilPromoted()), analysis=BACK)
    there = _ended(measuring(beside), BAD)
    assert _at(there) == (1, 25, 0)

    there = settled(later(edited(there, strategy=replace(beside, analysis=None)), 60))
    assert (_at(there), waits_for(there)) == ((1, 25, 0), Reason.ANALYSIS_INCONCLUSIVE)

    there = settled(annotated(there, "promote", "true"))
    assert (_at(there), waits_for(there)) == ((2, 50, 1), Reason.PROMOTION_NEEDED)


@EITHER
def test_after_the_last_step_the_stable_revision_gets_its_share_again(strategy: Canary) -> None:
    """The background fails while the revision has all the requests."""
    beside = replace(strategy, steps=(SetWeight(50), Pause(5)), analysis=BACK)
    there = measuring(beside)
    there = settled(runs_measured(there))
    assert _at(there) == (2, 100, 0)

    failed = _ended(there, BAD)
    assert (_at(failed), sizes(failed)) == ((1, 50, 0), {"a": 2, "b": 2})

    again = settled(annotated(failed, "promote", "true"))
    again = settled(runs_ended(settled(runs_measured(again))))
    assert (again.status.stable_revision, sizes(again)) == ("b", {"b": 4})


def test_another_failure_there_goes_further_back() -> None:
    """The analysis beside the steps goes on measuring at the lower weight."""
    beside = Canary(steps=(SetWeight(10), SetWeight(25), SetWeight(50), Analyze(BACK)), analysis=BACK)
    there = measuring(beside)
    steps = tuple(each for each in there.runs if each.gate and each.gate.kind is AnalysisKind.STEP)
    others = tuple(each for each in there.runs if each not in steps)

    there = settled(replace(there, runs=(*runs_measured(replace(there, runs=steps), BAD).runs, *others)))
    assert _at(there) == (2, 25, 0)

    assert _at(_ended(there, BAD)) == (1, 10, 0)


@pytest.mark.parametrize("value", ["true", "b@4"])
def test_a_promotion_goes_forward_and_all_evidence_is_measured_again(value: str) -> None:
    """The pause lasts its time again, and the first run counts for nothing."""
    there = settled(annotated(_ended(_at_the_analysis(), BAD), "promote", value), seconds=59)
    assert (_at(there), waits_for(there), there.status.analyses) == ((3, 50, 1), Reason.TIMED_PAUSE, ())

    there = settled(there)
    assert (waits_for(there), len({each.name for each in there.runs})) == (Reason.ANALYSIS_RUNNING, 2)

    assert _ended(there, GOOD).status.stable_revision == "b"


def test_a_promotion_passes_no_second_failure() -> None:
    """One that stands in Git was for the first verdict; the next one is looked at by a person again."""
    there = settled(annotated(_ended(_at_the_analysis(), BAD), "promote", "b@4"))

    there = settled(later(_ended(there, BAD), 3600))

    assert (_at(there), waits_for(there)) == ((2, 25, 1), Reason.ANALYSIS_INCONCLUSIVE)
    assert [each.over for each in there.status.commands] == [True]
    there = settled(annotated(settled(annotated(there, "promote", None)), "promote", "b@4"))
    assert (_at(there), waits_for(there)) == ((4, 50, 2), Reason.ANALYSIS_RUNNING)


def test_no_promotion_from_before_the_failure_counts_after_it() -> None:
    """The pause of step 1 was promoted; it is not passed again, and nor is one of a step that is done again."""
    steps = (SetWeight(25), SetWeight(50), PauseUntilPromoted(), Analyze(BACK))
    there = measuring(Canary(steps=steps))
    there = _ended(settled(annotated(there, "promote", "b@2")), BAD)

    there = settled(annotated(there, "promote", "b@3"))

    assert (_at(there), waits_for(there)) == ((2, 50, 1), Reason.PROMOTION_NEEDED)


def test_promoted_in_full_it_goes_on_without_evidence() -> None:
    """A person who says "all" means the analyses too."""
    there = settled(annotated(_ended(_at_the_analysis(), BAD), "promote", "b@full"))

    assert (there.status.phase, there.status.stable_revision) == (Phase.HEALTHY, "b")


@pytest.mark.parametrize(("value", "aborted"), [("true", False), ("b@1", False), ("true", True)])
def test_a_retry_begins_at_the_first_step(value: str, aborted: bool) -> None:
    """It needs no abort first; one gives up, as any other does."""
    there = _ended(_at_the_analysis(), BAD)
    if aborted:
        there = settled(annotated(there, "abort", "true"))
        assert (there.status.phase, sizes(there)) == (Phase.ABORTED, {"a": 4})

    there = settled(annotated(there, "retry", value))

    assert (_at(there), waits_for(there), there.status.analyses) == ((1, 25, 1), Reason.PROMOTION_NEEDED, ())


def test_a_new_template_replaces_it() -> None:
    """A mended version begins at its first step; what failed says nothing about it."""
    there = settled(edited(_ended(_at_the_analysis(), BAD), revision="c"))

    assert (_at(there), there.status.current_revision, waits_for(there)) == ((1, 25, 0), "c", Reason.PROMOTION_NEEDED)
    assert [each.outcome for each in there.status.history][-1] is Outcome.SUPERSEDED


@pytest.mark.parametrize(
    ("phase", "paused", "at"),
    [
        (AnalysisPhase.INCONCLUSIVE, None, (4, 50, 0)),
        (AnalysisPhase.ERROR, None, (4, 50, 0)),
        (BAD, "true", (2, 25, 0)),
    ],
)
def test_without_evidence_the_weight_stays(phase: AnalysisPhase, paused: str | None, at: tuple[int, int, int]) -> None:
    """Neither says that the revision is bad. A pause of the Rollout holds what would rise, not what falls."""
    there = _ended(annotated(_at_the_analysis(), "pause", paused), phase)

    assert _at(there) == at
    assert paused or waits_for(there) is Reason.ANALYSIS_INCONCLUSIVE
