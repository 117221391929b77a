"""Datadog's two versions of its API.

Source: https://docs.datadoghq.com/api/latest/metrics/, query timeseries points and query scalar data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.metrics.answers import MARK, NOW_S
from tests.metrics.servers.fake import Asked, Fake, Series, answered, one, timed

_KEYS = {"DD-API-KEY": "an-api-key", "DD-APPLICATION-KEY": "an-application-key"}


def _objection_v1(asked: Asked) -> str:
    if (asked.method, asked.path) != ("GET", "/api/v1/query"):
        return "no such path"
    if asked.parameter("query") != "avg:errors{*}":
        return "another query"
    times = asked.parameter("from"), asked.parameter("to")
    return "" if times == (str(int(NOW_S) - 600), str(int(NOW_S))) else "other times"


def _v1(series: Sequence[Series], **more: Any) -> dict[str, Any]:
    points = [[[timed(at_s, 1_000), value] for at_s, value in each] for each in series]
    found = [{"metric": MARK, "scope": f"pod:{place}", "pointlist": each} for place, each in enumerate(points)]
    return {"status": "ok", "res_type": "time_series", "query": MARK, "series": found, "message": "", **more}


def _objection_v2(asked: Asked) -> str:
    if (asked.method, asked.path) != ("POST", "/api/v2/query/scalar"):
        return "no such path"
    if asked.headers.get("content-type") != "application/json":
        return "no JSON"
    wanted = {
        "from": int(NOW_S - 300) * 1_000,
        "to": int(NOW_S) * 1_000,
        "queries": [
            {"aggregator": "sum", "data_source": "metrics", "name": "bad", "query": "sum:errors{*}"},
            {"aggregator": "sum", "data_source": "metrics", "name": "all", "query": "sum:requests{*}"},
        ],
        "formulas": [{"formula": "bad / all"}],
    }
    attributes = asked.body["data"]["attributes"]
    found = {**attributes, "queries": sorted(attributes["queries"], key=lambda query: query["name"], reverse=True)}
    return "" if asked.body["data"]["type"] == "scalar_request" and found == wanted else "another question"


def _v2(series: Sequence[Series], **more: Any) -> dict[str, Any]:
    columns: list[Any] = []
    if len(series) != 1:
        columns = [{"name": "pod", "type": "group", "values": [[f"{MARK}-{place}"] for place in range(len(series))]}]
    newest = [max(each, key=lambda point: point[0])[1] if each else None for each in series]
    columns.append({"name": "bad / all", "type": "number", "values": newest, "meta": {"unit": [None, None]}})
    data = {"type": "scalar_response", "attributes": {"columns": columns}}
    return {"data": data, "errors": "", **more}


_GROUP = {"name": "pod", "type": "group", "values": [["a"]]}
_TYPELESS = {"data": {"attributes": {"columns": [{"name": "x", "values": [1]}]}}, "errors": ""}

FAKES = (
    Fake(
        name="datadog v1",
        kind="datadog",
        metric={"query": "avg:errors{*}", "interval": "10m"},
        objection=_objection_v1,
        body=_v1,
        result="result",
        headers=_KEYS,
        refused=(403, {"errors": ["Forbidden"]}),
        bad={
            "an error with 200": answered(_v1(one(1), status="error", error=MARK)),
            "an error beside good numbers": answered(_v1(one(1), error=MARK)),
            "a status that is none": answered(_v1(one(1), status=MARK)),
            "a message that it is a part": answered(_v1(one(1), message=f"{MARK}: limited to 100 series")),
            "points of one number": answered({**_v1([]), "series": [{"pointlist": [[1]]}]}),
            "points of no number": answered({**_v1([]), "series": [{"pointlist": [[]]}]}),
            "points that are numbers": answered({**_v1([]), "series": [{"pointlist": [1, 2]}]}),
            "no list of points": answered({**_v1([]), "series": [{"metric": "x"}]}),
            "a list of points that is null": answered({**_v1([]), "series": [{"pointlist": None}]}),
            "series that are null": answered({**_v1([]), "series": None}),
            "series that are an object": answered({**_v1([]), "series": {"0": {"pointlist": [[NOW_S, 1]]}}}),
            "errors in a list": answered({"errors": ["Rate limit of 100 requests in 3600 seconds reached"]}),
        },
    ),
    Fake(
        name="datadog v2",
        kind="datadog",
        metric={
            "apiVersion": "v2",
            "queries": {"bad": "sum:errors{*}", "all": "sum:requests{*}"},
            "formula": "bad / all",
            "aggregator": "sum",
        },
        objection=_objection_v2,
        body=_v2,
        result="result",
        times=False,
        headers=_KEYS,
        refused=(400, {"errors": ["Invalid query"]}),
        bad={
            "an error with 200": answered(_v2(one(1), errors=MARK)),
            "errors in a list": answered(_v2(one(1), errors=[MARK])),
            "no columns": answered({"data": {"type": "scalar_response", "attributes": {"columns": []}}, "errors": ""}),
            "columns that are null": answered({"data": {"attributes": {"columns": None}}, "errors": ""}),
            "a group alone": answered({"data": {"attributes": {"columns": [_GROUP]}}, "errors": ""}),
            "a column without a type": answered(_TYPELESS),
            "a column without values": answered({"data": {"attributes": {"columns": [{"type": "number"}]}}}),
            "no data": answered({"errors": ""}),
            "data that is null": answered({"data": None}),
            "data that is a list": answered({"data": [{"attributes": {"columns": []}}]}),
        },
    ),
)

WHOLE = [
    (
        "datadog",
        {
            "metricProvider": "datadog",
            "query": "avg:a{b:c}",
            "interval": "5m",
            "apiVersion": "v1",
            "requestTimeout": "9s",
        },
    ),
    (
        "datadog",
        {
            "secretRef": {"name": "datadog"},
            "queries": {"a": "avg:a{*}"},
            "formula": "a",
            "aggregator": "avg",
            "apiVersion": "v2",
        },
    ),
]
