"""Promise: `rollouts lint` names what is wrong in an analysis template, with its line, before anybody relies on its verdict."""

from __future__ import annotations

import pytest

from rollouts.cli.commands.lint import lint_text, summary

TEMPLATE = """\
apiVersion: rollouts.dev/v1alpha1
kind: {kind}
metadata: {{name: rate}}
spec:
  args:
  - name: limit
  metrics:
  - name: rate
    interval: 1m
    {condition}
    provider:
      prometheus: {{query: up}}
"""


@pytest.mark.parametrize("kind", ["AnalysisTemplate", "ClusterAnalysisTemplate"])
@pytest.mark.parametrize(
    "condition", ['successCondition: "result[0] < 0.95"', 'successCondition: "result[0] < {{args.limit}}"']
)
def test_a_good_template_passes(kind: str, condition: str) -> None:
    """A condition with an argument in it is known when the argument is, and no sooner."""
    report = lint_text(TEMPLATE.format(kind=kind, condition=condition))

    assert (report.problems, report.templates) == ([], 1)
    assert summary([report]) == "0 Rollouts and 1 analysis template checked, no problems"


@pytest.mark.parametrize(
    ("condition", "line", "words"),
    [
        ('successCondition: "result[0] <"', 10, "spec.metrics[0].successCondition"),
        ('successCondition: "true"', 10, "does not look at what was measured"),
        ('failureCondition: "sum(result) > 1"', 10, "spec.metrics[0].failureCondition"),
        ("count: many", 10, "spec.metrics[0].count"),
        ("interval: 0s\n    failureLimit: x", 11, "spec.metrics[0].failureLimit"),
    ],
)
def test_a_bad_one_is_told_with_its_line(condition: str, line: int, words: str) -> None:
    """A condition that nobody can evaluate would make every measurement an Error, hours later."""
    text = TEMPLATE.format(kind="AnalysisTemplate", condition=condition)
    if "interval: 0s" in condition:
        text = text.replace("    interval: 1m\n", "", 1)
        line -= 1

    report = lint_text(text)

    told = [each for each in report.problems if words in each.message]
    assert [each.line for each in told] == [line], report.problems
    assert told[0].subject == "AnalysisTemplate rate"
