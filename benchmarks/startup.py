"""How long the controller takes from the start of its process to its first watch, and how much memory it has then."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.audit import Audit
from benchmarks.process import running

LIMIT_S = 30.0
LOOK_EVERY_S = 0.02
REST_S = 1.0


@dataclass(slots=True)
class Starts:
    """One value a start.

    Args:
        first_watch_s: from before the process is made until the API server receives its first watch.
        rss_mib: the most memory it had until then (read within 20 ms after it).
        ready_s: until /readyz says 200.
    """

    first_watch_s: list[float] = field(default_factory=list)
    rss_mib: list[float] = field(default_factory=list)
    ready_s: list[float] = field(default_factory=list)


async def measure(
    kubeconfig: Path, audit: Audit, *, log_folder: Path, times: int, on_done: Callable[[int], object]
) -> Starts:
    """Starts the controller `times` times, one after the other, and ends it each time. Raises: TimeoutError."""
    starts = Starts()
    for number in range(1, times + 1):
        mark = audit.mark()
        with running(kubeconfig, log_folder=log_folder) as controller:
            give_up_s = time.monotonic() + LIMIT_S
            while not (watches := [each for each in audit.asked(since=mark) if each.verb == "watch"]):
                controller.processes.check()
                if time.monotonic() > give_up_s:
                    raise TimeoutError(f"no watch within {LIMIT_S:g} s")
                await asyncio.sleep(LOOK_EVERY_S)
            starts.rss_mib.append(controller.peak_rss_mib())
            starts.first_watch_s.append(watches[0].at_s - controller.started_at_s)
            starts.ready_s.append(await controller.wait_until_ready(deadline_s=LIMIT_S))
        on_done(number)
        await asyncio.sleep(REST_S)
    return starts
