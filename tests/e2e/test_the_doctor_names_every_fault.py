"""`rollouts doctor` on a real cluster that is broken in many ways at once: each fault is named, and what repairs it.

The chart's objects are applied without Helm, as Argo CD does it; `test_the_doctors_fixes_are_pasted.py` has a release. A healthy
cluster is in `test_the_pages_that_people_follow.py`; what kwok's pods cannot show is in tests/cli. The tests share a control
plane, so the one of an empty cluster comes first.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from rollouts.api.schema import crd_manifests
from rollouts.objects import LEASE, TRAFFIC_PROVIDER
from rollouts.sim.network.gateway_types import gateway_crds
from tests import build
from tests.e2e.controllers import ROOT, rollouts
from tests.e2e.manifests import KUBE_PROXY, canary, container_of
from tests.lab.chart import RELEASE, RELEASE_NAMESPACE, install_crds, render, wait_established
from tests.lab.control_plane import ControlPlane

pytestmark = pytest.mark.controlplane

TOLD_TO_PROXY = ("--set", "proxyMode=ipvs,prometheusUrl=http://prometheus.monitoring:9090")

MINE = f"{RELEASE_NAMESPACE}/{RELEASE}"
FAULTS = {
    "an older CRD": ("CRDs", "rollouts.rollouts.dev is older than this program", "kubectl apply"),
    "a missing CRD": ("CRDs", "not installed: metricproviders.rollouts.dev", "kubectl apply"),
    "a second controller": ("controller", "manage the same Rollouts", "kubectl delete deployment second --namespace second"),
    "a leader that does not renew": ("leader", "and nobody has taken over", "kubectl logs"),
    "a missing right": ("rights", f"{MINE} may not get rollouts", "rbac.create=true"),
    "a wrong proxy mode": ("proxy mode", f"{MINE} is configured with ipvs, and", "proxyMode=nftables"),
    "a router that is not installed": ("routers", "1 Rollout needs istio, and the API server does not have", "install the CRDs"),
    "a router without rights": ("routers", f"{MINE} may not change its routes", "routers=gatewayAPI,istio"),
    "a Prometheus that is not there": ("Prometheus", "there is no such Service", "prometheusUrl"),
    "a provider that is refused": ("providers", "the path does not lead anywhere", "change its spec"),
    "a Secret without a right to it": ("rights to Secrets",
        f"{MINE} may not get secrets/rollouts-config-key in default, get secrets/token in default",
        f"--service-account {MINE} | kubectl apply"),
    "a container whose use nobody measures": ("metrics APIs",
        "Rollout default/api asks what its container app uses: its steps do not complete; HorizontalPodAutoscaler default/web",
        "install metrics-server"),
    "a Gateway API that is too old": ("Gateway API",
        "Rollout default/api mirrors a part of the requests, and the installed Gateway API (v1.0.0) drops the percentage",
        "v1.3 or newer"),
    "no gateway": ("Gateway API", "there is no GatewayClass", "install a gateway"),
}  # fmt: skip
WARNINGS = {
    "another version": ("versions", f"{MINE} is 0.0.9, this program is", "render the chart again"),
}


def doctor(plane: ControlPlane, *arguments: str) -> tuple[int, list[dict[str, str]]]:
    """The exit code and the findings, as an administrator."""
    done = rollouts("doctor", "--json", "--kubeconfig", plane.kubeconfig_admin, *arguments, code=None)
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout)


def break_it(plane: ControlPlane) -> None:
    """A cluster with everything of the chart but its process, and every fault above."""
    rendered = render(Path(plane.programs, "helm"), *TOLD_TO_PROXY)
    documents = [one for one in rendered if one["kind"] != "ClusterAnalysisTemplate"]
    (deployment,) = [one for one in documents if one["kind"] == "Deployment"]
    deployment["metadata"]["labels"]["app.kubernetes.io/version"] = "0.0.9"
    by_name = {one["metadata"]["name"]: one for one in documents if one["kind"] == "CustomResourceDefinition"}
    documents.remove(by_name.pop("metricproviders.rollouts.dev"))
    documents.remove(next(one for one in documents if one["kind"] == "ClusterRoleBinding"))
    schema = by_name["rollouts.rollouts.dev"]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    del schema["properties"]["spec"]["properties"]["paused"]
    install_crds(plane, *by_name.values())
    for namespace in (RELEASE_NAMESPACE, "second"):
        plane.kubectl("create", "namespace", namespace)
    second = json.loads(json.dumps(deployment))
    second["metadata"] |= {"name": "second", "namespace": "second"}
    second["spec"]["replicas"] = 0
    plane.apply(*(one for one in documents if one["metadata"]["name"] not in by_name), second, KUBE_PROXY)
    plane.kubectl("rollout", "status", f"deployment/{RELEASE}", "-n", RELEASE_NAMESPACE, "--timeout=50s")
    install_an_old_gateway_api(plane)
    plane.apply(lease(), build.autoscaler("web", "default", CPU), routed(), demanding())
    refuse_a_provider(plane)


def lease() -> dict[str, Any]:
    """Held by a process that is gone."""
    now = "2026-01-01T00:00:00.000000Z"
    spec = {"holderIdentity": "gone_1", "leaseDurationSeconds": 15, "renewTime": now, "acquireTime": now}
    return build.manifest(LEASE, "rollouts-controller", RELEASE_NAMESPACE, spec=spec)


CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}
"""What the autoscaler goes by, and nobody serves."""


def routed() -> dict[str, Any]:
    """A Rollout whose router this cluster does not have."""
    routing = {"istio": {"virtualService": {"name": "web"}}}
    one = canary("web", stableService="web", canaryService="web-canary", trafficRouting=routing)
    one["metadata"]["namespace"] = "default"
    return one


def install_an_old_gateway_api(plane: ControlPlane) -> None:
    """HTTPRoutes as v1.0 had them, whose mirrors know no percentage."""
    route = copy.deepcopy(next(each for each in gateway_crds() if each["spec"]["names"]["kind"] == "HTTPRoute"))
    route["metadata"]["annotations"]["gateway.networking.k8s.io/bundle-version"] = "v1.0.0"
    (version,) = [each for each in route["spec"]["versions"] if each["name"] == "v1"]
    rule = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["rules"]["items"]
    del rule["properties"]["filters"]["items"]["properties"]["requestMirror"]["properties"]["percent"]
    plane.apply(route)
    wait_established(plane, route["metadata"]["name"])


def demanding() -> dict[str, Any]:
    """A Rollout that needs a Secret, a number of its container, and a mirror of a part of its requests."""
    mirror = {"name": "copy", "match": [{"path": {"prefix": "/"}}], "percentage": 5}
    routing = {"gatewayAPI": {"httpRoutes": [{"name": "api"}]}, "managedRoutes": [{"name": "copy"}]}
    gate = {"containerResource": {"container": "app", "resource": "cpu", "maxUtilizationPercent": 90}}
    one = canary("api", steps=[{"setWeight": 5}, {"setMirrorRoute": mirror}], stableService="api", canaryService="api-canary",
                 trafficRouting=routing, spec={"configVersioning": {"secrets": True}, "autoscaling": gate})  # fmt: skip
    one["metadata"]["namespace"] = "default"
    container_of(one)["envFrom"] = [{"secretRef": {"name": "token"}}]
    return one


def refuse_a_provider(plane: ControlPlane) -> None:
    """A TrafficProvider that the controller has judged, as its status says."""
    examples = Path(ROOT, "examples", "gateways", "traffic-declared.yaml").read_text()
    text = next(each for each in examples.split("\n---\n") if "kind: TrafficProvider" in each)
    plane.kubectl("apply", "-f", "-", input=text)
    name = plane.kubectl("get", "trafficproviders", "-o", "jsonpath={.items[0].metadata.name}").stdout
    said = {
        "status": "False",
        "reason": "Invalid",
        "message": "the path does not lead anywhere",
        "observedGeneration": 1,
    }
    condition = {"type": "Ready", "lastTransitionTime": "2026-01-01T00:00:00Z", **said}
    plane.patch(f"{TRAFFIC_PROVIDER.path('', name)}/status", {"status": {"conditions": [condition]}})


def test_before_anything_is_installed_it_says_what_to_install(modules_plane: ControlPlane) -> None:
    """The first command that some people type. An API server without the CRDs is not an error of the program."""
    code, found = doctor(modules_plane)

    faults = {each["check"]: each for each in found if each["level"] == "fault"}
    assert code == 1
    assert faults.keys() == {"CRDs", "controller"}
    assert all(crd["metadata"]["name"] in faults["CRDs"]["says"] for crd in crd_manifests())
    assert faults["CRDs"]["fix"] == faults["controller"]["fix"]


def test_a_cluster_that_is_broken_in_many_ways_is_told_each_fault_and_its_fix(modules_plane: ControlPlane) -> None:
    """An administrator gets the whole list at once, and not one fault after the other."""
    break_it(modules_plane)

    code, found = doctor(modules_plane)

    for level, expected in (("fault", FAULTS), ("warning", WARNINGS)):
        of_level = [each for each in found if each["level"] == level]
        for what, (check, says, fix) in expected.items():
            told = [
                each
                for each in of_level
                if each["check"] == check and says in each["says"] and fix in f"{each['fix']} {each['hint']}"
            ]
            assert len(told) == 1, f"{what}: {json.dumps(of_level, indent=1, ensure_ascii=False)}"
    assert code == 1
    assert [each for each in found if each["level"] in ("fault", "warning") and not (each["fix"] or each["hint"])] == []


def test_who_may_ask_little_is_told_what_was_not_looked_at(modules_plane: ControlPlane) -> None:
    """A developer of one namespace gets notes, and no faults that are only a lack of rights."""
    modules_plane.apply(*(crd_manifests()))
    modules_plane.kubectl("create", "namespace", "shop")
    modules_plane.wait_for_default_account("shop")
    kubeconfig = modules_plane.service_account_kubeconfig("shop", "default")

    code, found = doctor(modules_plane, "--kubeconfig", str(kubeconfig), "-n", "shop")

    assert code == 0
    assert {each["check"] for each in found if each["level"] == "note"} >= {"your rights"}
    assert "you may not get rollouts.rollouts.dev in shop" in json.dumps(found)
