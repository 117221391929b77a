"""Kubernetes quantities (`100m`, `1Gi`, `1e3`) and the durations that Go writes (`1m15.04s`), as numbers.

Source: https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
"""

from __future__ import annotations

import re

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
