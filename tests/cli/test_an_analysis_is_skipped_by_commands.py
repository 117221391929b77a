"""Promise: `promote --skip-analysis` says beforehand what it does, does only that, and everybody can see that it was done."""

from __future__ import annotations

from pathlib import Path

import pytest

from rollouts.cli.demo.manifests import SECOND, with_image
from rollouts.cli.view.objects import RolloutObjects, status_of
from rollouts.core.model.analysis import AnalysisKind, AnalysisPhase
from tests.build import canary
from tests.cli.shop import PATIENCE_S, shop
from tests.cli.test_an_analysed_update_goes_on_by_commands import run_at, template

STRATEGY = canary({"setWeight": 50}, {"analysis": {"templates": [{"templateName": "pods"}]}}, {"pause": {}})


def _measures(seen: RolloutObjects) -> bool:
    step = run_at(seen, AnalysisKind.STEP)
    return step is not None and step.phase is AnalysisPhase.RUNNING and bool(step.metrics[0].measurements)


async def test_a_person_goes_on_without_the_verdict_of_a_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The analysis takes a quarter of an hour, and the person has seen enough after a minute."""
    monkeypatch.setenv("COLUMNS", "200")
    pods = template("pods", count=1000, provider={"kubernetes": {}})
    async with shop(tmp_path, capsys, pods, strategy=STRATEGY) as there:
        await there.stage.change("cart", with_image(SECOND))
        seen = await there.stage.until("cart", _measures, deadline_s=PATIENCE_S, what="the step is measured")
        step = run_at(seen, AnalysisKind.STEP)
        assert step is not None

        await there.run("promote", "cart", code=1)
        await there.run("promote", "cart", "--skip-analysis", code=2)  # nobody is there to be asked
        await there.run("promote", "cart", "--skip-analysis", "--full", code=2)
        said = await there.run("promote", "cart", "--skip-analysis", "--yes")
        paused = await there.reaches("Paused")
        ended = await there.run("analysis", "get", step.name, "-w")
        tree = await there.run("get", "cart")

    assert "pass its analysis of step 1 without a verdict; it stops next at step 2 (pause until promoted)" in said.out
    assert "the controller has recorded the command" in said.out
    status = status_of(paused.rollout)
    (record,) = status.analyses
    assert (status.step_index, record.passed, record.phase.over) == (2, True, False)
    assert record.message.startswith("passed without a verdict (by ")
    assert "Run Terminated" in ended.out
    assert "passed without a verdict" in tree.out
