"""Promise: an audit log that is being written is read by whole events, wherever its marks fall."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab.control_plane import whole_events


@pytest.mark.parametrize(
    ("since", "seen"), [(0, [1, 2]), (8, [2]), (1, [2]), (7, [2]), (9, []), (16, []), (20, [])], ids=str
)
def test_a_mark_in_the_middle_of_a_line_is_after_that_event(tmp_path: Path, since: int, seen: list[int]) -> None:
    """The API server writes a line in more than one piece: a canary through a gateway failed on the rest of one."""
    log = tmp_path / "audit.log"
    log.write_bytes(b'{"n":1}\n{"n":2}\n{"n":3')

    assert [each["n"] for each in whole_events(log, since=since)] == seen
