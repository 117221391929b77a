"""Promise: a part that is refused stops nothing else: counts stay true, commands are put on record, an abort goes on.

Each row refuses one kind of request from the middle of an update on, or makes a part of the spec unusable. While it lasts, no pod
that may get requests goes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import Struct

from rollouts.core.model.frozen import replace
from rollouts.manifests.config_copy import config_key
from rollouts.manifests.ownership import REVISION
from rollouts.objects import ANALYSIS_TEMPLATE, POD, Manifest
from rollouts.settings import MetricSettings
from rollouts.sim.network.gateway import ENVOY
from tests.behaviour.analysed import analysis, metric, template
from tests.behaviour.config_truth import HASH_KEY
from tests.behaviour.configured import config_map, crash_a_pod, write
from tests.behaviour.refused import (
    INGRESS_CRD,
    Refused,
    Refusing,
    configured_route,
    ingress,
    ingress_share,
    ingressed,
    noted,
    secret,
    with_secret,
)
from tests.behaviour.routed import http_route, stored_share, weight, world
from tests.behaviour.scenarios import STABLE_AND_CANARY
from tests.behaviour.stage import ALONE, KEY, Behind, Stage, play

STEPS: tuple[Manifest, ...] = (weight(20), {"pause": {}}, weight(50), {"pause": {}})
STANDS_AT = 1
REPLICAS = 5
ANSWERED_WITHIN_S = 5.0
OF_A_ROUTE = (*STABLE_AND_CANARY, http_route())
HASHED = config_key(KEY.namespace, HASH_KEY)
_POD = {"restartPolicy": "Never", "containers": [{"name": "test", "image": "test:1"}]}
JOB_METRIC: Manifest = {"name": "smoke", "provider": {"job": {"spec": {"template": {"spec": _POD}}}}}
BETA: Manifest = {"name": "nobody", "match": [{"headerName": "a", "headerValue": {"exact": "b"}}]}
JOBS = replace(ALONE, metrics=MetricSettings(jobs=True, job_service_account="jobs"))
QUOTA = "exceeded quota: small, requested: 1, used: 9, limited: 9"
WEBHOOK = 'admission webhook "gate.example" denied the request: not on a Friday'


def _promoted(stage: Stage) -> None:
    stage.annotate("promote", f"{stage.status['currentRevision']}@{STANDS_AT}")


def _all_taken_back(stage: Stage) -> None:
    """The image, and what its pods read."""
    for each in (config_map("v1"), secret("v1")):
        stage.cluster.apply(each)
    stage.image("1")


def _with_analysis(*templates: Manifest) -> Callable[[Stage], None]:
    """A third image, and an analysis as the last step."""

    def meets(stage: Stage) -> None:
        for each in templates:
            stage.cluster.apply(each)
        stage.cluster.api.end_watches()
        stage.edit({"spec": {"strategy": {"canary": {"steps": [*STEPS, {"analysis": analysis()}]}}}})
        stage.image("3")

    return meets


def _routed_by(**routing: Manifest | None) -> Callable[[Stage], None]:
    return lambda stage: stage.edit({"spec": {"strategy": {"canary": {"trafficRouting": routing}}}})


def _by_steps(*steps: Manifest) -> Callable[[Stage], None]:
    return lambda stage: stage.edit({"spec": {"strategy": {"canary": {"steps": list(steps)}}}})


class Part(Struct, frozen=True, kw_only=True):
    """A part that is refused.

    Args:
        refuses: the requests; None when the spec or an object is what cannot be used.
        there: the cluster before.
        meets: what somebody does that meets the refusal.
        mends: what somebody does that ends it; the requests are allowed again, too.
        ends: what somebody does to go back to the first revision.
        condition, reason, told: the condition that tells of it, its reason, and what its message says.
        aborts: an abort moves the traffic back all the same.
        carried_out: a command is carried out meanwhile, and not only put on record.
    """

    refuses: Refused | None = None
    there: tuple[Manifest, ...] = world(*STEPS, replicas=REPLICAS)
    meets: Callable[[Stage], object] = _promoted
    mends: Callable[[Stage], object] = lambda _: None
    ends: Callable[[Stage], object] = lambda stage: stage.image("1")
    condition: str = "Stalled"
    reason: str = "ApiForbidden"
    told: str = ""
    aborts: bool = True


SUPERSEDED: Callable[[Stage], None] = lambda stage: stage.image("3")  # noqa: E731
THIRD_BACKEND = http_route(stable=5, canary=0, other=45)
"""A rule whose total is fixed, because a third backend has a part of it: 5 can be shared by 20 %, and not by halves."""
READS_CONFIG_MAP = (config_map("v1"), *OF_A_ROUTE, configured_route(*STEPS, replicas=REPLICAS))
READS_SECRET = (HASHED, secret("v1"), *OF_A_ROUTE, with_secret(*STEPS, replicas=REPLICAS))
PARTS = {
    "a split that the route has no numbers for": Part(
        there=world(*STEPS, route=THIRD_BACKEND, replicas=REPLICAS), condition="RouteRefused", reason="RouteNotUsable"
    ),
    "the right to change routes": Part(refuses=Refused("httproutes"), condition="RouteRefused", aborts=False),
    "a route, by an admission policy": Part(
        refuses=Refused("httproutes", status=422), condition="RouteRefused", reason="ApiRefused", aborts=False
    ),
    "the right to change ReplicaSets": Part(refuses=Refused("replicasets"), aborts=False),
    "the right to change Services": Part(refuses=Refused("services"), meets=SUPERSEDED),
    "a new ReplicaSet, by a quota": Part(
        refuses=Refused("replicasets", method="POST", said=QUOTA), meets=SUPERSEDED, told=QUOTA
    ),
    "a new ReplicaSet, by a webhook": Part(
        refuses=Refused("replicasets", method="POST", said=WEBHOOK), meets=SUPERSEDED, told=WEBHOOK
    ),
    "the right to delete the canary Ingress": Part(
        refuses=Refused("ingresses", method="DELETE"),
        there=(*STABLE_AND_CANARY, ingress(), ingressed(*STEPS, replicas=REPLICAS)),
        meets=SUPERSEDED,
        condition="RouteRefused",
        aborts=False,
    ),
    "the right to read a ConfigMap": Part(
        refuses=Refused("configmaps", method="GET"),
        there=READS_CONFIG_MAP,
        meets=lambda stage: write(stage, "v2"),
        ends=_all_taken_back,
        condition="ConfigUnusable",
        reason="ConfigForbidden",
        told="may not read ConfigMap conf: grant get",
    ),
    "the copy of a ConfigMap, by a quota": Part(
        refuses=Refused("configmaps", method="POST", said=QUOTA),
        there=READS_CONFIG_MAP,
        meets=lambda stage: write(stage, "v2"),
        ends=_all_taken_back,
        condition="RevisionRefused",
        told="the copy of ConfigMap conf cannot be created: ",
    ),
    "the right to read a Secret": Part(
        refuses=Refused("secrets", method="GET"),
        there=READS_SECRET,
        meets=lambda stage: stage.cluster.apply(secret("v2")),
        ends=_all_taken_back,
        condition="ConfigUnusable",
        reason="ConfigForbidden",
        told="grant get",
    ),
    "the copy of a Secret, by a quota": Part(
        refuses=Refused("secrets", method="POST", said=QUOTA),
        there=READS_SECRET,
        meets=lambda stage: stage.cluster.apply(secret("v2")),
        ends=_all_taken_back,
        told="the copy of Secret cred cannot be created: ",
    ),
    "the right to see AnalysisTemplates": Part(
        refuses=Refused(ANALYSIS_TEMPLATE.plural, method="GET"),
        meets=_with_analysis(template()),
        reason="AnalysisInvalid",
        told="grant get, list and watch of analysistemplates",
    ),
    "an AnalysisTemplate that means nothing": Part(
        meets=_with_analysis(template(metric(provider={"prometheus": {"query": "{{args.nobody}}"}}))),
        mends=lambda stage: stage.cluster.apply(template()),
        reason="AnalysisInvalid",
        told="nobody",
    ),
    "the Job of a measurement": Part(
        refuses=Refused("jobs", method="POST", said=QUOTA),
        there=(template(JOB_METRIC), *world(*STEPS[:2], {"analysis": analysis()}, {"pause": {}}, replicas=REPLICAS)),
        condition="Paused",
        reason="AnalysisInconclusive",
        told=QUOTA,
    ),
    "a step that means nothing": Part(
        meets=_by_steps(*STEPS, {"setHeaderRoute": BETA}),
        mends=_by_steps(*STEPS),
        reason="InvalidSpec",
        told="nobody",
        aborts=False,
    ),
    "a traffic provider that nobody declares": Part(
        meets=_routed_by(gatewayAPI=None, plugins={"nobody": {"name": KEY.name}}),
        mends=_routed_by(gatewayAPI={"httpRoutes": [{"name": KEY.name}]}, plugins=None),
        reason="InvalidSpec",
        told="nobody",
        aborts=False,
    ),
}


def _counts(stage: Stage) -> dict[str, int]:
    """What there is, counted from the pods."""
    pods = [each for each in stage.cluster.list(POD, KEY.namespace) if "deletionTimestamp" not in each["metadata"]]
    conditions = [{one["type"]: one["status"] for one in each["status"].get("conditions", ())} for each in pods]
    current = stage.status["currentRevision"]
    return {
        "replicas": len(pods),
        "readyReplicas": sum(each.get("Ready") == "True" for each in conditions),
        "updatedReplicas": sum(each["metadata"]["labels"][REVISION] == current for each in pods),
    }


def _shown(stage: Stage) -> dict[str, int]:
    return {name: stage.status.get(name, 0) for name in _counts(stage)}


def _share(stage: Stage, part: Part) -> object:
    routed_by_ingress = part.refuses is not None and part.refuses.plural == "ingresses"
    return ingress_share(stage) if routed_by_ingress else stored_share(stage)


def _tells(stage: Stage, part: Part) -> bool:
    """Whether status says what is refused, in a condition and in its wait."""
    one = stage.condition(part.condition)
    told = one.get("status") == "True" and one["reason"] == part.reason and part.told in one["message"]
    return told and bool(stage.status.get("waitingFor"))


async def _answered(stage: Stage, verb: str, value: str) -> None:
    """Gives a command, and waits for its record."""

    def recorded() -> bool:
        return any(each["verb"] == verb and each["value"] == value for each in stage.status.get("commands", ()))

    stage.annotate(verb, value)
    await stage.until(recorded, within_s=ANSWERED_WITHIN_S)


@pytest.mark.parametrize("what", PARTS)
def test_counts_commands_and_an_abort_go_on(what: str) -> None:
    """The first promise holds meanwhile: the canary keeps its pods until the route is known to have left it."""
    part = PARTS[what]
    servers: list[Refusing] = []

    async def script(stage: Stage) -> None:
        await stage.until_phase("Healthy", "1")
        stage.image("2")
        at = (STANDS_AT, "Paused")
        await stage.until(lambda: (stage.status.get("currentStepIndex"), stage.status["phase"]) == at)
        servers[-1].refused = {part.refuses} if part.refuses is not None else set()
        part.meets(stage)
        await stage.until(lambda: _tells(stage, part))
        crash_a_pod(stage)
        await asyncio.sleep(30)
        assert _shown(stage) == _counts(stage)
        assert _tells(stage, part), stage.status

        revision = stage.status["currentRevision"]
        await _answered(stage, "pause", "true")
        stage.annotate("pause", None)
        await _answered(stage, "promote", f"{revision}@3")
        await _answered(stage, "retry", f"{revision}@2")
        await _answered(stage, "abort", "true")
        if part.aborts:
            await stage.until(lambda: bool(stage.status.get("abort")) and not _share(stage, part))
        else:
            await asyncio.sleep(30)
            assert stage.available("2") > 0
        await asyncio.sleep(30)
        assert _shown(stage) == _counts(stage)
        servers[-1].refused = set()
        part.mends(stage)
        stage.edit({"metadata": {"labels": {"seen": "again"}}})
        await stage.until(lambda: bool(stage.status.get("abort")) and not _share(stage, part))
        part.ends(stage)
        await stage.until_phase("Healthy", "1")

    options: dict[str, Any] = {"between": noted(servers), "behind": Behind(settings=ENVOY), "more_crds": (INGRESS_CRD,)}
    run = play(part.there, script, settings=JOBS, **options)

    assert not run.violations, run.violations
