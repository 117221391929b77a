"""What Flagger's documentation shows of each metric server, and what its authors mean by it (`documented.py`).

Source: https://docs.flagger.app/usage/metrics
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.metrics.documented import (
    GOOD_OUTCOMES,
    STATS,
    Documented,
    cloud_watch,
    datadog_v1,
    dynatrace,
    flux,
    graphql,
    mql,
    percent,
    series,
    splunk,
    targets,
)
from tests.metrics.servers.new_relic import with_rows_of

_MESH = "reporter:destination,destination_workload_namespace:%s,destination_workload:%s"
_COUNT = "sum:istio.mesh.request.count"
_NOT_FOUND = "100 - ({count}{{{mesh},!response_code:404}}.as_count() / {count}{{{mesh}}}.as_count()) * 100"
_NGINX = (
    "SELECT filter(sum(nginx_ingress_controller_requests), WHERE status >= '500') / "
    "sum(nginx_ingress_controller_requests) * 100 FROM Metric WHERE metricName = 'nginx_ingress_controller_requests' "
    "AND ingress = '%s' AND namespace = '%s'"
)
_COUNTED = (
    'from(bucket: "default") |> range(start: -2h) |> filter(fn: (r) => r["destination_workload"] == "%s") |> count()'
)
_PERCENTILE = "builtin:service.response.time:filter(eq(dt.entity.service,SERVICE-ABCDEFG0123456789)):percentile(95)"
_MQL = (
    "fetch k8s_container\n| metric 'istio.io/service/server/response_latencies'\n| filter\n"
    "    (metric.destination_service_name == '%s-canary'\n    && metric.destination_service_namespace == '%s')\n"
    "| align delta(1m)\n| every 1m\n| group_by [],\n    [value_response_latencies_percentile:\n"
    "      percentile(value.response_latencies, 99)]\n"
)
_TRACES = (
    "total = data('traces.count', filter=filter('sf_service', '{0}')).sum().publish(enable=False)\n"
    "success = data('traces.count', filter=filter('sf_service', '{0}') and filter('sf_error', 'false')).sum()"
    ".publish(enable=False)\n((success/total) * 100).publish()\n"
)


def _aws(name: str) -> dict[str, Any]:
    metric = {
        "Namespace": "MyKubernetesCluster",
        "MetricName": name,
        "Dimensions": [{"Name": "appName", "Value": "{{ name }}.{{ namespace }}"}],
    }
    return {"Metric": metric, "Period": 60, "Stat": "Sum", "Unit": "Count"}


_AWS_QUERIES = [
    {"Id": "e1", "Expression": "m1 / m2", "Label": "ErrorRate"},
    {"Id": "m1", "MetricStat": _aws("ErrorCount"), "ReturnData": False},
    {"Id": "m2", "MetricStat": _aws("RequestCount"), "ReturnData": False},
]


def _of_flagger(provider: Mapping[str, Any], query: str, interval: str = "1m", **limits: float) -> dict[str, Any]:
    return {"provider": provider, "query": query, "interval": interval, "thresholdRange": limits}


def _account(secret: str) -> dict[str, Any]:
    return {"secretRef": {"name": secret}}


FLAGGER: tuple[Documented, ...] = (
    Documented(
        name="Datadog",
        fake="datadog v1",
        metric=_of_flagger(
            {"type": "datadog", "address": "https://api.datadoghq.com", **_account("datadog")},
            _NOT_FOUND.format(count=_COUNT, mesh=_MESH % ("{{ namespace }}", "{{ target }}")),
            max=5,
        ),
        sends=datadog_v1,
        sent=("GET", "/api/v1/query", _NOT_FOUND.format(count=_COUNT, mesh=_MESH % ("test", "podinfo"))),
        good=[series(5, 9)],
        bad=[series(5.1, 1)],
    ),
    Documented(
        name="Amazon CloudWatch",
        fake="cloudWatch",
        metric=_of_flagger({"type": "cloudwatch", "region": "ap-northeast-1"}, json.dumps(_AWS_QUERIES), max=0.1),
        sends=cloud_watch,
        sent=("GraniteServiceVersion20100801.GetMetricData", [("e1", True), ("m1", False), ("m2", False)], 600),
        good=[series(0.1, 0.2)],
        bad=[series(0.11, 0)],
    ),
    Documented(
        name="New Relic",
        fake="newRelic",
        metric=_of_flagger(
            {"type": "newrelic", **_account("newrelic")}, _NGINX % ("{{ ingress }}", "{{ namespace }}"), max=5
        ),
        sends=graphql,
        sent=(
            "POST",
            "/graphql",
            {"accountId": 1234567, "query": f"{_NGINX % ('podinfo', 'test')} SINCE 60 seconds ago", "timeout": 5},
        ),
        good=[series(5)],
        bad=[series(5.1)],
        body=with_rows_of("result"),
    ),
    Documented(
        name="Graphite",
        fake="graphite",
        metric=_of_flagger(
            {"type": "graphite", "address": "http://graphite.monitoring"},
            "target="
            + percent(
                f"\n  {STATS % ('{{target}}', GOOD_OUTCOMES)}\n",
                f"\n  {STATS % ('{{target}}', '*')}\n",
                "{{interval}}",
            ),
            interval="1min",
            min=90,
        ),
        sends=targets,
        sent=("GET", "/render", [percent(STATS % ("podinfo", GOOD_OUTCOMES), STATS % ("podinfo", "*"), "1min")]),
        good=[series(90)],
        bad=[series(89)],
    ),
    Documented(
        name="InfluxDB",
        fake="influxdb",
        metric=_of_flagger({"type": "influxdb", **_account("influx-token")}, _COUNTED % "{{ target }}", max=3),
        sends=flux,
        sent=("POST", "/api/v2/query", _COUNTED % "podinfo"),
        good=[series(3)],
        bad=[series(4)],
    ),
    Documented(
        name="Dynatrace",
        fake="dynatrace",
        metric=_of_flagger(
            {"type": "dynatrace", "address": "https://xxxxxxxx.live.dynatrace.com", **_account("dynatrace")},
            _PERCENTILE,
            max=1000,
        ),
        sends=dynatrace,
        sent=("GET", "/api/v2/metrics/query", _PERCENTILE),
        good=[series(1000)],
        bad=[series(1001)],
    ),
    Documented(
        name="Google Cloud Monitoring, with a limit",
        fake="cloudMonitoring in its query language",
        metric=_of_flagger(
            {"type": "stackdriver", **_account("gcloud-sa")}, _MQL % ("{{ service }}", "{{ namespace }}"), max=500
        ),
        sends=mql,
        sent=("POST", "/v3/projects/shop-1/timeSeries:query", _MQL % ("podinfo", "test")),
        good=[series(500.0, 900.0), series(500)],
        bad=[series(501.0, 1.0), series(501)],
    ),
    Documented(
        name="Splunk, with a minimum for its maximum",
        fake="splunk",
        metric=_of_flagger(
            {"type": "splunk", "address": "https://api.us1.signalfx.com", **_account("splunk")},
            _TRACES.format("{{target}}"),
            min=99,
        ),
        sends=splunk,
        sent=("POST", "/v2/signalflow/execute", _TRACES.format("podinfo")),
        good=[series(99, 50)],
        bad=[series(98, 100)],
    ),
)
URLS = {
    "Amazon CloudWatch": "https://monitoring.ap-northeast-1.amazonaws.com",
    "Splunk, with a minimum for its maximum": "https://stream.us1.signalfx.com",
}
"""Of the MetricProviders that come out, where an address of the input is none."""
