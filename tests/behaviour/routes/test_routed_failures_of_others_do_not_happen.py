"""Promise: what other controllers are known to have lost requests by, with weights in a router, does not happen here.

Each test plays what a published issue describes, with the real controller and a simulated gateway, and counts every request;
every write is held to what the proxies really do. Each is shown to see the failure, by the mistake made on purpose.
"""

from __future__ import annotations

import asyncio
import random
from fractions import Fraction
from itertools import groupby
from typing import Any

import pytest

from rollouts.manifests.ownership import REVISION
from rollouts.objects import POD, SERVICE, Manifest
from rollouts.sim.apiserver.verbs import WriteOptions
from rollouts.sim.faults import FaultyWatches, WatchFaults
from rollouts.sim.network.gateway import ENVOY, TRAEFIK, GatewaySettings
from rollouts.sim.storage.history import CommittedWrite
from tests.behaviour.routed import (
    STAY,
    Users,
    assert_good,
    play_routed,
    revision_of,
    rules_broken,
    set_weights,
    stored_share,
    stored_weights,
    weight,
    world,
)
from tests.behaviour.scenarios import MANUAL
from tests.behaviour.stage import KEY, Stage

GATEWAYS = pytest.mark.parametrize("settings", [ENVOY, TRAEFIK], ids=["quick", "two seconds late"])
DYNAMIC: Manifest = {"dynamicStableScale": True}


STALE = {
    "late": WatchFaults(delay_s=(0.01, 0.5)),
    "twice and late": WatchFaults(delay_s=(0.01, 0.3), duplicate=0.5),
    "stale lists": WatchFaults(streaming_lists=False, stale_lists=0.5, break_after=5),
}


@pytest.mark.parametrize("seed", (1, 2))
@pytest.mark.parametrize("trouble", STALE)
def test_an_old_view_never_wedges_an_update(trouble: str, seed: int) -> None:
    """P3, argo-rollouts issues 4073, 3316, 2522: a write-back from a stale cache, and the update stood for ever."""
    rng = random.Random(seed)  # noqa: S311 - a test's seed

    async def script(stage: Stage, users: Users) -> None:
        stage.image("2")
        await stage.until(lambda: stage.status.get("weight") == 25)
        await stage.update("3", "Healthy")

    steps = (weight(25), STAY, weight(100))
    late: dict[str, Any] = {"between": lambda api: FaultyWatches(api, STALE[trouble], rng), "grace_s": 45.0}
    assert_good(play_routed(world(*steps), script, seed=seed, **late))


@GATEWAYS
def test_the_canary_service_does_not_flap_after_an_abort(settings: GatewaySettings) -> None:
    """P5, argo-rollouts issues 3078, 4442, 4973: its selector went to and fro. Here it changes once, when nothing comes to it."""
    selected: list[str] = []
    came: list[bool] = []

    async def script(stage: Stage, users: Users) -> None:
        await stage.update("2", "Paused")
        bad = revision_of(stage, "2")

        def note(change: CommittedWrite) -> None:
            if change.new.key == (KEY.namespace, "canary"):
                came.append(stage.plane.reached(bad))
                selected.append((change.new.manifest["spec"].get("selector") or {}).get(REVISION, ""))

        stage.cluster.api.history.listen(SERVICE, note)
        await stage.order("abort", "true", "Aborted", "2")
        await asyncio.sleep(60.0)

    manifests = world(weight(50), MANUAL, strategy={"abortScaleDownDelaySeconds": 1})
    outcome = play_routed(manifests, script, settings=settings)

    assert_good(outcome, "Aborted")
    assert len([each for each, _ in groupby(selected)]) <= 1
    assert not any(came), "it changed while requests came to it"


def lose_readiness(stage: Stage, tag: str, *, keep: int) -> None:
    """All pods of an image but `keep` stop being ready, as after a bad deployment of what they depend on."""
    world_, revision = stage.cluster.world, revision_of(stage, tag)
    pods = [each for each in world_.history.select(POD, KEY.namespace) if each.labels.get(REVISION) == revision]
    for pod in pods[keep:]:
        conditions = [
            {**each, "status": "False"} if each["type"] in ("Ready", "ContainersReady") else each
            for each in pod.manifest["status"]["conditions"]
        ]
        unready = {**pod.manifest, "status": {**pod.manifest["status"], "conditions": conditions}}
        world_.verbs.update(world_.resource(POD), pod, unready, WriteOptions(manager="kubelet"), "status")


@GATEWAYS
def test_what_fails_just_before_its_promotion_takes_nothing_with_it(settings: GatewaySettings) -> None:
    """P9, flagger issues 1898 and 1931: all traffic went to a primary that could not start. Here the old pods stay whole.

    Of four new pods three fail at 50 %: the last step does not begin, and an abort finds the stable revision as it was.
    """

    async def script(stage: Stage, users: Users) -> None:
        await stage.update("2", "Paused")
        lose_readiness(stage, "2", keep=1)
        stage.annotate("promote", f"{stage.status['currentRevision']}@full")
        await asyncio.sleep(30.0)
        assert stored_share(stage) <= Fraction(1, 2)
        assert stage.available("1") == 4
        await stage.order("abort", stage.status["currentRevision"], "Aborted", "2")
        await stage.until(lambda: stored_share(stage) == 0)

    assert_good(play_routed(world(weight(50), MANUAL), script, settings=settings), "Aborted")


@GATEWAYS
def test_a_second_update_in_the_middle_brings_traffic_back_as_stable_has_pods(settings: GatewaySettings) -> None:
    """P14, argo-rollouts issue 3372: with dynamicStableScale all of the traffic went to a stable revision of few pods.

    At 75 % there is one stable pod of four. Its share grows with its pods, never before them, and the superseded pods go last.
    """
    shares: list[Fraction] = []

    async def script(stage: Stage, users: Users) -> None:
        await stage.update("2", "Paused")
        await stage.until(lambda: stage.sizes()["1"] == 1)
        await asyncio.sleep(10.0)  # its old pods are gone
        before = len(stage.plane.weights)
        stage.image("3")
        await stage.until(lambda: stored_share(stage) == 0)
        shares.extend(Fraction(canary, stable + canary) for _, stable, canary in stage.plane.weights[before:])
        await stage.until_phase("Paused", "3")
        await stage.order("promote", "true", "Healthy", "3")

    outcome = play_routed(world(weight(75), MANUAL, strategy=DYNAMIC), script, settings=settings)

    assert_good(outcome)
    assert shares == sorted(shares, reverse=True)
    assert len(set(shares)) > 1, "all at once"


@pytest.mark.parametrize(("drain", "kept"), [({}, True), ({"mode": "Off"}, False)], ids=["Auto", "Off"])
def test_slow_requests_end_before_the_old_pods_do(drain: Manifest, *, kept: bool) -> None:
    """P20, argo-rollouts issue 4926: old pods went as soon as the weight was 0, under requests that were still being answered."""

    async def script(stage: Stage, users: Users) -> None:
        await stage.update("2", "Healthy")

    slow = {"preStop": "Off", "maxRequestSeconds": 10, **drain}
    manifests = world(weight(50), weight(100), strategy={"scaleDownDelaySeconds": 0}, drain=slow)
    outcome = play_routed(manifests, script, duration_s=8.0)

    assert (outcome.users.lost == 0) == kept
    if kept:
        assert_good(outcome)


@GATEWAYS
def test_an_abort_onto_a_stable_side_that_shrank_waits_for_its_pods(settings: GatewaySettings) -> None:
    """P22, flagger issue 635: a restart of the analysis put all traffic on a primary that the autoscaler had shrunk.

    At 80 % the autoscaler halves and doubles the Rollout; then it is aborted. Stable gets what its pods can take, step by step.
    """
    shares: list[Fraction] = []

    async def script(stage: Stage, users: Users) -> None:
        await stage.update("2", "Paused")
        for replicas in (5, 10):
            stage.edit({"spec": {"replicas": replicas}})
            await asyncio.sleep(20.0)
        await stage.until(lambda: stage.sizes()["1"] == 2)
        before = len(stage.plane.weights)
        stage.annotate("abort", "true")
        await stage.until(lambda: stored_share(stage) == 0)
        shares.extend(Fraction(canary, stable + canary) for _, stable, canary in stage.plane.weights[before:])
        await stage.until_phase("Aborted", "2")

    outcome = play_routed(world(weight(80), MANUAL, replicas=10, strategy=DYNAMIC), script, settings=settings)

    assert_good(outcome, "Aborted")
    assert shares == sorted(shares, reverse=True)
    assert len(set(shares)) > 1, "all at once"


def test_the_rules_see_what_p14_and_p22_were() -> None:
    """The proof that the two tests above can fail: somebody puts all on stable while it has one pod, as those controllers did."""

    async def script(stage: Stage, users: Users) -> None:
        await stage.update("2", "Paused")
        await stage.until(lambda: stage.sizes()["1"] == 1)
        await asyncio.sleep(1.0)
        stage.witness.sender = "a mistaken controller"
        set_weights(stage, stable=100, canary=0)
        stage.witness.sender = ""
        await stage.until(lambda: stored_weights(stage) == (25, 75))

    outcome = play_routed(world(weight(75), MANUAL, strategy=DYNAMIC), script)

    assert "S1" in rules_broken(outcome.run)
