"""Promise: what a measurement shows of an answer is numbers. A text of it may be anything, and more people read a status."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from rollouts.core.analysis.metric import MetricCondition
from rollouts.metrics.evidence import measured
from rollouts.metrics.samples import document

MARK = "m4rk-of-the-answer"
ANSWERS: list[Any] = [MARK, {"a": MARK}, [MARK], {MARK: 1}, {"a": {"b": MARK}}, [{"a": [MARK]}]]
OF = ("result", "result.a", "result[0]", "result.a.b", "result[0].a[0]")
CONDITIONS = [
    *(f"{call}({of}) > 1" for call, of in itertools.product(("asInt", "asFloat", "len", "abs", "isNaN"), OF)),
    *(
        f"{of} {sign}"
        for of, sign in itertools.product(OF, ("> 1", "== 1", "in [1]", "+ 1 > 2", "&& true", "matches '['"))
    ),
    *(f"'a' matches {of}" for of in OF),
    *("date(result) > now()", "duration(result) > duration('1m')", "all(result, # > 1)", "result.zz == 1"),
]


@pytest.mark.parametrize("answer", ANSWERS, ids=str)
def test_neither_a_value_nor_a_reason_has_a_part_of_it(answer: Any) -> None:
    """Whatever a condition does with the text, and however it fails."""
    for text in CONDITIONS:
        for condition in (MetricCondition(success=text), MetricCondition(failure=text)):
            found = measured(document(answer), condition, started_at_s=0.0, finished_at_s=1.0)
            assert MARK not in f"{found.value} {found.message}", text
