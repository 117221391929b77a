"""How one watch fares: what readiness, metrics and passes know of it. Times are monotonic."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class WatchState:
    """Kept by `watch.reflect`.

    Args:
        heard_at_s: when a list or a line came last; None before the first.
        failing_since_s: when it failed first after that; None while it works.
        trouble: why it failed last.
        is_open: a watch is open, so that silence means that nothing happens.
    """

    heard_at_s: float | None = None
    failing_since_s: float | None = None
    trouble: str = ""
    is_open: bool = False

    def opened(self) -> None:
        """The server answers; whether it also says something will show."""
        self.is_open = True

    def heard(self, *, now_s: float) -> None:
        """A list was completed, or a line came."""
        self.heard_at_s = now_s
        self.failing_since_s = None
        self.trouble = ""

    def ended(self) -> None:
        """It ended as planned, and is opened again at once."""
        self.is_open = False

    def failed(self, trouble: str, *, now_s: float) -> None:
        """It was refused, broke, or cannot be opened."""
        self.is_open = False
        self.trouble = trouble
        if self.failing_since_s is None:
            self.failing_since_s = now_s

    def failing_for_s(self, *, now_s: float) -> float:
        """Seconds since it failed first without having been heard since; 0 while a watch is open, or before it failed."""
        return 0.0 if self.is_open or self.failing_since_s is None else now_s - self.failing_since_s
