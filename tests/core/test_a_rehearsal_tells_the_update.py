"""A rehearsal is the update itself: the same sizes, Services and waits as the controller's passes bring about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollouts.core.forecast import Pods, Rehearsal, Stage, StageKind, rehearse, with_revision
from rollouts.core.model.analysis import Analysis
from rollouts.core.model.drain import DrainSpec
from rollouts.core.model.frozen import replace
from rollouts.core.model.limits import surge_and_unavailable
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import BlueGreen, Canary, Strategy, TrafficRouting, named_services
from rollouts.core.model.snapshot import ServiceSeen, Snapshot
from rollouts.core.model.status import RolloutStatus
from rollouts.core.model.steps import Analyze, Pause, PauseUntilPromoted, SetWeight, Step
from rollouts.core.model.traffic import RouteName
from tests.core.model import World, annotated, service, snapshot, world
from tests.core.updates import ASKED, TIMED, routed, updating
from tests.core.worlds import edited, running, settled, steps_of

STEPS: tuple[Step, ...] = (SetWeight(25), PauseUntilPromoted(), SetWeight(50), Pause(5.0))
CANARY = Canary(steps=STEPS, max_surge=1, max_unavailable=0)
BLUE_GREEN = BlueGreen(active_service="active", preview_service="preview", preview_replica_count=1)


def seen_of(there: World) -> Snapshot:
    """What a reader of the whole namespace sees: no Service is still to be asked about."""
    seen = snapshot(there)
    names = named_services(there.rollout.spec.strategy)
    return replace(seen, services={name: there.services.get(name, service(name)) for name in names})


def rehearsed(strategy: Strategy, *, startup_s: float = 0.0, **spec: Any) -> Rehearsal:
    """The update of a healthy Rollout from revision `a` to `b`."""
    there = running(strategy, drain=DrainSpec(), **spec)
    return rehearse(with_revision(seen_of(there), "b"), startup_s=startup_s)


def growths(stage: Stage) -> list[dict[str, int]]:
    """What the pods together may use is checked when one is created, so only growth counts, and not a pause."""
    return [dict(each.sizes) for each in stage.growths]


def test_each_step_of_a_canary_has_its_pods() -> None:
    """Four pods at 25 % and 50 %, with one more at a time and none missing."""
    told = rehearsed(CANARY)

    assert [(each.kind, each.step_index, each.pods, growths(each)) for each in told.stages] == [
        (StageKind.STEP, 0, Pods(1, 3, 0), [{"a": 4, "b": 1}]),
        (StageKind.STEP, 1, Pods(1, 3, 0), []),
        (StageKind.STEP, 2, Pods(2, 2, 0), [{"a": 3, "b": 2}]),
        (StageKind.STEP, 3, Pods(2, 2, 0), []),
        (StageKind.FULL, None, Pods(4, 0, 0), [{"a": 2, "b": 3}, {"a": 1, "b": 4}]),
    ]
    assert {each.revision for stage in told.stages for each in stage.growths} == {"b"}
    assert max(each.most_pods for each in told.stages) == 5
    assert min(each.least_available for each in told.stages) == 4
    assert (told.revision, told.stable_before, told.stuck) == ("b", "a", None)


def test_a_preview_grows_before_the_gate_and_after_it_and_services_are_told_where_they_point() -> None:
    """The active Service moves at the switch, the preview at the beginning; the old pods stay until the end."""
    assert [(each.kind, each.pods, dict(each.services), growths(each)) for each in rehearsed(BLUE_GREEN).stages] == [
        (StageKind.PREVIEW, Pods(1, 4, 0), {"active": "a", "preview": "b"}, [{"a": 4, "b": 1}]),
        (StageKind.SWITCH, Pods(4, 4, 0), {"active": "b", "preview": "b"}, [{"a": 4, "b": 4}]),
        (StageKind.AFTER, Pods(4, 0, 0), {"active": "b", "preview": "b"}, []),
    ]


def test_slices_that_nobody_has_seen_yet_are_seen_in_the_update() -> None:
    """They get the label by which they are watched a moment after their Service: no update waits for what is never shown."""
    seen = with_revision(seen_of(running(BLUE_GREEN, drain=DrainSpec())), "b")
    services = {
        name: replace(seen_as, slices_seen=False)
        for name, seen_as in seen.services.items()
        if isinstance(seen_as, ServiceSeen)
    }

    assert rehearse(replace(seen, services=services), startup_s=0.0) == rehearse(seen, startup_s=0.0)


def test_of_hundreds_of_pods_replaced_one_by_one_two_moments_are_kept() -> None:
    """All others lie between them, so no use of theirs together is larger: a plan looks at two moments and not at hundreds."""
    told = rehearsed(Canary(steps=(), max_surge=1, max_unavailable=0), replicas=300)

    assert [growths(each) for each in told.stages if each.growths] == [[{"a": 300, "b": 1}, {"a": 1, "b": 300}]]


def test_waits_are_told_with_their_lengths() -> None:
    """Pods take 2 s and 3 s of minReadySeconds; a person's wait has no length."""
    stages = rehearsed(CANARY, startup_s=2.0, min_ready_s=3).stages
    waits = [(wait.reason, wait.seconds) for stage in stages for wait in stage.waits]

    assert waits == [
        (Reason.PODS_NOT_AVAILABLE, 5.0),
        (Reason.PROMOTION_NEEDED, None),
        (Reason.PODS_NOT_AVAILABLE, 5.0),
        (Reason.TIMED_PAUSE, 5.0),
        (Reason.PODS_NOT_AVAILABLE, 10.0),  # one pod more at a time, and two are to come
    ]


@pytest.mark.parametrize(
    ("delay_s", "kept"),
    [
        (0.0, [(Reason.DRAINING, 33.0)]),  # 3 s of proxy lag and 30 s of request
        (400.0, [(Reason.SCALE_DOWN_DELAY, 400.0)]),
    ],
)
def test_old_pods_are_kept_for_the_longer_of_drain_and_scale_down_delay_seconds(
    delay_s: float, kept: list[tuple[Reason, float]]
) -> None:
    """Both run beside each other, so together they are as long as the longer one."""
    told = rehearsed(replace(BLUE_GREEN, scale_down_delay_s=delay_s))

    waits = [(wait.reason, wait.seconds) for stage in told.stages for wait in stage.waits]
    assert [wait for wait in waits if wait[0] is not Reason.PODS_NOT_AVAILABLE] == kept


def test_a_new_rollout_skips_its_steps() -> None:
    """Nothing serves that they could protect. A healthy Rollout whose template did not change has nothing to do."""
    told = rehearse(seen_of(world(CANARY)), startup_s=1.0)

    assert [(each.kind, each.pods) for each in told.stages] == [(StageKind.FIRST, Pods(4, 0, 0))]
    assert (told.stable_before, told.stuck) == ("", None)
    idle = rehearse(seen_of(running(CANARY)), startup_s=1.0)
    assert (idle.stages, idle.stuck) == ((), None)


def test_an_update_on_its_way_is_told_from_where_it_stands() -> None:
    """What is behind it is not told again."""
    there = updating(CANARY)
    assert there.status.step_index == 1

    assert [each.step_index for each in rehearse(seen_of(there), startup_s=0.0).stages] == [1, 2, 3, None]


SMOKE = Analysis(path="spec.strategy.canary.steps[1].analysis", settings={}, templates=("smoke",))
STUCK: dict[str, tuple[Callable[[], Rehearsal], Reason]] = {
    "aborted: nobody can tell what a person will do": (
        lambda: rehearse(seen_of(settled(annotated(updating(CANARY), "abort", "b"))), startup_s=0.0), Reason.RETRY_NEEDED),
    "a start longer than progressDeadlineSeconds": (
        lambda: rehearsed(CANARY, startup_s=90.0, progress_deadline_s=60.0, progress_deadline_abort=True),
        Reason.RETRY_NEEDED),
    "no pods to judge": (
        lambda: rehearsed(Canary(steps=(SetWeight(25), Analyze(SMOKE))), replicas=0), Reason.ANALYSIS_NEEDS_PODS),
}  # fmt: skip


@pytest.mark.parametrize(("told", "reason"), STUCK.values(), ids=list(STUCK))
def test_an_update_that_will_stop_is_told_to_be_stuck(told: Callable[[], Rehearsal], reason: Reason) -> None:
    """The deadline is the controller's, so the rehearsal meets it too."""
    stuck = told().stuck

    assert stuck is not None
    assert stuck.reason is reason


def test_a_pause_is_ended_by_somebody() -> None:
    """`spec.paused` is a wait like that for a promotion: the rest of the update is told behind it."""
    there = edited(running(CANARY), revision="b", paused=True)

    told = rehearse(seen_of(there), startup_s=0.0)

    assert told.stuck is None
    waits = [wait for stage in told.stages for wait in stage.waits]
    assert (Reason.PAUSED_BY_USER, None) in {(wait.reason, wait.seconds) for wait in waits}


def test_a_lost_pod_of_a_single_replica_is_told() -> None:
    """With no surge and one replica there is a moment without pods, which is what `plan` warns of."""
    told = rehearsed(Canary(steps=(), max_surge=0, max_unavailable=1), replicas=1)

    assert min(each.least_available for each in told.stages) == 0


def test_a_world_without_a_memory_is_rehearsed_too() -> None:
    """A status that was wiped: the controller recovers it from the pods that serve."""
    seen = with_revision(seen_of(running(CANARY)), "b")

    told = rehearse(replace(seen, status=RolloutStatus()), startup_s=0.0)

    assert told.stuck is None
    assert told.end.status.stable_revision == "b"


@pytest.mark.parametrize(
    "strategy",
    [
        CANARY,
        replace(CANARY, stable_service="stable", canary_service="canary"),
        replace(CANARY, stable_service="stable", canary_service="canary", traffic_routing=TrafficRouting()),
        replace(BLUE_GREEN, auto_promotion_enabled=False, scale_down_delay_s=60.0),
    ],
    ids=["ratio", "services", "routed", "blue-green"],
)
def test_it_can_begin_at_any_moment_of_an_update(strategy: Strategy) -> None:
    """People plan while something is on its way: every state that a run passes through leads to the same end."""
    there = edited(running(strategy, drain=DrainSpec()), revision="b")
    moments = 0
    for _ in range(4):
        for each in steps_of(there):
            there, moments = each, moments + 1
            told = rehearse(seen_of(there), startup_s=1.0)
            assert told.stuck is None, (there, told.stuck)
            assert told.end.status.stable_revision == "b"
            assert {rs.revision: rs.spec_replicas for rs in told.end.replica_sets if rs.spec_replicas} == {"b": 4}
        there = annotated(there, "promote", f"b@{there.status.step_index}")
    assert there.status.stable_revision == "b"
    assert moments > 10


@given(
    replicas=st.integers(0, 12),
    weights=st.lists(st.integers(0, 100), max_size=4),
    surge=st.integers(0, 3),
    unavailable=st.integers(0, 3),
    startup_s=st.sampled_from([0.0, 0.5, 20.0]),
)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_any_canary_comes_to_its_end_within_its_limits(
    replicas: int, weights: list[int], surge: int, unavailable: int, startup_s: float
) -> None:
    """What `plan` says of pods at most and at least is what maxSurge and maxUnavailable promise."""
    steps = tuple(SetWeight(each) for each in weights)
    strategy = Canary(steps=steps, max_surge=surge, max_unavailable=unavailable)
    more, fewer = surge_and_unavailable(max_surge=surge, max_unavailable=unavailable, replicas=replicas)

    told = rehearsed(strategy, replicas=replicas, startup_s=startup_s)

    assert told.stuck is None
    assert all(each.most_pods <= replicas + more for each in told.stages)
    assert all(each.least_available >= replicas - fewer for each in told.stages)
    assert sum(each.spec_replicas for each in told.end.replica_sets if each.revision == "b") == replicas


@pytest.mark.parametrize("ping_pong", [False, True])
@pytest.mark.parametrize("name", [ASKED, TIMED], ids=["asked", "timed"])
def test_an_update_with_routes_is_rehearsed_to_its_end(name: RouteName, ping_pong: bool) -> None:
    """Routes are told, found live and handed back: asked or by settle time, with Services that switch or exchange roles."""
    told = rehearsed(routed(SetWeight(25), PauseUntilPromoted(), by=(name,), ping_pong=ping_pong))

    assert [(each.kind, each.weight_percent, each.pods) for each in told.stages[:3]] == [
        (StageKind.STEP, 25, Pods(1, 4, 0)),
        (StageKind.STEP, 25, Pods(1, 4, 0)),
        (StageKind.FULL, 100, Pods(4, 4, 0)),
    ]
    assert (told.stuck, told.end.status.stable_revision) == (None, "b")
    settles = [each for stage in told.stages for each in stage.waits if each.reason is Reason.TRAFFIC_SWITCHING]
    assert bool(settles) == (name is TIMED)


def test_a_new_rollout_with_a_route_that_nobody_has_taken_yet_is_rehearsed_to_its_end() -> None:
    """The route says what it is to say already; marking it as ours is a write, too, and its gateways take it."""
    there = world(routed(by=(TIMED,)))

    told = rehearse(replace(seen_of(there), routes=there.routes), startup_s=0.0)

    assert (told.stuck, told.end.status.stable_revision) == (None, "a")
