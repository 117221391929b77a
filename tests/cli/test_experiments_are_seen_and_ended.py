"""Promise: `rollouts experiment` lists, shows, follows and ends Experiments."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rollouts.api.status.experiment import experiment_status_to_wire
from rollouts.core.experiment.model import ExperimentStatus, GroupPhase, GroupStatus, RunRecord
from rollouts.core.model.analysis import AnalysisPhase
from rollouts.errors import APPLY_CRDS
from rollouts.manifests.ownership import controller_reference
from rollouts.objects import ANALYSIS_RUN, EXPERIMENT
from tests.cli.runs import Served, served
from tests.controller.experiments.stage import experiment

RUNNING = ExperimentStatus(
    phase=AnalysisPhase.RUNNING,
    message="waits for the verdicts of smoke",
    available_at_s=1_700_000_000.0,
    groups=(
        GroupStatus(
            name="blue", phase=GroupPhase.RUNNING, replicas=2, available_replicas=2, pod_template_hash="h4sh",
            service_name="blue-svc",
        ),
    ),
    runs=(RunRecord(name="smoke", run="exp-smoke-1", phase=AnalysisPhase.RUNNING),),
)  # fmt: skip
GOOD = ExperimentStatus(phase=AnalysisPhase.SUCCESSFUL, message="all of its analyses are Successful")
BAD = ExperimentStatus(phase=AnalysisPhase.FAILED, message="analysis smoke: bad")


async def _install(there: Served, status: ExperimentStatus, name: str = "exp") -> None:
    await there.create(EXPERIMENT, experiment(name=name))
    await there.put_status(EXPERIMENT, name, experiment_status_to_wire(status))


async def test_experiments_are_listed(there: Served) -> None:
    """With what each waits for."""
    await _install(there, RUNNING)
    await _install(there, BAD, "other")

    header, *rows = (await there.run("experiment", "list")).out.splitlines()
    assert header.split() == ["NAME", "PHASE", "AVAILABLE", "LASTS", "AGE", "MESSAGE"]
    assert [row.split()[:3] for row in rows if row] == [["exp", "Running", "2"], ["other", "Failed", "0"]]
    listed = json.loads((await there.run("experiment", "list", "-A", "-o", "json")).out)["items"]
    assert sorted(each["metadata"]["name"] for each in listed) == ["exp", "other"]
    assert "no Experiments found in namespace shop" in (await there.run("experiment", "list", "-n", "shop")).err


async def test_one_experiment_is_shown_whole(there: Served) -> None:
    """The pods of each template, and each analysis."""
    await _install(there, RUNNING)

    shown = (await there.run("experiment", "get", "exp")).out
    for words in ("exp  default  Experiment  Running", "blue  Running  2 of 2 available", "revision h4sh", "blue-svc"):
        assert words in shown
    assert "analysis smoke  Running  exp-smoke-1" in shown and "waits for the verdicts of smoke" in shown
    assert (await there.run("experiment", "get", "experiment/exp", "-o", "name")).out.strip().endswith("/exp")


@pytest.mark.parametrize(("ended", "code"), [(GOOD, 0), (BAD, 1)])
async def test_an_experiment_is_followed_to_its_end(there: Served, ended: ExperimentStatus, code: int) -> None:
    """In a pipeline the exit code is the verdict."""
    await _install(there, RUNNING)
    following = there.begin("experiment", "get", "exp", "-w")
    await there.prints("default/exp Running: waits for the verdicts of smoke")
    await there.put_status(EXPERIMENT, "exp", experiment_status_to_wire(ended))

    assert await following == code
    assert f"default/exp {ended.phase}: {ended.message}" in there.printed.readouterr().out


async def test_an_experiment_is_ended_once(there: Served) -> None:
    """`spec.terminate` is all that is written; the controller decides what follows."""
    await _install(there, RUNNING)

    assert "exp is ending" in (await there.run("experiment", "terminate", "exp")).out
    assert (await there.object(EXPERIMENT, "exp"))["spec"]["terminate"] is True
    assert "is ending already" in (await there.run("experiment", "terminate", "exp")).out
    await there.put_status(EXPERIMENT, "exp", experiment_status_to_wire(BAD))
    assert "is over already: Failed" in (await there.run("experiment", "terminate", "exp", code=1)).err


async def test_a_cluster_without_experiments_is_told_the_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The CRD of an older release is missing."""
    async with served(tmp_path, capsys, without="experiments") as there:
        assert APPLY_CRDS in (await there.run("experiment", "list", code=4)).err


async def test_a_run_names_its_experiment(there: Served) -> None:
    """It was not made by hand."""
    await _install(there, RUNNING)
    uid = (await there.object(EXPERIMENT, "exp"))["metadata"]["uid"]
    owners = [controller_reference(EXPERIMENT, name="exp", uid=uid)]
    await there.create(
        ANALYSIS_RUN, {"metadata": {"name": "exp-smoke-1", "ownerReferences": owners}, "spec": {"metrics": []}}
    )

    assert "Experiment exp" in (await there.run("analysis", "list", "-o", "wide")).out
    assert "analysis of Experiment exp" in (await there.run("analysis", "get", "exp-smoke-1")).out
