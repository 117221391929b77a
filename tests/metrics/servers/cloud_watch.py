"""Amazon CloudWatch's GetMetricData by its JSON protocol, which checks signatures by AWS's own library.

Source: https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_GetMetricData.html
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.metrics.answers import MARK, NOW_S
from tests.metrics.servers.fake import Asked, Fake, Series, answered, one, timed

STAT = {
    "metric": {
        "namespace": "AWS/ApplicationELB",
        "metricName": "HTTPCode_Target_5XX_Count",
        "dimensions": [{"name": "LoadBalancer", "value": "app/shop/123"}],
    },
    "period": 300,
    "stat": "Sum",
    "unit": "Count",
}
QUERIES: list[dict[str, Any]] = [
    {"id": "rate", "expression": "errors / 100", "label": "rate"},
    {"id": "errors", "metricStat": STAT, "returnData": False},
]


def _objection(asked: Asked) -> str:
    if (asked.method, asked.path) != ("POST", "/"):
        return "no such path"
    if asked.headers.get("x-amz-target") != "GraniteServiceVersion20100801.GetMetricData":
        return "another operation"
    if asked.headers.get("content-type") != "application/x-amz-json-1.0":
        return "another protocol"
    metric = {
        "Namespace": "AWS/ApplicationELB",
        "MetricName": "HTTPCode_Target_5XX_Count",
        "Dimensions": [{"Name": "LoadBalancer", "Value": "app/shop/123"}],
    }
    stat = {"Metric": metric, "Period": 300, "Stat": "Sum", "Unit": "Count"}
    wanted = {
        "StartTime": int(NOW_S) - 1_800,
        "EndTime": int(NOW_S),
        "ScanBy": "TimestampDescending",
        "MetricDataQueries": [
            {"Id": "rate", "Expression": "errors / 100", "Label": "rate", "ReturnData": True},
            {"Id": "errors", "MetricStat": stat, "ReturnData": False},
        ],
    }
    return "" if asked.body == wanted else "another query"


def _body(series: Sequence[Series], status: str = "Complete", **more: Any) -> dict[str, Any]:
    results = [
        {
            "Id": f"q{place}",
            "Label": MARK,
            "Timestamps": [timed(at_s) for at_s, _ in each],
            "Values": [value for _, value in each],
            "StatusCode": status,
        }
        for place, each in enumerate(series)
    ]
    return {"MetricDataResults": results, "Messages": [], **more}


def _result(**fields: Any) -> Any:
    good = _body(one(1))["MetricDataResults"][0]
    changed = {name: value for name, value in {**good, **fields}.items() if value != "gone"}
    return answered({"MetricDataResults": [changed], "Messages": []})


FAKES = (
    Fake(
        name="cloudWatch",
        kind="cloudWatch",
        metric={"interval": "30m", "metricDataQueries": QUERIES},
        objection=_objection,
        body=_body,
        result="result[0].Values[0]",
        whole=True,
        document=True,
        signed="monitoring",
        refused=(403, {"__type": "AccessDenied"}),
        bad={
            "a further page": answered(_body(one(1), NextToken="next")),
            "a part": answered(_body(one(1), status="PartialData")),
            "an error within": answered(_body(one(1), status="InternalError")),
            "nobody may see it": answered(_body(one(1), status="Forbidden")),
            "messages": answered(_body(one(1), Messages=[{"Code": "x", "Value": MARK}])),
            "messages of a result": _result(Messages=[{"Code": "MaxMetricsExceeded", "Value": MARK}]),
            "the oldest first": answered(_body([[(NOW_S - 600, 1.0), (NOW_S - 300, 200.0)]])),
            "fewer times than values": _result(Values=[1.0, 1.0]),
            "no times": _result(Timestamps="gone"),
            "no values": _result(Values="gone"),
            "values that are null": _result(Values=None),
            "results that are null": answered({"MetricDataResults": None, "Messages": []}),
            "no results": answered({"Messages": []}),
            "an error with 200": answered(_body(one(1), __type="InternalServiceFault")),
        },
    ),
)

WHOLE = [
    (
        "cloudWatch",
        {"metricProvider": "cloudwatch", "interval": "5m", "metricDataQueries": [{**QUERIES[0], "period": 60}]},
    ),
    ("cloudWatch", {"metricDataQueries": [QUERIES[1]]}),
]
