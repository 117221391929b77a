"""Promise: with `pingPong` update follows update, each ending on the other Service, and no request is lost on the way."""

from __future__ import annotations

import asyncio

from rollouts.objects import Manifest
from tests.behaviour.routed import STAY, Users, assert_good, http_route, play_routed, routed, stored_weights, weight
from tests.behaviour.scenarios import STABLE_AND_CANARY
from tests.behaviour.stage import Stage

ENDS = {"2": (0, 100), "3": (100, 0), "4": (0, 100)}


def taking_turns() -> tuple[Manifest, ...]:
    """Services `stable` and `canary` that take turns behind a route."""
    rollout = routed(weight(25), STAY, weight(100), STAY)
    strategy = rollout["spec"]["strategy"]["canary"]
    services = {"pingService": strategy.pop("stableService"), "pongService": strategy.pop("canaryService")}
    strategy["pingPong"] = services
    return (*STABLE_AND_CANARY, http_route(), rollout)


def test_three_updates_end_on_one_service_and_the_other_by_turns() -> None:
    """The second one begins where the user's route has the stable and the canary Service in each other's place."""
    ends: dict[str, tuple[int, int]] = {}

    async def script(stage: Stage, users: Users) -> None:
        for tag in ENDS:
            await stage.update(tag, "Healthy")
            await asyncio.sleep(3.0)
            ends[tag] = stored_weights(stage)
            await users.measure(stage, tag, tag, for_s=3.0)

    outcome = play_routed(taking_turns(), script)

    assert ends == ENDS
    assert outcome.users.shares == dict.fromkeys(ENDS, 1.0)
    assert_good(outcome)
