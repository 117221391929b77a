"""Who a metric asks, and what: an endpoint that an administrator declared, or the URL that the metric itself has. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from rollouts.core.analysis.source import (
    DEFAULT_ENDPOINT,
    Authentication,
    BasicAuth,
    OAuth2,
    PrometheusQuery,
    WebQuery,
)
from rollouts.core.model.frozen import replace
from rollouts.metrics.prometheus import Window
from rollouts.metrics.requests import Basic, ClientCredentials, MetricCredentials, MetricEndpoint, origin_of
from rollouts.metrics.samples import Absence, NoEvidence
from rollouts.metrics.sources import HttpSource, Question, question_of
from rollouts.secret import Secret


def endpoint_of(source: HttpSource, declared: Mapping[str, MetricEndpoint]) -> MetricEndpoint | NoEvidence:
    """Who is asked. A URL that somebody declared is the declared endpoint, with its credentials; any other is a tenant's.

    A declared one is only read, unless its declaration allows more: a template must not change what it could not reach itself.

    Args:
        declared: by name; "default" is what `--prometheus-url` names.
    """
    match source:
        case PrometheusQuery(endpoint=name):
            if name in declared:
                return _asked_by(source, declared[name])
            if origin_of(name):
                same = [each for each in declared.values() if each.url.rstrip("/") == name.rstrip("/")]
                return _asked_by(source, same[0] if same else MetricEndpoint(url=name))
            what = "--prometheus-url" if name == DEFAULT_ENDPOINT else f"a MetricProvider {name}"
            return NoEvidence(f"nothing names the Prometheus to ask: give {what}, or its address", Absence.ERROR)
        case WebQuery(url=url, method=method):
            same = [each for each in declared.values() if f"{url}/".startswith(f"{each.url.rstrip('/')}/")]
            if same and method not in same[0].methods:
                # The server believes the controller, and many have an API that deletes beside the one that measures.
                may = f"a metric may use {' and '.join(same[0].methods)} there; its MetricProvider says so in spec.methods"
                return NoEvidence(f"method: {method} to {same[0].display_name} is refused: {may}", Absence.ERROR)
            return _asked_by(source, same[0] if same else MetricEndpoint(url=url))


def question_to(
    source: HttpSource,
    declared: Mapping[str, MetricEndpoint],
    window: Window | NoEvidence,
    *,
    anywhere: bool = False,
) -> Question | NoEvidence:
    """What is asked, and whom; or why nobody can be asked.

    Args:
        declared: by name; "default" is what `--prometheus-url` names.
        window: the times that are asked for, `sources.window_of`.
        anywhere: whoever asks may ask any address, as people may from their own machines.
    """
    endpoint = endpoint_of(source, declared)
    if isinstance(endpoint, NoEvidence):
        return endpoint
    return question_of(source, _anybodys(endpoint) if anywhere else endpoint, window)


def _anybodys(endpoint: MetricEndpoint) -> MetricEndpoint:
    """The endpoint with all of its URLs as if whoever asks had declared them."""
    credentials = endpoint.credentials
    if isinstance(credentials, ClientCredentials):
        credentials = replace(credentials, declared=True)
    return replace(endpoint, declared=True, credentials=credentials)


def _asked_by(source: HttpSource, endpoint: MetricEndpoint) -> MetricEndpoint:
    """The endpoint as this metric asks it: what the template says of credentials comes before what the endpoint has.

    The URL of a template's token stays a template's, though the token is for a server that an administrator declared.
    A template does not turn off the check of a certificate for credentials that are not its own: anybody could take them then.
    """
    credentials = _credentials(source.authentication) or endpoint.credentials
    unchecked = source.insecure and endpoint.credentials is None and not endpoint.headers
    return replace(endpoint, credentials=credentials, insecure=endpoint.insecure or unchecked)


def _credentials(authentication: Authentication | None) -> MetricCredentials | None:
    match authentication:
        case OAuth2():
            return ClientCredentials(
                token_url=authentication.token_url,
                client_id=authentication.client_id,
                client_secret=Secret(authentication.client_secret),
                scopes=authentication.scopes,
            )
        case BasicAuth(username=username, password=password):
            return Basic(username, Secret(password))
        case None:
            return None
        case _:
            assert_never(authentication)
