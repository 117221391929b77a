"""Graphite: points of each target.

Sources: https://graphite.readthedocs.io/en/latest/render_api.html; https://argo-rollouts.readthedocs.io/en/stable/analysis/graphite/
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any
from urllib.parse import parse_qsl

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
)
from rollouts.core.model.declared import NEEDED
from rollouts.core.model.frozen import replace

_PARAMETERS = ("target", "from", "until")
_UNIT_S = {"s": 1.0, "min": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}
_AGO = re.compile(r"-([0-9]{1,6})(s|min|h|d|w)(?:ec|econds?|utes?|ours?|ays?|eeks?)?")


class Graphite(ServerFields, frozen=True, kw_only=True):
    """A query of Graphite."""

    query: Annotated[str, "Parameters of its render API: target=sumSeries(shop.errors)&from=-5min.", QUERY, NEEDED]
    address: Annotated[str, "URL of the server, which a MetricProvider must have declared.", ADDRESS] = ""

    @property
    def server(self) -> str:
        """See `ServerFields.server`."""
        return self.metric_provider or self.address

    def given(self, limits: Limits) -> Limits:
        """See `ServerFields.given`. Without a relative `from` it is a day, as Graphite has it."""
        from_ = next((value for name, value in _pairs(self.query) if name == "from"), "")
        found = _AGO.fullmatch(from_)
        return replace(limits, window_s=86_400.0 if found is None else int(found[1]) * _UNIT_S[found[2]])

    def places(self) -> Mapping[str, Any]:
        """See `ServerFields.places`."""
        pairs = _pairs(self.query)
        return {name: [value for given, value in pairs if given == name] for name in _PARAMETERS}

    @staticmethod
    def problems(given: Mapping[str, Any]) -> Iterator[FieldProblem]:
        """See `ServerFields.problems`."""
        names = [name for name, _ in _pairs(given.get("query") or "")]
        if given.get("query") and "target" not in names:
            yield "query", "must have a target: target=sumSeries(shop.errors)&from=-5min"
        for name in sorted({*names} - {*_PARAMETERS}):
            yield "query", f"has {name[:40]!r}; there are target, from and until"
        if given.get("address") and given.get("metricProvider"):
            yield "address", "and metricProvider name a server both; give one of them"


def _pairs(query: str) -> list[tuple[str, str]]:
    # White space is for people, as in Argo Rollouts, where it is removed.
    return parse_qsl("".join(query.split()), keep_blank_values=True)


RECIPE = Recipe(
    name="graphite",
    title="Graphite",
    text="A query of Graphite.",
    fields=Graphite,
    limits=Limits(timeout_s=10.0),
    exchanges=(
        Exchange(
            ask=AskTemplate(
                path="/render",
                query=(
                    *(("target", "{{target}}"), ("from", "{{from}}"), ("until", "{{until}}")),
                    ("format", "json"),
                ),
            ),
            read=AnswerPlan(kind=ResultKind.ALL, result="[*]", values="datapoints[*][0]", times="datapoints[*][1]"),
        ),
    ),
)
