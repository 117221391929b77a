"""Amazon CloudWatch: results of GetMetricData, by its JSON protocol, signed by AWS's own library.

Sources: https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_GetMetricData.html;
https://argo-rollouts.readthedocs.io/en/stable/analysis/cloudwatch/
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Struct

from rollouts.core.analysis.recipe import (
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
from rollouts.core.model.declared import NEEDED
from rollouts.core.model.frozen import replace


class CloudWatchDimension(Struct, frozen=True, kw_only=True):
    """One dimension of a metric."""

    name: Annotated[str, "Its name."] = ""
    value: Annotated[str, "Its value."] = ""


class CloudWatchMetric(Struct, frozen=True, kw_only=True):
    """A metric of CloudWatch."""

    namespace: Annotated[str, "Its namespace: AWS/ApplicationELB."] = ""
    metric_name: Annotated[str, "Its name."] = ""
    dimensions: Annotated[tuple[CloudWatchDimension, ...], "Which series of it."] = ()


class CloudWatchStat(Struct, frozen=True, kw_only=True):
    """A statistic of a metric."""

    metric: Annotated[CloudWatchMetric | None, "The metric."] = None
    period: Annotated[int, "Seconds of each value; default 300."] = 300
    stat: Annotated[str, "Sum, Average, p99 and others."] = ""
    unit: Annotated[str, "Only values of this unit."] = ""


class CloudWatchQuery(Struct, frozen=True, kw_only=True):
    """One query of GetMetricData: a statistic, or an expression over others."""

    id: Annotated[str, "Its name in expressions."] = ""
    expression: Annotated[str, "Metric math, or a query of Metrics Insights.", QUERY] = ""
    metric_stat: Annotated[CloudWatchStat | None, "The statistic."] = None
    label: Annotated[str, "Label of the result."] = ""
    period: Annotated[int | None, "Seconds of each value of an expression."] = None
    return_data: Annotated[bool, "Whether it is a result; default true."] = True


class CloudWatch(ServerFields, frozen=True, kw_only=True):
    """Queries of CloudWatch."""

    metric_data_queries: Annotated[
        tuple[CloudWatchQuery, ...], "The queries; those that return data are the result.", NEEDED
    ]
    interval_s: Annotated[float, "How far back they look; default 5m."] = 300.0

    def given(self, limits: Limits) -> Limits:
        """See `ServerFields.given`."""
        return replace(limits, window_s=self.interval_s)

    def places(self) -> Mapping[str, Any]:
        """See `ServerFields.places`."""
        return {"queries": [_in_aws_words(query) for query in self.metric_data_queries]}

    @staticmethod
    def problems(given: Mapping[str, Any]) -> Iterator[FieldProblem]:
        """See `ServerFields.problems`."""
        queries = given.get("metricDataQueries")
        if queries is not None and not queries:
            yield "metricDataQueries", "must not be empty"
        for index, query in enumerate(queries or ()):
            path = f"metricDataQueries[{index}]"
            if not query.get("id"):
                yield f"{path}.id", "is required"
            if bool(query.get("expression")) == bool(query.get("metricStat")):
                yield path, "needs one of expression and metricStat"
            stat = query.get("metricStat")
            if stat and not (stat.get("stat") and (stat.get("metric") or {}).get("metricName")):
                yield f"{path}.metricStat", "needs a stat and a metric with its metricName"


def _in_aws_words(value: Any) -> Any:
    """AWS's names begin with a capital; what is empty is left out."""
    match value:
        case Struct():
            parts = ((name.title().replace("_", ""), part) for name, part in msgspec.structs.asdict(value).items())
            return {name: _in_aws_words(part) for name, part in parts if part not in ("", None, ())}
        case tuple():
            return [_in_aws_words(part) for part in value]
        case _:
            return value


RECIPE = Recipe(
    name="cloudWatch",
    title="CloudWatch",
    text="Queries of Amazon CloudWatch.",
    fields=CloudWatch,
    service="monitoring",
    exchanges=(
        Exchange(
            ask=AskTemplate(
                method="POST",
                path="/",
                headers=(
                    ("Content-Type", "application/x-amz-json-1.0"),
                    ("X-Amz-Target", "GraniteServiceVersion20100801.GetMetricData"),
                ),
                times=TimeForm.SECONDS,
                body={
                    "StartTime": "{{start}}",
                    "EndTime": "{{end}}",
                    "ScanBy": "TimestampDescending",
                    "MetricDataQueries": "{{queries}}",
                },
            ),
            read=AnswerPlan(
                kind=ResultKind.DOCUMENT,
                result="MetricDataResults",
                series="MetricDataResults[*]",
                values="Values[*]",
                times="Timestamps[*]",
                refused=("__type",),
                whole=(
                    *(("MetricDataResults[*].StatusCode", ("Complete",)), ("Messages", ([], None))),
                    ("MetricDataResults[*].Messages", ([], None)),
                ),
                more=("NextToken",),
            ),
        ),
    ),
)
