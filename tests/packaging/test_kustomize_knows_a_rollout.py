"""Kustomize does with a Rollout what it does with a Deployment: `kubectl kustomize` on a folder as docs/gitops.md has it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from rollouts.api.schema import crd_manifests
from rollouts.objects import ANALYSIS_TEMPLATE, AUTOSCALER, CLUSTER_ANALYSIS_TEMPLATE, ROLLOUT, Kind
from tests import build
from tests.architecture.tracked import ROOT
from tests.documents import documents
from tests.lab.control_plane import ControlPlane
from tests.lab.processes import run
from tests.packaging.kustomize_rollouts import CONFIGURATION, FOLDER, OPENAPI, configuration, openapi, published
from tests.pages.blocks import blocks_of

pytestmark = pytest.mark.controlplane

(BLOCK,) = [each for each in blocks_of(ROOT / "docs" / "gitops.md") if "kind: Kustomization" in each.text]
HTTP_ROUTE = Kind("gateway.networking.k8s.io", "v1", "HTTPRoute", "httproutes")
CONTAINERS: list[dict[str, Any]] = [
    {
        "name": "app",
        "image": "app:1",
        "envFrom": [{"configMapRef": {"name": "settings"}}, {"secretRef": {"name": "token"}}],
    },
    {"name": "beside", "image": "beside:1"},
]
MORE = [{"name": "app", "imagePullPolicy": "Always"}]


def pods(name: str) -> dict[str, Any]:
    """Selector and template."""
    labels = {"app": name}
    volume = {"name": "more", "projected": {"sources": [{"configMap": {"name": "settings"}}]}}
    spec = {"containers": CONTAINERS, "volumes": [volume], "imagePullSecrets": [{"name": "token"}]}
    return {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}}


def objects() -> list[dict[str, Any]]:
    """An application with a canary by a route and an analysis, an autoscaler, and a Deployment beside it."""
    key = {"name": "key", "valueFrom": {"secretKeyRef": {"name": "token", "key": "key"}}}
    tried = {
        "templates": [{"name": "canary", "specRef": "canary"}],
        "analyses": [{"name": "tried", "templateName": "smoke", "args": [key]}],
    }
    steps: list[dict[str, Any]] = [
        {"experiment": tried},
        {"setWeight": 10},
        {"analysis": {"templates": [{"templateName": "smoke"}, {"templateName": "all", "clusterScope": True}]}},
    ]
    routing = {"gatewayAPI": {"httpRoutes": [{"name": "cart"}]}}
    strategy = build.canary(*steps, stableService="cart", canaryService="cart-canary", trafficRouting=routing)
    rule = {"backendRefs": [{"name": each, "port": 80} for each in ("cart", "cart-canary")]}
    metrics = [
        {"name": each, "provider": {"job": {"spec": {"template": {"spec": {"containers": CONTAINERS}}}}}}
        for each in "ab"
    ]
    target = {"apiVersion": ROLLOUT.api_version, "kind": ROLLOUT.kind, "name": "cart"}
    return [
        build.manifest(ROLLOUT, "cart", spec={"replicas": 2, **pods("cart"), "strategy": strategy}),
        *(build.service(name, app="cart") for name in ("cart", "cart-canary")),
        build.manifest(HTTP_ROUTE, "cart", spec={"rules": [rule]}),
        build.manifest(ANALYSIS_TEMPLATE, "smoke", spec={"metrics": metrics}),
        build.manifest(CLUSTER_ANALYSIS_TEMPLATE, "all", spec={"metrics": []}),
        build.manifest(AUTOSCALER, "cart", spec={"scaleTargetRef": target, "maxReplicas": 3}),
        build.manifest(Kind("apps", "v1", "Deployment", "deployments"), "other", spec=pods("other")),
    ]


Built = dict[tuple[str, str], dict[str, Any]]


def kustomized(folder: Path, kubectl: Path, **settings: Any) -> Built:
    """What `kubectl kustomize` makes of these objects, with the page's settings and these; by kind and name."""
    shutil.copy(OPENAPI, folder / "rollouts-openapi.json")
    own = yaml.safe_load(BLOCK.text)
    own |= {"components": [os.path.relpath(FOLDER, folder)], "resources": ["app.yaml"], **settings}
    (folder / "app.yaml").write_text(yaml.safe_dump_all(objects()))
    (folder / "kustomization.yaml").write_text(json.dumps(own))
    built = documents(run(kubectl, "kustomize", folder).stdout)
    return {(one["kind"], one["metadata"]["name"]): one for one in built}


@pytest.fixture
def kubectl(lab_programs: Path) -> Path:
    """The one of the lab, with the Kustomize in it."""
    return lab_programs / "kubectl"


def texts(value: Any) -> Iterator[str]:
    """Every text in a value."""
    if isinstance(value, dict):
        value = list(value.values())
    for part in value if isinstance(value, list) else []:
        yield from texts(part)
    if isinstance(value, str):
        yield value


@pytest.mark.parametrize(
    ("kind", "name"), [("Rollout", "cart"), ("AnalysisTemplate", "smoke"), ("Deployment", "other")]
)
def test_generated_names_are_those_in_the_pods(tmp_path: Path, kubectl: Path, kind: str, name: str) -> None:
    """The generated ConfigMap has a hash in its name. Its old name in a template is that of nothing."""
    made = [{"name": "settings", "literals": ["a=b"]}]
    secrets = [{"name": "token", "literals": ["a=b"]}]

    built = kustomized(tmp_path, kubectl, configMapGenerator=made, secretGenerator=secrets)

    generated = {name for kind, name in built if kind in ("ConfigMap", "Secret")}
    named = set(texts(built[kind, name]["spec"]))
    assert len(generated) == 2 and generated <= named
    assert named & {"settings", "token"} == set()


def test_a_prefix_is_on_everything_that_a_rollout_names(tmp_path: Path, kubectl: Path) -> None:
    """Services, routes and their backends, analyses, and the autoscaler's target; the Rollout would wait for each of them."""
    built = kustomized(tmp_path, kubectl, namePrefix="next-")

    canary = built["Rollout", "next-cart"]["spec"]["strategy"]["canary"]
    assert (canary["stableService"], canary["canaryService"]) == ("next-cart", "next-cart-canary")
    assert canary["trafficRouting"]["gatewayAPI"]["httpRoutes"] == [{"name": "next-cart"}]
    tried, _, judged = canary["steps"]
    assert [each["templateName"] for each in tried["experiment"]["analyses"]] == ["next-smoke"]
    assert [each["templateName"] for each in judged["analysis"]["templates"]] == ["next-smoke", "next-all"]
    backends = built["HTTPRoute", "next-cart"]["spec"]["rules"][0]["backendRefs"]
    assert [each["name"] for each in backends] == ["next-cart", "next-cart-canary"]
    assert built["HorizontalPodAutoscaler", "next-cart"]["spec"]["scaleTargetRef"]["name"] == "next-cart"


def test_labels_of_selectors_are_on_the_pods_too(tmp_path: Path, kubectl: Path) -> None:
    """The Services got the label and the pods did not, so they selected nothing."""
    pairs = {"pairs": {"team": "shop"}, "includeSelectors": True}

    built = kustomized(tmp_path, kubectl, labels=[pairs], commonAnnotations={"owner": "shop"})

    spec = built["Rollout", "cart"]["spec"]
    assert built["Service", "cart"]["spec"]["selector"]["team"] == "shop"
    assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"] == {"app": "cart", "team": "shop"}
    assert spec["template"]["metadata"]["annotations"] == {"owner": "shop"}


@pytest.mark.parametrize(("kind", "name"), [(ROLLOUT.kind, "cart"), ("Deployment", "other")])
def test_a_patch_of_one_container_leaves_the_others(tmp_path: Path, kubectl: Path, kind: str, name: str) -> None:
    """It deleted them. A schema takes the place of Kustomize's own, so what it knew of a Deployment must be in it, too."""
    version = ROLLOUT.api_version if kind == ROLLOUT.kind else "apps/v1"
    patch = {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"template": {"spec": {"containers": MORE}}},
    }

    built = kustomized(tmp_path, kubectl, patches=[{"patch": json.dumps(patch)}])

    merged = built[kind, name]["spec"]["template"]["spec"]["containers"]
    assert {each["name"]: each for each in merged} == {
        "app": {**CONTAINERS[0], "imagePullPolicy": "Always"},
        "beside": CONTAINERS[1],
    }


def test_a_patch_of_one_metric_leaves_the_others(tmp_path: Path, kubectl: Path) -> None:
    """Environments differ in the limit of one metric."""
    changed = build.manifest(ANALYSIS_TEMPLATE, "smoke", spec={"metrics": [{"name": "b", "interval": "5s"}]})

    built = kustomized(tmp_path, kubectl, patches=[{"patch": json.dumps(changed)}])

    metrics = {each["name"]: each for each in built["AnalysisTemplate", "smoke"]["spec"]["metrics"]}
    assert metrics.keys() == {"a", "b"} and metrics["b"]["interval"] == "5s" and metrics["b"]["provider"]


def test_replicas_and_images_are_set(tmp_path: Path, kubectl: Path) -> None:
    """`replicas` was an error; images Kustomize finds by itself."""
    replicas, images = [{"name": "cart", "count": 5}], [{"name": "app", "newTag": "2"}]

    built = kustomized(tmp_path, kubectl, replicas=replicas, images=images)

    spec = built["Rollout", "cart"]["spec"]
    assert spec["replicas"] == 5
    assert [each["image"] for each in spec["template"]["spec"]["containers"]] == ["app:2", "beside:1"]


def test_a_kind_of_the_cluster_gets_no_namespace(tmp_path: Path, kubectl: Path) -> None:
    """Kustomize takes a kind that it does not know for one with namespaces."""
    built = kustomized(tmp_path, kubectl, namespace="shop")

    assert built["Rollout", "cart"]["metadata"]["namespace"] == "shop"
    assert "namespace" not in built["ClusterAnalysisTemplate", "all"]["metadata"]


def test_both_files_are_what_the_crds_and_kubernetes_say(control_plane: ControlPlane) -> None:
    """`make kustomize` writes them again, after a change of the API and after a new version of Kubernetes."""
    kubernetes = published(control_plane)

    assert CONFIGURATION.read_text() == configuration(kubernetes)
    assert OPENAPI.read_text() == openapi(kubernetes)


NOT_CARRIED_OUT = ("/experiment/", "/appMesh/", "/smi/", "/managedRoutes/")
"""Fields of Argo Rollouts' that are refused by name, and names of rules."""
NAMING = ("Service", "ServiceName", "ngress", "ngresses", "templateName", "metricProvider")


def test_no_field_that_names_an_object_is_left_out() -> None:
    """A router that comes with a field of its own would be missed by a prefix, and a field that is renamed as well."""
    of = {
        crd["spec"]["names"]["kind"]: crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] for crd in crd_manifests()
    }
    known = {
        (place["kind"], f"/{place['path']}")
        for one in yaml.safe_load(CONFIGURATION.read_text())["nameReference"]
        for place in one["fieldSpecs"]
        if place["kind"] in of and "/template/spec/" not in place["path"]
    }
    fields = {(kind, path) for kind in {kind for kind, _ in known} for path in strings(of[kind])}
    naming = {
        (kind, path)
        for kind, path in fields
        if path.endswith(NAMING) or ("/trafficRouting/" in path and path.endswith("/name"))
        if not any(part in path for part in NOT_CARRIED_OUT)
    }

    assert known - fields == set()
    assert naming - known == set()


def strings(schema: dict[str, Any], path: str = "") -> Iterator[str]:
    """Paths of all fields that hold texts, or lists of texts."""
    for name, part in (schema.get("properties") or {}).items():
        yield from strings(part, f"{path}/{name}")
    if isinstance(items := schema.get("items"), dict):
        yield from strings(items, path)
    if schema.get("type") == "string":
        yield path
