"""Promise: what other progressive-delivery controllers are known to have lost requests by does not happen here.

Each test plays what a published issue describes, with the real controller, and counts every request. Each is shown to see the
failure: the same run with the peer's mistake made on purpose, or with `drain.mode: Off`, loses requests or flaps.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from rollouts.manifests.ownership import REVISION
from rollouts.objects import POD, SERVICE, Manifest
from tests.behaviour.faults.under_load import RATE_PER_S, Watched, is_ending, watched
from tests.behaviour.scenarios import HALF, MANUAL, SHORT, at_gate, blue_green, canary, updated
from tests.behaviour.stage import Script, Stage

DYNAMIC = {"trafficRouting": {}, "dynamicStableScale": True}
ALL: Manifest = {"setWeight": 100}
OFF = {"mode": "Off"}


def nothing_is_lost(seen: Watched) -> None:
    """Every request was answered, and no write broke an invariant."""
    assert (seen.lost, seen.run.violations, seen.run.unexpected) == (0, [], [])
    assert seen.sent > 0


async def canary_misses_pods(stage: Stage) -> None:
    """Nodes are drained under the canary: every two seconds one of its pods goes, for as long as image 1 has any.

    Not in the very instant in which the first one is available: a write that is under way then cannot know of it.
    """
    await stage.until(lambda: stage.available("2") > 0)
    await asyncio.sleep(0.1)
    while stage.sizes().get("1"):
        pods = [each for each in stage.cluster.list(POD) if _tag(each) == "2" and not is_ending(each)]
        if pods:
            stage.remove(POD, pods[0]["metadata"]["name"])
        await asyncio.sleep(2.0)


def stable_without_pods_from(holds: Callable[[Stage], bool]) -> Script:
    """The peer's mistake, made on purpose: from that moment on every pod of image 1 goes, as if its ReplicaSet were at 0."""

    async def script(stage: Stage) -> None:
        await stage.until_phase("Healthy", "1")
        await stage.until(lambda: holds(stage))
        while True:
            for pod in stage.cluster.list(POD):
                if _tag(pod) == "1" and not is_ending(pod):
                    stage.remove(POD, pod["metadata"]["name"])
            await asyncio.sleep(0.25)  # less than a pod takes to be ready

    return script


def _tag(manifest: Manifest) -> str:
    spec = manifest["spec"].get("template", manifest)["spec"]
    return str(spec["containers"][0]["image"]).rpartition(":")[2]


LONG: Manifest = {"pause": {"duration": "15s"}}
ROUTED = canary(HALF, LONG, ALL, SHORT, services=True, scaleDownDelaySeconds=0, trafficRouting={})
DYNAMIC_STABLE = canary(HALF, SHORT, ALL, LONG, services=True, **DYNAMIC)


def test_stable_keeps_its_pods_while_the_canary_misses_some() -> None:
    """P1, argo-rollouts issue 2050: 110 stable pods were gone before the route left them, because canary pods were missing."""
    seen = watched(ROUTED, updated, "stable", alongside=canary_misses_pods)

    nothing_is_lost(seen)
    ((switched_s, new), *more) = seen.selected["stable"]
    (old,) = seen.shrunk
    assert (old != new, more) == (True, [])
    assert seen.shrunk[old][0][0] > switched_s, "pods of the stable revision went before its Service had switched"


def test_a_stable_side_that_shrinks_before_the_switch_is_seen() -> None:
    """The same update with that mistake planted: the Service's clients find nobody."""
    mistaken = stable_without_pods_from(lambda stage: stage.available("2") > 0)

    assert watched(ROUTED, updated, "stable", alongside=mistaken).lost > RATE_PER_S


def test_the_selector_is_switched_before_the_old_pods_are_gone() -> None:
    """P2, argo-rollouts issue 2235: with dynamicStableScale the old ReplicaSet was at 0 for minutes before the selector moved."""
    seen = watched(DYNAMIC_STABLE, updated, "stable")

    nothing_is_lost(seen)
    ((switched_s, new),) = seen.selected["stable"]
    (old,) = seen.shrunk
    assert old != new
    emptied_s = next(at_s for at_s, size in seen.shrunk[old] if size == 0)
    assert emptied_s > switched_s


def test_a_selector_that_is_switched_too_late_is_seen() -> None:
    """The same update, and somebody takes the last old pods when all new ones are there but the Service has not moved."""
    mistaken = stable_without_pods_from(lambda stage: stage.available("2") == 4)

    assert watched(DYNAMIC_STABLE, updated, "stable", alongside=mistaken).lost > RATE_PER_S


async def aborted(stage: Stage) -> None:
    """Image 2 is aborted at its gate, and nothing follows for longer than the canary's pods are kept."""
    await at_gate(stage)
    await stage.order("abort", "true", "Aborted", "2")
    await stage.until(lambda: stage.sizes().get("2") == 0)


async def stale_writer(stage: Stage) -> None:
    """The peer's mistake, made on purpose: after the abort somebody writes the canary's revision back into its Service."""
    await stage.until_phase("Paused", "2")
    revision = stage.status["currentRevision"]
    await stage.until_phase("Aborted", "2")
    await stage.until(lambda: _selects(stage, "canary") != revision)
    stage.merge(SERVICE, "canary", {"spec": {"selector": {REVISION: revision}}})


def _selects(stage: Stage, name: str) -> str:
    return str(stage.find(SERVICE, name)["spec"]["selector"].get(REVISION, ""))


ABORTED = canary(HALF, MANUAL, services=True, trafficRouting={}, abortScaleDownDelaySeconds=30)


def test_the_canary_service_goes_back_once_after_an_abort() -> None:
    """P5, argo-rollouts issues 3078, 4442 and 4973: it alternated for all of abortScaleDownDelaySeconds."""
    seen = watched(ABORTED, aborted, "stable", "canary")

    nothing_is_lost(seen)
    revisions = [revision for _, revision in seen.selected["canary"]]
    assert len(revisions) == 2, "to the new revision for the update, and back for the abort"
    assert revisions[0] != revisions[1]
    assert "stable" not in seen.selected, "nothing was ever to do there"


def test_a_canary_service_that_flaps_is_seen() -> None:
    """The same abort with one stale write: the Service goes there and back once more."""
    seen = watched(ABORTED, aborted, "canary", alongside=stale_writer)

    assert len(seen.selected["canary"]) >= 4


SOCKETS = {
    "blue-green": (blue_green(autoPromotionSeconds=1, scaleDownDelaySeconds=0), "active"),
    "canary with services": (canary(ALL, services=True, trafficRouting={}, scaleDownDelaySeconds=0), "stable"),
}


AUTO_AND_OFF = pytest.mark.parametrize(("drain", "kept"), [({}, True), (OFF, False)], ids=["Auto", "Off"])


@pytest.mark.parametrize("name", SOCKETS)
@AUTO_AND_OFF
def test_open_websockets_end_by_themselves_at_a_promotion(name: str, drain: Manifest, *, kept: bool) -> None:
    """P8, argo-rollouts issue 3761: they were cut when the Service moved on. Here old pods outlast them."""
    strategy, service = SOCKETS[name]
    drained = {"maxRequestSeconds": 60, **drain}
    seen = watched(strategy, updated, service, duration_s=60.0, rate_per_s=2.0, drain=drained)

    assert seen.sent > 100
    assert (seen.lost == 0) == kept, f"{seen.lost} of {seen.sent} were cut"


@AUTO_AND_OFF
def test_stable_pods_that_a_step_takes_are_called_no_more_when_they_end(drain: Manifest, *, kept: bool) -> None:
    """P20, argo-rollouts issue 4926: dynamicStableScale took pods at each step at once, while proxies still sent them some."""
    seen = watched(canary(HALF, SHORT, services=True, **DYNAMIC), updated, "stable", drain=drain)

    assert seen.run.violations == []
    assert (seen.lost == 0) == kept, f"{seen.lost} of {seen.sent} were lost"


@AUTO_AND_OFF
def test_the_last_stable_pods_wait_for_what_is_in_flight(drain: Manifest, *, kept: bool) -> None:
    """P20 at the end of the update: the stable Service has moved, and `scaleDownDelaySeconds` may not be given there."""
    request_s = 10.0
    drained = {"maxRequestSeconds": int(request_s), **drain}
    seen = watched(canary(HALF, ALL, services=True, **DYNAMIC), updated, "stable", drain=drained)

    (old,) = seen.cut
    ((switched_s, _),) = seen.selected["stable"]
    assert seen.run.violations == []
    assert (max(seen.cut[old]) > switched_s + request_s) == kept
