"""Promise: a decision that is not of its types, whose words say nothing, or that names another object, is found."""

from __future__ import annotations

from typing import Any

import pytest

from rollouts.core.decide import decide
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import Decision, Notice, PatchReplicaSet
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import Canary
from rollouts.core.model.snapshot import Snapshot
from rollouts.core.model.steps import PauseUntilPromoted, SetWeight
from tests.core.model import snapshot
from tests.core.worlds import edited, running, settled
from tests.invariants.every import broken_by
from tests.typed import misfit

STEPS = Canary(steps=(SetWeight(50), PauseUntilPromoted()))


def _seen() -> Snapshot:
    return snapshot(settled(edited(running(STEPS), revision="b")))


def _rules(seen: Snapshot, decision: Decision) -> set[str]:
    return {each.rule for each in broken_by(seen, decision)}


@pytest.mark.parametrize(
    ("changes", "at"),
    [
        ({"attempt": None}, "decision.status.attempt is None, no int"),
        ({"message": None}, "decision.status.message is None, no str"),
        ({"gate_passed": 1}, "decision.status.gate_passed is 1, no bool"),
        ({"replicas": True}, "decision.status.replicas is True, no int"),
        ({"history": (None,)}, "decision.status.history[0] is None, no HistoryEntry"),
    ],
)
def test_a_field_of_another_type(changes: dict[str, Any], at: str) -> None:
    """A null of an object of the cluster would go from field to field, and be taken for false or for 0."""
    seen = _seen()
    wrong = Decision(status=replace(seen.status, **changes))

    assert [each.message for each in broken_by(seen, wrong)] == [at]
    assert misfit(decide(seen), Decision) == ""


@pytest.mark.parametrize("message", ["", "None of 3", "waiting for None", " x", "a  b", "until then "])
def test_a_message_without_words(message: str) -> None:
    """People read them, and nobody else does."""
    seen = _seen()
    told = Notice(Reason.ROLLOUT_PAUSED, message)

    assert _rules(seen, Decision(status=seen.status, notices=(told,))) == {"words"}
    assert _rules(seen, Decision(status=seen.status, notices=(replace(told, message="a word"),))) == set()


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        (Reason.SWITCH_SERVICE, "Service cart selects revision b"),
        (Reason.TRAFFIC_WEIGHT_UPDATED, "HTTPRoute cart: 50 % for the canary"),
    ],
)
def test_an_event_about_nothing_that_is_written(reason: Reason, message: str) -> None:
    """It tells of a write that waits: for the record of a cutover, such as that of a Service that a route leads to."""
    seen = _seen()

    assert _rules(seen, Decision(status=seen.status, notices=(Notice(reason, message),))) == {"events"}


@pytest.mark.parametrize("changes", [{"name": "cart-x"}, {"revision": "x"}, {"uid": "x"}])
def test_a_write_of_another_object(changes: dict[str, Any]) -> None:
    """The uid guards the write; errors and records give the name and the revision."""
    seen = _seen()
    found = next(each for each in seen.replica_sets if each.revision == "b")
    patch = PatchReplicaSet(name=found.name, uid=found.uid, revision="b", pods_carry_metadata=True)

    assert _rules(seen, Decision(status=seen.status, intents=(patch,))) == set()
    assert "S13" in _rules(seen, Decision(status=seen.status, intents=(replace(patch, **changes),)))
