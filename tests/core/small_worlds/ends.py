"""Where a fair run may end: only where the next move is a person's, or where pods are bad for good."""

from __future__ import annotations

from rollouts.core.decide import decide
from rollouts.core.model.reasons import Reason
from rollouts.core.model.status import Phase
from tests.core.coming_to_rest import assert_comes_to_rest
from tests.core.model import World, snapshot

FOR_A_PERSON = {
    (Phase.PAUSED, Reason.PROMOTION_NEEDED),
    (Phase.PAUSED, Reason.PAUSED_BY_USER),
    (Phase.ABORTED, Reason.RETRY_NEEDED),
    (Phase.ROLLED_BACK, Reason.ROLLED_BACK),
}


def kind_of(end: World) -> str:
    """What a Rollout says of itself at the end of a fair run."""
    status = decide(snapshot(end)).status
    waiting = status.waiting_for
    return status.phase if waiting is None else f"{status.phase}: {waiting.reason}"


def assert_is_an_end(end: World) -> None:
    """A Rollout that ends there is Healthy, or waits for a person, or for pods that never become ready.

    Once its environment is well again, and nobody holds it, it comes to rest as every world does.
    """
    status = decide(snapshot(end)).status
    reason = None if status.waiting_for is None else status.waiting_for.reason
    if (status.phase, reason) != (Phase.HEALTHY, None) and (status.phase, reason) not in FOR_A_PERSON:
        assert reason is Reason.PODS_NOT_AVAILABLE, f"it stays {status.phase}: {status.waiting_for}"
        assert end.bad, f"all pods become ready, and it stays {status.phase}: {status.waiting_for}"
    assert_comes_to_rest(end)
