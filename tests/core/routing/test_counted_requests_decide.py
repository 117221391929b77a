"""Promise: what counters of requests show holds, either way; where they show nothing the settle time holds, and that is said."""

from __future__ import annotations

from fractions import Fraction

import pytest

from rollouts.core.decide import decide
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import AskLive
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import Canary
from rollouts.core.model.status import Phase
from rollouts.core.model.steps import SetHeaderRoute, SetWeight, Step
from rollouts.core.model.traffic import (
    ALL_TO_STABLE,
    Acceptance,
    Answer,
    MatchKind,
    NamedMatch,
    RequestMatch,
    Split,
    TextMatch,
    VerifiedBy,
)
from rollouts.core.routing.verification import COUNT_AGAIN_S, COUNTED_S
from tests.core.model import World, annotated, snapshot
from tests.core.updates import (
    COUNTED,
    GATE,
    pods_there,
    questions_about_routes,
    routed,
    traffic,
    updating,
    waiting,
    waits_for,
    without_gateways,
)
from tests.core.worlds import edited, gateways_caught_up, reconciled, running, settled, sizes, slices_caught_up

MATCH = RequestMatch(headers=(NamedMatch("x-canary", TextMatch(MatchKind.EXACT, "yes")),))


def _counted(*steps: Step) -> Canary:
    return routed(*steps, by=(COUNTED,))


def told(there: World) -> World:
    """The route says what is wanted and its gateways have taken it, but do not do so yet."""
    there = without_gateways(there)
    taken = replace(there.routes[COUNTED], accepted=Acceptance(Answer.YES))
    return reconciled(replace(there, routes={COUNTED: taken}))


def waited(there: World, seconds: float) -> World:
    """So long later, with every pass that somebody asked for in between; gateways do what they did."""
    end_s = there.now_s + seconds
    while there.now_s < end_s:
        there = reconciled(there)
        wake_s = decide(snapshot(there)).requeue_at_s
        there = replace(there, now_s=min(end_s, max(there.now_s + 0.05, wake_s or end_s)))
    return reconciled(reconciled(there))


def test_what_was_counted_ends_a_step_and_is_said() -> None:
    """The whole way by counters, to the hand-back: `verifiedBy: Counters`."""
    there = running(_counted(SetWeight(5), GATE))
    there = settled(edited(there, revision="b"))

    assert there.status.step_index == 1
    assert traffic(there).verified_by is VerifiedBy.COUNTERS
    there = settled(annotated(there, "promote", "b@1"))
    assert (there.status.phase, there.planes[COUNTED], sizes(there)) == (Phase.HEALTHY, ALL_TO_STABLE, {"b": 4})


@pytest.mark.parametrize(("settle_s", "ends_s"), [(5.0, COUNTED_S), (90.0, 90.0)])
def test_a_quiet_gateway_is_not_waited_for_without_end(settle_s: float, ends_s: float) -> None:
    """At night nothing can be counted: after a minute the settle time holds, and one that was declared is not cut short."""
    start = replace(running(_counted(SetWeight(50), GATE)), unheard=True)
    start = replace(start, routes={COUNTED: replace(start.routes[COUNTED], settle_s=settle_s)})
    there = told(edited(start, revision="b"))
    begun_s = traffic(there).seen_at_s

    assert begun_s is not None
    assert (waits_for(there), waiting(there).deadline_s) == (Reason.TRAFFIC_SWITCHING, begun_s + ends_s)
    there = waited(there, ends_s - 2)
    assert there.status.step_index == 0
    there = waited(there, 3)
    assert (there.status.step_index, traffic(there).verified_by) == (1, VerifiedBy.SETTLE_TIME)


def test_no_time_makes_up_for_what_the_counters_deny() -> None:
    """Requests go where they went: the step waits, its message says so, and the old pods stay until the requests follow."""
    there = told(edited(running(_counted(SetWeight(100))), revision="b"))
    there = waited(there, 10 * COUNTED_S)

    assert (there.status.step_index, sizes(there)) == (0, {"a": 4, "b": 4})
    assert waits_for(there) is Reason.TRAFFIC_SWITCHING
    assert settled(gateways_caught_up(there)).status.phase is Phase.HEALTHY


REFUSED = Acceptance(Answer.NO, "no such port")
LATE = Acceptance(Answer.UNKNOWN, "Gateway edge/web has not reported")


@pytest.mark.parametrize("accepted", [REFUSED, LATE], ids=["refused", "one of its parents has not answered"])
def test_a_route_that_was_not_accepted_is_not_taken_for_settled(accepted: Acceptance) -> None:
    """Silence of the counters beside it: it is told why, and nothing goes on.

    That no gateway has accepted it would be untrue of a route that one of two has taken.
    """
    there = told(edited(replace(running(_counted(SetWeight(50), GATE)), unheard=True), revision="b"))
    there = replace(there, routes={COUNTED: replace(there.routes[COUNTED], accepted=accepted)})
    there = waited(there, 2 * COUNTED_S)

    assert (there.status.step_index, waits_for(there)) == (0, Reason.ROUTE_NOT_ACCEPTED)
    if accepted is LATE:
        assert waiting(there).message.endswith(f"is not accepted yet: {LATE.message}")


def test_with_a_header_route_the_settle_time_holds() -> None:
    """Its requests go to the canary whatever the weight, and a counter does not say why a request went where it did."""
    there = told(edited(running(_counted(SetHeaderRoute("insiders", MATCH), GATE)), revision="b"))

    assert not any(isinstance(each, AskLive) and each.split.matches for each in decide(snapshot(there)).intents)
    there = waited(there, 6)
    assert there.status.step_index == 1
    assert traffic(there).verified_by is VerifiedBy.SETTLE_TIME


def test_the_question_says_since_when_and_what_was_before() -> None:
    """Requests of before do not count, and the share before tells how many are needed."""
    there = updating(_counted(SetWeight(20), GATE, SetWeight(50), GATE))
    there = annotated(there, "promote", "b@1")
    asked: list[AskLive] = []
    for _ in range(10):
        there = slices_caught_up(pods_there(there))
        asked += [each for each in decide(snapshot(there)).intents if isinstance(each, AskLive)]
        there = reconciled(there)

    assert {(each.split, each.before, each.since_s) for each in asked} == {
        (Split(Fraction(1, 2)), Fraction(1, 5), traffic(there).seen_at_s)
    }


@pytest.mark.parametrize("unheard", [True, False])
def test_prometheus_is_asked_no_more_often_than_it_knows_anything_new(unheard: bool) -> None:
    """A query a second from every Rollout that waits would be its own load."""
    there = told(edited(replace(running(_counted(SetWeight(50), GATE)), unheard=unheard), revision="b"))
    asked = questions_about_routes(there, seconds=50)

    assert 50 / COUNT_AGAIN_S - 1 <= asked <= 50 / COUNT_AGAIN_S + 1
