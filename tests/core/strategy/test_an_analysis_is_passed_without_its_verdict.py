"""Promise: whoever goes on without a verdict names the analysis, is on record, passes that one alone, and no evidence."""

from __future__ import annotations

import pytest

from rollouts.core.model.analysis import Analysis, AnalysisKind, AnalysisPhase, OnFailure
from rollouts.core.model.author import Author, AuthorKind
from rollouts.core.model.frozen import replace
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import BlueGreen, Canary
from rollouts.core.model.status import Command, Phase, Verb
from rollouts.core.model.steps import Analyze, PauseUntilPromoted, SetWeight
from tests.core.measured_runs import runs_measured
from tests.core.model import World, annotated
from tests.core.updates import measuring, waits_for
from tests.core.worlds import reconciled, settled

CHECK = Analysis(path="spec.strategy.canary.analysis", settings={}, templates=("success-rate",))
HOLD = replace(CHECK, on_failure=OnFailure.HOLD)
THEN_A_PAUSE = Canary(steps=(SetWeight(50), Analyze(CHECK), PauseUntilPromoted()), analysis=CHECK)
BEFORE = BlueGreen(active_service="cart", preview_service="cart-preview", pre_promotion=CHECK)
ALICE = Author("alice@example.com", AuthorKind.USER)
AFTER = BlueGreen(active_service="cart", post_promotion=CHECK)


def _ended(there: World, kind: AnalysisKind) -> bool:
    return all(each.terminate or each.phase.over for each in there.runs if each.gate and each.gate.kind is kind)


def _promotion(there: World) -> Command:
    return next(each for each in there.status.commands if each.verb is Verb.PROMOTE)


def test_a_person_passes_an_analysis_step_that_still_measures_by_its_name() -> None:
    """In Argo Rollouts `promote` passes such a step. Here only a value that says so does; the next pause holds as before.

    A promotion without evidence is never silent: it is in the command, in the record of the analysis and in an Event. The step's
    run ends, as it costs queries; the analysis beside the steps was not passed.
    """
    there = settled(annotated(measuring(THEN_A_PAUSE), "promote", "b@skip-1", by=ALICE))

    assert (there.status.step_index, there.status.phase) == (2, Phase.PAUSED)
    assert waits_for(there) is Reason.PROMOTION_NEEDED
    command = _promotion(there)
    assert (command.refusal, command.unjudged, command.by) == (None, True, ALICE)
    record = next(each for each in there.status.analyses if each.gate.step == 1)
    assert (record.passed, record.phase.over) == (True, False)
    assert record.message == "passed without a verdict (by alice@example.com)"
    told = [each.message for each in there.notices if each.reason is Reason.PROMOTED]
    assert told == ["revision b may pass the step 2 analysis without a verdict (by alice@example.com)"]
    assert (_ended(there, AnalysisKind.STEP), _ended(there, AnalysisKind.BACKGROUND)) == (True, False)
    assert settled(runs_measured(there, AnalysisPhase.FAILED)).status.phase is Phase.ABORTED


def test_what_its_run_says_after_that_counts_for_nothing() -> None:
    """It measures a moment longer: a verdict that comes late must not change the record of what a person decided."""
    there = annotated(measuring(replace(THEN_A_PAUSE, analysis=None)), "promote", "b@skip-1")
    there = reconciled(reconciled(there))
    before = [each for each in there.status.analyses if each.passed]
    assert len(before) == 1

    after = settled(runs_measured(there, AnalysisPhase.FAILED))

    assert [each for each in after.status.analyses if each.passed] == before
    assert (after.status.abort, after.status.step_index) == (None, 2)


@pytest.mark.parametrize("value", ["true", "b", "b@1"])
def test_no_other_promotion_passes_it_and_each_says_what_does(value: str) -> None:
    """Whoever writes a plain `true` may not know that something measures; the refusal has the value that goes on nevertheless."""
    there = settled(annotated(measuring(THEN_A_PAUSE), "promote", value))

    assert there.status.step_index == 1
    if value != "b":  # that one is for the first pause ahead
        refusal = _promotion(there).refusal
        assert refusal is not None and "b@skip-1" in refusal.message


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("b@skip-0", "no analysis of step 1 measures"),
        ("b@skip-2", "no analysis of step 3 measures"),
        ("b@skip-background", "rollouts analysis terminate"),
        ("b@skip-pre-promotion", "no pre-promotion analysis measures"),
        ("b@skip-", "names no analysis"),
        ("b@skip-true", "names no analysis"),
        ("a@skip-1", "is not being rolled out"),
        ("nobody@skip-1", "no revision"),
    ],
)
def test_nothing_else_is_passed_without_a_verdict(value: str, says: str) -> None:
    """The value names what it passes: another gate, one that does not measure, and another revision are refused."""
    there = settled(annotated(measuring(THEN_A_PAUSE), "promote", value))

    refusal = _promotion(there).refusal
    assert refusal is not None and says in refusal.message
    assert (there.status.step_index, there.status.stable_revision) == (1, "a")
    assert not any(each.passed for each in there.status.analyses)


def test_a_verdict_that_is_there_is_not_passed_as_if_there_were_none() -> None:
    """The run has failed and holds the update: whoever skips it did not see that, and is told."""
    there = measuring(Canary(steps=(SetWeight(50), Analyze(HOLD), PauseUntilPromoted())))
    there = settled(runs_measured(there, AnalysisPhase.FAILED))

    there = settled(annotated(there, "promote", "b@skip-1"))

    refusal = _promotion(there).refusal
    assert refusal is not None and "b@1" in refusal.message
    assert there.status.step_index == 1


@pytest.mark.parametrize("hold", [CHECK, HOLD])
def test_a_verdict_that_comes_first_wins(hold: Analysis) -> None:
    """The run failed between the look and the command: the failure counts, and the command is refused after all."""
    there = measuring(Canary(steps=(SetWeight(50), Analyze(hold), PauseUntilPromoted())))

    there = settled(annotated(runs_measured(there, AnalysisPhase.FAILED), "promote", "b@skip-1"))

    refusal = _promotion(there).refusal
    assert refusal is not None and "Failed" in refusal.message
    assert (there.status.step_index < 2, there.status.stable_revision) == (True, "a")
    assert not any(each.passed for each in there.status.analyses)


def test_it_passes_one_analysis_once() -> None:
    """The value stays in Git: a retry measures again, and waits for its verdict."""
    there = settled(annotated(measuring(THEN_A_PAUSE), "promote", "b@skip-1"))
    there = settled(annotated(settled(annotated(there, "abort", "true")), "retry", "true"))

    assert (there.status.attempt, there.status.step_index) == (1, 1)
    assert waits_for(there) is Reason.ANALYSIS_RUNNING


def test_a_preview_is_switched_without_the_verdict_of_its_analysis() -> None:
    """The same form at a blue-green update: only that gate is passed, and none that waits for a person."""
    there = settled(annotated(measuring(replace(BEFORE, post_promotion=CHECK)), "promote", "b@skip-pre-promotion"))
    assert (there.services["cart"].revision, there.status.stable_revision) == ("b", "a")
    assert (_ended(there, AnalysisKind.PRE_PROMOTION), _ended(there, AnalysisKind.POST_PROMOTION)) == (True, False)

    by_hand = replace(BEFORE, auto_promotion_enabled=False)
    there = settled(annotated(measuring(by_hand), "promote", "b@skip-pre-promotion"))
    assert (there.services["cart"].revision, there.status.stable_revision) == ("a", "a")
    assert _ended(there, AnalysisKind.PRE_PROMOTION)
    assert settled(annotated(there, "promote", "b@0")).status.stable_revision == "b"


def test_a_revision_with_the_traffic_becomes_stable_without_the_verdict() -> None:
    """After the switch only the analysis keeps the old pods."""
    there = settled(annotated(measuring(AFTER), "promote", "b@skip-post-promotion"))

    assert there.status.stable_revision == "b"
    assert _ended(there, AnalysisKind.POST_PROMOTION)
