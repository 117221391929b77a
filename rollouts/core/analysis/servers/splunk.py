"""Splunk Observability Cloud: a program of SignalFlow, over HTTP and not as Flagger over a web socket.

Source: https://dev.splunk.com/observability/reference/api/signalflow/latest, POST /v2/signalflow/execute
"""

from __future__ import annotations

from typing import Annotated

from rollouts.core.analysis.recipe import (
    QUERY,
    AnswerForm,
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


class Splunk(ServerFields, frozen=True, kw_only=True):
    """A program of Splunk Observability Cloud."""

    query: Annotated[str, "A program of SignalFlow that publishes: data('errors').sum().publish().", QUERY, NEEDED]
    interval_s: Annotated[float, "How far back the program looks; default 5m."] = 300.0

    def given(self, limits: Limits) -> Limits:
        """See `ServerFields.given`."""
        return replace(limits, window_s=self.interval_s)


RECIPE = Recipe(
    name="splunk",
    title="Splunk",
    text="A program of Splunk Observability Cloud.",
    fields=Splunk,
    headers=("X-SF-TOKEN",),
    exchanges=(
        Exchange(
            ask=AskTemplate(
                method="POST",
                path="/v2/signalflow/execute",
                query=(("start", "{{start}}"), ("stop", "{{end}}"), ("immediate", "true")),
                headers=(("Accept", "text/event-stream"),),
                body="{{query}}",
                times=TimeForm.MILLISECONDS,
            ),
            read=AnswerPlan(
                kind=ResultKind.NEWEST,
                form=AnswerForm.SIGNAL_FLOW,
                result="series[*]",
                values="values[*]",
                times="times[*]",
                unit=TimeForm.MILLISECONDS,
                refused=("errors",),
                whole=(("ended", (True,)),),
            ),
        ),
    ),
)
