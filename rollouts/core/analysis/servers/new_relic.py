"""New Relic: NRQL by NerdGraph.

Sources: https://docs.newrelic.com/docs/apis/nerdgraph/examples/nerdgraph-nrql-tutorial/;
https://argo-rollouts.readthedocs.io/en/stable/analysis/newrelic/
"""

from __future__ import annotations

from typing import Annotated

from rollouts.core.analysis.recipe import (
    NAME,
    QUERY,
    AnswerPlan,
    AskTemplate,
    Exchange,
    Limits,
    Recipe,
    ResultKind,
    ServerFields,
    Setting,
    TimeForm,
)
from rollouts.core.model.declared import NEEDED
from rollouts.core.model.frozen import replace

_GRAPH = (
    "query($accountId: Int!, $query: Nrql!, $timeout: Seconds!) { actor { account(id: $accountId) {"
    " nrql(query: $query, timeout: $timeout) { results metadata { timeWindow { end } } } } } }"
)


class NewRelic(ServerFields, frozen=True, kw_only=True):
    """A query of New Relic."""

    query: Annotated[str, "NRQL.", QUERY, NEEDED]
    profile: Annotated[str, "In place of metricProvider, as Argo Rollouts has it.", NAME] = ""
    timeout: Annotated[int, "Seconds until the query must be answered; default 5."] = 5

    @property
    def server(self) -> str:
        """See `ServerFields.server`."""
        return self.metric_provider or self.profile

    def given(self, limits: Limits) -> Limits:
        """See `ServerFields.given`. The server has the metric's time, and the way to it and back comes on top."""
        return replace(limits, timeout_s=self.timeout + 5.0)


RECIPE = Recipe(
    name="newRelic",
    title="New Relic",
    text="A query of New Relic.",
    fields=NewRelic,
    limits=Limits(window_s=3_600.0),  # what NRQL looks back without SINCE
    headers=("API-Key",),
    settings=(Setting(name="accountId", text="number of the account", number=True),),
    exchanges=(
        Exchange(
            ask=AskTemplate(
                method="POST",
                path="/graphql",
                body={
                    "query": _GRAPH,
                    "variables": {"accountId": "{{accountId}}", "query": "{{query}}", "timeout": "{{timeout}}"},
                },
            ),
            read=AnswerPlan(
                kind=ResultKind.ROWS,
                result="data.actor.account.nrql.results",
                times="data.actor.account.nrql.metadata.timeWindow.end",
                unit=TimeForm.MILLISECONDS,
                refused=("errors",),
            ),
        ),
    ),
)
