"""CEL expressions from users' objects: compiled once, bounded in cost, with a result of the requested type.

The library (Google's cel-cpp) is loaded with the first expression: a cluster without expressions never pays for it. It limits
depth and iterations itself. Their cost in time and memory is limited before each evaluation, by the size of the input
(`expression_cost.py`). No I/O, no clock; time is an input variable.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any, TypeAlias

from rollouts.errors import ExpressionFailed, ExpressionInvalid, ExpressionsTooCostly
from rollouts.expression_cost import SMALL, UNITS_MAX, VALUES_MAX, Shape, shape_of, size_of
from rollouts.pattern_cost import STEPS_LARGE

LIBRARY = ("cel_expr_python.cel", "cel_expr_python.ext")
"""Modules that the first expression imports."""

SOURCE_BYTES_MAX = 1_024
ROUNDS_MAX = 4
TEXT_CALLS_MAX = 1  # four in a row turned 60 bytes into 1.6 GB, in half a minute

_ROUNDS = re.compile(r"\.\s*(?:map|filter|transformList|transformMap)\s*\(")
_TEXT_CALLS = re.compile(r"\.\s*(?:replace|join|format)\s*\(")
_WHERE = re.compile(r"^INVALID_ARGUMENT: ERROR: <input>:\d+:(\d+): (.*?)(?:\n.*)?$", re.DOTALL)

Data: TypeAlias = Mapping[str, Any]
"""JSON values by the names of the variables."""


class Result(Enum):
    """The type of an expression's result, by its name in CEL."""

    TRUTH = "bool"
    TEXT = "string"
    ANY = "dyn"


@dataclass(slots=True)
class _Meter:
    """What is left of a shared budget, in units of `expression_cost.py`."""

    left: int


_METER: ContextVar[_Meter | None] = ContextVar("meter", default=None)


@contextmanager
def metered(units: int) -> Iterator[None]:
    """Limits the cost of all evaluations inside it to `units` in total; the one beyond raises ExpressionsTooCostly."""
    token = _METER.set(_Meter(units))
    try:
        yield
    finally:
        _METER.reset(token)


@dataclass(slots=True, eq=False, repr=False)
class Expression:
    """A compiled expression; `compiled` makes it."""

    source: str
    variables: tuple[str, ...]
    result: Result
    program: Any
    shape: Shape

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process compiles it again."""
        return _again, (self.source, self.variables, self.result)

    def truth(self, data: Data) -> bool:
        """Its value for `data`, true or false. Raises: ExpressionFailed."""
        value = self.value(data)
        if isinstance(value, bool):
            return value
        raise self._failed(f"it must give true or false, not {value!r}")

    def text(self, data: Data) -> str:
        """Its value for `data`, a text. Raises: ExpressionFailed."""
        value = self.value(data)
        if isinstance(value, str):
            return value
        raise self._failed(f"it must give a text, not {value!r}")

    def value(self, data: Data) -> Any:
        """Its value for `data`, of whatever type: JSON, and what CEL has besides (times, bytes). Raises: ExpressionFailed."""
        self._spend(data)
        cel = _library()
        try:
            value = self.program.eval(data=dict(data))
            # An error of the evaluation is a value too, of its own type.
            failed = value.type() == cel.Type.ERROR
            plain = value.plain_value()
        except (MemoryError, RuntimeError, TypeError, ValueError) as error:
            raise self._failed(str(error)) from error
        if failed:
            raise self._failed(str(plain))
        return plain

    def _spend(self, data: Data) -> None:
        size = size_of(data)
        units = self.shape.units(size)
        if units > UNITS_MAX:
            much = f"more than {VALUES_MAX}" if size.values > VALUES_MAX else str(size.values)
            raise self._failed(
                f"its input is too large for it: {much} values, a list of {size.items}, a text of {size.text_bytes} bytes;"
                " write it with fewer calls, or give it less"
            )
        meter = _METER.get()
        if meter is not None:
            meter.left -= units
            if meter.left < 0:
                raise ExpressionsTooCostly("all expressions together cost too much")

    def _failed(self, why: str) -> ExpressionFailed:
        return ExpressionFailed(f"{self.source}: {why[:500]}")


def compiled(source: str, *, variables: tuple[str, ...], result: Result) -> Expression:
    """Compiles an expression.

    Args:
        variables: the names that it may use, for JSON values of any type.

    Raises: ExpressionInvalid: it is too large, does not parse, uses another name, or can never give the wanted result.
    """
    try:
        size_bytes = len(source.encode())
    except UnicodeEncodeError as error:
        raise ExpressionInvalid("has half of a surrogate pair, which is no valid text") from error
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
        message = str(error)[:500]
        if located := _WHERE.match(str(error)):  # without the excerpt of the source below it
            message = f"{located[2].removesuffix('[INVALID_ARGUMENT]').strip()} (character {located[1]})"
        raise ExpressionInvalid(message) from error
    wanted = {Result.TRUTH: cel.Type.BOOL, Result.TEXT: cel.Type.STRING, Result.ANY: given}[result]
    if given not in (wanted, cel.Type.DYN):
        raise ExpressionInvalid(f"must give a {result.value}, not {given.name()}")
    shape = shape_of(source, spreads=given not in (cel.Type.BOOL, cel.Type.STRING))
    if shape.pattern_steps >= STEPS_LARGE:
        raise ExpressionInvalid(
            "must give matches its pattern as a text in quotes, as in name.matches('^web-'), and a short one"
        )
    if shape.units(SMALL) > UNITS_MAX:
        raise ExpressionInvalid("may cost too much for any input; write it with fewer calls and fewer +")
    return Expression(source, variables, result, program, shape)


@lru_cache(maxsize=256)
def _again(source: str, variables: tuple[str, ...], result: Result) -> Expression:
    return compiled(source, variables=variables, result=result)


def _library() -> Any:
    try:
        from cel_expr_python import cel  # noqa: PLC0415 - 17 ms and 5 MB that only those with an expression pay
    except ImportError as error:  # no wheel for this platform
        message = f"CEL cannot be used in this installation ({error}); install cel-expr-python, or use a path instead"
        raise ExpressionInvalid(message) from error
    return cel


@lru_cache(maxsize=16)
def _environment(variables: tuple[str, ...]) -> Any:
    from cel_expr_python.ext import ext_math, ext_strings  # noqa: PLC0415 - as above

    cel = _library()
    extensions = [ext_math.ExtMath(), ext_strings.ExtStrings()]
    return cel.NewEnv(variables=dict.fromkeys(variables, cel.Type.DYN), extensions=extensions)
