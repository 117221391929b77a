"""Promise: a command acts once, on what status showed when it was given, or it is refused; it waits for no later occasion."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rollouts.core.lifecycle.commands import REMOVED_AFTER_S, remove_annotations
from rollouts.core.lifecycle.verbs import NOW
from rollouts.core.model.author import Author, AuthorKind
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import RemoveAnnotation
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import Canary
from rollouts.core.model.status import Command, Phase, Verb
from rollouts.core.model.steps import PauseUntilPromoted, SetWeight
from tests.core.model import World, annotated, snapshot, world
from tests.core.updates import condition, said, updating
from tests.core.worlds import edited, later, reconciled, running, settled

GATES = Canary(steps=(SetWeight(20), PauseUntilPromoted(), SetWeight(40), PauseUntilPromoted()))
OTHER_GATES = replace(GATES, steps=(SetWeight(60), PauseUntilPromoted(), SetWeight(80)))


def _finished(there: World, revision: str) -> World:
    """`revision` rolled out to the end, without an annotation left."""
    there = settled(annotated(settled(edited(later(there, 10), revision=revision)), "promote", f"{revision}@full"))
    return settled(annotated(there, "promote", None))


def _refusals(there: World) -> list[str]:
    return [each.message for each in there.notices if each.reason in (Reason.COMMAND_INVALID, Reason.UNKNOWN_REVISION)]


@pytest.mark.parametrize("verb", ["promote", "abort", "retry", "rollback"])
def test_a_true_that_fits_nothing_is_refused_recorded_and_taken_off(verb: str) -> None:
    """An annotation that stays would act as soon as it fits something: on an update that nobody had seen.

    Somebody who tries again gets an answer again.
    """
    there = settled(annotated(running(GATES), verb, "true"))

    (record,) = there.status.commands
    assert (record.verb, record.refusal is not None, there.rollout.annotations) == (verb, True, {})
    assert len(_refusals(there)) == 1
    assert verb in said(there, "InvalidCommand")

    again = settled(annotated(later(there, 60), verb, "true"))
    assert (len(_refusals(again)), len(again.status.commands)) == (2, 1)


@pytest.mark.parametrize("digits", [30, 5000])
@pytest.mark.parametrize("verb", ["promote", "retry"])
def test_a_number_that_nobody_can_mean_is_refused(verb: str, digits: int) -> None:
    """Python reads no number of more than 4,300 digits: each pass ended with that error, and the Rollout stood still."""
    before = updating(GATES) if verb == "promote" else settled(annotated(updating(GATES), "abort", "true"))
    there = settled(annotated(before, verb, f"b@{'9' * digits}"))

    assert there.status.commands[-1].refusal is not None
    assert (there.status.phase, there.status.attempt) == (before.status.phase, 0)


@pytest.mark.parametrize("verb", list(Verb))
def test_a_value_that_nobody_can_mean_is_refused_by_its_beginning(verb: Verb) -> None:
    """A user may write 256 KiB into an annotation. All of it was copied into status, twice, and written with each pass."""
    there = settled(annotated(updating(GATES), verb, "pl4nted " * 10_000))

    record = there.status.commands[-1]
    assert record.refusal is not None
    assert "256 characters" in record.refusal.message
    assert "pl4nted" in record.refusal.message
    assert len(record.value) < 200
    assert len(said(there, "InvalidCommand")) < 400
    assert len(_refusals(there)) == 1

    assert settled(later(there, 600)).status.commands[-1] == record
    assert settled(annotated(there, verb, None)).status.commands == ()


def _aborted_again() -> World:
    there = settled(annotated(updating(GATES), "abort", "b"))
    there = settled(annotated(annotated(there, "abort", None), "retry", "true"))
    return settled(annotated(there, "abort", "true"))


@pytest.mark.parametrize(
    ("begun", "verb", "value", "words"),
    [
        (updating, "retry", "b", "'b' is not of the form REVISION@NUMBER, with 9 digits at most"),
        (updating, "retry", "a@1", "revision a is not being rolled out; b is"),
        (updating, "retry", "b@1", "nothing is aborted: revision b needs no new attempt"),
        (_aborted_again, "retry", "b@1", "attempt 1 has begun already: the next one is b@2"),
        (updating, "rollback", "previous@a", "the template is revision b now, not a"),
        (running, "rollback", "a", "revision a is the template's own: there is nothing to roll back from"),
        (running, "rollback", "true", "no revision before a is kept"),
        (world, "rollback", "true", "nothing was rolled out yet when the command was given"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_a_refusal_says_what_is_the_case(begun: Callable[..., World], verb: str, value: str, words: str) -> None:
    """Whoever typed the command looked at another revision or attempt, and sees which one it is."""
    there = begun() if begun is _aborted_again else begun(GATES)

    refusal = settled(annotated(there, verb, value)).status.commands[-1].refusal

    assert refusal is not None and refusal.message == words


def test_a_template_and_its_promotion_in_one_write_go_through() -> None:
    """A commit may say both: they are seen at once."""
    there = settled(edited(annotated(running(GATES), "promote", "b@full"), revision="b"))

    assert there.status.stable_revision == "b"


def test_a_retry_of_what_an_annotation_holds_back_is_refused_with_the_remedy() -> None:
    """`abort: b` stands: a retry would be recorded, and nothing would follow."""
    there = settled(annotated(updating(GATES), "abort", "b"))
    there = settled(annotated(there, "retry", "b@1"))

    assert there.status.phase is Phase.ABORTED
    assert "rollouts.dev/abort" in _refusals(there)[0]
    there = settled(annotated(there, "abort", None))
    assert (there.status.attempt, there.status.phase) == (1, Phase.PAUSED)


def test_an_abort_by_true_holds_though_another_value_takes_its_place_at_once() -> None:
    """It was accepted; `abort: a-later-one` is another command."""
    there = reconciled(annotated(updating(GATES), "abort", "true"))
    there = settled(annotated(there, "abort", "c"))

    assert (there.status.phase, there.status.abort is not None) == (Phase.ABORTED, True)


def test_a_true_that_has_to_wait_keeps_no_other_one() -> None:
    """A removal that failed is made good, though somebody has just set another annotation."""
    there = annotated(annotated(running(GATES), "promote", "true"), "abort", "true")
    young, old = (
        Command(verb=verb, value=NOW, revision="a", at_s=there.now_s - age_s)
        for verb, age_s in ((Verb.PROMOTE, 0.1), (Verb.ABORT, 60.0))
    )
    seen = snapshot(there)

    intents, status, wake_at_s = remove_annotations(seen, replace(seen.status, commands=(young, old)), now=False)

    assert intents == (RemoveAnnotation(verb=Verb.ABORT, value=NOW),)
    assert status.commands == (young, replace(old, annotation_removed=True))
    assert wake_at_s == young.at_s + REMOVED_AFTER_S


@pytest.mark.parametrize("verb", ["promote", "abort", "rollback", "retry"])
def test_a_true_is_about_the_revision_that_status_shows(verb: str) -> None:
    """The controller was away; the template was changed after the command: `c` goes its own way, and the Event says so."""
    there = updating(GATES) if verb != "retry" else settled(annotated(updating(GATES), "abort", "true"))
    there = settled(edited(annotated(there, verb, "true"), revision="c"))

    assert (there.status.current_revision, there.status.phase, there.status.step_index) == ("c", Phase.PAUSED, 1)
    assert any("b" in each and "c" in each for each in _refusals(there)), there.notices


def test_a_promotion_that_has_lost_its_steps_is_told_with_the_remedy_and_can_be_given_again() -> None:
    """Else people wait for a gate that they think is open."""
    there = settled(edited(settled(annotated(updating(GATES), "promote", "b@1")), strategy=OTHER_GATES))
    assert "remove the annotation and set it again" in said(there, "InvalidCommand")
    assert len(_refusals(there)) == 1

    there = settled(annotated(settled(annotated(there, "promote", None)), "promote", "b@1"))

    assert there.status.stable_revision == "b"
    assert said(there, "InvalidCommand") == ""


@pytest.mark.parametrize("value", ["previous@b", "a", "true"])
def test_a_rollback_to_the_specs_own_revision_ends_a_rollback(value: str) -> None:
    """The way forward without another template."""
    there = settled(annotated(_finished(running(GATES, rollback_window_revisions=3), "b"), "rollback", value))
    assert there.status.current_revision == "a"

    there = settled(annotated(there, "rollback", "b"))

    assert there.status.current_revision == "b"


def test_rolled_back_is_not_ready() -> None:
    """`kubectl wait --for=condition=Ready` after an apply must not pass with the revision before it."""
    there = _finished(running(GATES, rollback_window_revisions=3), "b")
    there = settled(annotated(there, "rollback", "previous@b"))

    assert there.status.phase is Phase.ROLLED_BACK
    ready = condition(there, "Ready")
    assert not ready.status
    for text in (ready.message, said(there, "RolledBack"), there.status.message):
        assert "from revision b to a" in text
        assert "rollouts rollback cart -n shop --to b" in text

    there = _finished(there, "c")
    assert (there.status.phase, said(there, "RolledBack")) == (Phase.HEALTHY, "")


def test_a_pause_shows_on_a_healthy_rollout() -> None:
    """The next update will stand still: better known before."""
    there = settled(annotated(running(GATES), "pause", "true"))

    assert there.status.phase is Phase.HEALTHY
    assert "pause" in said(there, "Paused")
    assert [each.reason for each in there.notices] == [Reason.ROLLOUT_PAUSED]
    there = settled(annotated(there, "pause", None))
    assert said(there, "Paused") == ""
    assert there.notices[-1].reason is Reason.ROLLOUT_RESUMED


def test_a_promotion_of_a_paused_rollout_says_that_it_stays_paused() -> None:
    """And acts when nobody holds it any more."""
    there = settled(annotated(updating(GATES), "pause", "true"))
    there = settled(annotated(there, "promote", "b@1"))

    assert there.status.step_index == 1
    assert any(each.reason is Reason.PROMOTED and "stays paused" in each.message for each in there.notices)
    assert settled(annotated(there, "pause", None)).status.step_index == 3


@pytest.mark.parametrize(
    ("author", "told"),
    [
        (Author("alice@example.com", AuthorKind.USER), "(by alice@example.com)"),
        (Author("kubectl-annotate", AuthorKind.FIELD_MANAGER), "(by field manager kubectl-annotate)"),
    ],
)
def test_who_gave_a_command_is_on_record_and_in_the_event(author: Author, told: str) -> None:
    """A user where the API server notes it; else the field manager, which is a program and never called a user."""
    there = annotated(updating(GATES), "promote", "b@1")
    there = replace(there, rollout=replace(there.rollout, annotated_by={"promote": author}))
    there = settled(there)

    assert [each.by for each in there.status.commands if each.verb is Verb.PROMOTE] == [author]
    assert any(told in each.message for each in there.notices if each.reason is Reason.PROMOTED)


def test_a_rollback_is_over_once_another_template_was_seen() -> None:
    """Also when the pass that saw it did no more than record a command: the same template again is a later one."""
    there = settled(_finished(running(GATES), "b"))
    there = reconciled(annotated(there, "rollback", "true"))
    there = reconciled(annotated(edited(there, revision="c"), "promote", "true"))

    there = settled(edited(there, revision="b"))

    assert there.status.current_revision == "b"
