"""Puts the values of Secrets into a metric, right before its request is made. Pure; the result is for nobody's eyes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, assert_never

from rollouts.core.analysis.cluster_source import AutoscalerMetric, FromCluster
from rollouts.core.analysis.metric import Metric
from rollouts.core.analysis.source import (
    Authentication,
    BasicAuth,
    Comparison,
    JobMetric,
    MetricSource,
    OAuth2,
    PodEvidence,
    PrometheusQuery,
    WebQuery,
)
from rollouts.core.filled_texts import filled_body, filled_json, filled_url
from rollouts.core.model.frozen import replace
from rollouts.core.placeholders import Refuse, filled

_Fill = Callable[[str], str]


class _Fills(NamedTuple):
    """How values are put into each kind of text."""

    plain: _Fill
    url: _Fill
    body: _Fill
    json: _Fill


def with_secret_values(metric: Metric, values: Mapping[str, str], refuse: Refuse = lambda _name, _why: None) -> Metric:
    """The metric with the values in the places of its secrets; nothing that stands in a value is a place.

    Args:
        values: by the name of the argument; of all of `metric.secrets`.
        refuse: is given the argument of each value that may not stand in its place, and why, which has a part of the value.

    Raises: KeyError for a secret without a value.
    """
    known = {f"args.{secret.argument}": values[secret.argument] for secret in metric.secrets}
    fills = _Fills(
        plain=lambda text: filled(text, known.get),
        url=lambda text: filled_url(text, known.get, refuse),
        body=lambda text: filled_body(text, known.get, refuse),
        json=lambda text: filled_json(text, known.get, refuse),
    )
    return replace(metric, source=_filled(metric.source, fills), secrets=()) if known else metric


def _filled(source: MetricSource, fills: _Fills) -> MetricSource:
    match source:
        case PrometheusQuery():
            return replace(
                source,
                headers=_headers(source.headers, fills.plain),
                authentication=_authentication(source.authentication, fills),
            )
        case Comparison():
            of = _filled(source.of, fills)
            assert not isinstance(of, JobMetric | PodEvidence | Comparison | AutoscalerMetric)  # noqa: S101 - the kind stays
            return replace(source, of=of)
        case WebQuery():
            return replace(
                source,
                url=fills.url(source.url),
                headers=_headers(source.headers, fills.plain),
                body=(fills.json if source.body_is_json else fills.body)(source.body),
                authentication=_authentication(source.authentication, fills),
            )
        case JobMetric() | PodEvidence() | FromCluster():  # no secret may stand in them
            return source
        case _:
            assert_never(source)


def _headers(headers: tuple[tuple[str, str], ...], plain: _Fill) -> tuple[tuple[str, str], ...]:
    return tuple((name, plain(value)) for name, value in headers)


def _authentication(authentication: Authentication | None, fills: _Fills) -> Authentication | None:
    match authentication:
        case OAuth2():
            return replace(
                authentication,
                token_url=fills.url(authentication.token_url),
                client_id=fills.plain(authentication.client_id),
                client_secret=fills.plain(authentication.client_secret),
                scopes=tuple(map(fills.plain, authentication.scopes)),
            )
        case BasicAuth(username=username, password=password):
            return BasicAuth(username=fills.plain(username), password=fills.plain(password))
        case None:
            return None
        case _:
            assert_never(authentication)
