"""Splunk Observability Cloud, which answers a program with a stream of events.

Source: https://dev.splunk.com/observability/docs/signalflow/messages/stream_messages_specification/
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tests.metrics.answers import MARK, NOW_S
from tests.metrics.servers.fake import Asked, Fake, Series, answered, one, timed

PROGRAM = "data('errors').sum().publish()"


def _objection(asked: Asked) -> str:
    if (asked.method, asked.path) != ("POST", "/v2/signalflow/execute"):
        return "no such path"
    if asked.headers.get("content-type") != "text/plain" or asked.body != PROGRAM:
        return "another program"
    wanted = {
        "start": [str(int(NOW_S - 300) * 1_000)],
        "stop": [str(int(NOW_S) * 1_000)],
        "immediate": ["true"],
    }
    return "" if dict(asked.parameters) == wanted else "other parameters"


def event(kind: str, message: Any) -> bytes:
    lines = json.dumps(message, indent=1).splitlines()
    return (f"event: {kind}\nid: {kind}-1\n" + "".join(f"data: {line}\n" for line in lines) + "\n").encode()


START = event("control-message", {"event": "STREAM_START", "timestampMs": int(NOW_S) * 1_000})
END = event("control-message", {"event": "END_OF_CHANNEL", "timestampMs": int(NOW_S) * 1_000})


def _points(series: Sequence[Series]) -> bytes:
    """One message for each time, with the values of all series at it."""
    found = b""
    for place, each in enumerate(series):
        found += event("metadata", {"tsId": f"AA{place}", "properties": {"sf_metric": MARK}})
        for at_s, value in each:
            data = [{"tsId": f"AA{place}", "value": value}]
            found += event("data", {"data": data, "logicalTimestampMs": timed(at_s, 1_000), "maxDelayMs": 1_000})
    return found


def _body(series: Sequence[Series]) -> bytes:
    return START + _points(series) + END


def _data(message: Any) -> Any:
    return answered(START + event("data", message) + END)


_TIME = {"logicalTimestampMs": int(NOW_S) * 1_000}

FAKES = (
    Fake(
        name="splunk",
        kind="splunk",
        metric={"query": PROGRAM},
        objection=_objection,
        body=_body,
        result="result",
        rows=True,
        headers={"X-SF-TOKEN": "a-token"},
        refused=(400, {"code": 400, "message": "no"}),
        bad={
            "a stream that does not end": answered(START + _points(one(1))),
            "a stream that is cut": answered(_body(one(1))[:-40]),
            "a channel that is aborted": answered(
                START + _points(one(1)) + event("control-message", {"event": "CHANNEL_ABORT", "abortInfo": {}}) + END
            ),
            "an error": answered(event("error", {"error": 400, "message": MARK})),
            "an error among data": answered(START + _points(one(1)) + event("error", {"message": MARK}) + END),
            "data that is null": _data({"data": None, **_TIME}),
            "data without a time": _data({"data": [{"tsId": "A", "value": 1}]}),
            "data without a value": _data({"data": [{"tsId": "A"}], **_TIME}),
            "data without a series": _data({"data": [{"value": 1}], **_TIME}),
            "data of numbers": _data({"data": [1], **_TIME}),
            "no data": _data({"data": [], **_TIME}),
            "a message that is a list": answered(START + event("data", [1]) + END),
            "a message that is no JSON": answered(START + b"event: data\ndata: {1\n\n" + END),
            "JSON in place of events": answered({"data": [{"tsId": "A", "value": 1}], **_TIME}),
            "an end alone": answered(END),
        },
    ),
)

WHOLE = [("splunk", {"metricProvider": "splunk", "query": PROGRAM, "interval": "5m"})]
