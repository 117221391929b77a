"""Promise: what a page shows as YAML can be applied: whole objects are without a problem, and parts are where they belong."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from rollouts.cli.commands.lint import known_in, lint
from rollouts.cli.kubernetes.yaml_text import read_text
from rollouts.objects import Manifest
from tests import build
from tests.architecture.tracked import ROOT
from tests.linted import lint_text
from tests.pages.blocks import Block, all_blocks

BLOCKS = [each for each in all_blocks() if each.language == "yaml" and not each.why_not and not each.run_by]
PODS = build.pod_template("cart", image="cart:1.4")
ROUTED: Manifest = {
    "stableService": "cart",
    "canaryService": "cart-canary",
    "trafficRouting": {"gatewayAPI": {"httpRoutes": [{"name": "cart"}]}, "managedRoutes": [{"name": "testers"}]},
}
METRIC: Manifest = {"name": "m", "successCondition": "result.value < 1"}


def rollout(**spec: Any) -> Manifest:
    """A Rollout with these fields of a page in its spec."""
    return build.rollout(spec.pop("strategy", {"canary": {}}), "cart", **spec)


def canary(**fields: Any) -> Manifest:
    """A canary by weights, with these fields of a page in its strategy."""
    return rollout(strategy={"canary": {**ROUTED, **fields}})


def template(metrics: list[Manifest], **spec: Any) -> Manifest:
    """An AnalysisTemplate with these metrics of a page."""
    return build.analysis_template(*metrics, **spec)


def whole(part: Any) -> Manifest | None:
    """The object in which a part of a page stands; None for a part that belongs nowhere here."""
    match part:
        case {"apiVersion": str()}:
            return dict(part)
        case {"spec": {"strategy": _} | {"autoscaling": _} | {"drain": _}}:
            return rollout(**part["spec"])
        case {"strategy": {"canary": {"analysis": _} as given}} if "steps" not in given:  # the page leaves them out
            steps = [{"setWeight": 5}, {"pause": {}}]
            return rollout(strategy={"canary": {**given, "steps": steps}})
        case {"strategy": _} | {"selector": _, "template": _}:
            return rollout(**_with_pods(part))
        case {"trafficRouting": _}:
            return canary(**part)
        case [({"setHeaderRoute": _} | {"analysis": _}), *_]:
            return canary(steps=part)
        case {"metrics": list(metrics)}:
            return template(metrics)
        case {"args": list(arguments)}:
            return template([{**METRIC, "provider": {"prometheus": {"query": "up"}}}], args=arguments)
        case [{"provider": _}, *_]:
            return template(part)
        case {"provider": {"job": _}}:
            return template([{"name": "m", **part}])
        case {"provider": _}:
            return template([{**METRIC, **part}])
        case _:
            return None


def _with_pods(part: Manifest) -> Manifest:
    if "template" not in part:
        return part
    return {**part, "template": {**PODS, **part["template"], "spec": PODS["spec"]}}


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_yaml_is_taken_where_it_stands(block: Block) -> None:
    """A part that fits nowhere here says in the page why no test reads it (`<!-- not run: … -->`)."""
    manifests = [whole(part) for part in yaml.safe_load_all(block.text)]
    page = [each for each in all_blocks() if each.page == block.page and each.text.startswith("apiVersion: ")]
    beside = "---\n".join(each.text for each in page)

    assert manifests and None not in manifests
    report = lint(read_text(yaml.safe_dump_all(manifests)), known_in(read_text(beside)))
    assert [remark.message for remark in report.problems] == []


def test_parts_of_values_are_values_of_the_chart() -> None:
    """`analysis.customMetrics` in a page is what the chart's schema has."""
    schema = yaml.safe_load((ROOT / "helm" / "rollouts" / "values.schema.json").read_text())
    (block,) = (each for each in all_blocks() if each.text.startswith("analysis:\n") and each.language == "yaml")
    assert block.run_by == "tests/pages/test_manifests_of_pages_are_taken.py"

    assert set(yaml.safe_load(block.text)["analysis"]) <= set(schema["properties"]["analysis"]["properties"])


def test_a_part_with_a_wrong_field_is_found() -> None:
    """Otherwise the tests above would pass whatever a page says."""
    wrong = whole({"trafficRouting": {"gatewayAPI": {"httpRoute": [{"name": "cart"}]}}})

    assert lint_text(yaml.safe_dump(wrong)).problems
