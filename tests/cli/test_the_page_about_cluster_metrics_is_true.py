"""Promise: docs/analysis-cluster.md can be followed: what it shows is taken, and it names all that conditions can read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from rollouts.api.spec.analysis.run import parse_template
from rollouts.cli.commands.lint_analysis import cluster_remarks, template_problems
from rollouts.metrics.cluster_figures import NAMES

PAGE = (Path(__file__).parents[2] / "docs" / "analysis-cluster.md").read_text()
SECTIONS = {part.partition("\n")[0]: part for part in PAGE.split("\n## ")}
SNIPPETS = [yaml.safe_load(each) for each in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)]


def _metrics(snippet: Any) -> list[dict[str, Any]]:
    """The metrics that a snippet shows, whole."""
    match snippet:
        case {"metrics": list(metrics)}:
            return metrics
        case list(metrics):
            return metrics
        case {"provider": dict()}:
            return [{"name": "m", "successCondition": "result.value < 1", **snippet}]
        case _:
            return []


def test_every_snippet_is_taken() -> None:
    """And the linter has nothing to say about it."""
    metrics = [metric for each in SNIPPETS for metric in _metrics(each)]

    assert len(metrics) == 5
    for metric in metrics:
        spec = {"metrics": [metric]}
        parse_template(spec)
        assert [*template_problems(spec), *cluster_remarks(spec)] == []


@pytest.mark.parametrize("provider", NAMES)
def test_every_name_is_told(provider: str) -> None:
    """In the table of its source."""
    (section,) = (text for title, text in SECTIONS.items() if f"`{provider}`" in title)
    told = {name for row in re.findall(r"^\| (`.*?) \|", section, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)}

    assert told == NAMES[provider]


def test_every_condition_in_the_table_of_faults_can_be_read() -> None:
    """People copy them first."""
    rows = re.findall(r"^\| .*? \| `(\w+)`.*? \| `(result\.[^`]*)` \|", PAGE, re.MULTILINE)

    assert len(rows) >= 6
    for provider, condition in rows:
        spec = {"metrics": [{"name": "m", "successCondition": condition, "provider": {provider: {}}}]}
        assert list(cluster_remarks(spec)) == []
