"""Promise: one more kind of metric server is one module, `rollouts/core/analysis/servers/NAME.py`, and its fake in the tests."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rollouts.core.analysis import recipe
from rollouts.core.analysis.recipes import RECIPES

ROOT = Path(__file__).parents[2]
ROLLOUTS = ROOT / "rollouts"
SERVERS = Path(recipe.__file__).parent / "servers"
BUILT_IN = sorted({*RECIPES} - {"declared"})
PEERS = ROLLOUTS / "cli" / "migrate"
"""What Argo Rollouts and Flagger have of servers. A server that neither of them has does not stand there."""
PAGE = ROOT / "docs" / "analysis-vendors.md"
HELD = (
    "tests/metrics/test_no_server_promotes_without_evidence.py",
    "tests/controller/analysis/test_servers_are_asked_over_http.py",
    "tests/controller/analysis/test_servers_set_the_pace.py",
    "tests/metrics/one_more/checks.py",
)


def test_a_server_of_one_module_is_held_to_all_that_the_others_are() -> None:
    """StatsBox has its module and its fake in `one_more`, and nothing else knows it: schema, checks, requests, evidence, pace."""
    options = (
        "-p",
        "tests.metrics.one_more.beside",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "-q",
        "-k",
        "statsbox",
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *HELD], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) >= 12, done.stdout


def test_one_module_names_a_kind_of_server() -> None:
    """A second place would have to be found by whoever adds one; comments may tell where a rule comes from."""
    titles = {title: name for name in BUILT_IN for title in (name, RECIPES[name].title)}
    places: dict[str, set[str]] = {name: set() for name in BUILT_IN}
    for path in (each for each in ROLLOUTS.rglob("*.py") if PEERS not in each.parents):
        for text in _texts(path):
            for title in titles.keys() & {*re.findall(r"[\w. ]+", text), *re.findall(r"\w+", text)}:
                places[titles[title]].add(path.relative_to(ROLLOUTS).as_posix())

    assert {name: len(found) for name, found in places.items()} == dict.fromkeys(BUILT_IN, 1), places
    assert all((ROLLOUTS / place).parent == SERVERS for found in places.values() for place in found)


@pytest.mark.parametrize("name", BUILT_IN)
def test_the_page_says_how_it_is_declared_and_what_a_number_is(name: str) -> None:
    """One row in each of its tables."""
    rows = re.findall(rf"^\| `{name}` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)

    assert len(rows) == 2


def _texts(path: Path) -> Iterator[str]:
    """The texts of a module, without docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    said = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in said:
            yield node.value
