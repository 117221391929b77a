"""Texts, numbers and durations of analysis templates: in each of them a place for an argument may stand."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import Field, PlainValidator

from rollouts.api.v1alpha1.wire import MAX_INT32, int_or_string, parse_duration

_NUMBER_LENGTH_MAX = 256
_VALUE_LENGTH_MAX = 4096
OPEN = "{{"
"""Begins a place for an argument."""


def _integer(value: object) -> int | str:
    match value:
        case bool():
            pass
        case int() if -MAX_INT32 <= value <= MAX_INT32:
            return value
        case str() if len(value) > _NUMBER_LENGTH_MAX:
            raise ValueError(f"must have at most {_NUMBER_LENGTH_MAX} characters")
        case str() if OPEN in value:
            return value
        case str() if value.isascii() and value.removeprefix("-").isdigit() and len(value) <= 10:
            return int(value)
    raise ValueError(f"must be an integer, not {value!r}")


def _seconds(value: object) -> float | str:
    if isinstance(value, str) and len(value) > _NUMBER_LENGTH_MAX:
        raise ValueError(f"must have at most {_NUMBER_LENGTH_MAX} characters")
    return value if isinstance(value, str) and OPEN in value else parse_duration(value)


def _argument_value(value: object) -> str:
    match value:
        case bool():
            pass
        case int():
            return str(value)
        case str() if len(value) <= _VALUE_LENGTH_MAX:
            return value
        case str():
            raise ValueError(f"must have at most {_VALUE_LENGTH_MAX} characters")
    raise ValueError(f"must be a string (in quotes) or an integer, not {value!r}")


Integer: TypeAlias = Annotated[int | str, PlainValidator(_integer), int_or_string(_NUMBER_LENGTH_MAX)]
Seconds: TypeAlias = Annotated[float | str, PlainValidator(_seconds), int_or_string(_NUMBER_LENGTH_MAX)]
Value: TypeAlias = Annotated[str, PlainValidator(_argument_value), int_or_string(_VALUE_LENGTH_MAX)]
ConditionText: TypeAlias = Annotated[str, Field(max_length=1024)]
Query: TypeAlias = Annotated[str, Field(max_length=16_384)]
