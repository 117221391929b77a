"""The HTTP API of Prometheus: a request to the JSON of its answer.

Source: https://prometheus.io/docs/prometheus/latest/querying/api/
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qs, urlsplit

from msgspec import Struct

from rollouts.metrics.requests import HttpRequest
from rollouts.sim.network.prometheus.evaluation import Evaluator
from rollouts.sim.network.prometheus.parser import parsed
from rollouts.sim.network.prometheus.samples import Labels, SampleStore
from rollouts.sim.network.prometheus.tree import QueryRefused, Selector, ValueType, type_of

POINTS_MAX = 11_000
"""Of one series. Source: Prometheus v3, web/api/v1/api.go."""
_STATUS = {"bad_data": 400, "execution": 422, "not_found": 404}


class ApiAnswer(Struct, frozen=True):
    """An answer before it is text, with the status of HTTP."""

    status: int
    body: Mapping[str, Any]

    def text(self) -> bytes:
        """As it is sent."""
        return json.dumps(self.body, separators=(",", ":")).encode()


def answered(request: HttpRequest, store: SampleStore, *, now_s: float) -> ApiAnswer:
    """What is answered to an instant or a range query, by GET or as a form; to anything else an error."""
    path = urlsplit(request.url).path
    text = urlsplit(request.url).query if request.method == "GET" else request.body.decode()
    form = {name: values[0] for name, values in parse_qs(text, keep_blank_values=True).items()}
    try:
        if path.endswith("/api/v1/query"):
            return _success(_instant(form, store, now_s))
        if path.endswith("/api/v1/query_range"):
            return _success(_range(form, store))
    except QueryRefused as refused:
        return refusal(refused.kind, str(refused))
    return refusal("not_found", "there is no such path here")


def refusal(kind: str, why: str, *, status: int | None = None) -> ApiAnswer:
    """`status: error`, with the HTTP status that belongs to it unless one is given."""
    body = {"status": "error", "errorType": kind, "error": why}
    return ApiAnswer(_STATUS.get(kind, 503) if status is None else status, body)


def _success(data: Mapping[str, Any]) -> ApiAnswer:
    return ApiAnswer(200, {"status": "success", "data": data})


def _instant(form: Mapping[str, str], store: SampleStore, now_s: float) -> Mapping[str, Any]:
    at_ms = _time_ms(form, "time") if "time" in form else round(now_s * 1000)
    node = parsed(form.get("query", ""))
    evaluator = Evaluator(store, at_ms)
    if isinstance(node, Selector) and node.range_ms is not None:
        series = [_series(labels, points) for labels, points in evaluator.matrix(node).items()]
        return {"resultType": "matrix", "result": series}
    value = evaluator.value(node)
    if not isinstance(value, dict):
        return {"resultType": "scalar", "result": [_time(at_ms), number_text(value)]}
    items = [{"metric": dict(labels), "value": [_time(at_ms), number_text(number)]} for labels, number in value.items()]
    return {"resultType": "vector", "result": items}


def _range(form: Mapping[str, str], store: SampleStore) -> Mapping[str, Any]:
    start_ms, end_ms = _time_ms(form, "start"), _time_ms(form, "end")
    step = form.get("step", "")
    try:
        step_ms = round(float(step.removesuffix("s")) * 1000)
    except ValueError:
        raise QueryRefused(f'invalid parameter "step": cannot parse {step!r} to a valid duration') from None
    if end_ms < start_ms:
        raise QueryRefused('invalid parameter "end": end timestamp must not be before start time')
    if step_ms <= 0:
        raise QueryRefused('invalid parameter "step": zero or negative query resolution step widths are not accepted')
    if (end_ms - start_ms) / step_ms > POINTS_MAX:
        raise QueryRefused("exceeded maximum resolution of 11,000 points per timeseries")
    node = parsed(form.get("query", ""))
    if type_of(node) is ValueType.MATRIX:
        raise QueryRefused('invalid expression type "range vector" for range query, must be Scalar or instant Vector')
    by_labels: dict[Labels, list[tuple[int, float]]] = {}
    for at_ms in range(start_ms, end_ms + 1, step_ms):
        value = Evaluator(store, at_ms).value(node)
        for labels, number in value.items() if isinstance(value, dict) else [((), value)]:
            by_labels.setdefault(labels, []).append((at_ms, number))
    return {"resultType": "matrix", "result": [_series(labels, points) for labels, points in by_labels.items()]}


def _series(labels: Labels, points: list[tuple[int, float]]) -> Mapping[str, Any]:
    return {"metric": dict(labels), "values": [[_time(at_ms), number_text(value)] for at_ms, value in points]}


def _time(at_ms: int) -> float:
    return at_ms // 1000 if at_ms % 1000 == 0 else at_ms / 1000


def _time_ms(form: Mapping[str, str], name: str) -> int:
    """Seconds since 1970, or RFC 3339. Raises: QueryRefused."""
    text = form.get(name, "")
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = datetime.fromisoformat(text).timestamp()
        except ValueError:
            raise QueryRefused(f'invalid parameter "{name}": cannot parse {text!r} to a valid timestamp') from None
    if not math.isfinite(seconds):
        raise QueryRefused(f'invalid parameter "{name}": cannot parse {text!r} to a valid timestamp')
    return round(seconds * 1000)


def number_text(value: float) -> str:
    """A number as Prometheus writes it: never with an exponent."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    text = format(Decimal(repr(float(value))), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text
