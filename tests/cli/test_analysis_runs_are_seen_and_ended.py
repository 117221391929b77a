"""Promise: `rollouts analysis` lists, shows, follows and ends AnalysisRuns, and `get` has them in the tree of their Rollout."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from rollouts.api.status.analysis_run import run_status_to_wire
from rollouts.core.analysis.measurement import RunStatus
from rollouts.core.model.frozen import replace
from rollouts.errors import APPLY_CRDS
from rollouts.objects import ANALYSIS_RUN, REPLICA_SET, ROLLOUT
from tests.cli.runs import BAD, GOOD, RUNNING, Served, install, replica_set, rollout, run, served

NAME = "cart-newrev-step-1"
HAND = run("hand", owned=False, status=GOOD)


async def test_runs_are_listed_and_those_of_one_rollout_chosen(there: Served) -> None:
    """A namespace has the runs of many Rollouts; a label chooses, so the server does the work."""
    other = run("other", owned=False, labels={"rollouts.dev/name": "shop"})
    await install(there, run(status=BAD), HAND, other)

    header, *rows = (await there.run("analysis", "list")).out.splitlines()
    assert header.split()[:3] == ["NAME", "PHASE", "ROLLOUT"]
    assert sorted(row.split()[0] for row in rows if row and row[0] != " ") == [NAME, "hand", "other"]

    listed = json.loads((await there.run("analysis", "list", "--rollout", "cart", "-o", "json")).out)["items"]
    assert sorted(each["metadata"]["name"] for each in listed) == [NAME, "hand"]
    elsewhere = await there.run("analysis", "list", "-n", "elsewhere")
    nobody = await there.run("analysis", "list", "-A", "--rollout", "nobody")
    assert "no AnalysisRuns found in namespace elsewhere" in elsewhere.err
    assert "no AnalysisRuns found of Rollout nobody" in nobody.err


async def test_one_run_is_shown_whole(there: Served) -> None:
    """For people the measurements, for programs the manifest."""
    await install(there, run(status=RUNNING))

    shown = (await there.run("analysis", "get", NAME)).out
    assert "analysis of step 2  Running" in shown and "[0.981]" in shown and "result[0] >= 0.99" in shown

    document = yaml.safe_load((await there.run("analysis", "get", NAME, "-o", "yaml")).out)
    assert (document["kind"], document["status"]["phase"]) == ("AnalysisRun", "Running")
    assert "managedFields" not in document["metadata"]


@pytest.mark.parametrize(("ended", "code"), [(GOOD, 0), (BAD, 1)])
async def test_a_run_is_followed_to_its_verdict(there: Served, ended: RunStatus, code: int) -> None:
    """In a pipeline the exit code is the verdict, and each measurement is a line."""
    await install(there, run(status=RUNNING))
    following = there.begin("analysis", "get", NAME, "-w")
    await there.prints("Running: success-rate [0.999] (2 successful, 1 failed of 10)")
    await there.put_status(ANALYSIS_RUN, NAME, run_status_to_wire(ended))

    assert await following == code
    assert f"(analysis of step 2) {ended.phase}" in there.printed.readouterr().out
    await there.run("analysis", "get", NAME, "-w", code=code)  # of one that is over, at once


async def test_a_run_that_is_deleted_has_no_verdict(there: Served) -> None:
    """4, as for whatever is not there."""
    await install(there, run(status=RUNNING))
    following = there.begin("analysis", "get", NAME, "-w")
    await there.prints("Running: success-rate")
    await there.session.client.delete(ANALYSIS_RUN, "default", NAME)

    assert await following == 4
    assert "was deleted before it was over" in there.printed.readouterr().err


async def test_a_run_is_ended_once(there: Served) -> None:
    """`spec.terminate` is all that is written; whoever runs it decides what was measured."""
    await install(there, run(status=RUNNING))

    told = await there.run("analysis", "terminate", NAME)
    assert "is ending: nothing new is measured" in told.out
    assert (await there.object(ANALYSIS_RUN, NAME))["spec"]["terminate"] is True
    assert "is ending already" in (await there.run("analysis", "terminate", NAME)).out

    await there.put_status(ANALYSIS_RUN, NAME, run_status_to_wire(BAD))
    assert "is over already: Failed" in (await there.run("analysis", "terminate", NAME, code=1)).err


async def test_an_end_can_be_waited_for(there: Served) -> None:
    """The measurement in flight comes first, so the end takes a moment."""
    await install(there, run(status=RUNNING))
    ending = there.begin("analysis", "terminate", NAME, "-w")
    await there.prints("ending: success-rate [0.999]")
    ended = replace(GOOD, message="Run Terminated")
    await there.put_status(ANALYSIS_RUN, NAME, run_status_to_wire(ended))

    assert await ending == 0
    assert "Successful: Run Terminated" in there.printed.readouterr().out


async def test_a_cluster_without_analysis_runs_is_as_before(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The controller's release and the command line's need not be the same; what is missing has its remedy."""
    async with served(tmp_path, capsys, without="analysisruns") as there:
        await there.create(ROLLOUT, rollout())

        assert "cart  default  Canary  Progressing" in (await there.run("get", "cart")).out
        assert APPLY_CRDS in (await there.run("analysis", "list", code=4)).err


async def test_the_tree_follows_its_runs(there: Served) -> None:
    """A measurement is a change like any other, though nothing of the Rollout changes."""
    await install(there, run(status=RUNNING))
    await there.create(REPLICA_SET, replica_set(await there.object(ROLLOUT, "cart")))
    following = there.begin("get", "cart", "-w")
    await there.prints("default/cart-newrev-step-1 (analysis of step 2) Running: success-rate [0.999]")
    await there.put_status(ANALYSIS_RUN, NAME, run_status_to_wire(BAD))
    await there.prints("default/cart-newrev-step-1 (analysis of step 2) Failed: Metric")
    await there.session.client.delete(ROLLOUT, "default", "cart")

    assert await following == 0


async def test_verdicts_are_lines_of_the_status(there: Served) -> None:
    """A pipeline's log says why an update was aborted, next to the state that followed."""
    await install(there)
    following = there.begin("status", "cart", "-w")
    await there.prints("default/cart Progressing")
    verdict = {"kind": "step", "step": 1, "number": 1, "run": NAME, "phase": "Failed",
               "message": "failed (1) > failureLimit (0)", "at": "2026-11-21T10:00:00Z"}  # fmt: skip
    await there.put_status(ROLLOUT, "cart", {"phase": "Aborted", "analyses": [verdict]})

    assert await following == 1
    first, second = there.printed.readouterr().out.splitlines()
    assert first.startswith("default/cart analysis of step 2: Failed: failed (1) > failureLimit (0) (cart-newrev")
    assert second.startswith("default/cart Aborted")
