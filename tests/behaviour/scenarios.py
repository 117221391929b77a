"""Small worlds and what people do in them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rollouts.objects import ROLLOUT, Manifest
from rollouts.sim.faults import FaultTape
from tests.behaviour.stage import AT_ONCE_S, KEY, Run, Script, Stage, play


def service(name: str) -> Manifest:
    """A Service of the Rollout's pods."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": KEY.namespace},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
    }


def rollout(strategy: Manifest, *, replicas: int = 2, pre_stop_s: int = 0, **spec: Any) -> Manifest:
    """A Rollout of image 1; its pods end gracefully when `pre_stop_s` is given."""
    container: Manifest = {"name": "app", "image": "web:1"}
    if pre_stop_s:
        container["lifecycle"] = {"preStop": {"sleep": {"seconds": pre_stop_s}}}
    return {
        "apiVersion": ROLLOUT.api_version,
        "kind": ROLLOUT.kind,
        "metadata": {"name": KEY.name, "namespace": KEY.namespace},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "strategy": strategy,
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [container], "terminationGracePeriodSeconds": 30},
            },
            **spec,
        },
    }


def canary(*steps: Manifest, services: bool = False, **options: Any) -> Manifest:
    """A canary strategy, with `stable` and `canary` Services or by the ratio of pods alone."""
    names = {"stableService": "stable", "canaryService": "canary"} if services else {}
    return {"canary": {"maxSurge": 1, "maxUnavailable": 0, **names, **options, "steps": list(steps)}}


def blue_green(**options: Any) -> Manifest:
    """A blue-green strategy with `active` and `preview` Services."""
    names = {"activeService": "active", "previewService": "preview"}
    return {"blueGreen": {**names, "scaleDownDelaySeconds": 2, "previewReplicaCount": 1, **options}}


HALF: Manifest = {"setWeight": 50}
MANUAL: Manifest = {"pause": {}}
SHORT: Manifest = {"pause": {"duration": "2s"}}
STABLE_AND_CANARY = (service("stable"), service("canary"))
ACTIVE_AND_PREVIEW = (service("active"), service("preview"))


@dataclass(frozen=True)
class Scenario:
    """A world, a script, and how it ends.

    Args:
        name: in words.
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
    stage.image("2")
    await stage.until_phase("Healthy", "2")


async def promoted(stage: Stage) -> None:
    """Somebody promotes image 2 at its gate, by its revision and step."""
    await stage.until_phase("Healthy", "1")
    stage.image("2")
    await stage.until_phase("Paused", "2")
    stage.annotate("promote", f"{stage.status['currentRevision']}@{stage.status.get('currentStepIndex', 0)}")
    await stage.until_phase("Healthy", "2")


async def aborted_and_retried(stage: Stage) -> None:
    """Image 2 is aborted at its gate, tried again, and promoted in full, each by `true`."""
    await stage.until_phase("Healthy", "1")
    stage.image("2")
    await stage.until_phase("Paused", "2")
    stage.annotate("abort", "true")
    await stage.until_phase("Aborted", "2")
    await stage.until(lambda: stage.available("1") == 2)
    stage.annotate("retry", "true")
    await stage.until_phase("Paused", "2")
    stage.annotate("promote", f"{stage.status['currentRevision']}@full")
    await stage.until_phase("Healthy", "2")


async def aborted_and_taken_back(stage: Stage) -> None:
    """Image 2 is aborted by a declaration; then the template goes back to image 1."""
    await stage.until_phase("Healthy", "1")
    stage.image("2")
    await stage.until_phase("Paused", "2")
    stage.annotate("abort", stage.status["currentRevision"])
    await stage.until_phase("Aborted", "2")
    stage.image("1")
    await stage.until_phase("Healthy", "1")


async def superseded(stage: Stage) -> None:
    """Image 3 comes while image 2 stands at its gate, image 4 as soon as image 3 has a ReplicaSet."""
    await stage.until_phase("Healthy", "1")
    stage.image("2")
    await stage.until_phase("Paused", "2")
    stage.image("3")
    await stage.until(lambda: "3" in stage.sizes())
    stage.image("4")
    await stage.until_phase("Paused", "4")
    stage.annotate("promote", "true")
    await stage.until_phase("Healthy", "4")


async def scaled(stage: Stage) -> None:
    """2 → 4 → 1 → 2 pods while image 2 stands at its gate; of 1 pod each side needs one, so there are 2 all the same."""
    await stage.until_phase("Healthy", "1")
    stage.image("2")
    await stage.until_phase("Paused", "2")
    for replicas, pods in ((4, 4), (1, 2), (2, 2)):
        stage.edit({"spec": {"replicas": replicas}})
        await stage.until(lambda: sum(map(stage.available, "12")) == pods)  # noqa: B023 - awaited at once
    stage.annotate("promote", "true")
    await stage.until_phase("Healthy", "2")


async def bad_then_good(stage: Stage) -> None:
    """A bad image makes no progress and is aborted by its deadline; a good one follows."""
    await stage.until_phase("Healthy", "1")
    stage.image("bad")
    await stage.until_phase("Aborted", "bad")
    stage.image("2")
    await stage.until_phase("Healthy", "2")


async def rolled_back(stage: Stage) -> None:
    """Image 2 is stable; then a rollback to what was before it, without touching the template."""
    await updated(stage)
    stage.annotate("rollback", f"previous@{stage.status['currentRevision']}")
    await stage.until_phase("RolledBack", "1")


async def deleted(stage: Stage) -> None:
    """The Rollout is deleted in the middle of a step."""
    await stage.until_phase("Healthy", "1")
    stage.image("2")
    await stage.until_phase("Paused", "2")
    stage.delete()
    await stage.until(lambda: not stage.sizes())


async def applied_again(stage: Stage) -> None:
    """The Rollout is deleted at its gate, its ReplicaSets are left, and it is applied again."""
    await stage.until_phase("Healthy", "1")
    stage.image("2")
    await stage.until_phase("Paused", "2")
    stage.cluster.apply(await stage.delete_and_orphan())
    await stage.until_phase("Paused", "2")
    stage.annotate("promote", "true")
    await stage.until_phase("Healthy", "2")


def played(name: str, tape: FaultTape | None = None, *, grace_s: float = AT_ONCE_S) -> Run:
    """A scenario of `SCENARIOS`, with or without faults; see `stage.play`."""
    return play(SCENARIOS[name].manifests, SCENARIOS[name].script, tape=tape, grace_s=grace_s)


SCENARIOS = {
    each.name.replace(" ", "-"): each
    for each in (
        Scenario("canary promoted", (rollout(canary(HALF, MANUAL)),), promoted),
        Scenario("canary aborted and retried", (rollout(canary(HALF, MANUAL)),), aborted_and_retried),
        Scenario("canary scaled", (rollout(canary(HALF, MANUAL)),), scaled),
        Scenario(
            "canary with a bad image",
            (rollout(canary(HALF), progressDeadlineSeconds=10, progressDeadlineAbort=True),),
            bad_then_good,
            sizes={"1": 0, "bad": 0, "2": 2},
        ),
        Scenario(
            "canary with services by time", (*STABLE_AND_CANARY, rollout(canary(HALF, SHORT, services=True))), updated
        ),
        Scenario(
            "canary with services taken back",
            (*STABLE_AND_CANARY, rollout(canary(HALF, MANUAL, services=True))),
            aborted_and_taken_back,
            sizes={"1": 2, "2": 0},
        ),
        Scenario(
            "canary with services superseded",
            (*STABLE_AND_CANARY, rollout(canary(HALF, MANUAL, services=True))),
            superseded,
            sizes={"1": 0, "2": 0, "3": 0, "4": 2},
        ),
        Scenario(
            "canary with services rolled back",
            (*STABLE_AND_CANARY, rollout(canary(HALF, services=True))),
            rolled_back,
            phase="RolledBack",
            sizes={"1": 2, "2": 0},
        ),
        Scenario(
            "canary with services deleted",
            (*STABLE_AND_CANARY, rollout(canary(HALF, MANUAL, services=True))),
            deleted,
            phase="",
            sizes={},
        ),
        Scenario(
            "canary with services applied again",
            (*STABLE_AND_CANARY, rollout(canary(HALF, MANUAL, services=True))),
            applied_again,
        ),
        Scenario("blue-green by time", (*ACTIVE_AND_PREVIEW, rollout(blue_green(autoPromotionSeconds=1))), updated),
        Scenario(
            "blue-green aborted and retried",
            (*ACTIVE_AND_PREVIEW, rollout(blue_green(autoPromotionEnabled=False, abortScaleDownDelaySeconds=2))),
            aborted_and_retried,
        ),
        Scenario(
            "blue-green superseded",
            (*ACTIVE_AND_PREVIEW, rollout(blue_green(autoPromotionEnabled=False))),
            superseded,
            sizes={"1": 0, "2": 0, "3": 0, "4": 2},
        ),
    )
}
