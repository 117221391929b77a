"""Graphite's render API.

Source: https://graphite.readthedocs.io/en/latest/render_api.html
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.metrics.answers import MARK, NOW_S
from tests.metrics.servers.fake import ADDRESS, Asked, Fake, Series, answered, timed


def _objection(asked: Asked) -> str:
    if (asked.method, asked.path) != ("GET", "/render"):
        return "no such path"
    wanted = {"target": ["sumSeries(shop.errors)", "shop.more"], "from": ["-10min"], "format": ["json"]}
    return "" if dict(asked.parameters) == wanted else "other parameters"


def _body(series: Sequence[Series]) -> list[Any]:
    points = [[[value, timed(at_s)] for at_s, value in each] for each in series]
    return [{"target": f"{MARK}.{place}", "tags": {}, "datapoints": each} for place, each in enumerate(points)]


FAKES = (
    Fake(
        name="graphite",
        kind="graphite",
        metric={"query": "target=sumSeries(shop.errors)&target=shop.more\n &from=-10min"},
        objection=_objection,
        body=_body,
        result="result[0]",
        whole=True,
        refused=(400, {"errors": {"target": "This parameter is required."}}),
        bad={
            "points of one number": answered([{"target": "x", "datapoints": [[1]]}]),
            "points that are numbers": answered([{"target": "x", "datapoints": [1, NOW_S]}]),
            "a target without points": answered([{"target": "x"}]),
            "points that are null": answered([{"target": "x", "datapoints": None}]),
            "an object of targets": answered({"x": {"datapoints": [[1, NOW_S]]}}),
            "targets that are lists": answered([[[1, NOW_S]]]),
            "value and time changed over": answered([{"target": "x", "datapoints": [[NOW_S, 1]]}]),
            "an error with 200": answered({"error": MARK}),
        },
    ),
)

WHOLE = [
    ("graphite", {"metricProvider": "graphite", "query": "target=shop.errors&from=-5min"}),
    ("graphite", {"address": ADDRESS, "query": "target=shop.errors&from=-5min&until=now"}),
]
