"""Promise: a real kube-apiserver takes the CRD as it is, and refuses bad Rollouts before any controller sees them."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from rollouts.api.schema import crd_files, crd_manifests
from rollouts.api.status.wire import status_from_wire, status_to_wire
from rollouts.core.model.status import Phase, RolloutStatus
from rollouts.objects import ANALYSIS_RUN, ANALYSIS_TEMPLATE, CLUSTER_ANALYSIS_TEMPLATE, Kind
from tests.api.analysis_specs import GOOD, METRIC
from tests.api.routing_specs import route_step, routed
from tests.api.specs import ANALYSIS, BAD, BLUE_GREEN, CANARY, blue_green, canary, changed, manifest, step
from tests.api.test_a_bad_spec_is_refused_in_full import EVERY_BAD

pytestmark = pytest.mark.controlplane
EXAMPLES = sorted((Path(__file__).parent.parent.parent / "examples").glob("*.yaml"))
ROUTED = (
    routed([{"setWeight": 1000}], plugins={"mine": {"x": {"y": [1]}}}, maxTrafficWeight=1000),
    route_step(setHeaderRoute={"name": "beta", "match": [{"headerName": "x-user", "headerValue": {"regex": "a.*"}}]}),
    route_step(setMirrorRoute={"name": "beta", "match": [{"path": {"prefix": "/api"}}], "percentage": 35}),
    route_step(setCanaryScale={"matchTrafficWeight": True}),
    route_step(setCanaryScale={"weight": 30, "matchTrafficWeight": False}),
)
_DECLARED = (EXAMPLES[0].parent / "gateways" / "traffic-declared.yaml").read_text()
(PROVIDER,) = [one for one in yaml.safe_load_all(_DECLARED) if one["kind"] == "TrafficProvider"]
BAD_PROVIDERS: list[dict[str, Any]] = [
    {"service": {"path": "a", "cel": "item.a"}}, {"service": {}}, {"accepted": {"cel": "object.a", "type": "Ready"}},
    {"accepted": {"conditions": "status.conditions"}}, {"tests": []}, {"settleSeconds": 301}, {"backends": "a" * 254},
    {"service": {"cel": "a" * 1025}},
]  # fmt: skip
_HELD = {**ANALYSIS, "onFailure": "hold", "args": [{"name": "a", "valueFrom": {"podTemplateHashValue": "Latest"}}]}
ANALYSED = (
    step(analysis=_HELD),
    canary(analysis={**_HELD, "startingStep": 1}),
    blue_green(prePromotionAnalysis=_HELD, postPromotionAnalysis=ANALYSIS),
    changed(CANARY, analysis={"successfulRunHistoryLimit": 0, "unsuccessfulRunHistoryLimit": 9}),
)


@pytest.fixture(scope="module")
def plane(control_plane: Any) -> Any:
    """The control plane with our CRD, applied as `kubectl apply` does by default: on the client's side."""
    control_plane.kubectl("apply", "-f", "-", input="---\n".join(crd_files().values()))
    _until_served(control_plane)
    return control_plane


def _until_served(plane: Any) -> None:
    """Watches rather than `kubectl wait`, which fails on a CRD so young that it has no conditions yet (2 times in 25)."""
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    for plural in (crd["spec"]["names"]["plural"] for crd in crd_manifests()):
        with plane.watch(crds, timeout_s=30, fieldSelector=f"metadata.name={plural}.rollouts.dev") as events:
            assert any(_is_established(event["object"]) for event in events)
        deadline = time.monotonic() + 30
        while plane.api.get(f"/apis/rollouts.dev/v1alpha1/{plural}").status_code != 200:  # served a moment after that
            assert time.monotonic() < deadline


def _is_established(crd: dict[str, Any]) -> bool:
    conditions = crd.get("status", {}).get("conditions") or ()
    return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)


def _create(plane: Any, namespace: str, spec: dict[str, Any], *, name: str, dry_run: bool = True) -> Any:
    return plane.api.post(
        f"/apis/rollouts.dev/v1alpha1/namespaces/{namespace}/rollouts",
        params={"fieldValidation": "Strict", **({"dryRun": "All"} if dry_run else {})},
        json=manifest(spec, name=name),
    )


def _one(plane: Any, namespace: str, name: str = "cart") -> dict[str, Any]:
    found: dict[str, Any] = plane.api.get(f"/apis/rollouts.dev/v1alpha1/namespaces/{namespace}/rollouts/{name}").json()
    return found


def test_the_schema_is_structural(plane: Any) -> None:
    """NonStructuralSchema would switch pruning off; a rule that costs too much would have been refused at once."""
    crd = plane.api.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/rollouts.rollouts.dev").json()

    conditions = {condition["type"]: condition["status"] for condition in crd["status"]["conditions"]}
    assert conditions["Established"] == "True"
    assert conditions["NamesAccepted"] == "True"
    assert conditions.get("NonStructuralSchema", "False") == "False"
    assert crd["spec"]["versions"][0]["schema"] == crd_manifests()[0]["spec"]["versions"][0]["schema"]


@pytest.mark.parametrize("spec", [CANARY, BLUE_GREEN, *ROUTED, *ANALYSED])
def test_a_good_spec_is_accepted(plane: Any, namespace: str, spec: dict[str, Any]) -> None:
    """Also what is planned for a later version: the schema knows it, the controller says when."""
    answer = _create(plane, namespace, spec, name="cart")

    assert answer.status_code == 201, answer.text


def test_every_bad_spec_is_refused_by_the_schema_where_the_schema_can(plane: Any, namespace: str) -> None:
    """The corpus of the parser's rules: what a CEL rule or a type can say is said at `kubectl apply`."""
    accepted = [
        bad.name
        for bad in EVERY_BAD
        if bad.by_schema and _create(plane, namespace, bad.spec, name="bad").status_code not in (400, 422)
    ]

    assert accepted == []
    assert sum(bad.by_schema for bad in BAD) >= 50


def test_what_only_the_parser_refuses_is_marked_so(plane: Any, namespace: str) -> None:
    """Keeps the table honest: a row that the schema refuses by now should say so."""
    late = [bad for bad in EVERY_BAD if not bad.by_schema and bad.words != "unknown field"]

    refused = [bad.name for bad in late if _create(plane, namespace, bad.spec, name="bad").status_code in (400, 422)]

    assert late, "a table in which the schema could do everything would prove nothing"
    assert refused == []


def test_the_selector_cannot_be_changed(plane: Any, namespace: str) -> None:
    """Pods of the old selector would be nobody's."""
    assert _create(plane, namespace, CANARY, name="cart", dry_run=False).status_code == 201

    done = plane.kubectl(
        *("patch", "rollout", "cart", "-n", namespace, "--type=merge"),
        *("-p", json.dumps({"spec": {"selector": {"matchLabels": {"tier": "web"}}}})),
        check=False,
    )

    assert done.returncode != 0
    assert "spec.selector cannot be changed" in done.stderr


def test_the_template_comes_back_as_it_was_sent(plane: Any, namespace: str) -> None:
    """No default, no pruning: the revision is a hash of these bytes."""
    container = {
        "name": "app",
        "image": "a",
        "future": {"x": [1, {}]},
        "ports": [{"containerPort": 53}, {"containerPort": 53, "protocol": "UDP"}],
        "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
    }
    pod = {"containers": [container], "volumes": [{"name": "v", "emptyDir": {}}], "newInKubernetes2": True}
    template = {"metadata": {"labels": {"app": "cart"}, "creationDate": "x"}, "spec": pod}
    _create(plane, namespace, changed(CANARY, template=template), name="cart", dry_run=False)

    assert _one(plane, namespace)["spec"]["template"] == template


def test_replicas_left_out_are_1(plane: Any, namespace: str) -> None:
    """The scale subresource of an object without replicas would be an error, and no autoscaler could work."""
    spec = {key: value for key, value in CANARY.items() if key != "replicas"}
    _create(plane, namespace, spec, name="cart", dry_run=False)

    assert _one(plane, namespace)["spec"]["replicas"] == 1
    plane.kubectl("scale", "rollout/cart", "--replicas=3", "-n", namespace)
    assert _one(plane, namespace)["spec"]["replicas"] == 3


def test_two_appliers_share_the_containers(plane: Any, namespace: str) -> None:
    """Server-side apply merges them by name, as it does for a Deployment."""
    ours = manifest({**CANARY})
    theirs = manifest({"template": {"spec": {"containers": [{"name": "sidecar", "image": "s"}]}}})
    for manager, one in (("a", ours), ("b", theirs)):
        plane.kubectl(
            *("apply", "--server-side", f"--field-manager={manager}", "-n", namespace, "-f", "-"), input=json.dumps(one)
        )

    containers = _one(plane, namespace)["spec"]["template"]["spec"]["containers"]
    assert sorted(container["name"] for container in containers) == ["app", "sidecar"]


def test_a_status_comes_back_from_the_api_server(plane: Any, namespace: str) -> None:
    """Nothing of it is pruned or refused, and `kubectl get` shows it."""
    told: dict[str, Any] = {"message": "waits", "selector": "a=b", "step_started_at_s": 1767225600.25}
    status = RolloutStatus(phase=Phase.PAUSED, step_index=1, weight_percent=25, **told)
    _create(plane, namespace, CANARY, name="cart", dry_run=False)
    answer = plane.api.patch(
        f"/apis/rollouts.dev/v1alpha1/namespaces/{namespace}/rollouts/cart/status",
        content=json.dumps({"status": status_to_wire(status, step_count=2)}),
        headers={"Content-Type": "application/merge-patch+json"},
    )

    assert answer.status_code == 200, answer.text
    assert status_from_wire(answer.json()["status"]) == status
    assert plane.kubectl("get", "ro", "-n", namespace, "--no-headers").stdout.split()[1:4] == ["Paused", "1/2", "25"]


@pytest.mark.parametrize("change", [{}, *BAD_PROVIDERS], ids=lambda change: next(iter(change), "good"))
def test_a_traffic_provider_is_held_to_its_limits(plane: Any, change: dict[str, Any]) -> None:
    """At `kubectl apply`, before any controller judges it; the example itself is taken."""
    one = {**PROVIDER, "spec": {**PROVIDER["spec"], **change}}

    answer = plane.api.post(
        "/apis/rollouts.dev/v1alpha1/trafficproviders", params={"fieldValidation": "Strict", "dryRun": "All"}, json=one
    )

    assert answer.status_code == (422 if change else 201), answer.text


def _make(plane: Any, kind: Kind, namespace: str, spec: dict[str, Any], *, dry_run: bool = True) -> Any:
    one = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "errors"}, "spec": spec}
    params = {"fieldValidation": "Strict", **({"dryRun": "All"} if dry_run else {})}
    return plane.api.post(kind.path(namespace if kind.namespaced else None), params=params, json=one)


@pytest.mark.parametrize("kind", [ANALYSIS_TEMPLATE, CLUSTER_ANALYSIS_TEMPLATE], ids=lambda kind: kind.kind)
def test_every_good_template_is_accepted(plane: Any, namespace: str, kind: Kind) -> None:
    """Argo's documentation and people's own: all shapes that the parser takes."""
    refused = {
        name: answer.text
        for name, spec in GOOD.items()
        if (answer := _make(plane, kind, namespace, spec)).status_code != 201
    }

    assert refused == {}


RUN = {
    "metrics": [METRIC, {"name": "job", "provider": {"job": {"spec": {"template": {"spec": {"a": 1}}}}}}],
    "args": [{"name": "a", "value": "b"}],
}


@pytest.mark.parametrize(
    "change",
    [
        {"metrics": [METRIC]},
        {"metrics": [METRIC, {"name": "job", "provider": {"job": {"spec": {"template": {"spec": {"a": 2}}}}}}]},
        {"metrics": [{**METRIC, "failureLimit": 1000}, RUN["metrics"][1]]},
        {"args": [{"name": "a", "value": "c"}]},
        {"args": None},
        {"dryRun": [{"metricName": ".*"}]},
        {"measurementRetention": []},
        {"ttlStrategy": {"secondsAfterCompletion": 1}},
    ],
    ids=str,
)
def test_a_run_is_not_changed_once_it_is_made(plane: Any, namespace: str, change: dict[str, Any]) -> None:
    """Its verdict is about what was asked when it began; a run that can be edited can be made to succeed."""
    assert _make(plane, ANALYSIS_RUN, namespace, RUN, dry_run=False).status_code == 201

    answer = plane.api.patch(
        ANALYSIS_RUN.path(namespace, "errors"),
        content=json.dumps({"spec": change}),
        headers={"Content-Type": "application/merge-patch+json"},
    )

    assert answer.status_code == 422, answer.text
    assert "only terminate can" in answer.text


def test_a_run_can_be_told_to_end(plane: Any, namespace: str) -> None:
    """By the controller, and by `kubectl patch`; its status is a part of its own, and `kubectl get` shows it."""
    _make(plane, ANALYSIS_RUN, namespace, RUN, dry_run=False)
    patch = json.dumps({"spec": {"terminate": True}})

    plane.kubectl("patch", "analysisrun", "errors", "-n", namespace, "--type=merge", "-p", patch)

    seen = plane.api.get(ANALYSIS_RUN.path(namespace, "errors")).json()
    assert seen["spec"] == {**RUN, "terminate": True}
    plane.kubectl(
        *("patch", "analysisrun", "errors", "-n", namespace, "--type=merge", "--subresource=status"),
        *("-p", json.dumps({"status": {"phase": "Failed", "message": "too many errors"}})),
    )
    shown = plane.kubectl("get", "analysisrun", "-n", namespace, "--no-headers").stdout.split()
    assert shown[:2] == ["errors", "Failed"]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_every_example_applies_with_strict_validation(plane: Any, namespace: str, path: Path) -> None:
    """The first thing that a user tries."""
    done = plane.kubectl("apply", "--validate=strict", "-n", namespace, "-f", str(path))

    assert done.stdout.count("created") == len([one for one in yaml.safe_load_all(path.read_text()) if one])


def test_applying_twice_changes_nothing(plane: Any, namespace: str) -> None:
    """GitOps tools apply all day."""
    plane.kubectl("apply", "-n", namespace, "-f", str(EXAMPLES[0]))

    done = plane.kubectl("apply", "-n", namespace, "-f", str(EXAMPLES[0]))

    assert "configured" not in done.stdout
    assert "unchanged" in done.stdout
