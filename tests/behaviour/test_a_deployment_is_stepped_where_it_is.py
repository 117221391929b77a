"""Promise: a Deployment keeps its pods, its ReplicaSets and its fields while a Rollout updates it in steps."""

from __future__ import annotations

import asyncio
from typing import Any

from rollouts.objects import DEPLOYMENT, REPLICA_SET, Manifest
from tests import build
from tests.behaviour.stage import KEY, Stage, play

NAME = KEY.name
LIMITS = {"maxSurge": "25%", "maxUnavailable": "25%"}
STEPS = [{"setWeight": 25}, {"pause": {}}, {"setWeight": 50}, {"pause": {}}]


def deployment(tag: str = "1", replicas: int = 4) -> Manifest:
    """The user's Deployment."""
    labels = {"app": NAME}
    template = build.pod_template(NAME, image=f"web:{tag}")
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "template": template,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": LIMITS},
    }
    return build.manifest(DEPLOYMENT, NAME, KEY.namespace, metadata={"labels": labels}, spec=spec)


def rollout(**reference: Any) -> Manifest:
    """A Rollout that steps it."""
    made = build.rollout({"canary": {"steps": STEPS}}, NAME, KEY.namespace)
    named = {"apiVersion": "apps/v1", "kind": "Deployment", "name": NAME, "mode": "InPlace", **reference}
    kept = {name: value for name, value in made["spec"].items() if name not in ("template", "selector", "replicas")}
    return {**made, "spec": {**kept, "workloadRef": named}}


def set_image(stage: Stage, tag: str) -> None:
    containers = build.pod_template(NAME, image=f"web:{tag}")["spec"]["containers"]
    stage.merge(DEPLOYMENT, NAME, {"spec": {"template": {"spec": {"containers": containers}}}})


def sizes(stage: Stage) -> dict[str, int]:
    """The size of each ReplicaSet with pods, by image."""
    found = stage.cluster.list(REPLICA_SET, KEY.namespace)
    images = {each["spec"]["template"]["spec"]["containers"][0]["image"]: each["spec"]["replicas"] for each in found}
    return {image.removeprefix("web:"): size for image, size in images.items() if size}


def test_an_update_stops_at_its_steps_and_gives_the_fields_back() -> None:
    async def script(stage: Stage) -> None:
        await stage.until(lambda: stage.status.get("phase") == "Healthy")
        set_image(stage, "2")
        await stage.until(lambda: stage.status.get("phase") == "Paused")
        assert sizes(stage) == {"1": 3, "2": 1}
        stage.annotate("promote", "true")
        await stage.until(lambda: sizes(stage) == {"1": 2, "2": 2} and stage.status.get("phase") == "Paused")
        stage.annotate("promote", "true")
        await stage.until(lambda: stage.status.get("phase") == "Healthy")
        await asyncio.sleep(5)
        assert sizes(stage) == {"2": 4}
        spec = stage.find(DEPLOYMENT, NAME)["spec"]
        assert spec["strategy"]["rollingUpdate"] == LIMITS
        assert spec.get("minReadySeconds", 0) == 0

    play((rollout(), deployment()), script)
