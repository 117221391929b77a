"""Apache SkyWalking's GraphQL.

Source: https://skywalking.apache.org/docs/main/latest/en/api/query-protocol/
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from tests.metrics.answers import MARK, NOW_S
from tests.metrics.servers.fake import ADDRESS, Asked, Fake, Series, answered, one

QUERY = (
    "query queryData($duration: Duration!) { service_apdex: readMetricsValues(condition:"
    ' { name: "service_apdex", entity: { scope: Service, serviceName: "shop", normal: true } },'
    " duration: $duration) { label values { values { value isEmptyValue } } } }"
)


def _minute(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%d %H%M")


def _objection(asked: Asked) -> str:
    if (asked.method, asked.path, asked.headers.get("content-type")) != ("POST", "/graphql", "application/json"):
        return "no such path"
    duration = {"start": _minute(NOW_S - 180), "end": _minute(NOW_S), "step": "MINUTE"}
    return "" if asked.body == {"query": QUERY, "variables": {"duration": duration}} else "another query"


def _body(series: Sequence[Series], **more: Any) -> dict[str, Any]:
    """What it has no value of it gives as 0, and says so."""
    values = [
        {"value": 0, "isEmptyValue": True} if value is None else {"value": value}
        for each in series
        for _, value in each
    ]
    return {"data": {"service_apdex": {"label": None, "values": {"values": values}}}, **more}


FAKES = (
    Fake(
        name="skywalking",
        kind="skywalking",
        metric={"query": QUERY, "interval": "3m"},
        objection=_objection,
        body=_body,
        result="result.service_apdex.values.values[0].value",
        whole=True,
        times=False,
        rows=True,
        document=True,
        refused=(200, {"errors": [{"message": "Validation error of type FieldUndefined"}]}),
        bad={
            "an error with 200": answered({"data": None, "errors": [{"message": MARK}]}),
            "an error beside data": answered(_body(one(1), errors=[{"message": MARK}])),
            "no data": answered({}),
            "data that is null": answered({"data": None}),
            "no such metric": answered({"data": {"service_apdex": None}}),
            "values that are null": answered({"data": {"service_apdex": {"values": None}}}),
            "a zero that stands for nothing": answered(_body(one(None))),
        },
    ),
)

WHOLE = [
    ("skywalking", {"metricProvider": "skywalking", "query": QUERY, "interval": "5m"}),
    ("skywalking", {"address": ADDRESS, "query": QUERY}),
]
