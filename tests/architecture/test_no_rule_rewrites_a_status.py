"""Promise: no rule of the core rewrites the status that it is given. It returns changes (`core/model/changes.py`).

When rules handed a rewritten status on, the order of their lines was a contract that nobody could see.
"""

from __future__ import annotations

import re
from pathlib import Path

CORE = Path(__file__).parents[2] / "rollouts" / "core"
REWRITES = re.compile(r"\bview = view\b|\bstatus = replace\(status\b")


def test_no_line_of_the_core_does() -> None:
    """A changed copy of a status has a name of its own."""
    lines = [
        f"{path.relative_to(CORE)}:{number}"
        for path in sorted(CORE.rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if REWRITES.search(line)
    ]

    assert lines == []


def test_a_line_that_does_is_found() -> None:
    """A wrong pattern would find nothing, and the test above would always pass."""
    assert REWRITES.search("    status = replace(status, phase=Phase.PAUSED)")
    assert REWRITES.search("    view = view.with_status(status)")
