"""Answers of servers, decoded: JSON, that of protocol buffers, Flux's annotated CSV, SignalFlow's events. Pure.

Sources: https://protobuf.dev/programming-guides/json/;
https://docs.influxdata.com/influxdb/v2/reference/syntax/annotated-csv/;
https://dev.splunk.com/observability/docs/signalflow/messages/stream_messages_specification/
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, assert_never

import msgspec

from rollouts.core.analysis.recipe import AnswerForm

_FLUX_NUMBERS = frozenset({"double", "long", "unsignedLong"})
_FLUX_TIMES = ("_time", "_stop")
"""Columns with the time of a value; what aggregates values keeps the end of its range."""
_CELL_MAX = 65_536  # characters
_INT64 = re.compile(r"-?[0-9]{1,19}", re.ASCII)
"""Protocol buffers write what a double may not hold as a text."""


def decoded_answer(body: bytes, form: AnswerForm) -> Any:
    """The JSON value. Raises: ValueError, RecursionError for a body that has another form."""
    match form:
        case AnswerForm.JSON:
            return json_answer(body)
        case AnswerForm.FLUX:
            return flux_answer(body)
        case AnswerForm.SIGNAL_FLOW:
            return signal_flow_answer(body)
        case AnswerForm.TYPED_JSON:
            return _without_types(json_answer(body))
        case _:
            assert_never(form)


def json_answer(body: bytes | str) -> Any:
    """JSON. Raises: ValueError."""
    try:
        return msgspec.json.decode(body)
    except (ValueError, RecursionError):
        raise ValueError("no JSON") from None


def _without_types(value: Any) -> Any:
    """A number in place of an object that says what type it has; any other type stays what it is."""
    match value:
        case {"doubleValue": (int() | float()) as number} if len(value) == 1:
            return number
        case {"int64Value": str(text)} if len(value) == 1 and _INT64.fullmatch(text):
            return int(text)
        case dict():
            return {name: _without_types(part) for name, part in value.items()}
        case list():
            return [_without_types(part) for part in value]
        case _:
            return value


def flux_answer(body: bytes) -> Any:
    """`{"tables": [{"values": […], "times": […]}], "errors": […]}`, a table for each group of rows. Raises: ValueError."""
    if body and not body.endswith(b"\n"):
        raise ValueError("its last row is not whole")
    reader = FluxReader()
    try:
        for row in csv.reader(io.StringIO(body.decode()), strict=True):
            reader.read(row)
    except csv.Error:
        raise ValueError("no CSV") from None
    return {"tables": list(reader.tables.values()), "errors": reader.errors}


@dataclass(slots=True)
class FluxReader:
    """Reads annotated CSV row by row.

    Args:
        block: number of the present part, which has a header of its own.
        types: of the columns.
        names: of the columns; None before the header.
    """

    tables: dict[str, dict[str, list[Any]]] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    block: int = 0
    types: list[str] = field(default_factory=list)
    names: list[str] | None = None

    def read(self, row: list[str]) -> None:
        """Takes one row. Raises: ValueError."""
        if not row:
            self.names, self.block = None, self.block + 1
        elif row[0].startswith("#"):
            self.types, self.names = row if row[0] == "#datatype" else self.types, None
        elif self.names is None:
            self.names = row
            if len(self.types) != len(row) or not {"_value", "error"} & {*row}:
                raise ValueError("a table without types, or without values")
        elif len(row) != len(self.names):
            raise ValueError("a row with other columns than its table")
        elif "error" in self.names:
            self.errors.append(row[self.names.index("error")] or "error")
        else:
            self._record(dict(zip(self.names, zip(row, self.types, strict=True), strict=True)))

    def _record(self, cells: dict[str, tuple[str, str]]) -> None:
        number, _ = cells.get("table", ("", ""))
        table = self.tables.setdefault(f"{self.block} {number}", {"values": [], "times": []})
        table["values"].append(_flux_value(*cells["_value"]))
        table["times"] += [cells[name][0] for name in _FLUX_TIMES if name in cells][:1]


def _flux_value(text: str, of_type: str) -> float | str | None:
    """What is no number stays a text, and is no evidence."""
    if not text:
        return None
    if of_type not in _FLUX_NUMBERS:
        return text
    number = float(text) if len(text) <= _CELL_MAX and text.isascii() and "_" not in text else math.nan
    return number if math.isfinite(number) else text


def signal_flow_answer(body: bytes) -> Any:
    """`{"series": [{"values": […], "times": […]}], "ended": …, "errors": […]}`. Raises: ValueError."""
    series: dict[str, dict[str, list[Any]]] = {}
    events = list(_events(body))
    if not events:
        raise ValueError("no event")
    for message in (message for kind, message in events if kind == "data"):
        for point in message["data"]:
            known = series.setdefault(str(point["tsId"]), {"values": [], "times": []})
            known["values"].append(point["value"])
            known["times"].append(message["logicalTimestampMs"])
    controls = {str(message.get("event")) for kind, message in events if kind != "data"}
    failed = any(kind == "error" or "errors" in message for kind, message in events) or "CHANNEL_ABORT" in controls
    ended = "END_OF_CHANNEL" in controls
    return {"series": list(series.values()), "ended": ended, "errors": ["error"] if failed else []}


def _events(body: bytes) -> Iterator[tuple[str, Any]]:
    """The events of a stream of server-sent events, with their JSON. Raises: ValueError."""
    kind, lines = "", list[str]()
    for line in body.decode().splitlines():  # an event ends with an empty line; one that does not is none
        name, _, text = line.partition(":")
        if name == "event":
            kind = text.strip()
        elif name == "data":
            lines.append(text.removeprefix(" "))
        elif line == "" and lines:
            message = json_answer("\n".join(lines))
            of_data = kind == "data"
            if not isinstance(message, dict) or (of_data and not _is_data(message)):
                raise ValueError("a message of another form")
            yield kind, message
            kind, lines = "", []
        elif line != "" and name not in ("id", "retry", ""):
            raise ValueError("no stream of events")


def _is_data(message: dict[str, Any]) -> bool:
    points = message.get("data")
    known = isinstance(points, list) and "logicalTimestampMs" in message
    return known and all(isinstance(point, dict) and {"tsId", "value"} <= point.keys() for point in points or ())
