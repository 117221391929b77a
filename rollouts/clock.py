"""`ports.Clock` of this machine: the only reading of real time in the program.

Pauses and delays of hours are measured on the wall clock, because only that means the same after a restart and on another
machine. So this clock is steady: it is set once and then follows the monotonic clock, and a jump of the machine's clock changes
nothing. It is set to the API server's time, which all controllers of a cluster see.
"""

from __future__ import annotations

import time
from collections.abc import Callable

TOLERANCE_S = 2.0  # the Date header has whole seconds and is late by the time of the answer's transfer
SLEW_S = 0.6  # at each call, once a minute: one percent, so a wrong server ends a pause of an hour at most 36 s early


def _elapsed_s() -> float:
    """Linux' CLOCK_BOOTTIME goes on while the machine is suspended, so a leader that wakes up sees that its lease has expired."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if _COUNTS_SUSPEND else time.monotonic()


_COUNTS_SUSPEND = hasattr(time, "CLOCK_BOOTTIME")


class SystemClock:
    """A steady wall clock, and a monotonic clock that goes on during suspend where the system has one.

    Args:
        wall_s: the machine's wall clock, seconds since 1970; may jump.
        elapsed_s: seconds that never go back.
    """

    def __init__(self, *, wall_s: Callable[[], float] = time.time, elapsed_s: Callable[[], float] = _elapsed_s) -> None:
        self._wall_s = wall_s
        self._elapsed_s = elapsed_s
        self._offset_s = wall_s() - elapsed_s()
        self._was_set = False

    def now_s(self) -> float:
        """Seconds since 1970-01-01T00:00:00Z, by the API server's clock once it is known; jumps only when `heard` corrects it."""
        return self._elapsed_s() + self._offset_s

    def monotonic_s(self) -> float:
        """Seconds that never go back."""
        return self._elapsed_s()

    def heard(self, date_s: float) -> float:
        """Compares this clock with the API server's; returns by how many seconds it was corrected.

        The first call sets the clock. Later two of three clocks decide: when the machine's clock agrees with the server's, time
        has passed that ours did not see (a virtual machine was paused). If only the server's clock differs, ours follows slowly,
        by SLEW_S a call; if only the machine's differs, ours does not change.

        Args:
            date_s: the time in a Date header, whole seconds since 1970.
        """
        error_s = _beyond(self.now_s(), date_s)
        if abs(error_s) <= TOLERANCE_S:
            error_s = 0.0
        elif self._was_set and abs(_beyond(self._wall_s(), date_s)) > TOLERANCE_S:
            error_s = min(SLEW_S, max(-SLEW_S, error_s))
        self._was_set = True
        self._offset_s += error_s
        return error_s


def _beyond(now_s: float, date_s: float) -> float:
    """Seconds from `now_s` to the second that the date names; 0 within it."""
    return max(0.0, date_s - now_s) - max(0.0, now_s - (date_s + 1.0))
