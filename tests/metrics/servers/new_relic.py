"""New Relic's NerdGraph.

Source: https://docs.newrelic.com/docs/apis/nerdgraph/examples/nerdgraph-nrql-tutorial/
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tests.metrics.answers import MARK, NOW_S
from tests.metrics.servers.fake import Asked, Fake, Series, answered, one, timed

QUERY = "FROM Transaction SELECT average(duration) AS 'average' SINCE 5 minutes ago"


def _objection(asked: Asked) -> str:
    if (asked.method, asked.path, asked.headers.get("content-type")) != ("POST", "/graphql", "application/json"):
        return "no such path"
    if asked.body["variables"] != {"accountId": 1234567, "query": QUERY, "timeout": 7}:
        return "other variables"
    words = asked.body["query"].split()
    wanted = ("nrql(query:", "$query,", "timeout:", "$timeout)", "results", "metadata", "timeWindow", "end")
    return "" if all(word in words for word in wanted) and "account(id:" in asked.body["query"] else "another question"


def _graph(rows: Any, end: Any, **more: Any) -> dict[str, Any]:
    nrql = {"results": rows, "metadata": {"timeWindow": {"end": end}}}
    return {"data": {"actor": {"account": {"nrql": nrql}}}, **more}


def _body(series: Sequence[Series], member: str = "average") -> dict[str, Any]:
    points = [point for each in series for point in each]
    ends = [timed(at_s, 1_000) for at_s, _ in points]
    others = [end for end in ends if not isinstance(end, int | float)]
    end = others[0] if others else max(ends, default=NOW_S * 1_000)
    rows = [{member: value} if len(series) < 2 else {"facet": MARK, member: value} for _, value in points]
    return _graph(rows, end)


def with_rows_of(member: str) -> Callable[[Sequence[Series]], Any]:
    """What it answers when a query names its number so."""
    return partial(_body, member=member)


FAKES = (
    Fake(
        name="newRelic",
        kind="newRelic",
        metric={"query": QUERY, "timeout": 7},
        objection=_objection,
        body=_body,
        result="result.average",
        whole=True,
        rows=True,
        headers={"API-Key": "NRAK-key"},
        settings={"accountId": "1234567"},
        refused=(200, {"errors": [{"message": "Access denied", "extensions": {"errorClass": "ACCESS_DENIED"}}]}),
        bad={
            "errors and no data": answered({"data": None, "errors": [{"message": MARK}]}),
            "errors beside data": answered({**_body(one(1)), "errors": [{"message": MARK}]}),
            "no account": answered({"data": {"actor": {"account": None}}}),
            "no query": answered({"data": {"actor": {"account": {"nrql": None}}}}),
            "results that are null": answered(_graph(None, NOW_S * 1_000)),
            "results that are an object": answered(_graph({"average": 1}, NOW_S * 1_000)),
            "results that are a number": answered(_graph(1, NOW_S * 1_000)),
            "an empty row": answered(_graph([{}], NOW_S * 1_000)),
            "a row that is null": answered(_graph([None], NOW_S * 1_000)),
            "a row of a text": answered(_graph([MARK], NOW_S * 1_000)),
            "another member, of null": answered(_graph([{"other": None}], NOW_S * 1_000)),
            "a member in a member": answered(_graph([{"average": {"average": 1}}], NOW_S * 1_000)),
        },
    ),
)

WHOLE = [("newRelic", {"metricProvider": "newrelic", "query": QUERY, "profile": "newrelic", "timeout": 5})]
