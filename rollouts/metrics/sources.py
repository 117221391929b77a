"""The sources that are asked over HTTP, with the module of each: who is asked, what, and what the answer means. Pure.

A new source is one module and one line here; a kind of server that has a recipe needs neither (`core/analysis/servers`).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Protocol

from msgspec import Struct

from rollouts.core.analysis.measurement import Measurement
from rollouts.core.analysis.metric import MetricCondition
from rollouts.core.analysis.recipes import RECIPES
from rollouts.core.analysis.source import BasicAuth, HttpSource, OAuth2, PrometheusQuery, ServerQuery, WebQuery
from rollouts.core.model.frozen import replace
from rollouts.metrics import prometheus, recipes, web
from rollouts.metrics.evidence import measured
from rollouts.metrics.requests import (
    Basic,
    ClientCredentials,
    HttpAnswer,
    HttpRequest,
    MetricAnswer,
    MetricCredentials,
    MetricEndpoint,
    NoAnswer,
    Window,
)
from rollouts.metrics.samples import Absence, MetricData, NoEvidence
from rollouts.secret import Secret


class HttpCodec(Protocol):
    """What the module of a source has."""

    def endpoint_of(self, source: Any, declared: Mapping[str, MetricEndpoint], /) -> MetricEndpoint | NoEvidence:
        """The endpoint that the source names: a declared one, or one with a tenant's URL."""
        ...

    def window_of(self, source: Any, /, *, now_s: float) -> Window | NoEvidence:
        """The times that are asked for."""
        ...

    def request_of(self, source: Any, endpoint: MetricEndpoint, window: Window, /) -> HttpRequest | NoEvidence:
        """What is sent."""
        ...

    def data_of(self, answer: HttpAnswer, source: Any, window: Window, /) -> MetricData:
        """What the answer shows. Raises: nothing that a server could cause."""
        ...


HTTP_CODECS: Mapping[str, HttpCodec] = MappingProxyType(
    {PrometheusQuery.provider: prometheus, WebQuery.provider: web, **dict.fromkeys(RECIPES, recipes)}
)
"""By `provider`."""


class Question(Struct, frozen=True):
    """One measurement's question; what the answer means depends on it.

    Args:
        source: with the recipe of its server, if that has one of its own.
    """

    source: HttpSource
    endpoint: MetricEndpoint
    request: HttpRequest
    window: Window


def window_of(source: HttpSource, now_s: float) -> Window | NoEvidence:
    """The times that are asked for; those of a range are a template's expressions."""
    return HTTP_CODECS[source.provider].window_of(source, now_s=now_s)


def endpoint_of(source: HttpSource, declared: Mapping[str, MetricEndpoint]) -> MetricEndpoint | NoEvidence:
    """Who is asked. A URL that somebody declared is the declared endpoint, with its credentials; any other is a tenant's.

    What the template says of credentials comes before what the endpoint has. The URL of a template's token stays a template's,
    though the token is for a server that an administrator declared. A template does not turn off the check of a certificate for
    credentials that are not its own: anybody could take them then.

    Args:
        declared: by name; "default" is what `--prometheus-url` names.
    """
    endpoint = HTTP_CODECS[source.provider].endpoint_of(source, declared)
    if isinstance(endpoint, NoEvidence):
        return endpoint
    credentials: MetricCredentials | None = endpoint.credentials
    match source.authentication:
        case OAuth2(token_url=token_url, client_id=client_id, client_secret=client_secret, scopes=scopes):
            credentials = ClientCredentials(token_url, client_id, Secret(client_secret), scopes)
        case BasicAuth(username=username, password=password):
            credentials = Basic(username, Secret(password))
        case None:
            pass
    unchecked = source.insecure and endpoint.credentials is None and not endpoint.headers
    return replace(endpoint, credentials=credentials, insecure=endpoint.insecure or unchecked)


def question_of(source: HttpSource, endpoint: MetricEndpoint, window: Window | NoEvidence) -> Question | NoEvidence:
    """What is asked of that endpoint, for the times of `window_of`."""
    if isinstance(window, NoEvidence):
        return window
    if isinstance(source, ServerQuery):
        source = recipes.with_recipe(source, endpoint)
    request = HTTP_CODECS[source.provider].request_of(source, endpoint, window)
    return request if isinstance(request, NoEvidence) else Question(source, endpoint, request, window)


def question_to(
    source: HttpSource, declared: Mapping[str, MetricEndpoint], window: Window | NoEvidence, *, anywhere: bool = False
) -> Question | NoEvidence:
    """What is asked, and whom; or why nobody can be asked.

    Args:
        anywhere: whoever asks may ask any address, as people may from their own machines.
    """
    endpoint = endpoint_of(source, declared)
    if isinstance(endpoint, NoEvidence):
        return endpoint
    if anywhere:  # all of its URLs are as if whoever asks had declared them
        credentials = endpoint.credentials
        if isinstance(credentials, ClientCredentials):
            credentials = replace(credentials, declared=True)
        endpoint = replace(endpoint, declared=True, credentials=credentials)
    return question_of(source, endpoint, window)


def found_in(answer: MetricAnswer, source: HttpSource, window: Window) -> MetricData:
    """What the answer to a question shows. Raises: nothing that a server could cause."""
    if isinstance(answer, NoAnswer):
        return NoEvidence(answer.why, Absence.ERROR)
    return HTTP_CODECS[source.provider].data_of(answer, source, window)


def judged(
    answer: MetricAnswer,
    source: HttpSource,
    window: Window,
    condition: MetricCondition,
    started_at_s: float,
    finished_at_s: float,
) -> Measurement:
    """The measurement that follows from an answer: see `found_in` and `evidence.measured`."""
    found = found_in(answer, source, window)
    return measured(found, condition, started_at_s=started_at_s, finished_at_s=finished_at_s)
