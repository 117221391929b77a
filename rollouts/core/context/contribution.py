"""What one rule contributes to a Decision."""

from __future__ import annotations

from dataclasses import dataclass

from rollouts.core.context.waits import Wait
from rollouts.core.model.changes import StatusChange
from rollouts.core.model.intents import Intent, Notice


@dataclass(frozen=True, slots=True, kw_only=True)
class Contribution:
    """A part of a Decision.

    Args:
        changes: of status, in order.
        intents: in order.
        wait: the first thing that is waited for; None when this part is done.
        wake_at_s: wall clock at which time alone changes it; None for never.
    """

    changes: tuple[StatusChange, ...] = ()
    intents: tuple[Intent, ...] = ()
    wait: Wait | None = None
    wake_at_s: float | None = None
    notices: tuple[Notice, ...] = ()
