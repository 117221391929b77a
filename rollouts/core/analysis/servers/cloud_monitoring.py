"""Google Cloud Monitoring: time series of a filter, or of a query in its Monitoring Query Language, which Flagger's metrics have.

Sources: https://cloud.google.com/monitoring/api/ref_v3/rest/v3/projects.timeSeries/list, and …/query
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from rollouts.core.analysis.recipe import (
    QUERY,
    AnswerForm,
    AnswerPlan,
    AskTemplate,
    Exchange,
    FieldProblem,
    Limits,
    Recipe,
    ResultKind,
    ServerFields,
    Setting,
    TimeForm,
)
from rollouts.core.model.frozen import replace


class CloudMonitoring(ServerFields, frozen=True, kw_only=True):
    """A query of Google Cloud Monitoring."""

    filter: Annotated[str, 'Which time series: metric.type="…" AND resource.labels.namespace_name="shop".', QUERY] = ""
    aligner: Annotated[str, "How the points of each become one in the interval; default ALIGN_MEAN."] = "ALIGN_MEAN"
    reducer: Annotated[str, "How all series become one: REDUCE_SUM and others; default none."] = "REDUCE_NONE"
    query: Annotated[
        str, "In place of filter: a query in the Monitoring Query Language, with its own times.", QUERY
    ] = ""
    interval_s: Annotated[float, "How far back the filter looks; default 5m."] = 300.0

    def given(self, limits: Limits) -> Limits:
        """See `ServerFields.given`."""
        return replace(limits, window_s=self.interval_s)

    @staticmethod
    def problems(given: Mapping[str, Any]) -> Iterator[FieldProblem]:
        """See `ServerFields.problems`."""
        if not given.get("filter") and not given.get("query"):
            yield "filter", "is required, or query"
        elif given.get("query"):
            yield from (
                (name, "and query are both given") for name in ("filter", "aligner", "reducer") if given.get(name)
            )


_RULES: dict[str, Any] = {
    "kind": ResultKind.NEWEST,
    "form": AnswerForm.TYPED_JSON,
    "unit": TimeForm.RFC3339,
    "optional": True,
    "more": ("nextPageToken",),
}

RECIPE = Recipe(
    name="cloudMonitoring",
    title="Google Cloud Monitoring",
    text="A query of Google Cloud Monitoring.",
    fields=CloudMonitoring,
    settings=(Setting(name="project", text="identifier of the project"),),
    exchanges=(
        Exchange(
            when=("query", ""),
            ask=AskTemplate(
                path="/v3/projects/{{project}}/timeSeries",
                query=(
                    *(("filter", "{{filter}}"), ("interval.startTime", "{{start}}"), ("interval.endTime", "{{end}}")),
                    ("aggregation.alignmentPeriod", "{{window}}s"),
                    ("aggregation.perSeriesAligner", "{{aligner}}"),
                    ("aggregation.crossSeriesReducer", "{{reducer}}"),
                ),
                times=TimeForm.RFC3339,
            ),
            read=AnswerPlan(
                **_RULES,
                result="timeSeries[*]",
                values="points[*].value",
                times="points[*].interval.endTime",
                refused=("error", "executionErrors"),
            ),
        ),
        Exchange(
            ask=AskTemplate(
                method="POST", path="/v3/projects/{{project}}/timeSeries:query", body={"query": "{{query}}"}
            ),
            read=AnswerPlan(
                **_RULES,
                result="timeSeriesData[*]",
                values="pointData[*].values[0]",
                times="pointData[*].timeInterval.endTime",
                refused=("error", "partialErrors"),
            ),
        ),
    ),
)
