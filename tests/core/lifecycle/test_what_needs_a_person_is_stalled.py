"""Promise: a Service or a route that is missing or cannot be used is Stalled within seconds, and ends by itself when mended.

`kubectl wait`, Argo CD and Flux read it (kstatus); ten minutes of "Progressing" would hide what only a person can mend.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rollouts.core.model.frozen import replace
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import BlueGreen, Strategy
from rollouts.core.model.service_ref import ServiceRef
from rollouts.core.model.snapshot import ServiceSeen
from rollouts.core.model.status import Phase
from rollouts.core.model.steps import PauseUntilPromoted, SetWeight
from tests.core.model import World, annotated, route, service, world
from tests.core.updates import TIMED, routed, waiting, with_services
from tests.core.worlds import edited, later, route_put_back, running, settled, steps_of

STEPS = (SetWeight(50), PauseUntilPromoted())
SERVICES = with_services(*STEPS)
GREEN = BlueGreen(active_service="cart")
ROUTED = routed(*STEPS, by=(TIMED,))

Change = Callable[[World], World]


def _with_services(there: World, **changes: object) -> World:
    services: dict[ServiceRef, ServiceSeen] = {
        name: service(name, resource_version=str(there.version), **changes) for name in ("cart", "cart-canary")
    }
    return replace(there, services=services)


def _with_routes(there: World, **changes: object) -> World:
    version = str(there.version)
    return replace(there, routes={name: route(name, resource_version=version, **changes) for name in there.planes})


BROKEN: dict[str, tuple[Strategy, Change, Reason, bool]] = {
    "no Service": (SERVICES, lambda there: replace(there, services={}), Reason.SERVICE_NOT_FOUND, False),
    "no active Service": (GREEN, lambda there: replace(there, services={}), Reason.SERVICE_NOT_FOUND, False),
    "another's Service": (SERVICES, lambda there: _with_services(there, managed_by="till", watched=True),
        Reason.SERVICE_NOT_USABLE, True),
    "other pods": (GREEN, lambda there: _with_services(there, selects_template=False), Reason.SERVICE_NOT_USABLE, True),
    "no selector": (GREEN, lambda there: _with_services(there, has_selector=False), Reason.SERVICE_NOT_USABLE, True),
    "no route": (ROUTED, lambda there: replace(there, routes={}), Reason.ROUTE_NOT_FOUND, False),
    "another's route": (ROUTED, lambda there: _with_routes(there, managed_by="till"), Reason.ROUTE_NOT_USABLE, True),
}  # fmt: skip
EVERY = pytest.mark.parametrize("case", BROKEN)


def _conditions(there: World) -> dict[str, tuple[bool, Reason]]:
    return {each.type: (each.status, each.reason) for each in there.status.conditions}


@EVERY
def test_a_new_rollout_is_given_the_time_of_an_apply_and_is_stalled_then(case: str) -> None:
    """`kubectl apply -f folder/` makes the Service a moment later; 10 s on nobody will."""
    strategy, breaks, reason, spec_is_wrong = BROKEN[case]
    there = settled(breaks(world(strategy)), seconds=9)
    assert there.status.phase is Phase.PROGRESSING
    assert "Stalled" not in _conditions(there)

    there = settled(there, seconds=3)

    conditions = _conditions(there)
    assert there.status.phase is Phase.DEGRADED
    told = [conditions[kind] for kind in ("Ready", "Stalled", "Progressing")]
    assert told == [(False, reason), (True, reason), (False, reason)]
    assert "Reconciling" not in conditions
    assert conditions.get("InvalidSpec") == ((True, reason) if spec_is_wrong else None)
    assert (waiting(there).reason, waiting(there).deadline_s) == (reason, None)


@EVERY
def test_it_stays_stalled_while_it_is_looked_at_again_and_one_event_tells(case: str) -> None:
    """What is not watched is asked for every 10 s; that is no progress, and the progress deadline is no news."""
    strategy, breaks, reason, _ = BROKEN[case]
    there = settled(breaks(running(strategy)), seconds=15)
    there = settled(edited(replace(there, notices=()), revision="b"), seconds=15)
    assert there.status.phase is Phase.DEGRADED

    for after in steps_of(there, until_s=there.now_s + 900):
        there = after
        assert (there.status.phase, _conditions(there)["Stalled"]) == (Phase.DEGRADED, (True, reason))

    warnings = [each.reason for each in there.notices if each.warning]
    assert warnings == [reason] * len(warnings)
    assert len(warnings) <= 2, "one as the Rollout had it before the update, one with it"


@EVERY
def test_it_goes_on_by_itself_when_it_is_mended(case: str) -> None:
    """Nobody has to edit the Rollout, or retry; and the progress deadline begins then."""
    strategy, breaks, _, _ = BROKEN[case]
    broken = breaks(edited(running(strategy, progress_deadline_s=30), revision="b"))
    broken = settled(broken, seconds=500)
    assert broken.status.phase is Phase.DEGRADED

    there = settled(later(route_put_back(_with_services(broken), 1), 10.1), seconds=5)
    assert "Stalled" not in _conditions(there)
    assert "InvalidSpec" not in _conditions(there)
    there = settled(annotated(settled(there), "promote", "b@full"))

    assert (there.status.phase, there.status.stable_revision) == (Phase.HEALTHY, "b")


def test_one_thing_missing_after_another_stays_stalled() -> None:
    """The Service is mended and the route is still missing: nothing has moved for the person who waits."""
    there = settled(replace(edited(running(ROUTED), revision="b"), services={}, routes={}), seconds=15)
    assert _conditions(there)["Stalled"] == (True, Reason.SERVICE_NOT_FOUND)

    for after in steps_of(later(_with_services(there), 10.1), until_s=there.now_s + 30):
        there = after
        assert there.status.phase is Phase.DEGRADED

    assert _conditions(there)["Stalled"] == (True, Reason.ROUTE_NOT_FOUND)


def test_a_paused_rollout_stays_paused_and_says_what_comes_then() -> None:
    """Whoever holds it knows; it is told when they let go."""
    there = settled(replace(edited(running(SERVICES), revision="b", paused=True), services={}), seconds=60)

    assert there.status.phase is Phase.PAUSED
    assert "cart" in there.status.message


def test_with_progress_deadline_abort_it_is_aborted_at_the_deadline_and_status_says_until_when() -> None:
    """An update that cannot go on is given up when its user says so, whatever holds it."""
    there = running(SERVICES, progress_deadline_s=100, progress_deadline_abort=True)
    there = settled(replace(edited(there, revision="b"), services={}), seconds=90)
    assert there.status.phase is Phase.DEGRADED
    deadline_s = waiting(there).deadline_s or 0.0
    assert deadline_s > there.now_s

    there = settled(there, seconds=deadline_s - there.now_s + 0.1)

    assert there.status.abort is not None
    assert there.status.abort.reason is Reason.PROGRESS_DEADLINE_EXCEEDED
    assert "Service cart" in there.status.abort.message


def test_pods_are_still_scaled_while_it_is_stalled() -> None:
    """Stalled is about the update; the autoscaler goes on."""
    there = settled(replace(running(SERVICES), services={}), seconds=15)

    there = settled(edited(there, replicas=6), seconds=15)

    assert sum(each.spec_replicas for each in there.replica_sets) == 6
