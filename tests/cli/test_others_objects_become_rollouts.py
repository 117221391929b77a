"""Promise: `rollouts migrate` turns Deployments, Argo Rollouts' objects and Flagger's Canaries into objects that pass `lint`.

What it cannot turn into one is named with its path, and the exit code says so.
"""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from rollouts.cli.migrate.migrated import migrated
from rollouts.cli.migrate.outcome import Migration, Told
from rollouts.objects import SERVICE, Manifest
from tests import build
from tests.api.argo_examples import Example
from tests.api.argo_provider_examples import ALL
from tests.cli.command_line import CommandLine
from tests.cli.flagger_canaries import AUTOSCALER, CANARIES, DEPLOYMENT, TEMPLATE, canary
from tests.linted import lint_text

WITH_A_LABEL = {"app": "podinfo", "managed": "rollout"}


def problems(outcome: Migration) -> list[str]:
    """What `lint` says of what came out."""
    report = lint_text(yaml.safe_dump_all(outcome.objects))
    return [f"{each.subject}: {each.message}" for each in report.problems]


def of_kind(outcome: Migration, kind: str) -> list[Manifest]:
    """The objects of one kind that came out."""
    return [each for each in outcome.objects if each["kind"] == kind]


def told(outcome: Migration, how: Told) -> list[str]:
    """The notes of one weight."""
    return [str(each) for each in outcome.notes if each.told is how]


def left(outcome: Migration) -> set[str]:
    """The paths at which something is to do or left out."""
    return {each.path for each in outcome.notes if each.told in (Told.TO_DO, Told.LEFT_OUT)}


@pytest.mark.parametrize("name", CANARIES)
def test_a_canary_of_flagger_becomes_a_rollout_that_lints_clean(name: str) -> None:
    """With its Services, and what is left to do by hand."""
    outcome = migrated(
        [CANARIES[name], DEPLOYMENT, AUTOSCALER, *([TEMPLATE] if name == "a metric of one's own" else [])]
    )

    (rollout,) = of_kind(outcome, "Rollout")
    assert (problems(outcome) == []) is (name != "a/b by cookie"), "nginx matches a cookie of one value"
    assert rollout["spec"]["template"]["spec"] == DEPLOYMENT["spec"]["template"]["spec"]
    assert rollout["spec"]["template"]["metadata"]["labels"] == WITH_A_LABEL
    assert len(of_kind(outcome, "Service")) == 2
    (autoscaler,) = of_kind(outcome, "HorizontalPodAutoscaler")
    assert autoscaler["spec"]["scaleTargetRef"]["kind"] == "Rollout"
    assert any("delete the Canary last" in each for each in told(outcome, Told.THEN))
    assert left(outcome) == LEFT.get(name, set())
    assert outcome.complete is (name not in LEFT)


def _metrics(*numbers: int) -> set[str]:
    return {f"spec.analysis.metrics[{number}]" for number in numbers}


_WEIGHTS = {"spec.analysis.stepWeight", "spec.analysis.maxWeight"}
_PARENTS = {"spec.service.gatewayRefs"}
LEFT: dict[str, set[str]] = {
    "gateway api": {*_metrics(0, 1), *_PARENTS},
    "gateway api beta": {*_metrics(0, 1), *_PARENTS},
    "apisix": _metrics(0, 1),
    "gloo": _metrics(0, 1),
    "skipper": {*_metrics(0, 1), "spec.ingressRef.name"},
    "no provider": {*_metrics(0, 1), *_WEIGHTS, "spec.provider"},
    "a/b by cookie": {""},
    "a metric of one's own": {"spec.query"},
    "what has no equal": {
        *("spec.analysis.sessionAffinity", "spec.analysis.alerts"),
    },
}
"""By Canary: what a person has to do or to do without."""


def test_weights_become_steps_and_metrics_analyses() -> None:
    """After `maxWeight` comes the promotion. Flagger's own metrics are the chart's; a MetricTemplate's range is a condition."""
    (rollout,) = of_kind(migrated([CANARIES["istio"], DEPLOYMENT]), "Rollout")
    steps, analysis = (rollout["spec"]["strategy"]["canary"][each] for each in ("steps", "analysis"))
    (template,) = of_kind(migrated([CANARIES["a metric of one's own"], DEPLOYMENT, TEMPLATE]), "AnalysisTemplate")
    (metric,) = template["spec"]["metrics"]

    assert [each["setWeight"] for each in steps[::2]] == [10, 20, 30, 40, 50]
    assert steps[1::2] == [{"pause": {"duration": "1m"}}] * 5
    names = [each["templateName"] for each in analysis["templates"]]
    assert names == ["rollouts-success-rate-istio", "rollouts-latency-istio"]
    limits = {each["name"]: each["value"] for each in analysis["args"]}
    counted = {"window": "1m", "interval": "1m", "count": "0", "failure-limit": "4"}
    assert limits == {**counted, "min-success-rate": "0.99", "max-latency-ms": "500"}
    assert (metric["successCondition"], metric["failureLimit"]) == ("result[0] <= 5", 4)
    assert 'job="podinfo",namespace="test"' in metric["provider"]["prometheus"]["query"]


def test_without_the_deployment_nothing_comes_out_but_the_reason() -> None:
    """The pod template is in it."""
    outcome = migrated([canary()])

    assert outcome.objects == []
    (left_out,) = told(outcome, Told.LEFT_OUT)
    assert left_out == "left out: Canary podinfo: Deployment podinfo: give its file too"


BY_NODES = (
    "a Rollout updates it in place, by nodes: write one with workloadRef {apiVersion: apps/v1, kind: DaemonSet, name: agent, "
    "mode: InPlace} and a canary of setWeight, pause and analysis, and delete the Canary first"
)


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ({"kind": "DaemonSet", "name": "agent"}, f"DaemonSet agent: {BY_NODES}"),
        ({"kind": "Service", "name": "fn"}, "Service fn: only Deployments can be taken over"),
        ({"name": "web"}, "Deployment web: give its file too"),
    ],
)
def test_a_canary_that_cannot_be_taken_over_says_what_helps(target: Manifest, said: str) -> None:
    """By the kind of its workload."""
    made = canary()
    made["spec"]["targetRef"] = target
    (left_out,) = told(migrated([made]), Told.LEFT_OUT)

    assert left_out == f"left out: Canary podinfo: {said}"


def _argo(kind: str, spec: Any, name: str = "cart") -> Manifest:
    return {"apiVersion": "argoproj.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}


@pytest.mark.parametrize("example", ALL, ids=lambda each: each.where)
def test_an_example_of_argo_lints_as_its_page_says(example: Example) -> None:
    """What is refused is refused by name (docs/argo-compatibility.md); everything else passes."""
    outcome = migrated([_argo(example.kind, example.spec)])

    one, *providers = outcome.objects
    assert {each["kind"] for each in providers} <= {"MetricProvider"}
    assert (one["apiVersion"], one["kind"]) == ("rollouts.dev/v1alpha1", example.kind)
    if not example.refused:
        assert [each for each in problems(outcome) if "template" not in each] == []


def test_a_deployment_becomes_a_canary_with_the_same_limits() -> None:
    """Nothing that a server wrote comes along."""
    limits = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 0}}
    annotations = {"deployment.kubernetes.io/revision": "3", "team": "a"}
    metadata = {**DEPLOYMENT["metadata"], "uid": "1", "resourceVersion": "2", "annotations": annotations}
    spec = {**DEPLOYMENT["spec"], "strategy": limits}

    outcome = migrated([{**DEPLOYMENT, "metadata": metadata, "spec": spec, "status": {"replicas": 2}}])

    (rollout,) = outcome.objects
    assert problems(outcome) == []
    assert rollout["metadata"] == {"name": "podinfo", "namespace": "test", "annotations": {"team": "a"}}
    assert rollout["spec"]["strategy"]["canary"]["maxSurge"] == "25%"
    assert "status" not in rollout


def test_a_workload_reference_takes_the_template_over() -> None:
    """The files have all of it, so nothing has to be left behind that only gives a template."""
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "podinfo"}
    spec = {"replicas": 3, "workloadRef": reference, "strategy": {"canary": {}}}

    rollout = _argo("Rollout", spec, "web")
    rollout["metadata"]["namespace"] = "test"

    outcome = migrated([rollout, DEPLOYMENT, AUTOSCALER])

    assert problems(outcome) == []
    assert of_kind(outcome, "Rollout")[0]["spec"]["template"]["spec"] == DEPLOYMENT["spec"]["template"]["spec"]
    assert of_kind(outcome, "HorizontalPodAutoscaler")[0]["spec"]["scaleTargetRef"]["name"] == "web"


def test_a_workload_that_is_not_in_the_files_stays_a_reference() -> None:
    """Its template is not known here; what the new controller needs for it is told."""
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "podinfo", "scaleDown": "onsuccess"}

    outcome = migrated([_argo("Rollout", {"workloadRef": reference, "strategy": {"canary": {}}}, "web")])

    assert problems(outcome) == []
    assert of_kind(outcome, "Rollout")[0]["spec"]["workloadRef"] == reference
    assert any("workloads: [deployments]" in str(each) for each in told(outcome, Told.THEN))


@pytest.mark.parametrize("came_in", [True, False], ids=["with the Deployment", "without it"])
def test_an_argument_that_is_a_field_of_the_workloads_template_stays(came_in: bool) -> None:
    """Argo Rollouts calls it invalid with `workloadRef` (its issue 1302); here the template is the one that is rolled out."""
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "podinfo"}
    field = {"fieldRef": {"fieldPath": "spec.template.metadata.labels.app"}}
    asked = {"templates": [{"templateName": "pods"}], "args": [{"name": "app", "valueFrom": field}]}
    spec = {"workloadRef": reference, "strategy": {"canary": {"steps": [{"setWeight": 50}, {"analysis": asked}]}}}
    metric = {"name": "up", "interval": "5s", "count": 3, "successCondition": "result[0] >= 1",
              "provider": {"prometheus": {"address": "http://prometheus", "query": "up{app='{{args.app}}'}"}}}  # fmt: skip
    template = _argo("AnalysisTemplate", {"args": [{"name": "app"}], "metrics": [metric]}, "pods")

    argos = [_argo("Rollout", spec, "web"), template]
    for each in argos:
        each["metadata"]["namespace"] = "test"

    outcome = migrated([*argos, *([DEPLOYMENT] if came_in else [])])
    assert problems(outcome) == []
    (rollout,) = of_kind(outcome, "Rollout")
    assert rollout["spec"]["strategy"]["canary"]["steps"][1]["analysis"]["args"] == asked["args"]


def test_a_service_loses_argos_key() -> None:
    """With it, it would go on selecting Argo's pods alone."""
    selector = {"app": "cart", "rollouts-pod-template-hash": "abc"}

    outcome = migrated([build.manifest(SERVICE, "cart", spec={"selector": selector, "ports": [{"port": 80}]})])

    assert [each["spec"]["selector"] for each in outcome.objects] == [{"app": "cart"}]
    assert (len(told(outcome, Told.CHANGED)), len(told(outcome, Told.THEN)), outcome.complete) == (1, 1, True)


@pytest.mark.parametrize(
    ("file", "code", "words"),
    [
        ([DEPLOYMENT], 0, "file.yaml:1: then: Deployment podinfo: delete it"),
        (
            [CANARIES["what has no equal"], DEPLOYMENT],
            1,
            "left out: Canary podinfo spec.analysis.sessionAffinity",
        ),
        ([""], 1, "nothing to migrate"),
        (["a: ["], 1, "expected"),
    ],
)
def test_the_command_says_what_it_did(file: list[Manifest | str], code: int, words: str, typed: CommandLine) -> None:
    """Objects to stdout, for `kubectl apply -f -`; notes to stderr."""
    printed = typed("migrate", "-f", typed.file(*file), code=code)

    assert words in printed.err
    assert all(isinstance(each, dict) for each in yaml.safe_load_all(printed.out))


@pytest.mark.parametrize("strange", [[], "x", 7, None, {"a": []}])
@pytest.mark.parametrize("field", ["metadata", "spec"])
@pytest.mark.parametrize("manifest", [canary(), DEPLOYMENT, AUTOSCALER, TEMPLATE], ids=lambda each: str(each["kind"]))
def test_a_strange_object_stops_nothing(manifest: Manifest, field: str, strange: Any) -> None:
    """A file may hold anything."""
    other = {**DEPLOYMENT, "metadata": {"name": "other", "namespace": "test"}}

    (becomes,) = migrated([other]).objects
    assert becomes in migrated([{**manifest, field: strange}, other]).objects
