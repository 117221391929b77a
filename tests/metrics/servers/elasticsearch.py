"""Elasticsearch, and OpenSearch, which is asked in the same way.

Source: https://www.elastic.co/guide/en/elasticsearch/reference/current/search-search.html
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from tests.metrics.answers import MARK, NOW_S
from tests.metrics.servers.fake import Asked, Fake, Series, answered, one

QUERY = {"term": {"service.name": "shop"}}
AGGREGATIONS = {"latency": {"avg": {"field": "event.duration"}}}


def _time(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _objection(asked: Asked) -> str:
    if (asked.method, asked.path) != ("POST", "/logs-%2A/_search"):
        return "no such path"
    if asked.parameter("allow_partial_search_results") != "false":
        return "a part would do"
    times = {"range": {"@timestamp": {"gte": _time(NOW_S - 600), "lte": _time(NOW_S)}}}
    wanted = {"query": {"bool": {"filter": [QUERY, times]}}, "aggs": AGGREGATIONS, "size": 0, "track_total_hits": True}
    return "" if asked.body == wanted else "another query"


def _body(series: Sequence[Series], **more: Any) -> dict[str, Any]:
    """One aggregation, of the newest; documents that have no such field count as hits."""
    points = [point for each in series for point in each]
    value = points[-1][1] if points else None
    shards = {"total": 2, "successful": 2, "skipped": 0, "failed": 0}
    hits: dict[str, Any] = {"total": {"value": len(points), "relation": "eq"}, "max_score": None, "hits": []}
    return {
        "took": 5,
        "timed_out": False,
        "_shards": shards,
        "hits": hits,
        "aggregations": {"latency": {"value": value}},
        **more,
    }


_FAILED = {"total": 2, "successful": 1, "failed": 1, "failures": [{"reason": {"type": MARK}}]}

FAKES = (
    Fake(
        name="elasticsearch",
        kind="elasticsearch",
        metric={"index": "logs-*", "query": QUERY, "aggregations": AGGREGATIONS, "interval": "10m"},
        objection=_objection,
        body=_body,
        result="result.latency.value",
        merges=True,
        times=False,
        rows=True,
        document=True,
        bearer=True,
        scheme="ApiKey",
        refused=(400, {"error": {"type": "parsing_exception"}, "status": 400}),
        bad={
            "timed out": answered(_body(one(1), timed_out=True)),
            "a shard that failed": answered(_body(one(1), _shards=_FAILED)),
            "an error with 200": answered(_body(one(1), error={"type": MARK})),
            "no hits": answered(_body(one(1), hits={"total": {"value": 0, "relation": "eq"}})),
            "no count of hits": answered(_body(one(1), hits={"hits": []})),
            "hits that are null": answered(_body(one(1), hits=None)),
            "no aggregations": answered({**_body(one(1)), "aggregations": {}}),
            "another aggregation": answered({**_body(one(1)), "aggregations": {"other": {"value": 1}}}),
        },
    ),
)

WHOLE = [
    (
        "elasticsearch",
        {
            "metricProvider": "elasticsearch",
            "index": "logs-*",
            "query": QUERY,
            "aggregations": AGGREGATIONS,
            "interval": "5m",
            "timeField": "@timestamp",
        },
    ),
]
