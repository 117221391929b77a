"""Values of Kubernetes as numbers, and its lists decoded: quantities (`100m`, `1Gi`, `1e3`), Go's durations (`1m15.04s`), times.

Source: https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Generic, TypeVar

import msgspec

T = TypeVar("T")

FUTURE_S = 5.0
"""What was measured is no younger than the time it was asked for, but for rounding and for clocks that NTP keeps. What seems
younger may be from before the step that it is to judge."""

QUANTITY_MAX = 2.0**63
"""A quantity is smaller than this in magnitude; what is not smaller is no quantity."""

_QUANTITY = re.compile(
    r"([+-]?(?:\d{1,40}(?:\.\d{0,40})?|\.\d{1,40}))(?:([eE][+-]?\d{1,3})|([KMGTPE]i|[numkMGTPE]))?", re.ASCII
)
_DECIMAL = {"n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_FACTORS = _DECIMAL | {f"{letter}i": 1024.0**power for power, letter in enumerate("KMGTPE", start=1)}
_GO_DURATION = re.compile(r"(?:\d{1,12}(?:\.\d{1,12})?(?:h|ms|m|s|us|µs|ns))+", re.ASCII)
_DURATION_MAX = 64  # characters; Go writes at most 25
_GO_PART = re.compile(r"([\d.]+)([a-zµ]+)")
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


def time_s(value: object) -> float | None:
    """Seconds since 1970 of an RFC 3339 time; None for what is none, and for one without a zone."""
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
        return moment.timestamp() if moment is not None and moment.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


def quantity(value: object) -> float | None:
    """The number that a quantity means; None for what is none, and for what no quantity may be (NaN, infinity, 2^63 and more)."""
    match value:
        case bool():
            return None
        case int() | float():
            return _within(float(value)) if abs(value) < QUANTITY_MAX else None
        case str():
            found = _QUANTITY.fullmatch(value)
            if found is None:
                return None
            digits, exponent, suffix = found.groups()
            return _within(float(f"{digits}{exponent or ''}") * _FACTORS.get(suffix, 1.0))
        case _:
            return None


def go_duration_s(value: object) -> float | None:
    """Seconds of a duration that is not negative; None for what is no such duration."""
    if not isinstance(value, str) or len(value) > _DURATION_MAX:
        return None
    if value == "0":
        return 0.0
    if not _GO_DURATION.fullmatch(value):
        return None
    return sum(float(number) * _SECONDS[unit] for number, unit in _GO_PART.findall(value))


def _within(number: float) -> float | None:
    return number if abs(number) < QUANTITY_MAX else None


class ListedPart(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A part of an answer: only the fields that are read."""


class ListMetadata(ListedPart, frozen=True):
    """`.metadata` of a list."""

    continue_: str = msgspec.field(default="", name="continue")


class ListedItems(ListedPart, Generic[T], frozen=True):
    """A list of which only the items matter."""

    items: tuple[T, ...] | None


class ListedPage(ListedItems[T], Generic[T], frozen=True):
    """A page of a list."""

    metadata: ListMetadata = ListMetadata()


class ListedCondition(ListedPart, frozen=True):
    """One of `.status.conditions`."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


def decoded(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    """What the decoder makes of an answer. Raises: ValueError, without any part of the answer."""
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise ValueError(f"it cannot be read ({type(exc).__name__})") from None


def json_of(body: bytes, form: type[T]) -> T:
    """An answer in that form. Raises: msgspec.DecodeError, also for one that is too deep, or is not UTF-8."""
    try:
        return msgspec.json.decode(body, type=form)
    except (RecursionError, UnicodeDecodeError) as error:
        raise msgspec.DecodeError("no JSON that can be read") from error
