"""Google Cloud Monitoring, asked by a filter and in its query language.

Sources: https://cloud.google.com/monitoring/api/ref_v3/rest/v3/projects.timeSeries/list, and …/query;
https://protobuf.dev/programming-guides/json/
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from tests.metrics.answers import MARK, NOW_S
from tests.metrics.servers.fake import Asked, Fake, Series, answered, one

FILTER = 'metric.type="istio.io/service/server/request_count" AND resource.labels.namespace_name="shop"'
QUERY = "fetch k8s_container | metric 'istio.io/service/server/response_latencies' | within 5m"


def _time(at_s: Any) -> Any:
    if isinstance(at_s, bool) or not isinstance(at_s, int | float) or not 0 <= at_s < 1e11:
        return at_s
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _value(value: Any) -> Any:
    """As protocol buffers write it: a whole number is a text. What is no number has another member, or is none at all."""
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"int64Value": str(value)}
    return None if value is None else {"doubleValue": value}


def _objection(asked: Asked) -> str:
    if (asked.method, asked.path) != ("GET", "/v3/projects/shop-1/timeSeries"):
        return "no such path"
    wanted = {
        "filter": [FILTER],
        "interval.startTime": [_second(NOW_S - 600)],
        "interval.endTime": [_second(NOW_S)],
        "aggregation.alignmentPeriod": ["600s"],
        "aggregation.perSeriesAligner": ["ALIGN_RATE"],
        "aggregation.crossSeriesReducer": ["REDUCE_SUM"],
    }
    return "" if dict(asked.parameters) == wanted else "other parameters"


def _second(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _body(series: Sequence[Series], **more: Any) -> dict[str, Any]:
    """A server that has none leaves the list out."""
    found = [
        {
            "metric": {"type": MARK},
            "valueType": "DOUBLE",
            "points": [
                {"interval": {"startTime": _time(at_s), "endTime": _time(at_s)}, "value": _value(value)}
                for at_s, value in each
            ],
        }
        for each in series
    ]
    return {**({"timeSeries": found} if found else {}), "unit": "1", **more}


def _asked_in_mql(asked: Asked) -> str:
    if (asked.method, asked.path) != ("POST", "/v3/projects/shop-1/timeSeries:query"):
        return "no such path"
    return "" if asked.body == {"query": QUERY} else "another query"


def _data(series: Sequence[Series], **more: Any) -> dict[str, Any]:
    found = [
        {
            "labelValues": [{"stringValue": MARK}],
            "pointData": [
                {"values": [_value(value)], "timeInterval": {"startTime": _time(at_s), "endTime": _time(at_s)}}
                for at_s, value in each
            ],
        }
        for each in series
    ]
    return {"timeSeriesDescriptor": {"labelDescriptors": []}, "timeSeriesData": found, **more}


def _point(value: Any) -> Any:
    points = [{"interval": {"endTime": _time(NOW_S)}, "value": value}]
    return answered({"timeSeries": [{"points": points}]})


_ERROR = {"error": {"code": 403, "status": "PERMISSION_DENIED", "message": "no"}}

FAKES = (
    Fake(
        name="cloudMonitoring",
        kind="cloudMonitoring",
        metric={"filter": FILTER, "aligner": "ALIGN_RATE", "reducer": "REDUCE_SUM", "interval": "10m"},
        objection=_objection,
        body=_body,
        result="result",
        bearer=True,
        settings={"project": "shop-1"},
        refused=(403, _ERROR),
        bad={
            "a further page": answered(_body(one(1), nextPageToken="next")),
            "errors beside good numbers": answered(_body(one(1), executionErrors=[{"code": 4}])),
            "an error with 200": answered({**_body(one(1)), **_ERROR}),
            "a distribution": _point({"distributionValue": {"count": "1", "mean": 1}}),
            "a text": _point({"stringValue": "1"}),
            "a whole number that is none": _point({"int64Value": "1.5"}),
            "a whole number that is a number": _point({"int64Value": 1}),
            "a whole number of many digits": _point({"int64Value": "1" * 400}),
            "two values in one": _point({"int64Value": "1", "doubleValue": 1}),
            "a value without a type": _point({}),
            "a point without a value": answered(
                {"timeSeries": [{"points": [{"interval": {"endTime": _time(NOW_S)}}]}]}
            ),
            "a series without points": answered({"timeSeries": [{"metric": {}}]}),
            "series that are null": answered({"timeSeries": None}),
        },
    ),
    Fake(
        name="cloudMonitoring in its query language",
        kind="cloudMonitoring",
        metric={"query": QUERY},
        objection=_asked_in_mql,
        body=_data,
        result="result",
        bearer=True,
        settings={"project": "shop-1"},
        refused=(400, _ERROR),
        bad={
            "a further page": answered(_data(one(1), nextPageToken="next")),
            "errors beside good numbers": answered(_data(one(1), partialErrors=[{"code": 4}])),
            "an error with 200": answered({**_data(one(1)), **_ERROR}),
            "points without values": answered({"timeSeriesData": [{"pointData": [{"values": []}]}]}),
            "data that is null": answered({"timeSeriesData": None}),
        },
    ),
)

WHOLE = [
    (
        "cloudMonitoring",
        {
            "metricProvider": "google",
            "filter": FILTER,
            "aligner": "ALIGN_MEAN",
            "reducer": "REDUCE_SUM",
            "interval": "5m",
        },
    ),
    ("cloudMonitoring", {"query": QUERY}),
]
