"""A Deployment that a Rollout updates in place, in a namespace with a controller."""

from __future__ import annotations

import asyncio
from typing import Any

from rollouts.objects import DEPLOYMENT, POD, REPLICA_SET, ROLLOUT, Kind, Manifest
from tests import build
from tests.cli.shop import Shop
from tests.patience import PATIENCE_S

LIMITS = {"maxSurge": "25%", "maxUnavailable": "25%"}
LABELS = {"app": "cart"}


def deployment(tag: str = "1", **more: Any) -> Manifest:
    """The user's manifest of four pods."""
    spec = {
        "replicas": 4,
        "selector": {"matchLabels": LABELS},
        "template": build.pod_template("cart", image=f"cart:{tag}"),
        "strategy": {"type": "RollingUpdate", "rollingUpdate": LIMITS},
    }
    return build.manifest(DEPLOYMENT, "cart", metadata={"labels": LABELS}, spec={**spec, **more})


def rollout(steps: list[Manifest] | None = None, **more: Any) -> Manifest:
    """The Rollout that steps it: 25 %, and then it waits."""
    named = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "cart", "mode": "InPlace"}
    strategy = {"canary": {"steps": steps or [{"setWeight": 25}, {"pause": {}}]}}
    return build.manifest(ROLLOUT, "cart", spec={"workloadRef": named, "strategy": strategy, **more})


def apply(shop: Shop, manifest: Manifest) -> None:
    """As `kubectl apply` does."""
    assert shop.stage.sim is not None
    metadata = {**manifest["metadata"], "namespace": shop.namespace}
    shop.stage.sim.apply({**manifest, "metadata": metadata})


def objects(shop: Shop, kind: Kind = REPLICA_SET) -> list[Manifest]:
    """The ReplicaSets of the namespace, or its objects of another kind."""
    assert shop.stage.sim is not None
    return shop.stage.sim.list(kind, shop.namespace)


def revision(shop: Shop, tag: str) -> str:
    """What the Deployment's controller calls the template with that tag."""
    (found,) = [
        each["metadata"]["labels"]["pod-template-hash"]
        for each in objects(shop)
        if each["spec"]["template"]["spec"]["containers"][0]["image"] == f"cart:{tag}"
    ]
    return str(found)


def pods(shop: Shop, tag: str) -> set[str]:
    """The names of the pods with that tag."""
    found = objects(shop, POD)
    return {each["metadata"]["name"] for each in found if each["spec"]["containers"][0]["image"] == f"cart:{tag}"}


async def rolled_out(shop: Shop, manifest: Manifest, tag: str) -> None:
    """Applies a Deployment, and waits until its own controller has rolled it out."""
    apply(shop, manifest)

    def ready() -> int:
        counts = {
            each["spec"]["template"]["spec"]["containers"][0]["image"]: each.get("status", {}).get("readyReplicas", 0)
            for each in objects(shop)
            if each["spec"]["replicas"]
        }
        return counts.get(f"cart:{tag}", 0) if len(counts) == 1 else 0

    async with asyncio.timeout(PATIENCE_S):
        while ready() < manifest["spec"]["replicas"]:
            shop.stage.followed.changed.clear()
            await shop.stage.followed.changed.wait()


async def at_rest(shop: Shop, *, before: str = "") -> Shop:
    """The shop with the Deployment at rest, whose template was another one before there was a Rollout."""
    for tag in filter(None, (before, "1")):
        await rolled_out(shop, deployment(tag), tag)
    await shop.stage.install([shop.service()])
    apply(shop, rollout())
    await shop.reaches("Healthy")
    return shop


async def in_a_step(shop: Shop) -> Shop:
    """The shop with the Deployment's second template at 25 %."""
    apply(await at_rest(shop), deployment("2"))
    await shop.reaches("Paused")
    return shop
