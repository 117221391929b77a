"""Datadog: version 1 of its API gives points of time series, version 2 one number for each group.

Sources: https://docs.datadoghq.com/api/latest/metrics/ (query timeseries points; query scalar data);
https://argo-rollouts.readthedocs.io/en/stable/analysis/datadog/
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from msgspec import Struct

from rollouts.core.analysis.recipe import (
    NAME,
    QUERY,
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
from rollouts.core.model.frozen import replace


class DatadogAccount(Struct, frozen=True, kw_only=True):
    """Whose Datadog is asked."""

    name: Annotated[str, "Name of the MetricProvider.", NAME] = ""
    namespaced: Annotated[bool, "Refused: credentials are a MetricProvider's."] = False


class Datadog(ServerFields, frozen=True, kw_only=True):
    """A query of Datadog."""

    query: Annotated[str, "The query; of version 2 instead of queries.", QUERY] = ""
    queries: Annotated[Mapping[str, str], "Of version 2: queries by the names that formula gives them.", QUERY] = {}
    formula: Annotated[str, "Of version 2: what is made of the queries.", QUERY] = ""
    aggregator: Annotated[
        Literal["avg", "min", "max", "sum", "last", "percentile", "mean", "l2norm", "area"],
        "Of version 2: how the values of the interval become one; default last.",
    ] = "last"
    interval_s: Annotated[float, "How far back the query looks; default 5m."] = 300.0
    api_version: Annotated[Literal["v1", "v2"], "Version of the API; default v1."] = "v1"
    secret_ref: Annotated[DatadogAccount | None, "In place of metricProvider, as Argo Rollouts has it.", NAME] = None
    request_timeout_s: Annotated[float, "Until the query must be answered; default 10s."] = 10.0

    @property
    def server(self) -> str:
        """See `ServerFields.server`."""
        return self.metric_provider or (self.secret_ref.name if self.secret_ref is not None else "")

    def given(self, limits: Limits) -> Limits:
        """See `ServerFields.given`."""
        return replace(limits, window_s=self.interval_s, timeout_s=self.request_timeout_s)

    def places(self) -> Mapping[str, Any]:
        """See `ServerFields.places`."""
        queries = self.queries or {"query": self.query}
        asked = [
            {"aggregator": self.aggregator, "data_source": "metrics", "name": name, "query": query}
            for name, query in queries.items()
        ]
        return {"asked": asked, "formulas": [{"formula": self.formula or next(iter(queries))}]}

    @staticmethod
    def problems(given: Mapping[str, Any]) -> Iterator[FieldProblem]:
        """See `ServerFields.problems`."""
        queries = given.get("queries") or {}
        if not given.get("query") and not queries:
            yield "query", "is required, or with apiVersion v2 queries"
        if given.get("query") and queries:
            yield "query", "and queries are both given; give one of them"
        if given.get("apiVersion", "v1") == "v1":
            yield from (
                (name, "needs apiVersion: v2") for name in ("queries", "formula", "aggregator") if given.get(name)
            )
        elif given.get("formula") and not queries:
            yield "formula", "needs queries, whose names it has in it"
        elif len(queries) > 1 and not given.get("formula"):
            yield "formula", "is required with several queries: it makes one number of them"
        if (given.get("secretRef") or {}).get("namespaced"):
            yield "secretRef.namespaced", "is not supported: an administrator declares the account as a MetricProvider"


RECIPE = Recipe(
    name="datadog",
    title="Datadog",
    text="A query of Datadog.",
    fields=Datadog,
    headers=("DD-API-KEY", "DD-APPLICATION-KEY"),
    exchanges=(
        Exchange(
            when=("api_version", "v1"),
            ask=AskTemplate(
                path="/api/v1/query", query=(("query", "{{query}}"), ("from", "{{start}}"), ("to", "{{end}}"))
            ),
            read=AnswerPlan(
                kind=ResultKind.NEWEST,
                result="series[*]",
                values="pointlist[*][1]",
                times="pointlist[*][0]",
                unit=TimeForm.MILLISECONDS,
                refused=("error", "errors"),
                whole=(("status", ("ok",)), ("message", ("",))),
            ),
        ),
        Exchange(
            ask=AskTemplate(
                method="POST",
                path="/api/v2/query/scalar",
                times=TimeForm.MILLISECONDS,
                body={
                    "data": {
                        "type": "scalar_request",
                        "attributes": {
                            "from": "{{start}}",
                            "to": "{{end}}",
                            "queries": "{{asked}}",
                            "formulas": "{{formulas}}",
                        },
                    }
                },
            ),
            read=AnswerPlan(
                kind=ResultKind.NEWEST,
                result="data.attributes.columns[?type=number].values[*]",
                listed="data.attributes.columns[?type=group]",
                refused=("errors",),
            ),
        ),
    ),
)
