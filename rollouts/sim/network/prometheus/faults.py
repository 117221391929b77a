"""Scripted faults of a Prometheus: what can go wrong between a question and its answer, by time or by number of the question."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, assert_never

from msgspec import Struct

from rollouts.core.model.frozen import replace
from rollouts.metrics.requests import ANSWER_MAX_BYTES, HttpAnswer, MetricAnswer, NoAnswer
from rollouts.sim.network.prometheus.http_api import ApiAnswer, refusal


class Unreachable(Struct, frozen=True):
    """No answer comes, at once. Why, in the words of the program that asks: a refused connection, a redirect, compression."""

    why: str = "connection refused"


class Hangs(Struct, frozen=True):
    """No answer comes; the asker waits until its deadline."""


class SlowAnswer(Struct, frozen=True):
    """The answer is `delay_s` loop seconds late, or does not come before the deadline."""

    delay_s: float


class HttpError(Struct, frozen=True):
    """A status without an answer of the API, as a proxy in front gives it."""

    status: int = 503


class StatusError(Struct, frozen=True):
    """`status: error`, also with the HTTP status 200."""

    kind: str = "execution"
    status: int | None = None


class Replaced(Struct, frozen=True):
    """Every value is another one: NaN, +Inf, -Inf."""

    value: str = "NaN"


class Empty(Struct, frozen=True):
    """No series."""


class SeveralSeries(Struct, frozen=True):
    """Every series comes `times` times, told apart by a label."""

    times: int = 2


class Shifted(Struct, frozen=True):
    """Every sample is `by_s` seconds younger; older for a negative number."""

    by_s: float


class Warned(Struct, frozen=True):
    """The answer has warnings: a part of the data is missing."""

    warning: str = "PartialResponse: some stores did not answer"


class Truncated(Struct, frozen=True):
    """Only the first part of the body comes; `kept` is its share."""

    kept: float = 0.5


class Huge(Struct, frozen=True):
    """The body is larger than an answer may be."""


class WebPage(Struct, frozen=True):
    """A page of a login, with the HTTP status 200."""


class ScrapesStop(Struct, frozen=True):
    """Questions are answered, and nothing is scraped."""


PrometheusFault: TypeAlias = (
    Unreachable
    | Hangs
    | SlowAnswer
    | HttpError
    | StatusError
    | Replaced
    | Empty
    | SeveralSeries
    | Shifted
    | Warned
    | Truncated
    | Huge
    | WebPage
    | ScrapesStop
)


class FaultWindow(Struct, frozen=True):
    """A fault for a time, in loop seconds; at `until_s` it is over."""

    fault: PrometheusFault
    from_s: float = 0.0
    until_s: float = math.inf


@dataclass
class PrometheusFaults:
    """What goes wrong, and when: by the number of the question, from 0, else by time, where of several the last counts."""

    now_s: Callable[[], float]
    windows: list[FaultWindow] = field(default_factory=list)
    by_question: Mapping[int, PrometheusFault] = field(default_factory=dict)

    def begin(self, fault: PrometheusFault, *, for_s: float = math.inf) -> None:
        """Begins a fault now."""
        now_s = self.now_s()
        self.windows.append(FaultWindow(fault, now_s, now_s + for_s))

    def end(self) -> None:
        """Ends all faults that there are, and those that were to come by time."""
        self.windows.clear()

    def scrapes_stop(self) -> bool:
        """Whether nothing is scraped now."""
        return any(isinstance(window.fault, ScrapesStop) for window in self._now())

    def of_question(self, number: int) -> PrometheusFault | None:
        """What goes wrong with a question that is asked now."""
        if (fault := self.by_question.get(number)) is not None:
            return fault
        faults = [window.fault for window in self._now() if not isinstance(window.fault, ScrapesStop)]
        return faults[-1] if faults else None

    def _now(self) -> list[FaultWindow]:
        now_s = self.now_s()
        return [window for window in self.windows if window.from_s <= now_s < window.until_s]


def sent(answer: ApiAnswer, fault: PrometheusFault | None, *, who: str) -> MetricAnswer:
    """What comes of an answer, with a fault that needs no time."""
    match fault:
        case None | ScrapesStop() | SlowAnswer() | Hangs():
            return _plain(answer)
        case Unreachable(why):
            return NoAnswer(f"{who}: {why}")
        case HttpError(status):
            return HttpAnswer(status=status, body=b"upstream connect error", content_type="text/plain")
        case StatusError(kind, given):
            return _plain(refusal(kind, "something is wrong", status=given))
        case Huge():
            return NoAnswer(f"{who}: the answer has more than {ANSWER_MAX_BYTES >> 20} MiB")
        case WebPage():
            return HttpAnswer(status=200, body=b"<html><title>Sign in</title></html>", content_type="text/html")
        case Truncated(kept):
            whole = _plain(answer)
            return replace(whole, body=whole.body[: int(len(whole.body) * kept)])
        case Replaced(value):
            return _plain(_each_point(answer, lambda at_s, _: [at_s, value]))
        case Empty():
            return _plain(_each_series(answer, lambda _: []))
        case SeveralSeries(times):
            replicas = [{"replica": str(number)} for number in range(times)]
            return _plain(
                _each_series(answer, lambda one: [{**one, "metric": {**one["metric"], **label}} for label in replicas])
            )
        case Shifted(by_s):
            return _plain(_each_point(answer, lambda at_s, value: [at_s + by_s, value]))
        case Warned(warning):
            return _plain(replace(answer, body={**answer.body, "warnings": [warning]}))
        case _:
            assert_never(fault)


def _plain(answer: ApiAnswer) -> HttpAnswer:
    return HttpAnswer(status=answer.status, body=answer.text(), content_type="application/json")


def _each_series(answer: ApiAnswer, change: Callable[[Any], list[Any]]) -> ApiAnswer:
    """The answer with other series; one without series stays as it is."""
    data = answer.body.get("data") or {}
    if data.get("resultType") not in ("vector", "matrix"):
        return answer
    series = [new for old in data["result"] for new in change(old)]
    return replace(answer, body={**answer.body, "data": {**data, "result": series}})


def _each_point(answer: ApiAnswer, change: Callable[[float, str], list[Any]]) -> ApiAnswer:
    data = answer.body.get("data") or {}
    if data.get("resultType") == "scalar":
        return replace(answer, body={**answer.body, "data": {**data, "result": change(*data["result"])}})

    def changed(one: Any) -> list[Any]:
        if "value" in one:
            return [{**one, "value": change(*one["value"])}]
        return [{**one, "values": [change(*point) for point in one["values"]]}]

    return _each_series(answer, changed)
