"""Conditions of metrics: what people write, in Argo Rollouts' expressions or in CEL, is translated once and evaluated as CEL.

`expressions.py` bounds what an evaluation may cost. No message has a part of what was measured in it: what CEL says of a failure
may, so its words are replaced.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from rollouts.errors import ExpressionFailed, ExpressionInvalid
from rollouts.expression_cost import size_of
from rollouts.expressions import Expression, Result, compiled
from rollouts.metrics.expr_cel import NOT_FINITE, Reads, cel_of, reads_of
from rollouts.metrics.expr_parser import NOW, RESULT, parsed

COPIED_MAX = 300  # items: measured 0.13 µs for each pair of them, so 12 ms
CONDITIONS_KEPT = 512  # of a controller; each takes some 10 KiB

_OVERLOAD = re.compile(r"No matching overloads? found : ([\w.@!+*/%<>=-]+\([\w, ]*\))")
_STATIC = re.compile(r"found no matching overload for '([\w.@!+*/%<>=-]+)' applied to '(\([\w, ()]*\))'")
_REASONS = (
    (f"index={NOT_FINITE}", "a number that it works out is infinite or none, as after a division by 0"),
    ("Index error", "there is no such item"),
    ("Key not found", "there is no such member"),
    ("cannot convert string", "a text is no number"),
    ("Iteration budget", "it goes through too many items"),
    ("too large for it", "there is too much for it: let the query give less"),
    ("invalid regular expression", "its regular expression cannot be read"),
    ("must give true or false", "it gives neither true nor false"),
)
_STATIC_REASONS = (
    ("its pattern", "must have a regular expression as a text in quotes, and a short one"),
    ("cost too much", "may cost too much: write it with fewer calls"),
    ("map and filter", "goes through lists too often: let the query do it"),
    ("must give a bool", "gives neither true nor false"),
    ("installation", "cannot be evaluated, as this installation has no CEL"),
)


@dataclass(frozen=True, slots=True)
class CompiledCondition:
    """A condition that can be evaluated; made by `condition_of`."""

    reads: Reads
    _expression: Expression = field(repr=False)
    _of_present: Expression | None = field(repr=False)

    def holds(self, result: Any, *, now_s: float) -> bool:
        """Whether it is true of `result`. Raises: ExpressionFailed, with a reason in words of ours."""
        if self.reads.copies and size_of({RESULT: result}).items > COPIED_MAX:
            raise ExpressionFailed(f"it filters more than {COPIED_MAX} items: let the query give less")
        try:
            return self._expression.truth({RESULT: result, NOW: _rfc3339(now_s)})
        except ExpressionFailed as error:
            raise ExpressionFailed(_why(str(error))) from None  # the cause's text has parts of both

    def is_vacuous(self, result: Any, *, now_s: float) -> bool:
        """Whether `holds` is what it is only because something is missing, or a list is empty."""
        if self._of_present is None:
            return False
        try:
            self._of_present.truth({RESULT: result, NOW: _rfc3339(now_s)})
        except ExpressionFailed:
            return True
        return False


@lru_cache(maxsize=CONDITIONS_KEPT)
def condition_of(source: str, *, defaults: bool) -> CompiledCondition:
    """A success or failure condition. Raises: ExpressionInvalid, with a message that says what to write."""
    tree = parsed(source)
    reads = reads_of(tree)
    if not reads.measured:
        raise ExpressionInvalid("does not look at what was measured: use `result`")
    of_present = None
    if reads.may_be_vacuous and not defaults:
        of_present = _compiled(cel_of(tree, defaults=False, present=True), Result.TRUTH)
    return CompiledCondition(reads, _compiled(cel_of(tree, defaults=defaults), Result.TRUTH), of_present)


def moment_s(source: str, *, now_s: float) -> float:
    """The time that an expression such as `now() - duration("5m")` gives, in seconds since 1970.

    Raises: ExpressionInvalid or ExpressionFailed, with messages in words of ours.
    """
    expression = _compiled_moment(source)
    try:
        value = expression.value({RESULT: None, NOW: _rfc3339(now_s)})
    except ExpressionFailed as error:
        raise ExpressionFailed(_why(str(error))) from None
    if not isinstance(value, datetime):
        raise ExpressionFailed('it gives no time: write now() - duration("5m")')
    return value.timestamp()


@lru_cache(maxsize=CONDITIONS_KEPT)
def _compiled_moment(source: str) -> Expression:
    tree = parsed(source)
    if reads_of(tree).measured:
        raise ExpressionInvalid("is asked before anything is measured: `result` cannot be used")
    return _compiled(cel_of(tree, defaults=False), Result.ANY)


def _compiled(cel: str, result: Result) -> Expression:
    try:
        return compiled(cel, variables=(RESULT, NOW), result=result)
    except ExpressionInvalid as error:
        text = str(error)
        if found := _STATIC.search(text):
            raise ExpressionInvalid(f"gives {found[1].strip('_')} values of the wrong types, {found[2]}") from None
        words = next((words for part, words in _STATIC_REASONS if part in text), "has no meaning in CEL")
        raise ExpressionInvalid(words) from None


def _why(text: str) -> str:
    if found := _OVERLOAD.search(text):
        return f"the types do not fit: {found[1].strip('_')}"
    return next((words for part, words in _REASONS if part in text), "it has no value")


def _rfc3339(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat()
