"""Each source's question and what its answer means: the one place that names the codecs of sources that are asked over HTTP."""

from __future__ import annotations

from typing import TypeAlias, assert_never

from msgspec import Struct

from rollouts.core.analysis.measurement import Measurement
from rollouts.core.analysis.metric import MetricCondition
from rollouts.core.analysis.source import PrometheusQuery, WebQuery
from rollouts.metrics import prometheus, web
from rollouts.metrics.evidence import measured
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


def window_of(source: HttpSource, now_s: float) -> prometheus.Window | NoEvidence:
    """The times that are asked for; those of a range are a template's expressions.

    Args:
        now_s: seconds since 1970.
    """
    return (
        prometheus.window_of(source, now_s=now_s) if isinstance(source, PrometheusQuery) else prometheus.Window(now_s)
    )


def question_of(
    source: HttpSource, endpoint: MetricEndpoint, window: prometheus.Window | NoEvidence
) -> Question | NoEvidence:
    """What is asked.

    Args:
        endpoint: who `source.endpoint` or `source.url` names.
        window: see `window_of`.
    """
    if isinstance(window, NoEvidence):
        return window
    match source:
        case PrometheusQuery():
            request = prometheus.request_of(source, endpoint, window)
            return request if isinstance(request, NoEvidence) else Question(source, endpoint, request, window)
        case WebQuery():
            asked = web.request_of(source)
            return asked if isinstance(asked, NoEvidence) else Question(source, endpoint, asked, window)
        case _:
            assert_never(source)


def found_in(answer: MetricAnswer, source: HttpSource, window: prometheus.Window) -> MetricData:
    """What the answer shows.

    Args:
        source, window: of the question.

    Raises: nothing that a server could cause.
    """
    if isinstance(answer, NoAnswer):
        return NoEvidence(answer.why, Absence.ERROR)
    match source:
        case PrometheusQuery():
            return prometheus.numbers_of(answer, window)
        case WebQuery():
            return web.document_of(answer, source)
        case _:
            assert_never(source)


def judged(
    answer: MetricAnswer,
    source: HttpSource,
    window: prometheus.Window,
    condition: MetricCondition,
    started_at_s: float,
    finished_at_s: float,
) -> Measurement:
    """The measurement that follows from an answer: see `found_in` and `evidence.measured`."""
    found = found_in(answer, source, window)
    return measured(found, condition, started_at_s=started_at_s, finished_at_s=finished_at_s)
