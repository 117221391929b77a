"""Workloads of the three kinds that keep their pods, and what people do with them while a Rollout steps them."""

from __future__ import annotations

import asyncio
from typing import Any

from rollouts.core.model.workload_ref import WorkloadKind
from rollouts.objects import POD, Manifest
from rollouts.sim.storage.registry import NODE
from tests import build
from tests.behaviour.stage import KEY, Stage

REPLICAS = 4
STEPS: tuple[Manifest, ...] = ({"setWeight": 25}, {"pause": {}}, {"setWeight": 50}, {"pause": {}})
_HOME = {"daemons": "here"}
_LIMITS = {"maxSurge": 1, "maxUnavailable": 1}
_OWN: dict[WorkloadKind, Manifest] = {
    WorkloadKind.DEPLOYMENT: {
        "replicas": REPLICAS,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": _LIMITS},
    },
    WorkloadKind.STATEFUL_SET: {
        "replicas": REPLICAS,
        "serviceName": KEY.name,
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
    },
    WorkloadKind.DAEMON_SET: {
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
    },
}
KINDS = tuple(_OWN)
AT_REST_S = 5.0
"""From the first revision to what holds the next one where no policy does."""


def manifests(kind: WorkloadKind, *, pre_stop_s: int = 0, **strategy: Any) -> tuple[Manifest, ...]:
    """A workload of image 1, with four pods or nodes, and a Rollout that steps it."""
    on_nodes = kind is WorkloadKind.DAEMON_SET
    container = {"lifecycle": {"preStop": {"sleep": {"seconds": pre_stop_s}}}} if pre_stop_s else {}
    pods = build.pod_template(
        KEY.name,
        image="web:1",
        container=container,
        terminationGracePeriodSeconds=30,
        **({"nodeSelector": _HOME} if on_nodes else {}),
    )
    spec = {**_OWN[kind], "selector": {"matchLabels": {"app": KEY.name}}, "template": pods}
    made = build.rollout({"canary": {"steps": STEPS, **strategy}}, KEY.name, KEY.namespace)
    reference = {"apiVersion": kind.resource.api_version, "kind": kind.value, "name": KEY.name, "mode": "InPlace"}
    nodes = [build.manifest(NODE, f"d{number}", None, metadata={"labels": _HOME}) for number in range(REPLICAS)]
    return (
        *(nodes if on_nodes else ()),
        build.manifest(kind.resource, KEY.name, KEY.namespace, spec=spec),
        {**made, "spec": {"strategy": made["spec"]["strategy"], "workloadRef": reference}},
    )


def image(stage: Stage, kind: WorkloadKind, tag: str) -> None:
    """Somebody gives the workload another image, as `kubectl set image` does."""
    pod = stage.find(kind.resource)["spec"]["template"]["spec"]
    containers = [dict(each, image=f"web:{tag}") for each in pod["containers"]]
    stage.merge(kind.resource, KEY.name, {"spec": {"template": {"spec": {"containers": containers}}}})


def runs(stage: Stage) -> dict[str, int]:
    """Pods that stay, by image."""
    pods = [each for each in stage.cluster.list(POD, KEY.namespace) if "deletionTimestamp" not in each["metadata"]]
    images = [str(each["spec"]["containers"][0]["image"]).rpartition(":")[2] for each in pods]
    return {tag: images.count(tag) for tag in sorted(set(images))}


async def until(stage: Stage, phase: str, **expected: int) -> None:
    """Waits for a phase of the Rollout, and for so many pods of each image: `v1=3`."""
    wanted = {tag.removeprefix("v"): count for tag, count in expected.items()}
    await stage.until(lambda: stage.status.get("phase") == phase and runs(stage) == wanted)


def own_fields(stage: Stage, kind: WorkloadKind) -> bool:
    """Whether the workload has all that its user's manifest says but the template."""
    stands, own = stage.find(kind.resource)["spec"], _OWN[kind]
    return {name: stands.get(name) for name in own} == own


async def through_everything(stage: Stage, kind: WorkloadKind) -> None:
    """Image 2 stops at both of its steps, is aborted and tried again; image 3 comes in a step of it, and is promoted in full.

    A DaemonSet's nodes keep image 2 in the abort.
    """
    keeps = kind is WorkloadKind.DAEMON_SET
    await until(stage, "Healthy", v1=4)
    await asyncio.sleep(AT_REST_S)
    image(stage, kind, "2")
    await until(stage, "Paused", v1=3, v2=1)
    stage.annotate("promote", "true")
    await until(stage, "Paused", v1=2, v2=2)
    stage.annotate("abort", "true")
    await until(stage, "Aborted", **({"v1": 2, "v2": 2} if keeps else {"v1": 4}))
    stage.annotate("retry", "true")
    await until(stage, "Paused", **({"v1": 2, "v2": 2} if keeps else {"v1": 3, "v2": 1}))
    image(stage, kind, "3")
    await until(stage, "Paused", **({"v1": 2, "v3": 2} if keeps else {"v1": 3, "v3": 1}))
    stage.annotate("promote", f"{stage.status['currentRevision']}@full")
    await until(stage, "Healthy", v3=4)


async def updated(stage: Stage, kind: WorkloadKind) -> None:
    """Image 2 goes through its steps by itself."""
    await until(stage, "Healthy", v1=4)
    await asyncio.sleep(AT_REST_S)
    image(stage, kind, "2")
    await until(stage, "Healthy", v2=4)
