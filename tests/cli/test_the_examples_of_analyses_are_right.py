"""Promise: the examples of analyses are specs without a problem, and a run can be made of each analysis in them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from rollouts.api.spec.analysis.arguments import Updated
from rollouts.api.spec.analysis.in_rollouts import use_in
from rollouts.api.spec.analysis.run import parse_run
from rollouts.api.spec.analysis.templates import TemplateName, run_of
from rollouts.api.spec.parse import parse_spec
from rollouts.cli.commands.templates import templates_in
from rollouts.core.model.analysis import Analysis
from rollouts.core.model.rollout import BlueGreen, Canary, RolloutSpec
from rollouts.core.model.steps import Analyze
from rollouts.objects import Manifest
from tests.metrics.evaluated import assert_can_be_evaluated
from tests.packaging.built_in_templates import TEMPLATES

EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "analyses").glob("*.yaml"))


def analyses(spec: RolloutSpec) -> list[Analysis]:
    """Every analysis of a Rollout."""
    match spec.strategy:
        case Canary() as canary:
            found = [canary.analysis, *(each.analysis for each in canary.steps if isinstance(each, Analyze))]
        case BlueGreen() as blue_green:
            found = [blue_green.pre_promotion, blue_green.post_promotion]
    return [each for each in found if each is not None]


def documents(path: Path) -> list[Manifest]:
    """The objects of a file."""
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


def test_there_are_examples() -> None:
    """The tests of each below would pass on an empty folder."""
    assert {path.stem for path in EXAMPLES} == {"blue-green", "canary", "compare", "gateway"}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_a_run_can_be_made_of_each_analysis_of_an_example(path: Path) -> None:
    """Every template is in the file or in the chart, every argument has its value, and every condition can be evaluated."""
    templates = templates_in([*documents(path), *TEMPLATES.values()])
    rollout = next(each for each in documents(path) if each["kind"] == "Rollout")
    rollout["metadata"]["namespace"] = "shop"
    found = analyses(parse_spec(rollout["spec"]))

    def find(name: TemplateName) -> Mapping[str, Any] | None:
        return templates[name]["spec"] if name in templates else None

    assert len(found) == (1 if path.stem == "compare" else 2)
    for each in found:
        run = parse_run(run_of(use_in(each), find, Updated(manifest=rollout, stable="a1", latest="b2")))
        for metric in run.metrics:
            for condition in filter(None, (metric.condition.success, metric.condition.failure)):
                assert_can_be_evaluated(condition)
