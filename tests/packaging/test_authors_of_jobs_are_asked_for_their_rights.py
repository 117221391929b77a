"""Promise: where metrics may be Jobs, to write templates gives nobody pods who may not make them.

The controller makes the Job, with its own right. Without the policy a role that allows templates of analyses would allow pods.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from rollouts.objects import ANALYSIS_RUN, ANALYSIS_TEMPLATE, CLUSTER_ANALYSIS_TEMPLATE, Kind
from tests.build import granted, manifest
from tests.lab.chart import CONTROLLER_USER, RBAC_GROUP, as_user, render
from tests.lab.control_plane import ControlPlane
from tests.lab.loopback import wait_for
from tests.packaging.rendered import named

pytestmark = pytest.mark.controlplane

AUTHOR, DEPLOYER = "author", "deployer"
POD = {"containers": [{"name": "check", "image": "check:1"}]}
A_JOB = {"job": {"spec": {"template": {"spec": POD}}}}
NO_JOB: dict[str, Any] = {"kubernetes": {}}
TEMPLATES = ["analysistemplates", "clusteranalysistemplates", "analysisruns"]
WRITES = {"apiGroups": ["rollouts.dev"], "resources": TEMPLATES, "verbs": ["create", "patch"]}
MAKES = {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create"]}


def templates(kind: Kind, provider: dict[str, Any]) -> dict[str, Any]:
    return manifest(kind, "check", spec={"metrics": [{"name": "check", "interval": "10m", "provider": provider}]})


@pytest.fixture
def home(control_plane: ControlPlane, controller_kubeconfig: Path, namespace: str) -> str:
    """A namespace with the policy, in which the author may write templates, and the deployer Jobs too."""
    rendered = render(
        Path(control_plane.programs, "helm"),
        *("--set", f"analysis.jobs.enabled=true,watchNamespaces={{{namespace}}},fullnameOverride={namespace}"),
        *("--set", "serviceAccount.name=rollouts"),
    )
    policy = named(rendered, ".job-authors")
    assert len(policy) == 2
    grants = {AUTHOR: [WRITES], DEPLOYER: [WRITES, MAKES]}
    roles = [one for user, each in grants.items() for one in granted(user, namespace, each, to=_user(user))]
    control_plane.apply(*policy, *roles)
    refused = "may not create jobs.batch"
    wait_for(lambda: refused in made(control_plane, AUTHOR, namespace, ANALYSIS_TEMPLATE, A_JOB).text, "the policy")
    wait_for(lambda: made(control_plane, DEPLOYER, namespace, ANALYSIS_TEMPLATE, NO_JOB).is_success, "the right")
    return namespace


def _user(name: str) -> dict[str, Any]:
    return {"apiGroup": RBAC_GROUP, "kind": "User", "name": name}


def made(plane: ControlPlane, user: str, namespace: str, kind: Kind, provider: dict[str, Any]) -> httpx.Response:
    """The answer to that user, in a dry run."""
    with as_user(plane, user) as client:
        return client.post(kind.path(namespace or None), json=templates(kind, provider), params={"dryRun": "All"})


@pytest.mark.parametrize("kind", [ANALYSIS_TEMPLATE, ANALYSIS_RUN], ids=lambda kind: kind.kind)
def test_a_job_is_for_those_who_may_create_jobs(control_plane: ControlPlane, home: str, kind: Kind) -> None:
    """And everything else for everybody who may write templates."""
    answers = {
        (user, what): made(control_plane, user, home, kind, provider).status_code
        for user in (AUTHOR, DEPLOYER)
        for what, provider in (("a Job", A_JOB), ("no Job", NO_JOB))
    }

    assert answers.pop((AUTHOR, "a Job")) == 403
    assert set(answers.values()) == {201}


def test_a_job_cannot_be_slipped_in_later(control_plane: ControlPlane, home: str) -> None:
    """A change of the spec asks again; what changes nothing of it, such as a label, does not."""
    path = f"{ANALYSIS_TEMPLATE.path(home)}/check"
    control_plane.api.post(ANALYSIS_TEMPLATE.path(home), json=templates(ANALYSIS_TEMPLATE, NO_JOB)).raise_for_status()
    content = {"Content-Type": "application/merge-patch+json"}
    job = {"spec": templates(ANALYSIS_TEMPLATE, A_JOB)["spec"]}

    with as_user(control_plane, AUTHOR) as author:
        slipped = author.patch(path, json=job, headers=content)
        control_plane.api.patch(path, json=job, headers=content).raise_for_status()
        labelled = author.patch(path, json={"metadata": {"labels": {"team": "shop"}}}, headers=content)

    assert (slipped.status_code, labelled.status_code) == (403, 200)
    assert f"{AUTHOR} may not create jobs.batch in namespace {home}" in slipped.text


def test_the_controller_is_not_asked_again(control_plane: ControlPlane, home: str) -> None:
    """Its account has no right to make Jobs in this test, as its runs have templates whose authors were asked."""
    run = templates(ANALYSIS_RUN, A_JOB)
    owner = {"apiVersion": "rollouts.dev/v1alpha1", "kind": "Rollout", "name": "web", "uid": "u", "controller": True}
    run["metadata"]["ownerReferences"] = [owner]
    with as_user(control_plane, CONTROLLER_USER) as controller:
        answer = controller.post(ANALYSIS_RUN.path(home), json=run, params={"dryRun": "All"})

    assert answer.status_code == 201, answer.text


def test_a_template_of_the_cluster_needs_the_right_in_all_namespaces(control_plane: ControlPlane, home: str) -> None:
    """Every namespace may use it; a right in one of them is not enough."""
    reference = {"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": home}
    role = manifest(Kind(RBAC_GROUP, "v1", "ClusterRole", "clusterroles"), home, rules=[WRITES])
    kind = Kind(RBAC_GROUP, "v1", "ClusterRoleBinding", "clusterrolebindings")
    control_plane.apply(role, manifest(kind, home, roleRef=reference, subjects=[_user(DEPLOYER)]))
    wait_for(lambda: made(control_plane, DEPLOYER, "", CLUSTER_ANALYSIS_TEMPLATE, NO_JOB).is_success, "the right")

    answer = made(control_plane, DEPLOYER, "", CLUSTER_ANALYSIS_TEMPLATE, A_JOB)

    assert answer.status_code == 403
    assert f"{DEPLOYER} may not create jobs.batch in all namespaces" in answer.text


def test_without_jobs_there_is_no_such_policy(helm: Path) -> None:
    """And with them an administrator may do without."""
    on, off = (f"analysis.jobs.enabled=true,admission.jobAuthors={each}" for each in ("true", "false"))

    assert len(named(render(helm, "--set", on), ".job-authors")) == 2
    assert named(render(helm, "--set", off), ".job-authors") == named(render(helm), ".job-authors") == []
