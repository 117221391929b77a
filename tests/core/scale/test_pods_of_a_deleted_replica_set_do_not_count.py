"""Promise: a ReplicaSet that somebody deletes in the foreground goes with its pods, so no other revision shrinks for them."""

from __future__ import annotations

from rollouts.core.model.rollout import Canary, Percent
from rollouts.core.model.steps import SetWeight
from tests.core.worlds import deleting, edited, pods_ready, reconciled, replica_sets_caught_up, running, sizes

ALL_OF_IT = Canary(steps=(SetWeight(100),), max_surge=Percent(25), max_unavailable=Percent(25))


def test_stable_pods_stay_while_the_new_replica_set_is_being_deleted() -> None:
    """Its status counts a ready pod until the garbage collector has come; a stable pod went for it, and 1 of 2 was left."""
    there = reconciled(edited(running(ALL_OF_IT, replicas=2), revision="b"))
    there = replica_sets_caught_up(pods_ready(replica_sets_caught_up(there)))
    there = deleting(there, "b")
    assert sizes(there)["b"] == 1

    after = reconciled(there)

    assert sizes(after)["a"] == 2
