"""Worlds whose traffic is split between two subsets of one host, and what proxies of a mesh would make of them at any moment."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from rollouts.manifests.ownership import REVISION
from rollouts.objects import ENDPOINT_SLICE, POD, ROLLOUT, Kind, Manifest
from rollouts.sim.storage.history import CommittedWrite
from tests import build
from tests.behaviour.route_truth import DESTINATION_RULE, VIRTUAL_SERVICE
from tests.behaviour.scenarios import canary, rollout, service
from tests.behaviour.stage import KEY, Run, Script, Stage, play

CRD = Kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions")
RULE_NAME = "web-subsets"
LAG_S = 14.0
"""How long a proxy may still do what an object said before; the controller waits 15 s for those of Istio."""


def crd(kind: Kind) -> Manifest:
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": free, "status": free}}
    version = {"name": kind.version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": kind.kind, "listKind": f"{kind.kind}List", "plural": kind.plural, "singular": kind.kind.lower()}
    spec = {"group": kind.group, "scope": "Namespaced", "names": names, "versions": [version]}
    return build.manifest(CRD, f"{kind.plural}.{kind.group}", spec=spec)


CRDS = (crd(VIRTUAL_SERVICE), crd(DESTINATION_RULE))


def virtual_service() -> Manifest:
    """All requests to the stable subset, none to the canary's."""
    route = [
        {"destination": {"host": KEY.name, "subset": name}, "weight": weight}
        for name, weight in (("stable", 100), ("canary", 0))
    ]
    spec = {"hosts": [KEY.name], "http": [{"route": route}]}
    return build.manifest(VIRTUAL_SERVICE, KEY.name, KEY.namespace, spec=spec)


def destination_rule() -> Manifest:
    """Two subsets, one without labels of its user's, and one of somebody else's."""
    subsets = [{"name": "stable", "labels": {"app": "web"}}, {"name": "canary"}, {"name": "all", "labels": {}}]
    spec = {"host": f"{KEY.name}.{KEY.namespace}.svc.cluster.local", "subsets": subsets}
    return build.manifest(DESTINATION_RULE, RULE_NAME, KEY.namespace, spec=spec)


def routed(*steps: Manifest, replicas: int = 4, **options: Any) -> Manifest:
    subsets = {"name": RULE_NAME, "stableSubsetName": "stable", "canarySubsetName": "canary"}
    routing = {"istio": {"virtualService": {"name": KEY.name}, "destinationRule": subsets}}
    delay = {} if options.get("dynamicStableScale") else {"scaleDownDelaySeconds": 2}
    strategy = canary(*steps, trafficRouting=routing, **{**delay, "abortScaleDownDelaySeconds": 2, **options})
    return rollout(strategy, replicas=replicas)


def world(*steps: Manifest, **options: Any) -> tuple[Manifest, ...]:
    return (service(KEY.name), virtual_service(), destination_rule(), routed(*steps, **options))


def play_subsets(manifests: tuple[Manifest, ...], script: Script, **options: Any) -> tuple[Run, Mesh]:
    """Plays a script; the mesh is watched from the first revision's readiness on."""
    came: list[Mesh] = []

    async def watched(stage: Stage) -> None:
        await stage.until_phase("Healthy", "1")
        came.append(Mesh(stage))
        await script(stage)

    run = play(manifests, watched, more_crds=CRDS, **options)
    return run, came[0]


class Mesh:
    """Proxies that have, each for itself, any version of either object that was there in the last `LAG_S` seconds.

    Args:
        lost: what some of them would have sent to a subset without a ready pod.
        short: what some would have sent to one with fewer ready pods than its part of `replicas`.
        changed: subsets that came to select another revision while some of them may have sent them requests.
        shares: of the canary subset, as they were written, one after the other.
    """

    def __init__(self, stage: Stage) -> None:
        self._cluster = cluster = stage.cluster
        self._said: dict[Kind, deque[tuple[float, Manifest]]] = {}
        self.lost: list[str] = []
        self.short: list[str] = []
        self.changed: list[str] = []
        self.shares: list[Fraction] = []
        for kind, name in ((VIRTUAL_SERVICE, KEY.name), (DESTINATION_RULE, RULE_NAME)):
            self._said[kind] = deque([(self._now_s(), stage.find(kind, name))])
            cluster.api.history.listen(kind, self._follow)
        cluster.api.history.listen(ENDPOINT_SLICE, lambda _: self._look())

    def _follow(self, change: CommittedWrite) -> None:
        said = self._said[change.kind]
        if change.kind == DESTINATION_RULE:
            self._compare(said[-1][1], change.new.manifest)
        said.append((self._now_s(), change.new.manifest))
        if change.kind == VIRTUAL_SERVICE:
            weights = _weights(change.new.manifest)
            share = Fraction(weights["canary"], sum(weights.values()))
            if self.shares[-1:] != [share]:
                self.shares.append(share)
        self._look()

    def _compare(self, before: Manifest, after: Manifest) -> None:
        for subset in ("stable", "canary"):
            most = max(_weights(route)[subset] for route in self._in_force(VIRTUAL_SERVICE))
            if most and _revision(before, subset) != _revision(after, subset):
                self.changed.append(f"{self._now_s():.3f} s: {subset} at {most} %")

    def _look(self) -> None:
        rollout = self._cluster.get(ROLLOUT, KEY.namespace, KEY.name)
        ready, replicas = self._ready(), rollout["spec"]["replicas"] if rollout is not None else 0
        for route in self._in_force(VIRTUAL_SERVICE):
            for rule in self._in_force(DESTINATION_RULE):
                for subset, weight in _weights(route).items():
                    revision = _revision(rule, subset)
                    pods = ready[revision] if revision else ready.total()
                    told = f"{self._now_s():.3f} s: {weight} to {subset}, {revision}, {dict(ready)}"
                    if weight and not pods:
                        self.lost.append(told)
                    if 100 * pods < replicas * weight:
                        self.short.append(told)

    def _in_force(self, kind: Kind) -> Iterable[Manifest]:
        said = self._said[kind]
        while len(said) > 1 and said[1][0] < self._now_s() - LAG_S:
            said.popleft()
        return [manifest for _, manifest in said]

    def _ready(self) -> Counter[str]:
        pods = {each["metadata"]["uid"]: each["metadata"]["labels"][REVISION] for each in self._cluster.list(POD)}
        return Counter(
            pods.get(endpoint["targetRef"]["uid"], "")
            for each in self._cluster.list(ENDPOINT_SLICE)
            if each["metadata"]["labels"]["kubernetes.io/service-name"] == KEY.name
            for endpoint in each.get("endpoints") or ()
            if endpoint["conditions"]["ready"]
        )

    @property
    def wrong(self) -> list[str]:
        return [*self.lost, *self.short, *self.changed]

    def _now_s(self) -> float:
        return asyncio.get_running_loop().time()


def _weights(route: Manifest) -> dict[str, int]:
    return {each["destination"]["subset"]: each["weight"] for each in route["spec"]["http"][0]["route"]}


def _revision(rule: Manifest, subset: str) -> str:
    labels = next(each for each in rule["spec"]["subsets"] if each["name"] == subset).get("labels") or {}
    return str(labels.get(REVISION, ""))
