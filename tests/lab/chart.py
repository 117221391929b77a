"""The Helm chart on the real control plane: rendered by Helm itself, its RBAC and CRDs applied, its ServiceAccount used."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from tests.documents import documents
from tests.lab.control_plane import ControlPlane

CHART = Path(__file__).parent.parent.parent / "helm" / "rollouts"
RELEASE = "rollouts"
RELEASE_NAMESPACE = "rollouts-system"
CONTROLLER_USER = f"system:serviceaccount:{RELEASE_NAMESPACE}:{RELEASE}"

_INSTALLED = "chart.kubeconfig-path"
_NEEDED_BY_THE_CONTROLLER = frozenset({"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"})


def render(helm: Path, *arguments: str) -> list[dict[str, Any]]:
    """The chart's objects with their namespace filled in, CRDs first, as `helm template` gives them with these arguments.

    Raises: AssertionError with Helm's own words.
    """
    return documents(_rendered(helm, arguments))


@cache
def _rendered(helm: Path, arguments: tuple[str, ...]) -> str:
    done = subprocess.run(
        [str(helm), "template", RELEASE, str(CHART), "--namespace", RELEASE_NAMESPACE, "--include-crds", *arguments],
        env={"HOME": "/nonexistent", "PATH": "/usr/bin:/bin"},  # it reads nothing of the user's
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if done.returncode != 0:
        raise AssertionError(f"helm template {' '.join(arguments)}:\n{done.stderr}")
    return done.stdout


def install_chart(plane: ControlPlane, *arguments: str) -> Path:
    """Applies the chart's CRDs, ServiceAccount and RBAC, once for a control plane; returns its ServiceAccount's kubeconfig.

    The caller holds a lock: several test processes share the control plane.

    Args:
        arguments: Helm's; for a control plane of the test's own.
    """
    done = Path(plane.folder, _INSTALLED)
    if done.exists():
        return Path(done.read_text())
    rendered = render(Path(plane.programs, "helm"), *arguments)
    plane.kubectl("create", "namespace", RELEASE_NAMESPACE)
    if crds := [one for one in rendered if one["kind"] == "CustomResourceDefinition"]:
        install_crds(plane, *crds)
    plane.apply(*(one for one in rendered if one["kind"] in _NEEDED_BY_THE_CONTROLLER), *_LEASES_OF_TESTS)
    kubeconfig = plane.service_account_kubeconfig(RELEASE_NAMESPACE, RELEASE)
    done.write_text(str(kubeconfig))
    return kubeconfig


def another_account(plane: ControlPlane, name: str, *arguments: str) -> Path:
    """A kubeconfig for an account of that name, with the rights that the chart gives with these arguments of Helm's.

    The chart's own account stays as it is, and so do the CRDs.
    """
    rendered = render(Path(plane.programs, "helm"), *arguments, "--set", f"fullnameOverride={name}")
    plane.apply(*(one for one in rendered if one["kind"] in _NEEDED_BY_THE_CONTROLLER))
    return plane.service_account_kubeconfig(RELEASE_NAMESPACE, name)


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
    with plane.watch(path, timeout_s=30, fieldSelector=f"metadata.name={name}") as events:
        for event in events:
            conditions = event["object"].get("status", {}).get("conditions") or []
            if any(one["type"] == "Established" and one["status"] == "True" for one in conditions):
                _wait_listed(plane, event["object"]["spec"])
                return
    raise AssertionError(f"CRD {name} was not established within 30 s")


def _wait_listed(plane: ControlPlane, crd: Mapping[str, Any]) -> None:
    """Waits until the API server lists the kind; it makes that list a moment after it has established the CRD."""
    kind, deadline = crd["names"]["kind"], time.monotonic() + 30
    for version in (f"{crd['group']}/{one['name']}" for one in crd["versions"] if one["served"]):
        while kind not in plane.served(version):
            assert time.monotonic() < deadline, f"{version} {kind} was not listed within 30 s"
            time.sleep(0.05)


_ELECTION = {"name": "leases-of-tests", "namespace": RELEASE_NAMESPACE}
RBAC_GROUP = "rbac.authorization.k8s.io"
_LEASES_OF_TESTS: tuple[dict[str, Any], ...] = (
    {
        "apiVersion": f"{RBAC_GROUP}/v1",
        "kind": "Role",
        "metadata": _ELECTION,
        "rules": [{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "update"]}],
    },
    {
        "apiVersion": f"{RBAC_GROUP}/v1",
        "kind": "RoleBinding",
        "metadata": _ELECTION,
        "roleRef": {"apiGroup": RBAC_GROUP, "kind": "Role", "name": _ELECTION["name"]},
        "subjects": [{"kind": "ServiceAccount", "name": RELEASE, "namespace": RELEASE_NAMESPACE}],
    },
)
"""The chart grants one Lease, by its name; controllers of tests run beside each other, each under a name of its own."""
