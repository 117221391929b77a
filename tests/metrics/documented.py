"""What Argo Rollouts' documentation shows of each metric server, and what its authors mean by it.

Queries and limits are restated from it; what a server gets and says is its own documentation's.
Source: Argo Rollouts v1.10.0, analysis/*.md
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from tests.metrics.answers import NOW_S
from tests.metrics.servers.fake import Asked, Series
from tests.metrics.servers.new_relic import with_rows_of

Sent: TypeAlias = Callable[[Asked], Any]
"""The part of a request that is the example's own."""


def series(*values: Any) -> list[Series]:
    """One series with these values, the newest first and in time."""
    return [[(NOW_S - 60 * place, value) for place, value in enumerate(values)]]


def _groups(*values: Any) -> list[Series]:
    return [[(NOW_S, value)] for value in values]


def datadog_v1(asked: Asked) -> Any:
    return asked.method, asked.path, asked.parameter("query")


def _datadog_v2(asked: Asked) -> Any:
    attributes = asked.body["data"]["attributes"]
    queries = {each["name"]: (each["query"], each["aggregator"]) for each in attributes["queries"]}
    return asked.method, asked.path, queries, attributes["formulas"], attributes["to"] - attributes["from"]


def _of_datadog(queries: Mapping[str, str], formula: str, aggregator: str = "last") -> Any:
    asked = {name: (query, aggregator) for name, query in queries.items()}
    return "POST", "/api/v2/query/scalar", asked, [{"formula": formula}], 300_000


def graphql(asked: Asked) -> Any:
    return asked.method, asked.path, asked.body["variables"]


def flux(asked: Asked) -> Any:
    return asked.method, asked.path, asked.body["query"]


def targets(asked: Asked) -> Any:
    return asked.method, asked.path, asked.parameters["target"]


def _wavefront(asked: Asked) -> Any:
    return asked.method, asked.path, asked.parameter("q")


def _skywalking(asked: Asked) -> Any:
    return asked.method, asked.path, asked.body["query"], asked.body["variables"]["duration"]["step"]


def cloud_watch(asked: Asked) -> Any:
    ids = [(query["Id"], query["ReturnData"]) for query in asked.body["MetricDataQueries"]]
    return asked.headers["x-amz-target"], ids, asked.body["EndTime"] - asked.body["StartTime"]


def dynatrace(asked: Asked) -> Any:
    return asked.method, asked.path, asked.parameter("metricSelector")


def mql(asked: Asked) -> Any:
    return asked.method, asked.path, asked.body["query"]


def splunk(asked: Asked) -> Any:
    return asked.method, asked.path, asked.body


@dataclass(frozen=True, kw_only=True)
class Documented:
    """One example.

    Args:
        fake: name of the server's fake.
        metric: as Argo Rollouts' page has it, or a MetricTemplate's spec with the `thresholdRange` of its use.
        args: values of the template's arguments.
        sends, sent: what the server must be asked.
        good, bad: what is stored there when the authors mean a success, and a failure.
        body: what the server answers, where the question decides its form; None for the fake's.
    """

    name: str
    fake: str
    metric: Mapping[str, Any]
    args: Mapping[str, str] = field(default_factory=dict)
    sends: Sent
    sent: Any
    good: Sequence[Sequence[Series]]
    bad: Sequence[Sequence[Series]]
    body: Callable[[Sequence[Series]], Any] | None = None


_SERVICE = {"service-name": "shop"}
_ERRORS = "sum:requests.errors{service:{{args.service-name}}}.as_count()"
_REQUESTS = "sum:requests{service:{{args.service-name}}}.as_count()"
_ROLLED = "moving_rollup(a, 300, 'sum') / moving_rollup(b, 300, 'sum') * 100"
_RESTARTS = "max:kubernetes.containers.restarts{service-name:%s,rollouts_pod_template_hash:%s}"
_BY_RESOURCE = "sum:trace.http.request.errors{service:my-service} by {resource_name}.as_count()"
_NRQL = (
    "FROM Transaction SELECT percentage(count(*), WHERE httpResponseCode != 500) as successRate where appName = '%s'"
)
STATS = "stats.timers.httpServerRequests.app.%s.exception.*.method.*.outcome.%s.status.*.uri.*.count"
GOOD_OUTCOMES = "{CLIENT_ERROR,INFORMATIONAL,REDIRECTION,SUCCESS}"
_FLUX = (
    'from(bucket: "app_istio")\n  |> range(start: -15m)\n  |> filter(fn: (r) => r["destination_workload"] == "%s")\n'
    '  |> filter(fn: (r) => r["_measurement"] == "istio:istio_requests_errors_percentage:rate1m:5xx")\n'
)
_APDEX = (
    'query queryData($duration: Duration!) {\n  service_apdex: readMetricsValues(\n    condition: { name: "service_apdex",'
    ' entity: { scope: Service, serviceName: "%s", normal: true } },\n    duration: $duration) {\n'
    "      label values { values { value } }\n    }\n}\n"
)
_TS = (
    'sum(rate(\n  5m, ts("istio.requestcount.count", response_code!=500 and destination_service="%s"\n))) /\n'
    'sum(rate(\n  5m, ts("istio.requestcount.count", reporter=client and destination_service="%s"\n)))\n'
)


def _asked_by_argo(provider: str, success: str = "", failure: str = "", **fields: Any) -> dict[str, Any]:
    conditions = {"successCondition": success} if success else {"failureCondition": failure}
    return {"name": "m", **conditions, "provider": {provider: fields}}


def percent(good: str, all_of_them: str, window: str) -> str:
    """A target of Graphite that is a share."""
    return f"summarize(asPercent(sumSeries({good}),sumSeries({all_of_them})),{window},'avg')"


def _stat(name: str, namespace: str, period: int, *dimensions: Any) -> dict[str, Any]:
    metric = {"namespace": namespace, "metricName": name}
    if dimensions:
        metric["dimensions"] = list(dimensions)  # type: ignore[assignment]
    return {"metric": metric, "period": period, "stat": "Sum", "unit": "Count"}


ARGO: tuple[Documented, ...] = (
    Documented(
        name="datadog.md: one query of version 2",
        fake="datadog v2",
        metric=_asked_by_argo(
            "datadog",
            "result <= 0.01",
            apiVersion="v2",
            interval="5m",
            query="sum:requests.error.rate{service:{{args.service-name}}}\n",
        ),
        args=_SERVICE,
        sends=_datadog_v2,
        sent=_of_datadog({"query": "sum:requests.error.rate{service:shop}\n"}, "query"),
        good=[series(0.01), series(0)],
        bad=[series(0.02)],
    ),
    Documented(
        name="datadog.md: a formula in a query of version 1, whose last point counts",
        fake="datadog v1",
        metric=_asked_by_argo(
            "datadog",
            "default(result, 0) < 10",
            apiVersion="v1",
            interval="5m",
            query=f"moving_rollup({_ERRORS}, 60, 'sum') / {_REQUESTS}",
        ),
        args=_SERVICE,
        sends=datadog_v1,
        sent=(
            "GET",
            "/api/v1/query",
            "moving_rollup(sum:requests.errors{service:shop}.as_count(), 60, 'sum') / sum:requests{service:shop}.as_count()",
        ),
        good=[series(9, 11, 12)],
        bad=[series(11, 9, 8)],
    ),
    Documented(
        name="datadog.md: the same by version 2",
        fake="datadog v2",
        metric=_asked_by_argo(
            "datadog",
            "default(result, 0) < 10",
            apiVersion="v2",
            interval="5m",
            queries={"a": _ERRORS, "b": _REQUESTS},
            formula="moving_rollup(a, 60, 'sum') / b",
        ),
        args=_SERVICE,
        sends=_datadog_v2,
        sent=_of_datadog(
            {"a": "sum:requests.errors{service:shop}.as_count()", "b": "sum:requests{service:shop}.as_count()"},
            "moving_rollup(a, 60, 'sum') / b",
        ),
        good=[series(9)],
        bad=[series(10)],
    ),
    Documented(
        name="datadog.md: restarts, which fail above an argument",
        fake="datadog v2",
        metric=_asked_by_argo(
            "datadog",
            failure="default(result, 0) > {{ args.restarts.max-restarts }}",
            apiVersion="v2",
            interval="5m",
            queries={"q": _RESTARTS % ("{{args.service-name}}", "{{args.canary-hash}}")},
        ),
        args={"service-name": "shop", "canary-hash": "5f6", "restarts.max-restarts": "4"},
        sends=_datadog_v2,
        sent=_of_datadog({"q": _RESTARTS % ("shop", "5f6")}, "q"),
        good=[series(4)],
        bad=[series(5)],
    ),
    Documented(
        name="datadog.md: a sum in percent, and more time",
        fake="datadog v2",
        metric=_asked_by_argo(
            "datadog",
            "default(result, 0) < 5",
            apiVersion="v2",
            interval="5m",
            aggregator="sum",
            requestTimeout="30s",
            queries={
                "a": "count:requests.errors{service:my-service}.as_count()",
                "b": "count:requests{service:my-service}.as_count()",
            },
            formula=_ROLLED,
        ),
        sends=_datadog_v2,
        sent=_of_datadog(
            {
                "a": "count:requests.errors{service:my-service}.as_count()",
                "b": "count:requests{service:my-service}.as_count()",
            },
            _ROLLED,
            "sum",
        ),
        good=[series(4.9)],
        bad=[series(5)],
    ),
    Documented(
        name="datadog.md: a number for each group, of which the worst counts",
        fake="datadog v2",
        metric=_asked_by_argo("datadog", "max(result) < 0.05", apiVersion="v2", interval="5m", query=_BY_RESOURCE),
        sends=_datadog_v2,
        sent=_of_datadog({"query": _BY_RESOURCE}, "query"),
        good=[_groups(0.01, 0.04)],
        bad=[_groups(0.01, 0.06), _groups(0.06, 0.01)],
    ),
    Documented(
        name="newrelic.md",
        fake="newRelic",
        metric=_asked_by_argo(
            "newRelic",
            "result.successRate >= 0.95",
            profile="my-newrelic-secret",
            timeout=10,
            query=_NRQL % "{{ args.application-name }}",
        ),
        args={"application-name": "shop"},
        sends=graphql,
        sent=("POST", "/graphql", {"accountId": 1234567, "query": _NRQL % "shop", "timeout": 10}),
        good=[series(0.95)],
        bad=[series(0.94)],
        body=with_rows_of("successRate"),
    ),
    Documented(
        name="wavefront.md",
        fake="wavefront",
        metric=_asked_by_argo(
            "wavefront",
            "result >= 0.95",
            address="example.wavefront.com",
            query=_TS % ("{{args.service-name}}", "{{args.service-name}}"),
        ),
        args=_SERVICE,
        sends=_wavefront,
        sent=("GET", "/api/v2/chart/api", _TS % ("shop", "shop")),
        good=[series(0.95, 0.5)],
        bad=[series(0.94, 0.99)],
    ),
    Documented(
        name="graphite.md, with result for its results",
        fake="graphite",
        metric=_asked_by_argo(
            "graphite",
            "result[0] >= 90.000000",
            address="http://graphite.example.com:9090",
            query="target="
            + percent(
                f"\n  {STATS % ('{{args.service-name}}', GOOD_OUTCOMES)}\n",
                f"\n  {STATS % ('{{args.service-name}}', '*')}\n",
                "\n  '5min'",
            ),
        ),
        args=_SERVICE,
        sends=targets,
        sent=(
            "GET",
            "/render",
            [percent(STATS % ("shop", GOOD_OUTCOMES), STATS % ("shop", "*"), "'5min'")],
        ),
        good=[series(90)],
        bad=[series(89.9)],
    ),
    Documented(
        name="influxdb.md",
        fake="influxdb",
        metric=_asked_by_argo(
            "influxdb", "result[0] <= 0.01", profile="my-influxdb-secret", query=_FLUX % "{{ args.application-name }}"
        ),
        args={"application-name": "shop"},
        sends=flux,
        sent=("POST", "/api/v2/query", _FLUX % "shop"),
        good=[series(0.01)],
        bad=[series(0.02)],
    ),
    Documented(
        name="skywalking.md",
        fake="skywalking",
        metric=_asked_by_argo(
            "skywalking",
            "all(result.service_apdex.values.values, {asFloat(.value) >= 9900})",
            interval="3m",
            address="http://skywalking-oap.istio-system:12800",
            query=_APDEX % "{{ args.service-name }}",
        ),
        args=_SERVICE,
        sends=_skywalking,
        sent=("POST", "/graphql", _APDEX % "shop", "MINUTE"),
        good=[series(9900, 10_000)],
        bad=[series(9899, 10_000), series(10_000, 0)],
    ),
    Documented(
        name="cloudwatch.md",
        fake="cloudWatch",
        metric=_asked_by_argo(
            "cloudWatch",
            "len(result[0].Values) >= 5 and all(result[0].Values, {# <= 0.01})",
            interval="30m",
            metricDataQueries=[
                {"id": "rate", "expression": "errors / requests"},
                *(
                    {"id": name, "metricStat": _stat(name, "app", 300), "returnData": False}
                    for name in ("errors", "requests")
                ),
            ],
        ),
        sends=cloud_watch,
        sent=(
            "GraniteServiceVersion20100801.GetMetricData",
            [("rate", True), ("errors", False), ("requests", False)],
            1_800,
        ),
        good=[series(0.0045, 0.0058, 0.0067, 0.0084, 0.0069, 0.0045)],
        bad=[series(0.0029, 0.0061, 0.0102, 0.0079, 0.0059, 0.0063), series(0.001, 0.001, 0.001, 0.001)],
    ),
)
