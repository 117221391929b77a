"""The base for kustomize, written from the chart's defaults: `python -m tests.packaging.kustomize_base`. It needs Helm.

CRDs come from crds/ (kustomization.yaml names them). Templates of analyses are not in it, as `kubectl apply` refuses objects of a
kind that it has just brought. Policies that need Kubernetes 1.36, or that not everybody wants, are components of their own.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from tests.lab import binaries
from tests.lab.chart import RELEASE_NAMESPACE, render

ROOT = Path(__file__).parents[2]
BASE = ROOT / "kustomize" / "rollouts.yaml"
NOTES = ROOT / "kustomize" / "command-notes" / "policies.yaml"
RIGHTS = ROOT / "kustomize" / "command-rights" / "policies.yaml"
HOLDS = ROOT / "kustomize" / "holds" / "policies.yaml"
DASHBOARD = ROOT / "kustomize" / "dashboard" / "objects.yaml"
BEHIND_PROXY = ROOT / "kustomize" / "dashboard-behind-proxy" / "objects.yaml"
_HEAD = "# Written by `make kustomize` from the chart's defaults.\n"
OF_PROXY = ("dashboard.auth=proxy", "dashboard.proxy.secretName=rollouts-dashboard-proxy")
_HELMS = ("helm.sh/chart", "app.kubernetes.io/managed-by")


def base(helm: Path) -> str:
    """The text of the file: the namespace, and the chart's objects without what only Helm reads."""
    documents = render(
        helm, "--set", "crds.enabled=false,admission.commandNotes=false,analysis.templates.enabled=false"
    )
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": RELEASE_NAMESPACE}}
    return _text((namespace, *documents))


def command_notes(helm: Path) -> str:
    """The text of the component's file: the policies that note who gave a command."""
    with_notes = render(helm, "--set", "crds.enabled=false")
    return _text(one for one in with_notes if one["metadata"]["name"].endswith(".command-notes"))


def command_rights(helm: Path) -> str:
    """The text of the component's file: the policy by which each command needs a right, and the role that has all of them."""
    with_rights = render(helm, "--set", "crds.enabled=false,admission.commandRights=true")
    return _text(one for one in with_rights if one["metadata"]["name"].endswith((".command-rights", "-commands")))


def holds(helm: Path) -> str:
    """The text of the component's file: the policies that hold workloads of all kinds."""
    with_holds = render(helm, "--set", "crds.enabled=false,workloads={deployments,statefulsets,daemonsets}")
    return _text(one for one in with_holds if ".hold-" in one["metadata"]["name"])


def dashboard(helm: Path, *values: str) -> str:
    """The text of the component's file: the dashboard for many people."""
    with_dashboard = render(helm, "--set", ",".join(("crds.enabled=false,dashboard.enabled=true", *values)))
    return _text(one for one in with_dashboard if one["metadata"]["name"].endswith("-dashboard"))


def _text(documents: Iterable[dict[str, Any]]) -> str:
    texts = (yaml.safe_dump(_without_helm(one), sort_keys=False, width=130) for one in documents)
    return _HEAD + "---\n".join(texts)


def _without_helm(one: dict[str, Any]) -> dict[str, Any]:
    metadata = one["metadata"]
    labels = {name: value for name, value in metadata.get("labels", {}).items() if name not in _HELMS}
    return {**one, "metadata": {**metadata, **({"labels": labels} if labels else {})}}


if __name__ == "__main__":
    BASE.write_text(base(binaries.folder() / "helm"), encoding="utf-8")
    NOTES.write_text(command_notes(binaries.folder() / "helm"), encoding="utf-8")
    RIGHTS.write_text(command_rights(binaries.folder() / "helm"), encoding="utf-8")
    DASHBOARD.write_text(dashboard(binaries.folder() / "helm"), encoding="utf-8")
    BEHIND_PROXY.write_text(dashboard(binaries.folder() / "helm", *OF_PROXY), encoding="utf-8")
    HOLDS.write_text(holds(binaries.folder() / "helm"), encoding="utf-8")
