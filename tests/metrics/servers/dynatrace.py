"""Dynatrace's metrics API.

Source: https://docs.dynatrace.com/docs/dynatrace-api/environment-api/metric-v2/get-data-points
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.metrics.answers import MARK, NOW_S
from tests.metrics.servers.fake import Asked, Fake, Series, answered, one, timed


def _objection(asked: Asked) -> str:
    if (asked.method, asked.path) != ("GET", "/api/v2/metrics/query"):
        return "no such path"
    wanted = {
        "metricSelector": ["builtin:service.errors.total.rate:avg"],
        "resolution": ["Inf"],
        "from": [str(int(NOW_S - 600) * 1_000)],
        "to": [str(int(NOW_S) * 1_000)],
    }
    return "" if dict(asked.parameters) == wanted else "other parameters"


def _body(series: Sequence[Series], **more: Any) -> dict[str, Any]:
    data = [
        {
            "dimensions": [f"{MARK}-{place}"],
            "timestamps": [timed(at_s, 1_000) for at_s, _ in each],
            "values": [value for _, value in each],
        }
        for place, each in enumerate(series)
    ]
    result = [{"metricId": MARK, "dataPointCountRatio": 0.1, "dimensionCountRatio": 0.1, "data": data}]
    return {"totalCount": len(data), "nextPageKey": None, "resolution": "Inf", "result": result, **more}


def _data(data: Any) -> dict[str, Any]:
    return {"nextPageKey": None, "result": [{"metricId": "x", "data": data}]}


_WARNED = {"warnings": [f"{MARK}: limited"], "metricId": "x", "data": _body(one(1))["result"][0]["data"]}

FAKES = (
    Fake(
        name="dynatrace",
        kind="dynatrace",
        metric={"query": "builtin:service.errors.total.rate:avg", "interval": "10m"},
        objection=_objection,
        body=_body,
        result="result",
        bearer=True,
        scheme="Api-Token",
        refused=(400, {"error": {"code": 400, "message": "no"}}),
        bad={
            "a further page": answered(_body(one(1), nextPageKey="AQAAABQ")),
            "warnings": answered(_body(one(1), warnings=[MARK])),
            "warnings of a metric": answered({"nextPageKey": None, "result": [_WARNED]}),
            "an error with 200": answered(_body(one(1), error={"code": 429, "message": MARK})),
            "fewer times than values": answered(_data([{"timestamps": [NOW_S * 1_000], "values": [1, 1]}])),
            "more times than values": answered(_data([{"timestamps": [NOW_S * 1_000] * 2, "values": [1]}])),
            "values without times": answered(_data([{"values": [1]}])),
            "times without values": answered(_data([{"timestamps": [NOW_S * 1_000]}])),
            "data that is null": answered(_data(None)),
            "no result": answered({"totalCount": 0, "nextPageKey": None}),
            "a result that is null": answered({"totalCount": 0, "nextPageKey": None, "result": None}),
            "a metric without data": answered({"nextPageKey": None, "result": [{"metricId": "x"}]}),
            "no metric": answered({"totalCount": 0, "nextPageKey": None, "result": []}),
        },
    ),
)

WHOLE = [("dynatrace", {"metricProvider": "dynatrace", "query": "builtin:a:avg", "interval": "5m"})]
