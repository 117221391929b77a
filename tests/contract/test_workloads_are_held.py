"""Promise: a new template of a workload that a Rollout updates in place waits for the Rollout, whatever brings it.

And in an update no other write changes the fields by which it is stepped. Each row says what one write leads to. On the real API
server the chart's policies do it, on the simulated one a rule in Python.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rollouts.clock import SystemClock
from rollouts.cluster.connection import connect
from rollouts.core.model.workload_ref import WorkloadKind
from rollouts.manifests.in_place import hold_question
from rollouts.objects import DAEMON_SET, DEPLOYMENT, STATEFUL_SET, Kind
from rollouts.ports import MERGE_PATCH
from rollouts.sim.cluster import SimulatedCluster
from tests.contract.conversation import Conversation
from tests.contract.held_workloads import (
    CASES,
    FREE,
    HELD,
    MARKED,
    MOST,
    PAUSED,
    PREFIX,
    manifest,
)
from tests.lab.chart import render
from tests.lab.control_plane import ControlPlane
from tests.lab.loopback import wait_for

KINDS = (DEPLOYMENT, STATEFUL_SET, DAEMON_SET)


@pytest.fixture(scope="module")
def held_namespace(control_plane: ControlPlane) -> Iterator[str]:
    """A namespace on the real server with the chart's policies for it alone, once they are effective: that takes a second."""
    with control_plane.fresh_namespace(stays=True) as namespace:
        kinds = ",".join(kind.plural for kind in KINDS)
        values = f"workloads={{{kinds}}},watchNamespaces={{{namespace}}},fullnameOverride={namespace}"
        rendered = render(Path(control_plane.programs, "helm"), "--set", values)
        control_plane.apply(*(one for one in rendered if ".hold-" in one["metadata"]["name"]))
        for kind in KINDS:
            wait_for(partial(_holds, control_plane, kind, namespace), f"the policy of {kind.plural}")
        yield namespace


def _holds(plane: ControlPlane, kind: Kind, namespace: str) -> bool:
    probe = manifest(kind, "probe", marks=MARKED)
    plane.apply(probe, namespace=namespace)
    changed = {**probe, "spec": manifest(kind, "probe", image="app:2")["spec"]}
    answer = plane.api.put(kind.path(namespace, "probe"), json=changed, params={"dryRun": "All"})
    spec = answer.json()["spec"]
    if kind == DEPLOYMENT:
        return spec.get("paused", False) and _keeps_a_pause(plane, namespace)
    strategy: dict[str, Any] = spec["updateStrategy"]
    return strategy["type"] == "OnDelete" or MOST in {**strategy["rollingUpdate"]}.values()


def _keeps_a_pause(plane: ControlPlane, namespace: str) -> bool:
    """Whether the policy is effective that refuses: it is another object."""
    plane.apply(manifest(DEPLOYMENT, "paused", marks=HELD, paused=True), namespace=namespace)
    headers = {"Content-Type": MERGE_PATCH}
    path, resumed = DEPLOYMENT.path(namespace, "paused"), {"spec": {"paused": None}}
    return plane.api.patch(path, json=resumed, params={"dryRun": "All"}, headers=headers).status_code == 403


@pytest.fixture
async def held(request: pytest.FixtureRequest) -> AsyncIterator[Conversation]:
    """A talk with each server about a namespace in which workloads are held."""
    if request.param == "simulated":
        async with SimulatedCluster(clock=SystemClock(), hold_policies=True) as cluster:
            yield Conversation(cluster.api, "default", is_simulated=True)
        return
    plane, namespace = request.getfixturevalue("control_plane"), request.getfixturevalue("held_namespace")
    connection = await connect(kubeconfig=plane.kubeconfig_admin, context=None, user_agent="contract/1")
    try:
        yield Conversation(connection, namespace, is_simulated=False)
    finally:
        await connection.aclose()


ROWS = [
    *(("simulated", name) for name in CASES),
    *(pytest.param("real", name, marks=pytest.mark.controlplane) for name in CASES),
]


@pytest.mark.parametrize(("held", "name"), ROWS, indirect=["held"])
async def test_a_write_leads_to(held: Conversation, name: str) -> None:
    """Fields, marks and refusals, in a dry run: what is there stays."""
    case, called = CASES[name], f"w-{list(CASES).index(name)}"
    there = await held.made(case.kind, manifest(case.kind, called, marks=case.marks, **case.there))

    answer = await case.write.sent(held, case.kind, called)

    if case.refused:
        assert answer.status == 403, answer.body
        assert case.refused in answer.message
        return
    assert answer.status == 200, answer.body
    assert {field: answer.body["spec"].get(field) or None for field in case.leaves} == case.leaves
    keeps = case.marks if case.keeps is None else case.keeps
    assert _marks(answer.metadata) == {part: keeps.get(part, {}) for part in ("labels", "annotations")}
    assert (await held.get(case.kind, called)).body["spec"] == there["spec"]


ROWS_OF_QUESTIONS = [
    (marks, there, works) for marks, works in ((MARKED, True), (FREE, False)) for there in ({}, PAUSED)
]


@pytest.mark.parametrize(("marks", "there", "works"), ROWS_OF_QUESTIONS)
@pytest.mark.parametrize("held", ["simulated", pytest.param("real", marks=pytest.mark.controlplane)], indirect=True)
async def test_a_dry_run_tells_whether_a_policy_holds(held: Conversation, marks: Any, there: Any, works: bool) -> None:
    """Also of a Deployment that is paused: the question takes the pause off."""
    name = f"asked-{list(marks['labels'])[-1]}-{len(there)}"
    one = await held.made(DEPLOYMENT, manifest(DEPLOYMENT, name, marks=marks, **there))

    answer = await held.patch(
        DEPLOYMENT, name, hold_question(WorkloadKind.DEPLOYMENT, one["metadata"]["uid"]), MERGE_PATCH, dryRun="All"
    )

    assert answer.body["spec"].get("paused", False) is works
    assert (await held.get(DEPLOYMENT, name)).body["spec"] == one["spec"]


def _marks(metadata: dict[str, Any]) -> dict[str, dict[str, str]]:
    return {
        part: {k.removeprefix(PREFIX): v for k, v in metadata.get(part, {}).items() if k.startswith(PREFIX)}
        for part in ("labels", "annotations")
    }


@pytest.mark.controlplane
@pytest.mark.parametrize("first", ["aa", "zz"])
def test_a_template_that_admission_changes_is_held(
    control_plane: ControlPlane, held_namespace: str, first: str
) -> None:
    """A webhook that injects a sidecar does so after the policy has looked; here another policy stands for it."""
    name = f"{first}-{held_namespace}"  # one of them comes after the chart's, in whatever order policies are asked
    rule = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["deployments"]}
    label = {"labels": {"injected": first}}
    labels = "Object.spec.template.metadata{labels: {'a': 'b'}}"
    inject = f"Object{{spec: Object.spec{{template: Object.spec.template{{metadata: {labels}}}}}}}"
    policy = {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "IfNeeded",
        "matchConstraints": {"resourceRules": [rule], "objectSelector": {"matchLabels": label["labels"]}},
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": inject}}],
    }
    head = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": name}}
    control_plane.apply(
        {**head, "kind": "MutatingAdmissionPolicy", "spec": policy},
        {**head, "kind": "MutatingAdmissionPolicyBinding", "spec": {"policyName": name}},
    )
    there = manifest(DEPLOYMENT, first, marks=MARKED)
    there["metadata"]["labels"] |= label["labels"]
    control_plane.apply(there, namespace=held_namespace)
    path = f"{DEPLOYMENT.path(held_namespace, first)}?dryRun=All"

    def written() -> dict[str, Any]:
        spec: dict[str, Any] = control_plane.patch(path, {"spec": {"minReadySeconds": 1}})["spec"]
        return spec

    wait_for(lambda: "a" in written()["template"]["metadata"]["labels"], "the policy that injects")

    assert written()["paused"]
