"""Promise: while the ReplicaSet of a revision is refused, its update has not begun, and nothing else waits for it."""

from __future__ import annotations

from typing import Any

import pytest

from rollouts.core.decide import begun_on_record, decide
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import CreateReplicaSet, Decision
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import BlueGreen, Canary, Strategy
from rollouts.core.model.snapshot import CreationRefused, Snapshot
from rollouts.core.model.steps import PauseUntilPromoted, SetWeight
from tests.core.model import snapshot
from tests.core.updates import waiting
from tests.core.worlds import edited, running

AGAIN_S = 60.0
CANARY = Canary(steps=(SetWeight(50), PauseUntilPromoted()))
GREEN = BlueGreen(active_service="cart", auto_promotion_enabled=False)


def _refused(seen: Snapshot, *, ago_s: float = 1.0, **changes: Any) -> Snapshot:
    given: dict[str, Any] = {"revision": "b", "generation": seen.rollout.generation, **changes}
    refused = CreationRefused(
        at_s=seen.now_s - ago_s, reason=Reason.API_FORBIDDEN, message="exceeded quota", again_s=AGAIN_S, **given
    )
    return replace(seen, creation_refused=refused)


def _begun(strategy: Strategy = CANARY) -> Snapshot:
    """An edit that no pass has seen."""
    return snapshot(edited(running(strategy), revision="b"))


def _creates(decision: Decision) -> bool:
    return CreateReplicaSet in map(type, decision.intents)


@pytest.mark.parametrize("strategy", [CANARY, GREEN], ids=["canary", "blue-green"])
def test_the_revision_is_taken_up_and_its_replicaset_is_not_tried_again(strategy: Strategy) -> None:
    """Status says so in its wait and in a condition; the next try has its time."""
    seen = _refused(_begun(strategy))

    decision = decide(seen)

    told = {each.type: each.message for each in decision.status.conditions}
    assert not _creates(decision)
    assert decision.status.current_revision == "b"
    assert (waiting(decision).reason, told["RevisionRefused"]) == (Reason.API_FORBIDDEN, "exceeded quota")
    assert decision.requeue_at_s is not None and decision.requeue_at_s <= seen.now_s + AGAIN_S


@pytest.mark.parametrize(
    "seen",
    [_refused(_begun(), ago_s=AGAIN_S), _refused(_begun(), generation=0), _refused(_begun(), revision="c")],
    ids=["its time has come", "the spec has changed", "of another revision"],
)
def test_it_is_tried_again(seen: Snapshot) -> None:
    """Rights and quotas change without an event that the controller sees."""
    assert _creates(decide(seen))


def test_an_abort_goes_on() -> None:
    """It needs no ReplicaSet of the revision that it gives up."""
    seen = _refused(_begun())
    seen = replace(seen, status=decide(seen).status)
    seen = replace(seen, rollout=replace(seen.rollout, annotations={"abort": "true"}))

    recorded = decide(seen)
    aborted = decide(replace(seen, now_s=seen.now_s + 1, status=recorded.status))

    assert [each.refusal for each in recorded.status.commands] == [None]
    assert aborted.status.abort is not None
    assert not _creates(aborted)


def test_a_pass_whose_write_is_refused_has_taken_the_revision_up_and_read_its_commands() -> None:
    """A command that names the new revision is on record though nothing could be written, and the second pass changes nothing."""
    seen = _begun()
    seen = replace(seen, rollout=replace(seen.rollout, annotations={"promote": "b@full"}))

    status = begun_on_record(seen)
    again = begun_on_record(replace(seen, now_s=seen.now_s + 5, status=status))

    assert (status.current_revision, [each.revision for each in status.commands]) == ("b", ["b"])
    assert again == status
