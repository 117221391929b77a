"""Promise: a revision that a Service leaves keeps its pods until its requests are over, no longer, and status says why."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rollouts.core.decide import decide
from rollouts.core.model.drain import DrainMode, DrainSpec, OnTimeout, PreStop, ProxyFacts
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import SwitchService
from rollouts.core.model.pod_exit import ContainerExit, PodExit
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import BlueGreen, Canary, Strategy, TrafficRouting
from rollouts.core.model.status import Cutover, Phase
from rollouts.core.model.steps import PauseUntilPromoted, SetCanaryReplicas, SetWeight
from tests.core.coming_to_rest import assert_comes_to_rest
from tests.core.model import World, annotated, service, snapshot, world
from tests.core.test_any_world_is_safe_and_comes_to_rest import MORE, played
from tests.core.updates import condition, updating, with_services
from tests.core.worlds import edited, later, one, reconciled, running, settled, sizes, slices_caught_up, steps_of

DRAIN = DrainSpec(max_request_s=20.0)
WAIT_S = 23.0
"""3 s of proxy lag (iptables, a sync every second, and 2 s on top) and the longest request."""

GREEN = BlueGreen(active_service="cart", preview_service="cart-preview", scale_down_delay_s=0)
SERVICES = with_services(SetWeight(50), max_surge=1, max_unavailable=0)
ROUTED = replace(SERVICES, traffic_routing=TrafficRouting(), scale_down_delay_s=0)
DYNAMIC = replace(SERVICES, traffic_routing=TrafficRouting(dynamic_stable_scale=True))
SWITCHED: tuple[Strategy, ...] = (GREEN, SERVICES, ROUTED, DYNAMIC)
NAMES = ("blue-green", "canary with services", "routed canary", "dynamic stable")


def _shows(there: World, revision: str) -> bool:
    """Whether the Service of the users selects or shows a revision."""
    service = there.services["cart"]
    return service.revision == revision or service.ready_by_revision.get(revision, 0) > 0


def _updated(strategy: Strategy, drain: DrainSpec = DRAIN) -> Iterator[World]:
    return steps_of(edited(running(strategy, drain=drain), revision="b"))


def _last_shrink(strategy: Strategy, drain: DrainSpec = DRAIN) -> tuple[World, float]:
    """The world at the end of an update, and the time from the last sight of the old revision to the end of its last pod."""
    worlds = list(_updated(strategy, drain))
    (left_s,) = [after.now_s for before, after in pairwise(worlds) if _shows(before, "a") and not _shows(after, "a")][
        -1:
    ]
    (gone_s,) = [after.now_s for before, after in pairwise(worlds) if "a" in sizes(before) and "a" not in sizes(after)]
    return worlds[-1], gone_s - left_s


OFF = DrainSpec(mode=DrainMode.OFF)
WAITS: dict[str, tuple[Strategy, DrainSpec, float]] = {
    **{name: (each, DRAIN, WAIT_S) for name, each in zip(NAMES, SWITCHED, strict=True)},
    **{f"{name}, draining is off": (each, OFF, 0.0) for name, each in zip(NAMES, SWITCHED, strict=True)},
    "blue-green, a shorter scaleDownDelaySeconds beside it": (replace(GREEN, scale_down_delay_s=5), DRAIN, WAIT_S),
    "blue-green, a longer one": (replace(GREEN, scale_down_delay_s=100), DRAIN, 100.0),
    "routed canary, a shorter scaleDownDelaySeconds beside it": (replace(ROUTED, scale_down_delay_s=5), DRAIN, WAIT_S),
    "routed canary, a longer one": (replace(ROUTED, scale_down_delay_s=100), DRAIN, 100.0),
    "scaleDownDelayRevisionLimit 0": (replace(GREEN, scale_down_delay_revision_limit=0), DRAIN, WAIT_S),
}  # fmt: skip


@pytest.mark.parametrize(("strategy", "drain", "seconds"), WAITS.values(), ids=list(WAITS))
def test_pods_that_lost_their_service_wait_for_the_proxies_and_the_longest_request(
    strategy: Strategy, drain: DrainSpec, seconds: float
) -> None:
    """Argo Rollouts issue 4926: stable was scaled down with no drain delay. A delay runs beside it: the longer of the two."""
    there, waited_s = _last_shrink(strategy, drain)

    assert waited_s == pytest.approx(seconds, abs=0.01)
    assert (there.status.phase, sizes(there), there.status.cutovers == ()) == (Phase.HEALTHY, {"b": 4}, drain is OFF)


@pytest.mark.parametrize("made_again", [False, True], ids=["late slices", "a Service that was made again"])
@pytest.mark.parametrize("strategy", SWITCHED, ids=NAMES)
def test_the_wait_begins_when_slices_are_seen_to_have_left_the_old_revision(
    strategy: Strategy, made_again: bool
) -> None:
    """The selector alone says nothing: until the slices follow, proxies go on sending requests to the old pods.

    Until the slices of a Service that was made again have their label, nobody sees what they show, which may be the old pods.
    """
    switched = next(after for after in _updated(strategy) if after.services["cart"].revision == "b")
    assert switched.services["cart"].ready_by_revision["a"]
    if made_again:
        unseen = replace(switched.services["cart"], ready_by_revision={}, slices_seen=False)
        switched = replace(switched, services={**switched.services, "cart": unseen})

    left = reconciled(slices_caught_up(reconciled(later(reconciled(switched), 200.0))))

    assert sizes(settled(left, seconds=WAIT_S - 0.1))["a"] > 0
    assert "a" not in sizes(settled(left, seconds=WAIT_S + 0.1))


@pytest.mark.parametrize("strategy", SWITCHED, ids=NAMES)
def test_the_wait_is_in_status_with_its_reason_and_its_end(strategy: Strategy) -> None:
    """Every wait says what for and until when; a crash in the middle finds it there."""
    waits = [
        (after.status.waiting_for, after.status.cutovers[-1], after.now_s)
        for after in _updated(strategy)
        if after.status.waiting_for is not None and after.status.waiting_for.reason is Reason.DRAINING
    ]

    assert waits
    for waiting, cutover, _ in waits:
        assert cutover.confirmed_at_s is not None
        assert cutover.until_s == pytest.approx(cutover.confirmed_at_s + WAIT_S)
        assert waiting.deadline_s == cutover.until_s
        assert "20 s for the longest request" in waiting.message


def test_what_was_waited_for_is_kept_as_a_record() -> None:
    """The evidence of the last cutover: from, to, by which Service, when it was confirmed and how long was waited."""
    there, _ = _last_shrink(SERVICES)

    (cutover,) = there.status.cutovers
    assert cutover.confirmed_at_s is not None
    assert cutover == Cutover(
        service="cart",
        from_revision="a",
        to_revision="b",
        confirmed_at_s=cutover.confirmed_at_s,
        proxy_lag_s=3.0,
        needed_s=WAIT_S,
        until_s=cutover.confirmed_at_s + WAIT_S,
        message="3 s until no proxy sends new connections, and 20 s for the longest request",
    )


@pytest.mark.parametrize(("on_timeout", "waits_s"), [(OnTimeout.CONTINUE, 7.0), (OnTimeout.PAUSE, WAIT_S)])
def test_timeout_seconds_that_run_out_are_recorded_never_called_success(on_timeout: OnTimeout, waits_s: float) -> None:
    """The pods go, and a condition and an Event say that the wait was cut short; or it is Paused, and ends the wait in full."""
    drain = replace(DRAIN, timeout_s=7.0, on_timeout=on_timeout)
    paused = [
        after for after in _updated(SERVICES, drain) if after.status.cutovers and after.status.phase is Phase.PAUSED
    ]
    there, waited_s = _last_shrink(SERVICES, drain)

    assert waited_s == pytest.approx(waits_s, abs=0.01)
    assert (there.status.cutovers[-1].timed_out, there.status.phase) == (True, Phase.HEALTHY)
    assert bool(paused) is (on_timeout is OnTimeout.PAUSE)
    if not paused:
        assert condition(there, "DrainTimedOut").status
        assert sum(each.reason is Reason.DRAIN_TIMED_OUT for each in there.notices) == 1


def test_a_shorter_wait_in_the_spec_ends_a_running_one() -> None:
    """A person who knows better need not wait for what was written a minute ago."""
    there = next(each for each in _updated(SERVICES) if each.status.cutovers)
    assert "a" in sizes(there)

    there = settled(edited(there, drain=replace(DRAIN, max_request_s=0.0)), seconds=5.0)

    assert sizes(there) == {"b": 4}


@pytest.mark.parametrize("by", ["cart", "another"])
def test_going_back_in_the_drain_keeps_what_serves_again(by: str) -> None:
    """A → B → A within the wait, by whichever Service: nobody waits for A, which is stable again; B is drained instead.

    Another Service brings no request back that the first one has sent, so that one's time goes on beside it.
    """
    there = next(each for each in _updated(GREEN) if each.status.stable_revision == "b")
    assert sizes(there) == {"a": 4, "b": 4}

    there = settled(edited(there, revision="a", strategy=replace(GREEN, active_service=by)), seconds=WAIT_S / 2)
    assert sizes(there) == {"a": 4, "b": 4}
    going = [(each.service, each.from_revision) for each in there.status.cutovers]
    assert going == [*([("cart", "a")] if by == "another" else []), (by, "b")]
    there = settled(there)

    assert (sizes(there), there.status.phase) == ({"a": 4}, Phase.HEALTHY)
    assert [(each.from_revision, each.to_revision) for each in there.status.cutovers] == [("b", "a")]


@pytest.mark.parametrize("after_s", [3.0, 15.0, 100.0])
def test_a_canary_that_is_tried_again_while_it_drains_gives_up_its_pods_at_its_first_step(after_s: float) -> None:
    """`retry` soon after an abort at 75 %: its Service selects it again, so it has not left, and not all of its pods are kept."""
    routed = replace(ROUTED, steps=(SetWeight(25), PauseUntilPromoted(), SetWeight(75), PauseUntilPromoted()))
    there = updating(routed, drain=DRAIN)
    there = annotated(settled(annotated(there, "promote", "b@1")), "promote", None)
    assert sizes(there) == {"a": 4, "b": 3}

    there = annotated(settled(annotated(there, "abort", "true"), seconds=after_s), "abort", None)
    there = settled(annotated(there, "retry", "true"))

    assert (there.status.phase, there.status.step_index, sizes(there)) == (Phase.PAUSED, 1, {"a": 4, "b": 1})


def test_a_revision_that_another_service_begins_to_select_has_left_the_first_one() -> None:
    """From blue-green to a canary in mid-switch: the active Service goes back, and what went there is the canary's now."""
    there = running(GREEN, drain=DRAIN)
    there = next(after for after in steps_of(edited(there, revision="b")) if after.services["cart"].revision == "b")
    canary = replace(ROUTED, steps=(SetCanaryReplicas(1), PauseUntilPromoted()))
    there = settled(edited(there, strategy=canary))

    assert (there.status.phase, there.status.step_index, sizes(there)) == (Phase.PAUSED, 1, {"a": 4, "b": 1})


def test_a_service_that_the_strategy_names_no_more_and_that_never_left_is_not_waited_for() -> None:
    """Another canary Service while the first is being left: that one is its user's again, and shows all pods for ever."""
    none = replace(ROUTED, steps=(SetWeight(50), SetCanaryReplicas(0)), stable_service=None, canary_service="other")
    there = next(each for each in _updated(none) if each.status.cutovers and each.services["other"].revision == "a")
    assert [(each.service, each.confirmed_at_s) for each in there.status.cutovers] == [("other", None)]

    there = replace(there, services={**there.services, **running(SERVICES).services})
    there = settled(edited(there, strategy=replace(ROUTED, steps=(SetCanaryReplicas(1), PauseUntilPromoted()))))

    assert (there.status.phase, there.status.step_index, sizes(there)) == (Phase.PAUSED, 1, {"a": 4, "b": 1})


def test_a_strategy_that_names_no_service_waits_for_the_one_that_was_left() -> None:
    """From blue-green to a canary by pods in the drain: what the active Service left has requests in flight all the same."""
    there = next(each for each in _updated(GREEN) if not _shows(each, "a"))
    assert there.status.stable_revision == "a"
    by_pods = edited(there, strategy=Canary(steps=(SetWeight(50),), max_unavailable=0))

    assert sizes(settled(by_pods, seconds=WAIT_S - 1))["a"] == 4
    assert sizes(settled(by_pods)) == {"b": 4}


def test_a_canary_by_the_ratio_of_pods_and_an_abort_are_not_slowed_down() -> None:
    """One Service and no switch: pods that go are covered by their preStop, and a wait would only cost time.

    In an abort the stable Service never moved, so the stable revision gets its pods back at once.
    """
    plain = Canary(steps=(SetWeight(50),), max_surge=1, max_unavailable=0)
    there = updating(plain, drain=DRAIN)
    assert there.now_s - running(plain, drain=DRAIN).now_s < 1.0
    assert there.status.cutovers == ()

    there = updating(replace(SERVICES, steps=(SetWeight(50), PauseUntilPromoted())), drain=DRAIN)
    aborted = settled(annotated(there, "abort", "b"))
    assert (sizes(aborted), aborted.now_s - there.now_s < 1.0) == ({"a": 4}, True)


def test_an_unknown_proxy_mode_is_a_condition_with_its_remedy() -> None:
    """And the safe number; a Rollout that drains nothing is not told."""
    there = running(SERVICES, drain=DRAIN)
    seen = replace(snapshot(there), proxy=ProxyFacts(known_by="kube-system/kube-proxy was refused; set --proxy-mode"))
    off = replace(seen, rollout=edited(there, drain=DrainSpec(mode=DrainMode.OFF)).rollout)

    told = condition(decide(seen), "ProxyModeKnown")

    assert (told.status, told.message) == (False, "kube-system/kube-proxy was refused; set --proxy-mode")
    assert "ProxyModeKnown" not in {each.type for each in decide(snapshot(there)).status.conditions}
    assert "ProxyModeKnown" not in {each.type for each in decide(off).status.conditions}


def test_what_a_template_lacks_is_told_or_injected_and_said() -> None:
    """`preStop: Validate` changes nothing and says need and have, once. What is injected has no Event of its own."""
    ends = PodExit(30, (ContainerExit("app"),))
    looked_at = settled(world(GREEN, drain=replace(DRAIN, pre_stop=PreStop.VALIDATE), ends=ends))
    injected = settled(world(GREEN, drain=DRAIN, ends=ends))

    assert "need a preStop sleep of 6 s, have none" in condition(looked_at, "DrainUnsafe").message
    assert sum(each.reason is Reason.DRAIN_UNSAFE for each in looked_at.notices) == 1
    assert looked_at.status.injection is None
    assert injected.status.injection is not None
    assert (injected.status.injection.containers, injected.status.injection.pre_stop_s) == (("app",), 6)
    (notice,) = (each for each in injected.notices if each.reason is Reason.ROLLOUT_UPDATED)
    assert notice.message.endswith(" a; preStop sleep of 6 s in app, terminationGracePeriodSeconds 31")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    strategy=st.sampled_from(SWITCHED),
    drain=st.builds(
        DrainSpec, max_request_s=st.floats(0, 600), timeout_s=st.floats(0, 600), on_timeout=st.sampled_from(OnTimeout)
    ),
    replicas=st.integers(1, 5),
)
def test_any_wait_is_as_long_as_it_says_and_ends(strategy: Strategy, drain: DrainSpec, replicas: int) -> None:
    """Never before its time, and never later than a pass after it; whatever is asked for, the update ends."""
    there = edited(running(strategy, drain=drain, replicas=replicas), revision="b")
    for after in steps_of(there):
        before, shrunk = there, sizes(there).get("a", 0) > sizes(after).get("a", 0)
        there = after
        cutover = after.status.cutovers[-1] if after.status.cutovers else None
        if shrunk and "a" not in sizes(after) and not _shows(before, "a"):
            assert cutover is not None
            assert cutover.confirmed_at_s is not None
            needed_s = 3.0 + drain.max_request_s
            waited_s = min(needed_s, drain.timeout_s) if drain.on_timeout is OnTimeout.CONTINUE else needed_s
            assert after.now_s == pytest.approx(cutover.confirmed_at_s + waited_s, abs=0.1)

    assert (there.status.phase, sizes(there)) == (Phase.HEALTHY, {"b": replicas})
    assert one(there, "a").spec_replicas == 0


def test_superseded_in_mid_switch_the_drain_is_no_lack_of_progress() -> None:
    """The stable Service came back from a revision that was never promoted: its last pod drains, no deadline aborts for that."""
    strategy = replace(SERVICES, steps=(SetWeight(50), PauseUntilPromoted()))
    drain = replace(DRAIN, max_request_s=900.0, timeout_s=900.0)
    there = running(strategy, drain=drain, progress_deadline_s=60.0, progress_deadline_abort=True)
    there = annotated(settled(edited(there, revision="b")), "promote", "b@full")
    there = next(each for each in steps_of(there) if each.services["cart"].revision == "b")
    assert there.status.stable_revision == "a"

    phases = set()
    for there in steps_of(edited(there, revision="c"), until_s=there.now_s + 1200.0):  # noqa: B020 - the last is looked at
        phases.add(there.status.phase)

    assert there.services["cart"].revision == "a"
    assert {each.from_revision for each in there.status.cutovers} == {"b"}
    assert phases <= {Phase.PROGRESSING, Phase.PAUSED}
    assert (there.status.phase, sizes(there)) == (Phase.PAUSED, {"a": 2, "c": 2})


@pytest.mark.parametrize("seen", ["plain", "gone"])
@pytest.mark.parametrize("strategy", SWITCHED[:3], ids=NAMES[:3])
def test_a_service_that_is_replaced_in_the_middle_of_a_drain_starts_the_wait_again(
    strategy: Strategy, seen: str
) -> None:
    """Without our key it brings requests to every pod: a proxy may use the old ones until it has heard that this is over."""
    for there in _updated(strategy):
        if any(each.confirmed_at_s is not None for each in there.status.cutovers):
            break
    there = settled(there, seconds=WAIT_S - 2)
    assert one(there, "a").spec_replicas > 0
    services = {name: each for name, each in there.services.items() if name != "cart"}
    there = replace(there, services=services, answers={})
    if seen == "gone":  # deleted, and made again a while after the deadline
        there = settled(there, seconds=10)
        assert one(there, "a").spec_replicas > 0
    back_s = there.now_s
    plain = service("cart", uid="made-again", resource_version=f"again-{there.version}")
    there = slices_caught_up(replace(there, services={**services, "cart": plain}, answers={}))
    shown_s = back_s

    for after in steps_of(there):
        shown_s = after.now_s if _shows(after, "a") or not after.services["cart"].revision else shown_s
        assert one(after, "a").spec_replicas > 0 or after.now_s >= shown_s + WAIT_S
        there = after

    assert (there.status.phase, sizes(there)) == (Phase.HEALTHY, {"b": 4})
    assert there.now_s >= back_s + WAIT_S


def test_a_crash_after_a_replaced_service_was_taken_over_again_does_not_bring_the_old_deadline_back() -> None:
    """That the wait starts again is on record before the Service is pointed: nothing else would tell of it later."""
    there = settled(next(each for each in _updated(GREEN) if each.status.stable_revision == "b"), seconds=WAIT_S - 5)
    plain = service("cart", uid="made-again", resource_version=f"again-{there.version}")
    there = slices_caught_up(replace(there, services={**there.services, "cart": plain}, answers={}))
    while there.services["cart"].revision != "b":
        view = snapshot(there)
        pointed = [each for each in decide(view).intents if isinstance(each, SwitchService) and each.name == "cart"]
        if pointed:
            assert [each.confirmed_at_s for each in there.status.cutovers] == [None]
        there = reconciled(there)


SHORT = DrainSpec(max_request_s=10.0)
OURS = ("pass", "pass", "pass", "crash")
THEIRS = ("all pods are ready", "one slice catches up", "slices catch up", "time passes", "promote now", "abort")
TAPES = st.lists(
    st.tuples(st.one_of(st.sampled_from(OURS), st.sampled_from(THEIRS)), st.integers(0, 3), st.integers(0, 2)),
    min_size=20,
    max_size=60,
)


TAKEN_BACK = (
    "pass",
    "pass",
    "all pods are ready",
    "pass",
    "one slice catches up 1",
    "pass",
    "pass",
    "all pods are ready",
    "pass",
    "abort 1",
)
"""An abort just as the stable Service goes over to the new revision."""


@pytest.mark.parametrize(
    ("strategy", "tape"),
    [
        (
            ROUTED,
            ["pass", "one slice catches up", "pass", "pass", "abort", *["pass"] * 3, "one slice catches up", "pass"],
        ),
        (DYNAMIC, ["pass", "abort", *["pass"] * 3, "all pods are ready", "one slice catches up", "pass"]),
    ],
    ids=["the canary's Service comes back, and the other one's wait stays", "the stable Service is to come back"],
)
def test_an_abort_that_is_taken_back_shortens_no_drain(strategy: Strategy, tape: list[str]) -> None:
    """A Service is waited for until it selects the revision again, whatever another one selects, or will."""
    moves = [(move.rstrip(" 1"), int(move.endswith("1")), 0) for move in (*TAKEN_BACK, *tape)]

    played(edited(running(strategy, replicas=2, drain=SHORT), revision="b"), moves)


@settings(MORE)
@given(strategy=st.sampled_from(SWITCHED), tape=TAPES)
def test_late_slices_shorten_no_drain(strategy: Strategy, tape: list[tuple[str, int, int]]) -> None:
    """`played` judges by the world's slices and its own arithmetic (`departures.py`)."""
    assert_comes_to_rest(played(edited(running(strategy, replicas=2, drain=SHORT), revision="b"), tape))
