"""The small worlds, by name: a strategy, a number of replicas, and what disturbs the update from revision `a` to `b`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest

from rollouts.core.model.analysis import Analysis, OnDeadline, OnFailure
from rollouts.core.model.drain import DrainSpec
from rollouts.core.model.frozen import replace
from rollouts.core.model.rollout import BlueGreen, Strategy
from rollouts.core.model.steps import Analyze, Pause, PauseUntilPromoted, SetWeight
from tests.core.model import UNDRAINED, World
from tests.core.small_worlds.moves import COMMAND, EDIT, FAILURE, RESTART, SCALE, VERDICT
from tests.core.small_worlds.search import (
    SmallWorld,
    each_share_meets_pods,
    enough_pods_are_ready,
    verdicts_are_of_this_update,
)
from tests.core.updates import routed, with_services
from tests.core.worlds import edited, later, running

RATIO = with_services(SetWeight(50), PauseUntilPromoted())
BLUE_GREEN = BlueGreen(active_service="cart", preview_service="cart-preview", auto_promotion_enabled=False)
BY_TIME = replace(BLUE_GREEN, auto_promotion_enabled=True, auto_promotion_s=10.0, scale_down_delay_s=5.0)
ROUTE = routed(SetWeight(50), Pause(5))
DRAINED = DrainSpec(max_request_s=10.0)
NO_SURGE = replace(RATIO, max_surge=0, max_unavailable=1)
DYNAMIC = routed(*ROUTE.steps, dynamic=True)
CHECKED = Analysis(path="the spec", settings={}, templates=("good",))
HELD = replace(CHECKED, on_failure=OnFailure.HOLD)
BACK = replace(CHECKED, on_failure=OnFailure.STEP_BACK)
MEASURED = replace(RATIO, steps=(SetWeight(50), Analyze(CHECKED)))
MEASURED_DYNAMIC = replace(DYNAMIC, steps=(SetWeight(50), Analyze(CHECKED)))
MEASURED_ROUTE = replace(ROUTE, steps=(SetWeight(50), Analyze(BACK)), analysis=BACK)
GATED = replace(RATIO, before_update=HELD)
GATED_ROUTE = replace(ROUTE, before_update=CHECKED)
GATED_BLUE_GREEN = replace(BLUE_GREEN, before_update=replace(CHECKED, deadline_s=20.0, on_deadline=OnDeadline.ABORT))
MEASURED_BLUE_GREEN = replace(BY_TIME, pre_promotion=CHECKED, post_promotion=HELD)
PING_PONG = replace(ROUTE, ping_pong=True)


def _start(
    strategy: Strategy,
    replicas: int,
    bad: str,
    drain: DrainSpec,
    missing: str,
    revision: str,
    changes: Mapping[str, Any],
) -> World:
    there = later(running(strategy, replicas=replicas, drain=drain, **changes), 1.0)
    if missing:
        services = {name: each for name, each in there.services.items() if name != missing}
        there = replace(there, services=services, answers={missing: (there.now_s, None)})
    there = replace(there, bad=frozenset(bad))
    return edited(there, revision=revision) if revision != "a" else there


def small_world(
    strategy: Strategy,
    replicas: int,
    *disturbances: str,
    ceiling: int,
    bad: str = "",
    drain: DrainSpec = UNDRAINED,
    missing: str = "",
    revision: str = "b",
    punctual: bool = False,
    overtaken: bool = False,
    **changes: Any,
) -> SmallWorld:
    """An update from revision `a`, which is healthy, to `b`; each kind of disturbance happens at most once.

    Args:
        missing: a Service that somebody has deleted, as is known.
        revision: `a` for a world without an update.
    """
    steady = FAILURE not in disturbances and SCALE not in disturbances
    return SmallWorld(
        start=partial(_start, strategy, replicas, bad, drain, missing, revision, changes),
        budgets=dict.fromkeys(disturbances, 1),
        ceiling=ceiling,
        punctual=punctual,
        overtaken=overtaken,
        facts=(verdicts_are_of_this_update, *((enough_pods_are_ready, each_share_meets_pods) if steady else ())),
    )


QUICK: Mapping[str, SmallWorld] = {
    "ratio 2, a command": small_world(RATIO, 2, COMMAND, ceiling=9_000),
    "ratio 2, an edit": small_world(RATIO, 2, EDIT, ceiling=4_500),
    "ratio 2, a scale": small_world(RATIO, 2, SCALE, ceiling=3_500),
    "ratio 2, a failure": small_world(RATIO, 2, FAILURE, ceiling=2_500),
    "blue-green 2, a command": small_world(BLUE_GREEN, 2, COMMAND, ceiling=16_000),
    "blue-green 2, a failure": small_world(BLUE_GREEN, 2, FAILURE, ceiling=5_500),
    "blue-green 2, bad, a command": small_world(BLUE_GREEN, 2, COMMAND, bad="b", ceiling=2_500),
    "blue-green 1, an edit": small_world(BY_TIME, 1, EDIT, drain=DRAINED, ceiling=18_000),
    "blue-green 1, a scale": small_world(BY_TIME, 1, SCALE, drain=DRAINED, ceiling=20_000),
    "route 1, a command": small_world(ROUTE, 1, COMMAND, ceiling=6_500),
    "route 1, an edit": small_world(ROUTE, 1, EDIT, ceiling=8_000),
    "ping-pong 1, a command": small_world(PING_PONG, 1, COMMAND, ceiling=6_000),
    "route 1, a failure": small_world(ROUTE, 1, FAILURE, ceiling=4_500),
    "dynamic 2, an analysis, a verdict": small_world(MEASURED_DYNAMIC, 2, VERDICT, ceiling=9_000),
    "blue-green 2, stable bad": small_world(BY_TIME, 2, bad="a", ceiling=500),
    "blue-green 1, a missing Service": small_world(BLUE_GREEN, 1, missing="cart-preview", ceiling=500),
    "ratio 1, bad, a deadline that aborts": small_world(
        RATIO, 1, bad="b", ceiling=500, progress_deadline_s=60.0, progress_deadline_abort=True
    ),
    "ratio 2 without a surge, only a restart": small_world(
        NO_SURGE, 2, RESTART, revision="a", ceiling=5_000, punctual=True
    ),
    "ratio 1, an analysis, an edit": small_world(MEASURED, 1, EDIT, ceiling=8_000),
    "route 1, analyses, a verdict": small_world(MEASURED_ROUTE, 1, VERDICT, ceiling=3_000),
    "blue-green 1, analyses, a verdict": small_world(MEASURED_BLUE_GREEN, 1, VERDICT, drain=DRAINED, ceiling=2_000),
    "ratio 1, a gate, a verdict": small_world(GATED, 1, VERDICT, ceiling=5_000),
    "route 1, a gate, a command": small_world(GATED_ROUTE, 1, COMMAND, ceiling=9_000),
    "blue-green 1, a gate with a deadline, a command": small_world(GATED_BLUE_GREEN, 1, COMMAND, ceiling=16_000),
}

MORE: Mapping[str, SmallWorld] = {
    "route 1, a scale": small_world(ROUTE, 1, SCALE, ceiling=17_000),
    "ping-pong 1, an edit": small_world(PING_PONG, 1, EDIT, ceiling=7_000),
    "ratio 2, stable bad, a command": small_world(RATIO, 2, COMMAND, bad="a", ceiling=6_500),
    "dynamic 2, a command": small_world(DYNAMIC, 2, COMMAND, ceiling=48_000),
    "dynamic 2, an edit": small_world(DYNAMIC, 2, EDIT, ceiling=45_000),
    "ratio 2, a deadline that aborts, a failure": small_world(
        RATIO, 2, FAILURE, ceiling=25_000, progress_deadline_s=60.0, progress_deadline_abort=True
    ),
    "ratio 2, bad, a deadline that aborts": small_world(
        RATIO, 2, COMMAND, bad="b", ceiling=3_000, progress_deadline_s=60.0, progress_deadline_abort=True
    ),
    "ratio 2 without a surge, a restart": small_world(NO_SURGE, 2, RESTART, ceiling=20_000, punctual=True),
    "ratio 2, a restart": small_world(RATIO, 2, RESTART, ceiling=140_000, punctual=True),
    "blue-green 1, a restart": small_world(BLUE_GREEN, 1, RESTART, ceiling=120_000, punctual=True),
    "ratio 2, slow pods, a failure": small_world(RATIO, 2, FAILURE, ceiling=5_000, min_ready_s=5),
    "ratio 2, analyses, a verdict": small_world(replace(MEASURED, analysis=HELD), 2, VERDICT, ceiling=9_000),
    "blue-green 1, slow pods, a command": small_world(BLUE_GREEN, 1, COMMAND, ceiling=12_500, min_ready_s=5),
}
"""What the quick lane has no time for."""

OVERTAKEN: Mapping[str, SmallWorld] = {
    f"{name}, passes overtaken": replace(QUICK[name], overtaken=True)
    for name in (
        "ratio 2, a command",
        "ratio 2, an edit",
        "blue-green 1, an edit",
        "blue-green 1, a scale",
        "route 1, a command",
        "route 1, an edit",
        "route 1, analyses, a verdict",
        "blue-green 1, analyses, a verdict",
    )
}
"""Somebody else writes between the read of a pass and its writes."""

PAIRS: Mapping[str, SmallWorld] = {
    "ratio 1, a command and an edit": small_world(RATIO, 1, COMMAND, EDIT, ceiling=75_000),
    "ratio 1, a command and a failure": small_world(RATIO, 1, COMMAND, FAILURE, ceiling=38_000),
    "ratio 1, an edit and a scale": small_world(RATIO, 1, EDIT, SCALE, ceiling=23_000),
    "ratio 2, an edit and a failure": small_world(RATIO, 2, EDIT, FAILURE, ceiling=84_000),
    "ratio 1, an analysis, a command and a verdict": small_world(MEASURED, 1, COMMAND, VERDICT, ceiling=33_000),
    "route 1, an analysis, a command and a verdict": small_world(MEASURED_ROUTE, 1, COMMAND, VERDICT, ceiling=300_000),
    "blue-green 1, analyses, an edit and a verdict": small_world(
        MEASURED_BLUE_GREEN, 1, EDIT, VERDICT, drain=DRAINED, ceiling=300_000
    ),
    "blue-green 1, a command and a failure": small_world(BLUE_GREEN, 1, COMMAND, FAILURE, ceiling=300_000),
    "blue-green 1, an edit and a failure": small_world(BLUE_GREEN, 1, EDIT, FAILURE, ceiling=300_000),
    "blue-green 1, a command and an edit": small_world(BLUE_GREEN, 1, COMMAND, EDIT, ceiling=340_000),
    "route 1, a command and a failure": small_world(ROUTE, 1, COMMAND, FAILURE, ceiling=300_000),
    "route 1, an edit and a failure": small_world(ROUTE, 1, EDIT, FAILURE, ceiling=300_000),
    "route 1, a command and an edit": small_world(ROUTE, 1, COMMAND, EDIT, ceiling=300_000),
    "ratio 2, a scale and a failure": small_world(RATIO, 2, SCALE, FAILURE, ceiling=67_000),
}
"""Two kinds of disturbances, in any order and at any moments."""

ALL = {**QUICK, **MORE, **OVERTAKEN, **PAIRS}
DEEP = os.environ.get("ROLLOUTS_DEEP") == "1"
_LARGE = 5_500  # worlds
PLAYED = [
    pytest.param(name, marks=[pytest.mark.long] if each.ceiling > _LARGE else [])
    for name, each in (ALL if DEEP else QUICK).items()
]
"""What tests play; `make unit` leaves the large ones to `make test`."""
