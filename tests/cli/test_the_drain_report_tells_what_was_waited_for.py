"""Promise: the report names what was waited for, how long and by which signal, and never calls a wait that ran out a success."""

from __future__ import annotations

from rollouts.api.status.wire import status_to_wire
from rollouts.cli.commands.drain_report import document, report
from rollouts.core.model.frozen import replace
from rollouts.core.model.pod_exit import Injection
from rollouts.core.model.reasons import Reason
from rollouts.core.model.status import Condition, Cutover, Idle, RolloutStatus

AT_S = 1_790_000_000.0
CUTOVER = Cutover(service="cart", from_revision="a", to_revision="b", confirmed_at_s=AT_S, proxy_lag_s=3.0, needed_s=23.0,
                  until_s=AT_S + 23.0,
                  message="3 s until no proxy sends new connections, and 20 s for the longest request")  # fmt: skip
INJECTION = Injection(containers=("app",), pre_stop_s=6, grace_s=31, native=True)


def _text(*, now_s: float, **status: object) -> str:
    return "\n".join(report(replace(RolloutStatus(current_revision="b"), **status), now_s=now_s))  # type: ignore[arg-type]


def test_a_cutover_that_is_over_is_told_in_full() -> None:
    """Evidence for a person who asks what happened last night."""
    assert _text(now_s=AT_S + 60, injection=INJECTION, cutovers=(CUTOVER,)).splitlines() == [
        "revision b: preStop sleep of 6 s in app, terminationGracePeriodSeconds 31",
        "Service cart: a -> b",
        "  confirmed by: EndpointSlices, 2026-09-21T14:13:20Z",
        "  waited: 23 s, until 2026-09-21T14:13:43Z",
        "  for: 3 s until no proxy sends new connections, and 20 s for the longest request",
        "  in flight at the end: not counted; only requests longer than maxRequestSeconds can have been cut",
    ]


def test_a_cutover_that_goes_on_says_until_when() -> None:
    """Or what it waits for before its clock starts."""
    assert "  waiting: 23 s in all, 13s left, until 2026-09-21T14:13:43" in _text(now_s=AT_S + 10, cutovers=(CUTOVER,))
    unconfirmed = Cutover(service="cart", from_revision="a", to_revision="b")
    assert "EndpointSlices show no pod of revision a" in _text(now_s=AT_S, cutovers=(unconfirmed,))


def test_a_wait_that_ran_out_is_no_success() -> None:
    """With what would have been needed, so that somebody can set `timeoutSeconds`."""
    cut = replace(CUTOVER, until_s=AT_S + 5, timed_out=True)

    assert "  TIMED OUT: 23 s were needed; requests may have been cut" in _text(now_s=AT_S + 60, cutovers=(cut,))


def test_what_the_probes_found_is_told() -> None:
    """By which signal the wait ended, and what was still in flight."""
    drained = replace(CUTOVER, until_s=AT_S + 6, drained=True, idle=Idle(3, AT_S + 6), in_flight=0)
    busy = replace(CUTOVER, in_flight=2, streams=1)

    text = _text(now_s=AT_S + 60, cutovers=(drained,))
    assert "  probes: no requests in flight on 3 polls in a row, the last at 2026-09-21T14:13:26Z" in text
    assert "  waited: 6 s, until 2026-09-21T14:13:26Z" in text
    assert "  in flight at the end: nothing that the probes count" in text
    assert "  IN FLIGHT at the end: 2 requests, 1 stream" in _text(now_s=AT_S + 60, cutovers=(busy,))
    assert "in flight" not in _text(now_s=AT_S + 10, cutovers=(busy,))
    assert "not counted" not in _text(now_s=AT_S + 60, cutovers=(drained, busy))


def test_a_rollout_that_was_never_cut_over_says_so() -> None:
    """And what is unsafe about it is told here too."""
    lacks = "container app: need a preStop sleep of 6 s, have none"
    unsafe = Condition(type="DrainUnsafe", status=True, reason=Reason.DRAIN_UNSAFE, message=lacks, since_s=AT_S,
                       observed_generation=1)  # fmt: skip
    text = _text(now_s=AT_S, conditions=(unsafe,))

    assert "nothing was added to its pod template" in text
    assert "no Service has left a revision" in text
    assert f"DrainUnsafe: {lacks}" in text


def test_the_document_has_what_status_has() -> None:
    """For programs, with the names of status: what was added, each cutover, and what is unsafe."""
    unsafe = Condition(type="DrainUnsafe", status=True, reason=Reason.DRAIN_UNSAFE, message="", since_s=AT_S,
                       observed_generation=1)  # fmt: skip
    status = replace(
        RolloutStatus(current_revision="b"), injection=INJECTION, cutovers=(CUTOVER,), conditions=(unsafe,)
    )
    told = document(status_to_wire(status))

    assert told["preStop"] == {"containers": ["app"], "seconds": 6, "graceSeconds": 31, "native": True}
    assert [(each["service"], each["waitedSeconds"]) for each in told["cutovers"]] == [("cart", 23.0)]
    assert [each["type"] for each in told["conditions"]] == ["DrainUnsafe"]
    assert document({}) == {"preStop": None, "cutovers": [], "conditions": []}


def test_times_are_told_to_the_second() -> None:
    """Nobody waits for microseconds."""
    text = _text(
        now_s=AT_S + 100, cutovers=(replace(CUTOVER, confirmed_at_s=AT_S + 0.208766, until_s=AT_S + 23.208766),)
    )
    assert "confirmed by: EndpointSlices, 2026-09-21T14:13:20Z" in text
    assert "waited: 23 s, until 2026-09-21T14:13:43Z" in text
