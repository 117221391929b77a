"""Promise: for the same samples and the same query the simulated Prometheus answers what the real one answers."""

from __future__ import annotations

import json
import math
import random
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import pytest

from rollouts.metrics.requests import HttpRequest
from rollouts.sim.network.prometheus.http_api import answered, number_text
from rollouts.sim.network.prometheus.samples import NAME, Labels, SampleStore, labels_of
from tests.lab.binaries import LabUnavailable
from tests.lab.prometheus_server import prometheus_with

LENGTH_S = 1_800
STEP_S = 15
GAP_S = range(600, 1_000)  # longer than the lookback

VALUES = (
    "http_requests_total",
    'http_requests_total{service="cart-canary"}',
    'http_requests_total{code!~"5..",service=~"cart-(canary|stable)"}',
    '{__name__=~"http_requests.*",code="500"}',
    "sum(rate(http_requests_total[1m]))",
    "sum by (service) (rate(http_requests_total[2m]))",
    "sum(rate(http_requests_total[2m])) by (service, code)",
    "avg without (pod) (increase(http_requests_total[5m]))",
    """sum(rate(http_requests_total{service="cart-canary",code!~"5.."}[2m]))
        / sum(rate(http_requests_total{service="cart-canary"}[2m]))""",
    'sum by (pod) (rate(http_requests_total{code="500"}[2m])) / sum by (pod) (rate(http_requests_total[2m]))',
    '100 * sum(increase(http_requests_total{code="500"}[90s])) / sum(increase(http_requests_total[90s])) > 2',
    "rate(http_requests_total[20s])",
    "irate(http_requests_total[1m])",
    "rate(http_requests_total[5m] offset 3m)",
    "increase(restarting_total[10m])",
    "delta(temperature[5m])",
    'histogram_quantile(0.95, sum by (le) (rate(http_request_duration_seconds_bucket{service="cart-canary"}[2m])))',
    "histogram_quantile(0.5, sum by (le, service) (rate(http_request_duration_seconds_bucket[5m])))",
    "histogram_quantile(0.99, http_request_duration_seconds_bucket)",
    "histogram_quantile(0, http_request_duration_seconds_bucket)",
    "histogram_quantile(1.5, http_request_duration_seconds_bucket)",
    "sum(rate(http_request_duration_seconds_sum[1m])) / sum(rate(http_request_duration_seconds_count[1m]))",
    "avg_over_time(temperature[5m])",
    "max_over_time(temperature[5m]) - min_over_time(temperature[5m])",
    "last_over_time(temperature[10m])",
    "sum_over_time(temperature[2m]) / count_over_time(temperature[2m])",
    "max(temperature)",
    "min(temperature) by (room)",
    "count(temperature)",
    "count(http_requests_total > 100)",
    "sum(temperature) / 0",
    "sum(temperature - temperature) / 0",
    "temperature > bool 20",
    "20 < temperature",
    "temperature and on (room) (temperature > 20)",
    "temperature unless temperature > 20",
    "temperature > 1000 or vector(0)",
    'absent(nothing_like_it{a="b",c=~"d"})',
    "absent(temperature)",
    "vector(1) * 3 ^ 2 ^ 0.5",
    "-temperature",
    "-2 ^ 2",
    "1 + 2 * 3 % 4 - 8 / 2",
    "2 > bool 1",
    "1 / 0",
    "-1 / 0",
    "0 / 0",
    "1e-7 * 3",
    "1e30",
    "scalar(sum(temperature))",
    "scalar(temperature)",
    "abs(-temperature)",
    "ceil(temperature) - floor(temperature)",
    "clamp_min(clamp_max(temperature, 22), 18)",
    "sum by (service) (rate(http_requests_total[2m])) * on (service) group(http_requests_total) by (service)",
    "temperature * ignoring (room) group(temperature) without (room)",
    "http_requests_total[45s]",
    "nan_gauge",
    "sum(nan_gauge)",
    "max(nan_gauge)",
    "nan_gauge == nan_gauge",
    "late_gauge",
    "gone_gauge",
    "count_over_time(gone_gauge[20m])",
    "# a comment\n  up_like{ task = 'a' , }",
    'up_like{task="a\\"b\\\\c"}',
    "time() - 5m",
)
NO_QUERIES = (
    "",
    "sum(",
    "sum)",
    "temperature[5m",
    "temperature[0s]",
    "rate(temperature)",
    "rate(temperature[5m], 2)",
    "sum(temperature[5m])",
    "{}",
    '{room=""}',
    'temperature{room=~"("}',
    "temperature + temperature[5m]",
    "1 > 2",
    "1 and 2",
    "no_such_function(1)",
    "temperature offset",
    "'unclosed",
    "http_requests_total / on (service) http_requests_total",
    "temperature * on (nothing) temperature",
    "temperature temperature",
)
RANGES = (
    "sum(rate(http_requests_total[1m]))",
    'sum(rate(http_requests_total{code="500"}[2m])) / sum(rate(http_requests_total[2m]))',
    "temperature > 20",
    "gone_gauge",
    "1 + 1",
    "temperature[5m]",
)


@dataclass(frozen=True, slots=True)
class Both:
    """The same samples in both."""

    url: str
    store: SampleStore
    end_s: int  # of the history


def _history(end_s: int) -> list[tuple[int, Labels, float]]:
    """Samples in the order of their times: counters that restart, a histogram, gauges, a gap, an end, a late begin."""
    rng = random.Random(7)  # noqa: S311
    found: list[tuple[int, Labels, float]] = []
    counts: dict[Labels, float] = {}
    for offset_s in range(0, LENGTH_S, STEP_S):
        at_ms = (end_s - LENGTH_S + offset_s) * 1000 + rng.randrange(0, 400)
        values: dict[Labels, float] = {}
        for service in ("cart-canary", "cart-stable"):
            for pod in ("a", "b"):
                if pod == "b" and offset_s in GAP_S:
                    continue
                where = {"service": service, "pod": f"{service}-{pod}"}
                for code, most in (("200", 40), ("500", 3)):
                    _count(counts, labels_of("http_requests_total", code=code, **where), rng.randrange(most))
                _observe(counts, where, rng)
                values |= {labels: count for labels, count in counts.items() if dict(labels).get("pod") == where["pod"]}
        restarting = labels_of("restarting_total")
        counts[restarting] = rng.randrange(20) if rng.random() < 0.1 else counts.get(restarting, 50) + rng.randrange(9)
        values[restarting] = counts[restarting]
        for room in ("hall", "attic"):
            values[labels_of("temperature", room=room, service=f"cart-{room}")] = 15 + 10 * rng.random()
        values[labels_of("nan_gauge", kind="nan")] = math.nan
        values[labels_of("nan_gauge", kind="number")] = 4.0
        values[labels_of("nan_gauge", kind="much")] = math.inf
        values[labels_of("up_like", task="a")] = 1.0
        values[labels_of("up_like", task='a"b\\c')] = 2.0
        if offset_s > LENGTH_S - 60:
            values[labels_of("late_gauge")] = float(offset_s)
        if offset_s < LENGTH_S - 360:
            values[labels_of("gone_gauge")] = float(offset_s)
        found += [(at_ms, labels, value) for labels, value in values.items()]
    return found


def _count(counts: dict[Labels, float], labels: Labels, more: int) -> None:
    counts[labels] = counts.get(labels, 0.0) + more


def _observe(counts: dict[Labels, float], where: dict[str, str], rng: random.Random) -> None:
    name = "http_request_duration_seconds"
    for _ in range(20):
        took_s = rng.expovariate(5.0)
        for bound in (0.05, 0.1, 0.25, 1.0, math.inf):
            le = "+Inf" if math.isinf(bound) else repr(bound)
            _count(counts, labels_of(f"{name}_bucket", le=le, **where), int(took_s <= bound))
        _count(counts, labels_of(f"{name}_count", **where), 1)
        labels = labels_of(f"{name}_sum", **where)
        counts[labels] = counts.get(labels, 0.0) + took_s


def _line(at_ms: int, labels: Labels, value: float) -> str:
    name = dict(labels)[NAME]
    rest = ",".join(f"{key}={json.dumps(text)}" for key, text in labels if key != NAME)
    return f"{name}{{{rest}}} {number_text(value)} {at_ms}\n"


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    """One history, scraped by a real Prometheus and kept by a simulated one."""
    end_s = int(time.time()) - 5
    history = [*_history(end_s), (end_s * 1000, labels_of("history_is_complete"), 1.0)]
    store = SampleStore()
    for at_ms, labels, value in history:
        store.series(labels).append(at_ms, value)
    text = "".join(_line(*sample) for sample in history)
    try:
        with prometheus_with(text, tmp_path_factory.mktemp("prometheus"), last="history_is_complete") as server:
            yield Both(server.url, store, end_s)
    except LabUnavailable as reason:
        pytest.skip(str(reason))


def _asked(both: Both, path: str, **values: str) -> tuple[tuple[int, Any], tuple[int, Any]]:
    """HTTP status and answer of the real one, and of the simulated one."""
    url = f"{both.url}{path}?{urlencode(values)}"
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310 - the loopback
            real = answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            real = error.code, json.load(error)
    ours = answered(HttpRequest(url=url, timeout_s=1.0), both.store, now_s=float(both.end_s))
    return real, (ours.status, json.loads(ours.text()))


def _comparable(answer: Any) -> Any:
    """Series by their labels, with numbers for texts."""
    data = answer["data"]
    if data["resultType"] == "scalar":
        return "scalar", {(): [_point(data["result"])]}
    series = {
        tuple(sorted(each["metric"].items())): [_point(point) for point in each.get("values") or [each["value"]]]
        for each in data["result"]
    }
    return data["resultType"], series


def _point(point: list[Any]) -> tuple[float, float]:
    return point[0], float(point[1].replace("Inf", "inf"))


def _assert_same(real: tuple[int, Any], ours: tuple[int, Any], what: str) -> None:
    assert (ours[0], ours[1]["status"]) == (real[0], real[1]["status"]), (what, real[1], ours[1])
    if real[1]["status"] == "error":
        assert ours[1]["errorType"] == real[1]["errorType"], what
        return
    (kind, wanted), (our_kind, found) = _comparable(real[1]), _comparable(ours[1])
    assert (our_kind, set(found)) == (kind, set(wanted)), what
    for labels, points in wanted.items():
        assert [at for at, _ in found[labels]] == [at for at, _ in points], (what, labels)
        values = [value for _, value in points]
        assert [value for _, value in found[labels]] == pytest.approx(values, rel=1e-9, abs=1e-12, nan_ok=True), what


@pytest.mark.parametrize("query", VALUES)
def test_an_instant_query_gives_the_same(both: Both, query: str) -> None:
    """At the end, at odd moments, inside a gap and before there was anything: the numbers that gates of updates rest on."""
    with_results = 0
    for before_s in (0.0, 0.5, 7.25, 61.0, 299.999, 300.0, 850.0, 1_795.0, 5_000.0):
        real, ours = _asked(both, "/api/v1/query", query=query, time=f"{both.end_s - before_s:.3f}")

        _assert_same(real, ours, f"{query} {before_s}")
        with_results += bool(real[1]["data"]["result"])
    assert with_results


@pytest.mark.parametrize("query", NO_QUERIES)
def test_what_is_no_query_is_refused_in_the_same_way(both: Both, query: str) -> None:
    """A template with a wrong query must fail in the simulation as it does in a cluster."""
    real, ours = _asked(both, "/api/v1/query", query=query, time=str(both.end_s))

    assert real[1]["status"] == "error"
    _assert_same(real, ours, query)


@pytest.mark.parametrize("query", RANGES)
def test_a_range_query_gives_the_same(both: Both, query: str) -> None:
    """Each step is evaluated for itself, the last one included."""
    start_s = both.end_s - LENGTH_S + 0.5
    for step in ("15", "47", "300"):
        values = {"query": query, "start": str(start_s), "end": str(both.end_s), "step": step}
        real, ours = _asked(both, "/api/v1/query_range", **values)

        _assert_same(real, ours, f"{query} {step}")


@pytest.mark.parametrize(
    "values",
    [
        {"query": "1", "start": "10", "end": "5", "step": "1"},
        {"query": "1", "start": "0", "end": "5", "step": "0"},
        {"query": "1", "start": "0", "end": "50000", "step": "1"},
        {"query": "1", "start": "then", "end": "5", "step": "1"},
        {"query": "1", "start": "0", "step": "1"},
    ],
    ids=lambda values: values.get("step", "") + values.get("end", "none"),
)
def test_a_bad_range_is_refused_in_the_same_way(both: Both, values: dict[str, str]) -> None:
    """Times and steps come from expressions that people write."""
    real, ours = _asked(both, "/api/v1/query_range", **values)

    assert real[1]["status"] == "error"
    _assert_same(real, ours, str(values))


def test_numbers_are_written_in_the_same_way(both: Both) -> None:
    """A condition shows the value as it came; a text that differs would show in every status."""
    for number in ("0.1", "1e-7", "123456789012345680000", "1e21", "1/3", "5", "-0.5", "1e-300", "0/0", "-1/0", "100"):
        real, ours = _asked(both, "/api/v1/query", query=number, time=str(both.end_s))

        assert ours[1]["data"]["result"] == real[1]["data"]["result"], number
