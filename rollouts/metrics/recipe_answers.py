"""What an answer of a server that has a recipe shows: numbers with times, or a JSON value; or why it is no evidence. Pure."""

from __future__ import annotations

import math
from typing import Any

from msgspec import Struct

from rollouts.core.analysis.recipe import AnswerPlan, ResultKind, TimeForm
from rollouts.errors import ExpressionInvalid
from rollouts.metrics.answer_forms import decoded_answer
from rollouts.metrics.kubernetes_values import FUTURE_S, time_s
from rollouts.metrics.member_paths import NotThereError, found_at, values_at
from rollouts.metrics.requests import Window
from rollouts.metrics.samples import Absence, Document, NoEvidence, Numbers, ResultShape, Sample, document

FRESH_S = 900.0
"""A value is no older than that. Sources: CloudWatch, and what reads it for others, are late by up to 10 minutes and more."""


class AnswerReader(Struct, frozen=True):
    """Reads answers of one server to one question.

    Args:
        title: of the server, for people.
    """

    title: str
    plan: AnswerPlan
    window: Window

    def data_of(self, body: bytes) -> Numbers | Document | NoEvidence:
        """What the answer shows. Raises: nothing."""
        unreadable = NoEvidence(f"the answer is not one of {self.title}'s API", Absence.ERROR)
        try:
            found = document(decoded_answer(body, self.plan.form))
        except (ValueError, RecursionError):
            return unreadable
        if isinstance(found, NoEvidence):
            return found
        try:
            if (why := self._objection(found.value)) is not None:
                return why
            if self.plan.kind in (ResultKind.NEWEST, ResultKind.ALL):
                return self._numbers(found.value)
            return self._document(found.value)
        except (NotThereError, ExpressionInvalid):
            return unreadable

    def _objection(self, value: Any) -> NoEvidence | None:
        """Why the answer is a refusal, or a part, or of nothing. Raises: NotThereError for an answer of another form."""
        plan = self.plan
        if any(found_at(value, path) for path in plan.refused):
            return NoEvidence(f"{self.title} refuses the query", Absence.ERROR)
        if any(found_at(value, path) for path in plan.more):
            return NoEvidence("the answer has further pages, so it is a part only: let the query give less")
        for path, allowed in plan.whole:
            try:
                stands = values_at(value, path)
            except NotThereError:  # it says nothing of that
                continue
            if any(found not in allowed for found in stands):
                return NoEvidence(f"{self.title} says that the answer is not whole")
        if any(not found for path in plan.counts for found in values_at(value, path)):
            return NoEvidence("nothing was found that could be measured")
        return None

    def _numbers(self, value: Any) -> Numbers | NoEvidence:
        """Raises: NotThereError for an answer of another form."""
        plan = self.plan
        nothing = plan.optional and isinstance(value, dict) and not found_at(value, plan.result)
        series = [] if nothing else values_at(value, plan.result)
        samples: list[Sample] = []
        for place, each in enumerate(series):
            found = self._samples(each, place)
            if isinstance(found, NoEvidence):
                return found
            if not found and len(series) > 1:
                return NoEvidence("one of the series has no value")
            samples += found
        if plan.kind is ResultKind.ALL:
            return Numbers(ResultShape.MATRIX, tuple(samples))
        listed = len(series) != 1 or (plan.listed and found_at(value, plan.listed))
        return Numbers(ResultShape.VECTOR if listed else ResultShape.SCALAR, tuple(samples))

    def _samples(self, series: Any, place: int) -> list[Sample] | NoEvidence:
        """What counts of a series; nulls do not. Raises: NotThereError."""
        plan, values = self.plan, values_at(series, self.plan.values)
        times = [self.window.end_s] * len(values)
        if plan.times and not (plan.timeless and not found_at(series, plan.times)):
            times = [time_of(at, plan.unit) for at in values_at(series, plan.times)]
        if len(times) != len(values):
            raise NotThereError
        points = [Sample(value, at_s, place) for value, at_s in zip(values, times, strict=True) if value is not None]
        if any(type(point.value) is not float for point in points):
            return NoEvidence("a value is no number", Absence.ERROR)
        if late := self._late([point.at_s for point in points]):
            return NoEvidence(late)
        kept = [point for point in points if point.at_s >= self._earliest_s]
        return [max(kept, key=lambda point: point.at_s)] if plan.kind is ResultKind.NEWEST and kept else kept

    def _document(self, value: Any) -> Document | NoEvidence:
        """Raises: NotThereError for an answer of another form."""
        plan = self.plan
        (found,) = values_at(value, plan.result)
        counted: tuple[float, ...] | None = None
        if plan.series:
            numbers = self._numbers_within(values_at(value, plan.series))
            if isinstance(numbers, NoEvidence):
                return numbers
            counted = numbers
        elif plan.times:
            try:
                times = values_at(value, plan.times)
            except NotThereError:  # it tells none of this value
                times = []
            if late := self._late([time_of(at, plan.unit) for at in times]):
                return NoEvidence(late)
        if any(_has(found, name) for name in plan.missing):
            return NoEvidence("a value is one that the server has made up, as it has none")
        if plan.kind is ResultKind.DOCUMENT:
            return Document(found, counted=counted)
        if not isinstance(found, list):
            raise NotThereError
        return Document(found[0] if len(found) == 1 else found, rows=len(found))

    def _numbers_within(self, series: list[Any]) -> tuple[float, ...] | NoEvidence:
        """The numbers of the series in a JSON value, or why they are no evidence. Raises: NotThereError."""
        numbers: list[float] = []
        for place, each in enumerate(series):
            samples = self._samples(each, place)
            if isinstance(samples, NoEvidence):
                return samples
            if not samples:
                return NoEvidence("one of the results has no value")
            times = [sample.at_s for sample in samples]
            if times != sorted(times, reverse=True):
                return NoEvidence("the values of a result are not in the order that was asked for")
            numbers += [sample.value for sample in samples]
        return tuple(numbers)

    @property
    def _earliest_s(self) -> float:
        start_s = self.window.end_s if self.window.start_s is None else self.window.start_s
        return start_s - FUTURE_S

    def _late(self, times: list[float]) -> str:
        """Why values are of another time than was asked for, "" when they are not, or when there are none."""
        newest_s = max(times, default=math.nan)
        if newest_s > self.window.end_s + FUTURE_S:
            return "a value is of the future: a clock, or a unit of time, is wrong"
        if newest_s < max(self._earliest_s, self.window.end_s - FRESH_S):
            return "the newest value is older than what was asked for"
        return ""


def time_of(value: Any, form: TimeForm) -> float:
    """Seconds since 1970. Raises: NotThereError for what is no time."""
    match form, value:
        case TimeForm.SECONDS, float() if math.isfinite(value):
            return value
        case TimeForm.MILLISECONDS, float() if math.isfinite(value):
            return value / 1_000
        case TimeForm.RFC3339, str() if (at_s := time_s(value)) is not None:
            return at_s
    raise NotThereError


def _has(value: Any, name: str) -> bool:
    match value:
        case dict():
            return value.get(name) is True or any(_has(part, name) for part in value.values())
        case list():
            return any(_has(part, name) for part in value)
        case _:
            return False
