"""Promise: each manifest that Argo Rollouts brings is taken after changing `apiVersion`, or a row of the page says why not.

Which of them there are, by their fields, is in tests/api/argo_manifests.txt.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.api.argo_manifests import ARGO_MANIFESTS, ArgoManifests
from tests.architecture.test_differences_from_argo_are_held import ROWS
from tests.linted import lint_text

_PAGE = (Path(__file__).parents[2] / "docs" / "argo-compatibility.md").read_text(encoding="utf-8")

PATHS = {
    "`pingPong` and routers": r"canary\.pingPong",
    "`pingPong` beside them": r"canary\.(stable|canary)Service",
    "`plugin` steps": r"steps\[\d\]\.plugin",
    "`setHeaderRoute` with ALB": r"steps\[\d\]\.setHeaderRoute",
    "`weight` of a template of an `experiment` step": r"steps\[\d\]\.experiment(\.templates\[\d\]\.weight)?",
    "`startingStep` beyond the last step": r"analysis\.startingStep",
    'a condition that does not read `result`, such as `"true"`': r"metrics\[0\]\.successCondition",
    "a step with two kinds": r"steps\[\d\]",
    "ambassador, appMesh, smi": r"trafficRouting\.(ambassador|appMesh|smi)",
    "metric servers whose account is a Secret": r"secretRef\.namespaced",
    "other metric providers": r"provider\.kayenta",
}
"""Where what a row is about is refused."""


def refused_at(each: ArgoManifests) -> list[str]:
    return [problem.path for problem in lint_text(json.dumps(each.manifest)).problems]


@pytest.mark.parametrize("each", ARGO_MANIFESTS, ids=lambda each: f"{each.kind} {' '.join(each.fields)}")
def test_it_is_taken_or_refused_at_the_field_of_its_row(each: ArgoManifests) -> None:
    """Whoever comes from Argo Rollouts learns the same from `lint` and from the page."""
    paths = refused_at(each)

    assert bool(paths) is bool(each.row)
    assert all(re.search(PATHS[each.row] + "$", path) for path in paths)


def test_what_is_refused_has_a_row() -> None:
    """The page says why, and what to write instead."""
    assert {each.row for each in ARGO_MANIFESTS if each.row} == set(PATHS) <= {row[0] for row in ROWS}


def test_the_page_counts_them() -> None:
    """Whoever considers to come wants to know how much of what works there works here."""
    taken = sum(each.number for each in ARGO_MANIFESTS if not each.row)
    total = sum(each.number for each in ARGO_MANIFESTS)

    assert f"{taken} of the {total} whole manifests" in _PAGE
