"""Workloads that stay what they are while clients use them: what a Rollout updates in place, and what is done to it meanwhile.

Their templates have the `preStop` sleep that a Rollout of its own pods would get: the controller writes nothing into a template.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from rollouts.objects import DAEMON_SET, DEPLOYMENT, ROLLOUT, STATEFUL_SET, Kind
from tests import build
from tests.build import manifest
from tests.e2e.manifests import container_of
from tests.e2e.stage import Stage
from tests.node.cutover import Seen, UnderLoad
from tests.node.moves import DONE_WITHIN_S
from tests.node.real_node import STATE, RealNode
from tests.node.workload import GATED_STEPS, MAX_REQUEST_S, NAME, App, Drain, Manifest, canary, service

STABLE, CANARY, PREVIEW = (f"{NAME}-{role}" for role in ("stable", "canary", "preview"))
PRE_STOP_S = 6  # what the controller would inject behind this kube-proxy
CLASS = "volumes-of-a-test"
TWO_NODES = 2

Versions = Mapping[str, int]
"""How many pods there are of each version, all of them ready."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A workload, and how its Rollout gives it a new template."""

    name: str
    strategy: Manifest = field(hash=False)
    kind: Kind = DEPLOYMENT
    replicas: int = 4
    service: str = NAME  # that clients use
    services: tuple[str, ...] = (NAME,)

    @property
    def is_beside(self) -> bool:
        """Whether new pods run beside all of the stable ones."""
        return "blueGreen" in self.strategy or "trafficRouting" in self.strategy["canary"]

    def manifests(self, app: App, drain: Drain) -> list[Manifest]:
        """What the user applies."""
        reference = {"apiVersion": self.kind.api_version, "kind": self.kind.kind, "name": NAME, "mode": "InPlace"}
        drains = {"mode": drain.capitalize(), "maxRequestSeconds": MAX_REQUEST_S}
        rollout = {"workloadRef": reference, "strategy": self.strategy, "drain": drains}
        return [self._workload(app), *map(service, self.services), manifest(ROLLOUT, NAME, spec=rollout)]

    def _workload(self, app: App) -> Manifest:
        template = canary(app, "off")["spec"]["template"]
        spec = {"replicas": self.replicas, "selector": {"matchLabels": {"app": NAME}}, "template": template}
        one = manifest(self.kind, NAME, spec=spec)
        container_of(one)["lifecycle"] = {"preStop": {"sleep": {"seconds": PRE_STOP_S}}}
        template["spec"]["terminationGracePeriodSeconds"] = PRE_STOP_S + MAX_REQUEST_S + 5
        if self.kind == STATEFUL_SET:
            claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": _SIZE}, "storageClassName": CLASS}
            spec |= {"serviceName": NAME, "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim}]}
            container_of(one)["volumeMounts"] = [{"name": "data", "mountPath": "/config"}]
        if self.kind == DAEMON_SET:
            del spec["replicas"]
            template["spec"]["tolerations"] = [{"operator": "Exists"}]
        return one


_SIZE = {"storage": "1Mi"}
_CANARY: Manifest = {"steps": list(GATED_STEPS)}
_BESIDE: Manifest = {"scaleDownDelaySeconds": 0, "abortScaleDownDelaySeconds": 1}
"""Pods go as soon as the drain lets them; 0 after an abort would keep them."""

BY_PODS = Shape(name="Deployment", strategy={"canary": _CANARY})
BY_SERVICES = Shape(
    name="Deployment, two Services",
    strategy={"canary": {**_CANARY, "stableService": STABLE, "canaryService": CANARY}},
    service=STABLE,
    services=(STABLE, CANARY),
)
PREVIEWED = Shape(
    name="Deployment, blue-green",
    strategy={"blueGreen": build.blue_green(NAME, PREVIEW, autoPromotionEnabled=False, **_BESIDE)["blueGreen"]},
    services=(NAME, PREVIEW),
)
BY_ORDINALS = Shape(name="StatefulSet", strategy={"canary": _CANARY}, kind=STATEFUL_SET, replicas=3)
BY_NODES = Shape(name="DaemonSet", strategy={"canary": _CANARY}, kind=DAEMON_SET, replicas=TWO_NODES)
SHAPES = (BY_PODS, BY_SERVICES, PREVIEWED, BY_ORDINALS, BY_NODES)


def routed(router: Manifest) -> tuple[Shape, Shape]:
    """Canary and blue-green of a Deployment whose stable Service, and canary Service, are behind a router."""
    services = {"stableService": STABLE, "canaryService": CANARY}
    by_router = {**_CANARY, **_BESIDE, **services, "trafficRouting": router}
    switched = build.blue_green(STABLE, CANARY, autoPromotionEnabled=False, **_BESIDE)["blueGreen"]
    return (
        Shape(name="Deployment, canary", strategy={"canary": by_router}, services=(STABLE, CANARY)),
        Shape(name="Deployment, blue-green", strategy={"blueGreen": switched}, services=(STABLE, CANARY)),
    )


@dataclass(frozen=True, kw_only=True)
class Course:
    """Uids of pods in an update."""

    before: frozenset[str]  # all, before it
    at_gate: frozenset[str]  # of the newest version, while a person had to decide the last time
    after: frozenset[str]  # all, in the end


def promote(stage: Stage, shape: Shape) -> Course:
    """A new template is promoted."""
    before = pods(stage)
    at_gate = _gated(stage, shape, "2")
    return _promoted(stage, shape, "2", before, at_gate)


def supersede(stage: Stage, shape: Shape) -> Course:
    """A newer template comes while a person has to decide about one, and is promoted."""
    before = pods(stage)
    _gated(stage, shape, "2")
    at_gate = _gated(stage, shape, "3")
    return _promoted(stage, shape, "3", before, at_gate)


def abort(stage: Stage, shape: Shape) -> Course:
    """An update is aborted; then the template that was is written again."""
    before = pods(stage)
    at_gate = _gated(stage, shape, "2")
    stage.annotate(NAME, "abort", "true")
    until(stage, "Aborted")
    if shape.kind != DAEMON_SET:  # whose controller makes pods of its newest template only
        until(stage, "Aborted", {"1": shape.replicas})
    change(stage, shape, "1")
    until(stage, "Healthy", {"1": shape.replicas})
    return Course(before=before, at_gate=at_gate, after=pods(stage))


def undo(stage: Stage, shape: Shape) -> Course:
    """Somebody goes back in an update: by `kubectl rollout undo`, which refuses a paused Deployment, or else by the Rollout."""
    before = pods(stage)
    at_gate = _gated(stage, shape, "2")
    if shape.is_beside:
        stage.annotate(NAME, "rollback", stage.get("rollouts", NAME)["status"]["stableRevision"])
        until(stage, "RolledBack", {"1": shape.replicas})
        change(stage, shape, "1")
    else:
        stage.kubectl("rollout", "undo", f"{shape.kind.plural}/{NAME}")
    until(stage, "Healthy", {"1": shape.replicas})
    return Course(before=before, at_gate=at_gate, after=pods(stage))


ACTS: Mapping[str, Callable[[Stage, Shape], Course]] = {
    "promotion": promote,
    "abort": abort,
    "supersession": supersede,
    "undo": undo,
}
_PROMOTING = ("promotion", "supersession")


def lost_pods(course: Course, shape: Shape, act: str) -> frozenset[str]:
    """Uids of pods that did not live through it: new ones that were promoted, stable ones that new ones only ran beside."""
    if act in _PROMOTING:
        return course.at_gate - course.after
    return course.before - course.after if shape.is_beside else frozenset()


def change(stage: Stage, shape: Shape, version: str) -> None:
    """Writes a template whose pods say that they are this version."""
    template = {"metadata": {"annotations": {"version": version}}}
    stage.plane.patch(shape.kind.path(stage.namespace, NAME), {"spec": {"template": template}})


def _gated(stage: Stage, shape: Shape, version: str) -> frozenset[str]:
    """A new version until a person has to decide about it; the uids of its pods."""
    earlier = stage.get("rollouts", NAME)["status"]["currentRevision"]
    change(stage, shape, version)
    stage.until_at(NAME, "PromotionNeeded", but=earlier, within_s=DONE_WITHIN_S)
    return pods(stage, version)


def _promoted(stage: Stage, shape: Shape, version: str, before: frozenset[str], at_gate: frozenset[str]) -> Course:
    stage.annotate(NAME, "promote", "true")
    until(stage, "Healthy", {version: shape.replicas})
    return Course(before=before, at_gate=at_gate, after=pods(stage))


def until(stage: Stage, phase: str, wanted: Versions | None = None) -> None:
    """Waits until the Rollout is in that phase, and only pods of these versions are there, all ready."""
    if wanted is not None:
        stage.until_pods(NAME, wanted, by=version_of, within_s=DONE_WITHIN_S)
    stage.until_phase(NAME, phase, within_s=DONE_WITHIN_S)


def version_of(pod: Manifest) -> str:
    """The version that a pod answers with."""
    return str(pod["metadata"]["annotations"]["version"])


def pods(stage: Stage, version: str | None = None) -> frozenset[str]:
    """The uids of the pods that stay, or of those of one version."""
    staying = [one for one in stage.all("pods", f"app={NAME}") if "deletionTimestamp" not in one["metadata"]]
    return frozenset(one["metadata"]["uid"] for one in staying if version in (None, version_of(one)))


@dataclass(frozen=True, kw_only=True)
class Kept(Seen):
    """An update as it went."""

    job: InPlace
    course: Course
    storage: tuple[Mapping[str, str], Mapping[str, str]]  # as `_storage` finds it, before and after


@dataclass(frozen=True, kw_only=True)
class InPlace(UnderLoad):
    """A workload that is updated in place; `number` tells a trial from the same one made again."""

    shape: Shape
    act: str  # a key of ACTS
    number: int = 0

    def __str__(self) -> str:
        name = self.shape.name.lower().replace(", ", "-").replace(" ", "-")
        return "-".join([name, self.act, *([str(self.number)] if self.number else [])])

    def run(self, node: RealNode, stage: Stage) -> Kept:
        """Does it, until all pods that had to go are gone."""
        if self.shape.kind == DAEMON_SET:
            node.start_second()
        if self.shape.kind == STATEFUL_SET:
            stage.apply(*_volumes(stage.namespace, self.shape.replicas))
        stage.apply(*self.shape.manifests(self.app, self.drain))
        until(stage, "Healthy", {"1": self.shape.replicas})
        courses = list[Course]()
        before = _storage(stage)
        seen = self.seen(
            node,
            stage,
            lambda: courses.append(ACTS[self.act](stage, self.shape)),
            case=f"{self.shape.name}: {self.act}",
            service=self.shape.service,
        )
        return Kept(**vars(seen), job=self, course=courses[0], storage=(before, _storage(stage)))


def _volumes(namespace: str, count: int) -> list[Manifest]:
    """Volumes on the node's disk, each with a file that says which one it is."""
    made = []
    for number in range(count):
        folder = Path(STATE, "volumes", f"{namespace}-{number}")
        folder.mkdir(parents=True)
        (folder / "value").write_text(folder.name)
        spec = {
            "capacity": _SIZE,
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": str(folder), "type": "Directory"},
            "storageClassName": CLASS,
        }
        made.append({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": folder.name}, "spec": spec})
    return made


def _storage(stage: Stage) -> dict[str, str]:
    """The uid of each claim, and what each pod reads in its volume, by their names; nothing where there are no claims."""
    claims = {one["metadata"]["name"]: one["metadata"]["uid"] for one in stage.all("persistentvolumeclaims")}
    read = {}
    for pod in stage.all("pods", f"app={NAME}") if claims else ():
        answer = httpx.get(f"http://{pod['status']['podIP']}:8080/config", timeout=5, trust_env=False)
        read[pod["metadata"]["name"]] = answer.raise_for_status().json()["volume"]
    return claims | read
