"""Those who do not use Helm get the same objects from `kubectl apply -k`, and the same rights, from one source."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.documents import documents
from tests.lab.chart import RELEASE_NAMESPACE, render
from tests.lab.control_plane import ControlPlane
from tests.packaging.kustomize_base import (
    BASE,
    BEHIND_PROXY,
    DASHBOARD,
    HOLDS,
    NOTES,
    OF_PROXY,
    RIGHTS,
    ROOT,
    base,
    command_notes,
    command_rights,
    dashboard,
    holds,
)

pytestmark = pytest.mark.controlplane


def _by_name(objects: list[dict[str, Any]]) -> dict[tuple[str, str, str], dict[str, Any]]:
    return {(one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]): one for one in objects}


def test_the_base_is_what_the_chart_gives(lab_programs: Path) -> None:
    """`make kustomize` writes it anew; a right that only the chart has would be missing here."""
    assert BASE.read_text() == base(lab_programs / "helm")
    assert NOTES.read_text() == command_notes(lab_programs / "helm")
    assert RIGHTS.read_text() == command_rights(lab_programs / "helm")
    assert HOLDS.read_text() == holds(lab_programs / "helm")
    assert DASHBOARD.read_text() == dashboard(lab_programs / "helm")
    assert BEHIND_PROXY.read_text() == dashboard(lab_programs / "helm", *OF_PROXY)


def _built(plane: ControlPlane, folder: Path, *policies: Path) -> dict[tuple[str, str, str], dict[str, Any]]:
    """The objects of an overlay with the components of these policies."""
    root = os.path.relpath(ROOT, folder)
    components = [f"{root}/{each.parent.relative_to(ROOT)}" for each in policies]
    (folder / "kustomization.yaml").write_text(json.dumps({"resources": [root], "components": components}))
    return _by_name(documents(plane.kubectl("kustomize", str(folder)).stdout))


def test_kustomize_and_helm_install_the_same(control_plane: ControlPlane, lab_programs: Path, tmp_path: Path) -> None:
    """But for marks that only Helm reads, and the namespace that Helm makes by a flag. Templates of analyses are left out.

    What needs a newer Kubernetes than the rest is a component, which is put in here.
    """
    built = _built(control_plane, tmp_path, NOTES)
    rendered = _by_name(render(lab_programs / "helm", "--set", "analysis.templates.enabled=false"))

    assert built.keys() - rendered.keys() == {("Namespace", "", RELEASE_NAMESPACE)}
    assert rendered.keys() - built.keys() == set()
    for name in built.keys() & rendered.keys():
        for part in ("spec", "rules", "roleRef", "subjects"):
            assert built[name].get(part) == rendered[name].get(part), (name, part)
    assert "helm" not in json.dumps(list(built.values())).lower()


def test_rights_to_commands_are_a_component(control_plane: ControlPlane, lab_programs: Path, tmp_path: Path) -> None:
    """Not everybody wants them, and any supported Kubernetes can have them."""
    without, with_rights = _built(control_plane, tmp_path), _built(control_plane, tmp_path, RIGHTS)
    chosen = _by_name(
        render(lab_programs / "helm", "--set", "admission.commandRights=true,admission.commandNotes=false")
    )
    plain = _by_name(render(lab_programs / "helm", "--set", "admission.commandNotes=false"))

    more = with_rights.keys() - without.keys()
    assert more == chosen.keys() - plain.keys()
    assert len(more) == 3
    assert all(with_rights[name].get(part) == chosen[name].get(part) for name in more for part in ("spec", "rules"))


@pytest.mark.parametrize(("component", "values", "count"), [(DASHBOARD, (), 4), (BEHIND_PROXY, OF_PROXY, 6)])
def test_the_dashboard_is_a_component(
    control_plane: ControlPlane,
    lab_programs: Path,
    tmp_path: Path,
    component: Path,
    values: tuple[str, ...],
    count: int,
) -> None:
    """It is for those who want one in the cluster, by tokens or behind a proxy."""
    without, with_dashboard = _built(control_plane, tmp_path), _built(control_plane, tmp_path, component)
    chosen = _by_name(render(lab_programs / "helm", "--set", ",".join(("dashboard.enabled=true", *values))))
    wanted = {name: one.get("spec") for name, one in chosen.items() if name[2] == "rollouts-dashboard"}

    assert {name: one.get("spec") for name, one in with_dashboard.items() if name not in without} == wanted
    assert len(wanted) == count


def test_holds_are_a_component(control_plane: ControlPlane, lab_programs: Path, tmp_path: Path) -> None:
    """For all kinds: they look only at workloads that a Rollout has marked."""
    without, with_holds = _built(control_plane, tmp_path), _built(control_plane, tmp_path, HOLDS)
    chosen = render(lab_programs / "helm", "--set", "workloads={deployments,statefulsets,daemonsets}")
    wanted = {name: one["spec"] for name, one in _by_name(chosen).items() if ".hold-" in name[2]}

    assert {name: one["spec"] for name, one in with_holds.items() if name not in without} == wanted
    assert len(wanted) == 8
