"""What `rollouts doctor` says of the policies that hold workloads which Rollouts update in place."""

from __future__ import annotations

from typing import Any

import pytest

from rollouts.api.schema import crd_manifests
from rollouts.cli.commands.diagnosis import diagnoses
from rollouts.cli.commands.doctor_finding import Level
from rollouts.cli.commands.doctor_reads import CRD, ClusterSeen, HoldPolicies, read_cluster
from rollouts.cli.view.session import session_on
from rollouts.objects import ROLLOUT
from rollouts.sim.clock import run_virtual
from rollouts.sim.cluster import SimulatedCluster
from tests import build
from tests.cli.test_the_doctor_says_what_repairs_it import VERSION, Reviewed, controller, healthy, rollout

GROUP = "admissionregistration.k8s.io"
IN_PLACE = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "cart", "mode": "InPlace"}


def policy(plural: str) -> dict[str, Any]:
    """The chart's policy for a kind of workloads."""
    constraints = {"resourceRules": [{"resources": [plural]}]}
    return {"metadata": {"name": f"rollouts.hold-{plural}"}, "spec": {"matchConstraints": constraints}}


def holding(*kinds: str, served: bool = True, bound: bool = True, hold: str = "Auto", **changes: Any) -> ClusterSeen:
    """A Rollout that updates a Deployment in place, and the policies of these kinds."""
    policies = tuple(map(policy, kinds))
    bindings = tuple({"spec": {"policyName": each["metadata"]["name"]}} for each in policies) if bound else ()
    holds = HoldPolicies(served=served, policies=policies, bindings=bindings)
    reads = [f"--workload={plural}" for plural in dict.fromkeys((*kinds, "deployments"))]
    changes = {"controllers": (controller(*reads),), **changes}
    return healthy(rollouts=(rollout(workloadRef={**IN_PLACE, "hold": hold}),), holds=holds, **changes)


# Both ways to hold a new template are safe. A Rollout may insist on one of them.
WRONG = {
    "none before Kubernetes 1.36": (
        holding(served=False), Level.NOTE, "deployments of shop/cart are paused between updates (hold: AtRest)", ""),
    "none, and a Rollout that insists on it": (
        holding(served=False, hold="Policy"), Level.FAULT, "shop/cart has workloadRef.hold: Policy", "set it to Auto"),
    "none for the kind": (
        holding("statefulsets"), Level.WARNING, "no policy of the API server holds deployments",
        "--set 'workloads={statefulsets,deployments}' --set admission.holds=true"),
    "none for a Rollout that insists on it": (
        holding(hold="Policy"), Level.FAULT, "no policy of the API server holds deployments, and shop/cart has",
        "--set 'workloads={deployments}'"),
    "a kind for which the controller is not set up": (
        holding(controllers=(controller("--workload=statefulsets"),)), Level.FAULT,
        "1 Rollout with workloadRef to deployments, and rollouts-system/rollouts is not set up for them",
        "--set 'workloads={statefulsets,deployments}'"),
    "one without its binding": (
        holding("deployments", bound=False), Level.WARNING, "rollouts.hold-deployments has no binding, so it holds nothing",
        "helm upgrade"),
    "those that may not be listed": (
        holding(refused=("list mutatingadmissionpolicies",)), Level.NOTE, "list mutatingadmissionpolicies", ""),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG)
def test_what_does_not_hold_is_told_with_what_repairs_it(case: tuple[ClusterSeen, Level, str, str]) -> None:
    """Once, with the release's own values."""
    seen, level, says, fix = case

    (found,) = [each for each in diagnoses(seen, version=VERSION) if each.level is not Level.OK]

    assert found.level is level
    assert says in found.says
    assert fix in f"{found.fix} {found.hint}"


@pytest.mark.parametrize("seen", [holding("deployments"), holding(hold="AtRest")], ids=["by a policy", "at rest"])
def test_what_holds_is_no_fault(seen: ClusterSeen) -> None:
    """Whoever says `AtRest` needs no policy."""
    assert {each.level for each in diagnoses(seen, version=VERSION)} == {Level.OK}


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_policies_are_read_in_the_version_that_is_served(version: str) -> None:
    """And only where a Rollout updates a workload in place: nobody else needs the right to list them."""
    read = run_virtual(_read(version, workloadRef=IN_PLACE)).holds

    assert read is not None
    assert (read.served, [*read.held]) == (True, ["deployments"])
    assert run_virtual(_read(version, template=build.pod_template("cart", image="a"))).holds is None


async def _read(version: str, **spec: Any) -> ClusterSeen:
    """What is read of a cluster with a policy, its binding, and a Rollout."""
    async with SimulatedCluster() as cluster:
        for crd in crd_manifests():
            names = crd["spec"]["names"]
            cluster.apply(
                _open_crd(crd["spec"]["group"], names["kind"], names["plural"], "v1alpha1", crd["spec"]["scope"])
            )
        binding = {"metadata": {"name": "b"}, "spec": {"policyName": "rollouts.hold-deployments"}}
        for name, one in (("Policy", policy("deployments")), ("PolicyBinding", binding)):
            kind = f"MutatingAdmission{name}"
            plural = f"{kind.lower()}s" if kind.endswith("g") else "mutatingadmissionpolicies"
            cluster.apply(_open_crd(GROUP, kind, plural, version, "Cluster"))
            metadata = {**one["metadata"], "labels": {"app.kubernetes.io/name": "rollouts"}}
            cluster.apply({"apiVersion": f"{GROUP}/{version}", "kind": kind, "metadata": metadata, "spec": one["spec"]})
        cluster.apply(build.manifest(ROLLOUT, "cart", "default", spec=spec))
        session = session_on(Reviewed(cluster.api), namespace="default", request_timeout_s=5.0)
        return await read_cluster(session, controller_namespace=None)


def _open_crd(group: str, kind: str, plural: str, version: str, scope: str) -> dict[str, Any]:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    versions = [{"name": version, "served": True, "storage": True, "schema": schema}]
    spec = {"group": group, "scope": scope, "names": {"kind": kind, "plural": plural}, "versions": versions}
    return {**CRD.head, "metadata": {"name": f"{plural}.{group}"}, "spec": spec}
