"""Promise: a pod that is on its way out is not counted on, though its ReplicaSet still counts it.

The ReplicaSet controller deletes pods first and counts them later, with the generation that asked for it already observed. A set
that shrinks and is told to grow again right then says that it has what it was told to have, and has not.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rollouts.core.decide import decide
from rollouts.core.model.rollout import BlueGreen, Canary, Percent, Strategy, TrafficRouting
from rollouts.core.model.steps import PauseUntilPromoted, SetWeight
from tests.core.model import World, annotated, snapshot
from tests.core.worlds import (
    as_pods_are,
    edited,
    later,
    pods_heard,
    pods_ready,
    reconciled,
    replica_sets_synced,
    running,
    settled,
    slices_caught_up,
)

EXAMPLES = 20_000 if os.environ.get("ROLLOUTS_DEEP") == "1" else 300
STEPS = (SetWeight(20), SetWeight(60), PauseUntilPromoted(), SetWeight(80))
KINDS: tuple[Strategy, ...] = (
    Canary(steps=STEPS, max_surge=1, max_unavailable=0),
    Canary(steps=STEPS, max_surge=Percent(100), max_unavailable=0, stable_service="cart"),
    Canary(steps=STEPS, max_surge=1, max_unavailable=0, stable_service="cart", canary_service="cart-canary"),
    Canary(
        steps=STEPS, max_unavailable=0, traffic_routing=TrafficRouting(dynamic_stable_scale=True), canary_service="c"
    ),
    BlueGreen(active_service="cart", scale_down_delay_s=0),
)
"""Each with `maxUnavailable` 0 (a BlueGreen's default): then one pod that is not there breaks the promise."""


def _pass(there: World) -> World:
    """One pass; a step or a promotion that it records is one that it would record if it saw the true pods."""
    view = snapshot(there)
    told, true = decide(view).status, decide(as_pods_are(there, view)).status
    if (told.step_index, told.stable_revision) != (view.status.step_index, view.status.stable_revision):
        assert (told.step_index, told.stable_revision) == (true.step_index, true.stable_revision)
    return reconciled(there)


MOVES: dict[str, Callable[[World], World]] = {
    "pass": _pass,
    "sets are looked at": replica_sets_synced,
    "pods are heard of": pods_heard,
    "pods become ready": pods_ready,
    "slices follow": slices_caught_up,
    "abort": lambda there: annotated(there, "abort", "b"),
    "retry": lambda there: annotated(there, "abort", None),
    "promote": lambda there: annotated(there, "promote", "b@full"),
    "template taken back": lambda there: edited(there, revision="a"),
    "template": lambda there: edited(there, revision="b"),
    "third template": lambda there: edited(there, revision="c"),
    "a second": lambda there: later(there, 1.0),
}
OFTEN = ("pass", "sets are looked at", "pods are heard of", "pods become ready", "slices follow")


@pytest.mark.long
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    strategy=st.sampled_from(KINDS),
    replicas=st.sampled_from((3, 5)),
    tape=st.lists(
        st.one_of(st.sampled_from(OFTEN), st.sampled_from(OFTEN), st.sampled_from(sorted(MOVES))), max_size=80
    ),
)
def test_no_pass_counts_on_a_pod_that_was_deleted(strategy: Strategy, replicas: int, tape: list[str]) -> None:
    """Aborts, retries and new templates while sets shrink: `reconciled` holds each write to the rules with the true pods."""
    there = edited(running(strategy, replicas=replicas), revision="b")
    for name in tape:
        there = MOVES[name](there)
    settled(there)
