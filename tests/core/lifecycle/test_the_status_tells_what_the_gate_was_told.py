"""Promise: `status.autoscaling` tells people what the gate was last told, only during an update, and costs hardly a write."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rollouts.core.lifecycle.conditions import CHANGE_PERCENT, RENEWED_AFTER_S
from rollouts.core.model.autoscaling import (
    AutoscalerRecord,
    AutoscalingGate,
    AutoscalingRecord,
    ContainerLimit,
    ContainerMetric,
    UseRecord,
)
from rollouts.core.model.frozen import replace
from rollouts.core.model.rollout import Canary
from rollouts.core.model.steps import SetWeight
from rollouts.core.strategy.autoscaling import POLL_S
from tests.core.autoscalers import Load
from tests.core.model import World, annotated
from tests.core.worlds import edited, later, reconciled, running, settled

CANARY = Canary(steps=(SetWeight(25), SetWeight(50)))
GATE = AutoscalingGate(
    settled=True,
    min_headroom_percent=20,
    container=ContainerLimit(container="app", resource=ContainerMetric.CPU, max_utilization_percent=90),
)
GROWING = {"desired": 6, "max_replicas": 10}
"""The autoscaler adds pods, so the gate is closed and says the same at every look, whatever the containers use."""


def updating(load: Load) -> World:
    """Revision `b` is on its way since a minute."""
    there = replace(running(CANARY, autoscaling=GATE), load=load)
    return settled(edited(there, revision="b"), seconds=60)


def told(there: World) -> AutoscalingRecord:
    """What status says."""
    assert there.status.autoscaling is not None, there.status
    return there.status.autoscaling


def test_it_tells_the_autoscalers_and_each_revisions_use() -> None:
    """The numbers that a person asks for first: how much room there is, and which revision burns."""
    there = updating(Load(percent={"a": 30, "b": 172.4}, changes={"max_replicas": 5, "owner": "ScaledObject cart"}))

    record = told(there)

    (autoscaler,) = record.autoscalers
    assert autoscaler == AutoscalerRecord(
        name="cart", owner="ScaledObject cart", desired=4, max_replicas=5, headroom_percent=20,
        settled_since_s=autoscaler.settled_since_s,
    )  # fmt: skip
    assert autoscaler.settled_since_s is not None
    assert (record.container, record.resource) == ("app", "cpu")
    assert [(each.revision, each.utilization_percent, each.measured, each.pods) for each in record.use] == [
        ("a", 30, 3, 3),
        ("b", 173, 1, 1),
    ]


def test_since_when_it_has_settled_is_kept() -> None:
    """A time that moves with every look would be a write with every look. One that scales has not settled."""
    first = updating(Load(percent={"b": 200}))
    later_on = settled(replace(first, load=Load(percent={"b": 300})), seconds=60)

    assert told(later_on).at_s > told(first).at_s
    assert told(later_on).autoscalers[0].settled_since_s == told(first).autoscalers[0].settled_since_s

    (grows,) = told(updating(Load(changes=GROWING))).autoscalers
    assert (grows.desired, grows.headroom_percent, grows.settled_since_s) == (6, 40, None)


def test_what_was_not_measured_is_told_without_a_number() -> None:
    """One of two pods is no utilization; how many answered says why."""
    there = updating(Load(measured=0, percent={"b": 50}))

    assert told(there).use[1] == UseRecord(revision="b", measured=0, pods=1)


def test_a_held_step_is_not_written_at_every_look() -> None:
    """Ten minutes are forty looks whose figures differ a little: people would read the same in all of them."""
    there = updating(Load(changes=GROWING))
    writes, record = len(there.writes), told(there)

    for look in range(int((RENEWED_AFTER_S - 60) / POLL_S)):
        there = settled(replace(there, load=replace(there.load, percent={"b": 50 + look % 4})), seconds=POLL_S)

    assert not {"Status", "Held"} & set(there.writes[writes:])
    assert told(there) == record


@pytest.mark.parametrize(
    "load",
    [
        Load(changes=GROWING, percent={"b": 50 + CHANGE_PERCENT}),
        Load(changes=GROWING, percent={"a": 50 - CHANGE_PERCENT}),
        Load(changes=GROWING, measured=0),
        Load(changes=GROWING, requests=0),
        Load(changes={**GROWING, "max_replicas": 12}),
    ],
    ids=[
        "the canary uses more",
        "the stable revision uses less",
        "nothing is measured any more",
        "it requests nothing",
        "more room",
    ],
)
def test_figures_that_say_something_else_are_written(load: Load) -> None:
    """Though the gate's answer is the same."""
    before = updating(Load(changes=GROWING))

    after = settled(replace(before, load=load), seconds=2 * POLL_S)

    assert told(after) != told(before)
    assert told(after).at_s > told(before).at_s


def test_old_figures_are_written_again_though_nothing_differs() -> None:
    """Their age says whether the controller still looks."""
    before = updating(Load(changes=GROWING))

    after = settled(before, seconds=RENEWED_AFTER_S + 2 * POLL_S)

    assert told(after).at_s >= told(before).at_s + RENEWED_AFTER_S
    assert replace(told(after), at_s=0.0, use=()) == replace(told(before), at_s=0.0, use=())


@pytest.mark.parametrize(
    "over",
    [
        lambda there: settled(replace(there, load=Load())),
        lambda there: settled(annotated(there, "abort", "true"), seconds=60),
        lambda there: reconciled(edited(later(there, 30), revision="c")),
        lambda there: reconciled(edited(there, autoscaling=None)),
    ],
    ids=["it is promoted", "it is aborted", "another update begins", "the spec has no gate any more"],
)
def test_nothing_is_told_once_the_gate_is_over(over: Callable[[World], World]) -> None:
    """Nobody reads autoscalers then, so what status said of them would grow old."""
    assert over(updating(Load(percent={"b": 200}))).status.autoscaling is None
