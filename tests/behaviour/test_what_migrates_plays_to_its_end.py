"""Promise: what `rollouts migrate` leaves nothing to do about is played to its end as it is: a first revision, and an update.

Routers are only as good as their status here: each route is accepted at once, and weights are given their settle time. The server
that analyses ask answers every query with 1. A person promotes what waits for one.
"""

from __future__ import annotations

import asyncio
import json
from copy import deepcopy
from functools import cache
from pathlib import Path

import pytest

from rollouts.cli.migrate.migrated import migrated
from rollouts.core.model.frozen import replace
from rollouts.metrics.requests import HttpAnswer, HttpRequest, MetricAnswer
from rollouts.objects import ROLLOUT, Kind, Manifest
from rollouts.sim.network.gateway_types import HTTP_ROUTE, gateway_crds
from rollouts.sim.network.prometheus.server import DEFAULT_URL, SimPrometheus
from rollouts.sim.storage.registry import NAMESPACE
from rollouts.traffic.apisix import KINDS as APISIX
from rollouts.traffic.contour.codec import KINDS as CONTOUR
from rollouts.traffic.gloo import KINDS as GLOO
from rollouts.traffic.istio.settings import SERVICE_KINDS as ISTIO
from rollouts.traffic.istio.subsets import RULE_KINDS
from rollouts.traffic.nginx.settings import INGRESS_KINDS
from rollouts.traffic.registry import registry
from rollouts.traffic.traefik import KINDS as TRAEFIK
from tests import build
from tests.behaviour.routes.subsets import crd
from tests.behaviour.stage import ALONE, KEY, Stage, play
from tests.cli.migration_inputs import INPUTS
from tests.documents import documents

pytestmark = pytest.mark.long
CHART = Path(__file__).parents[2] / "helm" / "rollouts" / "files" / "analysis-templates"
SETTINGS = replace(ALONE, routers=tuple(sorted(registry())), prometheus_url=DEFAULT_URL)
FOREIGN = (APISIX[0], CONTOUR[0], GLOO[0], ISTIO[0], RULE_KINDS[0], INGRESS_KINDS[0], TRAEFIK[0])
FAMILIES = ("Deployment", "Canary of", "Canary", "Argo Rollout")
LONGEST_S = 3_000.0
HOOKED = ("http://loadtester.test", "http://gate.test")


def with_status(kind: Kind) -> Manifest:
    made = crd(kind)
    made["spec"]["versions"][0]["subresources"] = {"status": {}}
    return made


_REAL = gateway_crds()
_NAMES = {each["metadata"]["name"] for each in _REAL}
CRDS = (*_REAL, *(with_status(kind) for kind in FOREIGN if f"{kind.plural}.{kind.group}" not in _NAMES))


class Obliging(SimPrometheus):
    """Answers 1, whatever it is asked; but nobody wants to roll back, says a gate of that name."""

    def __init__(self, stage: Stage, url: str) -> None:
        super().__init__(stage.cluster.world, stage.cluster.applications, url=url)
        self.now_s = stage.cluster.world.now_s

    async def answer(self, request: HttpRequest, *, limit_s: float) -> MetricAnswer:
        self.questions.append(request.url)
        await asyncio.sleep(min(0.005, limit_s))
        found = [{"metric": {}, "value": [self.now_s(), "1"]}]
        body = {"status": "success", "data": {"resultType": "vector", "result": found}}
        return HttpAnswer(status=403 if request.url.endswith("/rollback") else 200, body=json.dumps(body).encode())


def accepted(route: Manifest) -> Manifest:
    """The status in which its router has taken a route."""
    generation = route["metadata"]["generation"]

    def condition(name: str) -> Manifest:
        now = "2026-01-01T00:00:00Z"
        return {"type": name, "status": "True", "observedGeneration": generation, "reason": "Ok", "message": "",
                "lastTransitionTime": now}  # fmt: skip

    if route["kind"] == HTTP_ROUTE.kind:
        conditions = [condition("Accepted"), condition("ResolvedRefs")]
        parents = route["spec"].get("parentRefs") or ()
        return {
            "parents": [
                {"parentRef": each, "controllerName": "a.example/b", "conditions": conditions} for each in parents
            ]
        }
    return {"conditions": [condition(name) for name in ("Valid", "Accepted", "ResourcesAvailable")]}


def accepting(stage: Stage) -> None:
    """Each version of a route is accepted a moment after it was written."""
    loop = asyncio.get_running_loop()

    def accept(kind: Kind, route: Manifest) -> None:
        if route["metadata"]["namespace"] == KEY.namespace and (route.get("status") or {}) != accepted(route):
            status = {"status": accepted(route)}
            loop.call_later(0.01, lambda: stage.merge(kind, route["metadata"]["name"], status, part="status"))

    for kind in (HTTP_ROUTE, APISIX[0], CONTOUR[0]):
        stage.cluster.api.history.listen(kind, lambda change: accept(change.kind, change.new.manifest))
        for route in stage.cluster.list(kind):
            accept(kind, route)


async def to_the_end(stage: Stage) -> None:
    """The first revision becomes Healthy, and an update goes through its steps; a person promotes where one is waited for."""
    stage.cluster.metrics.servers += [Obliging(stage, url) for url in (DEFAULT_URL, *HOOKED)]
    accepting(stage)
    await stage.until(lambda: stage.status.get("phase") in ("Healthy", "Paused"))
    if stage.find(ROLLOUT)["spec"].get("paused"):
        stage.edit({"spec": {"paused": False}})
    await stage.until_phase("Healthy", "1")
    stage.image("2")
    for _ in range(20):
        await stage.until(lambda: is_over(stage) or needs_a_person(stage), within_s=LONGEST_S)
        if is_over(stage):
            break
        before = stage.status["waitingFor"]
        stage.annotate("promote", "true")
        await stage.until(lambda: stage.status.get("waitingFor") != before)  # noqa: B023 - awaited at once
        stage.annotate("promote", None)
    await stage.until_phase("Healthy", "2")


def is_over(stage: Stage) -> bool:
    seen = stage.status.get("observedGeneration") == stage.find(ROLLOUT)["metadata"]["generation"]
    return seen and stage.status.get("phase") == "Healthy"


def needs_a_person(stage: Stage) -> bool:
    return stage.status.get("phase") == "Paused" and "until" not in (stage.status.get("waitingFor") or {})


@cache
def chart_templates() -> tuple[Manifest, ...]:
    return tuple(one for file in sorted(CHART.glob("*.yaml")) for one in documents(file.read_text(encoding="utf-8")))


def world(objects: list[Manifest]) -> tuple[Manifest, ...]:
    """What the simulation has kinds for, with the templates of the chart."""
    served = {(kind.api_version, kind.kind) for kind in (HTTP_ROUTE, *FOREIGN)} | {
        ("v1", "Service"),
        ("v1", "ConfigMap"),
    }
    kept = [
        each
        for each in objects
        if each["apiVersion"].startswith(("rollouts.dev/", "autoscaling/"))
        or (each["apiVersion"], each["kind"]) in served
    ]
    names = {str(each["metadata"].get("namespace", KEY.namespace)) for each in kept} - {KEY.namespace}
    namespaces = [build.manifest(NAMESPACE, name) for name in sorted(names)]
    return tuple(deepcopy(each) for each in (*namespaces, *chart_templates(), *kept))


@pytest.mark.parametrize("family", FAMILIES)
def test_an_update_of_what_came_out_goes_to_its_end(family: str) -> None:
    """Nothing has to be added. What comes out the same, but for what no controller of ours looks at, is played once."""
    played: set[str] = set()
    for given in INPUTS:
        mine = max((each for each in FAMILIES if given.name.startswith(each)), key=len)
        if not given.complete or mine != family:
            continue
        objects = world(migrated(given.objects).objects)
        if any("workloadRef" in (each.get("spec") or {}) for each in objects):
            continue  # its template is in a cluster: test_a_workload_gives_its_template.py plays that
        told = json.dumps([each.get("spec") for each in objects], sort_keys=True)
        if told in played:
            continue
        played.add(told)
        try:
            run = play(objects, to_the_end, more_crds=CRDS, settings=SETTINGS)
        except AssertionError as stopped:
            raise AssertionError(f"{given.name}: {stopped}") from stopped
        assert run.unexpected == [], given.name
    assert len(played) >= 10
