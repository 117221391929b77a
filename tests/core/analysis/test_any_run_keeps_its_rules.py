"""Promise: whatever is measured and in whatever order, no evidence is no success, no phase goes back, and counts are counts."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from rollouts.core.analysis.measurement import RunStatus
from rollouts.core.analysis.metric import MetricRules
from rollouts.core.analysis.run import TERMINATED, decide_run
from rollouts.core.model.analysis import AnalysisPhase
from tests.core.analysis.tapes import T0, finished, play, running

LIMITS = st.integers(min_value=0, max_value=4)
ORDER = {AnalysisPhase.PENDING: 0, AnalysisPhase.RUNNING: 1}


@st.composite
def rules(draw: st.DrawFn, name: str, *, dry_run: bool | None = None) -> MetricRules:
    """A metric's rules, those that make no sense together among them."""
    return MetricRules(
        name=name,
        interval_s=draw(st.none() | st.sampled_from([1.0, 60.0])),
        initial_delay_s=draw(st.sampled_from([0.0, 0.0, 45.0])),
        count=draw(st.none() | LIMITS),
        failure_limit=draw(st.integers(min_value=-1, max_value=4)),
        inconclusive_limit=draw(LIMITS),
        consecutive_error_limit=draw(LIMITS),
        consecutive_success_limit=draw(LIMITS),
        dry_run=draw(st.booleans()) if dry_run is None else dry_run,
        kept=draw(st.integers(min_value=1, max_value=10)),
    )


def tapes(letters: str) -> st.SearchStrategy[str]:
    """What is measured, and perhaps the end."""
    return st.builds(str.__add__, st.text(alphabet=letters, max_size=14), st.sampled_from(["", "!"]))


@given(judged=rules("a", dry_run=False), other=rules("b"), tape=tapes("FIEWR"), more=tapes("FIEWRS"))
def test_a_run_without_evidence_is_never_successful(
    judged: MetricRules, other: MetricRules, tape: str, more: str
) -> None:
    """One metric that counts and never succeeded is enough, whatever its limits and the other metric."""
    played = play((judged, other), {"a": tape, "b": more})

    assert all(status.phase is not AnalysisPhase.SUCCESSFUL for status in played.statuses)


@given(first=rules("a"), second=rules("b"), tape=tapes("SFIEWR"), more=tapes("SFIEWR"))
def test_no_phase_goes_back(first: MetricRules, second: MetricRules, tape: str, more: str) -> None:
    """A verdict that somebody acted on stays; and what is over has its time."""
    statuses = play((first, second), {"a": tape, "b": more}).statuses

    for before, after in pairwise(statuses):
        assert not before.phase.over
        pairs = zip(before.results, after.results, strict=True)
        for old, new in pairs:
            assert ORDER.get(old.phase, 2) <= ORDER.get(new.phase, 2)
            assert new == old or not old.phase.over
    for status in statuses:
        assert status.phase.over == (status.completed_at_s is not None)
        assert status.phase.over == all(result.phase.over for result in status.results)


@given(first=rules("a"), second=rules("b"), tape=tapes("SFIEWR"), more=tapes("SFIEWR"))
def test_counts_are_of_what_was_measured(first: MetricRules, second: MetricRules, tape: str, more: str) -> None:
    """Each finished measurement is counted once."""
    played = play((first, second), {"a": tape, "b": more})

    for name, letters in (("a", tape), ("b", more)):
        result = played.result(name)
        assert result.count == result.successful + result.failed + result.inconclusive
        told = [letters.count(each) for each in "SFIE"]
        found = [result.successful, result.failed, result.inconclusive, result.error]
        assert all(count <= most for count, most in zip(found, told, strict=True))
        if not result.phase.over:
            assert found == told or letters.endswith("!")


@given(
    every=st.tuples(rules("a"), rules("b"), rules("c")),
    letters=st.tuples(*[st.sampled_from("SFIEW")] * 3),
    order=st.permutations(["a", "b", "c"]),
    together=st.integers(min_value=1, max_value=3),
)
def test_any_order_of_answers_gives_the_same_counts(
    every: tuple[MetricRules, ...], letters: tuple[str, ...], order: list[str], together: int
) -> None:
    """Answers come as servers send them: one by one, several at once, the failed one first or last."""
    answers = {each.name: finished(letter) for each, letter in zip(every, letters, strict=True)}
    at_once = decide_run(every, RunStatus(), measured=answers, asked=(), terminate="", now_s=T0).status
    status, asked = RunStatus(), set(answers)
    for start in range(0, len(order), together):
        some = order[start : start + together]
        asked -= set(some)
        measured = {name: answers[name] for name in some}
        status = decide_run(every, status, measured=measured, asked=asked, terminate="", now_s=T0).status

    assert status == at_once


@given(first=rules("a"), tape=tapes("SFIEWR"))
def test_a_run_that_is_told_to_end_ends_with_its_next_answers(first: MetricRules, tape: str) -> None:
    """Nothing holds it: no interval, no delay, no time to resume at."""
    status = play((first,), {"a": tape.rstrip("!")}).status

    ended = decide_run((first,), status, measured={}, asked=(), terminate=TERMINATED, now_s=T0)
    if ended.due:
        measured = {"a": finished("W")}
        ended = decide_run((first,), ended.status, measured=measured, asked=(), terminate=TERMINATED, now_s=T0)

    assert ended.status.phase.over
    assert ended.wake_at_s is None


@given(first=rules("a"), tape=tapes("SFIEWR"), answer=st.sampled_from("SFIEWR"))
def test_an_answer_after_the_end_changes_nothing(first: MetricRules, tape: str, answer: str) -> None:
    """A query that was slow must not turn a verdict over."""
    status = play((first,), {"a": tape}).status
    late = {"a": running() if answer == "R" else finished(answer)}

    if status.phase.over:
        again = decide_run((first,), status, measured=late, asked=(), terminate="", now_s=T0)
        assert (again.status, again.due) == (status, ())
