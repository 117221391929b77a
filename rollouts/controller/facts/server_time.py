"""Sets this process's clock by the API server's, and logs each correction."""

from __future__ import annotations

import structlog

from rollouts.clock import SystemClock
from rollouts.cluster.connection import OnDate

log = structlog.get_logger()


def following(clock: SystemClock) -> OnDate:
    """The callback with which a connection passes on the server's Date headers."""

    def on_date(date_s: float) -> None:
        if corrected_s := clock.heard(date_s):
            log.warning(
                "clock_corrected",
                by_s=round(corrected_s, 1),
                why="the API server's Date header differs",
            )

    return on_date
