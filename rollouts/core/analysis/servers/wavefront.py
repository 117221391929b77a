"""Wavefront, now VMware Aria Operations for Applications: points of time series.

Sources: its API, GET /api/v2/chart/api; https://argo-rollouts.readthedocs.io/en/stable/analysis/wavefront/
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from rollouts.core.analysis.recipe import (
    HOST,
    QUERY,
    AnswerPlan,
    AskTemplate,
    Exchange,
    FieldProblem,
    Recipe,
    ResultKind,
    ServerFields,
    TimeForm,
)
from rollouts.core.model.declared import NEEDED


class Wavefront(ServerFields, frozen=True, kw_only=True):
    """A query of Wavefront."""

    query: Annotated[str, "The query: ts(errors).", QUERY, NEEDED]
    address: Annotated[str, "Host or URL of the server, which a MetricProvider must have declared.", HOST] = ""

    @property
    def server(self) -> str:
        """See `ServerFields.server`."""
        address = self.address if "://" in self.address or not self.address else f"https://{self.address}"
        return self.metric_provider or address

    @staticmethod
    def problems(given: Mapping[str, Any]) -> Iterator[FieldProblem]:
        """See `ServerFields.problems`."""
        if given.get("address") and given.get("metricProvider"):
            yield "address", "and metricProvider name a server both; give one of them"


RECIPE = Recipe(
    name="wavefront",
    title="Wavefront",
    text="A query of Wavefront.",
    fields=Wavefront,
    exchanges=(
        Exchange(
            ask=AskTemplate(
                path="/api/v2/chart/api",
                query=(
                    *(("q", "{{query}}"), ("s", "{{start}}"), ("e", "{{end}}"), ("g", "s")),
                    *(("strict", "true"), ("sorted", "true"), ("i", "false")),
                ),
                times=TimeForm.MILLISECONDS,
            ),
            read=AnswerPlan(
                kind=ResultKind.NEWEST,
                result="timeseries[*]",
                values="data[*][1]",
                times="data[*][0]",
                refused=("errorType", "errorMessage"),
                whole=(("warnings", ("", None)),),
            ),
        ),
    ),
)
