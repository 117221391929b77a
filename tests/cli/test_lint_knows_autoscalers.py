"""Promise: `lint` warns before a file and an autoscaler take turns in setting the number of pods, and says what to do."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from rollouts.cli.commands.lint_output import lint_files
from rollouts.objects import Kind, Manifest
from tests import build

HPA, KEDA = build.HPA, Kind("keda.sh", "v1alpha1", "ScaledObject", "scaledobjects")


def rollout(strategy: Manifest | None = None, **spec: Any) -> Manifest:
    """A Rollout `web` that lint has no problem with."""
    probe = {"readinessProbe": {"httpGet": {"path": "/", "port": 80}}}
    template = build.pod_template("web", image="web:1", container=probe)
    made = build.rollout(strategy or {"canary": {}}, namespace="shop", template=template, **spec)
    if "replicas" not in spec:
        del made["spec"]["replicas"]
    return made


def autoscaler(kind: Kind = HPA, *, namespace: str = "shop", **target: str) -> Manifest:
    """An autoscaler of the Rollout `web`."""
    of = {"apiVersion": "rollouts.dev/v1alpha1", "kind": "Rollout", "name": "web", **target}
    return build.manifest(kind, "load", namespace, spec={"maxReplicas": 9, "scaleTargetRef": of})


def remarks(*files: Manifest, rule: str = "ReplicasOfAutoscaler") -> list[str]:
    """What lint says by one rule of these files."""
    texts = [(f"{index}.yaml", yaml.safe_dump(each)) for index, each in enumerate(files)]
    reports = lint_files(texts, metrics=None, silenced=())
    assert [each for report in reports for each in report.report.problems] == []
    advice = [each for report in reports for each in report.report.advice]
    return [each.message for each in advice if each.rule == rule]


@pytest.mark.parametrize("kind", [HPA, KEDA], ids=["HPA", "KEDA"])
def test_a_number_that_an_autoscaler_sets_is_warned_of(kind: Kind) -> None:
    """Each commit would put the pods back to the file's number, at the hour with the most load. Often it is in another file."""
    (said,) = remarks(rollout(replicas=3), autoscaler(kind))

    assert said.startswith(
        f"warning: spec.replicas: {kind.kind} load sets it too, so each apply of this file takes back"
    )
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
def test_one_that_sets_it_alone_is_fine(files: tuple[Manifest, ...]) -> None:
    """A warning about nothing teaches people to read none."""
    assert remarks(*files) == []


def metric(kind: str, target: str) -> Manifest:
    """An item of `spec.metrics` of an HPA."""
    source = {"metric": {"name": "waiting"}, "target": {"type": target, target[0].lower() + target[1:]: "10"}}
    if kind == "Object":
        source["describedObject"] = {"kind": "Service", "name": "queue"}
    return {"type": kind, kind.lower(): source}


def by(*items: Manifest, kind: Kind = HPA, field: str = "metrics") -> Manifest:
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
def test_a_value_that_is_multiplied_by_the_pods_of_a_canary_is_warned_of(scaled: Manifest) -> None:
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
def test_other_metrics_and_strategies_are_right(strategy: Manifest, scaled: Manifest) -> None:
    """There the pods that an HPA multiplies by are those of `replicas`."""
    text = yaml.safe_dump_all([rollout(strategy=strategy), scaled])
    reports = lint_files([("a.yaml", text)], metrics=None, silenced=())

    assert [each.message for one in reports for each in one.report.advice if each.rule == "ValueOfAutoscaler"] == []
