"""Promise: whatever a spec names is there before the first pod of an update, and what was missing wakes the update when it comes.

One row for each thing that a spec can name. In each the first revision serves, and an edit brings a new image and the name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from msgspec import Struct, field

from rollouts.manifests.config_copy import config_key
from rollouts.objects import ANALYSIS_TEMPLATE, CLUSTER_ANALYSIS_TEMPLATE, Manifest
from rollouts.sim.network.gateway import ENVOY
from tests import build
from tests.behaviour.analysed import TEMPLATE_NAME, analysis, template
from tests.behaviour.config_truth import HASH_KEY
from tests.behaviour.configured import config_map
from tests.behaviour.routed import http_route, routed
from tests.behaviour.scenarios import (
    ACTIVE_AND_PREVIEW,
    HALF,
    MANUAL,
    STABLE_AND_CANARY,
    blue_green,
    canary,
    rollout,
    service,
)
from tests.behaviour.stage import KEY, Behind, Stage, play

IN_CANARY = "spec.strategy.canary"
NAMED = f"templates[0]: names AnalysisTemplate/{TEMPLATE_NAME}, which does not exist: create it"


def _made(*manifests: Manifest) -> Callable[[Stage], None]:
    def comes(stage: Stage) -> None:
        for each in manifests:
            stage.cluster.apply(each)

    return comes


def _volume(source: Manifest) -> Manifest:
    return {"template": {"spec": {"volumes": [{"name": "files", **source}]}}}


def _judged(**fields: Any) -> Manifest:
    return {"strategy": canary(HALF, MANUAL, {"analysis": analysis(**fields)})}


def _with_services(**fields: Any) -> Manifest:
    return {"strategy": canary(HALF, MANUAL, services=True, **fields)}


def _green(**fields: Any) -> Manifest:
    return {"strategy": blue_green(autoPromotionEnabled=False, **fields)}


OF_CLUSTER = {**template(), "kind": CLUSTER_ANALYSIS_TEMPLATE.kind, "metadata": {"name": TEMPLATE_NAME}}
OUTER = build.manifest(
    ANALYSIS_TEMPLATE,
    "outer",
    KEY.namespace,
    spec={"args": [{"name": "revision"}], "templates": [{"templateName": TEMPLATE_NAME}]},
)
TEAM = {"name": "team", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['team']"}}}
PLAIN, SERVICES = rollout(canary(HALF, MANUAL)), rollout(canary(HALF, MANUAL, services=True))
GREEN = rollout(blue_green(autoPromotionEnabled=False))
TWO_ROUTES = {"trafficRouting": {"gatewayAPI": {"httpRoutes": [{"name": KEY.name}, {"name": "other"}]}}}


class Row(Struct, frozen=True, kw_only=True):
    """One thing that is missing.

    Args:
        there: what is there besides the Rollout.
        before: the Rollout of image 1.
        edit: merged into its spec, with image 2.
        reason, told: of the wait.
        comes: makes what was missing.
    """

    there: tuple[Manifest, ...] = ()
    before: Manifest = field(default_factory=lambda: PLAIN)
    edit: Manifest
    reason: str = "AnalysisInvalid"
    told: str
    comes: Callable[[Stage], Any] = _made(template())


ROWS = {
    "template of a later step": Row(edit=_judged(), told=f"{IN_CANARY}.steps[2].analysis.{NAMED}"),
    "template of the background": Row(
        edit={"strategy": canary(HALF, MANUAL, analysis=analysis(startingStep=1))}, told=f"{IN_CANARY}.analysis.{NAMED}"
    ),
    "ClusterAnalysisTemplate": Row(
        edit=_judged(templates=[{"templateName": TEMPLATE_NAME, "clusterScope": True}]),
        told=f"steps[2].analysis.templates[0]: names ClusterAnalysisTemplate/{TEMPLATE_NAME}, which does not exist",
        comes=_made(OF_CLUSTER),
    ),
    "template that a template names": Row(
        there=(OUTER,),
        edit=_judged(templates=[{"templateName": "outer"}]),
        told=f"AnalysisTemplate/outer.spec.{NAMED}",
    ),
    "field of an argument": Row(
        there=(template(),),
        edit=_judged(args=[*analysis()["args"], TEAM]),
        told="steps[2].analysis.args[1].valueFrom.fieldRef.fieldPath: the Rollout has no metadata.labels['team']",
        comes=lambda stage: stage.edit({"metadata": {"labels": {"team": "shop"}}}),
    ),
    "template before the promotion": Row(
        there=ACTIVE_AND_PREVIEW,
        before=GREEN,
        edit=_green(prePromotionAnalysis=analysis()),
        told=f"spec.strategy.blueGreen.prePromotionAnalysis.{NAMED}",
    ),
    "template after the promotion": Row(
        there=ACTIVE_AND_PREVIEW,
        before=GREEN,
        edit=_green(postPromotionAnalysis=analysis()),
        told=f"spec.strategy.blueGreen.postPromotionAnalysis.{NAMED}",
    ),
    **{
        f"{role} Service": Row(
            there=there,
            before=before,
            edit=strategy(**{f"{role}Service": "other"}),
            reason="ServiceNotFound",
            told=f"{path}.{role}Service: Service other does not exist: create it",
            comes=_made(service("other")),
        )
        for role, there, before, strategy, path in (
            ("canary", STABLE_AND_CANARY, SERVICES, _with_services, IN_CANARY),
            ("stable", STABLE_AND_CANARY, SERVICES, _with_services, IN_CANARY),
            ("preview", ACTIVE_AND_PREVIEW, GREEN, _green, "spec.strategy.blueGreen"),
        )
    },
    "route": Row(
        there=(*STABLE_AND_CANARY, http_route()),
        before=routed(HALF, MANUAL),
        edit={"strategy": {"canary": TWO_ROUTES}},
        reason="RouteNotFound",
        told=f"{IN_CANARY}.trafficRouting.gatewayAPI: HTTPRoute other does not exist: create it",
        comes=_made({**http_route(), "metadata": {"name": "other", "namespace": KEY.namespace}}),
    ),
    "ConfigMap": Row(
        edit=_volume({"configMap": {"name": "conf"}}),
        reason="ConfigNotFound",
        told="ConfigMap conf does not exist: create it",
        comes=_made(config_map("v1")),
    ),
    "Secret": Row(
        there=(config_key(KEY.namespace, HASH_KEY),),
        before=rollout(canary(HALF, MANUAL), configVersioning={"secrets": True}),
        edit=_volume({"secret": {"secretName": "cred"}}),
        reason="ConfigNotFound",
        told="Secret cred does not exist: create it",
        comes=_made(build.secret("cred", KEY.namespace, type="Opaque", data={"key": "eA=="})),
    ),
}


def _edited(row: Row) -> Manifest:
    edit = msgspec.json.decode(msgspec.json.encode(row.edit))
    pod = edit.setdefault("template", {}).setdefault("spec", {})
    pod["containers"] = [{"name": "app", "image": "web:2"}]
    return {"spec": edit}


@pytest.mark.parametrize("row", ROWS.values(), ids=list(ROWS))
def test_no_pod_of_an_update_exists_until_it_is_there_and_then_the_update_begins(row: Row) -> None:
    """The wait, its condition and its Event name it, with its path and what to do. Nothing is written while nothing changes."""

    async def script(stage: Stage) -> None:
        await stage.until_phase("Healthy", "1")
        stage.edit(_edited(row))
        await stage.until(lambda: stage.status.get("phase") == "Degraded", within_s=15)
        assert (stage.status["waitingFor"]["reason"], set(stage.sizes())) == (row.reason, {"1"})
        stalled = stage.condition("Stalled")
        assert row.told in stage.status["waitingFor"]["message"]
        assert (stalled["reason"], row.told in stalled["message"]) == (row.reason, True)
        writes = len(stage.witness.arrivals)
        await asyncio.sleep(60)
        assert not [each for each in stage.witness.arrivals[writes:] if each.is_rollout_write], "nothing is new to say"
        row.comes(stage)
        await stage.until(lambda: stage.available("2") > 0, within_s=30)
        await stage.order("promote", f"{stage.status['currentRevision']}@full", "Healthy", "2")

    behind = Behind(settings=ENVOY) if row.reason == "RouteNotFound" else None
    play((*row.there, row.before), script, behind=behind).assert_clean()
