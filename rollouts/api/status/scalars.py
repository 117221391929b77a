"""How single values of a status are written, read and described in the CRD."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from enum import StrEnum
from fractions import Fraction
from functools import partial
from operator import attrgetter
from typing import Any

from msgspec import Struct

from rollouts.api.times import format_time, parse_time
from rollouts.core.model.declared import AtMost, Entries, Mark
from rollouts.core.model.service_ref import ServiceRef, service_ref
from rollouts.core.model.steps import WeightPercent
from rollouts.core.model.traffic import RoutePlace, route_place
from rollouts.objects import Manifest

NOTHING = object()
"""No value; None is one."""

_DENOMINATOR_MAX = 1_000_000  # api/spec/routing.py allows weights in so many parts


class Codec(Struct, frozen=True):
    """How values of one type are written, read and described.

    Args:
        read: for what is no object or list of objects. Raises: ValueError.
        of: the class of an object, or of the objects of a list.
        empty: what an absent value is.
        left_out: a value that is not written.
    """

    wanted: str
    schema: Manifest
    read: Callable[[Any], Any] | None = None
    write: Callable[[Any], Any] | None = None
    of: type | None = None
    entries: Entries = Entries()
    empty: Any = None
    left_out: Any = NOTHING


def scalar_codec(of: Any, marks: list[Any]) -> Codec | None:
    """How a type is written, read and described; None for an object, or a list of objects."""
    for mark in marks:
        match mark:
            case Mark() if mark in _BY_MARK:
                return _BY_MARK[mark]
            case AtMost(characters=most):
                return Codec("a string", _STRING, _text, lambda text: text[:most], empty="", left_out="")
    if of in _BY_TYPE:
        return _BY_TYPE[of]
    if isinstance(of, type) and issubclass(of, StrEnum):
        listed = {"enum": [word.value for word in of]} if Mark.LISTED in marks else {}
        read = partial(_word, {word.value: word for word in of})
        return Codec(f"a {of.__name__} of this version", {**listed, **_STRING}, read, attrgetter("value"))
    return None


def _instance(of: type, value: Any) -> Any:
    if not isinstance(value, of):
        raise ValueError
    return value


_text = partial(_instance, str)


def _word(words: Mapping[str, Any], value: Any) -> Any:
    if (word := words.get(_text(value))) is None:
        raise ValueError
    return word


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError
    return value


def _seconds(value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= sys.float_info.max:
        raise ValueError  # JSON may hold an integer that no float holds
    return float(value)


def _weight(value: Any) -> WeightPercent:
    """A percentage, made exact again from a JSON number."""
    if not _seconds(value) <= 100:
        raise ValueError
    percent = Fraction(value).limit_denominator(_DENOMINATOR_MAX)
    return percent.numerator if percent.denominator == 1 else percent


def weight_to_json(percent: WeightPercent | None) -> int | float | None:
    """A percentage as a JSON number, which is read back exactly."""
    return float(percent) if isinstance(percent, Fraction) else percent


_STRING: Manifest = {"type": "string"}
_BY_MARK = {
    Mark.TIME: Codec(
        "an RFC 3339 time", {"format": "date-time", **_STRING}, lambda text: parse_time(_text(text)), format_time
    ),
    Mark.TRUE_OR_FALSE: Codec(
        "True or False",
        {"enum": ["True", "False", "Unknown"], **_STRING},
        partial(_word, {"True": True, "False": False}),
        lambda holds: "True" if holds else "False",
    ),
    Mark.PONG: Codec(
        "a string",
        {"enum": ["ping", "pong"], **_STRING},
        lambda value: _text(value) == "pong",
        lambda _: "pong",
        left_out=False,
    ),
}
_BY_TYPE: Mapping[Any, Codec] = {
    str: Codec("a string", _STRING, _text, empty="", left_out=""),
    bool: Codec("true or false", {"type": "boolean"}, partial(_instance, bool), empty=False, left_out=False),
    int: Codec("an integer of 0 or more", {"type": "integer"}, _count, empty=0),
    float: Codec("a number of 0 or more", {"type": "number"}, _seconds, empty=0.0),
    RoutePlace: Codec("a string", _STRING, lambda value: route_place(_text(value)), str),
    ServiceRef: Codec("a string", _STRING, lambda value: service_ref(_text(value)), str, empty=""),
    WeightPercent: Codec("a number from 0 to 100", {"type": "number"}, _weight, weight_to_json),
    tuple[str, ...]: Codec(
        "a list of strings",
        {"items": _STRING, "type": "array"},
        lambda texts: tuple(map(_text, _instance(list, texts))),
        list,
        empty=(),
        left_out=(),
    ),
    tuple[tuple[str, str], ...]: Codec(
        "an object",
        {"additionalProperties": _STRING, "type": "object"},
        lambda texts: tuple(item for item in _instance(Mapping, texts).items() if isinstance(item[1], str)),
        dict,
        empty=(),
        left_out=(),
    ),
}
