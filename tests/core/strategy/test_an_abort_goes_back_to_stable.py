"""Promise: an aborted revision goes, the stable one serves, and it stays so until somebody says otherwise."""

from __future__ import annotations

import pytest

from rollouts.core.decide import TELLS_AFTER_S, decide
from rollouts.core.model.author import Author, AuthorKind
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import PatchReplicaSet, RemoveAnnotation
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import Canary, TrafficRouting
from rollouts.core.model.status import Outcome, Phase, Verb
from rollouts.core.model.steps import PauseUntilPromoted, SetWeight
from tests.core.model import annotated, snapshot
from tests.core.updates import condition, pods_there, updating
from tests.core.worlds import edited, later, one, reconciled, running, settled, sizes

HALF = Canary(steps=(SetWeight(50), PauseUntilPromoted()))


@pytest.mark.parametrize("value", ["true", "b"])
def test_an_abort_is_durable_before_anything_is_taken_from_the_canary(value: str) -> None:
    """A crash must not forget it; only more stable pods, which are safe on either side of the record, come before it."""
    there = annotated(updating(HALF), "abort", value)

    decision = decide(snapshot(there))  # pods take longest: they start while all else is written

    patches = [each for each in decision.intents if isinstance(each, PatchReplicaSet)]
    assert [(each.revision, each.replicas) for each in patches] == [("a", 3)]
    assert len(decision.intents) == 1
    if value == "true":  # bound to what status shows, by a pass of its own; the write that grows stable is its record
        assert (decision.status, patches[0].abort_note is not None) == (there.status, True)
        decision = decide(snapshot(later(reconciled(there), 0.1)))
        assert isinstance(decision.intents[-1], RemoveAnnotation)
    assert decision.status.abort is not None
    assert decision.status.abort.revision == "b"


def test_the_pass_after_the_abort_already_scales() -> None:
    """From the annotation to the canary on its way out are two passes."""
    there = reconciled(annotated(updating(HALF), "abort", "b"))

    patches = [each for each in decide(snapshot(there)).intents if isinstance(each, PatchReplicaSet)]

    assert [(each.revision, each.replicas) for each in patches] == [("b", 1)]


def test_an_abort_that_was_accepted_outlives_its_annotation_and_the_controller() -> None:
    """The note on the ReplicaSet is the record: a `true` that goes, and a controller that dies, lose nothing."""
    noted = reconciled(annotated(updating(HALF), "abort", "true"))

    there = settled(annotated(noted, "abort", None))

    assert (there.status.phase, sizes(there)) == (Phase.ABORTED, {"a": 4})
    assert [(each.verb, each.value, each.over, each.refusal) for each in there.status.commands] == [
        (Verb.ABORT, "true", True, None)
    ]


@pytest.mark.parametrize(
    ("stands", "told"),
    [(True, Author("alice", AuthorKind.USER)), (False, Author("alice", AuthorKind.NOTE))],
    ids=["the annotation stands", "it was taken off"],
)
def test_the_note_of_an_abort_names_a_user_and_does_not_vouch_for_it(stands: bool, told: Author) -> None:
    """Whoever may write ReplicaSets can write a note with any name; only the API server's own word is a user's name."""
    there = annotated(updating(HALF), "abort", "true")
    there = replace(there, rollout=replace(there.rollout, annotated_by={"abort": Author("alice", AuthorKind.USER)}))
    there = reconciled(there)
    if not stands:
        there = annotated(there, "abort", None)
        there = replace(there, rollout=replace(there.rollout, annotated_by={}))

    there = settled(there)

    assert [each.by for each in there.status.commands if each.verb is Verb.ABORT] == [told]
    assert there.status.abort is not None
    assert f"(by {told})" in there.status.abort.message


def test_a_note_of_an_abort_says_nothing_about_another_attempt_list_of_steps_or_update() -> None:
    """The ReplicaSet keeps it; what comes later is not aborted by it."""
    aborted = later(settled(annotated(updating(HALF), "abort", "true")), 1)
    assert any(each.abort_note for each in aborted.replica_sets)

    again = settled(annotated(aborted, "retry", "true"))
    assert (again.status.phase, again.status.attempt, again.status.abort) == (Phase.PAUSED, 1, None)
    other = settled(edited(aborted, strategy=replace(HALF, steps=(SetWeight(25), PauseUntilPromoted()))))
    assert (other.status.phase, other.status.abort) == (Phase.PAUSED, None)
    back = settled(edited(aborted, revision="a"))
    forth = settled(edited(back, revision="b"))
    assert (back.status.phase, forth.status.phase, forth.status.abort) == (Phase.HEALTHY, Phase.PAUSED, None)


def test_a_note_of_an_abort_counts_on_the_stable_replica_set_alone() -> None:
    """There the abort writes it, with the pods that come back; on another set it is nobody's record."""
    there = annotated(reconciled(annotated(updating(HALF), "abort", "true")), "abort", None)
    note = one(there, "a").abort_note
    sets = [replace(each, abort_note=note if each.revision == "b" else None) for each in there.replica_sets]

    there = settled(replace(there, replica_sets=tuple(sets)))

    assert note is not None
    assert (there.status.phase, there.status.commands) == (Phase.PAUSED, ())


def test_an_abort_on_record_is_told_with_what_it_does() -> None:
    """Pods start meanwhile, and a write more would only delay them; it is told after a quarter of a second at the latest."""
    strategy = Canary(steps=(SetWeight(50), PauseUntilPromoted()), max_surge=1, max_unavailable=0)
    recorded = reconciled(annotated(updating(strategy), "abort", "true"))  # stable is to grow, and has not yet

    waits = decide(snapshot(recorded))

    assert (waits.intents, waits.status) == ((), recorded.status)
    assert waits.requeue_at_s == pytest.approx(recorded.now_s + TELLS_AFTER_S)
    assert decide(snapshot(later(recorded, TELLS_AFTER_S))).status.abort is not None
    there = pods_there(recorded)
    acts = decide(snapshot(there))
    assert [type(each) for each in acts.intents] == [PatchReplicaSet, RemoveAnnotation]
    assert acts.status.abort is not None


@pytest.mark.parametrize("value", ["true", "b"])
def test_the_stable_revision_has_every_pod_again(value: str) -> None:
    """Phase Aborted, with the reason. A named abort is declarative: what Git says holds, and no longer."""
    there = settled(annotated(updating(HALF), "abort", value))

    assert (sizes(there), there.status.phase, there.status.weight_percent) == ({"a": 4}, Phase.ABORTED, 0)
    assert "aborted by annotation" in there.status.message
    assert {each.type for each in there.status.conditions if each.status} >= {"Aborted", "Stalled"}

    there = settled(annotated(there, "abort", None))
    if value == "true":
        assert there.status.phase is Phase.ABORTED
        return

    assert (there.status.phase, there.status.attempt, sizes(there)) == (Phase.PAUSED, 1, {"a": 2, "b": 2})


def test_a_named_abort_may_stand_before_its_revision_comes() -> None:
    """GitOps applies annotation and template in any order; a revision that is held back starts nothing."""
    there = annotated(edited(updating(HALF), revision="c"), "abort", "c")

    there = settled(there)

    assert (there.status.phase, there.status.current_revision, sizes(there)) == (Phase.ABORTED, "c", {"a": 4})


def test_a_new_revision_ends_an_abort() -> None:
    """The fix of a bad release must not need a verb; the annotation that names the bad one may stay."""
    there = settled(annotated(updating(HALF), "abort", "b"))

    there = settled(annotated(settled(edited(there, revision="c")), "promote", "c"))

    assert (there.status.phase, there.status.stable_revision) == (Phase.HEALTHY, "c")
    assert [each.outcome for each in there.status.history][-2:] == [Outcome.ABORTED, Outcome.PROMOTED]


@pytest.mark.parametrize("value", ["true", "b@1"])
def test_a_retry_starts_at_the_first_step_again(value: str) -> None:
    """The n-th attempt: named by its number it stays harmless in Git."""
    there = settled(annotated(updating(HALF), "abort", "true"))

    there = settled(annotated(there, "retry", value))

    assert (there.status.phase, there.status.attempt, sizes(there)) == (Phase.PAUSED, 1, {"a": 2, "b": 2})
    there = settled(annotated(there, "abort", "true"))
    assert (there.status.phase, there.status.attempt) == (Phase.ABORTED, 1)


def test_a_stable_revision_is_not_aborted() -> None:
    """There is nothing to go back to; the message says what to do instead."""
    there = settled(annotated(running(HALF), "abort", "a"))

    problem = condition(there, "InvalidCommand")
    assert problem.reason is Reason.COMMAND_INVALID
    assert "use rollback" in problem.message
    assert there.status.phase is Phase.HEALTHY


def test_abort_scale_down_delay_seconds_keep_a_routed_canary_for_a_while() -> None:
    """`abortScaleDownDelaySeconds`: requests under way end first."""
    there = updating(replace(HALF, traffic_routing=TrafficRouting(), abort_scale_down_delay_s=30))

    there = settled(annotated(there, "abort", "b"), seconds=29)
    assert sizes(there) == {"a": 4, "b": 2}

    assert sizes(settled(later(there, 2))) == {"a": 4}
