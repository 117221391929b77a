"""Reads answers of Prometheus' HTTP API: the number of requests in flight, or samples. No evidence is None and a reason, not 0.

Samples are read raw (`metric[60s]` as an instant query): `rate` and `increase` estimate values between scrapes, and leave out the
first value of a series. Source: https://prometheus.io/docs/prometheus/latest/querying/api/#instant-queries
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

QUERY_PATH = "/api/v1/query"
ANSWER_MAX_BYTES = 4 * 1024 * 1024  # of about 10,000 series
NUMBER_MAX_BYTES = 1 << 20
"""Most bytes of an answer with one number; a longer answer is not read to its end."""

ERROR_TYPES = frozenset(
    ("timeout", "canceled", "execution", "bad_data", "internal", "unavailable", "not_found", "not_acceptable")
)
"""Source: Prometheus v3, web/api/v1/api.go."""
RESULT_TYPES = frozenset(("vector", "matrix", "scalar", "string"))


@dataclass(frozen=True, slots=True)
class Series:
    """One counter of one target: its labels, and its samples as (seconds since 1970, value), the oldest first."""

    labels: Mapping[str, str]
    samples: tuple[tuple[float, float], ...]


def series_of(body: bytes) -> tuple[tuple[Series, ...] | None, str]:
    """The raw samples in the answer to an instant query for a range; None and the reason when they cannot be used.

    Raises: msgspec.DecodeError when it is not an answer of Prometheus.
    """
    answer = msgspec.json.decode(body, type=_Answer)
    if (problem := _problem(answer)) or answer.data is None:
        return None, problem
    if answer.data.result_type != "matrix":
        return None, f"the query returned a {_type(answer)}, not samples"
    found = [
        Series(each.metric, tuple((at_s, _number(value)) for at_s, value in each.values))
        for each in msgspec.convert(answer.data.result, type=list[_Samples])
    ]
    if any(not math.isfinite(value) or value < 0 for each in found for _, value in each.samples):
        return None, "a counter has a value that is not a count"
    return tuple(found), ""


def in_flight(body: bytes) -> tuple[int | None, str]:
    """The count in the answer to an instant query, rounded up; None and the reason when there is none.

    Raises: msgspec.DecodeError when it is not an answer of Prometheus.
    """
    answer = msgspec.json.decode(body, type=_Answer)
    if (problem := _problem(answer)) or answer.data is None:
        return None, problem
    match answer.data.result_type:
        case "scalar":
            sample: Any = answer.data.result
        case "vector" if isinstance(answer.data.result, list):
            if len(answer.data.result) != 1:
                many = f"{len(answer.data.result)} series; sum() makes them one" if answer.data.result else "no series"
                return None, f"the query returned {many}"
            first = answer.data.result[0]
            sample = first.get("value") if isinstance(first, dict) else None
        case _:
            return None, f"the query returned a {_type(answer)}, not one number"
    return _count(sample)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _problem(answer: _Answer) -> str:
    """The problem with an answer in our own words, because a status repeats nothing that a server says."""
    if answer.status != "success" or answer.data is None:
        return f"the query failed: {answer.error_type if answer.error_type in ERROR_TYPES else 'unknown error'}"
    return "the answer has warnings, so it may be incomplete" if answer.warnings else ""


def _type(answer: _Answer) -> str:
    found = answer.data.result_type if answer.data is not None else ""
    return found if found in RESULT_TYPES else "value of an unknown type"


def _count(sample: object) -> tuple[int | None, str]:
    """The count in Prometheus' `[time, "value"]`."""
    try:
        value = float(sample[1])  # type: ignore[index]
    except (TypeError, IndexError, KeyError, ValueError):
        return None, "the query did not return a number"
    if not math.isfinite(value) or value < 0:
        return None, f"the query returned {value:g}, which is not a count"
    return math.ceil(value), ""


class _Samples(msgspec.Struct):
    metric: dict[str, str] = msgspec.field(default_factory=dict)
    values: list[tuple[float, str]] = msgspec.field(default_factory=list)


class _Data(msgspec.Struct, rename="camel"):
    result_type: str = ""
    result: Any = None


class _Answer(msgspec.Struct, rename="camel"):
    status: str = ""
    data: _Data | None = None
    error_type: str = ""
    error: str = ""
    warnings: list[str] | None = None
