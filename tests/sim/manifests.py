"""Manifests that the tests of the simulated cluster begin with, all of namespace `default`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from rollouts.objects import REPLICA_SET, Kind, Manifest
from rollouts.sim.clock import run_virtual
from rollouts.sim.cluster import SimulatedCluster
from rollouts.sim.network.consumption import CORE_SECONDS_PER_REQUEST, IDLE_CORES, MEMORY_BYTES
from rollouts.sim.network.gateway_types import HTTP_ROUTE
from tests import build
from tests.build import backend, http_rule

GATEWAY_NAME = "public"
Seen = TypeVar("Seen")


def replica_set(name: str, *, replicas: int, image: str = "app:1", **options: Any) -> Manifest:
    """A ReplicaSet; `pre_stop_s`, `grace_s`, `startup_s`, `min_ready_s` are seconds, `annotations` are the pods'."""
    container: Manifest = {}
    if "pre_stop_s" in options:
        container["lifecycle"] = {"preStop": {"sleep": {"seconds": options["pre_stop_s"]}}}
    annotations = {"sim.rollouts.dev/startup-seconds": str(options["startup_s"])} if "startup_s" in options else {}
    annotations |= options.get("annotations", {})
    labels = {"app": options.get("app", name), "rollouts.dev/revision": options.get("revision", "r1"), "set": name}
    pod = {"terminationGracePeriodSeconds": options["grace_s"]} if "grace_s" in options else {}
    metadata = {"labels": labels, "annotations": annotations}
    return build.replica_set(
        name,
        "default",
        replicas=replicas,
        minReadySeconds=options.get("min_ready_s", 0),
        selector={"matchLabels": {"set": name}},
        template=build.pod_template(name, image=image, container=container, metadata=metadata, **pod),
    )


def service(name: str, **selector: str) -> Manifest:
    """A Service that selects by `app`, or by what is given."""
    return build.service(name, "default", metadata={"labels": {"rollouts.dev/managed": "true"}}, **selector)


def version(name: str, *, replicas: int = 1, use: dict[str, str] | None = None, **options: Any) -> Manifest:
    """A ReplicaSet whose pods have a container `app` that requests 100m, and a sidecar `proxy` that requests 50m.

    `use` are values of the annotations: `idle`, `request`, `memory`.
    """
    names = {"idle": IDLE_CORES, "request": CORE_SECONDS_PER_REQUEST, "memory": MEMORY_BYTES}
    annotations = {names[key]: value for key, value in (use or {}).items()}
    manifest = replica_set(name, replicas=replicas, startup_s=1, annotations=annotations, **options)
    containers = manifest["spec"]["template"]["spec"]["containers"]
    containers[0]["resources"] = {"requests": {"cpu": "100m", "memory": "64Mi"}}
    containers.append(
        {"name": "proxy", "image": "proxy:1", "resources": {"requests": {"cpu": "50m", "memory": "16Mi"}}}
    )
    return manifest


def autoscaler(name: str, **spec: Any) -> Manifest:
    """An autoscaler of a ReplicaSet of that name, by half of the CPU of its container `app`."""
    return build.autoscaler(name, "default", target=REPLICA_SET, **spec)


def http_route(*rules: Manifest, name: str = "web") -> Manifest:
    """A route of the gateway `public`."""
    spec = {"parentRefs": [{"name": GATEWAY_NAME}], "rules": list(rules)}
    return build.manifest(HTTP_ROUTE, name, "default", spec=spec)


def split(stable: int, canary: int, *more: Manifest) -> Manifest:
    """A route with one weighted rule between `stable` and `canary`, and what else is given before it."""
    return http_route(*more, http_rule(backend("stable", stable), backend("canary", canary)))


def stored(cluster: SimulatedCluster, kind: Kind, name: str) -> Manifest:
    """An object that must be there."""
    found = cluster.get(kind, "default", name)
    assert found is not None
    return found


def followed(manifest: Manifest, look: Callable[[SimulatedCluster], Seen], *at_s: float) -> list[Seen]:
    """What is seen of a cluster with this object, so many seconds after its creation."""

    async def run() -> list[Seen]:
        async with SimulatedCluster(seed=4) as cluster:
            cluster.apply(manifest)
            seen, gone_s = [], 0.0
            for each in at_s:
                await asyncio.sleep(each - gone_s)
                gone_s = each
                seen.append(look(cluster))
            return seen

    return run_virtual(run())
