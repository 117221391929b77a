"""The value that a rule returns: its part of a Decision."""

from __future__ import annotations

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
