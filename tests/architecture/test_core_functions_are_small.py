"""Promise: a function of the core has at most 40 lines and a cyclomatic complexity of at most 15, `and` and `or` counted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import lizard

CORE = Path(__file__).parents[2] / "rollouts" / "core"
MAX_LINES = 40
MAX_COMPLEXITY = 15


def _functions() -> Iterator[tuple[str, int, int]]:
    """Every function of the core, named by its file, with its lines and its complexity."""
    for path in sorted(CORE.rglob("*.py")):
        for one in lizard.analyze_file(str(path)).function_list:
            yield f"{path.relative_to(CORE).as_posix()} {one.name}", one.length, one.cyclomatic_complexity


def test_a_function_is_small_enough_to_be_understood_at_once() -> None:
    """A rule that needs more conditions than a reader can hold is two rules."""
    functions = list(_functions())

    assert len(functions) > 300
    assert [each for each in functions if each[1] > MAX_LINES or each[2] > MAX_COMPLEXITY] == []


def test_both_operators_count_as_branches(tmp_path: Path) -> None:
    """Conditions joined by `and` and `or` are where the core is hard to follow; a count without them would not see it."""
    file = tmp_path / "one.py"
    file.write_text("def f(a, b, c):\n    if a and b or c:\n        return 1\n    return 2\n")

    (found,) = lizard.analyze_file(str(file)).function_list

    assert found.cyclomatic_complexity == 4
