"""Where a fair run may end: only where the next move is a person's, or where pods are bad for good."""

from __future__ import annotations

from fractions import Fraction

from rollouts.core.decide import decide
from rollouts.core.model.reasons import Reason
from rollouts.core.model.status import Phase, Verb
from tests.core.coming_to_rest import assert_comes_to_rest
from tests.core.model import World, annotated, snapshot
from tests.core.worlds import one, settled

FOR_A_PERSON = {
    (Phase.PROGRESSING, Reason.SERVICE_NOT_FOUND),
    (Phase.PAUSED, Reason.PROMOTION_NEEDED),
    (Phase.PAUSED, Reason.PAUSED_BY_USER),
    (Phase.PAUSED, Reason.ANALYSIS_INCONCLUSIVE),
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
        finished = status.abort is not None or status.stable_revision == status.current_revision
        assert finished or not end.rollout.spec.progress_deadline_abort, f"no deadline aborts it: {status.waiting_for}"
        needed = status.stable_revision if status.abort is not None else status.current_revision
        assert needed in end.bad, f"pods of {needed} become ready, and it stays {status.phase}: {status.waiting_for}"
    if reason is Reason.ANALYSIS_INCONCLUSIVE:
        promoted = settled(annotated(end, Verb.PROMOTE, "true")).status
        held = [
            each for each in promoted.analyses if each.held and each.run in {record.run for record in status.analyses}
        ]
        assert not held, f"a person has promoted it past its verdict, and it stays: {held}"
    if status.phase is Phase.ABORTED and status.stable_revision not in end.bad:
        assert_stable_serves(end)
    assert_comes_to_rest(end)


def assert_stable_serves(end: World) -> None:
    """After an abort the stable revision has all pods and all requests."""
    status, spec = end.status, end.rollout.spec
    stable = one(end, status.stable_revision)
    assert stable.available == spec.replicas, f"{stable.available} of {spec.replicas} pods of {stable.revision}"
    serving = spec.strategy.serving_service
    if serving is not None and spec.replicas:
        shown = {revision for revision, count in end.services[serving].ready_by_revision.items() if count}
        assert shown == {stable.revision}, f"Service {serving} shows {shown}"
    whole = Fraction(1 if status.pong_is_stable else 0)
    assert all(split.share == whole for split in end.planes.values()), f"routes bring {end.planes}"
