"""A kind of server that is not built in: this file is all that it needs, below `rollouts/core/analysis/servers`."""

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
)
from rollouts.core.model.declared import NEEDED
from rollouts.core.model.frozen import replace


class StatsBox(ServerFields, frozen=True, kw_only=True):
    """A query of StatsBox."""

    query: Annotated[str, "The query: errors{service=cart}.", QUERY, NEEDED]
    interval_s: Annotated[float, "How far back the query looks; default 5m."] = 300.0

    def given(self, limits: Limits) -> Limits:
        """See `ServerFields.given`."""
        return replace(limits, window_s=self.interval_s)


RECIPE = Recipe(
    name="statsBox",
    title="StatsBox",
    text="A query of StatsBox.",
    fields=StatsBox,
    headers=("X-Stats-Key",),
    exchanges=(
        Exchange(
            ask=AskTemplate(
                path="/api/points", query=(("q", "{{query}}"), ("since", "{{start}}"), ("until", "{{end}}"))
            ),
            read=AnswerPlan(
                kind=ResultKind.NEWEST,
                result="series[*]",
                values="points[*][1]",
                times="points[*][0]",
                refused=("error",),
                more=("next",),
            ),
        ),
    ),
)
