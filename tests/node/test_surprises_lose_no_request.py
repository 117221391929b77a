"""What nobody planned happens in the middle of a move, and no request fails by the controller's doing."""

from __future__ import annotations

from tests.node.cutover import Seen, Trial
from tests.node.lanes import seen_of
from tests.node.moves import AFTER_THE_END_S, CRASHED, FROZEN, REPLACED, SLOW_BLUE_GREEN, SLOW_CANARY


@seen_of(
    # It takes ten seconds until its replacement is ready: evicted first, it would leave nobody to answer.
    *(Trial(move=move, rate=300) for move in (SLOW_CANARY, SLOW_BLUE_GREEN)),
    # For twenty seconds nobody would replace a pod, nor tell the proxies that it is going.
    Trial(move=FROZEN, rate=300, alone=True),
    # A Service's plain manifest selects the old pods once more: what they get then is finished, too.
    Trial(move=REPLACED, ask="/?delay=6s", rate=20, patience_s=30),
)
def test_no_pod_goes_before_another_can_serve(seen: Seen) -> None:
    """The only pod, one that nobody would replace, and one that is selected again."""
    assert seen.outcome.failed == {}, seen.outcome.failures


@seen_of(Trial(move=CRASHED, connections="fresh", rate=300))
def test_the_old_pods_serve_again_when_the_promoted_ones_have_crashed(seen: Seen) -> None:
    """Requests fail while the app that was promoted crashes, and none that is sent after somebody has gone back.

    From fresh ports: the connection tracker would send one from a port of an unanswered request to the pod of that request.
    """
    failing = [bool(second["failed"]) for second in seen.outcome.seconds]
    versions = [set(second["versions"]) for second in seen.outcome.seconds]

    assert any("2" in answered for answered in versions), "the new revision served before it crashed"
    assert not any(failing[-AFTER_THE_END_S + 1 :])
    assert all(answered <= {"1"} for answered in versions[-AFTER_THE_END_S + 1 :])
