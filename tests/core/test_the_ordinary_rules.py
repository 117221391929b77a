"""Promise: each ordinary rule of a pass says what it adds by itself; the order of the rules is the order of the writes."""

from __future__ import annotations

from types import FunctionType
from typing import get_type_hints

import pytest

from rollouts.core import ordinary
from rollouts.core.context.contribution import Contribution
from rollouts.core.context.pass_context import context_of
from rollouts.core.context.waits import Wait
from rollouts.core.lifecycle.housekeeping import TROUBLE_AFTER_S
from rollouts.core.model.autoscaling import AutoscalingGate
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import (
    AskAutoscaling,
    AskPods,
    DeleteReplicaSet,
    EvictPod,
    Notice,
    PatchReplicaSet,
    ReleaseRoute,
    ReleaseService,
    SwitchService,
)
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import BlueGreen, Canary
from rollouts.core.model.status import Cutover, GivenBack, WaitingFor
from rollouts.core.model.steps import PauseUntilPromoted, SetWeight
from rollouts.core.model.traffic import RouteName
from rollouts.core.ordinary import ORDINARY, Course, as_of_now, carried_out, course_of, strategy_plan
from rollouts.core.strategy.route_release import release_routes
from tests.core.model import World, snapshot
from tests.core.worlds import edited, later, one, reconciled, running, settled

ORDER = [
    "_strategy_step",
    "_route_release",
    "_service_release",
    "_workload",
    "_role_metadata",
    "_restart",
    "_evictions",
    "_pods_question",
    "_drain_questions",
    "_autoscaling_question",
    "_config",
    "_workload_size",
    "_analysis_runs",
    "_surplus",
]
RULES = {rule.__name__: rule for rule in ORDINARY}
PLAIN = Canary(steps=(SetWeight(50), PauseUntilPromoted()))
WITH_SERVICES = replace(PLAIN, stable_service="cart", canary_service="cart-canary")
EVICTION = EvictPod(name="cart-a-1", uid="pod-1")


def _course(there: World) -> Course:
    """What the rules see of that world."""
    seen = snapshot(there)
    ctx = as_of_now(context_of(seen, seen.status))
    release = release_routes(ctx)
    released = ctx.recording(release.changes)
    step = strategy_plan(released)
    return course_of(released, released.recording(step.changes), step=step, release=release)


def test_all_that_the_rules_add_is_carried_out_in_their_order() -> None:
    """A rule that is not in the list would do nothing, in silence. What moves traffic and pods for the step goes first.

    What nobody can take back goes last.
    """
    course = _course(edited(running(WITH_SERVICES), strategy=PLAIN))
    rules = {
        name: each
        for name, each in vars(ordinary).items()
        if isinstance(each, FunctionType) and get_type_hints(each) == {"course": Course, "return": Contribution}
    }

    assert (list(RULES), {*rules}) == (ORDER, {*ORDER, "carried_out"})
    assert carried_out(course).intents == tuple(each for name in ORDER for each in rules[name](course).intents)
    assert any(isinstance(each, ReleaseService) for each in carried_out(course).intents)


def test_the_step_of_the_strategy_is_carried_out() -> None:
    """With its Events, and the time at which it is to be looked at again."""
    course = _course(edited(running(BlueGreen(active_service="cart")), replicas=6))
    told = Notice(Reason.ROLLOUT_UPDATED, "growing")
    step = replace(course.step, wake_at_s=7.0, notices=(told,))

    added = RULES["_strategy_step"](replace(course, step=step))

    assert [type(each) for each in added.intents] == [PatchReplicaSet]
    assert (added.wake_at_s, added.notices) == (7.0, (told,))


@pytest.mark.parametrize(("begins_again", "intents"), [(False, 1), (True, 0)])
def test_a_service_whose_wait_begins_again_is_pointed_once_that_is_on_record(begins_again: bool, intents: int) -> None:
    """Else a crash after the write would forget that its old pods have to drain once more."""
    there = running(WITH_SERVICES)
    ran = Cutover(service="cart", from_revision="z", to_revision="a", confirmed_at_s=1.0, until_s=2.0)
    course = _course(replace(there, status=replace(there.status, cutovers=(ran,))))
    now = replace(ran, confirmed_at_s=None, until_s=None) if begins_again else ran
    planned = context_of(course.ctx.seen, replace(course.ctx.status, cutovers=(now,)))
    switch = SwitchService(name="cart", uid="uid-cart", resource_version="1", revision="a")
    step = Contribution(intents=(switch,))

    added = RULES["_strategy_step"](replace(course, planned=planned, step=step))

    assert len(added.intents) == intents


def test_a_route_that_is_released_is_reported() -> None:
    """Its user reads in an Event that it is theirs again."""
    name = RouteName("gatewayAPI", "HTTPRoute", "shop", "cart")
    release = Contribution(intents=(ReleaseRoute(route=name, uid="u", resource_version="1"),), wake_at_s=9.0)

    added = RULES["_route_release"](replace(_course(running(PLAIN)), release=release))

    assert added.intents == release.intents
    assert added.wake_at_s == 9.0
    assert [each.reason for each in added.notices] == [Reason.ROUTE_RELEASED]


@pytest.mark.parametrize("brings_requests", [False, True])
def test_services_are_released_after_routes(brings_requests: bool) -> None:
    """While a route that was released may still bring requests to a Service, that Service selects what it selects."""
    there = edited(running(WITH_SERVICES), strategy=PLAIN)
    route = GivenBack(route=None, percent=50, settle_s=60.0, gone_at_s=there.now_s)
    status = replace(there.status, given_back=(route,) if brings_requests else ())
    course = _course(there)
    ctx = context_of(course.ctx.seen, status)

    added = RULES["_service_release"](replace(course, ctx=ctx))

    assert [type(each) for each in added.intents] == ([] if brings_requests else [ReleaseService, ReleaseService])
    assert len(added.notices) == len(added.intents)


@pytest.mark.parametrize(
    ("pods_may_go", "shrinks", "evicted"), [(True, False, True), (True, True, False), (False, False, False)]
)
def test_old_pods_are_evicted_only_while_no_others_are_missing(pods_may_go: bool, shrinks: bool, evicted: bool) -> None:
    """An eviction beside a shrink, or while pods are waited for, takes what `maxUnavailable` has given away already."""
    there = running(PLAIN)
    stable = one(there, "a")
    shrink = PatchReplicaSet(name=stable.name, uid=stable.uid, revision="a", replicas=stable.spec_replicas - 1)
    step = Contribution(intents=(shrink,) if shrinks else ())
    restart = Contribution(intents=(EVICTION,), wake_at_s=5.0)
    course = replace(_course(there), step=step, restart=restart, pods_may_go=pods_may_go)

    added = RULES["_restart"](course)

    assert added.intents == ((EVICTION,) if evicted else ())
    assert added.wake_at_s == 5.0


@pytest.mark.parametrize(("waited_s", "asked"), [(TROUBLE_AFTER_S - 1, False), (TROUBLE_AFTER_S, True)])
def test_pods_that_are_waited_for_too_long_are_asked_about(waited_s: float, asked: bool) -> None:
    """Each list of pods is read by the API server, so not before there may be something wrong."""
    there = running(PLAIN)
    since_s = there.now_s
    waiting = WaitingFor(Reason.PODS_NOT_AVAILABLE, "pods", since_s, None)
    missing = replace(one(there, "a"), ready=0, available=0)
    status = replace(there.status, waiting_for=waiting, progressed_at_s=since_s)
    course = _course(later(replace(there, status=status, replica_sets=(missing,)), waited_s))

    added = RULES["_pods_question"](replace(course, wait=Wait(Reason.PODS_NOT_AVAILABLE, "pods")))

    assert added.intents == ((AskPods(),) if asked else ())
    assert added.wake_at_s == since_s + TROUBLE_AFTER_S


@pytest.mark.parametrize(("reason", "asked"), [(Reason.NO_HEADROOM, True), (Reason.PODS_NOT_AVAILABLE, False)])
def test_the_autoscaler_is_asked_about_while_it_is_waited_for(reason: Reason, asked: bool) -> None:
    """Its answers are of use to nobody else."""
    gate = AutoscalingGate(settled=True)
    course = _course(edited(running(PLAIN), autoscaling=gate))

    added = RULES["_autoscaling_question"](replace(course, wait=Wait(reason, "it is waited for")))

    assert added.intents == ((AskAutoscaling(gate),) if asked else ())


@pytest.mark.parametrize("pods_may_go", [True, False])
def test_replica_sets_beyond_the_limit_are_deleted_when_pods_are_not_missing(pods_may_go: bool) -> None:
    """An old ReplicaSet is what one could go back to while the new one does not come up."""
    there = running(Canary(), revision_history_limit=10)
    there = edited(settled(edited(later(there, 1), revision="b")), revision_history_limit=0)

    added = RULES["_surplus"](replace(_course(there), pods_may_go=pods_may_go))

    assert [each.name for each in added.intents if isinstance(each, DeleteReplicaSet)] == (
        [one(there, "a").name] if pods_may_go else []
    )


def test_no_pods_go_beside_an_update_that_waits_for_pods() -> None:
    """The new revision has a ReplicaSet, whose pods are still to come."""
    course = _course(reconciled(edited(running(PLAIN), revision="b")))

    assert course.wait is not None
    assert course.wait.reason is Reason.PODS_NOT_AVAILABLE
    assert not course.pods_may_go
