"""Promise: whatever a spec names is there before the first pod of an update, and what was missing wakes the update when it comes.

One row for each thing that a spec can name. In each the first revision serves, and an edit brings a new image and the name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from msgspec import Struct

from rollouts.manifests.config_copy import config_key
from rollouts.objects import CLUSTER_ANALYSIS_TEMPLATE, Manifest
from rollouts.sim.network.gateway import ENVOY
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

ANALYSIS: Manifest = {"analysis": analysis()}
IN_CANARY = "spec.strategy.canary"
NAMED = f"templates[0]: names AnalysisTemplate/{TEMPLATE_NAME}, which does not exist: create it"


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
    before: Manifest
    edit: Manifest
    reason: str = "AnalysisInvalid"
    told: str
    comes: Callable[[Stage], Any]


def _made(*manifests: Manifest) -> Callable[[Stage], None]:
    def comes(stage: Stage) -> None:
        for each in manifests:
            stage.cluster.apply(each)

    return comes


def _labelled(stage: Stage) -> None:
    stage.edit({"metadata": {"labels": {"team": "shop"}}})


def _of_cluster() -> Manifest:
    found = {**template(), "kind": CLUSTER_ANALYSIS_TEMPLATE.kind}
    return {**found, "metadata": {"name": TEMPLATE_NAME}}


def _outer() -> Manifest:
    """A template that names another one."""
    inner = [{"templateName": TEMPLATE_NAME}]
    metadata = {"name": "outer", "namespace": KEY.namespace}
    return {**template(), "metadata": metadata, "spec": {"args": [{"name": "revision"}], "templates": inner}}


def _secret() -> Manifest:
    metadata = {"name": "cred", "namespace": KEY.namespace}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": {"key": "eA=="}}


def _volume(source: Manifest) -> Manifest:
    return {"template": {"spec": {"volumes": [{"name": "files", **source}]}}}


def _of_team() -> Manifest:
    team = {"name": "team", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['team']"}}}
    return analysis(args=[*analysis()["args"], team])


PLAIN, SERVICES = canary(HALF, MANUAL), canary(HALF, MANUAL, services=True)
GREEN = blue_green(autoPromotionEnabled=False)
TWO_ROUTES = {"trafficRouting": {"gatewayAPI": {"httpRoutes": [{"name": KEY.name}, {"name": "other"}]}}}
ROWS = {
    "template of a later step": Row(
        before=rollout(PLAIN),
        edit={"strategy": canary(HALF, MANUAL, ANALYSIS)},
        told=f"{IN_CANARY}.steps[2].analysis.{NAMED}",
        comes=_made(template()),
    ),
    "template of the background": Row(
        before=rollout(PLAIN),
        edit={"strategy": canary(HALF, MANUAL, analysis=analysis(startingStep=1))},
        told=f"{IN_CANARY}.analysis.{NAMED}",
        comes=_made(template()),
    ),
    "ClusterAnalysisTemplate": Row(
        before=rollout(PLAIN),
        edit={
            "strategy": canary(
                HALF,
                MANUAL,
                {"analysis": analysis(templates=[{"templateName": TEMPLATE_NAME, "clusterScope": True}])},
            )
        },
        told=f"steps[2].analysis.templates[0]: names ClusterAnalysisTemplate/{TEMPLATE_NAME}, which does not exist",
        comes=_made(_of_cluster()),
    ),
    "template that a template names": Row(
        there=(_outer(),),
        before=rollout(PLAIN),
        edit={"strategy": canary(HALF, MANUAL, {"analysis": analysis(templates=[{"templateName": "outer"}])})},
        told=f"AnalysisTemplate/outer.spec.{NAMED}",
        comes=_made(template()),
    ),
    "field of an argument": Row(
        there=(template(),),
        before=rollout(PLAIN),
        edit={"strategy": canary(HALF, MANUAL, {"analysis": _of_team()})},
        told="steps[2].analysis.args[1].valueFrom.fieldRef.fieldPath: the Rollout has no metadata.labels['team']",
        comes=_labelled,
    ),
    "template before the promotion": Row(
        there=ACTIVE_AND_PREVIEW,
        before=rollout(GREEN),
        edit={"strategy": blue_green(autoPromotionEnabled=False, prePromotionAnalysis=analysis())},
        told=f"spec.strategy.blueGreen.prePromotionAnalysis.{NAMED}",
        comes=_made(template()),
    ),
    "template after the promotion": Row(
        there=ACTIVE_AND_PREVIEW,
        before=rollout(GREEN),
        edit={"strategy": blue_green(autoPromotionEnabled=False, postPromotionAnalysis=analysis())},
        told=f"spec.strategy.blueGreen.postPromotionAnalysis.{NAMED}",
        comes=_made(template()),
    ),
    "canary Service": Row(
        there=STABLE_AND_CANARY,
        before=rollout(SERVICES),
        edit={"strategy": canary(HALF, MANUAL, services=True, canaryService="other")},
        reason="ServiceNotFound",
        told=f"{IN_CANARY}.canaryService: Service other does not exist: create it",
        comes=_made(service("other")),
    ),
    "stable Service": Row(
        there=STABLE_AND_CANARY,
        before=rollout(SERVICES),
        edit={"strategy": canary(HALF, MANUAL, services=True, stableService="other")},
        reason="ServiceNotFound",
        told=f"{IN_CANARY}.stableService: Service other does not exist: create it",
        comes=_made(service("other")),
    ),
    "preview Service": Row(
        there=ACTIVE_AND_PREVIEW,
        before=rollout(GREEN),
        edit={"strategy": blue_green(autoPromotionEnabled=False, previewService="other")},
        reason="ServiceNotFound",
        told="spec.strategy.blueGreen.previewService: Service other does not exist: create it",
        comes=_made(service("other")),
    ),
    "route": Row(
        there=(*STABLE_AND_CANARY, http_route()),
        before=routed(HALF, MANUAL),
        edit={"strategy": {"canary": TWO_ROUTES}},
        reason="RouteNotFound",
        told=f"{IN_CANARY}.trafficRouting.gatewayAPI: HTTPRoute other does not exist: create it",
        comes=_made({**http_route(), "metadata": {"name": "other", "namespace": KEY.namespace}}),
    ),
    "ConfigMap": Row(
        before=rollout(PLAIN),
        edit=_volume({"configMap": {"name": "conf"}}),
        reason="ConfigNotFound",
        told="ConfigMap conf does not exist: create it",
        comes=_made(config_map("v1")),
    ),
    "Secret": Row(
        there=(config_key(KEY.namespace, HASH_KEY),),
        before=rollout(PLAIN, configVersioning={"secrets": True}),
        edit=_volume({"secret": {"secretName": "cred"}}),
        reason="ConfigNotFound",
        told="Secret cred does not exist: create it",
        comes=_made(_secret()),
    ),
}


def _edited(row: Row) -> Manifest:
    """The patch of the spec, with image 2."""
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
        stalled = next(each for each in stage.status["conditions"] if each["type"] == "Stalled")
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
