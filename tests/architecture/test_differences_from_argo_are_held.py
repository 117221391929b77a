"""Promise: each deliberate difference from Argo Rollouts that the docs tell of is held by a test, and says why."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.api.analysis_specs import BAD as ANALYSIS_BAD
from tests.api.argo_differences import HELD_BY
from tests.api.autoscaling_specs import AUTOSCALING_BAD
from tests.api.config_specs import CONFIG_BAD
from tests.api.drain_specs import DRAIN_BAD
from tests.api.routing_specs import ROUTING_BAD
from tests.api.specs import BAD

ROOT = Path(__file__).parents[2]
_PAGE = (ROOT / "docs" / "argo-compatibility.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in _PAGE.splitlines()
    if line.startswith("| ") and not line.startswith("| subject ")
]
REFUSED = {bad.name for bad in (*BAD, *ANALYSIS_BAD, *AUTOSCALING_BAD, *CONFIG_BAD, *DRAIN_BAD, *ROUTING_BAD)}


TESTS = {
    name
    for path in (ROOT / "tests").rglob("test_*.py")
    for name in re.findall(r"^(?:async )?def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_row_says_why_and_a_test_holds_it(row: list[str]) -> None:
    """A difference that no test holds is one until somebody changes a line."""
    subject, _, _, why = row
    held_by = HELD_BY[subject]

    refused = held_by.removeprefix("refused: ")
    assert refused in REFUSED if refused != held_by else held_by in TESTS
    assert why not in ("", "–")


def test_a_subject_has_one_row() -> None:
    """Two rows would come to say two things; a subject without a row is told to nobody."""
    subjects = [row[0] for row in ROWS]

    assert len(subjects) >= 60
    assert sorted(subjects) == sorted(HELD_BY)
