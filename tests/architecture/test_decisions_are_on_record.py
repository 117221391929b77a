"""Promise: the index of decisions has each record, and each record has the form that readers know."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.architecture.tracked import ROOT

FOLDER = ROOT / "docs" / "decisions"
RECORDS = sorted(FOLDER.glob("[0-9]*.md"))


def _title_and_date(record: Path) -> tuple[str, str]:
    found = re.match(r"# \d+\. (.+)\n\nDate: (\d{4}-\d{2}-\d{2})\. Status: ", record.read_text(encoding="utf-8"))
    assert found is not None, f"{record.name} begins with its number, its title, its date and its status"
    return found[1], found[2]


def test_the_index_has_each_record_with_its_title_and_date() -> None:
    """A record that the index lacks is found by nobody."""
    index = (FOLDER / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[(\d+)\]\(([^)]+)\) \| (.+) \| (\S+) \|$", index, re.MULTILINE)

    expected = [(str(int(path.name[:4])), path.name, *_title_and_date(path)) for path in RECORDS]

    assert rows == expected
    assert rows


@pytest.mark.parametrize("record", RECORDS, ids=lambda path: path.stem)
def test_a_record_says_what_was_true_what_holds_and_what_follows(record: Path) -> None:
    """Short enough to be read when somebody asks why."""
    text = record.read_text(encoding="utf-8")

    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["Context", "Decision", "Consequences"]
    assert record.name.startswith(f"{int(text.split('.')[0].removeprefix('# ')):04d}-")
    assert len(text.splitlines()) <= 40
