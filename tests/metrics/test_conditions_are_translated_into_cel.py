"""Promise: what people wrote for Argo Rollouts means the same here, what cannot mean it is refused, and neither costs much."""

from __future__ import annotations

import re
import string
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollouts.errors import ExpressionFailed, ExpressionInvalid
from rollouts.metrics.conditions import condition_of, moment_s
from rollouts.metrics.samples import Document, document

NOW_S = 1_790_000_000.0  # 2026-09-21T14:13:20Z
APDEX = {"service_apdex": {"label": None, "values": {"values": [2, 2]}}}
RATES = [{"Values": [0.01, 0.0, 0.002, 0.0, 0.01]}]

TRUE_OR_FALSE: list[tuple[str, Any, bool]] = [
    # Each form of Argo Rollouts' documentation and examples.
    ("result[0] >= 0.95", [0.95], True),
    ("result[0] <= 0.95", [0.96], False),
    ("result >= 0.95", 1, True),
    ("result[0]", [True], True),
    ("result == true", True, True),
    ("result == false", True, False),
    ("result.major == '1'", {"major": "1"}, True),
    ("result == 'It worked!'", "It worked!", True),
    ("default(result, 0) < 5", 6, False),
    ("default(result, 0) < 5", None, True),
    ("result.ok && result.successPercent >= 0.90", {"ok": True, "successPercent": 0.95}, True),
    ("result.ok && result.successPercent >= 0.90", {"ok": False}, False),
    ("results[0] >= 90.000000".replace("results", "result"), [90], True),
    ("result.successRate >= 0.95", {"successRate": 0.5}, False),
    ("result.Status == 999", {"Status": 999}, True),
    ("result.Status == -1", {"Status": -1}, True),
    ("len(result) > 0 && result[0] >= 0.95", [0.99], True),
    ("len(result) == 0 || result[0] >= 0.95", [], True),
    ("isNaN(result) || result >= 0.95", 0.9, False),
    ("isNaN(result) || result >= 0.95", float("nan"), True),
    ("isInf(result)", float("-inf"), True),
    ("isInf(result)", 1, False),
    ("len(result[0].Values) >= 5 and all(result[0].Values, {# <= 0.01})", RATES, True),
    ("all(result.service_apdex.values.values, {asFloat(.value) >= 9900})",
        APDEX | {"service_apdex": {"values": {"values": [{"value": "9901"}, {"value": 9900}]}}}, True),
    ("all(result.service_apdex.values.values, {# > 1})", APDEX, True),
    ("all(result, # < 1000)", [1, 1000], False),
    ("2 in result", [2, 2], True),
    ("asInt(result) == 1", "1", True),
    ("asInt(result) == 1", 1.123, True),
    ("asInt(result) == -1", -1.9, True),
    ("asFloat(result) == 1.1", "1.1", True),
    ("asFloat(result) >= 1", 1, True),
    # Operators and functions.
    ("not (result > 1) and result < 5 or false", 3, False),
    ("!(result > 1) || result == 3", 3, True),
    ("result not in [1, 2]", 3, True),
    ("'a' in result", {"a": 1}, True),
    ("'b' in result", {"a": 1}, False),
    ("result in ['ok', \"fine\"]", "fine", True),
    ("any(result, {# > 2})", [1, 2, 3], True),
    ("none(result, {# > 2})", [1, 2, 3], False),
    ("one(result, {# > 2})", [1, 2, 3], True),
    ("len(filter(result, {# > 1})) == 2", [1, 2, 3], True),
    ("all(map(result, # * 2), # < 7)", [1, 2, 3], True),
    ("any(result, {any(.inner, {# == 2})})", [{"inner": [1]}, {"inner": [2]}], True),
    ("(result.errors ?? 0) < 5", {}, True),
    ("result.errors ?? 0 < 5", {"errors": 7}, False),
    ("result?.errors == nil", {}, True),
    ("isNil(result.a.b)", {"a": {}}, True),
    ("result.a != null && result.a > 1", {"a": 2}, True),
    ("(result[3] ?? 7) == 7", [1], True),
    ("result.errors / result.total < 0.05", {"errors": 1, "total": 100}, True),
    ("(result[0] + result[1]) / 2 == 1.5", [1, 2], True),
    ("result + 1 > 1 && result - 1 < 0 && -result < 0", 0.5, True),
    ("result % 3 == 1", 7, True),
    ("result > 1 ? true : false", 2, True),
    ("result[-1] == 3 && first(result) == 1 && last(result) == 3", [1, 2, 3], True),
    ("min(result) == 1 && max(result) == 3 && max(result[0], 2) == 2", [1, 2, 3], True),
    ("abs(result) == 2 && ceil(result) == -1 && floor(result) == -2 && round(result) == -2", -1.6, False),
    ("ceil(result) == -1 && floor(result) == -2 && round(result) == -2", -1.6, True),
    ("result matches '^v[0-9]+$' and result contains '1' and result startsWith 'v' and result endsWith '2'", "v12",
        True),
    ("lower(trim(result)) == 'ok' && upper(result) contains 'OK'", " Ok ", True),
    ("result['a b']['\\u00e9'] == \"x\"", {"a b": {"é": "x"}}, True),
    ("result | all(# < 5)", [1], True),
    ("result != 5", 4, True),
    ("result != 5", 5, False),
    ("result == `a\\b`", "a\\b", True),
    ("date(result.at) > now() - duration('5m')", {"at": "2026-09-21T14:10:00Z"}, True),
    ("date(result.at) > now() - duration('5m')", {"at": "2026-09-21T14:00:00Z"}, False),
    ("date(result) < date('2027-01-01') && date(result) > date('2026-01-01 10:00:00', '2006-01-02 15:04:05', 'UTC')",
        "2026-06-01T00:00:00Z", True),
    ("1 < result && result < 1_000", 5, True),
    ("result[lower(result.key)] > 1", {"key": "A", "a": 2}, True),
    (".5 < result && result < 1e3", 5, True),
    # CEL as it is.
    ("result.all(x, x < 5) && result.exists(x, x == 2) && size(result) == 2", [1, 2], True),
    ("result.exists_one(in_, in_ > 1) && result.filter(y, y > 1).size() == 1", [1, 2], True),
    ("has(result.a) && !has(result.b)", {"a": 1}, True),
    ("math.isNaN(result) || math.abs(result) < 5 && math.greatest(result, 2) == 2", -1, True),
    ("double(result) > 1.0 && int(result) == 2", "2", True),
    ("timestamp(result) < now", "2020-01-01T00:00:00Z", True),
    ("result.startsWith('a') && result.matches('b$') && result.lowerAscii() == 'ab'", "ab", True),
]  # fmt: skip


@pytest.mark.parametrize(("condition", "result", "expected"), TRUE_OR_FALSE, ids=[each[0] for each in TRUE_OR_FALSE])
def test_a_condition_means_what_it_meant(condition: str, result: Any, expected: bool) -> None:
    """With all numbers as doubles, as a server's JSON has them."""
    assert condition_of(condition, defaults=True).holds(_seen(result), now_s=NOW_S) is expected


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("sum(result) > 1", "let the query do it"), ("mean(result) > 1", "let the query do it"),
        ("count(result, # > 1) > 1", "len(filter(list, {…}))"), ("find(result, # > 1) > 1", "len(filter(list, {…}))"),
        ("let x = result; x > 1", "without it"), ("result ** 2 > 1", "write the product"),
        ("result ^ 2 > 1", "write the product"), ("result in 1..3", "cannot be read"), ("result = 1", "write =="),
        ("1 < result < 2", "a < b && b < c"), ("result[0:2] == nil", "has a slice"),
        ("all(result, #index < 2)", "#index cannot be used"), ("all(result)", "all(result, {# < 1})"),
        ("all(result, 1)", "asks nothing of its elements"), ("# < 1", "character 1"),
        ("results[0] > 1", "what was measured is `result`"), ("result.Name() == 'hi'", "calls a method"),
        ("toJSON(result) == ''", "cannot be used"), ("os.system(result)", "is not known"),
        ("true", "does not look at what was measured"), ("1 < 2", "does not look at what was measured"),
        ("result + 1", "neither true nor false"), ("'a' + result", "neither true nor false"),
        ("asFloat(result) == '1.1'", "of two types"), ("len(result) == 'a'", "of two types"),
        ("now() > 5 && result", "of two types"), ("result < nil", "only == and !="),
        ("result == [1, 2]", "compares a list"), ("result && 1", "not true or false"),
        ("!1 || result", "before a value"), ("result > 1 + (result < 2)", "beside a comparison"),
        ("result[result] > 1", "not written down"),
        ("date(result, result) < now()", "a date that cannot be read"), ("string(result > 1) == 'true'", "a text of a truth"),
        ("date('yesterday') < now() && result", "a date that cannot be read"), ("result >", "ends too early"),
        ("(result > 1", "needs a )"), ("result > 'a", "cannot be read"), ("result == 'a\\q'", "an escape"),
        ("result > 1e999", "too large"), ("default(result) > 1", "1 arguments, not 2"),
        ("result.all(1, true)", "needs a name"), ("result > 1 }", "cannot be read at character 12"),
        ("{} == result", "a map or a closure"), ("math.sqrt(result) > 1", "of math"),
        ("(" * 40 + "result" + ")" * 40, "levels of brackets"),
        ("result > 1" + " && result > 1" * 60, "words and signs"), ("result == '" + "a" * 1_100 + "'", "1024 bytes"),
        ("(" * 9 + "result" + " / 2 < 1 ? 1 : 2)" * 9 + " > 1", "too long"),
    ],
)  # fmt: skip
def test_what_cannot_be_translated_is_refused(condition: str, words: str) -> None:
    """With what to write instead."""
    with pytest.raises(ExpressionInvalid, match=re.escape(words)):
        condition_of(condition, defaults=True)


@pytest.mark.parametrize(
    ("condition", "result"),
    [
        ("result == 1", "1"), ("result != 1", "1"), ("result != 'bad'", 5), ("result == 'bad'", {"error": "x"}),
        ("result in ['bad', 'worse']", 5), ("result not in [1, 2]", "x"), ("result > 1", [5]), ("result[0] > 1", 5),
        ("result[1] > 1 || true", [5]), ("result[1] > 1 && false", [5]), ("result.errors > 1", {}),
        ("result.errors / result.total > 0.05", {"errors": 0, "total": 0}),
        ("result.errors / result.total > 0.05", {"errors": 1, "total": 0}), ("result * result < 1", 1e300),
        ("asFloat(result) > 1", "NaN"), ("asFloat(result) < 1", "-Inf"), ("asFloat(result) > 1", "words"),
        ("asFloat(result) > 1", True), ("asInt(result) > 1", "1.5"), ("asInt(result) > 1", 1e300),
        ("result && true", 5), ("result.ok", {"ok": "yes"}), ("result matches '('", "a"),
        ("date(result) > now()", "soon"), ("all(result, # < 1)", [0] * 15_000),
        ("len(filter(result, # < 1)) > 0", [0] * 301), ("max(map(result, asFloat(#))) < 1", [0] * 5_000),
        ("all(result, all(result, all(result, all(result, # < 1))))", [0] * 100),
    ],
)  # fmt: skip
def test_what_has_no_value_is_neither_true_nor_false(condition: str, result: Any) -> None:
    """In a failure condition "false" is a success, so wrong types, missing parts and divisions by 0 give nothing."""
    with pytest.raises(ExpressionFailed) as failed:
        condition_of(condition, defaults=True).holds(_seen(result), now_s=NOW_S)

    assert "words" not in str(failed.value)
    assert "soon" not in str(failed.value)
    assert "yes" not in str(failed.value)


@pytest.mark.parametrize(
    ("source", "at_s"),
    [
        ("now()", NOW_S),
        ('now() - duration("5m")', NOW_S - 300),
        ("now() - duration('1h30m')", NOW_S - 5_400),
        ('date("2023-08-14 00:00:00", "2006-01-02 15:04:05", "UTC") - duration("1h")', 1_691_967_600.0),
        ("date('2023-08-14T02:00:00+02:00')", 1_691_971_200.0),
    ],
)
def test_a_range_has_times(source: str, at_s: float) -> None:
    """As in Argo Rollouts' rangeQuery."""
    assert moment_s(source, now_s=NOW_S) == at_s


@pytest.mark.parametrize(
    "source", ["hello", "now() -- ?", "1", "result", "duration('5m')", "now() - 5", "", "now() + duration('9e9h')"]
)
def test_what_is_no_time_is_refused(source: str) -> None:
    """A range query without a time is not sent."""
    with pytest.raises((ExpressionInvalid, ExpressionFailed)):
        moment_s(source, now_s=NOW_S)


WORDS = st.sampled_from(
    re.split(
        r"\s+",
        """result [0] .x ( ) { } # all( any( result.all(x, < == != && or not in ?? ? : 1 'a' len( asFloat( ,
now() date( - / % nil | ?. [ ] math. duration( default( + * ! true matches""",
    )
)


@given(st.lists(WORDS, max_size=14).map(" ".join) | st.text(alphabet=string.printable + "é\ud800", max_size=40))
@settings(max_examples=600, deadline=None)
def test_any_text_is_a_condition_or_is_refused(source: str) -> None:
    """Nothing else is raised by what tenants write."""
    try:
        condition = condition_of(source, defaults=False)
        condition.holds([0.5, 1.0], now_s=NOW_S)
    except (ExpressionInvalid, ExpressionFailed) as error:
        assert len(str(error)) < 300


def test_no_message_has_a_part_of_the_condition() -> None:
    """An argument that was filled in may be a secret."""
    token = "s3cr3tT0ken"
    forms = ("result == {}", "result == '{}' + 1", "{}(result)", "result.{} == 1", "result matches '({}'")
    for source in (each.format(token) for each in forms):
        with pytest.raises((ExpressionInvalid, ExpressionFailed)) as raised:
            condition_of(source, defaults=False).holds({"a": token}, now_s=NOW_S)
        assert token not in str(raised.value)
        assert token not in repr(raised.value.__cause__)


def _seen(result: Any) -> Any:
    found = document(result)
    assert isinstance(found, Document)
    return found.result
