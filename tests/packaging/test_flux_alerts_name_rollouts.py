"""Promise: what docs/gitops.md says of Flux fits together: the chart's value, the patch of its CRD, and the Alert."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from rollouts.controller.command import _settings
from rollouts.objects import ROLLOUT
from tests.documents import documents
from tests.lab.chart import render
from tests.lab.processes import run
from tests.packaging.rendered import container
from tests.pages.blocks import run_by

pytestmark = pytest.mark.controlplane

VALUES, PATCHES, ALERT = (yaml.safe_load(block.text) for block in run_by(__file__))


def alerts(folder: Path, kubectl: Path) -> dict[str, Any]:
    """The schema of an Alert's event sources after `kubectl kustomize` of a folder with the page's patches.

    The CRD here has of Flux's the name, and the way to the kinds.
    """
    kind = {"type": "string", "enum": ["HelmRelease", "Kustomization"]}
    sources = {"type": "array", "items": {"type": "object", "properties": {"kind": kind, "name": {"type": "string"}}}}
    spec = {"type": "object", "properties": {"eventSources": sources}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "alerts.notification.toolkit.fluxcd.io"},
        "spec": {"versions": [{"name": "v1beta3", "schema": schema}]},
    }
    (folder / "gotk-components.yaml").write_text(yaml.safe_dump(crd))
    (folder / "kustomization.yaml").write_text(yaml.safe_dump({"resources": ["gotk-components.yaml"], **PATCHES}))
    (built,) = documents(run(kubectl, "kustomize", folder).stdout)
    (version,) = built["spec"]["versions"]
    found: dict[str, Any] = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["eventSources"]
    return found


def test_a_patched_alert_takes_our_kind(tmp_path: Path, lab_programs: Path) -> None:
    """And the kinds of Flux as before."""
    kinds = alerts(tmp_path, lab_programs / "kubectl")["items"]["properties"]["kind"]["enum"]

    assert kinds == ["HelmRelease", "Kustomization", ROLLOUT.kind]
    assert {each["kind"] for each in ALERT["spec"]["eventSources"]} == {ROLLOUT.kind}
    assert ALERT["kind"] == "Alert" and ALERT["spec"]["eventSeverity"] == "error"


def test_the_charts_value_is_the_flag(helm: Path) -> None:
    """Off by default."""
    value = VALUES["fluxEvents"]
    _, *off = container(render(helm))["args"]
    _, *on = container(render(helm, "--set", f"fluxEvents={value}"))["args"]

    assert (_settings(off).flux_events, _settings(on).flux_events) == ("", value)
    assert set(on) - set(off) == {f"--flux-events={value}"}
