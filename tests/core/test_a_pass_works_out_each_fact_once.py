"""Promise: a pass works out what many rules ask for once, so it stays short to follow and cheap for thousands of Rollouts."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import rollouts.core
from rollouts.core.decide import decide
from rollouts.core.model.drain import DrainSpec
from rollouts.core.model.reasons import Reason
from rollouts.core.model.snapshot import Snapshot
from rollouts.core.model.steps import PauseUntilPromoted, SetWeight
from tests.core.model import snapshot
from tests.core.updates import routed, updating

CORE = Path(rollouts.core.__file__).parent
MOST_CALLS = 250
ROUTED = routed(SetWeight(25), PauseUntilPromoted(), SetWeight(50))


def _at_the_gate() -> Snapshot:
    """A canary with a route, at a `pause: {}`: nothing is to be done until somebody promotes it."""
    return snapshot(updating(ROUTED, drain=DrainSpec()))


def _calls(seen: Snapshot) -> Counter[str]:
    """How often one pass enters each function of the core, comprehensions and generators included."""
    found: Counter[str] = Counter()

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and CORE in Path(code.co_filename).parents:
            found[f"{Path(code.co_filename).relative_to(CORE)} {code.co_qualname}"] += 1

    sys.setprofile(note)
    try:
        decide(seen)
    finally:
        sys.setprofile(None)
    return found


def test_a_routed_pass_at_a_gate_is_short() -> None:
    """Most passes of a fleet look like this one, and a reader steps through it. It took 600 calls while rules asked each other.

    Python 3.11 counts a comprehension as a call, later versions do not. Where this fails: does a rule work out what `PassContext`
    or `StepGoal` knows? Does one go on though there is nothing to do?
    """
    seen = _at_the_gate()
    waiting = seen.status.waiting_for
    decide(seen)  # the numbers of a drain are kept from one pass to the next

    calls = _calls(seen)

    assert waiting is not None
    assert waiting.reason is Reason.PROMOTION_NEEDED
    assert calls["decide.py decide"] == 1
    assert calls.total() <= MOST_CALLS, calls.most_common(20)


def test_what_the_steps_ask_for_is_worked_out_once() -> None:
    """Services, routes, sizes and waits go by one answer; four would be four chances to differ."""
    calls = _calls(_at_the_gate())

    once = ("asked_weight", "routed_splits", "wanted_canary", "step_goal", "effective_weight", "shown_revisions")
    found = {
        name: sum(count for key, count in calls.items() if key.endswith((f" {name}", f".{name}"))) for name in once
    }
    assert found == {**dict.fromkeys(once, 1), "effective_weight": 2}  # the fact, and how it is worked out
