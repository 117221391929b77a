"""Who is told how to install the CRDs reads the same command everywhere, and it works whoever has written them before."""

from __future__ import annotations

import re

from rollouts.errors import APPLY_CRDS
from tests.architecture.tracked import ROOT, tracked

_COMMAND = re.compile(r"crds \\?\| kubectl apply[^`\"'\n]*")


def test_every_text_has_the_same_command() -> None:
    """Three spellings were printed; the one without `--server-side` is refused, as the types are too long for an annotation."""
    texts = [path for path in sorted(tracked()) if path.suffix in {".md", ".py", ".yaml", ".txt", ".tpl"}]
    spellings = {
        found.replace("\\|", "|")
        for path in texts
        if not {"CHANGELOG.md", "decisions", "tests"} & {*path.relative_to(ROOT).parts}
        for found in _COMMAND.findall(path.read_text(encoding="utf-8"))
    }

    assert {f"rollouts {each.strip()}" for each in spellings} == {APPLY_CRDS}
