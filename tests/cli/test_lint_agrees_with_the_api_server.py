"""Promise: what `rollouts lint` refuses in a pod template the real API server refuses too, and what that takes passes here."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from rollouts.cli.kubernetes.pods import template_problems
from rollouts.objects import Manifest
from tests import build
from tests.cli.broken_manifests import GOOD, IN_TEMPLATE, Broken
from tests.cli.pod_templates import LISTS, PAIRS, Pair, everyday
from tests.lab.control_plane import ControlPlane
from tests.lab.kubernetes_schema import FILE, published
from tests.linted import lint_text

pytestmark = pytest.mark.controlplane

LIMITS = {"requests": {"cpu": 0.5, "memory": "1e3"}, "limits": {"cpu": "1500m", "memory": 2e9}}
DEVICE = {"limits": {"cpu": 1, "example.com/gpu": 1, "hugepages-2Mi": "4Mi"}}
STARTED = {"exec": {"command": ["true"]}}
PROBES = {
    "ports": [{"containerPort": 80, "name": "http"}, {"containerPort": 80, "protocol": "UDP"}],
    "livenessProbe": {"grpc": {"port": 90}, "terminationGracePeriodSeconds": 5},
    "readinessProbe": {"httpGet": {"port": 80, "httpHeaders": [{"name": "a"}]}, "successThreshold": 3},
    "startupProbe": {"tcpSocket": {"port": "http"}, "failureThreshold": 100},
}
LABELS = {"items": [{"path": "p", "fieldRef": {"fieldPath": "metadata.labels"}}]}
SOURCES = [
    {"configMap": {"name": "a", "optional": True}},
    {"serviceAccountToken": {"path": "token"}},
    {"downwardAPI": LABELS},
]
TOLERATED = {"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}
APART = [{"weight": 1, "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname"}}]
ENV = [
    {"name": "A"},
    {"name": "B", "value": ""},
    {"name": "c.d-e", "value": "$(A)"},
    {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}, "value": ""},
    {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}},
]
ODD: dict[str, tuple[Manifest, Manifest]] = {
    "quantities": ({"resources": LIMITS}, {}),
    "a device": ({"resources": DEVICE}, {}),
    "a sidecar": (
        {},
        {"initContainers": [{"name": "log", "image": "l", "restartPolicy": "Always", "startupProbe": STARTED}]},
    ),
    "resize": ({"resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}]}, {}),
    "probes": (PROBES, {}),
    "projected": (
        {"volumeMounts": [{"name": "all", "mountPath": "/a"}, {"name": "all", "mountPath": "/b"}]},
        {"volumes": [{"name": "all", "projected": {"defaultMode": 0o440, "sources": SOURCES}}]},
    ),
    "hooks": (
        {"lifecycle": {"preStop": {"sleep": {"seconds": 0}}, "postStart": {"exec": {"command": ["a"]}}}},
        {"terminationGracePeriodSeconds": 0},
    ),
    "placement": (
        {},
        {
            "nodeSelector": {"kubernetes.io/arch": "amd64", "empty": ""},
            "tolerations": [{"operator": "Exists"}, TOLERATED],
            "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}],
            "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": APART}},
        },
    ),
    "environment": ({"env": ENV, "envFrom": [{"configMapRef": {"name": "a"}, "prefix": "X_"}]}, {}),
    "absent parts": ({"args": None, "resources": {}, "securityContext": {}}, {"volumes": None}),
    "the host": (
        {"ports": [{"containerPort": 80, "hostPort": 80}], "securityContext": {"runAsUser": 0}},
        {
            "hostNetwork": True,
            "dnsPolicy": "None",
            "dnsConfig": {"nameservers": ["10.0.0.1"], "options": [{"name": "ndots", "value": "2"}]},
        },
    ),
    "another image": ({"image": " "}, {"imagePullSecrets": [{"name": "a"}], "hostUsers": False}),
}
"""Fields of the container, and of the pod."""


def problems_of(template: Manifest) -> list[str]:
    """What lint says against a Rollout of it."""
    report = lint_text(yaml.safe_dump(build.rollout({"canary": {}}, "cart", "shop", template=template)))
    return [problem.message for problem in report.problems]


def refused(plane: ControlPlane, namespace: str, template: Any) -> str:
    """What the API server says against a ReplicaSet of it, created as strictly as the controller does; "" for nothing."""
    head = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "cart"}}
    spec = {"selector": {"matchLabels": {"app": "cart"}}, "template": template}
    path = f"/apis/apps/v1/namespaces/{namespace}/replicasets?dryRun=All&fieldValidation=Strict"
    answer = plane.api.post(path, json={**head, "spec": spec})
    return "" if answer.status_code == 201 else str(answer.json()["message"])


@pytest.mark.parametrize("broken", IN_TEMPLATE, ids=lambda each: f"{each.change}={str(each.value)[:20]}")
def test_the_api_server_refuses_what_lint_refuses(broken: Broken, control_plane: ControlPlane, namespace: str) -> None:
    """A rule that only lint has would stop people for nothing."""
    (template,) = [each["spec"]["template"] for each in broken.manifests() if each["kind"] == "Rollout"]

    assert refused(control_plane, namespace, template) != ""


@pytest.mark.parametrize("name", ODD)
def test_lint_takes_what_the_api_server_takes(name: str, control_plane: ControlPlane, namespace: str) -> None:
    """Odd and right: numbers as quantities, sidecars, every probe, projected volumes, parts that are null."""
    container, pod = ODD[name]
    template = build.pod_template("cart", image="cart:1", container=container, **pod)

    assert refused(control_plane, namespace, template) == ""
    assert list(template_problems(template, "spec.template")) == []


def test_what_charts_have_is_taken(control_plane: ControlPlane, namespace: str) -> None:
    """The templates that `lint` has nothing against in `test_lint_raises_no_false_alarm.py`."""
    said = {name: refused(control_plane, namespace, template) for name, template in everyday()}

    assert {name: text for name, text in said.items() if text} == {}


@pytest.mark.parametrize("pair", PAIRS, ids=lambda each: f"{each.path}={str(each.refused)[:40]}")
def test_of_two_neighbours_both_refuse_the_same_one(pair: Pair, control_plane: ControlPlane, namespace: str) -> None:
    """A rule that lint lacks lets a file pass that waits for its first pod forever; one that only lint has stops good files."""
    wrong, right = pair.template(pair.refused), pair.template(pair.taken)

    assert (refused(control_plane, namespace, wrong) != "", refused(control_plane, namespace, right)) == (True, "")
    assert (problems_of(wrong) != [], problems_of(right)) == (True, [])


@pytest.mark.parametrize("pair", LISTS, ids=lambda each: f"{each.path}={str(each.refused)[:40]}")
@pytest.mark.usefixtures("controller_kubeconfig")  # which installs the CRDs
def test_lists_of_a_rollout_have_each_key_once(pair: Pair, control_plane: ControlPlane, namespace: str) -> None:
    """A ReplicaSet may have a variable twice; a Rollout may not, as server-side apply merges these lists by their keys."""
    path = f"/apis/rollouts.dev/v1alpha1/namespaces/{namespace}/rollouts?dryRun=All&fieldValidation=Strict"
    for value, taken in ((pair.refused, False), (pair.taken, True)):
        template = pair.template(value)
        answer = control_plane.api.post(path, json=build.rollout({"canary": {}}, "cart", namespace, template=template))

        assert (answer.status_code == 201, problems_of(template) == []) == (taken, taken), answer.text


def test_the_good_template_is_taken(control_plane: ControlPlane, namespace: str) -> None:
    """The one that the faults are put into."""
    assert refused(control_plane, namespace, GOOD["Rollout"]["spec"]["template"]) == ""


def test_the_schema_is_the_one_that_the_api_server_publishes(control_plane: ControlPlane) -> None:
    """`python -m tests.lab.kubernetes_schema` writes it again."""
    assert FILE.read_text(encoding="utf-8") == published(control_plane)
