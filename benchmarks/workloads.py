"""N workloads of two pods each, as Deployments and as Rollouts: made, given a new image, and awaited, both in the same way.

Both have the same pod template, which names its node: no scheduler takes part, kwok makes the pods ready at once.
Both may have one pod more than wanted and none less during an update (25 % of 2, rounded up and down).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from benchmarks.api import MERGE_PATCH, Api, for_each
from tests.lab.control_plane import NODES

REPLICAS = 2
LIMIT_S = 3_600.0

Object = dict[str, Any]
OnDone = Callable[[int], object]
"""Called with the number of workloads that are done, whenever it changes."""


@dataclass(frozen=True, slots=True)
class Workload:
    """One of the two kinds.

    Args:
        path: of the collection in all namespaces' API group, with `{namespace}` in it.
        is_done: whether an object, as the API server shows it, has carried out its present spec and all pods are the new ones.
    """

    title: str
    api_version: str
    kind: str
    group_path: str
    plural: str
    strategy: Mapping[str, Any]
    is_done: Callable[[Object], bool]

    def collection(self, namespace: str) -> str:
        """Path of the collection."""
        return f"{self.group_path}/namespaces/{namespace}/{self.plural}"

    def manifest(self, name: str, *, image: str, strategy: Mapping[str, Any] | None = None) -> Object:
        """The object with two replicas."""
        labels = {"app": name}
        return {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "metadata": {"name": name},
            "spec": {
                "replicas": REPLICAS,
                "selector": {"matchLabels": labels},
                "strategy": strategy or self.strategy,
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {
                        "nodeName": NODES[hash_of(name) % len(NODES)],
                        "containers": [{"name": "app", "image": image}],
                        "terminationGracePeriodSeconds": 0,
                    },
                },
            },
        }


def hash_of(name: str) -> int:
    """A number that is the same in every run (`hash` is not)."""
    return int(name.rpartition("-")[2]) if name.rpartition("-")[2].isdigit() else len(name)


def _deployment_is_done(seen: Object) -> bool:
    status: Object = seen.get("status", {})
    counts = {status.get(name, 0) for name in ("replicas", "updatedReplicas", "availableReplicas")}
    return status.get("observedGeneration", 0) >= seen["metadata"]["generation"] and counts == {
        seen["spec"]["replicas"]
    }


def _rollout_is_done(seen: Object) -> bool:
    status = seen.get("status", {})
    return bool(
        status.get("observedGeneration", 0) >= seen["metadata"]["generation"]
        and status.get("phase") == "Healthy"
        and status.get("stableRevision") == status.get("currentRevision")
    )


DEPLOYMENTS = Workload(
    title="Deployments",
    api_version="apps/v1",
    kind="Deployment",
    group_path="/apis/apps/v1",
    plural="deployments",
    strategy={"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
    is_done=_deployment_is_done,
)
ROLLOUTS = Workload(
    title="Rollouts",
    api_version="rollouts.dev/v1alpha1",
    kind="Rollout",
    group_path="/apis/rollouts.dev/v1alpha1",
    plural="rollouts",
    strategy={"canary": {"maxSurge": "25%", "maxUnavailable": "25%", "steps": [{"setWeight": 50}]}},
    is_done=_rollout_is_done,
)
ARGO_ROLLOUTS = Workload(
    title="Argo Rollouts",
    api_version="argoproj.io/v1alpha1",
    kind="Rollout",
    group_path="/apis/argoproj.io/v1alpha1",
    plural="rollouts",
    strategy=ROLLOUTS.strategy,
    is_done=lambda seen: (
        seen.get("status", {}).get("observedGeneration") == str(seen["metadata"]["generation"])
        and seen["status"].get("phase") == "Healthy"
    ),
)


@dataclass(slots=True)
class Course:
    """How a phase went.

    Args:
        wall_s: from the first request to the last workload that was done.
        done_s: when each workload was done, seconds from the first request, in order.
    """

    wall_s: float = 0.0
    done_s: list[float] = field(default_factory=list)


async def create(api: Api, workload: Workload, namespace: str, *, count: int, on_done: OnDone) -> Course:
    """Creates `count` workloads and returns when all are done. Raises: TimeoutError."""
    collection = workload.collection(namespace)

    async def one(name: str) -> None:
        await api.request("POST", collection, workload.manifest(name, image="app:1"))

    return await _course(api, workload, namespace, names=_names(count), action=one, generation=1, on_done=on_done)


async def update(
    api: Api, workload: Workload, namespace: str, *, count: int, image: str, generation: int, on_done: OnDone
) -> Course:
    """Gives every workload a new image and returns when all are done. Raises: TimeoutError.

    Args:
        generation: that the update makes: 2 for the first one.
    """
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "app", "image": image}]}}}}
    collection = workload.collection(namespace)

    async def one(name: str) -> None:
        await api.request("PATCH", f"{collection}/{name}", patch, content_type=MERGE_PATCH)

    return await _course(
        api, workload, namespace, names=_names(count), action=one, generation=generation, on_done=on_done
    )


def _names(count: int) -> list[str]:
    return [f"app-{number:05}" for number in range(count)]


async def _course(
    api: Api,
    workload: Workload,
    namespace: str,
    *,
    names: list[str],
    action: Callable[[str], Any],
    generation: int,
    on_done: OnDone,
) -> Course:
    """Acts on every name and follows the collection until each object has done what `generation` asks."""
    collection = workload.collection(namespace)
    since = await api.version_of(collection)
    course = Course()
    waiting = set(names)
    began_s = time.monotonic()
    async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as tasks:
        acting = tasks.create_task(for_each(names, action))
        async with aclosing(api.watch(collection, since=since)) as seen:
            while waiting:
                line = await anext(seen)
                name = line.object["metadata"]["name"]
                current = line.object["metadata"]["generation"] >= generation
                if name in waiting and current and workload.is_done(line.object):
                    waiting.discard(name)
                    course.done_s.append(line.at_s - began_s)
                    on_done(len(course.done_s))
        await acting
    course.wall_s = course.done_s[-1]
    return course
