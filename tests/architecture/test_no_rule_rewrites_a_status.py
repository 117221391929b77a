"""Promise: no rule of the core rewrites the status that it is given. It returns changes (`core/model/changes.py`).

When rules handed a rewritten status on, the order of their lines was a contract that nobody could see.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

CORE = Path(__file__).parents[2] / "rollouts" / "core"
GIVEN = {"status", "view", "ctx"}
APPLIES_CHANGES = "model/changes.py"


def rewrites(code: str) -> Iterator[int]:
    """Lines at which a function gives another value to a status, or to what has one, that it was given."""
    for function in ast.walk(ast.parse(code)):
        if isinstance(function, ast.FunctionDef):
            given = {each.arg for each in (*function.args.args, *function.args.kwonlyargs)} & GIVEN
            for node in ast.walk(function):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in given:
                    yield node.lineno


def test_no_function_of_the_core_does() -> None:
    """A changed copy of a status has a name of its own."""
    found = [
        f"{path.relative_to(CORE)}:{line}"
        for path in sorted(CORE.rglob("*.py"))
        if str(path.relative_to(CORE)) != APPLIES_CHANGES
        for line in rewrites(path.read_text(encoding="utf-8"))
    ]

    assert found == []


def test_a_function_that_does_is_found() -> None:
    """However it is spelled."""
    assert list(rewrites("def rule(status):\n    status = replace(status, phase=Phase.PAUSED)")) == [2]
    assert list(rewrites("def rule(ctx):\n    if (ctx := ctx.recording(changes)): pass")) == [2]
    assert list(rewrites("def rule(view):\n    view, wait = step(view)")) == [2]
