"""The value that a rule returns: its part of a Decision."""

from __future__ import annotations

import math
from collections.abc import Iterable

from msgspec import Struct

from rollouts.core.context.waits import Wait
from rollouts.core.model.changes import StatusChange
from rollouts.core.model.intents import Intent, Notice


class Contribution(Struct, frozen=True, kw_only=True):
    """One rule's part of a Decision; changes and intents in their order.

    Args:
        wait: the first wait; None when the work of the rule is done.
        wake_at_s: wall clock at which time alone changes this part.
    """

    changes: tuple[StatusChange, ...] = ()
    intents: tuple[Intent, ...] = ()
    wait: Wait | None = None
    wake_at_s: float | None = None
    notices: tuple[Notice, ...] = ()


def joined(parts: Iterable[Contribution], *, after_s: float = -math.inf) -> Contribution:
    """The parts as one, in their order, with the first wait and the earliest time after `after_s`."""
    changes: list[StatusChange] = []
    intents: list[Intent] = []
    notices: list[Notice] = []
    wait: Wait | None = None
    wake_at_s: float | None = None
    for part in parts:
        changes += part.changes
        intents += part.intents
        notices += part.notices
        wait = wait or part.wait
        at_s = part.wake_at_s
        if at_s is not None and at_s > after_s and (wake_at_s is None or at_s < wake_at_s):
            wake_at_s = at_s
    return Contribution(
        changes=tuple(changes),
        intents=tuple(intents),
        wait=wait,
        wake_at_s=wake_at_s,
        notices=tuple(notices),
    )
