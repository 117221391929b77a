"""Prometheus' HTTP API: requests out, answers in. No evidence is not nothing: it is None, or NoEvidence, and why.

Counters of requests are asked for raw (`metric[60s]` as an instant query): `rate` and `increase` guess at what lies between
scrapes and leave out what a series began with. Source: https://prometheus.io/docs/prometheus/latest/querying/api/
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Struct

from rollouts.core.analysis.source import DEFAULT_ENDPOINT, PrometheusQuery
from rollouts.errors import ExpressionFailed, ExpressionInvalid
from rollouts.metrics.conditions import moment_s
from rollouts.metrics.kubernetes_values import FUTURE_S, json_of
from rollouts.metrics.requests import HttpAnswer, HttpRequest, MetricEndpoint, Window, header_problem, origin_of, sent
from rollouts.metrics.samples import Absence, NoEvidence, Numbers, ResultShape, Sample
from rollouts.secret import Secret

QUERY_PATH = "/api/v1/query"
RANGE_PATH = "/api/v1/query_range"
ANSWER_MAX_BYTES = 4 * 1024 * 1024  # of many series: some 10,000
NUMBER_MAX_BYTES = 1 << 20
"""Of an answer with one number; what is more is not read to its end."""

STALE_S = 300.0
"""A value is no older than that. Source: Prometheus' own `--query.lookback-delta`."""
POINTS_MAX = 11_000
"""Of one series of a range query. Source: Prometheus v3, web/api/v1/api.go."""
URL_MAX = 2_000  # characters; a longer query is posted as a form, as every Prometheus takes it too

ERROR_TYPES = frozenset(
    ("timeout", "canceled", "execution", "bad_data", "internal", "unavailable", "not_found", "not_acceptable")
)
"""Source: Prometheus v3, web/api/v1/api.go."""
RESULT_TYPES = frozenset(("vector", "matrix", "scalar", "string"))

_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_NOT_FINITE = {"NaN": math.nan, "+Inf": math.inf, "Inf": math.inf, "-Inf": -math.inf}


class Series(Struct, frozen=True):
    """One counter of one target: its labels, and its samples as (seconds since 1970, value), the oldest first."""

    labels: Mapping[str, str]
    samples: tuple[tuple[float, float], ...]


def endpoint_of(query: PrometheusQuery, declared: Mapping[str, MetricEndpoint]) -> MetricEndpoint | NoEvidence:
    """The endpoint of that name, or of that URL."""
    name = query.endpoint
    if name in declared:
        return declared[name]
    if origin_of(name):
        same = [endpoint for endpoint in declared.values() if endpoint.url.rstrip("/") == name.rstrip("/")]
        return same[0] if same else MetricEndpoint(url=name)
    how = f"declare a MetricProvider {name}"
    if name == DEFAULT_ENDPOINT:
        how = "set the controller's --prometheus-url (prometheusUrl of the chart; with --dry-run the command's own)"
    return NoEvidence(
        f"nothing names the Prometheus to ask: {how}, or write its address into the metric", Absence.ERROR
    )


def window_of(query: PrometheusQuery, *, now_s: float) -> Window | NoEvidence:
    """The times that the query is for."""
    if query.range is None:
        return Window(now_s)
    times: list[float] = []
    for name, source in (("start", query.range.start), ("end", query.range.end)):
        try:
            times.append(moment_s(source, now_s=now_s))
        except (ExpressionInvalid, ExpressionFailed) as error:
            return NoEvidence(f"rangeQuery.{name}: {error}", Absence.ERROR)
    start_s, end_s = times
    step_s = query.range.step_s
    if not 0 < step_s < math.inf or not start_s <= end_s:
        return NoEvidence("rangeQuery: it needs a start before its end, and a step", Absence.ERROR)
    if (end_s - start_s) / step_s > POINTS_MAX:
        return NoEvidence(f"rangeQuery: more than {POINTS_MAX} points: make the step longer", Absence.ERROR)
    return Window(end_s, start_s, step_s)


def request_of(query: PrometheusQuery, endpoint: MetricEndpoint, window: Window) -> HttpRequest | NoEvidence:
    """What is sent."""
    if problem := header_problem(query.headers):
        return NoEvidence(problem, Absence.ERROR)
    values = {"query": query.query, "timeout": f"{query.timeout_s:g}s"}
    if window.start_s is None:
        path = QUERY_PATH
        values["time"] = f"{window.end_s:.3f}"
    else:
        path = RANGE_PATH
        values |= {"start": f"{window.start_s:.3f}", "end": f"{window.end_s:.3f}", "step": f"{window.step_s:g}"}
    try:
        form = urlencode(values, quote_via=quote)  # AWS signs a space as %20 and refuses one that is a plus
    except UnicodeEncodeError:
        return NoEvidence("the query has half of a surrogate pair in it, which is no text", Absence.ERROR)
    url, headers = endpoint.url.rstrip("/") + path, sent(query.headers)
    if len(url) + len(form) < URL_MAX:
        return HttpRequest(url=f"{url}?{form}", headers=headers, timeout_s=query.timeout_s)
    kind = ("Content-Type", Secret("application/x-www-form-urlencoded"))
    return HttpRequest(url=url, method="POST", headers=(*headers, kind), body=form.encode(), timeout_s=query.timeout_s)


def data_of(answer: HttpAnswer, _query: PrometheusQuery, window: Window) -> Numbers | NoEvidence:
    """The numbers that a query gave. Raises: nothing."""
    try:
        said = json_of(answer.body, _Answer)
        if said.status != "success" or said.data is None or answer.status != 200:
            return NoEvidence(_refusal(said, answer.status), Absence.ERROR)
        found = _numbers(said, said.data)
    except msgspec.DecodeError:
        if answer.status != 200:
            return NoEvidence(f"Prometheus answers {answer.status}", Absence.ERROR)
        return NoEvidence("the answer is not one of Prometheus' API", Absence.ERROR)
    return NoEvidence(problem) if isinstance(found, Numbers) and (problem := _out_of_time(found, window)) else found


def series_of(body: bytes) -> tuple[tuple[Series, ...] | None, str]:
    """The raw samples that an instant query for a range gave; None and the reason when it gave none that can be used.

    Raises: msgspec.DecodeError when it is no answer of Prometheus'.
    """
    answer = json_of(body, _Answer)
    if (problem := _problem(answer)) or answer.data is None:
        return None, problem
    if answer.data.result_type != "matrix":
        return None, f"the query returned a {_type(answer.data)}, not samples"
    found = [
        Series(counter.metric, tuple((at_s, _number(value)) for at_s, value in counter.values))
        for counter in msgspec.convert(answer.data.result, type=list[_Samples])
    ]
    if any(not math.isfinite(value) or value < 0 for counter in found for _, value in counter.samples):
        return None, "a counter has a value that is not a count"
    return tuple(found), ""


def in_flight(body: bytes) -> tuple[int | None, str]:
    """The count that an instant query gave, rounded up; None and the reason when it gave none.

    Raises: msgspec.DecodeError when it is no answer of Prometheus'.
    """
    answer = json_of(body, _Answer)
    if (problem := _problem(answer)) or answer.data is None:
        return None, problem
    if answer.data.result_type not in ("scalar", "vector"):
        return None, f"the query returned a {_type(answer.data)}, not one number"
    try:
        found = _numbers(answer, answer.data)
    except msgspec.ValidationError:
        return None, "the query did not return a number"
    if isinstance(found, NoEvidence):
        return None, found.why
    if len(found.samples) != 1:
        many = f"{len(found.samples)} series; sum() makes them one" if found.samples else "no series"
        return None, f"the query returned {many}"
    value = found.samples[0].value
    if not math.isfinite(value) or value < 0:
        return None, f"the query returned {value:g}, which is not a count"
    return math.ceil(value), ""


def _numbers(answer: _Answer, data: _Data) -> Numbers | NoEvidence:
    """Raises: msgspec.ValidationError."""
    samples: list[Sample] = []
    match data.result_type:
        case "scalar":
            at_s, value = msgspec.convert(data.result, type=tuple[float, str])
            samples = [Sample(_number(value), at_s)]
        case "vector":
            items = msgspec.convert(data.result, type=list[_Item])
            if any(item.value is None for item in items):
                return NoEvidence("the query returned histograms, not numbers")
            values = [item.value for item in items if item.value is not None]
            samples = [Sample(_number(value), at_s, place) for place, (at_s, value) in enumerate(values)]
        case "matrix":
            ranges = msgspec.convert(data.result, type=list[_Samples])
            if any(found.histograms for found in ranges):
                return NoEvidence("the query returned histograms, not numbers")
            samples = [
                Sample(_number(value), at_s, place)
                for place, found in enumerate(ranges)
                for at_s, value in found.values
            ]
        case _:
            return NoEvidence(f"the query returned a {_type(data)}, not numbers")
    return Numbers(ResultShape(data.result_type), tuple(samples), tuple(answer.warnings or ()))


def _number(text: str) -> float:
    """As Prometheus writes numbers; NaN for a text that is none."""
    return float(text) if _NUMBER.fullmatch(text) else _NOT_FINITE.get(text, math.nan)


def _out_of_time(found: Numbers, window: Window) -> str:
    """Why the values are of another time than was asked for, "" when they are not."""
    if not found.samples:
        return ""
    if window.start_s is not None:
        first, last = window.start_s - window.step_s - FUTURE_S, window.end_s + window.step_s + FUTURE_S
        if all(first <= sample.at_s <= last for sample in found.samples):
            return ""
        return "a value is of a time that was not asked for"
    latest: dict[int, float] = {}
    for sample in found.samples:
        latest[sample.series] = max(sample.at_s, latest.get(sample.series, -math.inf))
    if not all(at_s <= window.end_s + FUTURE_S for at_s in latest.values()):
        return "a value is of the future: a clock, or a unit of time, is wrong"
    if not all(at_s >= window.end_s - STALE_S for at_s in latest.values()):
        return f"a value is older than {STALE_S:g} s"
    return ""


def _refusal(answer: _Answer, status: int) -> str:
    """In words of ours: a status repeats nothing that a server says."""
    if status in (401, 403):
        return f"Prometheus does not take the credentials ({status})"
    kind = answer.error_type if answer.error_type in ERROR_TYPES else "unknown error"
    return f"the query failed: {kind}" + (f" ({status})" if status != 200 else "")


def _problem(answer: _Answer) -> str:
    if answer.status != "success" or answer.data is None:
        return _refusal(answer, 200)
    return "the answer has warnings, so it may be incomplete" if answer.warnings else ""


def _type(data: _Data) -> str:
    return data.result_type if data.result_type in RESULT_TYPES else "value of an unknown type"


class _Item(msgspec.Struct):
    metric: dict[str, str] = msgspec.field(default_factory=dict)  # checked, and not read
    value: tuple[float, str] | None = None


class _Samples(msgspec.Struct):
    metric: dict[str, str] = msgspec.field(default_factory=dict)
    values: list[tuple[float, str]] = msgspec.field(default_factory=list)
    histograms: list[Any] | None = None


class _Data(msgspec.Struct, rename="camel"):
    result_type: str = ""
    result: Any = None


class _Answer(msgspec.Struct, rename="camel"):
    status: str = ""
    data: _Data | None = None
    error_type: str = ""
    error: str = ""
    warnings: list[str] | None = None
