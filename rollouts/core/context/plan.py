"""What one part of the policy contributes to a Decision."""

from __future__ import annotations

from dataclasses import dataclass

from rollouts.core.context.waits import Wait
from rollouts.core.model.intents import Intent, Notice
from rollouts.core.model.status import RolloutStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A part of a Decision.

    Args:
        status: the memory after this part.
        intents: in order.
        wait: the first thing that is waited for; None when this part is done.
        wake_at_s: wall clock at which time alone changes the plan; None for never.
    """

    status: RolloutStatus
    intents: tuple[Intent, ...] = ()
    wait: Wait | None = None
    wake_at_s: float | None = None
    notices: tuple[Notice, ...] = ()
