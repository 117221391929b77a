"""Promise: what a Deployment, a ReplicaSet or a PodTemplate says of pods is rolled out by the Rollout that names it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rollouts.manifests.ownership import MANAGED, MANAGED_BY
from rollouts.objects import DEPLOYMENT, POD_TEMPLATE, REPLICA_SET, ROLLOUT, Kind, Manifest
from tests import build
from tests.behaviour.scenarios import HALF, canary
from tests.behaviour.stage import KEY, Stage, play

LABELS = {"app": KEY.name}
NAME = "cart"  # the Rollout's ReplicaSets have other names


def workload(kind: Kind, tag: str = "1", **metadata: Any) -> Manifest:
    """A workload of that kind, whose own pods nobody starts."""
    template = build.pod_template(KEY.name, image=f"web:{tag}")
    metadata = {**metadata, "labels": {**LABELS, **metadata.get("labels", {})}}
    if kind == POD_TEMPLATE:
        return build.manifest(kind, NAME, KEY.namespace, metadata=metadata, template=template)
    spec = {"replicas": 0, "selector": {"matchLabels": LABELS}, "template": template}
    return build.manifest(kind, NAME, KEY.namespace, metadata=metadata, spec=spec)


def rollout(kind: Kind = DEPLOYMENT, strategy: Manifest | None = None, **spec: Any) -> Manifest:
    """A Rollout of two pods whose template is that of the workload."""
    made = build.rollout(strategy or canary(HALF), KEY.name, KEY.namespace)
    of_workload = {"apiVersion": kind.api_version, "kind": kind.kind, "name": NAME}
    kept = {name: value for name, value in made["spec"].items() if name not in ("template", "selector")}
    if kind == POD_TEMPLATE:
        kept["selector"] = {"matchLabels": LABELS}
    return {**made, "spec": {**kept, "workloadRef": of_workload, **spec}}


def set_image(stage: Stage, kind: Kind, tag: str) -> None:
    """Somebody gives the workload another image."""
    template = {
        "template": {"spec": {"containers": build.pod_template(KEY.name, image=f"web:{tag}")["spec"]["containers"]}}
    }
    stage.merge(kind, NAME, template if kind == POD_TEMPLATE else {"spec": template})


def marks(stage: Stage, kind: Kind = DEPLOYMENT) -> tuple[str, str]:
    """Our label and annotation on the workload."""
    metadata = stage.find(kind, NAME)["metadata"]
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    return labels.get(MANAGED, ""), annotations.get(MANAGED_BY, "")


MARKED = ("true", KEY.name)
UNMARKED = ("", "")


@pytest.mark.parametrize("kind", [DEPLOYMENT, REPLICA_SET, POD_TEMPLATE], ids=lambda kind: kind.kind)
def test_a_change_of_the_workload_is_rolled_out(kind: Kind) -> None:
    """Argo Rollouts' three forms of a reference."""

    async def script(stage: Stage) -> None:
        await stage.until_phase("Healthy", "1")
        assert marks(stage, kind) == MARKED
        assert stage.status["selector"] == f"app={KEY.name}"
        set_image(stage, kind, "2")
        await stage.until_phase("Healthy", "2")

    run = play((rollout(kind), workload(kind)), script)

    sizes = {each[0]: each[1] for name, each in run.end["replicaSets"].items() if name.startswith(KEY.name)}
    assert sizes == {"1": 0, "2": 2}
    run.assert_clean()


def test_a_workload_that_comes_later_is_found_soon() -> None:
    """`kubectl apply` of a folder creates it a moment after the Rollout."""

    async def script(stage: Stage) -> None:
        await stage.until(lambda: stage.waits_for == "WorkloadNotFound")
        await asyncio.sleep(1.0)
        stage.cluster.apply(workload(DEPLOYMENT))
        await stage.until(lambda: marks(stage) == MARKED, within_s=3.0)
        await stage.until_phase("Healthy", "1")

    play((rollout(),), script).assert_clean()


def test_a_template_that_cannot_be_used_is_left_alone_until_the_workload_has_another() -> None:
    """It names more ConfigMaps than a revision can have; the Rollout itself is as it was."""

    async def script(stage: Stage) -> None:
        await stage.until_phase("Healthy", "1")
        many = [{"configMapRef": {"name": f"settings-{number}"}} for number in range(500)]
        containers = build.pod_template(KEY.name, image="web:2")["spec"]["containers"]
        stage.merge(
            DEPLOYMENT, NAME, {"spec": {"template": {"spec": {"containers": [{**containers[0], "envFrom": many}]}}}}
        )
        await stage.until(lambda: stage.waits_for == "InvalidSpec")
        set_image(stage, DEPLOYMENT, "3")
        await stage.until_phase("Healthy", "3")

    play((rollout(), workload(DEPLOYMENT)), script).assert_clean()


def test_a_deleted_workload_takes_no_pod_away_and_one_made_anew_is_followed() -> None:
    """Somebody takes the Deployment for a left-over of the migration."""

    async def script(stage: Stage) -> None:
        await stage.until_phase("Healthy", "1")
        stage.remove(DEPLOYMENT, NAME)
        await stage.until(lambda: stage.waits_for == "WorkloadNotFound")
        stage.edit({"spec": {"replicas": 4}})
        await stage.until(lambda: stage.available("1") == 4)
        stage.cluster.apply(workload(DEPLOYMENT, "2"))
        await stage.until_phase("Healthy", "2")

    play((rollout(), workload(DEPLOYMENT)), script).assert_clean()


def test_marks_come_back_after_somebody_replaces_the_workload() -> None:
    """`kubectl replace` takes them off, in the very write that brings the next template."""

    async def script(stage: Stage) -> None:
        await stage.until_phase("Healthy", "1")
        stage.merge(DEPLOYMENT, NAME, {"metadata": {"labels": {MANAGED: None}, "annotations": {MANAGED_BY: None}}})
        set_image(stage, DEPLOYMENT, "2")
        await stage.until_phase("Healthy", "2")
        assert marks(stage) == MARKED

    play((rollout(), workload(DEPLOYMENT)), script).assert_clean()


def test_a_deleted_rollout_leaves_no_marks() -> None:
    """The next Rollout that names the workload could not have it."""

    async def script(stage: Stage) -> None:
        await stage.until_phase("Healthy", "1")
        stage.delete()
        await stage.until(lambda: marks(stage) == UNMARKED)

    play((rollout(), workload(DEPLOYMENT)), script).assert_clean()


@pytest.mark.parametrize("named", ["a template of its own", "another workload"])
def test_a_workload_that_is_no_longer_named_is_released(named: str) -> None:
    """Whether the Rollout has a template of its own from now on, or takes that of another workload."""

    async def script(stage: Stage) -> None:
        await stage.until_phase("Healthy", "1")
        spec: Manifest = {"workloadRef": {"name": "other"}}
        if named == "a template of its own":
            own = build.pod_template(KEY.name, image="web:2")
            spec = {"workloadRef": None, "selector": {"matchLabels": LABELS}, "template": own}
        else:
            other = workload(DEPLOYMENT, "2")
            stage.cluster.apply({**other, "metadata": {**other["metadata"], "name": "other"}})
        stage.edit({"spec": spec})
        await stage.until_phase("Healthy", "2")
        assert marks(stage) == UNMARKED
        assert len(stage.events("WorkloadReleased")) == 1

    play((rollout(), workload(DEPLOYMENT)), script).assert_clean()


def test_a_second_rollout_waits_until_the_first_one_is_gone() -> None:
    """Both would roll the same template out; which of them has it is told by name."""
    first = rollout(strategy=canary())
    first = {**first, "metadata": {**first["metadata"], "name": "first"}}

    async def script(stage: Stage) -> None:
        await stage.until(lambda: stage.waits_for == "WorkloadOwnedTwice")
        assert "Rollout first manages Deployment cart" in stage.status["message"]
        stage.remove(ROLLOUT, "first")
        await stage.until_phase("Healthy", "1")
        assert marks(stage) == MARKED

    run = play(
        (first, workload(DEPLOYMENT, labels={MANAGED: "true"}, annotations={MANAGED_BY: "first"}), rollout()), script
    )

    assert run.unexpected == []


def test_an_annotation_without_the_label_holds_as_long_as_its_rollout_is_there() -> None:
    """No watch shows such a workload, so nobody removes the annotation of a Rollout that is gone."""
    first = rollout(strategy=canary())
    first = {**first, "metadata": {**first["metadata"], "name": "first"}}
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "another"}

    async def script(stage: Stage) -> None:
        await stage.until(lambda: stage.waits_for == "WorkloadOwnedTwice")
        assert marks(stage) == ("", "first")
        stage.remove(ROLLOUT, "first")
        await stage.until_phase("Healthy", "1")
        assert marks(stage) == MARKED

    elsewhere = {**first, "spec": {**first["spec"], "workloadRef": reference}}
    run = play((elsewhere, workload(DEPLOYMENT, annotations={MANAGED_BY: "first"}), rollout()), script)

    assert run.unexpected == []


def test_a_workload_of_another_tool_is_left_alone() -> None:
    """Both would write to it."""

    async def script(stage: Stage) -> None:
        await stage.until(lambda: stage.waits_for == "WorkloadNotUsable")
        assert "OpenKruise Rollouts manages it" in stage.status["message"]

    kruise = workload(DEPLOYMENT, annotations={"rollouts.kruise.io/in-progressing": "{}"})
    run = play((rollout(), kruise), script)

    assert "PATCH deployments" not in run.effects
    run.assert_clean()


@pytest.mark.parametrize("scale_down", ["onsuccess", "progressively"])
def test_the_deployment_is_scaled_down_and_gets_its_replicas_back(scale_down: str) -> None:
    """At the first revision, after a re-apply at the third one, and back when the Rollout is deleted."""
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": NAME, "scaleDown": scale_down}

    def size(stage: Stage) -> int:
        return int(stage.find(DEPLOYMENT, NAME)["spec"]["replicas"])

    async def script(stage: Stage) -> None:
        await stage.until_phase("Healthy", "1")
        await stage.until(lambda: size(stage) == 0)
        for tag in ("2", "3"):
            set_image(stage, DEPLOYMENT, tag)
            await stage.until_phase("Healthy", tag)
        stage.merge(DEPLOYMENT, NAME, {"spec": {"replicas": 5}})
        await stage.until(lambda: size(stage) == 0, within_s=2.0)
        await stage.until(lambda: len(stage.events("ReferencedWorkloadScaled")) == 1)
        stage.delete()
        await stage.until(lambda: size(stage) == 5 and marks(stage) == UNMARKED)

    made = workload(DEPLOYMENT)
    own = {**made, "spec": {**made["spec"], "replicas": 3}}
    play((rollout(workloadRef=reference), own), script).assert_clean()
