"""The Helm chart on the real control plane: rendered by Helm itself, its RBAC and CRDs applied, its ServiceAccount used."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import httpx

from rollouts.objects import DAEMON_SET, Kind
from tests.build import ROLE, granted, manifest, pod_template, role_binding
from tests.documents import documents
from tests.lab.control_plane import ControlPlane, is_true
from tests.lab.loopback import wait_for
from tests.lab.processes import run

CHART = Path(__file__).parent.parent.parent / "helm" / "rollouts"
RELEASE = "rollouts"
RBAC_GROUP = ROLE.group
RELEASE_NAMESPACE = "rollouts-system"
CONTROLLER_USER = f"system:serviceaccount:{RELEASE_NAMESPACE}:{RELEASE}"

FENCED = "the controller is fenced"  # what an answer says that a fence of the chart refused
_INSTALLED = "chart.kubeconfig-path"
_POLICIES = (
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
)
_NEEDED_BY_THE_CONTROLLER = frozenset(
    {"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", *_POLICIES}
)
SERVED = [word for kind in _POLICIES for word in ("--api-versions", f"admissionregistration.k8s.io/v1/{kind}")]
"""What Helm would find on the API server of the lab, and does not know by itself."""


def render(helm: Path, *arguments: str, served: Sequence[str] = SERVED) -> list[dict[str, Any]]:
    """The chart's objects, CRDs first, as `helm template` gives them; `served` tells Helm what the API server serves.

    Without the pod of `helm test`, which is no part of an installation.
    """
    return documents(_rendered(helm, (*served, *arguments)))


@cache
def _rendered(helm: Path, arguments: tuple[str, ...]) -> str:
    words = [
        str(helm),
        "template",
        RELEASE,
        str(CHART),
        "--namespace",
        RELEASE_NAMESPACE,
        "--include-crds",
        "--skip-tests",
    ]
    words += arguments
    return run(*words, env={"HOME": "/nonexistent", "PATH": "/usr/bin:/bin"}).stdout  # it reads nothing of the user's


def install_chart(plane: ControlPlane, *arguments: str) -> Path:
    """Applies the chart's CRDs, ServiceAccount and RBAC, once for a control plane; returns its ServiceAccount's kubeconfig.

    The caller holds a lock: several test processes share the control plane. With Helm's words it is one of the test's own.
    """
    done = Path(plane.folder, _INSTALLED)
    if done.exists():
        return Path(done.read_text())
    rendered = render(Path(plane.programs, "helm"), *arguments)
    plane.kubectl("create", "namespace", RELEASE_NAMESPACE)
    if crds := [one for one in rendered if one["kind"] == "CustomResourceDefinition"]:
        install_crds(plane, *crds)
    plane.apply(*map(_for_tests, needed_by_the_controller(rendered)), *_LEASES_OF_TESTS)
    kubeconfig = plane.service_account_kubeconfig(RELEASE_NAMESPACE, RELEASE)
    done.write_text(str(kubeconfig))
    return kubeconfig


def another_account(plane: ControlPlane, name: str, *arguments: str, holds: bool = False) -> Path:
    """A kubeconfig for an account of that name, with the rights that the chart gives with these arguments of Helm's.

    The chart's own account stays as it is, and so do the CRDs. Policies that hold workloads would hold those of every other test:
    with `holds` the caller sets `watchNamespaces`. With `analysis.jobs.enabled` the caller sets `watchNamespaces`:
    the policy for authors of Jobs lets only this account pass, and would refuse the runs of every other test's controller.
    """
    rendered = render(Path(plane.programs, "helm"), *arguments, "--set", f"fullnameOverride={name}")
    needed = [one for one in needed_by_the_controller(rendered) if holds or ".hold-" not in one["metadata"]["name"]]
    plane.apply(*map(_for_tests, needed))
    return plane.service_account_kubeconfig(RELEASE_NAMESPACE, name)


def hold_workloads(plane: ControlPlane, namespace: str, *kinds: Kind) -> None:
    """Applies the policies that hold workloads of these kinds, for one namespace; returns when they are effective."""
    resources = ",".join(kind.plural for kind in kinds)
    values = f"workloads={{{resources}}},watchNamespaces={{{namespace}}},fullnameOverride={namespace}"
    rendered = render(Path(plane.programs, "helm"), "--set", values)
    plane.apply(*(one for one in rendered if ".hold-" in one["metadata"]["name"]))
    wait_until_held(plane, namespace, *kinds)


def wait_until_held(plane: ControlPlane, namespace: str, *kinds: Kind) -> None:
    """Waits until the policies that hold workloads of these kinds are effective there.

    That takes a second or two: a dry run of another template comes out stopped.
    """
    marks = {"labels": {"rollouts.dev/managed": "true", "rollouts.dev/hold": "true"}}
    nowhere = pod_template("probe", image="probe:1", nodeSelector={"on": "no-node"})
    for kind in kinds:
        sized = {} if kind == DAEMON_SET else {"replicas": 0}
        spec = {**sized, "selector": {"matchLabels": {"app": "probe"}}, "template": nowhere}
        plane.apply(manifest(kind, "probe", namespace, metadata=marks, spec=spec))
        probe = kind.path(namespace, "probe")
        wait_for(partial(_stops, plane, probe), "the policies")
        plane.api.delete(probe).raise_for_status()


def _stops(plane: ControlPlane, path: str) -> bool:
    """Whether no pod would follow another template of that workload."""
    question = {"spec": {"template": {"metadata": {"annotations": {"another": "template"}}}}}
    spec = plane.patch(f"{path}?dryRun=All", question)["spec"]
    strategy = spec.get("updateStrategy", {})
    stopped = strategy.get("rollingUpdate", {}).get("partition") == 2_147_483_647
    return bool(spec.get("paused")) or strategy.get("type") == "OnDelete" or stopped


def needed_by_the_controller(rendered: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of the chart's objects its account, rights and fences."""
    return [one for one in rendered if one["kind"] in _NEEDED_BY_THE_CONTROLLER]


def _for_tests(one: dict[str, Any]) -> dict[str, Any]:
    """The object; in the fence of the Lease with the names that Leases of tests have besides."""
    if (one["kind"], one["metadata"]["name"].rpartition(".")[2]) != ("ValidatingAdmissionPolicy", "leases"):
        return one
    text = json.dumps(one)
    wider = re.sub(
        r"object\.metadata\.name in (\[[^]]*\])",
        r"(object.metadata.name in \1 || object.metadata.name.matches('^test-[0-9a-f]{8}$'))",
        text,
    )
    assert wider != text
    found: dict[str, Any] = json.loads(wider)
    return found


def as_user(plane: ControlPlane, name: str, group: str = "") -> httpx.Client:
    """The administrator's client, impersonating that user, and a member of the group: what it may do is that user's."""
    return plane.client({"Impersonate-User": name} | ({"Impersonate-Group": group} if group else {}))


def every_right(user: str, namespace: str) -> dict[str, Any]:
    """A RoleBinding with which the user may do anything in the namespace, so that only fences are left."""
    subject = {"apiGroup": RBAC_GROUP, "kind": "User", "name": user}
    return role_binding("everything", namespace, "cluster-admin", to=subject, kind="ClusterRole")


def wait_until_fenced(account: httpx.Client, namespace: str = RELEASE_NAMESPACE) -> None:
    """Waits until that account of the controller may create a Lease there, but for its fence.

    The API server takes a moment to see a new right, and a second to see a new policy.
    """
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    lease = {"metadata": {"name": "of-somebody-else"}}
    wait_for(lambda: FENCED in account.post(path, params={"dryRun": "All"}, json=lease).text, "the fence of Leases")


def install_crds(plane: ControlPlane, *crds: Mapping[str, Any]) -> None:
    """Applies CRDs and waits until they are established. What was installed last under a name is not applied again.

    Tests of one control plane bring the same CRDs again and again.
    """
    for crd in crds:
        name, text = crd["metadata"]["name"], json.dumps(crd, sort_keys=True)
        last = Path(plane.folder, f"crd-{name}.json")
        if not last.exists() or last.read_text() != text:
            plane.apply(crd)
            wait_established(plane, name)
            last.write_text(text)


def wait_established(plane: ControlPlane, name: str) -> None:
    """Waits for a CRD to be Established and its kind to be listed; `kubectl wait` fails while its conditions are null."""
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    crd = plane.until(path, name, lambda one: is_true(one, "Established"))["spec"]
    kind, versions = crd["names"]["kind"], [f"{crd['group']}/{one['name']}" for one in crd["versions"] if one["served"]]
    # The API server makes the list of kinds a moment after it has established the CRD.
    wait_for(lambda: all(kind in plane.served(version) for version in versions), f"{name} is listed")


_LEASES_OF_TESTS = granted(
    "leases-of-tests",
    RELEASE_NAMESPACE,
    [{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "update"]}],
    to={"kind": "ServiceAccount", "name": RELEASE, "namespace": RELEASE_NAMESPACE},
)
"""The chart grants one Lease, by its name; controllers of tests run beside each other, each under a name of its own."""
