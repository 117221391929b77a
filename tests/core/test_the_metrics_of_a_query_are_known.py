"""Promise: the metrics that a PromQL query reads are named, and nothing else is taken for one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollouts.core.promql import metrics_named_in


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("up", ["up"]),
        (
            'sum(rate(http_requests_total{code!~"5.."}[2m])) / sum(rate(http_requests_total[2m]))',
            ["http_requests_total"],
        ),
        ("histogram_quantile(0.95, sum by (le) (rate(latency_bucket[2m])))", ["latency_bucket"]),
        ("sum without (pod) (a) / on (x) group_left (y, z) b offset 5m", ["a", "b"]),
        ("max(a) by (pod)", ["a"]),
        ("job:errors:rate5m > bool 0.5", ["job:errors:rate5m"]),
        ("a and b unless c or vector(1)", ["a", "b", "c"]),
        ("sum_over_time(a[1h:5m] @ start()) * inf", ["a"]),
        ('label_replace(a, "dst", "$1", "src", "(.*)")', ["a"]),
        ('{__name__="up", job="x"}', ["up"]),
        ('{"my.metric", job="x"}', ["my.metric"]),
        ('{__name__=~"http_.*"}', []),
        ('up{job="{{args.job}}"}', ["up"]),
        ("{{args.metric}}", []),
        ("{{args.prefix}}_total + up", []),
        ("up # and_a_comment", ["up"]),
        ("up{", ["up"]),
        ("up $", []),
        ("", []),
    ],
)
def test_a_metric_is_what_stands_where_a_metric_may_stand(query: str, names: list[str]) -> None:
    """Functions, labels, operators and texts are none; what cannot be told is left out, so nobody is warned for nothing."""
    assert list(metrics_named_in(query)) == names


PIECES = st.sampled_from(
    ["up", "http_requests_total", "sum(", ")", " by (le)", "{", '="x"', "}", "[5m]", " / ", "#", "$", '"', "{{"]
)


@given(st.one_of(st.text(max_size=200), st.lists(PIECES, max_size=30).map("".join)))
def test_any_text_has_an_answer(query: str) -> None:
    """People type queries, and half of them are not finished. What is told stands in the text."""
    assert [name for name in metrics_named_in(query) if not name or name not in query] == []
