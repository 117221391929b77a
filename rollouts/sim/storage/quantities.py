"""Quantities (`250m`, `1Gi`, `1e3`) as exact numbers, and numbers as the server writes them.

Source: k8s.io/apimachinery pkg/api/resource/quantity.go
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache

_TEXT = re.compile(
    r"([+-]?(?:\d{1,400}(?:\.\d{0,400})?|\.\d{1,400}))(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E|[eE][+-]?\d{1,3})?"
)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


def quantity(text: str) -> Fraction | None:
    """The number that a quantity stands for; None when it is none."""
    parsed = _TEXT.fullmatch(text)
    if parsed is None:
        return None
    number, suffix = Fraction(parsed[1]), parsed[2] or ""
    if suffix in _BINARY:
        return number * Fraction(1024 ** _BINARY.index(suffix))
    return number * Fraction(f"1e{_DECIMAL[suffix]}" if suffix in _DECIMAL else f"1{suffix}")


def amount(text: str | float) -> Fraction:
    """The number that a quantity stands for. Raises: ValueError when it is none."""
    number = quantity(str(text))
    if number is None:
        raise ValueError(f"quantities must match the regular expression: {text!r}")
    return number


@lru_cache(maxsize=4096)
def milli(text: str | float) -> int:
    """A quantity in thousandths, away from zero where it is no whole number (`Quantity.MilliValue`). Raises: ValueError."""
    thousandths = amount(text) * 1000
    magnitude = -((-abs(thousandths)) // 1)
    return int(magnitude if thousandths >= 0 else -magnitude)


def decimal_text(number: Fraction) -> str:
    """A number as the format DecimalSI has it: the largest suffix that leaves a whole number; below 1n it is rounded up."""
    digits, power = -((-number * 10**9) // 1), -9
    if not digits:
        return "0"
    while power < 18 and digits % 1000 == 0:
        digits, power = digits // 1000, power + 3
    return f"{digits}{next(suffix for suffix, exponent in _DECIMAL.items() if exponent == power)}"


def binary_text(number: Fraction) -> str:
    """A number as the format BinarySI has it; DecimalSI for small ones, and for those that are not whole."""
    if abs(number) < 1024 or number.denominator != 1:
        return decimal_text(number)
    digits, power = int(number), 0
    while power + 1 < len(_BINARY) and digits % 1024 == 0:
        digits, power = digits // 1024, power + 1
    return f"{digits}{_BINARY[power]}"
