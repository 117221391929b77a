"""An update with analyses by commands alone, on a simulated cluster with the real controller: what people see is what is done."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rollouts.cli.demo.manifests import SECOND, with_image
from rollouts.cli.view.objects import RolloutObjects, status_of, view_of
from rollouts.cli.view.runs import RunLine
from rollouts.core.model.analysis import AnalysisKind, AnalysisPhase
from rollouts.objects import ANALYSIS_TEMPLATE, Manifest
from rollouts.ports import MERGE_PATCH
from tests.build import analysis_template, canary
from tests.cli.shop import Shop, shop
from tests.patience import PATIENCE_S

STRATEGY = canary(
    {"setWeight": 50},
    {"analysis": {"templates": [{"templateName": "pods"}]}},
    analysis={"templates": [{"templateName": "rate"}], "onFailure": "hold"},
)


def template(name: str, **metric: object) -> Manifest:
    """An AnalysisTemplate of one metric of the same name, which is measured every second."""
    return analysis_template({"name": name, "interval": "1s", **metric}, name=name)


def rate(condition: str) -> Manifest:
    """A metric whose value is always 1, and what it must be."""
    return template("rate", count=1, successCondition=condition, provider={"prometheus": {"query": "vector(1)"}})


def run_at(seen: RolloutObjects, kind: AnalysisKind) -> RunLine | None:
    """The latest run of the update at one kind of gate."""
    runs = (run for revision in view_of(seen).revisions for run in revision.runs)
    return next((run for run in runs if run.gate is not None and run.gate.kind is kind), None)


def measures(seen: RolloutObjects) -> bool:
    """Whether the step's analysis has measured and goes on."""
    step = run_at(seen, AnalysisKind.STEP)
    return step is not None and step.phase is AnalysisPhase.RUNNING and bool(step.metrics[0].measurements)


def measures_and_failed(seen: RolloutObjects) -> bool:
    """Whether it does so, and the analysis beside the steps has failed."""
    background = run_at(seen, AnalysisKind.BACKGROUND)
    return measures(seen) and background is not None and background.phase is AnalysisPhase.FAILED


async def test_an_analysis_is_seen_ended_and_passed_by_commands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person finds out why an update is held, mends the template, lets the revision pass that one gate, and ends what runs."""
    monkeypatch.setenv("COLUMNS", "200")
    templates = (template("pods", count=1000, provider={"kubernetes": {}}), rate("result[0] >= 5"))
    async with shop(tmp_path, capsys, *templates, strategy=STRATEGY) as there:
        await there.stage.change("cart", with_image(SECOND))
        seen = await there.stage.until("cart", measures_and_failed, deadline_s=PATIENCE_S, what="both are measured")
        step, background = run_at(seen, AnalysisKind.STEP), run_at(seen, AnalysisKind.BACKGROUND)
        assert step is not None and background is not None

        await shows_both(there, step, background)
        await tells_of_each(there, step, background)
        mended = {"spec": rate("result[0] >= 1")["spec"]}
        await there.stage.session.client.patch(ANALYSIS_TEMPLATE, there.stage.namespace, "rate", mended, MERGE_PATCH)
        promoted = await there.run("promote", "cart", "--gate", "background")
        ended = await there.run("analysis", "terminate", step.name, "-w")
        followed = await there.run("status", "cart", "-w", "--timeout", f"{PATIENCE_S:g}s")

    assert "pass the verdict of its background analysis, which is Failed" in promoted.out
    assert "the controller has recorded the command" in promoted.out
    assert f"{step.name} (analysis of step 2) Successful: Run Terminated" in ended.out
    assert "background analysis: Successful" in followed.out
    assert "cart Healthy, pods 2 desired, 2 ready, 2 available, 2 updated" in followed.out


async def shows_both(there: Shop, step: RunLine, background: RunLine) -> None:
    """The tree has both runs below the revision, with value and condition, and says what to do."""
    tree = (await there.run("get", "cart")).out

    assert f"▶ analysis of step 2  Running  for 0s  {step.name}" in re.sub(r"for \d+s", "for 0s", tree)
    assert "▶ pods  0 restarts, 1/1 ready  restarts <= 0, ready >= 100 %  ▅" in tree
    assert "✘ background analysis  Failed  took " in tree
    assert "✘ rate  [1]  result[0] >= 5  ▅  1 failed" in tree
    assert "→ kubectl rollouts promote cart -n rollouts-demo   to go on nevertheless" in tree


async def tells_of_each(there: Shop, step: RunLine, background: RunLine) -> None:
    """The list has the verdicts, `get` the measurements, and `-w` the verdict as exit code."""
    listed = (await there.run("analysis", "list", "--rollout", "cart")).out
    phases = {words[0]: words[1:5] for words in map(str.split, listed.splitlines()[1:])}

    assert phases[step.name] == ["Running", "cart", "step", "2"]
    assert phases[background.name][:3] == ["Failed", "cart", "background"]
    assert "✔ Successful  0 restarts, 1/1 ready" in (await there.run("analysis", "get", step.name)).out
    failed = await there.run("analysis", "get", background.name, "-w", code=1)
    assert 'Failed: Metric "rate" assessed Failed due to failed (1) > failureLimit (0)' in failed.out


BY_STEP = canary({"setWeight": 50}, {"analysis": {"templates": [{"templateName": "pods"}]}}, {"pause": {}})


async def test_a_person_goes_on_without_the_verdict_of_a_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The analysis takes a quarter of an hour, and the person has seen enough after a minute."""
    monkeypatch.setenv("COLUMNS", "200")
    pods = template("pods", count=1000, provider={"kubernetes": {}})
    async with shop(tmp_path, capsys, pods, strategy=BY_STEP) as there:
        await there.stage.change("cart", with_image(SECOND))
        seen = await there.stage.until("cart", measures, deadline_s=PATIENCE_S, what="the step is measured")
        step = run_at(seen, AnalysisKind.STEP)
        assert step is not None

        await there.run("promote", "cart", code=1)
        await there.run("promote", "cart", "--skip-analysis", "--full", code=2)
        said = await there.run("promote", "cart", "--skip-analysis")
        paused = await there.reaches("Paused")
        ended = await there.run("analysis", "get", step.name, "-w")
        tree = await there.run("get", "cart")

    assert "pass its analysis of step 2 without a verdict; it stops next at step 3 (pause until promoted)" in said.out
    assert "the controller has recorded the command" in said.out and "lost: what AnalysisRun" in said.out
    status = status_of(paused.rollout)
    (record,) = status.analyses
    assert (status.step_index, record.passed, record.phase.over) == (2, True, False)
    assert record.message.startswith("passed without a verdict (by ")
    assert "Run Terminated" in ended.out
    assert "passed without a verdict" in tree.out
