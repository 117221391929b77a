"""What watches suffer: events that are late, twice or lost, connections that break, 410, lists from the past."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass

from rollouts.ports import ApiServer
from rollouts.sim.faults import FaultyWatches, WatchFaults
from tests.behaviour.stage import LIMIT_S, Script, Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """What watches suffer.

    Args:
        forget_every_s: how often the server forgets its history and ends all watches, so that they get 410; 0 for never.
        late_s: the longest that a controller may act on an older spec.
        explained: errors of passes that follow from it.
    """

    faults: WatchFaults = WatchFaults()
    forget_every_s: float = 0.0
    late_s: float = 0.001
    explained: frozenset[str] = frozenset()


def _forgetful(faults: WatchFaults) -> Trouble:
    return Trouble(faults=faults, forget_every_s=1.0, late_s=35.0, explained=frozenset({"WatchFailed"}))


TROUBLES = {
    "late": Trouble(faults=WatchFaults(delay_s=(0.01, 0.5)), late_s=5.0),
    "twice": Trouble(faults=WatchFaults(duplicate=0.5)),
    "broken": Trouble(faults=WatchFaults(break_after=3), late_s=35.0),
    # A pass waits for its own writes, so an update may last until a watch has failed for 90 s; that is told, then.
    "gone": _forgetful(WatchFaults()),
    "gone and paged": _forgetful(WatchFaults(streaming_lists=False)),
    # Lists from the past are refused, some of them for over 90 s: then that is told, and the old view is not acted on.
    "stale lists": _forgetful(WatchFaults(streaming_lists=False, stale_lists=0.5)),
    "lost events": Trouble(faults=WatchFaults(drop=0.3), forget_every_s=7.0, late_s=45.0),
}


def in_trouble(what: Trouble, rng: random.Random) -> tuple[Callable[[ApiServer], ApiServer], Script]:
    """What stands between the controller and the API server, and the script that forgets versions; both end with the scenario."""
    troubled: list[FaultyWatches] = []

    def between(api: ApiServer) -> ApiServer:
        troubled.append(FaultyWatches(api, what.faults, rng))
        return troubled[-1]

    async def forgets(stage: Stage) -> None:
        def forget() -> None:
            stage.cluster.api.compact()
            stage.cluster.api.end_watches()

        try:
            while True:
                await asyncio.sleep(what.forget_every_s or LIMIT_S)
                forget()
        finally:  # the script has ended, and so has the trouble
            for each in troubled:
                each.faults = WatchFaults()
            if what.forget_every_s:
                forget()

    return between, forgets
