"""Promise: an update goes on by evidence or by a person, each verdict counts for its own attempt, and a failure goes back."""

from __future__ import annotations

import pytest

from rollouts.core.decide import decide
from rollouts.core.forecast import rehearse
from rollouts.core.model.analysis import Analysis, AnalysisKind, AnalysisPhase, OnFailure, RunSeen
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import CreateAnalysisRun, DeleteAnalysisRun
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import BlueGreen, Canary, Strategy
from rollouts.core.model.status import Phase
from rollouts.core.model.steps import (
    Analyze,
    Pause,
    PauseUntilPromoted,
    SetCanaryReplicas,
    SetHeaderRoute,
    SetMirrorRoute,
    SetWeight,
    Step,
)
from rollouts.core.model.traffic import MatchKind, MirrorRoute, NamedMatch, RequestMatch, TextMatch
from tests.core.measured_runs import runs_ended, runs_measured
from tests.core.model import World, annotated, deleted, snapshot
from tests.core.updates import measuring, routed, waiting, waits_for
from tests.core.worlds import edited, later, pods_ready, reconciled, replica_sets_caught_up, running, settled, sizes

CHECK = Analysis(path="spec.strategy.canary.analysis", settings={}, templates=("success-rate",))
HOLD = replace(CHECK, on_failure=OnFailure.HOLD)
AT_STEP = Canary(steps=(SetWeight(50), Analyze(CHECK), SetWeight(75)))
IN_BACKGROUND = Canary(steps=(SetWeight(25), PauseUntilPromoted(), SetWeight(50)), analysis=CHECK)
BEFORE = BlueGreen(active_service="cart", preview_service="cart-preview", pre_promotion=CHECK)
AFTER = BlueGreen(active_service="cart", post_promotion=CHECK)
GOOD, BAD = AnalysisPhase.SUCCESSFUL, AnalysisPhase.FAILED
NEITHER = (AnalysisPhase.INCONCLUSIVE, AnalysisPhase.ERROR)


def _ended(there: World, phase: AnalysisPhase) -> World:
    return settled(runs_measured(there, phase))


def _open(there: World) -> list[RunSeen]:
    return [each for each in there.runs if not each.phase.over and not each.terminate]


# --- a step


def test_a_step_begins_its_run_with_the_pods_of_its_weight_and_waits_for_it() -> None:
    """A run that begins before measures pods that do not serve, or nothing."""
    there = replace(running(AT_STEP), unmeasured=True, bad=frozenset("b"))
    there = settled(edited(there, revision="b"), seconds=60)
    assert there.runs == ()

    there = settled(replace(there, bad=frozenset()))

    assert [(each.gate and each.gate.kind, each.revision) for each in there.runs] == [(AnalysisKind.STEP, "b")]
    assert (there.status.step_index, waits_for(there)) == (1, Reason.ANALYSIS_RUNNING)
    assert there.status.phase is Phase.PROGRESSING
    assert there.runs[0].name in there.status.message


def test_a_success_completes_the_step() -> None:
    """The verdict stays on record after the promotion, for who asks why."""
    there = _ended(measuring(AT_STEP), GOOD)

    assert (there.status.phase, there.status.stable_revision) == (Phase.HEALTHY, "b")
    assert [(each.phase, each.run) for each in there.status.analyses] == [(GOOD, there.runs[0].name)]


@pytest.mark.parametrize("strategy", [AT_STEP, IN_BACKGROUND], ids=["at its step", "beside a pause"])
def test_a_failure_aborts_and_says_what_was_measured(strategy: Strategy) -> None:
    """The stable revision has all the pods again, and the condition names the run."""
    there = _ended(measuring(strategy), BAD)

    assert there.status.phase is Phase.ABORTED
    assert there.status.abort is not None
    assert there.status.abort.reason is Reason.ANALYSIS_FAILED
    assert there.runs[0].name in there.status.abort.message
    assert "it is Failed" in there.status.abort.message
    assert sizes(there) == {"a": 4}


@pytest.mark.parametrize(("analysis", "phase"), [(CHECK, NEITHER[0]), (CHECK, NEITHER[1]), (HOLD, BAD)])
def test_without_evidence_the_update_stands_still_until_somebody_promotes_it(
    analysis: Analysis, phase: AnalysisPhase
) -> None:
    """Argo Rollouts stayed stuck after an inconclusive run and a promotion (its issue 3015). `onFailure: hold` is the same."""
    there = _ended(measuring(replace(AT_STEP, steps=(SetWeight(50), Analyze(analysis), SetWeight(75)))), phase)
    assert (there.status.step_index, waits_for(there)) == (1, Reason.ANALYSIS_INCONCLUSIVE)
    assert there.status.phase is Phase.PAUSED
    assert "rollouts promote cart -n shop" in there.status.message
    assert settled(annotated(there, "abort", "true")).status.phase is Phase.ABORTED

    there = settled(annotated(later(there, 3600), "promote", "true"))

    assert (there.status.phase, there.status.stable_revision) == (Phase.HEALTHY, "b")
    assert [each.passed for each in there.status.analyses] == [True]


def test_a_run_that_somebody_deletes_is_made_again_under_its_name() -> None:
    """The gate needs its evidence; a second name would be a second run."""
    there = measuring(AT_STEP)

    again = settled(replace(there, runs=()))

    assert [each.name for each in again.runs] == [each.name for each in there.runs]
    assert again.status.step_index == 1


def test_a_promotion_passes_the_verdict_that_is_there_whatever_the_clock_says() -> None:
    """The next leader's clock may be behind: a promotion that seemed older than the verdict was taken off without an effect."""
    there = _ended(measuring(AT_STEP), AnalysisPhase.INCONCLUSIVE)

    there = settled(annotated(replace(there, now_s=there.now_s - 5.0), "promote", "true"))

    assert [each.passed for each in there.status.analyses] == [True]
    assert there.status.phase is Phase.HEALTHY


# --- the background


def test_a_background_analysis_begins_with_the_first_requests_and_ends_with_the_last_step() -> None:
    """It measures beside the steps; at the end it is told to end, and judged by what it has measured."""
    there = replace(running(routed(*IN_BACKGROUND.steps, analysis=CHECK)), unmeasured=True)
    early = reconciled(replica_sets_caught_up(pods_ready(reconciled(edited(there, revision="b")))))
    assert early.runs == ()

    there = settled(edited(there, revision="b"))
    assert (len(there.runs), there.status.step_index, waits_for(there)) == (1, 1, Reason.PROMOTION_NEEDED)

    there = settled(annotated(there, "promote", "true"))
    assert (there.status.step_index, waits_for(there), there.runs[0].terminate) == (2, Reason.ANALYSIS_RUNNING, False)

    there = settled(runs_measured(there))
    assert (there.runs[0].terminate, there.status.stable_revision) == (True, "a")

    assert settled(runs_ended(there)).status.stable_revision == "b"


INSIDERS = RequestMatch(headers=(NamedMatch("x-canary", TextMatch(MatchKind.EXACT, "yes")),))


@pytest.mark.parametrize(
    ("step", "measures"),
    [
        (SetHeaderRoute("insiders", INSIDERS), True),
        (SetMirrorRoute("copies", MirrorRoute("copies", (), 10)), True),
        (SetWeight(5), True),
        (SetWeight(0), False),
    ],
    ids=["a header route", "a mirror route", "a weight", "no request"],
)
def test_a_background_analysis_needs_requests_and_any_will_do(step: Step, measures: bool) -> None:
    """Those of testers, or copies, are requests too; a revision that gets none has errors in no metric."""
    strategy = routed(SetCanaryReplicas(1), step, PauseUntilPromoted(), analysis=CHECK)
    there = settled(edited(replace(running(strategy), unmeasured=True), revision="b"))

    assert (waits_for(there), there.status.step_index) == (Reason.PROMOTION_NEEDED, 2)
    assert [each.gate.kind for each in there.runs if each.gate] == [AnalysisKind.BACKGROUND] * measures


LAST_STEPS: tuple[Step, ...] = (SetWeight(50), Pause(5), PauseUntilPromoted(), Analyze(CHECK))


def _without_evidence_beside_the_steps(last: Step) -> World:
    """An update at its last step, which would be over long since."""
    there = measuring(Canary(steps=(SetWeight(25), last), analysis=CHECK))
    if isinstance(last, PauseUntilPromoted):
        return settled(annotated(there, "promote", "true"))
    of_step = replace(there, runs=tuple(each for each in there.runs if each.gate and each.gate.step is not None))
    beside = (each for each in there.runs if each not in of_step.runs)
    return settled(later(replace(there, runs=(*beside, *runs_measured(of_step).runs)), 3600))


@pytest.mark.parametrize("last", LAST_STEPS, ids=lambda step: type(step).__name__)
@pytest.mark.parametrize("phase", (None, AnalysisPhase.ERROR))
def test_all_traffic_comes_after_the_first_evidence_of_the_background(last: Step, phase: AnalysisPhase | None) -> None:
    """After the last step the stable pods go. A server that does not answer must not be why nobody has looked before."""
    there = _without_evidence_beside_the_steps(last)
    there = _ended(there, phase) if phase is not None else there

    assert (there.status.step_index, sizes(there).get("a", 0) > 0) == (1, True)
    assert waits_for(there) is (Reason.ANALYSIS_RUNNING if phase is None else Reason.ANALYSIS_INCONCLUSIVE)
    there = settled(runs_ended(settled(runs_measured(settled(annotated(there, "promote", "b@background"))))))
    assert there.status.stable_revision == "b"


@pytest.mark.parametrize(
    "steps",
    [(SetWeight(50),), (SetWeight(100),), (PauseUntilPromoted(), SetWeight(1))],
    ids=["50", "100", "a pause, 1"],
)
def test_the_first_requests_of_a_revision_may_come_with_the_last_step(steps: tuple[Step, ...]) -> None:
    """The pass that sees the weight arrive begins the analysis, and nobody has measured anything by then."""
    there = settled(annotated(measuring(routed(*steps, analysis=CHECK)), "promote", "true"), seconds=3600)

    assert there.status.step_index == len(steps) - 1
    assert (there.services["cart"].revision, waits_for(there)) == ("a", Reason.ANALYSIS_RUNNING)

    there = settled(runs_ended(settled(runs_measured(there))))
    assert there.status.stable_revision == "b"


def test_a_promotion_passes_one_verdict_of_the_background_and_it_measures_again() -> None:
    """The first `true` is for the verdict, the second for the step; then evidence is gathered anew."""
    there = _ended(measuring(IN_BACKGROUND), AnalysisPhase.INCONCLUSIVE)
    assert (waits_for(there), there.status.step_index) == (Reason.ANALYSIS_INCONCLUSIVE, 1)

    there = settled(annotated(there, "promote", "true"))
    assert (waits_for(there), there.status.step_index) == (Reason.PROMOTION_NEEDED, 1)
    assert [each.number for each in there.status.analyses] == [2]
    assert len(_open(there)) == 1

    there = _ended(there, AnalysisPhase.INCONCLUSIVE)
    assert waits_for(there) is Reason.ANALYSIS_INCONCLUSIVE


def test_a_verdict_is_promoted_by_its_name_and_only_while_it_waits() -> None:
    """`<revision>@background` in Git passes the verdict that is there, and none that comes later."""
    early = settled(annotated(measuring(IN_BACKGROUND), "promote", "b@background"))
    assert [each.refusal is not None for each in early.status.commands] == [True]

    there = _ended(measuring(IN_BACKGROUND), AnalysisPhase.ERROR)
    there = settled(annotated(there, "promote", "b@background"))
    assert waits_for(there) is Reason.PROMOTION_NEEDED

    assert waits_for(_ended(there, AnalysisPhase.ERROR)) is Reason.ANALYSIS_INCONCLUSIVE


# --- before and after the promotion of a preview


@pytest.mark.parametrize(("strategy", "active"), [(BEFORE, "a"), (AFTER, "b")], ids=["before", "after the switch"])
def test_a_preview_becomes_stable_only_after_its_analysis(strategy: Strategy, active: str) -> None:
    """The time of the automatic promotion is over at once; the verdict is missing, and a failure goes back to whole old pods."""
    there = measuring(strategy)
    assert (there.services["cart"].revision, there.status.stable_revision) == (active, "a")
    assert (waits_for(there), sizes(there)) == (Reason.ANALYSIS_RUNNING, {"a": 4, "b": 4})

    assert _ended(there, GOOD).status.stable_revision == "b"
    failed = _ended(there, BAD)
    assert (failed.services["cart"].revision, failed.status.phase, sizes(failed)["a"]) == ("a", Phase.ABORTED, 4)


def test_a_promotion_by_hand_and_an_analysis_are_both_needed() -> None:
    """The first `true` opens the preview's gate, and does not stand for evidence."""
    there = measuring(replace(BEFORE, auto_promotion_enabled=False))
    assert waits_for(there) is Reason.PROMOTION_NEEDED

    there = settled(annotated(there, "promote", "true"))
    assert (there.services["cart"].revision, waits_for(there)) == ("a", Reason.ANALYSIS_RUNNING)

    assert _ended(there, GOOD).status.stable_revision == "b"


def test_a_preview_gets_the_traffic_at_once_when_nothing_else_serves() -> None:
    """Somebody deleted the stable ReplicaSet: requests come first. The analysis with the traffic is needed all the same."""
    there = measuring(replace(BEFORE, post_promotion=CHECK))

    alone = settled(deleted(there, "a"))

    assert (alone.services["cart"].revision, alone.status.stable_revision) == ("b", "a")
    assert waits_for(alone) is Reason.ANALYSIS_RUNNING
    assert [each.gate and each.gate.kind for each in _open(alone)] == [AnalysisKind.POST_PROMOTION]


# --- whose run, which update


def test_the_name_of_a_run_that_another_owner_has_is_told_and_not_taken() -> None:
    """A run of somebody else must neither be judged nor ended."""
    there = measuring(AT_STEP)
    seen = replace(snapshot(there), runs=(), taken_runs=frozenset({there.runs[0].name}))

    decision = decide(seen)

    assert not [each for each in decision.intents if isinstance(each, CreateAnalysisRun)]
    assert waits_for(decision) is Reason.ANALYSIS_INVALID
    assert there.runs[0].name in waiting(decision).message


def test_names_of_runs_fit_a_label() -> None:
    """The Job of a metric carries the name as a label, of 63 characters at most."""
    there = measuring(AT_STEP)
    rollout = replace(there.rollout, name="a-name-that-is-longer-than-any-label-could-ever-be-in-kubernetes")
    seen = replace(snapshot(there), rollout=rollout, runs=(), status=replace(there.status, analyses=()))

    created = [each for each in decide(seen).intents if isinstance(each, CreateAnalysisRun)]

    assert [60 < len(each.name) <= 63 for each in created] == [True]


# --- what is not analysed, and what stands in the way


def test_the_first_revision_and_one_promoted_in_full_are_not_analysed() -> None:
    """There is nothing to go back to, or a person has decided."""
    assert running(AT_STEP).runs == ()

    there = settled(annotated(measuring(IN_BACKGROUND), "promote", "b@full"))
    assert there.status.stable_revision == "b"
    aborted = settled(annotated(measuring(IN_BACKGROUND), "abort", "true"))

    assert [each.terminate for each in (*there.runs, *aborted.runs)] == [True, True], "a run costs queries"


@pytest.mark.parametrize("strategy", [AT_STEP, BEFORE, AFTER, replace(IN_BACKGROUND, steps=(SetWeight(25),))])
def test_an_update_of_0_replicas_waits_for_pods_that_can_be_judged(strategy: Strategy) -> None:
    """What nobody has judged at night would get all requests in the morning. Status says so, and the way past it."""
    there = settled(edited(replace(running(strategy), unmeasured=True), replicas=0))

    there = settled(edited(there, revision="b"), seconds=7 * 86400)

    assert (there.status.stable_revision, there.runs, waits_for(there)) == ("a", (), Reason.ANALYSIS_NEEDS_PODS)
    assert there.status.phase is Phase.PAUSED
    assert "0 replicas, is scaled up" in waiting(there).message
    assert settled(annotated(there, "promote", "b@full")).status.stable_revision == "b"
    assert len(_open(settled(edited(there, replicas=4)))) == 1


HELD: tuple[Strategy, ...] = (
    replace(AT_STEP, steps=(SetWeight(50), Analyze(HOLD))),
    replace(IN_BACKGROUND, steps=(SetWeight(50), Pause(5)), analysis=HOLD),
    replace(BEFORE, pre_promotion=HOLD),
    replace(AFTER, post_promotion=HOLD),
)


@pytest.mark.parametrize("phase", [BAD, *NEITHER])
@pytest.mark.parametrize("strategy", HELD)
def test_a_verdict_that_holds_an_update_holds_it_at_0_replicas_too(strategy: Strategy, phase: AnalysisPhase) -> None:
    """An autoscaler that finds no requests at night must not promote what has failed: in the morning it would get all of them."""
    there = settled(edited(_ended(measuring(strategy), phase), replicas=0), seconds=3600)

    assert (there.status.stable_revision, waits_for(there)) == ("a", Reason.ANALYSIS_INCONCLUSIVE)
    # a background analysis measures again, with pods
    anew = isinstance(strategy, Canary) and strategy.analysis is not None
    assert settled(annotated(there, "promote", "b@full" if anew else "true")).status.stable_revision == "b"


@pytest.mark.parametrize("strategy", HELD)
def test_a_promotion_that_names_no_gate_passes_no_verdict_and_is_told_the_name(strategy: Strategy) -> None:
    """It had been kept for the next pause, which nobody had meant, while the update still stood at the verdict."""
    there = settled(annotated(_ended(measuring(strategy), AnalysisPhase.INCONCLUSIVE), "promote", "b"))

    refusal = there.status.commands[-1].refusal
    assert refusal is not None
    named = f"b@{there.status.analyses[-1].gate.promoted_as}"
    assert refusal.message.endswith(f"only {named} passes it")
    assert settled(annotated(there, "promote", named)).status.commands[-1].refusal is None


def test_the_index_of_a_step_that_waits_for_its_verdict_names_it_too() -> None:
    """People count steps; the analysis has no other name in their manifest."""
    there = _ended(measuring(HELD[0]), AnalysisPhase.INCONCLUSIVE)
    step = there.status.analyses[-1].gate.step

    assert settled(annotated(there, "promote", f"b@{step}")).status.stable_revision == "b"


@pytest.mark.parametrize("strategy", [AT_STEP, BEFORE, AFTER])
def test_a_run_that_has_begun_counts_when_the_rollout_is_scaled_to_0(strategy: Strategy) -> None:
    """It was asked for when the revision served, and nothing has been learned of it since."""
    there = settled(edited(measuring(strategy), replicas=0), seconds=3600)
    assert (there.status.stable_revision, waits_for(there), len(_open(there))) == ("a", Reason.ANALYSIS_RUNNING, 1)

    assert _ended(there, BAD).status.phase is Phase.ABORTED
    assert _ended(there, GOOD).status.stable_revision == "b"


def test_a_rollback_within_its_window_is_not_analysed() -> None:
    """It was stable before, and whoever goes back is in a hurry."""
    there = replace(running(AT_STEP, rollback_window_revisions=3), unmeasured=True)
    there = _ended(settled(edited(later(there, 60), revision="b")), GOOD)

    there = settled(edited(there, revision="a"))

    assert (there.status.stable_revision, len(there.runs)) == ("a", 1)


def test_nothing_begins_while_somebody_holds_the_rollout() -> None:
    """A run that is under way goes on."""
    there = settled(edited(replace(running(AT_STEP), unmeasured=True), revision="b", paused=True))
    assert there.runs == ()

    held = settled(edited(measuring(AT_STEP), paused=True))
    assert len(_open(held)) == 1


def test_old_runs_go_beyond_the_limits_and_those_of_this_update_stay() -> None:
    """Five of each kind by default, as with Argo Rollouts; here one."""
    there = running(AT_STEP, successful_runs_kept=1, unsuccessful_runs_kept=0)
    for revision in ("b", "c", "d", "a"):
        there = settled(edited(there, revision=revision))
    assert [each.revision for each in there.runs] == ["d", "a"]

    view = snapshot(there)
    failed = replace(there.runs[0], phase=BAD)
    gone = [each.name for each in decide(replace(view, runs=(failed, there.runs[1]))).intents]  # type: ignore[union-attr]
    assert gone == [failed.name]
    assert all(isinstance(each, DeleteAnalysisRun) for each in decide(replace(view, runs=(failed,))).intents)


def test_a_rehearsal_goes_through_analyses() -> None:
    """What they find nobody knows beforehand; the plan shows the update that succeeds."""
    told: tuple[tuple[Strategy, int], ...] = ((AT_STEP, 3), (BEFORE, 2))
    for strategy, least in told:
        rehearsal = rehearse(snapshot(edited(running(strategy), revision="b")), startup_s=1)
        assert (rehearsal.stuck, rehearsal.end.status.stable_revision) == (None, "b")
        assert len(rehearsal.stages) >= least
        waits = [wait for stage in rehearsal.stages for wait in stage.waits]
        (verdict,) = [wait for wait in waits if wait.reason is Reason.ANALYSIS_RUNNING]
        assert (verdict.seconds, "a failure aborts the update" in verdict.message) == (0.0, True)


def test_requests_of_the_revision_before_are_not_taken_for_those_of_the_new_one() -> None:
    """A fix comes while a bad version has 25 %: its run began at once, and could be judged by the errors of the other."""
    there = measuring(routed(SetWeight(25), PauseUntilPromoted(), analysis=CHECK))
    assert [each.revision for each in there.runs] == ["b"]

    there = settled(edited(replace(there, bad=frozenset("c")), revision="c"), seconds=60)
    assert [each.revision for each in there.runs] == ["b"]

    there = settled(replace(there, bad=frozenset()))
    assert [each.revision for each in there.runs] == ["b", "c"]
