"""Promise: what is read of good specs and templates, and all that is told of bad ones, is on record, word for word.

A change that must not alter what a spec means alters no line. `python -m tests.api.record` writes the record anew.
"""

from __future__ import annotations

import pytest

from tests.api.record import FOLDER, PARTS


@pytest.mark.parametrize("part", PARTS)
def test_what_is_read_or_refused_is_what_is_on_record(part: str) -> None:
    """Whole: every field, and every problem with its path."""
    read = "".join(f"{line}\n" for line in PARTS[part]())

    assert read.splitlines() == (FOLDER / f"{part}.txt").read_text().splitlines()
