"""Promise: one more kind of metric server is one module and its fake in the tests; a package may bring the module, too."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from rollouts.core.analysis import recipe
from rollouts.core.analysis.recipes import GROUP, RECIPES

ROOT = Path(__file__).parents[2]
ROLLOUTS = ROOT / "rollouts"
SERVERS = Path(recipe.__file__).parent / "servers"
BUILT_IN = sorted({*RECIPES} - {"declared"})
PEERS = ROLLOUTS / "cli" / "migrate"
"""What Argo Rollouts and Flagger have of servers. A server that neither of them has does not stand there."""
PAGE = ROOT / "docs" / "analysis-vendors.md"
ONE_MORE = "tests.metrics.one_more"
HELD = (
    "tests/metrics/test_no_server_promotes_without_evidence.py",
    "tests/controller/analysis/test_servers_are_asked_over_http.py",
    "tests/controller/analysis/test_servers_set_the_pace.py",
    "tests/metrics/one_more/checks.py",
)


def test_a_server_of_one_module_is_held_to_all_that_the_others_are() -> None:
    """StatsBox has its module and its fake in `one_more`, and nothing else knows it: schema, checks, requests, evidence, pace."""
    done = held("-p", f"{ONE_MORE}.server_beside")

    assert done.returncode == 0, done.stdout + done.stderr
    assert int(re.findall(r"(\d+) passed", done.stdout)[0]) >= 12, done.stdout


def test_a_package_brings_a_server(tmp_path: Path) -> None:
    """The same module in a package of somebody else, whose entry point names it: for an image that has it besides."""
    install(tmp_path, "RECIPE")
    done = held(path=tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
    assert int(re.findall(r"(\d+) passed", done.stdout)[0]) >= 12, done.stdout


def test_an_entry_point_that_leads_elsewhere_is_named(tmp_path: Path) -> None:
    """Nobody has to search the packages for it."""
    install(tmp_path, "StatsBox")
    done = python("-c", "import rollouts.core.analysis.recipes", path=tmp_path)

    assert done.returncode == 1
    assert "entry point statsbox of rollouts.metrics must lead to a Recipe" in done.stderr
    assert "statsbox_of_acme:StatsBox" in done.stderr


def held(*options: str, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Runs what holds every kind of server, for StatsBox alone."""
    off = ("-p", "no:cacheprovider", "-p", "no:xdist")
    return python(
        "-m", "pytest", *options, "-p", f"{ONE_MORE}.fake_beside", *off, "-q", "-k", "statsbox", *HELD, path=path
    )


def python(*words: str, path: Path | None) -> subprocess.CompletedProcess[str]:
    """A process of its own, because the kinds of servers are found when they are imported."""
    environment = os.environ | ({} if path is None else {"PYTHONPATH": str(path)})
    return subprocess.run(
        [sys.executable, *words], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


def install(folder: Path, member: str) -> None:
    """Installs a package with the module of StatsBox, and an entry point that leads to a member of it."""
    wheel, about = folder / "statsbox_of_acme-1.0-py3-none-any.whl", "statsbox_of_acme-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(Path(__file__).parent / "one_more" / "server" / "statsbox.py", "statsbox_of_acme.py")
        archive.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: statsbox-of-acme\nVersion: 1.0\n")
        archive.writestr(
            f"{about}/WHEEL", "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{about}/entry_points.txt", f"[{GROUP}]\nstatsbox = statsbox_of_acme:{member}\n")
        archive.writestr(f"{about}/RECORD", "")
    options = ("--no-index", "--no-deps", "--no-compile", "--disable-pip-version-check", "--target", str(folder))
    done = python("-m", "pip", "install", *options, str(wheel), path=None)
    assert done.returncode == 0, done.stderr


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
