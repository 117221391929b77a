"""Promise: `promote --skip-analysis` says beforehand what it does, does only that, and everybody can see that it was done."""

from __future__ import annotations

from pathlib import Path

import pytest

from rollouts.cli.demo.manifests import SECOND, with_image
from rollouts.cli.view.objects import RolloutObjects, status_of
from rollouts.core.model.analysis import AnalysisKind, AnalysisPhase
from rollouts.objects import Manifest
from tests.cli.test_an_analysed_update_goes_on_by_commands import Terminal, run_at, template
from tests.cli.test_commands_on_a_cluster import PATIENCE_S, shop

STRATEGY: Manifest = {
    "canary": {
        "maxSurge": 1,
        "maxUnavailable": 0,
        "steps": [{"setWeight": 50}, {"analysis": {"templates": [{"templateName": "pods"}]}}, {"pause": {}}],
    }
}


def _measures(seen: RolloutObjects) -> bool:
    step = run_at(seen, AnalysisKind.STEP)
    return step is not None and step.phase is AnalysisPhase.RUNNING and bool(step.metrics[0].measurements)


async def test_a_person_goes_on_without_the_verdict_of_a_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The analysis takes a quarter of an hour, and the person has seen enough after a minute."""
    monkeypatch.setenv("COLUMNS", "200")
    pods = template("pods", count=1000, provider={"kubernetes": {}})
    async with shop(tmp_path, strategy=STRATEGY, templates=(pods,)) as there:
        await there.stage.change("cart", with_image(SECOND))
        seen = await there.stage.until("cart", _measures, deadline_s=PATIENCE_S, what="the step is measured")
        step = run_at(seen, AnalysisKind.STEP)
        assert step is not None
        terminal = Terminal(there, capsys)

        await terminal.run("promote", "cart", code=1)
        await terminal.run("promote", "cart", "--skip-analysis", code=2)  # nobody is there to be asked
        await terminal.run("promote", "cart", "--skip-analysis", "--full", code=2)
        said = await terminal.run("promote", "cart", "--skip-analysis", "--yes")
        paused = await there.reaches("Paused")
        ended = await terminal.run("analysis", "get", step.name, "-w")
        tree = await terminal.run("get", "cart")

    assert "pass its analysis of step 1 without a verdict; it stops next at step 2 (pause until promoted)" in said
    assert "the controller has recorded the command" in said
    status = status_of(paused.rollout)
    (record,) = status.analyses
    assert (status.step_index, record.passed, record.phase.over) == (2, True, False)
    assert record.message.startswith("passed without a verdict (by ")
    assert "Run Terminated" in ended
    assert "passed without a verdict" in tree
