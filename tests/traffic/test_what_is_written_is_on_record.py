"""Promise: what each router's codec writes for splits of every kind is on record, with what it refuses and in which words.

The laws say what any write must keep; the record says what the object looks like. A change of a codec shows here, in the diff.
`python -m tests.traffic.record` writes it anew.
"""

from __future__ import annotations

import pytest

from tests.traffic.cases.all_cases import CASES
from tests.traffic.cases.case import Case
from tests.traffic.record import FILE, in_order, written


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_codec_writes_what_is_on_record(case: Case) -> None:
    """Operation by operation, and what it reads of its own writes."""
    parts = {part.partition("\n")[0]: part for part in FILE.read_text().removeprefix("# ").split("\n# ")}
    now = [line for each in written(case) for line in each.split("\n")]
    record = parts[case.name].rstrip("\n").split("\n")[2:]

    if case.name.startswith("declared "):
        now, record = in_order(now), in_order(record)
    assert now == record
