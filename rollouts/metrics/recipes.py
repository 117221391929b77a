"""The codec of every kind of server that has a recipe: who is asked, what, and what the answer means. Pure.

A number counts if it is of the time that was asked for. The newest of each series must be no older than that, and no older than
`recipe_answers.FRESH_S`: what a server last knew of stable's pods says nothing about the canary's.
"""

from __future__ import annotations

from collections.abc import Mapping

from rollouts.core.analysis.recipe import Limits
from rollouts.core.analysis.recipes import RECIPES
from rollouts.core.analysis.source import ServerQuery
from rollouts.core.model.frozen import replace
from rollouts.metrics.recipe_answers import AnswerReader
from rollouts.metrics.recipe_requests import places_of, request_from
from rollouts.metrics.requests import HttpAnswer, HttpRequest, MetricEndpoint, Window, origin_of
from rollouts.metrics.samples import Absence, MetricData, NoEvidence


def endpoint_of(source: ServerQuery, declared: Mapping[str, MetricEndpoint]) -> MetricEndpoint | NoEvidence:
    """The MetricProvider that the metric names, or the only one of the kind; or a URL that nobody declared."""
    recipe, name = RECIPES[source.kind], source.endpoint
    same = {given: endpoint for given, endpoint in declared.items() if endpoint.kind == source.kind}
    if not name:
        if len(same) == 1:
            return next(iter(same.values()))
        there = f"there are {len(same)}, so the metric must name one" if same else "declare one"
        return NoEvidence(f"{recipe.title} is asked by a MetricProvider of type {recipe.name}: {there}", Absence.ERROR)
    if name in same:
        return same[name]
    if name in declared:
        return NoEvidence(f"MetricProvider {name} is not of type {recipe.name}", Absence.ERROR)
    if origin_of(name):
        by_url = [endpoint for endpoint in same.values() if endpoint.url.rstrip("/") == name.rstrip("/")]
        return by_url[0] if by_url else MetricEndpoint(url=name, kind=source.kind)
    return NoEvidence(f"there is no MetricProvider {name}: declare it, with type {recipe.name}", Absence.ERROR)


def with_recipe(source: ServerQuery, endpoint: MetricEndpoint) -> ServerQuery:
    """The metric with the recipe of its server, if that has one of its own."""
    return source if endpoint.recipe is None else replace(source, recipe=endpoint.recipe)


def window_of(source: ServerQuery, *, now_s: float) -> Window:
    """From then until now."""
    return Window(now_s, now_s - _limits_of(source).window_s)


def request_of(source: ServerQuery, endpoint: MetricEndpoint, window: Window) -> HttpRequest | NoEvidence:
    """What is sent."""
    recipe = source.recipe or RECIPES[source.kind]
    if not recipe.exchanges:
        return NoEvidence("its MetricProvider has no recipe", Absence.ERROR)
    ask, limits = recipe.exchange_of(source.fields).ask, _limits_of(source)
    values = places_of(recipe, source.fields, endpoint, window, ask.times, limits)
    return values if isinstance(values, NoEvidence) else request_from(ask, values, endpoint, limits)


def data_of(answer: HttpAnswer, source: ServerQuery, window: Window) -> MetricData:
    """What a condition sees of the answer. Raises: nothing."""
    recipe = source.recipe or RECIPES[source.kind]
    if answer.status in (401, 403):
        return NoEvidence(f"{recipe.title} does not take the credentials ({answer.status})", Absence.ERROR)
    if answer.status != 200:
        return NoEvidence(f"{recipe.title} answers {answer.status}", Absence.ERROR)
    return AnswerReader(recipe.title, recipe.exchange_of(source.fields).read, window).data_of(answer.body)


def _limits_of(source: ServerQuery) -> Limits:
    return source.fields.given(RECIPES[source.kind].limits)
