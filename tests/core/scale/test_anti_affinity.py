"""Promise: with `antiAffinity` pods of a new revision are born with a rule against the stable one's nodes, only then."""

from __future__ import annotations

import pytest

from rollouts.core.decide import decide
from rollouts.core.model.intents import CreateReplicaSet
from rollouts.core.model.rollout import AntiAffinity, BlueGreen, Canary, Strategy
from tests.core.model import World, snapshot, world
from tests.core.worlds import edited, running

RULE = AntiAffinity(required=True)
BOTH = pytest.mark.parametrize(
    "strategy", [Canary(anti_affinity=RULE), BlueGreen(active_service="cart", anti_affinity=RULE)]
)


def _created(there: World) -> CreateReplicaSet:
    return next(each for each in decide(snapshot(there)).intents if isinstance(each, CreateReplicaSet))


@BOTH
def test_a_new_revision_keeps_away_from_the_stable_one(strategy: Strategy) -> None:
    """Named in the intent, so that the template that is made says it from the start."""
    assert _created(edited(running(strategy), revision="b")).anti_affinity_revision == "a"


@BOTH
def test_the_first_revision_keeps_away_from_nobody(strategy: Strategy) -> None:
    """There is no stable revision yet."""
    assert _created(world(strategy)).anti_affinity_revision == ""


def test_without_the_field_there_is_no_rule() -> None:
    """Scheduling is the user's."""
    assert _created(edited(running(Canary()), revision="b")).anti_affinity_revision == ""
