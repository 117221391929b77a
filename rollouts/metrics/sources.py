"""Each source's question and what its answer means: the one place that names the codecs of sources that are asked over HTTP."""

from __future__ import annotations

from typing import TypeAlias, assert_never

from msgspec import Struct

from rollouts.core.analysis.source import PrometheusQuery, WebQuery
from rollouts.metrics import prometheus, web
from rollouts.metrics.requests import HttpRequest, MetricAnswer, MetricEndpoint, NoAnswer
from rollouts.metrics.samples import Absence, MetricData, NoEvidence

HttpSource: TypeAlias = PrometheusQuery | WebQuery


class Question(Struct, frozen=True):
    """One measurement's question; what the answer means depends on it.

    Args:
        window: the times that were asked for.
    """

    source: HttpSource
    endpoint: MetricEndpoint
    request: HttpRequest
    window: prometheus.Window


def question_of(source: HttpSource, endpoint: MetricEndpoint, *, now_s: float) -> Question | NoEvidence:
    """What is asked now.

    Args:
        endpoint: who `source.endpoint` or `source.url` names.
        now_s: seconds since 1970.
    """
    match source:
        case PrometheusQuery():
            window = prometheus.window_of(source, now_s=now_s)
            if isinstance(window, NoEvidence):
                return window
            request = prometheus.request_of(source, endpoint, window)
            return request if isinstance(request, NoEvidence) else Question(source, endpoint, request, window)
        case WebQuery():
            asked = web.request_of(source)
            return (
                asked if isinstance(asked, NoEvidence) else Question(source, endpoint, asked, prometheus.Window(now_s))
            )
        case _:
            assert_never(source)


def found_in(answer: MetricAnswer, question: Question) -> MetricData:
    """What the answer shows. Raises: nothing that a server could cause."""
    if isinstance(answer, NoAnswer):
        return NoEvidence(answer.why, Absence.ERROR)
    match question.source:
        case PrometheusQuery():
            return prometheus.numbers_of(answer, question.window)
        case WebQuery() as source:
            return web.document_of(answer, source)
        case _:
            assert_never(question.source)
