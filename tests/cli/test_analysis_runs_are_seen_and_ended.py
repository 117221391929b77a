"""Promise: `rollouts analysis` lists, shows, follows and ends AnalysisRuns, and `get` has them in the tree of their Rollout."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
import yaml

from rollouts.api.status.analysis_run import run_status_to_wire
from rollouts.core.analysis.measurement import RunStatus
from rollouts.core.model.frozen import replace
from rollouts.objects import ANALYSIS_RUN, REPLICA_SET, ROLLOUT
from tests.cli.runs import BAD, GOOD, RUNNING, install, replica_set, rollout, run, said, served

Printed = pytest.CaptureFixture[str]
HAND = run("hand", owned=False, status=GOOD)


async def test_runs_are_listed_and_those_of_one_rollout_chosen(
    tmp_path: Path, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A namespace has the runs of many Rollouts; a label chooses, so the server does the work."""
    monkeypatch.setenv("COLUMNS", "180")
    other = run("other", owned=False, labels={"rollouts.dev/name": "shop"})
    async with served(tmp_path) as there:
        await install(there, run(status=BAD), HAND, other)

        assert await there.command("analysis", "list") == 0
        header, *rows = capsys.readouterr().out.splitlines()
        assert header.split()[:3] == ["NAME", "PHASE", "ROLLOUT"]
        assert sorted(row.split()[0] for row in rows if row and row[0] != " ") == [
            "cart-newrev-step-1",
            "hand",
            "other",
        ]

        assert await there.command("analysis", "list", "--rollout", "cart", "-o", "json") == 0
        listed = json.loads(capsys.readouterr().out)["items"]
        assert sorted(each["metadata"]["name"] for each in listed) == ["cart-newrev-step-1", "hand"]
        assert await there.command("analysis", "list", "-n", "elsewhere") == 0
        assert "no AnalysisRuns found in namespace elsewhere" in capsys.readouterr().err
        assert await there.command("analysis", "list", "-A", "--rollout", "nobody") == 0
        assert "no AnalysisRuns found of Rollout nobody" in capsys.readouterr().err


async def test_one_run_is_shown_whole(tmp_path: Path, capsys: Printed, monkeypatch: pytest.MonkeyPatch) -> None:
    """For people the measurements, for programs the manifest."""
    monkeypatch.setenv("COLUMNS", "180")
    async with served(tmp_path) as there:
        await install(there, run(status=RUNNING))

        assert await there.command("analysis", "get", "cart-newrev-step-1") == 0
        shown = capsys.readouterr().out
        assert "analysis of step 1  Running" in shown and "[0.981]" in shown and "result[0] >= 0.99" in shown

        assert await there.command("analysis", "get", "cart-newrev-step-1", "-o", "yaml") == 0
        document = yaml.safe_load(capsys.readouterr().out)
        assert (document["kind"], document["status"]["phase"]) == ("AnalysisRun", "Running")
        assert "managedFields" not in document["metadata"]


@pytest.mark.parametrize(("ended", "code"), [(GOOD, 0), (BAD, 1)])
async def test_a_run_is_followed_to_its_verdict(tmp_path: Path, capsys: Printed, ended: RunStatus, code: int) -> None:
    """In a pipeline the exit code is the verdict, and each measurement is a line."""
    async with served(tmp_path) as there:
        await install(there, run(status=RUNNING))
        following = asyncio.create_task(there.command("analysis", "get", "cart-newrev-step-1", "-w"))
        await said(capsys, "Running: success-rate [0.999] (2 successful, 1 failed of 10)")
        await there.put_status(ANALYSIS_RUN, "cart-newrev-step-1", run_status_to_wire(ended))

        assert await following == code
        assert f"(analysis of step 1) {ended.phase}" in capsys.readouterr().out
        assert await there.command("analysis", "get", "cart-newrev-step-1", "-w") == code, (
            "of one that is over, at once"
        )


async def test_a_run_that_is_deleted_has_no_verdict(tmp_path: Path, capsys: Printed) -> None:
    """4, as for whatever is not there."""
    async with served(tmp_path) as there:
        await install(there, run(status=RUNNING))
        following = asyncio.create_task(there.command("analysis", "get", "cart-newrev-step-1", "-w"))
        await said(capsys, "Running: success-rate")
        await there.session.client.delete(ANALYSIS_RUN, "default", "cart-newrev-step-1")

        assert await following == 4
        assert "was deleted before it was over" in capsys.readouterr().err


async def test_a_run_is_ended_once(tmp_path: Path, capsys: Printed) -> None:
    """`spec.terminate` is all that is written; whoever runs it decides what was measured."""
    async with served(tmp_path) as there:
        await install(there, run(status=RUNNING))

        assert await there.command("analysis", "terminate", "cart-newrev-step-1") == 0
        assert "is told to end: nothing new is measured" in capsys.readouterr().out
        assert (await there.object(ANALYSIS_RUN, "cart-newrev-step-1"))["spec"]["terminate"] is True
        assert await there.command("analysis", "terminate", "cart-newrev-step-1") == 0
        assert "is told to end already" in capsys.readouterr().out

        await there.put_status(ANALYSIS_RUN, "cart-newrev-step-1", run_status_to_wire(BAD))
        assert await there.command("analysis", "terminate", "cart-newrev-step-1") == 1
        assert "is over already: Failed" in capsys.readouterr().err


async def test_an_end_can_be_waited_for(tmp_path: Path, capsys: Printed) -> None:
    """The measurement in flight comes first, so the end takes a moment."""
    async with served(tmp_path) as there:
        await install(there, run(status=RUNNING))
        ending = asyncio.create_task(there.command("analysis", "terminate", "cart-newrev-step-1", "-w"))
        await said(capsys, "told to end: success-rate [0.999]")
        await there.put_status(
            ANALYSIS_RUN, "cart-newrev-step-1", run_status_to_wire(replace(GOOD, message="Run Terminated"))
        )

        assert await ending == 0
        assert "Successful: Run Terminated" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("get", "nobody"), 4, "not found"),
        (("get", "nobody", "-w"), 4, "there is no AnalysisRun nobody in namespace default"),
        (("terminate", "nobody"), 4, "not found"),
        (("get", "nobody", "-o", "wide"), 2, "json or yaml"),
        (("get", "nobody", "-w", "-o", "json"), 2, "cannot be combined"),
    ],
)
async def test_what_cannot_be_done_is_said_with_its_exit_code(
    tmp_path: Path, capsys: Printed, words: tuple[str, ...], code: int, text: str
) -> None:
    """2 is the caller's command line, 4 the cluster's answer; a script may retry only one of them."""
    async with served(tmp_path) as there:
        assert await there.command("analysis", *words) == code
        assert text in " ".join(capsys.readouterr().err.replace("│", " ").split())


async def test_a_cluster_without_analysis_runs_is_as_before(tmp_path: Path, capsys: Printed) -> None:
    """The controller's release and the command line's need not be the same; what is missing has its remedy."""
    async with served(tmp_path, without=frozenset({"analysisruns"})) as there:
        await there.create(ROLLOUT, rollout())

        assert await there.command("get", "cart") == 0
        assert "cart  default  Canary  Progressing" in capsys.readouterr().out
        assert await there.command("analysis", "list") == 4
        assert "rollouts crds | kubectl apply --server-side -f -" in capsys.readouterr().err


async def test_the_tree_follows_its_runs(tmp_path: Path, capsys: Printed) -> None:
    """A measurement is a change like any other, though nothing of the Rollout changes."""
    async with served(tmp_path) as there:
        await install(there, run(status=RUNNING))
        await there.create(REPLICA_SET, replica_set(await there.object(ROLLOUT, "cart")))
        following = asyncio.create_task(there.command("get", "cart", "-w"))
        await said(capsys, "default/cart-newrev-step-1 (analysis of step 1) Running: success-rate [0.999]")
        await there.put_status(ANALYSIS_RUN, "cart-newrev-step-1", run_status_to_wire(BAD))
        await said(capsys, "default/cart-newrev-step-1 (analysis of step 1) Failed: Metric")
        await there.session.client.delete(ROLLOUT, "default", "cart")

        assert await following == 0


async def test_verdicts_are_lines_of_the_status(tmp_path: Path, capsys: Printed) -> None:
    """A pipeline's log says why an update was aborted, next to the state that followed."""
    async with served(tmp_path) as there:
        await install(there)
        following = asyncio.create_task(there.command("status", "cart", "-w"))
        await said(capsys, "default/cart Progressing")
        verdict = {"kind": "step", "step": 1, "number": 1, "run": "cart-newrev-step-1", "phase": "Failed",
                   "message": "failed (1) > failureLimit (0)", "at": "2026-11-21T10:00:00Z"}  # fmt: skip
        await there.put_status(ROLLOUT, "cart", {"phase": "Aborted", "analyses": [verdict]})

        assert await following == 1
        first, second = capsys.readouterr().out.splitlines()
        assert first.startswith("default/cart analysis of step 1: Failed: failed (1) > failureLimit (0) (cart-newrev")
        assert second.startswith("default/cart Aborted")
