"""Promise: pods that got less time to end than was asked for are told of, whoever took it: sleep and requests do not fit in.

A policy of the cluster may cap `terminationGracePeriodSeconds` when a ReplicaSet is created. The template in the spec, which
`DrainUnsafe` looked at alone, still says what was asked for.
"""

from __future__ import annotations

import pytest

from rollouts.core.model.drain import DrainMode, DrainSpec
from rollouts.core.model.frozen import replace
from rollouts.core.model.pod_exit import ContainerExit, Injection, PodExit
from rollouts.core.model.rollout import Canary
from rollouts.core.model.steps import PauseUntilPromoted, SetWeight
from tests.core.model import World
from tests.core.updates import updating
from tests.core.worlds import edited, one, reconciled, settled

ASKED = Injection(containers=("app",), pre_stop_s=6, grace_s=45, native=True)
GATED = Canary(steps=(SetWeight(50), PauseUntilPromoted()))
OWN = PodExit(60, (ContainerExit("app", has_pre_stop=True, sleep_s=20),))


def _unsafe(there: World) -> str:
    return next((each.message for each in there.status.conditions if each.type == "DrainUnsafe"), "")


def _admitted(there: World, revision: str, grace_s: int | None, injection: Injection | None = ASKED) -> World:
    """The ReplicaSet of that revision as the API server admitted it."""
    sets = tuple(
        replace(each, injection=injection, grace_s=grace_s) if each.revision == revision else each
        for each in there.replica_sets
    )
    return reconciled(replace(there, replica_sets=sets))


@pytest.mark.parametrize("revision", ["a", "b"])
def test_a_replica_set_with_less_time_than_was_asked_for_is_told_with_both_numbers(revision: str) -> None:
    """Of the new revision, and of the stable one, whose pods end next."""
    there = _admitted(updating(GATED, drain=DrainSpec(max_request_s=30.0)), revision, 20)

    message = _unsafe(there)
    assert (
        f"ReplicaSet {one(there, revision).name}: terminationGracePeriodSeconds: asked for 45, and it has 20" in message
    )
    assert "policy" in message
    assert _unsafe(_admitted(there, revision, 45)) == ""


@pytest.mark.parametrize("grace_s", [45, 600, None])
def test_as_much_time_or_more_is_no_fault(grace_s: int | None) -> None:
    """A policy may raise it, too; and an older object may not show it."""
    assert _unsafe(_admitted(updating(GATED, drain=DrainSpec(max_request_s=30.0)), "b", grace_s)) == ""


def test_a_template_that_needs_nothing_added_is_compared_with_what_its_author_wrote() -> None:
    """Nothing is injected there, and the cap takes from the author's own sleep."""
    there = settled(edited(updating(GATED, drain=DrainSpec(max_request_s=30.0)), ends=OWN))

    assert "asked for 60, and it has 20" in _unsafe(_admitted(there, "b", 20, injection=None))


def test_a_replica_set_without_pods_and_a_rollout_that_does_not_drain_are_not_told() -> None:
    """Nothing ends there."""
    there = _admitted(updating(GATED, drain=DrainSpec(max_request_s=30.0)), "b", 20)
    off = reconciled(edited(there, drain=DrainSpec(mode=DrainMode.OFF)))
    none = settled(edited(there, replicas=0))

    assert (_unsafe(off), _unsafe(none)) == ("", "")
