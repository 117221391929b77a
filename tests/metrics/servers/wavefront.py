"""Wavefront's chart API.

Source: its documentation of GET /api/v2/chart/api.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.metrics.answers import MARK, NOW_S
from tests.metrics.servers.fake import ADDRESS, Asked, Fake, Series, answered, one, timed


def _objection(asked: Asked) -> str:
    if (asked.method, asked.path) != ("GET", "/api/v2/chart/api"):
        return "no such path"
    if asked.parameter("q") != "sum(ts(errors))" or asked.parameter("g") != "s":
        return "another query"
    times = asked.parameter("s"), asked.parameter("e")
    wanted = (str(int(NOW_S - 300) * 1_000), str(int(NOW_S) * 1_000))
    return "" if times == wanted and asked.parameter("strict") == "true" else "other times"


def _body(series: Sequence[Series], **more: Any) -> dict[str, Any]:
    points = [[[timed(at_s), value] for at_s, value in each] for each in series]
    found = [{"label": MARK, "host": f"pod-{place}", "tags": {}, "data": each} for place, each in enumerate(points)]
    return {"query": MARK, "name": MARK, "granularity": 1, "timeseries": found, "stats": {"keys": 1}, **more}


FAKES = (
    Fake(
        name="wavefront",
        kind="wavefront",
        metric={"query": "sum(ts(errors))"},
        objection=_objection,
        body=_body,
        result="result",
        bearer=True,
        refused=(400, {"status": {"result": "ERROR", "code": 400}}),
        bad={
            "warnings": answered(_body(one(1), warnings=f"{MARK}: limited to 100 series")),
            "an error with 200": answered(_body(one(1), errorType="QuerySyntaxError", errorMessage=MARK)),
            "a series without data": answered({"timeseries": [{"label": "x"}]}),
            "data that is null": answered({"timeseries": [{"data": None}]}),
            "no series at all": answered({"query": MARK}),
            "series that are null": answered({"timeseries": None}),
        },
    ),
)

WHOLE = [
    ("wavefront", {"metricProvider": "wavefront", "query": "ts(errors)"}),
    ("wavefront", {"address": ADDRESS, "query": "ts(errors)"}),
]
