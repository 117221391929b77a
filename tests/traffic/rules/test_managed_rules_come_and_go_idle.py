"""Promise: a rule of the Gateway API gets requests only when the data plane has it, and goes only when they have gone."""

from __future__ import annotations

from fractions import Fraction

import pytest

from rollouts.core.model.frozen import replace
from rollouts.core.model.traffic import ALL_TO_STABLE, IDLE_HEADER, MatchRoute, MirrorRoute, Split
from rollouts.traffic.gateway_api.codec import PROVIDER
from tests.build import backend
from tests.traffic.situation import TESTERS, Situation, by_header, by_path

TENTH, HALF = Fraction(1, 10), Fraction(1, 2)
STAFF = MatchRoute("staff", by_header("x-staff"))
SOME_COPIES = MirrorRoute("copies", (by_path("/api"),), 100)


def route(kind: str = "HTTPRoute") -> Situation:
    """With one rule for all requests, all of them to the stable Service."""
    is_http = kind == "HTTPRoute"
    match = {"path": {"type": "PathPrefix", "value": "/"}} if is_http else {"method": {"service": "shop.Cart"}}
    rule = {"matches": [match], "backendRefs": [backend("cart", 100), backend("cart-canary", 0)]}
    settings = {"httpRoutes" if is_http else "grpcRoutes": [{"name": "cart"}]}
    return Situation.at(PROVIDER, settings, {"parentRefs": [{"name": "web"}], "rules": [rule]})


def written(now: Situation, want: Split, *, settled: bool = True) -> Situation:
    asked = replace(now, context=replace(now.context, settled=settled))
    return replace(asked.after(asked.plan(want)), context=now.context)


def headers(now: Situation) -> list[list[str]]:
    return [
        [each["name"] for match in rule["matches"] for each in match.get("headers", ())]
        for rule in now.objects.user["spec"]["rules"]
    ]


@pytest.mark.parametrize("kind", ["HTTPRoute", "GRPCRoute"])
def test_a_rule_is_there_before_it_is_given_its_requests(kind: str) -> None:
    """Envoy takes the route at once and the cluster when it has endpoints: 27 of 40 such rules answered 503 in between."""
    want = Split(TENTH, (TESTERS,))

    there = written(route(kind), want)
    waiting = written(there, want, settled=False)
    done = written(waiting, want)

    assert headers(there) == [[], [IDLE_HEADER]]
    assert (there.read().idle, there.read().share, there.read().matches) == (1, Fraction(0), ())
    assert waiting.objects == there.objects
    assert headers(done) == [[], ["x-canary"]]
    assert done.read() == want


def test_a_rule_stays_until_its_requests_have_gone() -> None:
    """And the other way round: its cluster is gone before the route is on every worker; 10 of 40."""
    managed = route().managed(Split(HALF, (TESTERS,)))

    left = written(managed, ALL_TO_STABLE)
    waiting = written(left, ALL_TO_STABLE, settled=False)
    done = written(waiting, ALL_TO_STABLE)

    assert headers(left) == [[], [IDLE_HEADER]]
    assert (left.read().idle, left.read().share, left.read().matches) == (1, Fraction(0), ())
    assert waiting.objects == left.objects
    assert done.objects == route().objects


def test_an_abort_waits_for_nothing() -> None:
    """All goes back to the stable Service in the first write, whatever was under way."""
    under_way = written(route().managed(Split(HALF)), Split(HALF, (TESTERS,)))

    aborted = written(under_way, ALL_TO_STABLE, settled=False)

    assert (aborted.read().share, aborted.read().reaches_canary) == (Fraction(0), False)
    assert written(aborted, ALL_TO_STABLE).objects == route().objects


def test_one_rule_of_two_goes_alone() -> None:
    """The one that stays keeps a place that there is, and with it its requests."""
    managed = route().managed(Split(TENTH, (TESTERS, STAFF)))

    left = written(managed, Split(TENTH, (STAFF,)))

    assert headers(left) == [[], ["x-staff"], [IDLE_HEADER]]
    assert (left.read().matches, left.read().idle) == ((STAFF,), 1)
    assert headers(written(left, Split(TENTH, (STAFF,)))) == [[], ["x-staff"]]


def test_the_copy_of_a_mirror_comes_idle_too() -> None:
    """It takes the requests of its path, weights and all."""
    there = written(route(), Split(TENTH, (), (SOME_COPIES,)))

    assert headers(there) == [[], [IDLE_HEADER]]
    assert there.managed(Split(TENTH, (), (SOME_COPIES,))).read() == Split(TENTH, (), (SOME_COPIES,))


def test_weights_alone_are_one_write() -> None:
    """A step of weights moves no rule."""
    want = Split(HALF, (TESTERS,))
    managed = route().managed(Split(TENTH, (TESTERS,)))

    assert written(managed, want).read() == want


@pytest.mark.parametrize("settled", [True, False])
def test_what_is_on_the_way_is_given_back_whole(settled: bool) -> None:
    """A Rollout may be deleted at any moment."""
    there = written(route(), Split(TENTH, (TESTERS,)), settled=settled)

    assert there.given_back().objects == route().objects
