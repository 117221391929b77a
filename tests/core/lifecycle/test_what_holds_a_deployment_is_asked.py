"""Promise: whether a policy holds a Deployment that is updated in place is asked once it is marked."""

from __future__ import annotations

from typing import Any

import pytest

from rollouts.core.context.contribution import Contribution
from rollouts.core.context.pass_context import context_of
from rollouts.core.decide import decide
from rollouts.core.lifecycle.hold import HOLD_AGAIN_S, hold_question
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import AskHold
from rollouts.core.model.nodes import DaemonSetSeen, HeldNodes, NodeUpdate, OwnType
from rollouts.core.model.rollout import Canary
from rollouts.core.model.steps import PauseUntilPromoted, SetWeight
from rollouts.core.model.workload import (
    NO_POD,
    Held,
    HoldSeen,
    InPlaceSeen,
    PartitionFields,
    PartitionHeld,
    StatefulSetSeen,
    WorkloadSeen,
)
from rollouts.core.model.workload_ref import Hold, WorkloadKind
from tests.core.deployments import USERS, deployed
from tests.core.model import World, snapshot
from tests.core.worlds import settled

STRATEGY = Canary(steps=(SetWeight(50), PauseUntilPromoted()))
QUESTION = AskHold(WorkloadKind.DEPLOYMENT, "cart", "uid-deployment")


def _at_rest(hold: Hold = Hold.AUTO, answer: HoldSeen | None = None, **deployment: Any) -> World:
    there = settled(deployed(STRATEGY, hold=hold))
    assert there.workload is not None
    assert there.workload.deployment is not None
    changed = replace(there.workload, hold=answer, in_place=replace(there.workload.deployment, **deployment))
    return replace(there, workload=changed)


def _asks(there: World) -> bool:
    return QUESTION in decide(snapshot(there)).intents


@pytest.mark.parametrize("hold", [Hold.AUTO, Hold.POLICY])
def test_it_is_asked_once_the_deployment_has_its_label(hold: Hold) -> None:
    """Without the label nothing holds it, and the answer would say nothing about the policy."""
    assert _asks(_at_rest(hold))
    assert not _asks(_at_rest(hold, holds=False))


def test_nobody_asks_who_needs_no_policy() -> None:
    """Paused between updates it is held by itself."""
    assert not _asks(_at_rest(Hold.AT_REST))


def test_it_is_not_asked_in_an_update() -> None:
    """The answer would be that of the guard."""
    assert not _asks(_at_rest(held=Held(number=1, replicas=4, own=USERS)))


_ONE = StatefulSetSeen(
    fields=PartitionFields(), holds=True, current_revision="a", update_revision="a", pods=4, current=4, updated=4
)
_PARTITION = PartitionHeld(number=1, replicas=4, partition=3, own=PartitionFields())
_NODES = DaemonSetSeen(update=NodeUpdate(on_delete=False), holds=True)


@pytest.mark.parametrize(
    ("found", "asked"),
    [
        (_ONE, True),
        (replace(_ONE, held=_PARTITION), False),
        (replace(_ONE, held=replace(_PARTITION, partition=NO_POD)), True),
        (replace(_ONE, held=replace(_PARTITION, partition=NO_POD), update_revision="b", updated=0), False),
        (replace(_ONE, held=replace(_PARTITION, partition=NO_POD), updated=3), False),
        (_NODES, True),
        (replace(_NODES, held=HeldNodes(number=1, own=OwnType(False))), False),
    ],
    ids=[
        *("partition", "partition in an update", "partition at rest", "partition before an update"),
        *("partition of two revisions", "nodes", "nodes in an update"),
    ],
)
def test_other_workloads_are_not_asked_about_in_an_update_either(found: InPlaceSeen, asked: bool) -> None:
    """Between updates a StatefulSet may be held by a partition of ours."""
    seen = snapshot(_at_rest())
    assert isinstance(seen.workload, WorkloadSeen)
    seen = replace(seen, workload=replace(seen.workload, in_place=found))

    assert hold_question(context_of(seen, seen.status)) == Contribution(intents=(QUESTION,) if asked else ())


def test_a_pass_that_comes_later_asks_again() -> None:
    """A policy that came or went is reported by no watch. Nothing wakes for it: a Rollout at rest costs nothing."""
    answered = _at_rest(answer=HoldSeen(at_s=1_000.0, works=True, since_s=1_000.0))
    fresh, old = (replace(answered, now_s=1_000.0 + age_s) for age_s in (HOLD_AGAIN_S - 1, HOLD_AGAIN_S))

    assert not _asks(fresh)
    assert decide(snapshot(fresh)).requeue_at_s is None
    assert _asks(old)


@pytest.mark.parametrize(("asked_s", "again_s"), [(0.0, 5.0), (5.0, 30.0), (17.0, 30.0), (30.0, None), (900.0, None)])
def test_a_first_no_is_asked_again_twice_and_then_costs_nothing(asked_s: float, again_s: float | None) -> None:
    """A policy that comes with the Deployment is effective seconds later; a server that has none is not asked for ever."""
    since_s = 1_000.0
    there = _at_rest(answer=HoldSeen(at_s=since_s + asked_s, works=False, since_s=since_s), paused=True)
    there = replace(there, now_s=since_s + asked_s + 1)

    assert not _asks(there)
    assert decide(snapshot(there)).requeue_at_s == (None if again_s is None else since_s + again_s)
    assert again_s is None or _asks(replace(there, now_s=since_s + again_s))
