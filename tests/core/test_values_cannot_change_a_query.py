"""Promise: a value put into PromQL is one text inside quotes, and one number, duration or name outside; it is never PromQL.

The metrics that a query reads are named, and nothing else is taken for one.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollouts.core.promql import filled_query, is_selector, metrics_named_in, tokens_of

QUOTED = """sum(rate(http_requests_total{service="{{args.x}}",code!~'5..'}[5m])) > 0.5"""

HOSTILE = [
    '"} or vector(1) #', '"} or vector(1) or x{y="', 'a",namespace="other', "a'", "`", "\\", '\\"',
    '\\\\"} or vector(1) #', "a\nb", "a\r\nb", "a\tb", "a\x00b", "a\x7fb", "a\u2028b", "{{args.x}}", "{{}}", "}}",
    "{", "# comment", "\u202e\u0430", "\U0001f600", "(?i)x|y", "$1", "%s %d {0}",
]  # fmt: skip


def _filled(query: str, value: str) -> tuple[str, list[str]]:
    refused: list[str] = []
    text = filled_query(query, {"args.x": value}.get, lambda name, why: refused.append(f"{name} {why}"))
    return text, refused


def _unescaped(text: str) -> str:
    """A string of PromQL as Prometheus reads it: Go's rules, told by Python's, which agree on these escapes."""
    assert text[0] == text[-1] != "`"
    return (
        text[1:-1].encode("raw_unicode_escape", "surrogatepass").decode("unicode_escape")
        if "\\" in text
        else text[1:-1]
    )


@pytest.mark.parametrize("quote", ['"', "'"])
@pytest.mark.parametrize("value", HOSTILE)
def test_inside_quotes_a_value_is_one_text(value: str, quote: str) -> None:
    """Whatever it says, the query has the same tokens, and one of them has that very text."""
    query = f"sum(a{{b={quote}{{{{ args.x }}}}{quote}}}) # end"
    harmless = tokens_of(_filled(query, "harmless")[0])

    text, refused = _filled(query, value)
    tokens = tokens_of(text)

    assert refused == []
    assert tokens is not None and harmless is not None
    assert [kind for kind, _ in tokens] == [kind for kind, _ in harmless]
    strings = [each for kind, each in tokens if kind == "text"]
    assert [_unescaped(each) for each in strings] == [value]


@given(value=st.text(alphabet=st.characters(exclude_categories=["Cs"], max_codepoint=0xFFFF)))
def test_no_text_at_all_gets_out_of_its_quotes(value: str) -> None:
    """The same for every text."""
    tokens = tokens_of(_filled(QUOTED, value)[0])

    assert tokens is not None
    assert [kind for kind, _ in tokens] == [kind for kind, _ in tokens_of(QUOTED.replace("{{args.x}}", "y")) or ()]


@pytest.mark.parametrize(
    "value", ["5", "0.95", "-1", "1e3", ".5", "5m", "1h30m", "100ms", "http_requests_total", "job:rate:5m"]
)
def test_outside_numbers_durations_and_names_may_stand(value: str) -> None:
    """What templates are for: a threshold, a window, the metric's name."""
    assert _filled("{{args.x}}", value) == (value, [])


@pytest.mark.parametrize(
    "value",
    [
        *HOSTILE, "", " ", "a b", "a)", "a{b", "1 or vector(1)", "vector(1)", "by", "OR", "unless", "bool", "nan",
        "Inf", "-inf", "5 m", "5m ", "٥", "é", "a-b", "a,b", '"a"', "a" * 257,
    ],
)  # fmt: skip
def test_outside_nothing_else_may(value: str) -> None:
    """It would be PromQL of the one who gives the value, asked with the operator's rights."""
    _, refused = _filled("rate(a[5m]) > {{args.x}}", value)

    assert len(refused) == 1
    assert refused[0].startswith("args.x ")


@pytest.mark.parametrize(
    ("query", "value"),
    [
        ('a{b="\\{{args.x}}"}', '"'),
        ("a{b=`{{args.x}}`}", "`} or vector(1)"),
        ('a # "{{args.x}}"', '" or vector(1)'),
        ("a # {{args.x}}", "\nor vector(1)"),
        ('a{b="unclosed {{args.x}}}', "x y"),
        ('a{b="\n{{args.x}}"}', "x y"),
    ],
)
def test_a_place_that_only_looks_quoted_is_refused(query: str, value: str) -> None:
    """A comment, a raw string, a string that does not end in its line, and a backslash before the place."""
    assert len(_filled(query, value)[1]) == 1


@pytest.mark.parametrize(
    ("query", "value", "filled"),
    [
        *(("a{b=`{{args.x}}`}", raw, f"a{{b=`{raw}`}}") for raw in ("cart", "a b", 'say "x"', "back\\slash")),
        ('a{b="{{args.y}}"} > {{ args.z }}', "v", 'a{b="{{args.y}}"} > {{ args.z }}'),
        ('a{b="{{args.x}}{{args.x}}"}', "\\", 'a{b="\\\\\\\\"}'),
    ],
)
def test_a_query_is_filled_as_it_says(query: str, value: str, filled: str) -> None:
    """A raw string has no escapes: the value stands as it is. A place without a value stays: somebody else fills it, or tells.

    Of two values in one string the first does not escape the second's first character.
    """
    assert _filled(query, value) == (filled, [])


LONG = 200_000


@pytest.mark.parametrize(
    "query",
    [
        "{{" + " " * LONG, "{{" * LONG, "{{a" * LONG, '"' + '\\"' * LONG, "'" + "\\'" * LONG, '"' + "\\" * LONG + '"',
        "`" * (LONG + 1), '"a\n' * LONG, "#{{" * LONG, '"' + "\\{{" * LONG + '"',
    ],
    ids=lambda query: query[:8],
)  # fmt: skip
def test_no_query_takes_long(query: str) -> None:
    """A tenant writes it. Looked through twice for each of its characters, one of these takes an hour."""
    assert _filled(query, "v") == (query, [])


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("up", ["up"]),
        ('sum(rate(http_requests_total{code!~"5.."}[2m])) / sum(rate(http_requests_total[2m]))', ["http_requests_total"]),
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
        ('{"", job="api"}', []),
        ("", []),
    ],
)  # fmt: skip
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


@pytest.mark.parametrize(
    ("query", "selects"),
    [
        ("up", True),
        ('up{code="500"}', True),
        ('{__name__="up", code!~"5..", code!="x"}', True),
        ('{"up"}', True),
        ("up{}", True),
        (" # a comment\nup", True),
        ("", False),
        ("  # nothing", False),
        ("5", False),
        ('"up"', False),
        ("up[5m]", False),
        ("sum(up)", False),
        ("up offset 5m", False),
        ("up{} + up{}", False),
        ("up{}{}", False),
        ("{} == {}", False),
        ("rate(up[5m])", False),
        ("up{code='{{args.code}}'}", True),
        ("{{args.metric}} + 1", True),
        ("up$", True),
    ],
)
def test_a_selector_alone_is_told_from_what_is_worked_out(query: str, selects: bool) -> None:
    """True where it cannot be told: a place may stand for anything, and what is no PromQL is the server's to refuse."""
    assert is_selector(query) is selects
