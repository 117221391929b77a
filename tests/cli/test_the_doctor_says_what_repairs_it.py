"""What `rollouts doctor` concludes from what it saw: each fault with its fix, and no fault where there is none."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest

from rollouts.api.schema import crd_manifests
from rollouts.cli.commands.diagnosis import Diagnosis, Level, diagnoses
from rollouts.cli.commands.doctor import summary
from rollouts.cli.commands.doctor_reads import ClusterSeen, Installed, PrometheusUrl, Right
from rollouts.cluster.discovery import ServerVersion
from rollouts.core.model.drain import ProxyFacts, ProxyMode

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


def test_one_replica_of_two_is_a_warning() -> None:
    """Rollouts go on; the standby is what lacks."""
    (warning,) = worse(healthy(controllers=(controller(available=1),)), Level.WARNING)

    assert "1 of 2 replicas" in warning.says


def test_controllers_of_different_namespaces_are_no_rivals() -> None:
    """That is how tenants have controllers of their own; two that overlap act against each other."""
    apart = (controller("--namespace=shop"), controller("--namespace=cart", namespace="other"))
    overlapping = (controller("--namespace=shop"), controller(namespace="other"))

    rivals = [worse(healthy(controllers=each)) for each in (apart, overlapping)]

    assert rivals[0] == []
    assert ["manage the same Rollouts" in each.says for each in rivals[1]] == [True]


def test_replicas_without_election_are_a_fault() -> None:
    """Each of them would act, and undo what the others do."""
    (fault,) = worse(healthy(controllers=(controller("--no-leader-elect"),)))

    assert "none is elected" in fault.says


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
    of_older, of_newer = (
        each["rollouts.rollouts.dev"]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
        for each in (older, newer)
    )
    del of_older["properties"]["paused"]
    of_newer["properties"]["later"] = {"type": "string"}

    (fault,) = worse(healthy(crds=older))
    (warning,) = worse(healthy(crds=newer), Level.WARNING)

    assert "it lacks spec.paused" in fault.says
    assert "it has spec.later" in warning.says
    assert worse(healthy(crds=newer)) == []


def test_a_crd_that_is_being_deleted_is_a_fault() -> None:
    """Every Rollout goes with it."""
    (fault,) = worse(healthy(crds=changed_crd(deletionTimestamp="2026-01-01T00:00:00Z")))

    assert "is being deleted" in fault.says


@pytest.mark.parametrize(
    ("flags", "mode", "level", "fix"),
    [
        (("--proxy-mode=ipvs",), ProxyMode.NFTABLES, Level.FAULT, "proxyMode=nftables"),
        ((), ProxyMode.UNKNOWN, Level.WARNING, "proxyMode=iptables"),
        (("--namespace=shop",), ProxyMode.NFTABLES, Level.WARNING, "proxyMode=nftables"),
    ],
    ids=["contradicted", "unknown", "may not ask"],
)
def test_a_proxy_mode_that_costs_time_or_requests_is_told(
    flags: tuple[str, ...], mode: ProxyMode, level: Level, fix: str
) -> None:
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
    (found,) = [
        each for each in diagnoses(healthy(prometheus=(target,)), version=VERSION) if each.check == "Prometheus"
    ]

    assert found.level is level


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
