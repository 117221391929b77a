"""Promise: what metrics ask, and what each answer is taken for, is on record: the phase, the words, the value, the times.

A change that must not alter a verdict alters no line. `python -m tests.metrics.record` writes the record anew.
"""

from __future__ import annotations

import pytest

from tests.metrics.record import FOLDER, PARTS


@pytest.mark.parametrize("part", PARTS)
def test_a_measurement_is_what_is_on_record(part: str) -> None:
    """Of answers that are evidence, and of those that are none."""
    assert [*PARTS[part]()] == (FOLDER / f"{part}.txt").read_text().splitlines()
