"""The shape of the code base: import contracts, sizes, names, and nothing that belongs to one machine."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rollouts.traffic.registry import registry
from tests.architecture.tracked import ROOT, tracked

MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 70
MAX_PROVIDER_LINES = 120
NO_NOUN = {"utils", "util", "helpers", "helper", "common", "misc", "base"}

# Package indexes and their mirrors, and absolute paths of a person's or a builder's machine. Images that users run may be named.
# Split, so that this file passes itself.
NOT_OURS = re.compile(
    r"\b(?:pypi\."
    r"org|files\.python"
    r"hosted|proxy\.golang\."
    r"org|npmjs\."
    r"(?:org|com)|(?:artifactory|nexus|devpi)\.[a-z]"
    r"[a-z.]*)\b|(?<![\w.$/-])/(?:work"
    r"|root"
    r"|home)/\w"
)


def _python_files() -> list[Path]:
    return [path for path in tracked() if path.suffix == ".py"]


def _functions(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, (node.end_lineno or node.lineno) - node.lineno + 1


def test_the_rooms_import_only_downwards() -> None:
    """The contracts of pyproject.toml: pure rooms stay pure, and each library stays in its room."""
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout


def test_no_file_is_longer_than_500_lines() -> None:
    """A file that does not fit into one reading holds two nouns."""
    lengths = {path.relative_to(ROOT).as_posix(): len(path.read_text().splitlines()) for path in _python_files()}

    assert len(lengths) > 50
    assert {name: lines for name, lines in lengths.items() if lines > MAX_FILE_LINES} == {}


def test_no_function_is_longer_than_70_lines() -> None:
    """The limit of TigerBeetle's style guide: a function that fits on a screen can be checked by eye."""
    too_long = [
        f"{path.relative_to(ROOT)}: {name} has {lines} lines"
        for path in _python_files()
        for name, lines in _functions(path)
        if lines > MAX_FUNCTION_LINES
    ]

    assert too_long == []


def _lines_of_code(path: Path) -> int:
    """Lines with code on them: no docstrings, no comments, no empty ones."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    every = [node for node in ast.walk(tree) if isinstance(node, ast.stmt | ast.expr)]
    compound = (ast.ClassDef, ast.FunctionDef, ast.If, ast.For, ast.While, ast.With, ast.Try)
    return len(
        {
            line
            for node in every
            for line in (
                (node.lineno,) if isinstance(node, compound) else range(node.lineno, (node.end_lineno or 0) + 1)
            )
        }
    )


def test_a_provider_is_120_lines_of_code_at_most() -> None:
    """What a router costs: its dialect, its settings and its status. What two share has a module of its own."""
    paths = {Path(sys.modules[type(each).__module__].__file__ or "") for each in registry().values()}
    sizes = {path.relative_to(ROOT).as_posix(): _lines_of_code(path) for path in paths}

    assert len(sizes) >= 9
    assert {name: lines for name, lines in sizes.items() if lines > MAX_PROVIDER_LINES} == {}


def test_no_module_is_named_after_nothing() -> None:
    """A function goes where its noun lives; a module of leftovers hides the missing noun."""
    named = {part for path in _python_files() for part in path.relative_to(ROOT).with_suffix("").parts}

    assert named & NO_NOUN == set()


def _public_types(path: Path) -> Iterator[str]:
    """Classes and aliases of types at the top of a module."""
    for node in ast.parse(path.read_text()).body:
        match node:
            case ast.ClassDef(name=name) | ast.AnnAssign(target=ast.Name(id=name), annotation=ast.Name(id="TypeAlias")):
                yield name
            case ast.Assign(targets=[ast.Name(id=name)]) if re.fullmatch(r"[A-Z]\w*[a-z]\w*", name):
                yield name


def test_no_two_public_types_have_one_name() -> None:
    """Who reads `Target` in a test or in a traceback must not ask which of four is meant."""
    places: dict[str, list[str]] = {}
    for path in _python_files():
        if path.is_relative_to(ROOT / "rollouts"):
            for name in _public_types(path):
                places.setdefault(name, []).append(path.relative_to(ROOT).as_posix())

    assert len(places) > 300
    assert {name: where for name, where in places.items() if len(where) > 1 and not name.startswith("_")} == {}


def test_no_file_names_a_package_index_or_a_path_of_one_machine() -> None:
    """A fresh clone elsewhere must behave the same; addresses of mirrors and home folders do not belong in it."""
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:120]}"
        for path in tracked()
        if path.suffix not in {".sum", ".mod", ".png"}
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if NOT_OURS.search(line)
    ]

    assert found == []


@pytest.mark.parametrize("text", ["see /work" + "/main", 'cd "/root' + '/x"', "index-url = pypi." + "org/simple"])
def test_the_search_for_foreign_names_finds_them(text: str) -> None:
    """A pattern that never matches would make the test above worthless."""
    assert NOT_OURS.search(text)
