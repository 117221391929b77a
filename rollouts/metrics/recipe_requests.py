"""What is sent to a server that has a recipe: its template, with values in the places. Pure.

A value stays the value of its place: it is percent-encoded in a path and in parameters, and a JSON value in a body.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from rollouts.core.analysis.recipe import AskTemplate, Limits, Recipe, ServerFields, TimeForm
from rollouts.metrics.requests import HttpRequest, MetricEndpoint, Window, sent
from rollouts.metrics.samples import Absence, NoEvidence
from rollouts.secret import Secret

BODY_MAX_BYTES = 131_072
URL_MAX = 16_384  # characters; what the servers take at most is about that

_PLACE = re.compile(r"\{\{(\w+)\}\}")
_OF_TIMES = frozenset({"start", "end", "window", "timeout"})


def places_of(
    recipe: Recipe, fields: ServerFields, endpoint: MetricEndpoint, window: Window, times: TimeForm, limits: Limits
) -> dict[str, Any] | NoEvidence:
    """The values for the places of a request, by name."""
    start_s = window.end_s if window.start_s is None else window.start_s
    values: dict[str, Any] = {
        "start": time_text(start_s, times),
        "end": time_text(window.end_s, times),
        "window": int(window.end_s - start_s),
        "timeout": int(limits.timeout_s),
    }
    settings = dict(endpoint.settings)
    for setting in recipe.settings:
        text = settings.get(setting.name, setting.default)
        if not text:
            how = f"its MetricProvider must say it in spec.settings.{setting.name}"
            return NoEvidence(f"{recipe.title} needs the {setting.text}: {how}", Absence.ERROR)
        values[setting.name] = int(text) if setting.number else text
    return values | msgspec.structs.asdict(fields) | dict(fields.places())


def filled_by_metrics(recipe: Recipe) -> frozenset[str]:
    """The names of the places that a metric fills, of a recipe that is a MetricProvider's own."""
    asks = (exchange.ask for exchange in recipe.exchanges)
    texts = (f"{ask.path} {ask.query} {ask.headers} {ask.body}" for ask in asks)
    return frozenset(name for text in texts for name in _PLACE.findall(text)) - _OF_TIMES


def request_from(
    ask: AskTemplate, values: Mapping[str, Any], endpoint: MetricEndpoint, limits: Limits
) -> HttpRequest | NoEvidence:
    """The request with the values in its places."""
    try:
        body = filled_template(ask.body, values)
        sent_body = body.encode() if isinstance(body, str) else b"" if body is None else msgspec.json.encode(body)
        parameters = urlencode(list(parameters_of(ask, values)), quote_via=quote)
        path = _PLACE.sub(lambda place: quote(str(values[place[1]]), safe=""), ask.path)
        headers = sent(tuple((name, value_text(filled_template(value, values))) for name, value in ask.headers))
    except KeyError as error:
        return NoEvidence(f"the recipe has a place {error.args[0][:40]!r} that the metric does not fill", Absence.ERROR)
    except UnicodeEncodeError:
        return NoEvidence("the query has half of a surrogate pair in it, which is no text", Absence.ERROR)
    kind = "text/plain" if isinstance(body, str) else "application/json"
    url = endpoint.url.rstrip("/") + path + (f"?{parameters}" if parameters else "")
    if len(sent_body) > BODY_MAX_BYTES or len(url) > URL_MAX:
        longest = f"{URL_MAX} characters in a URL, or {BODY_MAX_BYTES} bytes in a body"
        return NoEvidence(f"the query is too long: it may have {longest}", Absence.ERROR)
    has_type = any(name.lower() == "content-type" for name, _ in ask.headers)
    typed = (("Content-Type", Secret(kind)),) if sent_body and not has_type else ()
    return HttpRequest(
        url=url, method=ask.method, headers=(*headers, *typed), body=sent_body, timeout_s=limits.timeout_s
    )


def parameters_of(ask: AskTemplate, values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The parameters of the URL; a list is one for each of its entries, and what is empty is none."""
    for name, template in ask.query:
        value = filled_template(template, values)
        for each in value if isinstance(value, list) else [value]:
            if each != "":
                yield name, value_text(each)


def filled_template(template: Any, values: Mapping[str, Any]) -> Any:
    """A template with values in its places; what fills a whole text keeps its type."""
    match template:
        case str():
            if (whole := _PLACE.fullmatch(template)) is not None:
                return values[whole[1]]
            return _PLACE.sub(lambda place: value_text(values[place[1]]), template)
        case dict():
            return {
                value_text(filled_template(name, values)): filled_template(part, values)
                for name, part in template.items()
            }
        case list():
            return [filled_template(part, values) for part in template]
        case _:
            return template


def value_text(value: Any) -> str:
    """A value within a text."""
    match value:
        case bool():
            return "true" if value else "false"
        case float() if value.is_integer():
            return str(int(value))
        case _:
            return str(value)


def time_text(at_s: float, form: TimeForm) -> int | str:
    """A time as a server wants it."""
    match form:
        case TimeForm.SECONDS:
            return int(at_s)
        case TimeForm.MILLISECONDS:
            return int(at_s * 1_000)
        case TimeForm.RFC3339:
            return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        case TimeForm.MINUTE:
            return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%d %H%M")
