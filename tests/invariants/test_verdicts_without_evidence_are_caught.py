"""Promise: a promotion, a step or a verdict without evidence is found, by S7; and what is written beside a verdict, by S10."""

from __future__ import annotations

import pytest

from rollouts.core.model.analysis import Analysis, AnalysisKind, AnalysisPhase, AnalysisRecord, OnFailure
from rollouts.core.model.author import Author, AuthorKind
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import Decision, EvictPod, PatchReplicaSet
from rollouts.core.model.rollout import BlueGreen, Canary, Strategy
from rollouts.core.model.snapshot import Snapshot
from rollouts.core.model.status import Command, RolloutStatus, Verb
from rollouts.core.model.steps import Analyze, RunExperiment, SetWeight
from tests.core.measured_runs import runs_measured
from tests.core.model import snapshot
from tests.core.worlds import edited, running, settled
from tests.invariants.analyses import FORGED
from tests.invariants.beginnings import no_pod_comes_before_its_gate
from tests.invariants.every import broken_by

CHECK = Analysis(path="spec.strategy.canary.analysis", settings={}, templates=("success-rate",))
AT_STEP = Canary(steps=(SetWeight(50), Analyze(CHECK), SetWeight(75)))
IN_BACKGROUND = Canary(steps=(SetWeight(50),), analysis=CHECK)
BEFORE = BlueGreen(active_service="cart", pre_promotion=CHECK)
AFTER = BlueGreen(active_service="cart", post_promotion=CHECK)
STEP_BACK = Analysis(path="", settings={}, templates=("success-rate",), on_failure=OnFailure.STEP_BACK)
BACK = Canary(steps=(SetWeight(25), SetWeight(50), Analyze(STEP_BACK)))
TRIED = Canary(steps=(RunExperiment(CHECK), SetWeight(50)))
GOOD, BAD = AnalysisPhase.SUCCESSFUL, AnalysisPhase.FAILED


def _waiting(strategy: Strategy, phase: AnalysisPhase | None = None) -> Snapshot:
    """Revision b waits for a verdict, or its run has just ended so."""
    there = settled(edited(replace(running(strategy), unmeasured=True), revision="b"))
    return snapshot(there if phase is None else runs_measured(there, phase))


def _rules(seen: Snapshot, after: RolloutStatus, *intents: EvictPod) -> set[str]:
    return {each.rule for each in broken_by(seen, Decision(status=after, intents=intents))}


def _judged(seen: Snapshot, phase: AnalysisPhase, **changes: object) -> tuple[AnalysisRecord, ...]:
    return tuple(replace(each, phase=phase, message="it is so", **changes) for each in seen.status.analyses)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("strategy", "changes"),
    [
        *((strategy, {"stable_revision": "b"}) for strategy in (IN_BACKGROUND, BEFORE, AFTER)),
        (BEFORE, {"gate_passed": True}),
        (AT_STEP, {"step_index": 2}),
        (TRIED, {"step_index": 1}),
    ],
    ids=[
        "promotion in the background",
        "before the gate",
        "after it",
        "the gate",
        "the step that is the analysis",
        "that is an experiment",
    ],
)
def test_s7_what_goes_on_before_the_verdict(strategy: Strategy, changes: dict[str, object]) -> None:
    """The run exists, and says nothing yet."""
    seen = _waiting(strategy)

    assert "S7" in _rules(seen, replace(seen.status, **changes))  # type: ignore[arg-type]


@pytest.mark.parametrize("phase", [None, BAD])
def test_s7_a_success_that_its_run_does_not_show(phase: AnalysisPhase | None) -> None:
    """A run that goes on, and one that failed."""
    seen = _waiting(AT_STEP, phase)

    assert "S7" in _rules(seen, replace(seen.status, analyses=_judged(seen, GOOD)))


def test_s7_a_verdict_of_a_run_that_is_another_one() -> None:
    """Of another revision (argo-rollouts issue 721), or forged: it has the name that is on record, and another uid, another spec,
    or a spec that was edited and edited back."""
    seen = _waiting(AT_STEP, GOOD)
    judged = replace(seen.status, analyses=_judged(seen, GOOD))
    assert "S7" not in _rules(seen, judged)

    for forged in ({"revision": "a"}, {"uid": FORGED}, {"spec_hash": FORGED}, {"generation": 3}):
        runs = tuple(replace(each, **forged) for each in seen.runs)
        assert "S7" in _rules(replace(seen, runs=runs), judged), forged


def test_s7_a_verdict_that_changes() -> None:
    """What was acted on stays."""
    seen = _waiting(AT_STEP, BAD)
    seen = replace(seen, status=replace(seen.status, analyses=_judged(seen, BAD)))

    assert "S7" in _rules(seen, replace(seen.status, analyses=_judged(seen, GOOD)))


def test_s7_a_verdict_that_nobody_promoted_the_revision_past() -> None:
    """An inconclusive run is no success, however long it waits."""
    seen = _waiting(AT_STEP, AnalysisPhase.INCONCLUSIVE)
    seen = replace(seen, status=replace(seen.status, analyses=_judged(seen, AnalysisPhase.INCONCLUSIVE)))

    passed = _judged(seen, AnalysisPhase.INCONCLUSIVE, passed=True)
    assert "S7" in _rules(seen, replace(seen.status, analyses=passed))


def _unjudged(seen: Snapshot, *, step: int = 1, by: str = "somebody", unjudged: bool = True) -> RolloutStatus:
    """The status in which such a promotion was accepted, and the analysis of step 1 is passed while it measures."""
    kind, author = AnalysisKind.STEP, Author(by, AuthorKind.USER)
    command = Command(
        Verb.PROMOTE, f"b@skip-{step}", "b", seen.now_s, step=step, analysis=kind, by=author, unjudged=unjudged
    )
    message = "passed without a verdict (by somebody)"
    passed = tuple(replace(each, passed=True, message=message) for each in seen.status.analyses)
    return replace(seen.status, commands=(command,), analyses=passed)


def test_s7_an_analysis_that_is_passed_while_it_measures() -> None:
    """A person may do that by name. Planted: nobody did, it was another step, somebody else, past a verdict; a silent record."""
    seen = _waiting(AT_STEP)
    allowed = _unjudged(seen)
    assert "S7" not in _rules(seen, allowed)

    silent = tuple(replace(each, message="") for each in allowed.analyses)
    assert "S7" in _rules(seen, replace(allowed, commands=()))
    assert "S7" in _rules(seen, _unjudged(seen, step=0))
    assert "S7" in _rules(seen, _unjudged(seen, by="somebody else"))
    assert "S7" in _rules(seen, _unjudged(seen, unjudged=False))
    assert "S7" in _rules(seen, replace(allowed, analyses=silent))


def test_s7_a_verdict_of_a_run_that_was_passed_without_one() -> None:
    """Its run failed a moment later: the record says what the person knew."""
    seen = _waiting(AT_STEP, BAD)
    seen = replace(seen, status=_unjudged(seen))

    assert "S7" in _rules(seen, replace(seen.status, analyses=_judged(seen, BAD)))


def test_s7_a_pod_before_its_gate() -> None:
    """Planted: the first pods while the gate measures, after it has failed, and by the success of an earlier attempt."""
    seen = _waiting(replace(IN_BACKGROUND, analysis=None, before_update=CHECK))
    stable = next(each for each in seen.replica_sets if each.revision == "a")
    seen = replace(
        seen, replica_sets=(stable, replace(stable, name="cart-b", uid="rs-b", revision="b", spec_replicas=0))
    )
    grow = PatchReplicaSet(name="cart-b", uid="rs-b", revision="b", replicas=1)
    good = replace(seen, status=replace(seen.status, analyses=_judged(seen, GOOD)))

    def caught(there: Snapshot, **after: object) -> bool:
        status = replace(there.status, **after)  # type: ignore[arg-type]
        return any("before its gate" in each.message for each in no_pod_comes_before_its_gate(there, grow, status))

    assert not caught(good)
    assert caught(seen)
    assert caught(replace(seen, status=replace(seen.status, analyses=_judged(seen, BAD))))
    assert caught(good, attempt=good.status.attempt + 1)


def test_s7_a_weight_before_its_verdict() -> None:
    """Planted: the weight rises while its analysis measures, and its step is passed; a success on record allows both."""
    seen = _waiting(Canary(steps=(SetWeight(25, CHECK), SetWeight(50))))
    good = replace(seen, status=replace(seen.status, analyses=_judged(seen, GOOD)))
    for changes in ({"weight_percent": 25}, {"step_index": 1}):
        assert "S7" in _rules(seen, replace(seen.status, **changes))  # type: ignore[arg-type]
        assert "S7" not in _rules(good, replace(good.status, **changes))  # type: ignore[arg-type]


def test_s7_a_gate_that_is_given_up_before_its_deadline() -> None:
    """Its run may still succeed; and one without a deadline is never given up."""
    endless = _waiting(AT_STEP)
    limited = replace(AT_STEP, steps=(SetWeight(50), Analyze(replace(CHECK, deadline_s=60.0)), SetWeight(75)))
    spec = replace(endless.rollout.spec, strategy=limited)
    seen = replace(endless, rollout=replace(endless.rollout, spec=spec))
    given_up = tuple(
        replace(each, phase=AnalysisPhase.INCONCLUSIVE, message="no verdict within 60 s")
        for each in seen.status.analyses
    )
    due = replace(seen, now_s=seen.status.analyses[0].at_s + 60.0)

    assert "S7" not in _rules(due, replace(due.status, analyses=given_up))
    assert "S7" in _rules(replace(due, now_s=due.now_s - 1), replace(due.status, analyses=given_up))
    assert "S7" in _rules(replace(endless, now_s=due.now_s), replace(endless.status, analyses=given_up))


@pytest.mark.parametrize("phase", [BAD, AnalysisPhase.ERROR])
def test_s7_an_update_that_goes_on_after_a_bad_experiment(phase: AnalysisPhase) -> None:
    """Nobody judges it again."""
    seen = _waiting(TRIED, phase)

    assert "S7" in _rules(seen, replace(seen.status, analyses=_judged(seen, phase)))


def test_s10_a_verdict_that_is_not_written_alone() -> None:
    """A crash between the two would leave acts without their reason; so it is with an analysis that somebody passes."""
    act = EvictPod(name="cart-a-1", uid="pod-1")
    judged, passed = _waiting(AT_STEP, GOOD), _waiting(AT_STEP)

    assert "S10" in _rules(judged, replace(judged.status, analyses=_judged(judged, GOOD)), act)
    assert "S10" in _rules(passed, _unjudged(passed), act)


def _held_back() -> Snapshot:
    """A failure has taken revision b back from 50 % to 25 %."""
    there = settled(edited(replace(running(BACK), unmeasured=True), revision="b"))
    return snapshot(settled(runs_measured(there, BAD)))


@pytest.mark.parametrize("percent", [None, 50, 0])
def test_s7_a_failure_that_goes_back_to_another_weight(percent: int | None) -> None:
    """Nowhere, to the weight that has failed, and further than asked."""
    seen = _waiting(BACK, BAD)

    after = replace(seen.status, analyses=_judged(seen, BAD, back_to_percent=percent), step_index=1)
    assert "S7" in _rules(seen, after)


def test_s7_a_failure_that_goes_back_though_the_spec_aborts() -> None:
    """Only `onFailure: stepBack` says so."""
    seen = _waiting(AT_STEP, BAD)

    assert "S7" in _rules(seen, replace(seen.status, analyses=_judged(seen, BAD, back_to_percent=0), step_index=0))


@pytest.mark.parametrize(
    "changes",
    [{"weight_percent": 50}, {"step_index": 2}, {"analyses": ()}, {"attempt": 1}, {"attempt": 1, "analyses": ()}],
)
def test_s7_an_update_that_goes_on_after_a_step_back_and_nobody_says_so(changes: dict[str, object]) -> None:
    """The weight, the step, the verdict that holds it, and the attempt stay until a person acts."""
    seen = _held_back()
    assert (seen.status.weight_percent, seen.status.step_index) == (25, 1)

    assert "S7" in _rules(seen, replace(seen.status, **changes))  # type: ignore[arg-type]
