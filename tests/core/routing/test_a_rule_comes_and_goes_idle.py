"""Promise: a route that is only on its way is written again when the data plane follows, and nothing is on record until then."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from rollouts.core.decide import decide
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import AskLive, Decision, SetTraffic
from rollouts.core.model.reasons import Reason
from rollouts.core.model.steps import PauseUntilPromoted, SetHeaderRoute, SetWeight
from rollouts.core.model.traffic import (
    SETTLE_S,
    Acceptance,
    Answer,
    ExperimentShare,
    Feature,
    LiveSeen,
    MatchKind,
    NamedMatch,
    RequestMatch,
    RouteName,
    RouteSeen,
    Split,
    TextMatch,
    VerifiedBy,
)
from tests.core.model import World, annotated, snapshot
from tests.core.updates import ASKED, TIMED, routed, traffic, updating, waiting, waits_for
from tests.core.worlds import reconciled

PASSES_MOST = 20
MATCH = RequestMatch(headers=(NamedMatch("x-canary", TextMatch(MatchKind.EXACT, "yes")),))


def at_the_header_step(name: RouteName) -> World:
    """5 % are live, and the header route is to be made next."""
    steps = (SetWeight(5), PauseUntilPromoted(), SetHeaderRoute("insiders", MATCH), PauseUntilPromoted())
    there = annotated(updating(routed(*steps, by=(name,))), "promote", "b@1")
    for _ in range(PASSES_MOST):
        if there.status.step_index == 2:
            return there
        there = reconciled(there)
    raise AssertionError(f"still at step {there.status.step_index}")


def on_the_way(there: World, name: RouteName, **changes: Any) -> World:
    """The codec has put an idle rule into the route, the first of its two writes."""
    route = there.routes[name]
    assert route.split is not None
    idle: dict[str, Any] = {"split": replace(route.split, idle=1), "resource_version": "77", "live": None}
    return replace(there, routes={name: replace(route, **{**idle, "features": frozenset(Feature), **changes})})


def write_of(decision: Decision) -> SetTraffic:
    """The one write of the route."""
    (found,) = [each for each in decision.intents if isinstance(each, SetTraffic)]
    return found


def seen(there: World, name: RouteName) -> RouteSeen:
    """As the next pass sees it."""
    found = snapshot(there).routes[name]
    assert isinstance(found, RouteSeen)
    return found


@pytest.mark.parametrize("live", [None, False])
def test_what_the_data_plane_has_not_got_is_not_woken(live: bool | None) -> None:
    """Its requests would be answered with 503 until the endpoints of its cluster come."""
    there = on_the_way(at_the_header_step(ASKED), ASKED)
    if live is not None:
        answer = LiveSeen(at_s=there.now_s - 9, resource_version="77", live=live, by=VerifiedBy.CONFIG)
        there = replace(there, routes={ASKED: replace(there.routes[ASKED], live=answer)})

    decision = decide(snapshot(there))

    assert not write_of(decision).settled
    (ask,) = [each for each in decision.intents if isinstance(each, AskLive)]
    assert (ask.split, ask.resource_version) == (seen(there, ASKED).split, "77")
    assert waits_for(decision) is Reason.TRAFFIC_SWITCHING


def test_what_it_has_is_woken() -> None:
    """The second write, with nothing to ask before it."""
    there = on_the_way(at_the_header_step(ASKED), ASKED)
    answer = LiveSeen(at_s=there.now_s, resource_version="77", live=True, by=VerifiedBy.CONFIG)
    there = replace(there, routes={ASKED: replace(there.routes[ASKED], live=answer)})

    decision = decide(snapshot(there))

    assert write_of(decision).settled
    assert not [each for each in decision.intents if isinstance(each, AskLive)]
    assert traffic(decision).verified_by is None, "the header route itself is not live yet"


@pytest.mark.parametrize("live", [True, False])
def test_an_experiment_at_0_waits_for_the_data_plane_too(live: bool) -> None:
    """New or about to go: its requests would be answered with 503 by a proxy that does not know its Service."""
    there = on_the_way(at_the_header_step(ASKED), ASKED)
    split = Split(Fraction(1, 20), experiments=(ExperimentShare("cart-try", Fraction(0)),))
    answer = LiveSeen(at_s=there.now_s - 9, resource_version="77", live=live, by=VerifiedBy.CONFIG)
    there = replace(there, routes={ASKED: replace(there.routes[ASKED], split=split, live=answer)})

    decision = decide(snapshot(there))

    assert write_of(decision).settled is live
    assert [each.split for each in decision.intents if isinstance(each, AskLive)] == ([] if live else [split])


def test_where_nobody_can_be_asked_the_settle_time_passes_in_between() -> None:
    """As for any other change, and the wait says until when."""
    there = on_the_way(at_the_header_step(TIMED), TIMED, accepted=Acceptance(Answer.YES))
    there = reconciled(there)
    there = on_the_way(there, TIMED, accepted=Acceptance(Answer.YES))

    early = decide(snapshot(there))
    late = decide(snapshot(replace(there, now_s=there.now_s + SETTLE_S)))

    assert (write_of(early).settled, write_of(late).settled) == (False, True)
    assert waiting(early).deadline_s is not None
    assert early.requeue_at_s is not None


def test_an_abort_is_written_though_nothing_has_settled() -> None:
    """What is on its way keeps nobody from going back."""
    there = on_the_way(at_the_header_step(ASKED), ASKED)
    there = reconciled(annotated(there, "abort", "b"))
    there = on_the_way(there, ASKED)

    wanted = write_of(decide(snapshot(there)))

    assert (wanted.split.share, wanted.split.reaches_canary, wanted.settled) == (Fraction(0), False, False)
