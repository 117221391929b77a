"""Promise: how long a gateway takes is measured from what it is asked anyway, and pods that go sleep for as long."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import pytest

from rollouts.controller.act.calls import AskDataPlanes
from rollouts.controller.facts.gateway_lags import MOST_S, GatewayLags
from rollouts.core.model.traffic import LiveSeen, RouteName, Split, VerifiedBy
from rollouts.ports import LiveQuestion
from rollouts.sim.clock import SimClock
from tests.controller.routes import MARKS, PACE, ROUTE, Planes, Reading, route, routed
from tests.controller.world import CART, World

pytestmark = pytest.mark.virtual_time


def _question(version: int = 1, *, gateways: tuple[str, ...] = ("infra/web",), name: RouteName = ROUTE) -> LiveQuestion:
    return LiveQuestion(
        route=name,
        resource_version=str(version),
        split=Split(Fraction(1, 2)),
        stable_service="cart",
        canary_service="cart-canary",
        gateways=gateways,
    )


def _answer(question: LiveQuestion, *, live: bool = True, by: VerifiedBy = VerifiedBy.CONFIG) -> LiveSeen:
    return LiveSeen(at_s=0.0, resource_version=question.resource_version, live=live, by=by)


async def _learnt(lags_s: Iterable[float], *, by: VerifiedBy = VerifiedBy.CONFIG, **options: Any) -> GatewayLags:
    """From changes of a route that took so long, one after the other; it was asked about each of them twice."""
    lags = GatewayLags(clock=SimClock(asyncio.get_running_loop()))
    for version, lag_s in enumerate([0.0, *lags_s]):  # the first one is not measured
        question = _question(version, **options)
        lags.asked(question)
        await asyncio.sleep(lag_s / 2)
        lags.answered(question, _answer(question, live=False))
        lags.asked(question)
        await asyncio.sleep(lag_s / 2)
        lags.answered(question, _answer(question, by=by))
    return lags


@pytest.mark.parametrize(
    ("lags_s", "by", "known"),
    [
        ([1.2, 1.4, 1.6], VerifiedBy.CONFIG, 2.0),
        ([], VerifiedBy.CONFIG, None),
        ([4.2, 4.2], VerifiedBy.CONFIG, None),
        ([4.2, 4.2, 4.2], VerifiedBy.CONFIG, 5.0),
        ([0.1, 0.1, 9.0], VerifiedBy.CONFIG, 1.0),
        ([0.5, 0.5, 0.5, 3_600.0, 3_600.0, MOST_S + 1], VerifiedBy.CONFIG, 1.0),
        ([9.5, 9.5, 9.5, *[0.5] * 50], VerifiedBy.CONFIG, 1.0),
        ([20.0, 20.0, 20.0], VerifiedBy.COUNTERS, None),
    ],
    ids=["whole seconds", "none", "two", "three", "a pass came late", "it was down", "long ago", "the scrape was late"],
)
async def test_a_lag_is_from_the_first_question_to_the_answer_that_it_is_live(
    lags_s: list[float], by: VerifiedBy, known: float | None
) -> None:
    """Of three measurements at least, the longest but one. Whole seconds, as templates must not follow every millisecond.

    A gateway that was down is not slow, and one that was given more CPU is quick again after its next fifty routes.
    """
    assert (await _learnt(lags_s, by=by)).slowest_s(["infra/web"]) == known


async def test_of_several_gateways_the_slowest_counts() -> None:
    """A route of two is live when both are; a gateway that nobody measured says nothing."""
    lags = await _learnt([7.5, 7.5, 7.5], gateways=("infra/web", "infra/edge"))

    assert lags.slowest_s(["infra/edge", "infra/other"]) == 8.0
    assert lags.slowest_s(["infra/other"]) is None
    assert lags.slowest_s([]) is None


async def test_a_route_that_tells_no_gateway_is_its_routers() -> None:
    """An HTTPProxy or a TraefikService names none."""
    proxy = RouteName("contour", "HTTPProxy", "shop", "cart")

    assert (await _learnt([0.2, 0.2, 0.2], gateways=(), name=proxy)).slowest_s(["contour"]) == 1.0


async def test_a_route_that_is_new_to_its_gateway_says_nothing() -> None:
    """Until it is live for the first time pods, endpoints or the gateway itself may be what is waited for: seen as 25 s with
    Traefik, after which pods slept for half a minute."""
    lags = GatewayLags(clock=SimClock(asyncio.get_running_loop()))
    for number in range(6):
        name = RouteName("traefik", "TraefikService", "shop", f"cart-{number}")
        for version, lag_s in ((1, 25.0), (2, 0.5)):
            question = _question(version, name=name)
            lags.asked(question)
            await asyncio.sleep(lag_s)
            lags.answered(question, _answer(question))
    assert lags.slowest_s(["infra/web"]) == 1.0


async def test_an_answer_about_another_version_measures_nothing() -> None:
    """The route was written again meanwhile."""
    lags = GatewayLags(clock=SimClock(asyncio.get_running_loop()))
    for version in range(5):
        lags.asked(_question(version))
        await asyncio.sleep(1.0)
        lags.answered(_question(version - 1), _answer(_question(version - 1)))
    assert lags.slowest_s(["infra/web"]) is None


async def test_the_rollouts_of_a_slow_gateway_are_told_its_lag(world: World) -> None:
    """From the question to the snapshot that the numbers of preStop and drain are made of."""

    async def live(question: LiveQuestion) -> LiveSeen:
        await asyncio.sleep(11.5)  # no real one takes so long to answer
        return _answer(question)

    told: list[float | None] = []
    planes = Planes(live=live)
    reading = Reading(world, planes=planes)
    lags = GatewayLags(clock=world.clock)
    observer = world.observer(reading.reader, lags=lags)
    world.rollouts.put("", routed())
    reading.shown(route(**MARKS))
    for version in range(4):  # of which three are changes
        told.append(observer.observe(CART).snapshot.proxy.gateway_lag_s)  # type: ignore[union-attr]
        question = _question(version, gateways=("shop/public",))
        async with asyncio.TaskGroup() as questions:
            performer = world.performer(questions, planes=planes, lags=lags)
            await performer.perform(world.target(), [AskDataPlanes(ROUTE, str(version), PACE, question)])
    told.append(observer.observe(CART).snapshot.proxy.gateway_lag_s)  # type: ignore[union-attr]
    assert told == [None, None, None, None, 12.0]
