"""Answers of Prometheus and of web servers, good ones and bad ones, and how they are measured."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rollouts.core.analysis.measurement import Measurement
from rollouts.core.analysis.metric import MetricCondition
from rollouts.core.analysis.source import HttpSource, PrometheusQuery, QueryRange, WebQuery
from rollouts.metrics.requests import HttpAnswer, MetricAnswer, MetricEndpoint
from rollouts.metrics.samples import MetricData, NoEvidence
from rollouts.metrics.sources import Question, found_in, judged, question_of, window_of

NOW_S = 1_790_000_000.0
MARK = "MARKER-of-the-server"
ENDPOINT = MetricEndpoint(url="http://prometheus.monitoring:9090", declared=True)
QUERY = PrometheusQuery(query="sum(rate(errors[1m]))")
RANGE = PrometheusQuery(
    query="sum(rate(errors[1m]))", range=QueryRange(start='now() - duration("5m")', end="now()", step_s=60)
)
WEB = WebQuery(url="http://shop/quality")
WEB_PART = WebQuery(url="http://shop/quality", json_path="{$.data.value}")


def prometheus(result_type: str, result: Any, **more: Any) -> bytes:
    return json.dumps({"status": "success", "data": {"resultType": result_type, "result": result}, **more}).encode()


def vector(*values: Any, at_s: float = NOW_S, **more: Any) -> bytes:
    series = [{"metric": {"pod": f"{MARK}-{place}"}, "value": [at_s, each]} for place, each in enumerate(values)]
    return prometheus("vector", series, **more)


def matrix(*series: Sequence[tuple[float, str]], **more: Any) -> bytes:
    return prometheus("matrix", [{"metric": {}, "values": each} for each in series], **more)


def asked(source: HttpSource) -> Question:
    """The question that the source asks at NOW_S."""
    question = question_of(source, ENDPOINT, window_of(source, NOW_S))
    assert not isinstance(question, NoEvidence), question
    return question


def answered(body: bytes, *, status: int = 200, content_type: str = "application/json") -> HttpAnswer:
    return HttpAnswer(status=status, body=body, content_type=content_type)


def measurement(answer: MetricAnswer, condition: MetricCondition, *, source: HttpSource = QUERY) -> Measurement:
    question = asked(source)
    return judged(answer, question.source, question.window, condition, NOW_S, NOW_S + 1)


def read(answer: MetricAnswer, question: Question) -> MetricData:
    return found_in(answer, question.source, question.window)
