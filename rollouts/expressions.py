"""Expressions in CEL that people write into objects: compiled once, bounded, and with a result of the type that was asked for.

The library (Google's cel-cpp) is loaded with the first expression: a cluster without any never pays for it. It bounds depth and
iterations itself; the length of the source and the number of calls that can multiply a value are bounded here, and with them
memory. No I/O, no clock; time is a variable that somebody gives.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from typing import Any, TypeAlias

from rollouts.errors import ExpressionFailed, ExpressionInvalid

SOURCE_BYTES_MAX = 1_024
ROUNDS_MAX = 4
TEXT_CALLS_MAX = 1  # four in a row made 1.6 GB of 60 bytes, in half a minute

_ROUNDS = re.compile(r"\.\s*(?:map|filter|transformList|transformMap)\s*\(")
_TEXT_CALLS = re.compile(r"\.\s*(?:replace|join|format)\s*\(")
_WHERE = re.compile(r"^INVALID_ARGUMENT: ERROR: <input>:\d+:(\d+): (.*?)(?:\n.*)?$", re.DOTALL)

Data: TypeAlias = Mapping[str, Any]
"""JSON values by the names of the variables."""


class Result(Enum):
    """What an expression is to give: the type's name in CEL."""

    TRUTH = "bool"
    TEXT = "string"
    ANY = "dyn"


class Expression:
    """An expression that compiles; made by `compiled`."""

    __slots__ = ("_program", "result", "source")

    def __init__(self, source: str, result: Result, program: Any) -> None:
        self.source = source
        self.result = result
        self._program = program

    def truth(self, data: Data) -> bool:
        """Its value for `data`, true or false. Raises: ExpressionFailed."""
        value = self._value(data)
        if isinstance(value, bool):
            return value
        raise self._failed(f"it must give true or false, not {value!r}")

    def text(self, data: Data) -> str:
        """Its value for `data`, a text. Raises: ExpressionFailed."""
        value = self._value(data)
        if isinstance(value, str):
            return value
        raise self._failed(f"it must give a text, not {value!r}")

    def value(self, data: Data) -> Any:
        """Its value for `data`, of whatever type: JSON, and what CEL has besides (times, bytes). Raises: ExpressionFailed."""
        return self._value(data)

    def _value(self, data: Data) -> Any:
        cel = _library()
        try:
            value = self._program.eval(data=dict(data))
            # An error of the evaluation is a value too, of its own type.
            failed = value.type() == cel.Type.ERROR
            plain = value.plain_value()
        except (MemoryError, RuntimeError, TypeError, ValueError) as error:
            raise self._failed(str(error)) from error
        if failed:
            raise self._failed(str(plain))
        return plain

    def _failed(self, why: str) -> ExpressionFailed:
        return ExpressionFailed(f"{self.source}: {why[:500]}")


def compiled(source: str, *, variables: tuple[str, ...], result: Result) -> Expression:
    """The expression of that source.

    Args:
        variables: names that it may use, for JSON values of any type.

    Raises: ExpressionInvalid: it is too large, does not parse, uses another name, or can never give the result that is wanted.
    """
    try:
        size_bytes = len(source.encode())
    except UnicodeEncodeError as error:
        raise ExpressionInvalid("has half of a surrogate pair in it, which is no text") from error
    if size_bytes > SOURCE_BYTES_MAX:
        raise ExpressionInvalid(f"must have at most {SOURCE_BYTES_MAX} bytes, not {size_bytes}")
    if len(_ROUNDS.findall(source)) > ROUNDS_MAX:
        raise ExpressionInvalid(f"may call map and filter {ROUNDS_MAX} times at most")
    if len(_TEXT_CALLS.findall(source)) > TEXT_CALLS_MAX:
        raise ExpressionInvalid("may call one of replace, join and format, once")
    cel = _library()
    try:
        program = _environment(variables).compile(source)
        given = program.return_type()
    except (MemoryError, RuntimeError, TypeError, ValueError) as error:
        raise ExpressionInvalid(_said(str(error))) from error
    wanted = {Result.TRUTH: cel.Type.BOOL, Result.TEXT: cel.Type.STRING, Result.ANY: given}[result]
    if given not in (wanted, cel.Type.DYN):
        raise ExpressionInvalid(f"must give a {result.value}, not {given.name()}")
    return Expression(source, result, program)


def _library() -> Any:
    try:
        from cel_expr_python import cel  # noqa: PLC0415 - 17 ms and 5 MB that only those with an expression pay
    except ImportError as error:  # no wheel for this platform
        message = f"CEL cannot be used in this installation ({error}); install cel-expr-python, or take a path instead"
        raise ExpressionInvalid(message) from error
    return cel


@lru_cache(maxsize=16)
def _environment(variables: tuple[str, ...]) -> Any:
    from cel_expr_python.ext import ext_math, ext_strings  # noqa: PLC0415 - as above

    cel = _library()
    extensions = [ext_math.ExtMath(), ext_strings.ExtStrings()]
    return cel.NewEnv(variables=dict.fromkeys(variables, cel.Type.DYN), extensions=extensions)


def _said(message: str) -> str:
    """The library's message without the picture that it draws below it."""
    found = _WHERE.match(message)
    return f"{found[2].removesuffix('[INVALID_ARGUMENT]').strip()} (character {found[1]})" if found else message[:500]
