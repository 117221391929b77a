"""Promise: what says nothing promotes nothing, whatever the condition is and however the server says it."""

from __future__ import annotations

import json
import random

import pytest

from rollouts.core.analysis.metric import MetricCondition, NoData
from rollouts.core.analysis.source import HttpSource, PrometheusQuery, WebResult
from rollouts.core.model.analysis import AnalysisPhase
from rollouts.core.model.frozen import replace
from rollouts.metrics.requests import HttpAnswer, MetricAnswer, NoAnswer
from rollouts.metrics.samples import NoEvidence
from tests.metrics.answers import (
    MARK,
    NOW_S,
    QUERY,
    RANGE,
    WEB,
    WEB_PART,
    answered,
    asked,
    matrix,
    measurement,
    prometheus,
    read,
    vector,
)

SUCCESS = [
    *("result[0] < 100", "result < 100", "all(result, # < 100)", "any(result, {# < 100}) || len(result) < 3"),
    *("len(result) == 0 || result[0] < 100", "isNaN(result) || result >= 0 || isInf(result)", "result.all(x, x < 100)"),
    *("default(result, 0) < 100", "isNil(result) || asFloat(result) < 100", "(result ?? 0) < 100", "result[0] <"),
    *("result != 5", "result[0] != 5"),
]
FAILURE = [
    *("result[0] > 100", "result > 100", "any(result, # > 100)", "result == 5", "result[0] == 5", "5 in result"),
    *("default(result, 0) > 100", "asFloat(result) > 100", "isNaN(result) && isInf(result)"),
]
CONDITIONS = [
    *(MetricCondition(success=each) for each in SUCCESS),
    *(MetricCondition(failure=each) for each in FAILURE),
    MetricCondition(success="result[0] < 100", failure="result[0] > 100"),
    MetricCondition(success="true", failure="false"),
    MetricCondition(),
    MetricCondition(success="result[0] < 100", min_samples=3),
    MetricCondition(failure="any(result, # > 100)", min_samples=3),
]

DEEP = b'{"status":"success","data":{"resultType":"vector","result":' + b"[" * 100_000
MILLISECONDS = NOW_S * 1_000
HTML = f"<!DOCTYPE html><html><body>{MARK}</body></html>".encode()

BAD: dict[str, tuple[HttpSource, MetricAnswer]] = {
    # What Prometheus says of nothing.
    "NaN": (QUERY, answered(vector("NaN"))),
    "+Inf": (QUERY, answered(vector("+Inf"))),
    "-Inf": (QUERY, answered(vector("-Inf"))),
    "Inf": (QUERY, answered(vector("Inf"))),
    "a scalar NaN": (QUERY, answered(prometheus("scalar", [NOW_S, "NaN"]))),
    "a scalar Inf": (QUERY, answered(prometheus("scalar", [NOW_S, "-Inf"]))),
    "a number that is too large": (QUERY, answered(vector("1e999"))),
    "one NaN of three": (QUERY, answered(vector("1", "NaN", "1"))),
    "no series": (QUERY, answered(vector())),
    "no series of a range": (RANGE, answered(matrix())),
    "a series without a value": (RANGE, answered(matrix([]))),
    "a NaN in a range": (RANGE, answered(matrix([(NOW_S - 60, "1"), (NOW_S, "NaN")]))),
    # Other types.
    "a text": (QUERY, answered(prometheus("string", [NOW_S, MARK]))),
    "a type that is not known": (QUERY, answered(prometheus(MARK, [NOW_S, "1"]))),
    "a number that is no text": (QUERY, answered(vector(1.5))),
    "a truth": (QUERY, answered(vector(True))),
    "null": (QUERY, answered(vector(None))),
    "an empty text": (QUERY, answered(vector(""))),
    "words": (QUERY, answered(vector(MARK))),
    "a number with a unit": (QUERY, answered(vector("5ms"))),
    "a number of Python's": (QUERY, answered(vector("1_000"))),
    "a number with blanks": (QUERY, answered(vector(" 1 "))),
    "a number in hexadecimal": (QUERY, answered(vector("0x10"))),
    "digits of another script": (QUERY, answered(vector("١"))),
    "a histogram": (QUERY, answered(prometheus("vector", [{"metric": {}, "histogram": [NOW_S, {"count": "1"}]}]))),
    "histograms of a range": (RANGE, answered(prometheus("matrix", [{"metric": {}, "histograms": [[NOW_S, {}]]}]))),
    "a value without a time": (QUERY, answered(prometheus("vector", [{"metric": {}, "value": ["1"]}]))),
    "a value with three parts": (QUERY, answered(prometheus("vector", [{"metric": {}, "value": [NOW_S, "1", "2"]}]))),
    "a time that is a text": (QUERY, answered(prometheus("scalar", [str(NOW_S), "1"]))),
    "labels that are numbers": (QUERY, answered(prometheus("vector", [{"metric": {"a": 1}, "value": [NOW_S, "1"]}]))),
    "an object for a vector": (QUERY, answered(prometheus("vector", {"value": [NOW_S, "1"]}))),
    "a matrix that is a vector": (QUERY, answered(prometheus("matrix", [{"metric": {}, "value": [NOW_S, "1"]}]))),
    "a vector for a scalar": (QUERY, answered(prometheus("scalar", [{"metric": {}, "value": [NOW_S, "1"]}]))),
    "no result": (QUERY, answered(b'{"status":"success","data":{"resultType":"vector"}}')),
    "no data": (QUERY, answered(b'{"status":"success"}')),
    "null data": (QUERY, answered(b'{"status":"success","data":null}')),
    # Other times.
    "stale": (QUERY, answered(vector("1", at_s=NOW_S - 301))),
    "of the year 1970": (QUERY, answered(vector("1", at_s=0))),
    "before 1970": (QUERY, answered(vector("1", at_s=-1e300))),
    "of the future": (QUERY, answered(vector("1", at_s=NOW_S + 60))),
    "in milliseconds": (QUERY, answered(vector("1", at_s=MILLISECONDS))),
    "one of two stale": (QUERY, answered(matrix([(NOW_S, "1")], [(NOW_S - 900, "1")]))),
    "before the range": (RANGE, answered(matrix([(NOW_S - 900, "1"), (NOW_S, "1")]))),
    "a range in milliseconds": (RANGE, answered(matrix([(MILLISECONDS, "1")]))),
    # A part, or an error.
    "warnings": (QUERY, answered(vector("1", warnings=[MARK]))),
    "warnings of a range": (RANGE, answered(matrix([(NOW_S, "1")], warnings=[MARK]))),
    "an error with 200": (QUERY, answered(json.dumps({"status": "error", "errorType": MARK, "error": MARK}).encode())),
    "an error with data": (QUERY, answered(vector("1").replace(b"success", b"error"))),
    "a good body with 500": (QUERY, answered(vector("1"), status=500)),
    "a good body with 302": (QUERY, answered(vector("1"), status=302)),
    "a good body with 206": (QUERY, answered(vector("1"), status=206)),
    "bad_data with 400": (QUERY, answered(b'{"status":"error","errorType":"bad_data"}', status=400)),
    "not allowed": (QUERY, answered(HTML, status=403)),
    "no answer": (QUERY, NoAnswer("no answer within 30 s")),
    # Not JSON, or not whole.
    "HTML": (QUERY, answered(HTML)),
    "nothing at all": (QUERY, answered(b"")),
    "cut": (QUERY, answered(vector("1")[:-5])),
    "more after the end": (QUERY, answered(vector("1") + b"{}")),
    "compressed": (QUERY, answered(b"\x1f\x8b\x08\x00" + bytes(40))),
    "not UTF-8": (QUERY, answered(vector("1").replace(MARK.encode(), b"\xff\xfe"))),
    "half of a surrogate pair": (QUERY, answered(vector("1").replace(MARK.encode(), b"\\ud800"))),
    "very deep": (QUERY, answered(DEEP)),
    "a list": (QUERY, answered(b"[]")),
    "a number": (QUERY, answered(b"1")),
    "Infinity of Python's": (QUERY, answered(vector(float("inf")))),
    # The same for web servers.
    "web: HTML": (WEB, answered(HTML, content_type="text/html")),
    "web: HTML that says JSON": (WEB, answered(b"\n " + HTML)),
    "web: empty": (WEB, answered(b" \n")),
    "web: null": (WEB, answered(b"null")),
    "web: an empty list": (WEB, answered(b"[]")),
    "web: an empty object": (WEB, answered(b"{}")),
    "web: null in a list": (WEB, answered(b"[null]")),
    "web: cut": (WEB, answered(b'{"data": {"value": 1', content_type="text/plain")),
    "web: cut, as JSON": (WEB, answered(b"tru")),
    "web: NaN": (WEB, answered(b"NaN")),
    "web: NaN as a text": (WEB, answered(b'"NaN"')),
    "web: Infinity as a text": (WEB, answered(b'"+Infinity"')),
    "web: 1e400": (WEB, answered(b"1e400")),
    "web: 400 digits": (WEB, answered(b"1" * 400)),
    "web: very deep": (WEB, answered(b"[" * 100_000)),
    "web: deep": (WEB, answered(b"[" * 40 + b"1" + b"]" * 40)),
    "web: too many": (WEB, answered(b"[" + b"1," * 30_000 + b"1]")),
    "web: 500": (WEB, answered(b"1", status=500)),
    "web: 304": (WEB, answered(b"1", status=304)),
    "web: 404": (WEB_PART, answered(b'{"data":{"value":1}}', status=404)),
    "web: not UTF-8": (WEB, answered(b"\xff\xfe1", content_type="text/plain")),
    "web: no such member": (WEB_PART, answered(b'{"data":{}}')),
    "web: a list on the way": (WEB_PART, answered(b'{"data":[{"value":1}]}')),
    "web: null at the end": (WEB_PART, answered(b'{"data":{"value":null}}')),
    "web: a text for JSON": (WEB_PART, answered(b"all is well", content_type="text/plain")),
    "web: an error's text": (WEB_PART, answered(f'{{"data":{{"value":"{MARK}"}}}}'.encode())),
    "web: an object": (WEB_PART, answered(f'{{"data":{{"value":{{"error":"{MARK}"}}}}}}'.encode())),
    "web: a truth for a number": (WEB_PART, answered(b'{"data":{"value":true}}')),
    "web: a long text": (WEB, answered(b"a" * 5_000, content_type="text/plain")),
    "web: no answer": (WEB, NoAnswer("no answer within 10 s")),
}


@pytest.mark.parametrize(
    ("source", "age_s", "counts"),
    [
        (QUERY, -5.0, True),
        (QUERY, -5.01, False),
        (QUERY, 300.0, True),
        (QUERY, 300.01, False),
        (RANGE, -65.0, True),
        (RANGE, -65.01, False),
        (RANGE, 365.0, True),
        (RANGE, 365.01, False),
    ],
)
def test_a_value_counts_if_it_is_of_the_time_that_was_asked_for(
    source: PrometheusQuery, age_s: float, counts: bool
) -> None:
    """Clocks differ by 5 s; Prometheus looks back for 5 minutes, and puts the points of a range on steps."""
    at_s = NOW_S - age_s
    body = vector("1", at_s=at_s) if source is QUERY else matrix([(at_s, "1")])

    assert isinstance(read(answered(body), asked(source)), NoEvidence) is not counts


@pytest.mark.parametrize(("source", "answer"), BAD.values(), ids=BAD)
def test_nothing_is_successful_without_evidence(source: HttpSource, answer: MetricAnswer) -> None:
    """Of all shapes of conditions, also of those that hold for everything; and the status has nothing of what a server sent."""
    for condition in CONDITIONS:
        for no_data in NoData:
            found = measurement(answer, replace(condition, no_data=no_data), source=source)
            assert found.phase is not AnalysisPhase.SUCCESSFUL, condition
            assert found.phase is not AnalysisPhase.RUNNING
            assert found.message
            assert MARK not in repr(found), condition


@pytest.mark.parametrize(
    ("status", "condition", "phase"),
    [
        (200, "result <= 202", AnalysisPhase.SUCCESSFUL),
        (202, "result <= 202", AnalysisPhase.SUCCESSFUL),
        (204, "result <= 202", AnalysisPhase.PENDING),
        (403, "result <= 202", AnalysisPhase.PENDING),
        (403, "result > 0", AnalysisPhase.PENDING),
        (500, "result <= 202", AnalysisPhase.FAILED),
        (302, "result <= 202", AnalysisPhase.FAILED),
        (200, "result[0] < 5", AnalysisPhase.ERROR),
    ],
)
def test_a_status_is_evidence_where_its_author_says_so(status: int, condition: str, phase: AnalysisPhase) -> None:
    """A gate answers by its status and often without a body; one that means "not yet" never counts, whatever `noData` says."""
    gate = replace(WEB, result=WebResult.STATUS, not_yet=(204, 403))
    for no_data in NoData:
        for body in (b"", b"Forbidden", HTML):
            asked_for = MetricCondition(success=condition, no_data=no_data)
            found = measurement(answered(body, status=status), asked_for, source=gate)
            assert (found.phase, found.finished) == (phase, True), found
            assert MARK not in repr(found)
    assert measurement(NoAnswer("refused"), asked_for, source=gate).phase is AnalysisPhase.ERROR


def test_a_status_that_is_not_yet_waits_where_the_body_is_the_evidence() -> None:
    """Without the list a refusal is an Error, and with it nothing has been measured."""
    refusal, condition = answered(b"1", status=403), MetricCondition(success="result < 5")

    assert measurement(refusal, condition, source=WEB).phase is AnalysisPhase.ERROR
    assert measurement(refusal, condition, source=replace(WEB, not_yet=(403,))).phase is AnalysisPhase.PENDING


@pytest.mark.parametrize(
    ("condition", "phase"),
    [
        ("result[0] < 5 && result[1] < 5", AnalysisPhase.SUCCESSFUL),
        ("result[0] < 5 && result[-1] < 5", AnalysisPhase.SUCCESSFUL),
        ("result[0] < 5 && all(result, # < 5)", AnalysisPhase.SUCCESSFUL),
        ("max(result) < 5", AnalysisPhase.SUCCESSFUL),
        ("len(result) > 0 && result[0] < 5", AnalysisPhase.INCONCLUSIVE),
        ("result[0] < 5", AnalysisPhase.INCONCLUSIVE),
        ("result[1] < 5", AnalysisPhase.INCONCLUSIVE),
        ("result[0] > 5", AnalysisPhase.INCONCLUSIVE),
        ("result[0] < 5 || result[3] < 5", AnalysisPhase.INCONCLUSIVE),
        ("result[0] < 5 || result[-3] < 5", AnalysisPhase.INCONCLUSIVE),
        ("len(result) == 2", AnalysisPhase.SUCCESSFUL),
    ],
)
def test_all_series_count(condition: str, phase: AnalysisPhase) -> None:
    """The order of series means nothing, so one of several is chance; a condition that reads every place has seen all."""
    assert measurement(answered(vector("1", "2")), MetricCondition(success=condition)).phase is phase


@pytest.mark.parametrize(
    ("no_data", "phase"),
    [
        (NoData.INCONCLUSIVE, AnalysisPhase.INCONCLUSIVE),
        (NoData.FAIL, AnalysisPhase.FAILED),
        (NoData.WAIT, AnalysisPhase.PENDING),
    ],
)
def test_the_template_says_what_no_data_is(no_data: NoData, phase: AnalysisPhase) -> None:
    """But an answer that cannot be read is an error always."""
    condition = MetricCondition(success="result[0] < 5", no_data=no_data)
    found = measurement(answered(vector()), condition)

    assert found.phase is phase
    assert found.finished_at_s == NOW_S + 1
    assert measurement(answered(HTML), condition).phase is AnalysisPhase.ERROR
    assert measurement(NoAnswer("refused"), condition).phase is AnalysisPhase.ERROR


@pytest.mark.parametrize(
    ("body", "failure", "phase"),
    [
        (vector(), "len(result) == 0", AnalysisPhase.FAILED),
        (vector("NaN"), "isNaN(result[0])", AnalysisPhase.FAILED),
        (vector("+Inf"), "isInf(result[0])", AnalysisPhase.FAILED),
        (vector("+Inf"), "result[0] > 5", AnalysisPhase.INCONCLUSIVE),
        (vector("NaN"), "len(result) == 1", AnalysisPhase.INCONCLUSIVE),
    ],
)
@pytest.mark.parametrize("success", ["", "result[0] < 5"])
def test_a_failure_condition_that_asks_for_it_is_heard(
    body: bytes, success: str, failure: str, phase: AnalysisPhase
) -> None:
    """Who writes that NaN is bad means it; nothing that way becomes a success."""
    assert measurement(answered(body), MetricCondition(success=success, failure=failure)).phase is phase


@pytest.mark.parametrize(
    ("body", "success", "phase"),
    [
        (vector(), "len(result) == 0 || result[0] >= 0.95", AnalysisPhase.SUCCESSFUL),
        (vector("0.5"), "len(result) == 0 || result[0] >= 0.95", AnalysisPhase.FAILED),
        (vector("NaN"), "isNaN(result[0]) || result[0] >= 0.95", AnalysisPhase.SUCCESSFUL),
        (vector("NaN"), "len(result) == 0 || result[0] >= 0.95", AnalysisPhase.INCONCLUSIVE),
        (vector(), "all(result, # < 5)", AnalysisPhase.INCONCLUSIVE),
        (vector(warnings=["part"]), "len(result) == 0", AnalysisPhase.INCONCLUSIVE),
        (vector("1", "1"), "len(result) == 0 || result[0] >= 0.95", AnalysisPhase.INCONCLUSIVE),
        (HTML, "len(result) == 0", AnalysisPhase.ERROR),
    ],
)
def test_min_samples_0_lets_conditions_decide_about_what_is_missing(
    body: bytes, success: str, phase: AnalysisPhase
) -> None:
    """Argo Rollouts' documented forms work for who says so; a part, an error, and several series stay what they are."""
    assert measurement(answered(body), MetricCondition(success=success, min_samples=0)).phase is phase


@pytest.mark.parametrize(
    ("body", "success", "least", "phase"),
    [
        (b'{"errors": 1}', "(result.errors ?? 0) < 5", 1, AnalysisPhase.SUCCESSFUL),
        (b'{"requests": 1}', "(result.errors ?? 0) < 5", 1, AnalysisPhase.ERROR),
        (b'{"requests": 1}', "default(result.errors, 0) < 5", 0, AnalysisPhase.SUCCESSFUL),
        (b"null", "default(result, 0) < 5", 1, AnalysisPhase.INCONCLUSIVE),
        (b"null", "default(result, 0) < 5", 0, AnalysisPhase.SUCCESSFUL),
        (b"null", "isNil(result)", 0, AnalysisPhase.SUCCESSFUL),
        (b"{}", "isNil(result.data.value)", 0, AnalysisPhase.SUCCESSFUL),
    ],
)
def test_a_default_is_no_evidence(body: bytes, success: str, least: int, phase: AnalysisPhase) -> None:
    """A number that the author wrote was not measured; `minSamples: 0` says that it may stand for one."""
    assert measurement(answered(body), MetricCondition(success=success, min_samples=least), source=WEB).phase is phase


@pytest.mark.parametrize(
    ("body", "success", "failure", "phase"),
    [
        ({"n": 1}, "isNil(result.x) || result.x < 5", "", AnalysisPhase.INCONCLUSIVE),
        ({"n": 1}, "result.x == nil || result.x < 5", "", AnalysisPhase.INCONCLUSIVE),
        ({"n": 1, "x": None}, "isNil(result.x)", "", AnalysisPhase.INCONCLUSIVE),
        ({"n": 1}, "", "!isNil(result.x) && result.x > 5", AnalysisPhase.INCONCLUSIVE),
        ({"n": 1}, "", "result.x != nil && result.x > 5", AnalysisPhase.INCONCLUSIVE),
        ({"n": 1}, "result.n == 1", "!isNil(result.x) && result.x > 5", AnalysisPhase.INCONCLUSIVE),
        ({"n": 1}, "", "isNil(result.x) || result.x > 5", AnalysisPhase.FAILED),
        ({"n": 1}, "result.n == 1 || isNil(result.x)", "", AnalysisPhase.SUCCESSFUL),
        ({"x": 1}, "isNil(result.x) || result.x < 5", "", AnalysisPhase.SUCCESSFUL),
        ({"x": 9}, "isNil(result.x) || result.x < 5", "", AnalysisPhase.FAILED),
        ({"x": 1}, "", "!isNil(result.x) && result.x > 5", AnalysisPhase.SUCCESSFUL),
        ({"n": 1, "xs": []}, "all(result.xs, # < 5)", "", AnalysisPhase.INCONCLUSIVE),
        ({"n": 1, "xs": []}, "none(result.xs, # > 5)", "", AnalysisPhase.INCONCLUSIVE),
        ({"n": 1, "xs": []}, "", "any(result.xs, # > 5)", AnalysisPhase.INCONCLUSIVE),
        ({"n": 1, "xs": []}, "", "5 in result.xs", AnalysisPhase.INCONCLUSIVE),
        ({"n": 1, "xs": []}, "len(filter(result.xs, # > 5)) == 0", "", AnalysisPhase.INCONCLUSIVE),
        ({"xs": [{"a": "b", "v": 9}]}, 'all(filter(result.xs, .a == "a"), .v < 5)', "", AnalysisPhase.INCONCLUSIVE),
        ({"xs": [{"a": "a", "v": 1}]}, 'all(filter(result.xs, .a == "a"), .v < 5)', "", AnalysisPhase.SUCCESSFUL),
        ({"xs": [{"v": 1}, {}]}, "all(result.xs, isNil(.v) || .v < 5)", "", AnalysisPhase.INCONCLUSIVE),
        ({"xs": [{"v": 1}, {}]}, "any(result.xs, isNil(.v) || .v < 5)", "", AnalysisPhase.SUCCESSFUL),
        ({"xs": [1]}, "len(filter(result.xs, # > 5)) == 0", "", AnalysisPhase.SUCCESSFUL),
        ({"n": 1, "xs": []}, "len(result.xs) == 0", "", AnalysisPhase.SUCCESSFUL),
    ],
)
def test_what_is_missing_in_a_document_decides_for_nothing_good(
    body: object, success: str, failure: str, phase: AnalysisPhase
) -> None:
    """A member that is not there, or a list without an entry, is no evidence unless the author says so."""
    condition = MetricCondition(success=success, failure=failure)
    answer = answered(json.dumps(body).encode())
    found = measurement(answer, condition, source=WEB)
    lenient = measurement(answer, replace(condition, min_samples=0), source=WEB)

    assert found.phase is phase, found
    assert (found.message == "") is (phase is AnalysisPhase.SUCCESSFUL)
    assert lenient.phase is (AnalysisPhase.SUCCESSFUL if phase is AnalysisPhase.INCONCLUSIVE else phase)


@pytest.mark.parametrize(
    ("success", "failure", "value", "phase"),
    [
        ("result[0] < 5", "", "1", AnalysisPhase.SUCCESSFUL),
        ("result[0] < 5", "", "5", AnalysisPhase.FAILED),
        ("", "result[0] >= 5", "1", AnalysisPhase.SUCCESSFUL),
        ("", "result[0] >= 5", "5", AnalysisPhase.FAILED),
        ("result[0] < 5", "result[0] > 9", "1", AnalysisPhase.SUCCESSFUL),
        ("result[0] < 5", "result[0] > 9", "7", AnalysisPhase.INCONCLUSIVE),
        ("result[0] < 5", "result[0] > 9", "10", AnalysisPhase.FAILED),
        ("result[0] > 5", "result[0] > 9", "10", AnalysisPhase.FAILED),
        ("", "", "1", AnalysisPhase.INCONCLUSIVE),
        ("  ", "\n", "1", AnalysisPhase.INCONCLUSIVE),
        ("result[0] < 5", "result[3] > 9", "1", AnalysisPhase.ERROR),
        ("result[0].x < 5", "", "1", AnalysisPhase.ERROR),
    ],
)
def test_conditions_are_judged_as_in_argo_rollouts(
    success: str, failure: str, value: str, phase: AnalysisPhase
) -> None:
    """Failure wins over success; what neither holds for is inconclusive; without a condition nothing is good."""
    assert measurement(answered(vector(value)), MetricCondition(success=success, failure=failure)).phase is phase


@pytest.mark.parametrize(
    ("source", "body", "value", "samples"),
    [
        (QUERY, vector("0.5"), "[0.5]", 1), (QUERY, vector("1", "2e3", "+Inf", "NaN"), "[1, 2000, +Inf, NaN]", 4),
        (QUERY, prometheus("scalar", [NOW_S, "0.25"]), "0.25", 1), (QUERY, vector(), "[]", 0),
        (QUERY, vector(*["1"] * 20), "[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, … 20 in all]", 20),
        (WEB, b"12", "12", 1), (WEB, b'{"a": "secret", "b": [1, {"c": 2.5}], "d": true}', "[1, 2.5]", 4),
        (WEB, b'"secret"', "", 1), (WEB, b"all is well", "", 1), (WEB, b"true", "", 1),
    ],
)  # fmt: skip
def test_only_numbers_reach_the_status(source: HttpSource, body: bytes, value: str, samples: int) -> None:
    """A text of a server is for the condition alone."""
    found = measurement(answered(body, content_type=""), MetricCondition(success="len(result) > 0"), source=source)

    assert (found.value, found.samples) == (value, samples)


def test_a_text_is_for_the_condition() -> None:
    """Argo Rollouts takes a body that is no JSON for a success; here the condition decides."""
    answer = answered(b"It worked!\n", content_type="text/plain")
    for success, phase in (("'It worked!'", AnalysisPhase.SUCCESSFUL), ("'no'", AnalysisPhase.FAILED)):
        assert measurement(answer, MetricCondition(success=f"result == {success}"), source=WEB).phase is phase


@pytest.mark.long
def test_no_mutated_body_is_an_error_of_ours() -> None:
    """100,000 answers with bytes changed, cut, doubled and swapped: each one has a measurement, and none raises."""
    drawn = random.Random(13)  # noqa: S311 - the same bodies each time
    seeds = [answer.body for _, answer in BAD.values() if isinstance(answer, HttpAnswer) and len(answer.body) < 1_000]
    seeds += [vector("0.5"), matrix([(NOW_S, "1"), (NOW_S, "2")]), b'{"data":{"value":0.5}}', b"[1,2,3]"]
    questions: list[HttpSource] = [QUERY, RANGE, WEB, WEB_PART]
    conditions = [MetricCondition(success="all(result, # < 100)"), MetricCondition(failure="result[0] > 100")]
    phases = set[AnalysisPhase]()
    for place in range(100_000):
        body = _mutated(drawn.choice(seeds), drawn)
        found = measurement(answered(body), conditions[place % 2], source=questions[place % 4])
        phases.add(found.phase)
        assert found.phase is not AnalysisPhase.RUNNING

    assert phases >= {AnalysisPhase.SUCCESSFUL, AnalysisPhase.ERROR, AnalysisPhase.INCONCLUSIVE}


_PIECES = (
    b"NaN", b"1e999", b"null", b"{", b"]", b'"', b"\\u0000", b"-", b"\xff", b"[[[[", b"18446744073709551616", b"true",
)  # fmt: skip


def _mutated(body: bytes, drawn: random.Random) -> bytes:
    for _ in range(drawn.randint(1, 3)):
        at = drawn.randrange(len(body) + 1)
        end = min(len(body), at + drawn.randint(0, 6))
        match drawn.randrange(5):
            case 0:
                body = body[:at] + bytes([drawn.randrange(256)]) + body[end:]
            case 1:
                body = body[:at]
            case 2:
                body = body[:at] + body[at:end] * 2 + body[end:]
            case 3:
                body = body[:at] + drawn.choice(_PIECES) + body[end:]
            case _:
                body = body[:at] + body[end:]
    return body
