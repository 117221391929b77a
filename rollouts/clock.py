"""`ports.Clock` of this machine: the only reading of real time in the program."""

from __future__ import annotations

import time


class SystemClock:
    """Wall clock and monotonic clock of the operating system."""

    def now_s(self) -> float:
        """Seconds since 1970-01-01T00:00:00Z; may jump."""
        return time.time()

    def monotonic_s(self) -> float:
        """Seconds that never go back."""
        return time.monotonic()
