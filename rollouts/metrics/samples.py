"""What a source has shown, typed: numbers with times, a JSON value, a text; or nothing that is evidence, and why.

The reasons are words of ours: none of them has a part of what a server sent.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Any, TypeAlias

from msgspec import Struct

DEPTH_MAX = 32  # of lists and objects in each other, in a JSON answer
VALUES_MAX = 20_000  # in a JSON answer; an expression takes no more either


class Absence(Enum):
    """Why there is no evidence, by what follows from it."""

    ERROR = "error"
    """It could not be measured: no answer, or none that can be read. The measurement is an Error."""

    NO_DATA = "no data"
    """It was measured, and the answer says nothing: `noData` of the metric decides what the measurement is."""

    NOT_YET = "not yet"
    """It was measured, and the server says that it does not know yet: the measurement does not count, whatever `noData` is."""


class NoEvidence(Struct, frozen=True):
    """Nothing that a condition may be asked about."""

    why: str
    absence: Absence = Absence.NO_DATA


class ResultShape(StrEnum):
    """Of numbers, as Prometheus names them: one number, one for each series, many for each series."""

    SCALAR = "scalar"
    VECTOR = "vector"
    MATRIX = "matrix"


class Sample(Struct, frozen=True):
    """One number.

    Args:
        series: which series of the answer it belongs to, from 0.
    """

    value: float
    at_s: float
    series: int = 0


@dataclass(frozen=True, slots=True)
class Numbers:
    """What a query gave.

    Args:
        samples: series by series, the oldest first in each.
        warnings: the server's own text, never for a status. With any of them the numbers may be a part only.
    """

    shape: ResultShape
    samples: tuple[Sample, ...]
    warnings: tuple[str, ...] = field(default=(), repr=False)

    @property
    def result(self) -> float | list[float]:
        """What a condition sees, as Argo Rollouts shows it: a number, or the numbers of all series in one list."""
        values = [sample.value for sample in self.samples]
        return values[0] if self.shape is ResultShape.SCALAR and values else values

    @property
    def numbers(self) -> tuple[float, ...]:
        """All of them."""
        return tuple(sample.value for sample in self.samples)


@dataclass(frozen=True, slots=True)
class Document:
    """A JSON value, or a text, with all its numbers as doubles.

    Args:
        value: never printed, as it is what a server sent.
        counted: the numbers in it that were measured, where it has others beside them.
        rows: so many answers are in it, whose order means nothing; 0 for a value whose order its server gives.
    """

    value: Any = field(repr=False)
    rows: int = 0
    counted: tuple[float, ...] | None = None

    @property
    def result(self) -> Any:
        """What a condition sees."""
        return self.value

    @property
    def numbers(self) -> tuple[float, ...]:
        """All in it that were measured."""
        if self.counted is not None:
            return self.counted
        return tuple(leaf for leaf in leaves(self.value) if type(leaf) is float)


MetricData: TypeAlias = Numbers | Document | NoEvidence
"""What came of one request."""


def document(value: Any) -> Document | NoEvidence:
    """A decoded value, of the types that JSON has, when it is small enough; its integers become doubles, as in Argo Rollouts."""
    try:
        converted = _doubles(value, DEPTH_MAX, [VALUES_MAX])
    except (OverflowError, _TooLarge):
        much = f"more than {VALUES_MAX} values, is deeper than {DEPTH_MAX}, or has a number that is no double"
        return NoEvidence(f"the answer has {much}", Absence.ERROR)
    return Document(converted)


def leaves(value: Any) -> Iterator[Any]:
    """The texts, numbers and truths in a JSON value; null is none."""
    match value:
        case dict():
            for part in value.values():
                yield from leaves(part)
        case list():
            for part in value:
                yield from leaves(part)
        case None:
            return
        case _:
            yield value


def finite(numbers: tuple[float, ...]) -> bool:
    """None of them is NaN or infinite."""
    return all(map(math.isfinite, numbers))


class _TooLarge(Exception):
    pass


def _doubles(value: Any, depth: int, left: list[int]) -> Any:
    kind = type(value)
    if kind is float or kind is str or kind is bool or value is None:
        return value
    if kind is int:
        return float(value)
    left[0] -= len(value)
    if depth <= 0 or left[0] < 0:
        raise _TooLarge
    if kind is list:
        return [_doubles(part, depth - 1, left) for part in value]
    return {name: _doubles(part, depth - 1, left) for name, part in value.items()}
