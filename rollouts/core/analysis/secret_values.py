"""Puts the values of Secrets into a metric, right before its request is made. Pure; the result is for nobody's eyes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import assert_never

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
from rollouts.core.model.frozen import replace
from rollouts.core.placeholders import filled

_Fill = Callable[[str], str]


def with_secret_values(metric: Metric, values: Mapping[str, str]) -> Metric:
    """The metric with the values in the places of its secrets; nothing that stands in a value is a place.

    Args:
        values: by the name of the argument; of all of `metric.secrets`.

    Raises: KeyError for a secret without a value.
    """
    known = {f"args.{secret.argument}": values[secret.argument] for secret in metric.secrets}

    def plain(text: str) -> str:
        return filled(text, known.get)

    def in_json(text: str) -> str:
        return filled(text, {name: json.dumps(value)[1:-1] for name, value in known.items()}.get)

    return replace(metric, source=_filled(metric.source, plain, in_json), secrets=()) if known else metric


def _filled(source: MetricSource, plain: _Fill, in_json: _Fill) -> MetricSource:
    match source:
        case PrometheusQuery():
            return replace(
                source,
                headers=_headers(source.headers, plain),
                authentication=_authentication(source.authentication, plain),
            )
        case Comparison():
            of = _filled(source.of, plain, in_json)
            assert not isinstance(of, JobMetric | PodEvidence | Comparison | AutoscalerMetric)  # noqa: S101 - the kind stays
            return replace(source, of=of)
        case WebQuery():
            return replace(
                source,
                url=plain(source.url),
                headers=_headers(source.headers, plain),
                body=(in_json if source.body_is_json else plain)(source.body),
                authentication=_authentication(source.authentication, plain),
            )
        case JobMetric() | PodEvidence() | FromCluster():  # no secret may stand in them
            return source
        case _:
            assert_never(source)


def _headers(headers: tuple[tuple[str, str], ...], plain: _Fill) -> tuple[tuple[str, str], ...]:
    return tuple((name, plain(value)) for name, value in headers)


def _authentication(authentication: Authentication | None, plain: _Fill) -> Authentication | None:
    match authentication:
        case OAuth2():
            return replace(
                authentication,
                token_url=plain(authentication.token_url),
                client_id=plain(authentication.client_id),
                client_secret=plain(authentication.client_secret),
                scopes=tuple(map(plain, authentication.scopes)),
            )
        case BasicAuth(username=username, password=password):
            return BasicAuth(username=plain(username), password=plain(password))
        case None:
            return None
        case _:
            assert_never(authentication)
