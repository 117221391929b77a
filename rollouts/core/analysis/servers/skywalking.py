"""Apache SkyWalking: a query of its GraphQL, whose answer is the result.

Sources: https://skywalking.apache.org/docs/main/latest/en/api/query-protocol/;
https://argo-rollouts.readthedocs.io/en/stable/analysis/skywalking/
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from rollouts.core.analysis.recipe import (
    ADDRESS,
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


class SkyWalking(ServerFields, frozen=True, kw_only=True):
    """A query of SkyWalking."""

    query: Annotated[str, "GraphQL with the variable $duration.", QUERY, NEEDED]
    address: Annotated[str, "URL of the server, which a MetricProvider must have declared.", ADDRESS] = ""
    interval_s: Annotated[float, "How far back $duration looks; default 5m."] = 300.0

    @property
    def server(self) -> str:
        """See `ServerFields.server`."""
        return self.metric_provider or self.address

    def given(self, limits: Limits) -> Limits:
        """See `ServerFields.given`."""
        return replace(limits, window_s=self.interval_s)

    @staticmethod
    def problems(given: Mapping[str, Any]) -> Iterator[FieldProblem]:
        """See `ServerFields.problems`."""
        if given.get("address") and given.get("metricProvider"):
            yield "address", "and metricProvider name a server both; give one of them"
        if given.get("query") and "$duration" not in given["query"]:
            yield "query", "must have $duration in it, or it asks for no time: query q($duration: Duration!) { … }"


RECIPE = Recipe(
    name="skywalking",
    title="SkyWalking",
    text="A query of SkyWalking.",
    fields=SkyWalking,
    not_compared="is asked by whole minutes, so two looks would see the same requests, which would be evidence twice",
    exchanges=(
        Exchange(
            ask=AskTemplate(
                method="POST",
                path="/graphql",
                times=TimeForm.MINUTE,
                body={
                    "query": "{{query}}",
                    "variables": {"duration": {"start": "{{start}}", "end": "{{end}}", "step": "MINUTE"}},
                },
            ),
            read=AnswerPlan(kind=ResultKind.DOCUMENT, result="data", refused=("errors",), missing=("isEmptyValue",)),
        ),
    ),
)
