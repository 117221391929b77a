"""Promise: `lint` warns before a file and an autoscaler take turns in setting the number of pods, and says what to do."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from rollouts.cli.commands.lint_output import lint_files

HPA = ("autoscaling/v2", "HorizontalPodAutoscaler")
KEDA = ("keda.sh/v1alpha1", "ScaledObject")


def rollout(**spec: Any) -> dict[str, Any]:
    """A Rollout `web` that lint has no problem with."""
    labels = {"app": "web"}
    probe = {"httpGet": {"path": "/", "port": 80}}
    template = {"metadata": {"labels": labels},
                "spec": {"containers": [{"name": "app", "image": "web:1", "readinessProbe": probe}]}}  # fmt: skip
    return {"apiVersion": "rollouts.dev/v1alpha1", "kind": "Rollout", "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"selector": {"matchLabels": labels}, "strategy": {"canary": {}}, "template": template, **spec}}  # fmt: skip


def autoscaler(kind: tuple[str, str] = HPA, *, namespace: str = "shop", **target: str) -> dict[str, Any]:
    """An autoscaler of the Rollout `web`."""
    of = {"apiVersion": "rollouts.dev/v1alpha1", "kind": "Rollout", "name": "web", **target}
    return {"apiVersion": kind[0], "kind": kind[1], "metadata": {"name": "load", "namespace": namespace},
            "spec": {"maxReplicas": 9, "scaleTargetRef": of}}  # fmt: skip


def remarks(*files: dict[str, Any], rule: str = "ReplicasOfAutoscaler") -> list[str]:
    """What lint says by one rule of these files."""
    reports = lint_files(
        [(f"{index}.yaml", yaml.safe_dump(each)) for index, each in enumerate(files)], metrics=None, silenced=()
    )
    assert [each for report in reports for each in report.report.problems] == []
    advice = [each for report in reports for each in report.report.advice]
    return [each.message for each in advice if each.rule == rule]


@pytest.mark.parametrize("kind", [HPA, KEDA], ids=["HPA", "KEDA"])
def test_a_number_that_an_autoscaler_sets_is_warned_of(kind: tuple[str, str]) -> None:
    """Each commit would put the pods back to the file's number, at the hour with the most load. Often it is in another file."""
    (said,) = remarks(rollout(replicas=3), autoscaler(kind))

    assert said.startswith(f"warning: spec.replicas: {kind[1]} load sets it too, so each apply of this file takes back")
    assert "leave it out of the file" in said


@pytest.mark.parametrize(
    "files",
    [
        (rollout(), autoscaler()),
        (rollout(replicas=3),),
        (rollout(replicas=3), autoscaler(name="other")),
        (rollout(replicas=3), autoscaler(namespace="other")),
    ],
    ids=["no number", "no autoscaler", "another target", "another namespace"],
)
def test_one_that_sets_it_alone_is_fine(files: tuple[dict[str, Any], ...]) -> None:
    """A warning about nothing teaches people to read none."""
    assert remarks(*files) == []


def metric(kind: str, target: str) -> dict[str, Any]:
    """An item of `spec.metrics` of an HPA."""
    source = {"metric": {"name": "waiting"}, "target": {"type": target, target[0].lower() + target[1:]: "10"}}
    if kind == "Object":
        source["describedObject"] = {"kind": "Service", "name": "queue"}
    return {"type": kind, kind.lower(): source}


def by(*items: dict[str, Any], kind: tuple[str, str] = HPA, field: str = "metrics") -> dict[str, Any]:
    """An autoscaler of the Rollout `web` by these metrics."""
    made = autoscaler(kind)
    return {**made, "spec": {**made["spec"], field: list(items)}}


ROUTED = {"canary": {"trafficRouting": {}, "stableService": "web", "canaryService": "web-canary"}}
TRIGGER = {"type": "prometheus", "name": "waiting", "metricType": "Value"}


@pytest.mark.parametrize(
    "scaled",
    [by(metric("Object", "Value")), by(metric("External", "Value")), by(TRIGGER, kind=KEDA, field="triggers")],
    ids=["Object", "External", "KEDA"],
)
def test_a_value_that_is_multiplied_by_the_pods_of_a_canary_is_warned_of(scaled: dict[str, Any]) -> None:
    """A real autoscaler made 18 pods of 10 at a canary of a half, where the load needed 12."""
    (said,) = remarks(rollout(strategy=ROUTED), scaled, rule="ValueOfAutoscaler")

    assert f"{scaled['kind']} load scales by the Value of waiting, which it multiplies by all ready pods" in said
    assert "write AverageValue there, or dynamicStableScale: true" in said


@pytest.mark.parametrize(
    ("strategy", "scaled"),
    [
        (ROUTED, by(metric("External", "AverageValue"))),
        (ROUTED, by(metric("Pods", "AverageValue"))),
        (ROUTED, by({**TRIGGER, "metricType": "AverageValue"}, kind=KEDA, field="triggers")),
        (ROUTED, by({"type": "External"}, {"type": "External", "external": None})),
        (ROUTED, by("no metric")),  # type: ignore[arg-type]
        ({"canary": {**ROUTED["canary"], "dynamicStableScale": True}}, by(metric("External", "Value"))),
        ({"canary": {}}, by(metric("External", "Value"))),
        ({"blueGreen": {"activeService": "web"}}, by(metric("External", "Value"))),
    ],
)
def test_other_metrics_and_strategies_are_right(strategy: dict[str, Any], scaled: dict[str, Any]) -> None:
    """There the pods that an HPA multiplies by are those of `replicas`."""
    reports = lint_files(
        [("a.yaml", yaml.safe_dump_all([rollout(strategy=strategy), scaled]))], metrics=None, silenced=()
    )

    assert [each.message for one in reports for each in one.report.advice if each.rule == "ValueOfAutoscaler"] == []
