"""Providers whose declaration has expressions: the bounded process works out what they read and plan, beside the event loop.

A pass is one computation without an await. So an answer that is not there yet ends it with `NotWorkedOut`; the worker lets it be
worked out, and begins the pass again, which finds it here. Nothing was written by then. An answer depends on its question alone,
so it may be kept for as long as there is room.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, TypeVar

from rollouts.core.model.traffic import Acceptance, Answer, Split
from rollouts.errors import CallEnded, RolloutsError, Unroutable
from rollouts.ports import BoundedCalls, Clock
from rollouts.recent import Recent
from rollouts.traffic.codec import Context, Objects, Op, Target
from rollouts.traffic.declared.codec import Declared, declared

ANSWERS_KEPT = 2_048
ENDED_AGAIN_S = 60.0
"""After so long an answer that took too much time is worked out again: the machine may have been busy."""

_Answer = TypeVar("_Answer")
_BUILT_KEPT = 64


class NotWorkedOut(RolloutsError):
    """An answer of a provider that is not there yet; `work_out` gets it."""

    def __init__(self, work_out: Callable[[], Any]) -> None:
        super().__init__("an answer of a TrafficProvider is being worked out")
        self.work_out = work_out


@dataclass(frozen=True, slots=True)
class _Known:
    """An answer, or why there is none; `until_s` is the monotonic time until which that holds."""

    value: Any
    why_not: Unroutable | None
    until_s: float


class WorkedOut:
    """What providers answered, by question."""

    def __init__(self, bounded: BoundedCalls, *, clock: Clock) -> None:
        self._bounded = bounded
        self._clock = clock
        self._known: Recent[bytes, _Known] = Recent(ANSWERS_KEPT)

    def of(
        self, declaration: bytes, method: Callable[..., _Answer], objects: Objects, tenant: str, *arguments: Any
    ) -> _Answer:
        """The answer of a provider's method for these objects and arguments. Raises: Unroutable; NotWorkedOut."""
        asked = (declaration, method.__name__, objects, arguments)
        text = json.dumps((objects.user, objects.owned), sort_keys=True).encode()
        of = b"\0".join((declaration, text, repr((method.__name__, arguments)).encode()))
        key = hashlib.blake2b(of, digest_size=16).digest()
        known = self._known.get(key)
        if known is None or known.until_s < self._clock.monotonic_s():
            raise NotWorkedOut(lambda: self._work_out(key, asked, tenant))
        self._known.move_to_end(key)
        if known.why_not is not None:
            raise known.why_not
        answer: _Answer = known.value
        return answer

    async def _work_out(self, key: bytes, asked: tuple[bytes, str, Objects, tuple[Any, ...]], tenant: str) -> None:
        """Raises: nothing but cancellation, and what shows a bug. Cancellation: safe."""
        value, why_not, until_s = None, None, float("inf")
        try:
            value = await self._bounded.call(answered, *asked, tenant=tenant)
        except Unroutable as error:
            why_not = error
        except CallEnded as error:
            why_not = Unroutable(f"the expressions of its TrafficProvider cannot be used for it: {error}")
            until_s = self._clock.monotonic_s() + ENDED_AGAIN_S
        self._known[key] = _Known(value, why_not, until_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffLoop(Declared):
    """A declared provider that works its answers out elsewhere; `off_loop` makes it."""

    answers: WorkedOut

    def read(self, objects: Objects, target: Target, context: Context) -> Split:
        """See `codec.Provider`. Raises: NotWorkedOut too, as all methods here."""
        return self.answers.of(self.declaration, Declared.read, objects, context.namespace, target, context)

    def plan(self, objects: Objects, target: Target, context: Context, want: Split) -> tuple[Op, ...]:
        """See `codec.Provider`."""
        return self.answers.of(self.declaration, Declared.plan, objects, context.namespace, target, context, want)

    def release(self, objects: Objects, target: Target, context: Context) -> tuple[Op, ...]:
        """See `codec.Provider`."""
        return self.answers.of(self.declaration, Declared.release, objects, context.namespace, target, context)

    def accepted(self, objects: Objects, target: Target) -> Acceptance:
        """See `codec.Provider`."""
        try:
            return self.answers.of(self.declaration, Declared.accepted, objects, target.namespace, target)
        except Unroutable as error:
            return Acceptance(Answer.UNKNOWN, str(error))


def off_loop(provider: Declared, answers: WorkedOut) -> Declared:
    """The provider, off the loop if its declaration has expressions."""
    if b'"cel"' not in provider.declaration:
        return provider
    return OffLoop(**{each.name: getattr(provider, each.name) for each in fields(Declared)}, answers=answers)


def answered(declaration: bytes, method: str, objects: Objects, arguments: tuple[Any, ...]) -> Any:
    """What a provider answers, in the process that works it out. Raises: Unroutable."""
    return getattr(_built(declaration), method)(objects, *arguments)


@lru_cache(maxsize=_BUILT_KEPT)
def _built(declaration: bytes) -> Declared:
    return declared(json.loads(declaration))
