"""How a kind of metric server is asked and how its answer is read, as data. `metrics/recipes.py` is the one codec of all of them.

A server is one module below `servers`: the fields of its metrics, with Argo Rollouts' names, and its `RECIPE`.
The CRD, the reader of templates, the request and what a condition sees follow from these two.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum, StrEnum, auto
from functools import lru_cache
from typing import Annotated, Any, Literal, TypeAlias, get_args, get_type_hints

from msgspec import Struct

FieldProblem: TypeAlias = tuple[str, str]
"""The name of a field, as in JSON, and what is wrong with it."""


class FieldText(Enum):
    """What a text of a metric is, where it is more than a text."""

    QUERY = auto()
    """It may be long."""
    NAME = auto()
    """The name of an object."""
    ADDRESS = auto()
    """The URL of a server."""
    HOST = auto()
    """The same, which may also be a host alone."""


QUERY, NAME, ADDRESS, HOST = FieldText.QUERY, FieldText.NAME, FieldText.ADDRESS, FieldText.HOST


class ServerFields(Struct, frozen=True, kw_only=True):
    """The fields that the metrics of every server have; each server's own class adds to them.

    A line says type, description in the CRD, `NEEDED` or a default, and what a text is (`core/model/declared.py`).
    """

    metric_provider: Annotated[
        str, "Name of a MetricProvider of this type; without it the only one that there is.", NAME
    ] = ""

    @property
    def server(self) -> str:
        """The MetricProvider's name, or its URL; "" for the only one of the type."""
        return self.metric_provider

    def given(self, limits: Limits) -> Limits:
        """The limits with what the metric says of them."""
        return limits

    def places(self) -> Mapping[str, Any]:
        """Values for places of a request that are made of several fields."""
        return {}

    @staticmethod
    def problems(given: Mapping[str, Any]) -> Iterator[FieldProblem]:
        """What is wrong with the fields together.

        Args:
            given: as in JSON; a text in them may still hold an argument's place.
        """
        del given
        yield from ()


class Limits(Struct, frozen=True, kw_only=True):
    """Times of one measurement.

    Args:
        window_s: from the beginning of what is asked for until now.
        timeout_s: until the answer must be there.
    """

    window_s: float = 300.0
    timeout_s: float = 30.0


class TimeForm(StrEnum):
    """How a server writes times."""

    SECONDS = "seconds"
    MILLISECONDS = "milliseconds"
    RFC3339 = "rfc3339"
    MINUTE = "minute"
    """`2026-11-27 1718`, in UTC."""


class ResultKind(StrEnum):
    """What a condition sees."""

    NEWEST = "newest"
    """The newest number of each series: one number, or a list where there are several series."""
    ALL = "all"
    """Every number of every series, in one list."""
    ROWS = "rows"
    """A list of JSON values whose order means nothing; a single one is the result itself."""
    DOCUMENT = "document"
    """A JSON value."""


class AnswerForm(StrEnum):
    """What an answer is written in."""

    JSON = "json"
    FLUX = "annotated CSV of Flux"
    """Read as `tables` with `values` and `times`, and `errors`."""
    SIGNAL_FLOW = "events of SignalFlow"
    """Read as `series` with `values` and `times`, `ended`, and `errors`."""
    TYPED_JSON = "JSON whose values name their types"
    """Of protocol buffers: `{"doubleValue": 0.5}` is read as 0.5, and `{"int64Value": "5"}` as 5."""


class AskTemplate(Struct, frozen=True, kw_only=True):
    """A request. `{{name}}` stands for a field, for what `places` gives, for a setting of the MetricProvider, and for `start`,
    `end`, `window` and `timeout`; where it is a whole JSON value, that value keeps its type.

    Args:
        path: below the MetricProvider's URL; each place is one segment.
        query: a parameter whose value is a list stands there once for each entry, and one that is empty does not stand there.
        body: JSON, or a text that is sent as it is; None for none.
        times: how `start` and `end` are written.
    """

    path: str
    method: Literal["GET", "POST"] = "GET"
    query: tuple[tuple[str, str], ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    body: Any = None
    times: TimeForm = TimeForm.SECONDS


class AnswerPlan(Struct, frozen=True, kw_only=True):
    """How an answer is read. Paths are those of `metrics/member_paths.py`.

    Args:
        result: of numbers the series; otherwise the value.
        values, times: of each series: numbers and their times, as many of each. Of a JSON value `times` is a path from the whole
            answer. "" for a series that is a number, and for a server that tells no times.
        series: of a JSON value the series in it, each of which must have a number of the time, the newest first.
        optional: an answer without series has no result at all.
        timeless: a series may have no times, where its author has left them out.
        unit: of times.
        listed: leads to something where the result is a list although there is one series.
        refused: whatever stands there says that the server refused.
        whole: an answer is whole if nothing else than these stands there.
        more: whatever stands there says that there are further pages.
        missing: members that are true of a value that is none.
        counts: of what was measured, of which none may be 0.
    """

    kind: ResultKind
    result: str = ""
    series: str = ""
    values: str = ""
    times: str = ""
    optional: bool = False
    timeless: bool = False
    unit: TimeForm = TimeForm.SECONDS
    form: AnswerForm = AnswerForm.JSON
    listed: str = ""
    refused: tuple[str, ...] = ()
    whole: tuple[tuple[str, tuple[Any, ...]], ...] = ()
    more: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    counts: tuple[str, ...] = ()


class Exchange(Struct, frozen=True, kw_only=True):
    """A question and its answer.

    Args:
        when: a field and the value that it has where this is the exchange; None for every metric.
    """

    ask: AskTemplate
    read: AnswerPlan
    when: tuple[str, str] | None = None


class Setting(Struct, frozen=True, kw_only=True):
    """What a MetricProvider of the type says besides URL and credentials.

    Args:
        number: it is a number in JSON.
        default: "" for one that must be given.
    """

    name: str
    text: str
    number: bool = False
    default: str = ""

    def problem(self, value: str) -> str:
        """What is wrong with a value, which is "" where there is none; "" for nothing."""
        if not (value or self.default):
            return f"is required: the {self.text}"
        if self.number and not (value.isascii() and value.isdigit() and len(value) <= 18):
            return f"must be the {self.text}"
        return ""


@lru_cache(maxsize=64)  # classes
def fields_with(mark: FieldText, fields: type[ServerFields]) -> frozenset[str]:
    """The fields whose text is of that kind."""
    hints = get_type_hints(fields, include_extras=True)
    return frozenset(name for name, hint in hints.items() if mark in get_args(hint))


def fields_of_servers(fields: type[ServerFields]) -> frozenset[str]:
    """The fields that say which server is asked."""
    return fields_with(NAME, fields) | fields_with(ADDRESS, fields) | fields_with(HOST, fields)


class Recipe(Struct, frozen=True, kw_only=True):
    """A kind of server.

    Args:
        name: in `provider` of a metric and in `type` of a MetricProvider.
        title: for people.
        text: description in the CRD.
        fields: of its metrics.
        settings: of its MetricProviders.
        headers: that a MetricProvider must have, as they are the server's credentials.
        scheme: of `Authorization` where a MetricProvider has `bearer`.
        service: of AWS, for the signature; "" for a server that is none of AWS's.
        not_compared: why it gives no number of each arm of a comparison; "" where it does.
    """

    name: str
    title: str
    text: str
    fields: type[ServerFields]
    exchanges: tuple[Exchange, ...]
    limits: Limits = Limits()
    settings: tuple[Setting, ...] = ()
    headers: tuple[str, ...] = ()
    scheme: str = "Bearer"
    service: str = ""
    not_compared: str = ""

    @property
    def gives_json(self) -> bool:
        """A comparison has to say where in an answer its number is."""
        json = (ResultKind.ROWS, ResultKind.DOCUMENT)
        return any(exchange.read.kind in json and not exchange.read.series for exchange in self.exchanges)

    def exchange_of(self, fields: ServerFields) -> Exchange:
        """The exchange of a metric with these fields."""
        return next(
            exchange
            for exchange in self.exchanges
            if exchange.when is None or getattr(fields, exchange.when[0]) == exchange.when[1]
        )
