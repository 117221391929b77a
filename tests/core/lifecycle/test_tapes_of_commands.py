"""Promise: whatever people say, and whenever the controller is killed, each command acts once on what was seen, or is refused.

Commands by `true` and by name, twice within milliseconds, late, stale and wrong; templates and lists of steps edited between; the
controller killed between any two writes, and passes that go by an old view. `judge.py` is the oracle. `ROLLOUTS_DEEP=1` plays
10,000 tapes.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rollouts.core.model.frozen import replace
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import BlueGreen, Canary, Strategy
from rollouts.core.model.snapshot import Snapshot
from rollouts.core.model.status import Abort
from rollouts.core.model.steps import PauseUntilPromoted, SetWeight
from tests.core.judge import Judge, MisjudgedError
from tests.core.model import World, snapshot, strategy_hash
from tests.core.worlds import edited, later, quiet, reconciled, running, steps_of

EXAMPLES = 10_000 if os.environ.get("ROLLOUTS_DEEP") == "1" else 150
LISTS = (
    (SetWeight(25), PauseUntilPromoted(), SetWeight(50), PauseUntilPromoted()),
    (SetWeight(75), PauseUntilPromoted(), SetWeight(100)),
    (PauseUntilPromoted(), PauseUntilPromoted(), SetWeight(50), PauseUntilPromoted()),
)
CANARIES: tuple[Strategy, ...] = tuple(Canary(steps=steps) for steps in LISTS)
STRATEGIES = (*CANARIES, BlueGreen(active_service="cart", auto_promotion_enabled=False))
REVISIONS = ("a", "b", "c")
VALUES: dict[str, tuple[str | None, ...]] = {
    "promote": ("true", "true", "b@1", "c@1", "b", "c", "b@full", "c@full", "a@1", "nobody", "b@0", None),
    "abort": ("true", "true", "b", "c", None, None),
    "retry": ("true", "true", "b@1", "c@1", "b@2", None),
    "rollback": ("true", "true", "previous@b", "previous@c", "a", "b", "nobody", None),
    "pause": ("true", None, None),
}
SAYINGS = st.tuples(st.just("say"), st.sampled_from(sorted(VALUES)), st.integers(0, 11))
EDITS = st.tuples(st.sampled_from(("template", "steps")), st.just(""), st.integers(0, 2))
REST = ("settle", "", 0)
OTHERS = st.one_of(
    st.tuples(st.just("twice"), st.sampled_from(("promote", "abort", "retry", "rollback")), st.integers(0, 3)),
    st.tuples(st.sampled_from(("pass", "stale", "quiet")), st.just(""), st.just(0)),
    st.tuples(st.sampled_from(("killed", "later")), st.just(""), st.integers(0, 3)),
)
SCENES = st.one_of(
    st.tuples(SAYINGS, st.just(REST)),
    st.tuples(EDITS, st.just(REST)),
    st.tuples(st.one_of(SAYINGS, EDITS), st.one_of(SAYINGS, OTHERS, EDITS)),
    st.tuples(OTHERS),
)
TAPES = st.lists(SCENES, max_size=20).map(lambda scenes: [move for scene in scenes for move in scene])
STEPS_BY_HASH = {strategy_hash(each): each.steps for each in CANARIES if isinstance(each, Canary)}


@lru_cache
def _start(number: int) -> World:
    return edited(later(running(STRATEGIES[number], replicas=4), 10), revision="b")


def _settle(judge: Judge) -> None:
    for each in steps_of(judge.there):
        judge.see(each)
    judge.rest()


def _said(judge: Judge, name: str, verb: str, number: int) -> None:
    judge.give(verb, "true" if name == "twice" else VALUES[verb][number % len(VALUES[verb])])
    if name == "twice":
        for _ in range(number):
            judge.see(reconciled(judge.there))
            judge.see(later(judge.there, 0.003))
        judge.give(verb, "true")


def _moved(there: World, name: str, number: int, stale: Snapshot | None) -> World:
    match name:
        case "template":
            return edited(there, revision=REVISIONS[number])
        case "steps" if isinstance(there.rollout.spec.strategy, Canary):
            return edited(there, strategy=CANARIES[number])
        case "killed":
            return reconciled(there, writes=number)
        case "pass" | "stale":
            return reconciled(there, seen=stale if name == "stale" else None)
        case "quiet":
            return quiet(there)
        case "later":
            return later(there, (0.05, 0.2, 0.3, 40)[number])
        case _:
            return there


def _play(judge: Judge, tape: list[tuple[str, str, int]]) -> None:
    stale: Snapshot | None = None
    for name, verb, number in tape:
        judge.see(later(judge.there, 0.003))
        seen_before = snapshot(judge.there)
        match name:
            case "say" | "twice":
                _said(judge, name, verb, number)
            case "settle":
                _settle(judge)
            case _:
                judge.see(_moved(judge.there, name, number, stale))
        stale = seen_before
    judge.see(later(judge.there, 1))
    _settle(judge)


NOTED_TWICE = [("say", "abort", 0), REST, ("twice", "abort", 0), ("say", "abort", 0), *[("stale", "", 0)] * 2]
"""The second pass has not heard of the note that the first one left on the ReplicaSet."""


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@example(number=0, tape=NOTED_TWICE)
@given(number=st.integers(0, len(STRATEGIES) - 1), tape=TAPES)
def test_each_command_acts_once_on_what_was_seen_or_is_refused(number: int, tape: list[tuple[str, str, int]]) -> None:
    """None acts on a later revision, another list of steps, or another attempt; none is lost."""
    _play(Judge(_start(number), lists=STEPS_BY_HASH), tape)


def _judged(judge: Judge, verb: str, value: str) -> World:
    """A command given, and read by the controller."""
    judge.give(verb, value)
    judge.see(later(judge.there, 0.003))
    judge.see(reconciled(judge.there))
    return judge.there


def _recorded(judge: Judge, there: World | None = None, **changes: Any) -> None:
    there = there or judge.there
    judge.see(replace(there, status=replace(there.status, **changes)))


def _a_gate_of_another_list(judge: Judge) -> None:
    """Promoted at step 1 of one list; the list is edited, and its step 1 is passed."""
    other = edited(_judged(judge, "promote", "true"), strategy=CANARIES[1])
    judge.see(other)
    _recorded(judge, other, strategy_hash=strategy_hash(CANARIES[1]), step_index=1)
    _recorded(judge, step_index=2)


def _an_abort_of_another_revision(judge: Judge) -> None:
    """Given for b, and c is held back."""
    there = edited(_judged(judge, "abort", "true"), revision="c")
    _recorded(judge, there, current_revision="c")
    _recorded(judge, abort=Abort("c", there.now_s, Reason.ROLLOUT_ABORTED, ""))


def _a_second_true_beside_something_new(judge: Judge) -> None:
    """The annotation stands while status shows the next gate: the second one changes nothing on the object."""
    _judged(judge, "promote", "true")
    _recorded(judge, step_index=3)
    judge.give("promote", "true")


def _a_command_without_an_answer(judge: Judge) -> None:
    judge.give("promote", "b@1")
    judge.rest()


def _a_refusal_without_an_event(judge: Judge) -> None:
    judge.give("retry", "true")
    judge.see(replace(reconciled(later(judge.there, 0.003)), notices=()))


FAULTS: dict[str, tuple[Callable[[Judge], None], str]] = {
    "a gate that nobody promoted": (lambda judge: _recorded(judge, step_index=2), "nobody promoted it"),
    "a promotion that passes the gate of another list": (_a_gate_of_another_list, "nobody promoted it"),
    "an abort that hits another revision": (_an_abort_of_another_revision, "nobody asked for it"),
    "an attempt that nobody asked for": (lambda judge: _recorded(judge, attempt=1), "attempt 1 of b began"),
    "a second true beside something new": (_a_second_true_beside_something_new, "is lost"),
    "a command without an answer": (_a_command_without_an_answer, "was lost"),
    "a refusal without an Event": (_a_refusal_without_an_event, "without an Event"),
}


@pytest.mark.parametrize(("fault", "told"), FAULTS.values(), ids=list(FAULTS))
def test_the_judge_sees_the_faults_that_it_is_there_for(fault: Callable[[Judge], None], told: str) -> None:
    """Revision b stands at step 1 of the first list."""
    judge = Judge(_start(0), lists=STEPS_BY_HASH)
    _settle(judge)

    with pytest.raises(MisjudgedError, match=told):
        fault(judge)
