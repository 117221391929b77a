"""Promise: with stickiness a weight is a share of clients, and a client that reached the new revision never leaves it again."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollouts.core.decide import decide
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import SetTraffic
from rollouts.core.model.rollout import Canary, TrafficRouting
from rollouts.core.model.status import Phase
from rollouts.core.model.steps import SetWeight
from rollouts.core.model.traffic import (
    ALL_TO_STABLE,
    Feature,
    MatchRoute,
    MirrorRoute,
    RequestMatch,
    Split,
    Sticky,
    features_needed,
)
from rollouts.core.routing.stickiness import STICKY_ROUTE, as_said, ends_pattern, sticking
from tests.core.model import annotated, snapshot
from tests.core.routing.test_traffic_moves_by_weights import plane
from tests.core.updates import GATE, routed
from tests.core.worlds import edited, reconciled, running, settled, sizes

SID = Sticky("sid", "0123456789abcdef", "revision")
PARTS = st.fractions(0, 1, max_denominator=1000).filter(lambda share: 0 < share < 1)
DIGITS = st.sets(st.sampled_from("-_0123456789abcXYZ"), min_size=2, max_size=18).map(
    lambda found: "".join(sorted(found))
)


def taken(sticky: Sticky, share: Fraction) -> set[str]:
    """The ends of cookies that go to the canary."""
    pattern = re.compile(ends_pattern(sticky, share))
    ends = (one + other for one in sticky.digits for other in sticky.digits)
    return {end for end in ends if pattern.fullmatch(end)}


@given(digits=DIGITS, seed=st.text(max_size=3), shares=st.tuples(PARTS, PARTS))
def test_the_set_has_the_size_of_the_share_and_only_grows(
    digits: str, seed: str, shares: tuple[Fraction, Fraction]
) -> None:
    """Rounded down, one end at least, and never all."""
    sticky = Sticky("sid", digits, seed)
    less, more = (taken(sticky, share) for share in sorted(shares))

    assert len(less) == max(1, int(min(shares) * len(digits) ** 2))
    assert less <= more
    assert len(more) < len(digits) ** 2


def test_not_always_the_same_clients_come_first() -> None:
    """Whoever is unlucky enough to have that id would try out every revision."""
    firsts = {min(taken(replace(SID, seed=seed), Fraction(1, 256))) for seed in ("a", "b", "c", "d", "e")}

    assert len(firsts) > 1


def test_routers_are_told_of_a_route_by_cookie_and_no_weight() -> None:
    """Before the managed routes of the steps nothing is put: those go to the canary too."""
    beta = MatchRoute("beta", RequestMatch())
    copies = MirrorRoute("copies")

    said = as_said(Split(Fraction(1, 4), (beta,), (copies,), sticky=SID))

    assert said == Split(Fraction(0), (beta, said.matches[1]), (copies,))
    assert said.matches[1].name == STICKY_ROUTE
    (cookie,) = said.matches[1].match.cookies
    assert cookie.name == "sid"
    ends = [end for end in taken(SID, Fraction(1, 4)) if re.fullmatch(cookie.value.value, f"4fe2-{end}")]
    assert len(ends) == 64
    assert not re.fullmatch(cookie.value.value, "4fe2-zz")
    assert features_needed(said) == {Feature.COOKIE, Feature.SEVERAL_ROUTES, Feature.MIRROR}


@pytest.mark.parametrize("share", [0, 1])
def test_all_and_nothing_need_no_cookie(share: int) -> None:
    """The object is then as its user wrote it."""
    assert sticking(Split(Fraction(share), sticky=SID), SID) == Split(Fraction(share))


def test_an_update_goes_by_clients_until_its_last_step() -> None:
    """Each weight is a share of clients; at 100 % and at rest nobody is told apart any more."""
    there = running(_sticky(routed(SetWeight(25), GATE, SetWeight(100), GATE)))

    there = settled(edited(there, revision="b"))
    assert plane(there) == Split(Fraction(1, 4), sticky=replace(SID, seed="b"))
    assert sizes(there) == {"a": 4, "b": 1}
    there = settled(annotated(there, "promote", "b@1"))
    assert plane(there) == Split(Fraction(1))
    there = settled(annotated(there, "promote", "b@3"))

    assert (there.status.phase, plane(there)) == (Phase.HEALTHY, ALL_TO_STABLE)


def test_an_abort_takes_every_client_back_in_one_write() -> None:
    """Nothing is left in their browsers that would bring them there again."""
    there = settled(edited(running(_sticky(routed(SetWeight(25), GATE))), revision="b"))
    assert plane(there).sticky is not None

    there = reconciled(annotated(there, "abort", "b"))

    (move,) = [each for each in decide(snapshot(there)).intents if isinstance(each, SetTraffic)]
    assert move.split == as_said(move.split) == ALL_TO_STABLE


def _sticky(strategy: Canary) -> Canary:
    routing = strategy.traffic_routing
    assert isinstance(routing, TrafficRouting)
    return replace(strategy, traffic_routing=replace(routing, sticky=replace(SID, seed="")))
