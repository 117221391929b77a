"""What `rollouts doctor` concludes from what it saw: each fault with its fix, and no fault where there is none."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from rollouts.api.schema import crd_manifests
from rollouts.cli.commands.diagnosis import diagnoses
from rollouts.cli.commands.doctor import summary
from rollouts.cli.commands.doctor_finding import Diagnosis, Level
from rollouts.cli.commands.doctor_reads import ClusterSeen, Installed, PrometheusUrl, Right, secret_rights
from rollouts.cluster.discovery import ServerVersion
from rollouts.core.model.drain import ProxyFacts, ProxyMode
from rollouts.core.model.frozen import replace
from rollouts.objects import ROLLOUT
from tests import build

VERSION = "0.1.0"
NOW_S = 1_800_000_000.0
RENEWED = "2027-01-15T07:59:58.000000Z"  # two seconds before


def controller(
    *flags: str, replicas: int = 2, available: int = 2, namespace: str = "rollouts-system", **more: Any
) -> Installed:
    """A controller as the chart installs it, that leads."""
    args = ["controller", "--leader-elect", "--proxy-mode=auto", "--router=gatewayAPI", *flags]
    spec = {"template": {"spec": {"containers": [{"args": args}], "serviceAccountName": "rollouts"}}}
    deployment = {
        "metadata": {"name": "rollouts", "namespace": namespace, "labels": {"app.kubernetes.io/version": VERSION}},
        "spec": {"replicas": replicas, **spec},
        "status": {"availableReplicas": available},
    }
    lease = {"metadata": {"namespace": namespace}, "spec": {"holderIdentity": "pod_1", "renewTime": RENEWED}}
    return Installed(deployment, **{"lease": lease, **more})


def healthy(**changes: Any) -> ClusterSeen:
    """A cluster on which everything is in place, but for the changes."""
    seen = ClusterSeen(
        now_s=NOW_S,
        server=ServerVersion(1, 34, "v1.34.1"),
        crds={crd["metadata"]["name"]: crd for crd in crd_manifests()},
        controllers=(controller(),),
        proxy=ProxyFacts(mode=ProxyMode.NFTABLES, known_by="ConfigMap kube-system/kube-proxy says nftables"),
        served={"gatewayAPI": False},
    )
    return replace(seen, **changes)


def worse(seen: ClusterSeen, level: Level = Level.FAULT) -> list[Diagnosis]:
    """The findings of that level."""
    return [each for each in diagnoses(seen, version=VERSION) if each.level is level]


def pod(*, waiting: str = "", unscheduled: str = "") -> dict[str, Any]:
    """A pod that does not run, and why."""
    image = f"localhost/rollouts:{VERSION}"
    conditions = [{"type": "PodScheduled", "status": "False", "message": unscheduled}] if unscheduled else []
    statuses = [{"image": image, "state": {"waiting": {"reason": waiting}}}] if waiting else []
    return {"metadata": {"name": "rollouts-x"}, "status": {"containerStatuses": statuses, "conditions": conditions}}


def changed_crd(**metadata: Any) -> dict[str, Any]:
    """All CRDs, that of Rollouts with other metadata."""
    crds = {crd["metadata"]["name"]: copy.deepcopy(crd) for crd in crd_manifests()}
    crds["rollouts.rollouts.dev"]["metadata"] |= metadata
    return crds


def test_where_everything_is_in_place_nothing_is_wrong() -> None:
    """A doctor that finds something on every cluster is not asked twice."""
    found = diagnoses(healthy(), version=VERSION)

    assert {each.level for each in found} == {Level.OK}
    assert summary(found) == "nothing is wrong"


@pytest.mark.parametrize(
    ("one", "says", "fix"),
    [
        (pod(waiting="ImagePullBackOff"), "localhost/rollouts:0.1.0: ImagePullBackOff", "kind load docker-image"),
        (pod(waiting="CrashLoopBackOff"), "CrashLoopBackOff", "kubectl logs"),
        (pod(unscheduled="0/3 nodes are available"), "0/3 nodes are available", "kubectl describe pod"),
    ],
    ids=["image", "crash", "no node"],
)
def test_a_controller_that_does_not_start_is_told_with_its_reason(one: dict[str, Any], says: str, fix: str) -> None:
    """The first failure of a first install is an image that no node has."""
    lone = controller(available=0, pods=(one,), lease=None)

    (fault,) = worse(healthy(controllers=(lone,)))

    assert says in fault.says
    assert fix in fault.fix


@pytest.mark.parametrize(
    ("seen", "level", "says"),
    [
        (healthy(controllers=(controller(available=1),)), Level.WARNING, "1 of 2 replicas"),
        (healthy(controllers=(controller("--no-leader-elect"),)), Level.FAULT, "none is elected"),
        (healthy(crds=changed_crd(deletionTimestamp="2026-01-01T00:00:00Z")), Level.FAULT, "is being deleted"),
    ],
    ids=["the standby lacks", "each of them would act", "every Rollout goes with its CRD"],
)
def test_what_is_dangerous_is_told_as_such(seen: ClusterSeen, level: Level, says: str) -> None:
    """Rollouts go on without a standby; with two that act, or without a CRD, they do not."""
    (found,) = worse(seen, level)

    assert says in found.says


def test_controllers_of_different_namespaces_are_no_rivals() -> None:
    """That is how tenants have controllers of their own; two that overlap act against each other."""
    apart = (controller("--namespace=shop"), controller("--namespace=cart", namespace="other"))
    overlapping = (controller("--namespace=shop"), controller(namespace="other"))

    rivals = [worse(healthy(controllers=each)) for each in (apart, overlapping)]

    assert rivals[0] == []
    assert ["manage the same Rollouts" in each.says for each in rivals[1]] == [True]


def test_a_lease_that_nobody_holds_is_a_fault_where_pods_run() -> None:
    """Where none runs, the pods are the fault and not the Lease."""
    released = {"metadata": {"namespace": "x"}, "spec": {"holderIdentity": "", "renewTime": RENEWED}}

    faults = [worse(healthy(controllers=(controller(lease=each),))) for each in (None, released)]

    assert [[each.check for each in one] for one in faults] == [["leader"], ["leader"]]


def test_a_controller_outside_the_cluster_is_known_by_its_lease() -> None:
    """Somebody develops it: there is no Deployment, and Rollouts go on."""
    outside = controller().lease
    assert outside is not None
    seen = healthy(controllers=(), other_leases=(outside,))

    assert worse(seen) == []
    assert "pod_1 holds the Lease" in worse(seen, Level.NOTE)[0].says


def test_crds_are_compared_by_their_fields() -> None:
    """A version by its name says little: what counts is whether a field would be dropped."""
    older, newer = changed_crd(), changed_crd()
    versions = (each["rollouts.rollouts.dev"]["spec"]["versions"][0] for each in (older, newer))
    of_older, of_newer = (each["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"] for each in versions)
    del of_older["paused"]
    of_newer["later"] = {"type": "string"}

    (fault,) = worse(healthy(crds=older))
    (warning,) = worse(healthy(crds=newer), Level.WARNING)

    assert "it lacks spec.paused" in fault.says
    assert "it has spec.later" in warning.says
    assert worse(healthy(crds=newer)) == []


@pytest.mark.parametrize(
    ("flags", "mode", "level", "fix"),
    [
        (("--proxy-mode=ipvs",), ProxyMode.NFTABLES, Level.FAULT, "proxyMode=nftables"),
        ((), ProxyMode.UNKNOWN, Level.WARNING, "proxyMode=iptables"),
        (("--namespace=shop",), ProxyMode.NFTABLES, Level.WARNING, "proxyMode=nftables"),
    ],
    ids=["contradicted", "unknown", "may not ask"],
)
def test_a_proxy_mode_with_a_price_is_told(flags: tuple[str, ...], mode: ProxyMode, level: Level, fix: str) -> None:
    """Too short a drain loses requests; one of two minutes only costs time."""
    one = controller(*flags)
    if flags and flags[0].startswith("--proxy-mode"):
        one.deployment["spec"]["template"]["spec"]["containers"][0]["args"].remove("--proxy-mode=auto")

    (found,) = worse(healthy(controllers=(one,), proxy=ProxyFacts(mode=mode, known_by="it is so")), level)

    assert found.check == "proxy mode"
    assert fix in found.fix


def gateway_class(accepted: str) -> dict[str, Any]:
    """A class whose controller has said so."""
    condition = {"type": "Accepted", "status": accepted, "message": "Waiting for controller"}
    return {"metadata": {"name": "eg"}, "status": {"conditions": [condition]}}


def test_a_gateway_class_that_nobody_carries_out_is_told() -> None:
    """A route of it is never accepted, and the Rollout waits for that."""
    served = {"gatewayAPI": True}

    assert worse(healthy(served=served, gateway_classes=(gateway_class("True"),)), Level.WARNING) == []
    (warning,) = worse(healthy(served=served, gateway_classes=(gateway_class("Unknown"),)), Level.WARNING)
    assert "eg is not accepted: Waiting for controller" in warning.says
    (note,) = worse(healthy(served=served), Level.NOTE)
    assert "there is no GatewayClass" in note.says


def rollout(**spec: Any) -> dict[str, Any]:
    """A Rollout of the namespace shop."""
    return build.manifest(ROLLOUT, "cart", "shop", spec=spec)


def routed(*fields: str, steps: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    """A Rollout whose routes are those of the Gateway API."""
    routing = {"gatewayAPI": {field: [{"name": "cart"}] for field in fields}}
    return rollout(strategy={"canary": {"trafficRouting": routing, "steps": list(steps)}})


def route_crd(version: str, *, percent: bool = True) -> dict[str, Any]:
    """The CRD of a kind of routes, as far as the doctor looks into it."""
    schema: dict[str, Any] = {"properties": {"percent" if percent else "backendRef": {"type": "integer"}}}
    for name in ("requestMirror", "filters", "rules", "spec"):
        schema = {"properties": {name: {"items": schema} if name in ("filters", "rules") else schema}}
    return {
        "metadata": {"annotations": {"gateway.networking.k8s.io/bundle-version": "v1.0.0"}},
        "spec": {"versions": [{"name": version, "served": True, "schema": {"openAPIV3Schema": schema}}]},
    }


A_TENTH = {"setMirrorRoute": {"name": "copy", "match": [{"path": {"prefix": "/"}}], "percentage": 10}}


@pytest.mark.parametrize(
    ("one", "crds", "says"),
    [
        (routed("httpRoutes", steps=(A_TENTH,)), {"httpRoutes": route_crd("v1")}, ""),
        (routed("httpRoutes"), {"httpRoutes": route_crd("v1", percent=False)}, ""),
        (routed("httpRoutes", steps=(A_TENTH,)), {"httpRoutes": route_crd("v1", percent=False)},
         "the installed Gateway API (v1.0.0) drops the percentage"),
        (routed("grpcRoutes"), {"grpcRoutes": None}, "needs GRPCRoute, which the installed Gateway API does not have"),
        (routed("httpRoutes"), {"httpRoutes": route_crd("v1alpha2")}, "needs HTTPRoute"),
    ],
    ids=["new enough", "not needed", "a part is mirrored", "no such kind", "an older version"],
)  # fmt: skip
def test_a_gateway_api_without_what_is_needed_is_a_fault(one: dict[str, Any], crds: dict[str, Any], says: str) -> None:
    """The API server drops a field that it does not know without a word, and then all requests are mirrored."""
    classes = (gateway_class("True"),)

    faults = worse(healthy(rollouts=(one,), route_crds=crds, served={"gatewayAPI": True}, gateway_classes=classes))

    assert [says in each.says and "install a newer Gateway API" in each.fix for each in faults] == [True] * bool(says)


def api_service(group: str) -> dict[str, Any]:
    """An API that is served."""
    return {"spec": {"group": group}, "status": {"conditions": [{"type": "Available", "status": "True"}]}}


def test_a_rollout_that_asks_what_its_container_uses_needs_the_metrics_api() -> None:
    """Its steps wait for a number that nobody measures."""
    one = rollout(autoscaling={"containerResource": {"container": "app", "resource": "cpu"}})

    (fault,) = worse(healthy(rollouts=(one,)))

    assert "Rollout shop/cart asks what its container app uses" in fault.says
    assert fault.fix == "install metrics-server"
    assert worse(healthy(rollouts=(one,), api_services=(api_service("metrics.k8s.io"),))) == []
    assert worse(healthy(rollouts=(one,), refused=("list apiservices",))) == [], "not seen is not missing"


def inactive(reason: str) -> dict[str, Any]:
    """An autoscaler of the Rollout that does not scale."""
    condition = {"type": "ScalingActive", "status": "False", "reason": reason, "message": "no metrics for cpu"}
    made = build.autoscaler("cart", "shop", metadata={"name": "cart-hpa"}, metrics=[])
    return {**made, "status": {"conditions": [condition]}}


@pytest.mark.parametrize(
    ("reason", "autoscaling", "level"),
    [
        ("FailedGetResourceMetric", {"settled": True}, Level.FAULT),
        ("FailedGetResourceMetric", {}, Level.WARNING),
        ("ScalingDisabled", {"settled": True}, None),
    ],
    ids=["the Rollout waits for it", "nobody waits", "switched off"],
)
def test_an_autoscaler_that_does_not_scale_is_told_and_is_a_fault_where_a_rollout_waits_for_it(
    reason: str, autoscaling: dict[str, Any], level: Level | None
) -> None:
    """It says nothing about the load, so a step that waits for it never completes. At 0 replicas that is wanted."""
    seen = healthy(rollouts=(rollout(autoscaling=autoscaling),), autoscalers=(inactive(reason),))

    found = [*worse(seen), *worse(seen, Level.WARNING)]

    assert [each.level for each in found] == ([level] if level else [])
    assert all("shop/cart-hpa does not scale: FailedGetResourceMetric: no metrics for cpu" in one.says for one in found)
    assert all("kubectl describe hpa cart-hpa -n shop" in each.fix for each in found)


@pytest.mark.parametrize(
    ("canary", "target", "told"),
    [
        ({"trafficRouting": {}}, "Value", True),
        ({"trafficRouting": {}}, "AverageValue", False),
        ({"trafficRouting": {}, "dynamicStableScale": True}, "Value", False),
        ({}, "Value", False),
    ],
)
def test_an_autoscaler_that_multiplies_by_all_pods_is_told(canary: dict[str, Any], target: str, told: bool) -> None:
    """It grows during each update, without more load."""
    external = {"metric": {"name": "waiting"}, "target": {"type": target}}
    scaled = inactive("ScalingDisabled")
    scaled["spec"] = {**scaled["spec"], "metrics": [{"type": "External", "external": external}]}
    groups = (api_service("external.metrics.k8s.io"),)
    seen = healthy(rollouts=(rollout(strategy={"canary": canary}),), autoscalers=(scaled,), api_services=groups)

    found = worse(seen, Level.WARNING)

    assert ["scales by the Value of waiting" in each.says for each in found] == ([True] if told else [])
    assert all("AverageValue" in each.fix for each in found)


def test_secrets_that_a_rollout_versions_and_an_analysis_names_need_rights_of_their_own() -> None:
    """They are as `rollouts rbac` grants them: each by its name. A Rollout that did not opt in needs none."""
    container = {"name": "app", "envFrom": [{"secretRef": {"name": "token"}}]}
    template = {"spec": {"containers": [container]}}
    argument = {"name": "key", "valueFrom": {"secretKeyRef": {"name": "api-key", "key": "key"}}}
    analysis = build.analysis_template(name="smoke", namespace="shop", args=[argument])
    opted_in = rollout(template=template, configVersioning={"secrets": True})

    rights = secret_rights([opted_in, analysis])
    (fault,) = worse(healthy(controllers=(controller(missing_secrets=tuple(rights)),)))

    assert list(map(str, rights)) == [
        "get secrets/api-key in shop", "get secrets/rollouts-config-key in shop", "get secrets/token in shop",
        "create secrets in shop",
    ]  # fmt: skip
    assert secret_rights([rollout(template=template)]) == []
    assert "rollouts-system/rollouts may not get secrets/api-key in shop" in fault.says
    assert "rollouts rbac -f - --service-account rollouts-system/rollouts | kubectl apply -f -" in fault.fix


@pytest.mark.parametrize(
    ("target", "level"),
    [
        (PrometheusUrl("http://p.monitoring:9090", in_cluster=True, exists=True, ready=1), Level.OK),
        (PrometheusUrl("http://p.monitoring:9090", in_cluster=True, exists=True), Level.FAULT),
        (PrometheusUrl("http://p.monitoring:9090", in_cluster=True), Level.FAULT),
        (PrometheusUrl("https://prometheus.example.com", in_cluster=False), Level.NOTE),
    ],
    ids=["ready", "no pod", "no Service", "elsewhere"],
)
def test_prometheus_is_judged_by_its_service(target: PrometheusUrl, level: Level) -> None:
    """It cannot be asked from a laptop; whether something is there can."""
    found = diagnoses(healthy(prometheus=(target,)), version=VERSION)

    assert [each.level for each in found if each.check == "Prometheus"] == [level]


def test_what_was_forbidden_to_ask_is_no_fault() -> None:
    """A developer sees part of the cluster, and that part may be in order."""
    seen = healthy(
        crds=dict.fromkeys(healthy().crds),
        controllers=(),
        refused=("get customresourcedefinitions", "list deployments"),
        own_missing=(Right("rollouts.dev", "rollouts", "patch", "shop"),),
    )

    assert worse(seen) == []
    assert [each.says for each in worse(seen, Level.WARNING)] == ["you may not patch rollouts.rollouts.dev in shop"]
    assert "get customresourcedefinitions" in worse(seen, Level.NOTE)[0].says


def test_everything_bad_comes_with_what_repairs_it() -> None:
    """A fault without a fix is what the status shows already."""
    broken = healthy(
        server=ServerVersion(1, 29, "v1.29.0"),
        crds=dict.fromkeys(healthy().crds),
        controllers=(controller(missing=(Right("", "services", "patch"),), available=1),),
        prometheus=(PrometheusUrl("http://p.monitoring:9090", in_cluster=True),),
    )

    bad = [*worse(broken), *worse(broken, Level.WARNING)]

    assert {each.check for each in bad} >= {"API server", "CRDs", "controller", "rights", "Prometheus"}
    assert [each for each in bad if not each.fix] == []
