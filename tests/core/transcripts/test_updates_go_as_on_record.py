"""Promise: what the core decides is on record, pass by pass: writes, status, words, events, moments, and what it foretells.

A change that must not alter decisions alters no line of a transcript; of one that is meant to, a reviewer sees in the diff all
that it does. `python -m tests.core.transcripts` writes them anew.
"""

from __future__ import annotations

import pytest

from tests.core.transcripts.record import FOLDER, all_transcripts

TRANSCRIPTS = all_transcripts()


def _on_record(name: str) -> dict[str, list[str]]:
    """The lines of each play of a file."""
    found: dict[str, list[str]] = {}
    for part in (FOLDER / f"{name}.txt").read_text().removeprefix("# ").split("\n# "):
        title, *lines = part.rstrip("\n").split("\n")
        found[title] = lines[1:]
    return found


@pytest.mark.parametrize(("name", "part"), [(name, part) for name, parts in TRANSCRIPTS.items() for part in parts])
def test_each_pass_decides_what_is_on_record(name: str, part: str) -> None:
    """The first line that differs is the pass in which another decision was made."""
    assert [*TRANSCRIPTS[name][part]()] == _on_record(name)[part]


def test_no_transcript_is_of_a_play_that_is_gone() -> None:
    """Nobody would compare it."""
    assert {path.stem: list(_on_record(path.stem)) for path in sorted(FOLDER.glob("*.txt"))} == {
        name: list(parts) for name, parts in sorted(TRANSCRIPTS.items())
    }
