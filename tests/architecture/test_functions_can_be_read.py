"""Promise: a function can be read from top to bottom: neither a knot of conditions, nor a chain of functions of five lines."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import complexipy

from tests.architecture.tracked import ROOT, tracked

COMPLEXITY_MAX = 15
"""Cognitive complexity, which counts nested conditions more than cases beside each other. Source: SonarSource's paper of 2017."""
STILL_ABOVE = {
    "api": 10, "bounded": 1, "cli": 22, "cluster": 4, "core": 2, "metrics": 5, "probes": 6, "sim": 14, "traffic": 3,
}  # fmt: skip
"""Functions above it, by room. No room gets more of them."""
USED_ONCE_MAX = 11.2
"""Private functions of modules that are used once, in 1,000 lines of code. It only goes down: a name is for what needs one."""


def _modules() -> list[Path]:
    return [path for path in tracked() if path.suffix == ".py" and path.is_relative_to(ROOT / "rollouts")]


def test_no_room_gets_more_functions_that_are_hard_to_read() -> None:
    """A rule that needs more conditions than a reader can hold is two rules."""
    above = [
        (path.relative_to(ROOT / "rollouts").parts[0], function.name, function.complexity)
        for path in _modules()
        for function in complexipy.file_complexity(str(path)).functions
        if function.complexity > COMPLEXITY_MAX
    ]

    rooms = Counter(room for room, *_ in above)
    assert {room: count for room, count in rooms.items() if count > STILL_ABOVE.get(room, 0)} == {}, sorted(above)


def test_functions_are_no_splinters() -> None:
    """Who follows `a` to `_b` to `_c` to `_d` reads four names and one thought; ten plain lines in a row are better."""
    used_once = lines = 0
    for path in _modules():
        text = path.read_text()
        tree = ast.parse(text)
        uses = Counter(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
        functions = (each for each in tree.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))
        used_once += sum(each.name.startswith("_") and uses[each.name] <= 1 for each in functions)
        lines += len(text.splitlines()) - _words(tree, text)

    assert used_once * 1_000 / lines <= USED_ONCE_MAX


def _words(tree: ast.Module, text: str) -> int:
    """Lines without code: docstrings, comments and empty ones."""
    quoted = {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    return sum(
        number in quoted or not line.strip() or line.lstrip().startswith("#")
        for number, line in enumerate(text.splitlines(), 1)
    )
