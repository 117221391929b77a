"""Promise: no pod of a revision exists before its `beforeUpdate` has passed: by its own evidence, or by a person who names it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rollouts.core.decide import decide
from rollouts.core.model.analysis import Analysis, AnalysisGate, AnalysisKind, AnalysisPhase, OnDeadline, OnFailure
from rollouts.core.model.author import Author, AuthorKind
from rollouts.core.model.frozen import replace
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import BlueGreen, Canary, Strategy
from rollouts.core.model.status import Phase, analysis_of
from rollouts.core.model.steps import Analyze, PauseUntilPromoted, SetWeight
from rollouts.core.model.workload_ref import Hold
from tests.core import daemonsets
from tests.core.deployments import deployed, template_changed
from tests.core.measured_runs import runs_measured
from tests.core.model import World, annotated, snapshot
from tests.core.stateful_sets import new_template, stateful
from tests.core.updates import measuring, routed, updating, waiting, waits_for
from tests.core.worlds import edited, later, reconciled, running, settled, sizes, steps_of

GATE = AnalysisGate(AnalysisKind.BEFORE_UPDATE)
DEADLINE_S = 600.0
CHECK = Analysis(path="spec.strategy.canary.beforeUpdate", settings={}, templates=("approved",))
BY_RATIO = Canary(steps=(SetWeight(50), PauseUntilPromoted()), before_update=CHECK)
STRATEGIES: dict[str, Strategy] = {
    "by ratio": BY_RATIO,
    "by routes": routed(SetWeight(50), PauseUntilPromoted(), before_update=CHECK),
    "blue-green": BlueGreen(active_service="cart", auto_promotion_enabled=False, before_update=CHECK),
}
GOOD, BAD = AnalysisPhase.SUCCESSFUL, AnalysisPhase.FAILED
ALICE = Author("alice@example.com", AuthorKind.USER)
of_each_strategy = pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)


def _limited(strategy: Strategy, policy: OnDeadline = OnDeadline.HOLD) -> World:
    """The update to `b` a second after it has begun to wait for a gate with a deadline."""
    there = replace(running(_with_analysis(strategy, deadline_s=DEADLINE_S, on_deadline=policy)), unmeasured=True)
    return settled(edited(there, revision="b", progress_deadline_abort=True, progress_deadline_s=60), seconds=1)


def _gated(there: World) -> bool:
    """Whether the update to `b` or `c` stands before its gate, and nothing of it exists."""
    names = {each.revision for each in there.replica_sets} | {each.revision for each in there.pods}
    return names == {"a"} and there.status.step_index == 0 and waits_for(there) is Reason.ANALYSIS_RUNNING


def _with_analysis(strategy: Strategy, **changes: Any) -> Strategy:
    return replace(strategy, before_update=replace(CHECK, **changes))


@of_each_strategy
def test_a_closed_gate_keeps_the_update_from_beginning_and_says_until_when(strategy: Strategy) -> None:
    """Not even a ReplicaSet is made, Flagger's confirm-rollout; and the wait is no failure to make progress."""
    there = _limited(strategy)
    (run,) = there.runs
    assert (run.gate, run.revision) == (GATE, "b")
    assert _gated(there)
    assert "before-update analysis" in waiting(there).message
    assert "without a verdict within 600 s the update waits for a person" in waiting(there).message

    there = settled(there, seconds=DEADLINE_S - 100)

    assert _gated(there)
    record = analysis_of(there.status, GATE)
    assert record is not None
    assert waiting(there).deadline_s == record.at_s + DEADLINE_S
    assert decide(snapshot(there)).requeue_at_s == record.at_s + DEADLINE_S
    assert sizes(there) == {"a": 4}


@of_each_strategy
def test_a_success_opens_it(strategy: Strategy) -> None:
    """The update then begins by itself, and the verdict stays on record."""
    there = settled(runs_measured(measuring(strategy), GOOD))

    assert there.status.phase is Phase.PAUSED
    assert sizes(there)["b"] > 0
    assert [(each.gate, each.phase) for each in there.status.analyses] == [(GATE, GOOD)]
    done = settled(annotated(there, "promote", "true"))
    assert (done.status.phase, done.status.stable_revision) == (Phase.HEALTHY, "b")


@of_each_strategy
def test_a_refusal_aborts_or_holds_and_no_pod_is_made(strategy: Strategy) -> None:
    """A refusal that aborts needs a retry, which asks the gate again; one that holds needs a person."""
    aborted = settled(runs_measured(measuring(strategy), BAD))
    assert (aborted.status.phase, sizes(aborted)) == (Phase.ABORTED, {"a": 4})
    again = settled(annotated(aborted, "retry", "true"))
    assert _gated(again)
    assert len([each for each in again.runs if not each.phase.over]) == 1

    held = settled(runs_measured(measuring(_with_analysis(strategy, on_failure=OnFailure.HOLD)), BAD), seconds=86_400)
    assert (waits_for(held), sizes(held)) == (Reason.ANALYSIS_INCONCLUSIVE, {"a": 4})
    assert "rollouts promote cart -n shop" in waiting(held).message
    passed = settled(annotated(held, "promote", "b@before-update", by=ALICE))
    assert sizes(passed)["b"] > 0
    assert [each.passed for each in passed.status.analyses] == [True]
    assert passed.status.phase is Phase.PAUSED, "it passes no pause"


@pytest.mark.parametrize("policy", OnDeadline)
@of_each_strategy
def test_a_gate_that_never_answers_ends_by_its_policy(strategy: Strategy, policy: OnDeadline) -> None:
    """At its deadline, not before; and an answer that comes late opens nothing, as the verdict is on record."""
    there = _limited(strategy, policy)
    record = analysis_of(there.status, GATE)
    assert record is not None
    due_s = record.at_s + DEADLINE_S

    early = settled(replace(there, now_s=due_s - 0.5), seconds=0.1)
    assert _gated(early)
    there = settled(replace(there, now_s=due_s), seconds=60)

    ended = analysis_of(there.status, GATE)
    assert sizes(there) == {"a": 4}
    if policy is OnDeadline.ABORT:
        assert there.status.abort is not None
        assert (there.status.abort.at_s, there.status.phase) == (due_s, Phase.ABORTED)
        assert "no verdict within 600 s" in there.status.abort.message
    else:
        assert ended is not None
        assert (ended.phase, ended.at_s) == (AnalysisPhase.INCONCLUSIVE, due_s)
        assert waits_for(there) is Reason.ANALYSIS_INCONCLUSIVE
    assert all(each.terminate or each.phase.over for each in there.runs)
    assert sizes(settled(runs_measured(there, GOOD))) == {"a": 4}


WAITED_FOR: dict[str, Callable[[Analysis], Strategy]] = {
    "a step": lambda check: Canary(steps=(SetWeight(50), Analyze(check), SetWeight(75))),
    "before the switch": lambda check: BlueGreen(
        active_service="cart", preview_service="cart-preview", pre_promotion=check
    ),
    "after the switch": lambda check: BlueGreen(active_service="cart", post_promotion=check),
}


@pytest.mark.parametrize("policy", OnDeadline)
@pytest.mark.parametrize("place", WAITED_FOR)
def test_every_analysis_that_an_update_waits_for_may_have_a_deadline(place: str, policy: OnDeadline) -> None:
    """It ends by its policy there too, and never by going on."""
    strategy = WAITED_FOR[place](replace(CHECK, deadline_s=DEADLINE_S, on_deadline=policy))
    there = settled(edited(replace(running(strategy), unmeasured=True), revision="b"), seconds=DEADLINE_S - 1)
    assert waits_for(there) is Reason.ANALYSIS_RUNNING

    there = settled(there, seconds=120)

    assert there.status.stable_revision == "a"
    assert there.status.phase is (Phase.ABORTED if policy is OnDeadline.ABORT else Phase.PAUSED)
    if policy is OnDeadline.HOLD:
        assert settled(annotated(there, "promote", "true")).status.stable_revision == "b"


def test_a_run_that_somebody_deletes_moves_no_deadline() -> None:
    """Otherwise whoever may delete runs keeps a gate closed for ever, and nobody is told."""
    there = _limited(BY_RATIO)
    began_s = there.status.analyses[0].at_s

    there = settled(later(replace(there, runs=()), 300.0), seconds=60)

    assert [each.at_s for each in there.status.analyses] == [began_s]
    assert waiting(there).deadline_s == began_s + DEADLINE_S


@of_each_strategy
def test_a_newer_template_has_a_gate_of_its_own(strategy: Strategy) -> None:
    """A success for `b` is no success for `c`, and comes back to none for `b` when that is the template again."""
    there = settled(edited(measuring(strategy), revision="c"))
    old, new = there.runs
    assert (old.revision, new.revision, old.terminate) == ("b", "c", True)

    there = settled(runs_measured(there, GOOD, limit=1))
    assert _gated(there)

    there = settled(edited(there, revision="b"))
    assert _gated(there)
    assert [each.revision for each in there.runs if not (each.phase.over or each.terminate)] == ["b"]


@of_each_strategy
def test_a_person_passes_it_without_a_verdict_by_its_name(strategy: Strategy) -> None:
    """Who did it is on record; a plain promotion passes nothing, and says what does."""
    there = settled(annotated(measuring(strategy), "promote", "true"))
    assert _gated(there)
    assert any("b@skip-before-update" in each.refusal.message for each in there.status.commands if each.refusal)

    there = settled(annotated(measuring(strategy), "promote", "b@skip-before-update", by=ALICE))

    record = analysis_of(there.status, GATE)
    assert record is not None
    assert record.message == "passed without a verdict (by alice@example.com)"
    assert sizes(there)["b"] > 0
    assert settled(annotated(measuring(strategy), "promote", "b@full")).status.stable_revision == "b"


@of_each_strategy
def test_nothing_waits_for_it_where_nothing_is_analysed(strategy: Strategy) -> None:
    """The first revision has nothing to protect; and the way back within `rollbackWindow` is never closed."""
    assert running(strategy).status.phase is Phase.HEALTHY
    there = settled(edited(later(running(strategy, rollback_window_revisions=1), 60.0), revision="b"))
    there = settled(annotated(there, "promote", "b@full"))
    assert there.status.stable_revision == "b"

    back = settled(edited(replace(there, unmeasured=True), revision="a"))

    assert (back.status.stable_revision, [each.revision for each in back.runs]) == ("a", ["b"])


def test_pods_that_somebody_makes_by_hand_open_nothing() -> None:
    """A ReplicaSet of an earlier update can be scaled by whoever may scale it."""
    there = settled(annotated(updating(BY_RATIO), "promote", "true"))
    there = settled(edited(replace(there, unmeasured=True), revision="a"))
    assert waits_for(there) is Reason.ANALYSIS_RUNNING
    by_hand = tuple(replace(each, spec_replicas=2) if each.revision == "a" else each for each in there.replica_sets)

    there = settled(replace(there, replica_sets=by_hand), seconds=120)

    assert (sizes(there), there.status.step_index) == ({"b": 4}, 0)
    assert waits_for(there) is Reason.ANALYSIS_RUNNING


def test_without_replicas_the_gate_is_asked_all_the_same() -> None:
    """It measures no pods; only what does waits for them."""
    there = settled(edited(replace(running(BY_RATIO, replicas=0), unmeasured=True), revision="b"))
    assert [each.gate for each in there.runs] == [GATE]

    assert _gated(there)
    assert settled(runs_measured(there, GOOD)).status.analyses[0].phase is GOOD


def test_a_paused_rollout_asks_no_gate() -> None:
    """Its deadline would pass while nobody wants the update."""
    there = replace(running(BY_RATIO), unmeasured=True)
    there = settled(annotated(edited(there, revision="b"), "pause", "true"))
    assert there.runs == ()
    assert {each.revision for each in there.replica_sets} == {"a"}

    assert _gated(settled(annotated(there, "pause", None)))


def test_each_write_of_the_way_to_the_gate_is_safe_alone() -> None:
    """A controller that ends after any of its writes leaves what the next one goes on from: one run, and no pod."""
    begun = edited(replace(running(BY_RATIO), unmeasured=True), revision="b")
    for passes in range(1, 5):
        for writes in range(4):
            there = begun
            for _ in range(passes):
                there = reconciled(there)
            there = settled(reconciled(there, writes=writes))
            assert _gated(there)
            assert len(there.runs) == 1


def _in_place(there: World) -> World:
    """The same world when its workload has rolled its first revision out, and nobody measures."""
    return replace(settled(there), unmeasured=True)


@pytest.mark.parametrize("policy", [True, False], ids=["held by the policy", "paused between updates"])
def test_a_deployment_in_place_stays_paused_until_its_gate_has_passed(policy: bool) -> None:
    """Its template is there already, and its own controller would roll it out."""
    there = _in_place(deployed(BY_RATIO, hold=Hold.POLICY if policy else Hold.AT_REST))
    there = settled(template_changed(there, "b", policy=policy), seconds=3_600)
    assert there.workload is not None and there.workload.deployment is not None
    assert there.workload.deployment.paused
    assert (sizes(there), waits_for(there)) == ({"a": 4}, Reason.ANALYSIS_RUNNING)
    assert [each.gate for each in there.runs] == [GATE]

    assert sizes(settled(runs_measured(there, GOOD)))["b"] > 0


def test_a_stateful_set_in_place_keeps_its_pods_until_its_gate_has_passed() -> None:
    """Its partition stays above every pod."""
    there = _in_place(stateful(replace(BY_RATIO, steps=(SetWeight(50), PauseUntilPromoted()))))
    there = settled(new_template(there, "b"), seconds=3_600)
    assert {each.revision for each in there.pods} == {"a"}
    assert waits_for(there) is Reason.ANALYSIS_RUNNING

    assert {each.revision for each in settled(runs_measured(there, GOOD)).pods} == {"a", "b"}


def _at_its_nodes(there: daemonsets.Nodes) -> Reason | None:
    """What the update waits for; its nodes have the pods of before, and nothing of ours has deleted one."""
    assert (set(daemonsets.runs(there)), there.deleted) == ({"a"}, ())
    return there.status.waiting_for.reason if there.status.waiting_for is not None else None


@pytest.mark.parametrize("hold", [Hold.POLICY, Hold.AT_REST])
def test_a_daemon_set_in_place_keeps_its_pods_until_its_gate_has_passed(hold: Hold) -> None:
    """Its type stays OnDelete, and no pod is deleted, however long the gate is closed."""
    there = replace(daemonsets.settled(daemonsets.daemons(BY_RATIO, hold=hold)), unmeasured=True)
    there = daemonsets.settled(daemonsets.template_changed(there, "b"))
    there = daemonsets.settled(daemonsets.later(there, 3_600.0))
    assert _at_its_nodes(there) is Reason.ANALYSIS_RUNNING
    assert there.on_delete
    assert [each.gate for each in there.runs] == [GATE]

    refused = daemonsets.settled(daemonsets.measured(there, BAD))
    assert refused.status.phase is Phase.ABORTED
    _at_its_nodes(refused)
    passed = daemonsets.settled(daemonsets.measured(there, GOOD))
    assert (daemonsets.runs(passed), passed.status.phase) == ({"a": 3, "b": 3}, Phase.PAUSED)


@of_each_strategy
def test_a_retry_asks_again_although_pods_run(strategy: Strategy) -> None:
    """An answer of yesterday opens nothing today, as in Flagger. Until the next one comes the revision gets no pod."""
    there = settled(runs_measured(measuring(strategy), GOOD))
    assert sizes(there)["b"] > 0
    there = annotated(there, "abort", "true")
    there = next(each for each in steps_of(there, until_s=there.now_s + 1) if each.status.abort is not None)
    assert sizes(there)["b"] > 0

    there = settled(annotated(annotated(there, "abort", None), "retry", "true"))

    assert (there.status.attempt, there.status.phase) == (1, Phase.PROGRESSING)
    assert waits_for(there) is Reason.ANALYSIS_RUNNING
    assert [(each.gate, each.phase) for each in there.status.analyses] == [(GATE, AnalysisPhase.PENDING)]
    assert sizes(there).get("b", 0) == 0
    assert settled(runs_measured(there, GOOD)).status.phase is Phase.PAUSED


@of_each_strategy
def test_the_revision_before_last_asks_again_although_pods_run(strategy: Strategy) -> None:
    """It is another update: nobody has asked for it since the last one."""
    there = settled(runs_measured(measuring(strategy), GOOD))
    there = reconciled(edited(there, revision="c"))
    there = settled(edited(there, revision="b"))

    assert (there.status.current_revision, waits_for(there)) == ("b", Reason.ANALYSIS_RUNNING)
    assert settled(runs_measured(there, GOOD)).status.phase is Phase.PAUSED


def test_other_steps_ask_no_gate_again_that_has_passed() -> None:
    """They would take the traffic away from pods that serve."""
    there = settled(runs_measured(measuring(BY_RATIO), GOOD))
    before = there.status.analyses

    there = settled(edited(there, strategy=replace(BY_RATIO, steps=(SetWeight(75), PauseUntilPromoted()))))

    assert (there.status.phase, sizes(there)["b"], there.status.analyses) == (Phase.PAUSED, 3, before)


def test_a_node_that_joins_before_the_gate_opens_nothing() -> None:
    """It has the newest revision, as its DaemonSet makes nothing else; nobody has let the update begin."""
    there = replace(daemonsets.settled(daemonsets.daemons(BY_RATIO)), unmeasured=True)
    there = daemonsets.joined(daemonsets.template_changed(there, "b"), 7)
    there = daemonsets.settled(there)

    assert (daemonsets.runs(there), there.deleted) == ({"a": 6, "b": 1}, ())
    assert [each.gate for each in there.runs] == [GATE]
    refused = daemonsets.settled(daemonsets.measured(there, BAD))
    again = daemonsets.settled(daemonsets.annotated(refused, "retry", "true"))
    assert (daemonsets.runs(again), again.deleted, again.status.attempt) == ({"a": 6, "b": 1}, (), 1)
    assert [each.phase.over for each in again.runs] == [True, False]


def test_pods_of_an_update_that_was_replaced_stay_on_their_nodes() -> None:
    """A node that loses its pod would get one of the newest revision, which nobody has allowed yet."""
    there = replace(daemonsets.settled(daemonsets.daemons(BY_RATIO)), unmeasured=True)
    there = daemonsets.settled(daemonsets.template_changed(there, "b"))
    there = daemonsets.settled(daemonsets.measured(there, GOOD))
    assert daemonsets.runs(there) == {"a": 3, "b": 3}

    there = daemonsets.settled(daemonsets.template_changed(there, "c"))

    assert (there.status.current_revision, daemonsets.runs(there)) == ("c", {"a": 3, "b": 3})
    assert daemonsets.runs(daemonsets.settled(daemonsets.measured(there, GOOD))) == {"a": 3, "c": 3}
