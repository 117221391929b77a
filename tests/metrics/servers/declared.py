"""A server that the controller does not know, with the recipe that its administrator writes: Instana's metrics.

Source: https://instana.github.io/openapi/, POST /api/infrastructure-monitoring/metrics
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.metrics.answers import MARK, NOW_S
from tests.metrics.servers.fake import Asked, Fake, Series, answered, one, timed

RECIPE: dict[str, dict[str, Any]] = {
    "request": {
        "method": "POST",
        "path": "/api/infrastructure-monitoring/metrics",
        "query": [{"name": "offline", "value": "{{offline}}"}],
        "headers": [{"name": "X-Asked-By", "value": "rollouts of {{query}}"}],
        "times": "milliseconds",
        "body": {
            "metrics": ["{{query}}"],
            "plugin": "{{plugin}}",
            "rollup": 60,
            "timeFrame": {"to": "{{end}}", "windowSize": "{{window}}"},
        },
    },
    "answer": {
        "kind": "newest",
        "result": "items[*]",
        "values": "metrics.errors[*][1]",
        "times": "metrics.errors[*][0]",
        "unit": "milliseconds",
        "refused": ["errors"],
        "whole": [{"path": "complete", "values": [True]}, {"path": "left", "values": [0]}],
        "more": ["cursor"],
    },
}


def _objection(asked: Asked) -> str:
    if (asked.method, asked.path) != ("POST", "/api/infrastructure-monitoring/metrics"):
        return "no such path"
    if asked.headers.get("x-asked-by") != "rollouts of errors" or asked.parameter("offline") != "false":
        return "another question"
    frame = {"to": int(NOW_S) * 1_000, "windowSize": 600}
    return "" if asked.body == {"metrics": ["errors"], "plugin": "host", "rollup": 60, "timeFrame": frame} else "other"


def _body(series: Sequence[Series], **more: Any) -> dict[str, Any]:
    points = [[[timed(at_s, 1_000), value] for at_s, value in each] for each in series]
    items = [{"label": f"{MARK}-{place}", "metrics": {"errors": each}} for place, each in enumerate(points)]
    return {"items": items, "complete": True, "left": 0, "cursor": None, **more}


FAKES = (
    Fake(
        name="declared",
        kind="declared",
        metric={
            "metricProvider": "it",
            "query": "errors",
            "interval": "10m",
            "fields": {"plugin": "host", "offline": "false"},
        },
        recipe=RECIPE,
        objection=_objection,
        body=_body,
        result="result",
        headers={"Authorization": "apiToken t"},
        refused=(401, {"errors": ["no"]}),
        bad={
            "a further page": answered(_body(one(1), cursor="next")),
            "a part": answered(_body(one(1), complete=False)),
            "some left": answered(_body(one(1), left=3)),
            "errors": answered(_body(one(1), errors=[MARK])),
            "another metric": answered({**_body([]), "items": [{"metrics": {"other": [[NOW_S * 1_000, 1]]}}]}),
            "no items": answered({"complete": True}),
        },
    ),
)

WHOLE = [("declared", {"metricProvider": "declared", "query": "errors", "fields": {"a": "b"}, "interval": "5m"})]
