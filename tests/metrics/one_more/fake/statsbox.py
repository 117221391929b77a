"""The fake of that server: all that its tests need, below `tests/metrics/servers`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.metrics.answers import MARK, NOW_S
from tests.metrics.servers.fake import Asked, Fake, Series, answered, one, timed


def _objection(asked: Asked) -> str:
    if (asked.method, asked.path) != ("GET", "/api/points"):
        return "no such path"
    wanted = {"q": ["errors"], "since": [str(int(NOW_S - 600))], "until": [str(int(NOW_S))]}
    return "" if dict(asked.parameters) == wanted else "other parameters"


def _body(series: Sequence[Series], **more: Any) -> dict[str, Any]:
    found = [
        {"name": f"{MARK}-{place}", "points": [[timed(at_s), value] for at_s, value in each]}
        for place, each in enumerate(series)
    ]
    return {"series": found, **more}


FAKES = (
    Fake(
        name="statsbox",
        kind="statsBox",
        metric={"query": "errors", "interval": "10m"},
        objection=_objection,
        body=_body,
        result="result",
        headers={"X-Stats-Key": "k"},
        refused=(400, {"error": "no"}),
        bad={"a further page": answered(_body(one(1), next="2")), "no series": answered({})},
    ),
)

WHOLE = [("statsBox", {"metricProvider": "statsbox", "query": "errors", "interval": "5m"})]
