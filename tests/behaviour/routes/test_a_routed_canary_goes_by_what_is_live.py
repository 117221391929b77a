"""Promise: a canary whose traffic is split by a route goes on when the proxies do what the route says, and loses no request.

The whole ladder, 1 → 5 → 25 → 50 → 100 % with a header route and copies, through a gateway that is quick and through one that
obeys two seconds after its status says so; every write is held to what the proxies really do (`plane_witness.py`).
"""

from __future__ import annotations

import asyncio

import pytest

from rollouts.core.model.frozen import replace
from rollouts.core.model.snapshot import DrainSeen
from rollouts.core.model.traffic import LiveSeen, RouteName, VerifiedBy
from rollouts.objects import Manifest
from rollouts.ports import DataPlanes, DrainQuestion, LiveQuestion
from rollouts.sim.network.data_planes import SimDataPlanes
from rollouts.sim.network.gateway import ENVOY, TRAEFIK, GatewaySettings
from tests.behaviour.routed import (
    LADDER,
    STAY,
    STAY_S,
    WEIGHTS,
    Outcome,
    Users,
    assert_good,
    play_routed,
    rules_broken,
    stored_share,
    weight,
    world,
)
from tests.behaviour.scenarios import MANUAL
from tests.behaviour.stage import Behind, Stage

GATEWAYS = {
    "quick": ENVOY,
    "two seconds late": TRAEFIK,
    "late with endpoints of new rules": replace(ENVOY, cluster_lag_s=(0.4, 0.6)),
}
STAYS = tuple(index for index, step in enumerate(LADDER) if step is STAY)
TOLERANCE = 0.02
THROTTLED = GatewaySettings(throttle_s=5.0)
LATE = GatewaySettings(proxies=3, route_lag_s=(0.0, 60.0), endpoint_lag_s=(0.0, 3.0))


async def climbs(stage: Stage, users: Users) -> None:
    """Image 2 goes up the ladder; at each stay its part of the requests is counted."""
    stage.image("2")
    for index, percent in zip(STAYS, WEIGHTS, strict=True):
        await stage.until(lambda: stage.status.get("currentStepIndex") == index)  # noqa: B023 - awaited at once
        await users.measure(stage, f"{percent} %", "2", for_s=STAY_S - 1.0)
    await stage.until_phase("Healthy", "2")
    await asyncio.sleep(5.0)
    await users.measure(stage, "afterwards", "1", for_s=5.0)


@pytest.mark.parametrize("gateway", GATEWAYS)
def test_each_step_gives_the_canary_its_share_and_the_last_one_hands_over(gateway: str) -> None:
    """By the count of the clients: exact shares, beta users on the canary as long as their route stands, copies at 5 %."""
    outcome = play_routed(world(*LADDER), climbs, settings=GATEWAYS[gateway])

    assert_good(outcome)
    users = outcome.users
    for percent in WEIGHTS:
        assert users.shares[f"{percent} %"] == pytest.approx(percent / 100, abs=TOLERANCE)
        assert users.beta_shares[f"{percent} %"] == 1.0
    assert users.copies["5 %"] == pytest.approx(0.2 * 50 * (STAY_S - 1.0), abs=4)
    assert users.copies["1 %"] == users.copies["25 %"] == 0
    assert (users.shares["afterwards"], users.beta_shares["afterwards"]) == (0, 0), "the old revision is called no more"
    assert outcome.run.end["status"]["traffic"]["verifiedBy"] == "Config"


@pytest.mark.parametrize("step", STAYS)
@pytest.mark.parametrize("gateway", GATEWAYS)
def test_an_abort_at_any_step_takes_every_way_to_the_canary_away(gateway: str, step: int) -> None:
    """Share, header route and copies in the first write; and once that is live not one request goes there."""

    async def script(stage: Stage, users: Users) -> None:
        stage.image("2")
        await stage.until(lambda: stage.status.get("currentStepIndex") == step)
        await asyncio.sleep(1.0)
        at_s = asyncio.get_running_loop().time()
        stage.annotate("abort", "true")
        await stage.until(lambda: stored_share(stage) == 0 and len(stage.plane.weights) > 0)
        assert asyncio.get_running_loop().time() - at_s < 1.0
        confirmed = {"observed": {"weight": 0}, "verifiedBy": "Config"}
        await stage.until(lambda: confirmed.items() <= (stage.status.get("traffic") or {}).items())
        await asyncio.sleep(0.1)  # a request is counted when it is over
        await users.measure(stage, "aborted", "2", for_s=5.0)
        await stage.until_phase("Aborted", "2")

    outcome = play_routed(world(*LADDER), script, settings=GATEWAYS[gateway])

    assert_good(outcome, "Aborted")
    assert (outcome.users.shares["aborted"], outcome.users.beta_shares["aborted"]) == (0, 0)
    assert outcome.users.copies["aborted"] == 0


def test_who_is_aborted_is_tried_again_from_the_first_step() -> None:
    """The route is as it was before, so the second attempt finds nothing of the first."""

    async def script(stage: Stage, users: Users) -> None:
        stage.image("2")
        await stage.until(lambda: stage.status.get("currentStepIndex") == STAYS[3])
        await stage.order("abort", "true", "Aborted", "2")
        stage.annotate("retry", "true")
        await stage.until(lambda: stage.status.get("currentStepIndex") == STAYS[0])
        await users.measure(stage, "again", "2", for_s=STAY_S - 1.0)
        await stage.until_phase("Healthy", "2")

    outcome = play_routed(world(*LADDER), script)

    assert_good(outcome)
    assert outcome.users.shares["again"] == pytest.approx(0.01, abs=TOLERANCE)


class Believing:
    """The planted mistake that others make: a split counts as live once the route says it and its status is there."""

    def __init__(self, planes: SimDataPlanes) -> None:
        self._planes = planes

    def asked_by(self, route: RouteName, gateways: tuple[str, ...]) -> VerifiedBy | None:
        return self._planes.asked_by(route, gateways)

    async def live(self, question: LiveQuestion, *, deadline_s: float) -> LiveSeen:
        seen = await self._planes.live(question, deadline_s=deadline_s)
        return LiveSeen(at_s=seen.at_s, resource_version=seen.resource_version, live=True, by=VerifiedBy.CONFIG)

    async def drained(self, question: DrainQuestion, *, deadline_s: float) -> DrainSeen:
        return await self._planes.drained(question, deadline_s=deadline_s)


class Counting(Believing):
    """Proxies that only their counters tell of: what they show is what they do, after the next scrape."""

    def asked_by(self, route: RouteName, gateways: tuple[str, ...]) -> VerifiedBy | None:
        return VerifiedBy.COUNTERS if super().asked_by(route, gateways) is not None else None

    async def live(self, question: LiveQuestion, *, deadline_s: float) -> LiveSeen:
        seen = await self._planes.live(question, deadline_s=deadline_s)
        scraped = seen.at_s - question.since_s >= SCRAPES_S
        return replace(seen, live=seen.live and scraped, by=VerifiedBy.COUNTERS, evidence=scraped)


SCRAPES_S = 35.0

HASTY: Manifest = {"drain": {"mode": "Off"}, "strategy": {"scaleDownDelaySeconds": 0, "abortScaleDownDelaySeconds": 1}}
"""Nothing but the data plane's own answer keeps pods that nobody is to call any more."""


def hastily(planes: type[Believing] | None, settings: GatewaySettings) -> Outcome:
    """Half of the traffic on image 2, an abort, and image 3 to the end, without any waiting but for what is asked."""

    async def script(stage: Stage, users: Users) -> None:
        await stage.update("2", "Paused")
        await asyncio.sleep(60.0)  # who believes is there long before the proxies are
        stage.annotate("abort", "true")
        await stage.until(lambda: stage.sizes()["2"] == 0)
        await users.measure(stage, "aborted", "2", for_s=3.0)
        await stage.update("3", "Paused")
        await stage.order("promote", "true", "Healthy", "3")

    def asked(real: SimDataPlanes) -> DataPlanes:
        return planes(real) if planes is not None else real

    return play_routed(world(weight(50), MANUAL, **HASTY), script, behind=Behind(settings=settings, planes=asked))


BEHIND = pytest.mark.parametrize("settings", [THROTTLED, LATE], ids=["five seconds late", "a minute late"])


@BEHIND
def test_a_proxy_may_obey_as_late_as_it_likes(settings: GatewaySettings) -> None:
    """F59: up to a minute for a weight, each proxy by itself, and no time in our settings that would have to know it."""
    outcome = hastily(None, settings)

    assert_good(outcome)
    assert outcome.users.shares["aborted"] == 0


@BEHIND
def test_who_believes_the_status_sends_users_to_pods_that_are_gone(settings: GatewaySettings) -> None:
    """The proof that the test above could fail: the same with a controller that takes a status for the truth."""
    outcome = hastily(Believing, settings)

    assert {"S2", "S27"} <= rules_broken(outcome.run)
    assert outcome.users.lost > 0


def test_counters_hold_a_step_for_as_long_as_they_contradict_it() -> None:
    """Proxies up to a minute late, and no time in our settings that would make up for what their counters show."""
    outcome = hastily(Counting, LATE)

    assert_good(outcome)
    assert outcome.users.shares["aborted"] == 0
    assert outcome.run.end["status"]["traffic"]["verifiedBy"] == "Counters"


def test_where_nobody_can_be_asked_the_settle_time_is_waited_and_said() -> None:
    """S27: what nobody has confirmed is marked so, with the reason; a gateway within its settle time loses nothing."""

    async def script(stage: Stage, users: Users) -> None:
        stage.image("2")
        await stage.until(lambda: stage.status.get("currentStepIndex") == 1)
        assert stage.status["traffic"]["verifiedBy"] == "SettleTime"
        await users.measure(stage, "half", "2", for_s=STAY_S - 1.0)
        await stage.until_phase("Healthy", "2")

    behind = Behind(settings=TRAEFIK, planes=None)
    outcome = play_routed(world(weight(50), STAY, weight(100)), script, behind=behind)

    assert_good(outcome)
    assert outcome.users.all_shares["half"] == pytest.approx(0.5, abs=TOLERANCE)


def test_one_proxy_that_is_cut_off_holds_the_step() -> None:
    """Every proxy is asked: one that lost its control plane keeps the old weights, and the canary waits for it."""

    async def script(stage: Stage, users: Users) -> None:
        stage.gateway.proxies[1].freeze()
        stage.image("2")
        await stage.until(lambda: stored_share(stage) > 0)
        await asyncio.sleep(120)
        assert stage.status.get("currentStepIndex", 0) == 0
        assert "proxy 1 of default/public" in stage.status["waitingFor"]["message"]
        stage.gateway.proxies[1].thaw()
        await stage.until_phase("Healthy", "2")

    assert_good(play_routed(world(weight(50), STAY, weight(100)), script))
