"""Promise: `lint` knows whose pods a Rollout with `workloadRef` steps, and who scales them."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from rollouts.objects import AUTOSCALER, DEPLOYMENT, ROLLOUT, SERVICE, Kind, Manifest
from tests import build
from tests.linted import lint_text

LABELS = {"app": "cart"}
POD = build.pod_template("cart", image="cart:1")
FILES = [
    build.manifest(DEPLOYMENT, "cart", spec={"selector": {"matchLabels": LABELS}, "template": POD}),
    build.manifest(SERVICE, "cart", spec={"selector": LABELS, "ports": [{"port": 80}]}),
]


def _rollout(**reference: Any) -> Manifest:
    named = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "cart", **reference}
    own = {} if reference.get("mode") == "InPlace" else {"selector": {"matchLabels": LABELS}}
    steps = [{"setWeight": 25}, {"pause": {}}]
    return build.manifest(ROLLOUT, "cart", spec={**own, "workloadRef": named, "strategy": {"canary": {"steps": steps}}})


def _autoscaler(kind: Kind) -> Manifest:
    target = {"apiVersion": kind.api_version, "kind": kind.kind, "name": "cart"}
    return build.manifest(AUTOSCALER, "cart", spec={"scaleTargetRef": target, "minReplicas": 2, "maxReplicas": 9})


def _found(*manifests: Manifest) -> list[tuple[str, str]]:
    report = lint_text(yaml.safe_dump_all([*FILES, *manifests], sort_keys=False))
    return [(remark.rule.value, remark.message) for remark in (*report.problems, *report.advice)]


def test_a_deployment_in_place_with_its_service_and_its_autoscaler_has_no_problem() -> None:
    """Only the note that its pods were not checked: nothing else of the files is about the Rollout's own pods."""
    found = _found(_rollout(mode="InPlace"), _autoscaler(DEPLOYMENT))

    assert [rule for rule, _ in found] == ["TemplateElsewhere"]


@pytest.mark.parametrize(
    ("mode", "target", "words"),
    [
        (
            "InPlace",
            ROLLOUT,
            "Rollout cart, whose pods are those of Deployment cart; write kind: Deployment, name: cart",
        ),
        ("Template", DEPLOYMENT, "scales Deployment cart, not the Rollout of that name; write kind: Rollout"),
    ],
)
def test_an_autoscaler_scales_what_has_the_pods(mode: str, target: Kind, words: str) -> None:
    """Its target is the Deployment in place, and the Rollout where the Rollout has the pods."""
    found = dict(_found(_rollout(mode=mode), _autoscaler(target)))

    assert words in found["AutoscalerTarget"]


def test_no_autoscaler_scales_a_daemon_set() -> None:
    """It has no size to scale, so nobody is told to name it."""
    found = dict(_found(_rollout(mode="InPlace", kind="DaemonSet"), _autoscaler(ROLLOUT)))

    assert "pods are those of DaemonSet cart; remove it: nodes decide" in found["AutoscalerTarget"]


@pytest.mark.parametrize("mode", ["InPlace", "Template"])
def test_an_argument_that_is_a_field_of_the_workloads_template_is_no_problem(mode: str) -> None:
    """The template may be in the cluster; a field that no Rollout has is a problem all the same."""
    metric = {"name": "pods", "interval": "5s", "count": 3, "provider": {"kubernetes": {}}}
    template = build.analysis_template(metric, name="pods", args=[{"name": "image"}])

    def problems(path: str) -> list[str]:
        asked = [{"name": "image", "valueFrom": {"fieldRef": {"fieldPath": path}}}]
        made = _rollout(mode=mode)
        analysis = {"analysis": {"templates": [{"templateName": "pods"}], "args": asked}}
        made["spec"]["strategy"]["canary"]["steps"].append(analysis)
        return [message for _, message in _found(template, made) if "the Rollout has no" in message]

    assert problems("spec.template.spec.containers[0].image") == []
    assert len(problems("metadata.labels.app")) == 1
