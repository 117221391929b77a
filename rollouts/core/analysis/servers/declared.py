"""A server whose recipe is in its MetricProvider: an administrator adds it without code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from rollouts.core.analysis.recipe import QUERY, Limits, Recipe, ServerFields
from rollouts.core.model.frozen import replace


class DeclaredQuery(ServerFields, frozen=True, kw_only=True):
    """A question to a server with a recipe of its own."""

    query: Annotated[str, "What stands for {{query}} in the recipe.", QUERY] = ""
    fields: Annotated[Mapping[str, str], "What stands for other places of the recipe, by their names."] = {}
    interval_s: Annotated[float, "How far back the question looks; default 5m."] = 300.0

    def given(self, limits: Limits) -> Limits:
        """See `ServerFields.given`."""
        return replace(limits, window_s=self.interval_s)

    def places(self) -> Mapping[str, Any]:
        """See `ServerFields.places`."""
        return self.fields


RECIPE = Recipe(
    name="declared",
    title="A server with a recipe of its own",
    text="A question to a server whose recipe is in its MetricProvider.",
    fields=DeclaredQuery,
    exchanges=(),
)
