"""Promise: a Rollout that an error has stopped says in `waitingFor` what stops it, as any other wait does."""

from __future__ import annotations

import pytest

from rollouts.controller.loop.refusals import reason_of, stopped_status
from rollouts.core.model.frozen import replace
from rollouts.core.model.reasons import Reason
from rollouts.core.model.status import Phase, RolloutStatus, WaitingFor
from rollouts.errors import TerminalError


def _kinds(kind: type[TerminalError]) -> list[type[TerminalError]]:
    return [kind, *(each for sub in kind.__subclasses__() for each in _kinds(sub))]


TOLD = "ConfigMap conf-x exists and is not the copy that is needed: delete it"


def _stopped(status: RolloutStatus, reason: Reason, message: str = TOLD, *, now_s: float = 100.0) -> RolloutStatus:
    return stopped_status(status, reason=reason, message=message, generation=1, now_s=now_s)


REASONS = sorted({reason_of(kind.__new__(kind)) for kind in _kinds(TerminalError)})


@pytest.mark.parametrize("reason", REASONS)
def test_every_error_is_a_wait_that_names_the_object_and_what_helps(reason: Reason) -> None:
    """`waitingFor` was empty beside the phase Degraded: people and tools that go by it saw a Rollout that waits for nothing."""
    status = _stopped(RolloutStatus(), reason)

    assert status.phase is Phase.DEGRADED
    assert status.waiting_for == WaitingFor(reason, TOLD, 100.0, None)


@pytest.mark.parametrize("reason", REASONS)
def test_it_waits_since_the_first_refusal(reason: Reason) -> None:
    """Each try comes after a minute or more."""
    again = _stopped(_stopped(RolloutStatus(), reason), reason, "another text", now_s=400.0)

    assert again.waiting_for == WaitingFor(reason, "another text", 100.0, None)


@pytest.mark.parametrize("reason", [each for each in REASONS if each is not Reason.ROUTE_NOT_USABLE])
def test_a_wait_for_pods_keeps_its_clock(reason: Reason) -> None:
    """An update whose progress deadline aborts it is aborted at that time, although its writes are refused."""
    before = WaitingFor(Reason.PODS_NOT_AVAILABLE, "waiting for pods", 50.0, 650.0)

    after = _stopped(replace(RolloutStatus(), waiting_for=before), reason).waiting_for

    unseen = reason in (Reason.OBJECT_UNREADABLE, Reason.WATCH_FAILED)
    assert after == (WaitingFor(reason, TOLD, 100.0, None) if unseen else replace(before, message=TOLD))
