"""The values that administrators know from other charts: names, images, metadata, and the fields of the pod."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.documents import documents
from tests.lab.chart import CHART, RELEASE_NAMESPACE, render
from tests.packaging.rendered import Documents, container, named, only

pytestmark = pytest.mark.controlplane

DIGEST = f"sha256:{'0' * 64}"


def templated(helm: Path, release: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`helm template RELEASE`, which may fail."""
    words = [str(helm), "template", release, str(CHART), "--namespace", RELEASE_NAMESPACE, *arguments]
    settings = {"HOME": "/nonexistent", "PATH": "/usr/bin:/bin"}
    return subprocess.run(words, env=settings, capture_output=True, text=True, check=False)


def pod_of(rendered: Documents) -> dict[str, Any]:
    """The controller's."""
    found: dict[str, Any] = only(rendered, "Deployment")["spec"]["template"]["spec"]
    return found


@pytest.mark.parametrize(
    ("release", "values", "name"),
    [
        ("rollouts", "", "rollouts"),
        ("prod", "", "prod-rollouts"),
        ("my-rollouts", "", "my-rollouts"),
        ("prod", "nameOverride=delivery", "prod-delivery"),
        ("prod", "nameOverride=delivery,fullnameOverride=steady", "steady"),
    ],
)
def test_names_are_the_releases_and_the_charts(helm: Path, release: str, values: str, name: str) -> None:
    """`helm install prod` made a ClusterRole `prod`: nobody knows what that is for."""
    rendered = documents(templated(helm, release, "--set", values, "--skip-tests").stdout)

    assert only(rendered, "Deployment")["metadata"]["name"] == name
    assert only(rendered, "ClusterRoleBinding")["metadata"]["name"] == name
    assert only(rendered, "Service")["metadata"]["name"] == f"{name}-metrics"
    assert only(rendered, "Deployment")["metadata"]["labels"]["app.kubernetes.io/name"] == "rollouts"


@pytest.mark.parametrize(
    ("values", "image"),
    [
        ("", "localhost/rollouts:0.1.0"),
        ("image.tag=1", "localhost/rollouts:1"),
        ("image.tag=20260101", "localhost/rollouts:20260101"),
        ("image.registry=registry.example", "registry.example/rollouts:0.1.0"),
        ("image.registry=registry.example:5000/team", "registry.example:5000/team/rollouts:0.1.0"),
        ("image.registry=mirror.example,image.repository=team/rollouts", "mirror.example/team/rollouts:0.1.0"),
        ("image.repository=registry.example:5000/rollouts,image.tag=v2", "registry.example:5000/rollouts:v2"),
        (f"image.tag=v2,image.digest={DIGEST}", f"localhost/rollouts@{DIGEST}"),
    ],
)
def test_the_image_is_put_together_from_its_parts(helm: Path, values: str, image: str) -> None:
    """A mirror is one value, and so is a tag; `--set` reads one of digits alone as a number."""
    assert container(render(helm, "--set", values))["image"] == image


@pytest.mark.parametrize("repository", ["registry.example/rollouts:v2", "rollouts:v2", f"localhost/rollouts@{DIGEST}"])
def test_a_tag_in_the_repository_is_refused_with_where_it_belongs(helm: Path, repository: str) -> None:
    """It came out twice: rollouts:v2:0.1.0."""
    done = templated(helm, "rollouts", "--set", f"image.repository={repository}")

    assert done.returncode != 0
    assert "has a tag or a digest: set image.tag or image.digest to it" in done.stderr


def test_all_objects_are_in_the_namespace_that_was_chosen(helm: Path) -> None:
    """A parent chart has one namespace for each of its parts. What is in kube-system stays there."""
    chosen = "namespaceOverride=delivery,metrics.serviceMonitor.enabled=true,analysis.secrets={a}"

    rendered = render(helm, "--set", f"{chosen},analysis.templates.enabled=false")  # their notes name the release's

    assert RELEASE_NAMESPACE not in json.dumps(rendered)
    assert {one["metadata"].get("namespace") for one in rendered} == {None, "delivery", "kube-system"}
    assert "--lease-namespace=delivery" in container(rendered)["args"]


def test_common_labels_and_annotations_are_on_every_object(helm: Path) -> None:
    """Policies demand an owner of everything. The chart's own labels cannot be changed by them."""
    values = "commonLabels.team=delivery,commonLabels.app\\.kubernetes\\.io/name=other,commonAnnotations.owner=delivery"
    more = ("metrics.serviceMonitor.enabled", "metrics.prometheusRule.enabled", "metrics.dashboard.enabled")
    chosen = ",".join((values, *(f"{each}=true" for each in more)))
    served = ("--api-versions", "rollouts.dev/v1alpha1/ClusterAnalysisTemplate")

    rendered = render(helm, "--set", chosen, *served)

    pods = only(rendered, "Deployment")["spec"]["template"]
    for one in [*rendered, pods]:
        assert one["metadata"]["labels"]["team"] == "delivery", one["kind"]
        assert one["metadata"]["labels"]["app.kubernetes.io/name"] == "rollouts"
        assert one["metadata"]["annotations"]["owner"] == "delivery"
    assert "team" not in only(rendered, "Deployment")["spec"]["selector"]["matchLabels"]


ARBITRARY = 1000680000
FIRST = [{"name": "first", "image": "{{ .Release.Name }}:1"}]
POD: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "hostNetwork": ({"hostNetwork": True}, {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}),
    "dnsPolicy": ({"dnsPolicy": "Default"}, {"dnsPolicy": "Default"}),
    "dnsConfig": ({"dnsConfig": {"searches": ["x"]}}, {"dnsConfig": {"searches": ["x"]}}),
    "grace period": ({"terminationGracePeriodSeconds": 45}, {"terminationGracePeriodSeconds": 45}),
    "init containers": ({"initContainers": FIRST}, {"initContainers": [{"name": "first", "image": "rollouts:1"}]}),
    "a user": (
        {"podSecurityContext": {"runAsUser": ARBITRARY, "seccompProfile": None}},
        {"securityContext": {"runAsNonRoot": True, "runAsUser": ARBITRARY}},
    ),
    "no spread": ({"topologySpreadConstraints": []}, {"topologySpreadConstraints": None}),
}


@pytest.mark.parametrize(("values", "wanted"), POD.values(), ids=POD)
def test_a_field_of_the_pod_is_what_was_chosen(helm: Path, values: dict[str, Any], wanted: dict[str, Any]) -> None:
    """By the names that the fields have in a Pod."""
    words = [word for name, value in values.items() for word in ("--set-json", f"{name}={json.dumps(value)}")]

    pod = pod_of(render(helm, *words))

    assert {name: pod.get(name) for name in wanted} == wanted


def test_a_container_beside_the_controller_comes_after_it(helm: Path) -> None:
    """`kubectl logs deployment/rollouts` shows the first one."""
    beside = [{"name": "beside", "image": "x"}]

    containers = pod_of(render(helm, "--set-json", f"extraContainers={json.dumps(beside)}"))["containers"]

    assert [each["name"] for each in containers] == ["controller", "beside"]


def test_spreads_are_about_the_controllers_pods_unless_they_say_otherwise(helm: Path) -> None:
    """The selector has the release's name, which nobody wants to write by hand."""
    other = {"matchLabels": {"app": "other"}}
    spread = {"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"}
    chosen = [spread, {**spread, "labelSelector": other}]

    rendered = render(helm, "--set-json", f"topologySpreadConstraints={json.dumps(chosen)}")

    own = only(rendered, "Deployment")["spec"]["selector"]
    assert pod_of(rendered)["topologySpreadConstraints"] == [{**spread, "labelSelector": own}, chosen[1]]


def test_more_objects_are_templates(helm: Path) -> None:
    """As YAML, or as text where a name needs a template that YAML has no place for."""
    objects = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "{{ .Release.Name }}-more"}},
        'apiVersion: v1\nkind: Secret\nmetadata: {name: {{ include "rollouts.name" . }}-token}\n',
    ]

    rendered = render(helm, "--set-json", f"extraObjects={json.dumps(objects)}")

    assert [one["kind"] for one in named(rendered, "-more")] == ["ConfigMap"]
    assert only(rendered, "Secret")["metadata"]["name"] == "rollouts-token"


def test_the_service_monitor_may_be_where_prometheus_looks(helm: Path) -> None:
    """It then says where the Service is."""
    chosen = {
        "enabled": True,
        "namespace": "monitoring",
        "scheme": "https",
        "tlsConfig": {"insecureSkipVerify": True},
        "relabelings": [{"action": "labeldrop", "regex": "pod"}],
        "metricRelabelings": [{"action": "labeldrop", "regex": "instance"}],
    }

    monitor = only(render(helm, "--set-json", f"metrics.serviceMonitor={json.dumps(chosen)}"), "ServiceMonitor")

    endpoint = {name: value for name, value in chosen.items() if name not in ("enabled", "namespace")}
    assert monitor["metadata"]["namespace"] == "monitoring"
    assert monitor["spec"]["namespaceSelector"] == {"matchNames": [RELEASE_NAMESPACE]}
    assert monitor["spec"]["endpoints"] == [{"port": "metrics", "interval": "30s", **endpoint}]


@pytest.mark.parametrize(
    ("values", "budget"),
    [
        ("", {"maxUnavailable": 1}),
        ("podDisruptionBudget.maxUnavailable=50%", {"maxUnavailable": "50%"}),
        ("podDisruptionBudget.minAvailable=1", {"minAvailable": 1}),
        ("podDisruptionBudget.minAvailable=0", {"minAvailable": 0}),
    ],
)
def test_the_disruption_budget_has_one_of_its_two_numbers(helm: Path, values: str, budget: dict[str, Any]) -> None:
    """The API server refuses both."""
    spec = only(render(helm, "--set", values), "PodDisruptionBudget")["spec"]

    assert {name: spec[name] for name in ("maxUnavailable", "minAvailable") if name in spec} == budget


def test_no_user_is_named_unless_somebody_names_one(helm: Path) -> None:
    """OpenShift's restricted SCC refuses a fixed one. The image's own is a number that is not root, as runAsNonRoot demands."""
    rendered = documents(templated(helm, "rollouts").stdout)

    assert "runAsUser" not in json.dumps(rendered)
    for pod in (pod_of(rendered), only(rendered, "Pod")["spec"]):
        assert pod["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}


@pytest.mark.parametrize("namespaces", [(), ("shop", "cart")], ids=["everywhere", "two"])
def test_helm_test_reads_where_the_controller_may_and_stays_out_of_its_service(
    helm: Path, namespaces: tuple[str, ...]
) -> None:
    """Its account is the controller's, so a right that is missing fails it; and no request for metrics may reach it."""
    chosen = f"watchNamespaces={{{','.join(namespaces)}}}" if namespaces else ""

    rendered = documents(templated(helm, "rollouts", "--set", chosen).stdout)

    pod = only(rendered, "Pod")
    asked = [each["args"] for each in pod["spec"]["containers"][:-1]]
    assert asked == ([["list", f"--namespace={each}"] for each in namespaces] or [["list", "-A"]])
    assert pod["spec"]["serviceAccountName"] == only(rendered, "ServiceAccount")["metadata"]["name"]
    assert not only(rendered, "Service")["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
