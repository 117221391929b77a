"""Promise: what pages and examples show is taken and printed so: docs/config.md, docs/analysis-cluster.md, examples/analyses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from rollouts.api.spec.analysis.arguments import Updated
from rollouts.api.spec.analysis.in_rollouts import use_in
from rollouts.api.spec.analysis.run import parse_run, parse_template
from rollouts.api.spec.analysis.templates import TemplateName, run_of
from rollouts.api.spec.parse import parse_spec
from rollouts.cli.commands.lint_analysis import cluster_remarks, template_problems
from rollouts.cli.commands.templates import templates_in
from rollouts.cli.plan.draw import draw_impacts
from rollouts.cli.plan.impact import ConfigImpact
from rollouts.cli.terminal.config import RevisionConfig, draw_changes
from rollouts.cli.terminal.text import MARKS
from rollouts.cli.view.config import SourceChange, changed_sources, content_of, hash_of, key_changes, use_text
from rollouts.core.config.content import config_revision, copy_name
from rollouts.core.model.analysis import Analysis
from rollouts.core.model.config import ConfigKind, ConfigUse
from rollouts.core.model.frozen import replace
from rollouts.core.model.rollout import BlueGreen, Canary, RolloutSpec
from rollouts.core.model.steps import Analyze
from rollouts.metrics.figures import NAMES
from rollouts.objects import Manifest
from tests.cli.test_the_tree_shows_what_a_person_needs import drawn
from tests.metrics.evaluated import assert_can_be_evaluated
from tests.packaging.built_in_templates import TEMPLATES

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples" / "analyses").glob("*.yaml"))


def analyses(spec: RolloutSpec) -> list[Analysis]:
    """Every analysis of a Rollout."""
    match spec.strategy:
        case Canary() as canary:
            found = [canary.analysis, *(each.analysis for each in canary.steps if isinstance(each, Analyze))]
        case BlueGreen() as blue_green:
            found = [blue_green.pre_promotion, blue_green.post_promotion]
    return [each for each in found if each is not None]


def test_there_are_examples() -> None:
    """The tests of each below would pass on an empty folder."""
    assert {path.stem for path in EXAMPLES} == {"blue-green", "canary", "compare", "gateway"}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_a_run_can_be_made_of_each_analysis_of_an_example(path: Path) -> None:
    """Every template is in the file or in the chart, every argument has its value, and every condition can be evaluated."""
    documents: list[Manifest] = list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
    templates = templates_in([*documents, *TEMPLATES.values()])
    rollout = next(each for each in documents if each["kind"] == "Rollout")
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


METRICS_PAGE = (ROOT / "docs" / "analysis-cluster.md").read_text(encoding="utf-8")
SECTIONS = {part.partition("\n")[0]: part for part in METRICS_PAGE.split("\n## ")}
SNIPPETS = [yaml.safe_load(each) for each in re.findall(r"```yaml\n(.*?)```", METRICS_PAGE, re.DOTALL)]


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
    rows = re.findall(r"^\| .*? \| `(\w+)`.*? \| `(result\.[^`]*)` \|", METRICS_PAGE, re.MULTILINE)

    assert len(rows) >= 6
    for provider, condition in rows:
        spec = {"metrics": [{"name": "m", "successCondition": condition, "provider": {provider: {}}}]}
        assert list(cluster_remarks(spec)) == []


CONFIG_PAGE = (ROOT / "docs" / "config.md").read_text(encoding="utf-8")
SOURCE, ROLLOUT, _ = yaml.safe_load_all((ROOT / "examples" / "config.yaml").read_text(encoding="utf-8"))
EDITED = {**SOURCE, "data": {**SOURCE["data"], "PODINFO_UI_MESSAGE": "Good evening"}}
MAP = ConfigKind.CONFIG_MAP


def revision(manifest: Manifest, number: int, role: str) -> RevisionConfig:
    """The revision of the example with this ConfigMap."""
    source, content = manifest["metadata"]["name"], hash_of(MAP, manifest)
    copy = copy_name(MAP, rollout=ROLLOUT["metadata"]["name"], source=source, content=content)
    uses = (ConfigUse(kind=MAP, source=source, content=content, copy=copy),)
    name = config_revision(parse_spec(ROLLOUT["spec"]).template_hash, uses)
    return RevisionConfig(revision=name, number=number, roles=(role,), uses=uses)


STABLE, CANARY = revision(SOURCE, 1, "stable"), revision(EDITED, 2, "canary")


def test_the_difference_is_the_one_that_is_printed() -> None:
    """Hashes too: they are frozen, so anybody who tries the example gets these."""
    ((before, after),) = changed_sources(STABLE.uses, CANARY.uses)
    keys = key_changes(MAP, content_of(MAP, SOURCE), content_of(MAP, EDITED))
    change = SourceChange(kind=MAP, source=SOURCE["metadata"]["name"], before=before, after=after, keys=keys)

    assert drawn(draw_changes([change], STABLE, CANARY, marks=MARKS, full=False), width=200) in CONFIG_PAGE


def test_the_tree_has_the_revisions_and_copies_of_the_example() -> None:
    """The names of the copies follow from contents, so the page is wrong when they are."""
    for each, number in ((STABLE, 1), (CANARY, 2)):
        assert f"#{number} {each.revision}  {each.roles[0]}" in CONFIG_PAGE
        assert use_text(each.uses[0], arrow=MARKS.arrow) in CONFIG_PAGE


def test_the_plans_are_those_that_are_printed() -> None:
    """Of one ConfigMap, and of one that several Rollouts share."""
    one = ConfigImpact(namespace="default", name="podinfo-config", exists=True, keys=("PODINFO_UI_MESSAGE",))
    shared = ConfigImpact(namespace="shop", name="shared", exists=True, keys=("LEVEL", "SAMPLING"))

    assert drawn(draw_impacts([replace(one, starts=("podinfo-config",))]), width=200) in CONFIG_PAGE
    assert drawn(draw_impacts([replace(shared, starts=("cart", "checkout", "search"))]), width=200) in CONFIG_PAGE
