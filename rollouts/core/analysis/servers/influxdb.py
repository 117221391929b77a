"""InfluxDB 2: records that a query of Flux gives.

Sources: https://docs.influxdata.com/influxdb/v2/api/, POST /api/v2/query;
https://argo-rollouts.readthedocs.io/en/stable/analysis/influxdb/
"""

from __future__ import annotations

from typing import Annotated

from rollouts.core.analysis.recipe import (
    NAME,
    QUERY,
    AnswerForm,
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


class InfluxDB(ServerFields, frozen=True, kw_only=True):
    """A query of InfluxDB."""

    query: Annotated[str, "Flux, with a range in it.", QUERY, NEEDED]
    profile: Annotated[str, "In place of metricProvider, as Argo Rollouts has it.", NAME] = ""

    @property
    def server(self) -> str:
        """See `ServerFields.server`."""
        return self.metric_provider or self.profile


RECIPE = Recipe(
    name="influxdb",
    title="InfluxDB",
    text="A query of InfluxDB.",
    fields=InfluxDB,
    limits=Limits(window_s=86_400.0),  # the query has its own range
    scheme="Token",
    settings=(Setting(name="org", text="name of the organisation"),),
    exchanges=(
        Exchange(
            ask=AskTemplate(
                method="POST",
                path="/api/v2/query",
                query=(("org", "{{org}}"),),
                headers=(("Accept", "application/csv"),),
                body={
                    "query": "{{query}}",
                    "type": "flux",
                    "dialect": {"annotations": ["datatype", "group", "default"], "header": True},
                },
            ),
            read=AnswerPlan(
                kind=ResultKind.ALL,
                form=AnswerForm.FLUX,
                result="tables[*]",
                values="values[*]",
                times="times[*]",
                timeless=True,
                unit=TimeForm.RFC3339,
                refused=("errors",),
            ),
        ),
    ),
)
