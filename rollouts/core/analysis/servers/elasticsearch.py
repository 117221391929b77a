"""Elasticsearch and OpenSearch: aggregations over the documents of the interval.

Sources: https://www.elastic.co/guide/en/elasticsearch/reference/current/search-search.html;
https://docs.opensearch.org/latest/api-reference/search-apis/search/
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from rollouts.core.analysis.recipe import (
    AnswerPlan,
    AskTemplate,
    Exchange,
    FieldProblem,
    Limits,
    Recipe,
    ResultKind,
    ServerFields,
    TimeForm,
)
from rollouts.core.model.declared import NEEDED
from rollouts.core.model.frozen import replace


class Elasticsearch(ServerFields, frozen=True, kw_only=True):
    """Aggregations of Elasticsearch or OpenSearch."""

    index: Annotated[str, "Indices, data streams or a pattern: logs-*.", NEEDED]
    query: Annotated[Mapping[str, Any], "Which documents of the interval, as Query DSL; default all."] = {}
    aggregations: Annotated[
        Mapping[str, Any], "What is worked out of them; the result has it by the same names.", NEEDED
    ]
    interval_s: Annotated[float, "How far back the documents go; default 5m."] = 300.0
    time_field: Annotated[str, "Field with a document's time; default @timestamp."] = "@timestamp"

    def given(self, limits: Limits) -> Limits:
        """See `ServerFields.given`."""
        return replace(limits, window_s=self.interval_s)

    def places(self) -> Mapping[str, Any]:
        """See `ServerFields.places`."""
        return {"which": self.query or {"match_all": {}}}

    @staticmethod
    def problems(given: Mapping[str, Any]) -> Iterator[FieldProblem]:
        """See `ServerFields.problems`."""
        if given.get("index", "").startswith(("_", "-", "+")):
            yield "index", "must be the name of an index: none begins with _, - or +"
        for name in _paged(given.get("aggregations") or {}):
            yield f"aggregations.{name}", "is a composite, whose answer is one page of several: use terms, with a size"


def _paged(aggregations: Mapping[str, Any]) -> Iterator[str]:
    """The aggregations that page, which the server does not say of an answer; also within others."""
    for name, each in aggregations.items():
        if not isinstance(each, Mapping):
            continue
        if "composite" in each:
            yield name
        for within in ("aggs", "aggregations"):
            if isinstance(inner := each.get(within), Mapping):
                yield from (f"{name}.{within}.{found}" for found in _paged(inner))


RECIPE = Recipe(
    name="elasticsearch",
    title="Elasticsearch",
    text="Aggregations of Elasticsearch or OpenSearch.",
    fields=Elasticsearch,
    scheme="ApiKey",
    exchanges=(
        Exchange(
            ask=AskTemplate(
                method="POST",
                path="/{{index}}/_search",
                query=(("allow_partial_search_results", "false"),),
                times=TimeForm.RFC3339,
                body={
                    "size": 0,
                    "track_total_hits": True,
                    "query": {
                        "bool": {
                            "filter": [
                                "{{which}}",
                                {"range": {"{{time_field}}": {"gte": "{{start}}", "lte": "{{end}}"}}},
                            ]
                        }
                    },
                    "aggs": "{{aggregations}}",
                },
            ),
            read=AnswerPlan(
                kind=ResultKind.DOCUMENT,
                result="aggregations",
                refused=("error",),
                whole=(("timed_out", (False,)), ("_shards.failed", (0.0,))),
                counts=("hits.total.value",),
            ),
        ),
    ),
)
