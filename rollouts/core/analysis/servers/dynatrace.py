"""Dynatrace: one value of the interval for each series of a metric selector.

Source: https://docs.dynatrace.com/docs/dynatrace-api/environment-api/metric-v2/get-data-points
"""

from __future__ import annotations

from typing import Annotated

from rollouts.core.analysis.recipe import (
    QUERY,
    AnswerPlan,
    AskTemplate,
    Exchange,
    Limits,
    Recipe,
    ResultKind,
    ServerFields,
    TimeForm,
)
from rollouts.core.model.declared import NEEDED
from rollouts.core.model.frozen import replace


class Dynatrace(ServerFields, frozen=True, kw_only=True):
    """A query of Dynatrace."""

    query: Annotated[str, "Metric selector: builtin:service.errors.total.rate:avg.", QUERY, NEEDED]
    interval_s: Annotated[float, "How far back the query looks; default 5m."] = 300.0

    def given(self, limits: Limits) -> Limits:
        """See `ServerFields.given`."""
        return replace(limits, window_s=self.interval_s)


RECIPE = Recipe(
    name="dynatrace",
    title="Dynatrace",
    text="A query of Dynatrace.",
    fields=Dynatrace,
    scheme="Api-Token",
    exchanges=(
        Exchange(
            ask=AskTemplate(
                path="/api/v2/metrics/query",
                query=(
                    *(("metricSelector", "{{query}}"), ("resolution", "Inf")),
                    *(("from", "{{start}}"), ("to", "{{end}}")),
                ),
                times=TimeForm.MILLISECONDS,
            ),
            read=AnswerPlan(
                kind=ResultKind.NEWEST,
                result="result[*].data[*]",
                values="values[*]",
                times="timestamps[*]",
                unit=TimeForm.MILLISECONDS,
                refused=("error",),
                whole=(("warnings", ([], None)), ("result[*].warnings", ([], None))),
                more=("nextPageKey",),
            ),
        ),
    ),
)
