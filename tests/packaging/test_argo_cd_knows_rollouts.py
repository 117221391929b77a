"""Promise: Argo CD shows of Rollouts and AnalysisRuns what their status says, and its menu offers what may be asked now."""

from __future__ import annotations

import shlex

import pytest

from rollouts.objects import ANALYSIS_RUN, CONFIG_MAP, EXPERIMENT, ROLLOUT, Kind, Manifest
from tests import build
from tests.architecture.tracked import ROOT
from tests.lab.control_plane import ControlPlane
from tests.packaging.argo_cd import available, said, scripts
from tests.pages.blocks import run_by

WAITS = {
    "observedGeneration": 2, "phase": "Paused", "currentRevision": "b", "stableRevision": "a", "currentStepIndex": 1,
    "message": "step 2",
}  # fmt: skip
HEALTHY = {
    **WAITS, "phase": "Healthy", "stableRevision": "b", "message": "", "history": [{"revision": "a"}, {"revision": "b"}],
}  # fmt: skip
UPDATING = {"promote-full", "abort", "pause", "restart"}


def _object(status: Manifest | None, **annotations: str) -> Manifest:
    marks = {f"rollouts.dev/{verb}": value for verb, value in annotations.items()}
    found: Manifest = {"metadata": {"generation": 2, "annotations": marks}, "spec": {}}
    return found if status is None else {**found, "status": status}


@pytest.mark.parametrize(
    ("kind", "status", "health"),
    [
        (ROLLOUT, None, "Progressing: waiting for the controller to see the latest spec"),
        (ROLLOUT, {**WAITS, "observedGeneration": 1}, "Progressing: waiting for the controller to see the latest spec"),
        (ROLLOUT, HEALTHY | {"message": None}, "Healthy: Healthy"),
        (ROLLOUT, WAITS, "Suspended: step 2"),
        (ROLLOUT, WAITS | {"phase": "Progressing"}, "Progressing: step 2"),
        (ROLLOUT, WAITS | {"phase": "Aborted", "message": "held back"}, "Degraded: held back"),
        (ROLLOUT, WAITS | {"phase": "RolledBack", "message": "back from b to a"}, "Degraded: back from b to a"),
        (ROLLOUT, WAITS | {"phase": "Degraded", "message": "late"}, "Degraded: late"),
        (ANALYSIS_RUN, None, "Progressing: "),
        (ANALYSIS_RUN, {"phase": "Running", "message": "3 of 5"}, "Progressing: 3 of 5"),
        (ANALYSIS_RUN, {"phase": "Successful"}, "Healthy: Successful"),
        (ANALYSIS_RUN, {"phase": "Inconclusive", "message": "no data"}, "Suspended: no data"),
        (ANALYSIS_RUN, {"phase": "Failed", "message": "0.8"}, "Degraded: 0.8"),
        (ANALYSIS_RUN, {"phase": "Error", "message": "refused"}, "Degraded: refused"),
        (EXPERIMENT, {"phase": "Pending", "message": "blue: 0 of 1"}, "Progressing: blue: 0 of 1"),
        (EXPERIMENT, {"phase": "Failed", "message": "late"}, "Degraded: late"),
    ],
)  # fmt: skip
def test_argo_cd_says_what_status_says(kind: Kind, status: Manifest | None, health: str) -> None:
    """A Rollout that was rolled back must not look as if all were well."""
    found = said(scripts("health", kind), _object(status))

    assert f"{found['status']}: {found['message']}" == health


@pytest.mark.parametrize(
    ("kind", "seen", "offered"),
    [
        (ROLLOUT, _object(None), set()),
        (ROLLOUT, _object(WAITS | {"observedGeneration": 1}), set()),
        (ROLLOUT, _object(WAITS), UPDATING | {"promote"}),
        (ROLLOUT, _object(WAITS | {"phase": "Progressing"}), UPDATING),
        (ROLLOUT, _object(WAITS, pause="true"), UPDATING - {"pause"} | {"resume"}),
        (ROLLOUT, _object(WAITS, pause="false"), UPDATING | {"promote"}),
        (ROLLOUT, _object(WAITS | {"phase": "Aborted"}), {"retry", "restart"}),
        (ROLLOUT, _object({key: WAITS[key] for key in WAITS.keys() - {"stableRevision"}}), {"restart"}),
        (ROLLOUT, _object(HEALTHY), {"rollback", "restart"}),
        (ROLLOUT, _object(HEALTHY | {"history": [{"revision": "b"}]}), {"restart"}),
        (ANALYSIS_RUN, _object(None), {"terminate"}),
        (ANALYSIS_RUN, _object({"phase": "Running"}), {"terminate"}),
        (ANALYSIS_RUN, _object({"phase": "Failed"}), set()),
        (ANALYSIS_RUN, {"metadata": {}, "spec": {"terminate": True}, "status": {"phase": "Running"}}, set()),
        (EXPERIMENT, _object({"phase": "Running"}), {"terminate"}),
        (EXPERIMENT, _object({"phase": "Successful"}), set()),
    ],
)
def test_the_menu_offers_what_may_be_asked_now(kind: Kind, seen: Manifest, offered: set[str]) -> None:
    """Nothing is offered before the controller has seen the spec, and no promotion where nobody waits for one."""
    assert available(kind, seen) == offered


def test_each_action_of_the_menu_is_defined() -> None:
    """And no other one."""
    for kind, seen in ((ROLLOUT, _object(WAITS)), (ANALYSIS_RUN, _object(None)), (EXPERIMENT, _object(None))):
        actions = scripts("actions", kind)
        assert said(actions["discovery.lua"], seen).keys() == {each["name"] for each in actions["definitions"]}


@pytest.mark.controlplane
def test_the_command_of_the_page_brings_them_into_the_config_map(control_plane: ControlPlane, namespace: str) -> None:
    """Beside what is there; on the real API server."""
    control_plane.apply(build.config_map("argocd-cm", namespace, data={"url": "https://argocd.example"}))
    (block,) = run_by(__file__)
    (command,) = (each.command for each in block.exchanges)
    program, *words = shlex.split(
        command.replace("-n argocd", f"-n {namespace}").replace("integrations/", f"{ROOT}/integrations/")
    )
    assert program == "kubectl"
    control_plane.kubectl(*words)

    data = control_plane.api.get(CONFIG_MAP.path(namespace, "argocd-cm")).raise_for_status().json()["data"]
    assert data.pop("url") == "https://argocd.example"
    assert {name.removeprefix("resource.customizations.") for name in data} == {
        f"{what}.{kind.group}_{kind.kind}"
        for what in ("health", "actions")
        for kind in (ROLLOUT, ANALYSIS_RUN, EXPERIMENT)
    }
