"""The state of one watch, for readiness, metrics and passes. Times are monotonic."""

from __future__ import annotations

from dataclasses import dataclass

FAILED_TELL_S = 90.0
"""A watch that fails so long is told, and nothing is decided on what it showed: at least two attempts have failed, as the longest
pause between two is 60 s."""


@dataclass(slots=True)
class WatchState:
    """The state of one watch, which `watch.reflect` keeps.

    Args:
        heard_at_s: when the last list or line came; None before the first.
        failing_since_s: when it first failed after that; None while it works.
        is_open: whether a watch is open, so that silence means that nothing happens.
    """

    heard_at_s: float | None = None
    failing_since_s: float | None = None
    trouble: str = ""
    is_open: bool = False

    def opened(self) -> None:
        """Notes that the server has accepted the watch; it may still send nothing."""
        self.is_open = True

    def heard(self, *, now_s: float) -> None:
        """Notes that a list was completed, or that a line came."""
        self.heard_at_s = now_s
        self.failing_since_s = None
        self.trouble = ""

    def ended(self) -> None:
        """Notes that it ended as planned; it is opened again at once."""
        self.is_open = False

    def failed(self, trouble: str, *, now_s: float) -> None:
        """Notes that it was refused, broke, or cannot be opened."""
        self.is_open = False
        self.trouble = trouble
        if self.failing_since_s is None:
            self.failing_since_s = now_s

    def failing_for_s(self, *, now_s: float) -> float:
        """Seconds since the first failure after which nothing was heard; 0 while a watch is open, or before a failure."""
        return 0.0 if self.is_open or self.failing_since_s is None else now_s - self.failing_since_s
