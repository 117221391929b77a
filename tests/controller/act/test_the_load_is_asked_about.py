"""Promise: a gate's question is read from the cluster, and its answer reaches only passes of that gate."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from rollouts.controller.act.answers import ASK_AGAIN_S
from rollouts.controller.act.calls import ReadAutoscaling
from rollouts.controller.act.performer import Performer
from rollouts.core.model.autoscaling import AutoscalingGate
from rollouts.core.model.frozen import replace
from rollouts.ports import Response
from tests.controller.world import CART, World, says

pytestmark = pytest.mark.virtual_time

GATE = AutoscalingGate(settled=True)
NONE = msgspec.json.encode({"metadata": {"resourceVersion": "9"}, "items": []})


async def test_an_answer_is_for_the_gate_that_asked(world: World, performer: Performer) -> None:
    """Another gate may be about another container."""
    world.api.answers = [says(Response(200, NONE))]
    await performer.perform(world.target(), [ReadAutoscaling(GATE)])
    assert await world.queue.take() == CART

    seen = world.inbox.autoscaling(CART, GATE)
    assert seen is not None
    assert (seen.autoscalers, seen.use, seen.message) == ((), None, "")
    assert world.inbox.autoscaling(CART, AutoscalingGate(min_headroom_percent=1)) is None
    world.inbox.forget(CART)
    assert world.inbox.autoscaling(CART, GATE) is None


async def test_an_answer_that_is_no_news_wakes_its_pass_a_second_later(world: World, performer: Performer) -> None:
    """The lists are shared for a while: a pass that finds the same one too old asks again at once, and again."""
    world.api.answers = [says(Response(200, NONE)), says(Response(200, NONE))]
    await performer.perform(world.target(), [ReadAutoscaling(GATE)])
    await world.queue.take()
    world.queue.done(CART)
    first = world.inbox.autoscaling(CART, GATE)

    await performer.perform(world.target(), [ReadAutoscaling(GATE)])
    asked_s = world.clock.monotonic_s()
    await world.queue.take()

    assert world.clock.monotonic_s() - asked_s >= ASK_AGAIN_S
    assert world.inbox.autoscaling(CART, GATE) == first
    assert len(world.api.requests) == 1

    world.queue.done(CART)
    await asyncio.sleep(20)  # virtual: the lists are read anew
    await performer.perform(world.target(), [ReadAutoscaling(GATE)])
    await world.queue.take()
    assert first is not None
    assert world.inbox.autoscaling(CART, GATE) == replace(first, at_s=world.clock.now_s())
