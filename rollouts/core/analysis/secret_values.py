"""Puts the values of Secrets into a metric, right before its request is made. Pure; the result is for nobody's eyes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar, assert_never

from rollouts.core.analysis.cluster_source import AutoscalerMetric, FromCluster
from rollouts.core.analysis.metric import Metric
from rollouts.core.analysis.source import (
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
from rollouts.core.placeholders import Refuse, ValueOf, filled

_Query = TypeVar("_Query", PrometheusQuery, WebQuery)


def with_secret_values(metric: Metric, values: Mapping[str, str], refuse: Refuse = lambda _name, _why: None) -> Metric:
    """The metric with the values in the places of its secrets; nothing that stands in a value is a place.

    Args:
        values: by the name of the argument; of all of `metric.secrets`.
        refuse: is given the argument of each value that may not stand in its place, and why, which has a part of the value.

    Raises: KeyError for a secret without a value.
    """
    known = {f"args.{secret.argument}": values[secret.argument] for secret in metric.secrets}
    return replace(metric, source=_filled(metric.source, known.get, refuse), secrets=()) if known else metric


def _filled(source: MetricSource, value_of: ValueOf, refuse: Refuse) -> MetricSource:
    match source:
        case Comparison():
            of = _filled(source.of, value_of, refuse)
            assert not isinstance(of, JobMetric | PodEvidence | Comparison | AutoscalerMetric)  # noqa: S101 - the kind stays
            return replace(source, of=of)
        case PrometheusQuery():
            return _with_credentials(source, value_of, refuse)
        case WebQuery():
            filled_text = filled_json if source.body_is_json else filled_body
            url, body = filled_url(source.url, value_of, refuse), filled_text(source.body, value_of, refuse)
            return _with_credentials(replace(source, url=url, body=body), value_of, refuse)
        case JobMetric() | PodEvidence() | FromCluster():  # no secret may stand in them
            return source
        case _:
            assert_never(source)


def _with_credentials(query: _Query, value_of: ValueOf, refuse: Refuse) -> _Query:
    """With the values in its headers, and in how it says who asks."""
    headers = tuple([(name, filled(value, value_of)) for name, value in query.headers])
    authentication = query.authentication
    match authentication:
        case OAuth2():
            authentication = OAuth2(
                token_url=filled_url(authentication.token_url, value_of, refuse),
                client_id=filled(authentication.client_id, value_of),
                client_secret=filled(authentication.client_secret, value_of),
                scopes=tuple([filled(scope, value_of) for scope in authentication.scopes]),
            )
        case BasicAuth(username=username, password=password):
            authentication = BasicAuth(username=filled(username, value_of), password=filled(password, value_of))
        case None:
            pass
        case _:
            assert_never(authentication)
    return replace(query, headers=headers, authentication=authentication)
