"""Sets this process's clock by the API server's, and says so when that changes anything."""

from __future__ import annotations

import structlog

from rollouts.clock import SystemClock
from rollouts.cluster.connection import OnDate

log = structlog.get_logger()


def following(clock: SystemClock) -> OnDate:
    """What a connection is to do with the server's Date headers."""

    def on_date(date_s: float) -> None:
        if corrected_s := clock.heard(date_s):
            log.warning("clock_corrected", by_s=round(corrected_s, 1), why="the API server's Date says another time")

    return on_date
