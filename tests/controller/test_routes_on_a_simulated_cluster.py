"""The whole controller with a gateway: one write for a weight, drift put right and counted, and the user's route given back."""

from __future__ import annotations

import asyncio

import pytest

from rollouts.objects import EVENT, Manifest
from rollouts.sim.network.gateway_types import HTTP_ROUTE
from tests.behaviour.routed import STAY, Users, http_route, play_routed, stored_weights, weight, world
from tests.behaviour.stage import KEY, Stage

TO_THE_GATE: tuple[Manifest, ...] = (weight(10), {"pause": {}}, weight(50), {"pause": {}})


def route_of(stage: Stage) -> Manifest:
    """The route as it is."""
    found = stage.cluster.get(HTTP_ROUTE, KEY.namespace, KEY.name)
    assert found is not None
    return found


def written(stage: Stage) -> int:
    """Writes of routes so far."""
    return stage.witness.effects()["PATCH httproutes"]


async def at(stage: Stage, step: int) -> None:
    """Waits until the update waits for a person at a step, and nothing more follows."""
    await stage.until(lambda: stage.status["phase"] == "Paused" and stage.status["currentStepIndex"] == step)
    await asyncio.sleep(1.0)


async def promoted(stage: Stage) -> None:
    """Somebody lets it pass."""
    step, revision = stage.status["currentStepIndex"], stage.status["currentRevision"]
    stage.annotate("promote", f"{revision}@{step}")


def test_a_weight_change_is_one_write_of_the_route() -> None:
    """The cluster is asked for nothing it need not do. Our marks came with the first contact."""

    async def script(stage: Stage, _users: Users) -> None:
        before = written(stage)
        stage.image("2")
        await at(stage, 1)
        assert written(stage) - before == 1
        await promoted(stage)
        await at(stage, 3)
        assert written(stage) - before == 2
        assert stored_weights(stage) == (50, 50)

    assert play_routed(world(*TO_THE_GATE), script).run.unexpected == []


def test_what_somebody_sets_back_is_set_again_told_and_counted() -> None:
    """A GitOps tool that does not know better applies what Git says in the middle of an update."""

    async def script(stage: Stage, _users: Users) -> None:
        stage.image("2")
        await at(stage, 1)
        users = http_route()
        stage.cluster.apply({**users, "metadata": users["metadata"]})
        await asyncio.sleep(2.0)
        events = [each for each in stage.cluster.list(EVENT) if each["reason"] == "RouteDrifted"]
        text = stage.telemetry[0].exposition().decode()
        (drifts,) = [line.split()[1] for line in text.splitlines() if line.startswith("rollouts_route_drifts_total ")]
        (writes,) = [line for line in text.splitlines() if line.startswith("rollouts_route_writes_total{")]
        assert 'router="gatewayAPI"' in writes
        assert (stored_weights(stage), len(events), float(drifts)) == ((90, 10), 1, 1.0)

    play_routed(world(*TO_THE_GATE), script)


@pytest.mark.parametrize("deleted_at", [1, 4])
def test_a_deleted_rollouts_route_is_as_its_user_wrote_it(deleted_at: int) -> None:
    """In the middle of a step, or when it is long at rest: nothing of ours stays in the route."""

    async def script(stage: Stage, _users: Users) -> None:
        stage.image("2")
        await at(stage, 1)
        if deleted_at == 4:
            await promoted(stage)
            await stage.until_phase("Healthy", "2")
        stage.delete()
        await stage.until(lambda: not route_of(stage)["metadata"].get("labels"))
        left, users = route_of(stage), http_route()["spec"]["rules"][-1]["backendRefs"]
        assert left["spec"]["rules"][-1]["backendRefs"] == [each | {"group": "", "kind": "Service"} for each in users]
        assert not left["metadata"].get("annotations")

    play_routed(world(weight(10), {"pause": {}}, weight(50), STAY), script)


def test_a_step_that_the_route_cannot_say_is_told_and_everything_else_goes_on() -> None:
    """A foreign backend fixes the total, so 10 % of the pair cannot be written; an abort gets out of it."""

    async def script(stage: Stage, _users: Users) -> None:
        stage.image("2")
        await stage.until(lambda: stage.status["phase"] == "Degraded")
        ready = next(each for each in stage.status["conditions"] if each["type"] == "Stalled")
        assert sum(stage.sizes().values()) == 5, "the canary's pod was made all the same"
        stage.annotate("abort", stage.status["currentRevision"])
        await stage.until_phase("Aborted", "2")
        assert (ready["status"], ready["reason"], stage.status["phase"]) == ("True", "RouteNotUsable", "Aborted")

    users = http_route(stable=3, canary=0, other=1)
    play_routed(world(weight(10), {"pause": {}}, route=users), script, behind=None)
