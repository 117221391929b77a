"""Promise: `get`, `promote`, `plan`, `lint` and `explain` know a canary step that is an Experiment, as they know an analysis."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from rollouts.cli.demo.manifests import SECOND, with_image
from rollouts.cli.view.objects import RolloutObjects, view_of
from rollouts.cli.view.runs import RunLine
from rollouts.core.model.analysis import AnalysisKind, AnalysisPhase
from rollouts.objects import Manifest
from tests import build
from tests.api.comparison_specs import against_baseline
from tests.behaviour.analysis.experiment_steps import both
from tests.cli.command_line import CommandLine
from tests.cli.shop import Shop, shop
from tests.cli.test_the_plan_tells_what_will_happen import cart
from tests.controller.experiments.stage import uses
from tests.patience import PATIENCE_S

ERRORS = build.analysis_template({"name": "errors", "provider": {"prometheus": {"query": "errors"}}}, name="errors")
TRIED: Manifest = {"experiment": {"duration": "1h", "templates": both()}}


def tried(seen: RolloutObjects) -> RunLine | None:
    """The Experiment of the step, once its pods run."""
    runs = (run for revision in view_of(seen).revisions for run in revision.runs)
    experiments = (run for run in runs if run.gate is not None and run.gate.kind is AnalysisKind.EXPERIMENT)
    return next((run for run in experiments if run.phase is AnalysisPhase.RUNNING), None)


async def until_it_runs(there: Shop) -> RunLine:
    """Begins an update, and waits for the pods of its first step."""
    await there.stage.change("cart", with_image(SECOND))
    seen = await there.stage.until("cart", lambda seen: tried(seen) is not None, deadline_s=PATIENCE_S, what="it runs")
    found = tried(seen)
    assert found is not None
    return found


async def test_it_is_seen_and_passed_without_its_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person has seen enough before the hour is over; the Experiment is ended by that."""
    monkeypatch.setenv("COLUMNS", "200")
    async with shop(tmp_path, capsys, strategy=build.canary(TRIED, {"pause": {}})) as there:
        running = await until_it_runs(there)

        tree = (await there.run("get", "cart")).out
        refused = await there.run("promote", "cart", code=1)
        said = await there.run("promote", "cart", "--skip-analysis")
        ended = await there.run("experiment", "get", running.name, "-w", code=None)
        await there.reaches("Paused")
        after = (await there.run("get", "cart")).out

    assert f"▶ experiment of step 1  Running  for 0s  {running.name}" in re.sub(r"for \d+s", "for 0s", tree)
    assert f"waiting for Experiment {running.name}" in " ".join(tree.split())
    assert "step 1 has an experiment" in refused.err and "--skip-analysis" in refused.err
    assert "pass its experiment of step 1 without a verdict; it stops next at step 2 (pause until promoted)" in said.out
    assert f"lost: what Experiment {running.name} has measured" in said.out
    assert " is over; " in ended.out or "Successful" in ended.out
    assert "experiment of step 1" in after and "passed without a verdict" in after and "never began" not in after


async def test_it_is_ended_by_hand_and_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As at the end of its duration: its pods were available, so the update goes on."""
    monkeypatch.setenv("COLUMNS", "200")
    async with shop(tmp_path, capsys, strategy=build.canary(TRIED, {"pause": {}})) as there:
        running = await until_it_runs(there)
        await there.run("experiment", "terminate", running.name)
        await there.reaches("Paused")
        tree = (await there.run("get", "cart")).out

    assert "✔ experiment of step 1  Successful  took 0s" in re.sub(r"took \d+s", "took 0s", tree)


async def test_the_plan_shows_where_it_begins(empty: Shop) -> None:
    """With what follows from it; how it ends nobody knows beforehand. What keeps it from being made is found."""
    judged = {"experiment": {"templates": both(), "analyses": [uses("errors")], "onFailure": "hold"}}
    rollout = cart(strategy={"canary": {"steps": [TRIED, {"setWeight": 25}, judged, {"setWeight": 50}]}})
    plan = await empty.planned(rollout, ERRORS)
    missing = await empty.planned(rollout)

    waits = [wait["why"] for step in plan["steps"] for wait in step["waits"] if wait["reason"] == "AnalysisRunning"]
    assert waits[0].startswith("experiment without analyses: a failure aborts the update here")
    assert waits[1].startswith("experiment by errors: a failure holds the update here")
    assert found(plan) == []
    assert [(each["severity"], each["path"]) for each in found(missing)] == [
        ("unsafe", "spec.strategy.canary.steps[2].experiment.analyses[0].templateName")
    ]


def found(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """Of the plan's findings those about analyses."""
    return [each for each in plan["findings"] if each["rule"] == "AnalysisInvalid"]


def test_lint_names_what_is_wrong_with_it(typed: CommandLine) -> None:
    """By itself, with the templates of the files, and with the router, without which a weight can do nothing."""

    def linted(*more: Manifest, code: int, **experiment: Any) -> str:
        step = {"experiment": {"templates": both(), "duration": "5m", **experiment}}
        rollout = build.rollout(build.canary(step, {"setWeight": 50}))
        said = typed("lint", "-f", typed.file(rollout, *more), code=code)
        return said.out + said.err

    endless = build.analysis_template(
        {"name": "up", "interval": "1m", "provider": {"prometheus": {"query": "up"}}}, name="up"
    )
    at = "spec.strategy.canary.steps[0].experiment"
    assert "no problems" in linted(ERRORS, analyses=[uses("errors")], code=0)
    assert f"{at}.templates[0].weight: needs a router in trafficRouting" in linted(templates=both(weight=10), code=1)
    assert f"{at}.templates[1].name: 'a' is the name" in linted(
        templates=[{"name": "a", "specRef": "stable"}, {"name": "a", "specRef": "canary"}], code=1
    )
    assert f"{at}.analyses[0]" in linted(endless, analyses=[uses("up")], duration=None, code=1)


def test_lint_takes_a_secret_in_a_header_alone(typed: CommandLine) -> None:
    """What an analysis of the step is given from a Secret stays a reference, as in the kind."""
    key = {"name": "key", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "token"}}}

    def linted(provider: Manifest, code: int) -> str:
        asked = {"name": "up", "successCondition": "result[0] > 0", "provider": provider}
        step = {"experiment": {"templates": both(), "analyses": [uses("asks", args=[key])]}}
        asks = build.analysis_template(asked, name="asks", args=[{"name": "key"}])
        said = typed("lint", "-f", typed.file(build.rollout(build.canary(step)), asks), code=code)
        return said.out + said.err

    header = {"headers": [{"key": "X", "value": "{{args.key}}"}]}
    assert "no problems" in linted({"prometheus": {"query": "up", **header}}, code=0)
    assert "which is a secret" in linted({"prometheus": {"query": 'up{key="{{args.key}}"}'}}, code=1)


def test_lint_knows_where_a_comparison_has_a_baseline(typed: CommandLine) -> None:
    """In an experiment with a template of each revision, of as many pods with as many requests; nowhere else."""
    fresh = build.analysis_template(*against_baseline()["metrics"], name="fresh")

    services = {"stableService": "web", "canaryService": "web-canary"}
    route = {"trafficRouting": {"gatewayAPI": {"httpRoutes": [{"name": "web"}]}}}

    def linted(step: Manifest, code: int) -> str:
        said = typed("lint", "-f", typed.file(build.rollout(build.canary(step, **services, **route)), fresh), code=code)
        return said.out + said.err

    def tried(baseline: str, canary: str, **more: Any) -> Manifest:
        of = [{"name": "baseline", "specRef": baseline, **more}, {"name": "canary", "specRef": canary}]
        return {"experiment": {"templates": of, "analyses": [uses("fresh")]}}

    at = "spec.strategy.canary.steps[0]"
    assert "no problems" in linted(tried("stable", "canary"), code=0)
    swapped = linted(tried("canary", "stable"), code=1)
    assert f"{at}.experiment.templates[1].specRef: must be canary and not stable: AnalysisTemplate/fresh" in swapped
    assert f"{at}.experiment.templates[0].replicas: is 2 and must be 1, as of canary" in linted(
        tried("stable", "canary", replicas=2), code=1
    )
    assert f"{at}.experiment.templates[0].weight: is 5 and must be 0, as of canary" in linted(
        tried("stable", "canary", weight=5), code=1
    )
    elsewhere = linted({"analysis": {"templates": [{"templateName": "fresh"}]}}, code=1)
    assert f"{at}.analysis.metrics[0].provider.compare.baseline: compares the pods of an Experiment's" in elsewhere


@pytest.mark.parametrize("reason", ["AnalysisRunning", "AnalysisInconclusive"])
def test_explain_names_experiments(typed: CommandLine, reason: str) -> None:
    """A wait for one has the reason of a wait for a run."""
    assert "Experiment" in typed("explain", reason, code=0).out
