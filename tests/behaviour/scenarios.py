"""Small worlds and what people do in them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rollouts.objects import Manifest
from rollouts.sim.faults import FaultTape
from tests import build
from tests.behaviour.stage import AT_ONCE_S, KEY, Run, Script, Stage, play


def service(name: str) -> Manifest:
    """A Service of the Rollout's pods."""
    return build.service(name, KEY.namespace, app=KEY.name)


def rollout(strategy: Manifest, *, pre_stop_s: int = 0, **spec: Any) -> Manifest:
    """A Rollout of two pods of image 1; they end gracefully when `pre_stop_s` is given."""
    container = {"lifecycle": {"preStop": {"sleep": {"seconds": pre_stop_s}}}} if pre_stop_s else {}
    pods = build.pod_template(KEY.name, image="web:1", container=container, terminationGracePeriodSeconds=30)
    return build.rollout(strategy, KEY.name, KEY.namespace, template=pods, **spec)


def canary(*steps: Manifest, services: bool = False, **options: Any) -> Manifest:
    """A canary strategy, with `stable` and `canary` Services or by the ratio of pods alone."""
    names = {"stableService": "stable", "canaryService": "canary"} if services else {}
    return build.canary(*steps, **{**names, **options})


def blue_green(**options: Any) -> Manifest:
    """A blue-green strategy with `active` and `preview` Services."""
    return build.blue_green(**{"scaleDownDelaySeconds": 2, "previewReplicaCount": 1, **options})


HALF: Manifest = {"setWeight": 50}
MANUAL: Manifest = {"pause": {}}
SHORT: Manifest = {"pause": {"duration": "2s"}}
STABLE_AND_CANARY = (service("stable"), service("canary"))
ACTIVE_AND_PREVIEW = (service("active"), service("preview"))


@dataclass(frozen=True)
class Scenario:
    """A world, a script, and how it ends.

    Args:
        phase: at the end; empty when the Rollout is gone.
        sizes: of the ReplicaSets at the end, by image tag.
    """

    name: str
    manifests: tuple[Manifest, ...]
    script: Script
    phase: str = "Healthy"
    sizes: dict[str, int] = field(default_factory=lambda: {"1": 0, "2": 2})


async def updated(stage: Stage) -> None:
    """Image 1 serves, image 2 goes through its steps by itself."""
    await stage.until_phase("Healthy", "1")
    await stage.update("2", "Healthy")


async def at_gate(stage: Stage) -> None:
    """Image 1 serves, image 2 stands at its gate."""
    await stage.until_phase("Healthy", "1")
    await stage.update("2", "Paused")


async def promoted(stage: Stage) -> None:
    """Somebody promotes image 2 at its gate, by its revision and step."""
    await at_gate(stage)
    step = stage.status.get("currentStepIndex", 0)
    await stage.order("promote", f"{stage.status['currentRevision']}@{step}", "Healthy", "2")


async def aborted_and_retried(stage: Stage) -> None:
    """Image 2 is aborted at its gate, tried again, and promoted in full, each by `true`."""
    await at_gate(stage)
    await stage.order("abort", "true", "Aborted", "2")
    await stage.until(lambda: stage.available("1") == 2)
    await stage.order("retry", "true", "Paused", "2")
    await stage.order("promote", f"{stage.status['currentRevision']}@full", "Healthy", "2")


async def aborted_and_taken_back(stage: Stage) -> None:
    """Image 2 is aborted by a declaration; then the template goes back to image 1."""
    await at_gate(stage)
    await stage.order("abort", stage.status["currentRevision"], "Aborted", "2")
    await stage.update("1", "Healthy")


async def superseded(stage: Stage) -> None:
    """Image 3 comes while image 2 stands at its gate, image 4 as soon as image 3 has a ReplicaSet."""
    await at_gate(stage)
    stage.image("3")
    await stage.until(lambda: "3" in stage.sizes())
    await stage.update("4", "Paused")
    await stage.order("promote", "true", "Healthy", "4")


async def scaled(stage: Stage) -> None:
    """2 → 4 → 1 → 2 pods while image 2 stands at its gate; of 1 pod each side needs one, so there are 2 all the same."""
    await at_gate(stage)
    for replicas, pods in ((4, 4), (1, 2), (2, 2)):
        stage.edit({"spec": {"replicas": replicas}})
        await stage.until(lambda: sum(map(stage.available, "12")) == pods)  # noqa: B023 - awaited at once
    await stage.order("promote", "true", "Healthy", "2")


async def bad_then_good(stage: Stage) -> None:
    """A bad image makes no progress and is aborted by its deadline; a good one follows."""
    await stage.until_phase("Healthy", "1")
    await stage.update("bad", "Aborted")
    await stage.update("2", "Healthy")


async def rolled_back(stage: Stage) -> None:
    """Image 2 is stable; then a rollback to what was before it, without touching the template."""
    await updated(stage)
    await stage.order("rollback", f"previous@{stage.status['currentRevision']}", "RolledBack", "1")


async def deleted(stage: Stage) -> None:
    """The Rollout is deleted in the middle of a step."""
    await at_gate(stage)
    stage.delete()
    await stage.until(lambda: not stage.sizes())


async def applied_again(stage: Stage) -> None:
    """The Rollout is deleted at its gate, its ReplicaSets are left, and it is applied again."""
    await at_gate(stage)
    stage.cluster.apply(await stage.delete_and_orphan())
    await stage.until_phase("Paused", "2")
    await stage.order("promote", "true", "Healthy", "2")


def played(name: str, tape: FaultTape | None = None, *, grace_s: float = AT_ONCE_S) -> Run:
    """A scenario of `SCENARIOS`, with or without faults; see `stage.play`."""
    return play(SCENARIOS[name].manifests, SCENARIOS[name].script, tape=tape, grace_s=grace_s)


BY_RATIO = (rollout(canary(HALF, MANUAL)),)
IMPATIENT = (rollout(canary(HALF), progressDeadlineSeconds=10, progressDeadlineAbort=True),)
WITH_SERVICES = (*STABLE_AND_CANARY, rollout(canary(HALF, MANUAL, services=True)))
BY_TIME = (*STABLE_AND_CANARY, rollout(canary(HALF, SHORT, services=True)))
AT_ONCE = (*STABLE_AND_CANARY, rollout(canary(HALF, services=True)))
TAKEN_BACK, SUPERSEDED = {"1": 2, "2": 0}, {"1": 0, "2": 0, "3": 0, "4": 2}


def _blue_green(**options: Any) -> tuple[Manifest, ...]:
    return (*ACTIVE_AND_PREVIEW, rollout(blue_green(**options)))


SCENARIOS = {
    each.name.replace(" ", "-"): each
    for each in (
        Scenario("canary promoted", BY_RATIO, promoted),
        Scenario("canary aborted and retried", BY_RATIO, aborted_and_retried),
        Scenario("canary scaled", BY_RATIO, scaled),
        Scenario("canary with a bad image", IMPATIENT, bad_then_good, sizes={"1": 0, "bad": 0, "2": 2}),
        Scenario("canary with services by time", BY_TIME, updated),
        Scenario("canary with services taken back", WITH_SERVICES, aborted_and_taken_back, sizes=TAKEN_BACK),
        Scenario("canary with services superseded", WITH_SERVICES, superseded, sizes=SUPERSEDED),
        Scenario("canary with services rolled back", AT_ONCE, rolled_back, phase="RolledBack", sizes=TAKEN_BACK),
        Scenario("canary with services deleted", WITH_SERVICES, deleted, phase="", sizes={}),
        Scenario("canary with services applied again", WITH_SERVICES, applied_again),
        Scenario("blue-green by time", _blue_green(autoPromotionSeconds=1), updated),
        Scenario(
            "blue-green aborted and retried",
            _blue_green(autoPromotionEnabled=False, abortScaleDownDelaySeconds=2),
            aborted_and_retried,
        ),
        Scenario("blue-green superseded", _blue_green(autoPromotionEnabled=False), superseded, sizes=SUPERSEDED),
    )
}
