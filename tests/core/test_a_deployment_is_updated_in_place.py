"""Promise: a Deployment is updated in steps where it is. Its own controller moves the pods, and gets its user's fields back."""

from __future__ import annotations

import pytest

from rollouts.core.decide import decide
from rollouts.core.model.frozen import replace
from rollouts.core.model.in_place_intents import (
    MoveReplicaSet,
    StepDeployment,
)
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import Canary, Percent
from rollouts.core.model.status import Phase
from rollouts.core.model.steps import PauseUntilPromoted, SetWeight
from rollouts.core.model.workload import UpdateFields
from rollouts.core.model.workload_ref import Hold
from tests.core.deployments import USERS, deployed, deployment_synced, scaled, template_changed
from tests.core.model import World, annotated, snapshot
from tests.core.worlds import quiet, settled, sizes

STEPS = Canary(steps=(SetWeight(25), PauseUntilPromoted(), SetWeight(50), PauseUntilPromoted()))


def _taken(replicas: int = 4) -> World:
    """The Rollout has seen the Deployment's first revision, and written nothing to it."""
    there = settled(deployed(STEPS, replicas=replicas))
    assert there.status.phase is Phase.HEALTHY
    assert there.workload is not None and there.workload.deployment is not None
    assert (there.workload.deployment.held, there.workload.deployment.fields) == (None, USERS)
    return replace(there, writes=())


def test_a_new_template_makes_no_pod_before_the_update_has_begun() -> None:
    """The policy has paused the Deployment in the write that changed it."""
    there = settled(template_changed(_taken(), "b"))

    assert sizes(there) == {"a": 3, "b": 1}
    assert there.status.phase is Phase.PAUSED


def test_a_promotion_gives_the_users_fields_back() -> None:
    """No note and no pause of ours is left."""
    there = settled(template_changed(_taken(), "b"))
    there = settled(annotated(there, "promote", "b@full"))

    assert sizes(there) == {"b": 4}
    assert there.status.phase is Phase.HEALTHY
    assert there.workload is not None and there.workload.deployment is not None
    assert (there.workload.deployment.held, there.workload.deployment.fields) == (None, USERS)
    assert not there.workload.deployment.paused


def test_an_abort_brings_the_stable_pods_back_and_leaves_the_template() -> None:
    """It stays what Git says, and paused."""
    there = settled(template_changed(_taken(), "b"))
    there = settled(annotated(there, "abort", "b"))

    assert sizes(there) == {"a": 4}
    assert there.status.phase is Phase.ABORTED
    assert there.workload is not None and there.workload.deployment is not None
    assert there.workload.deployment.paused
    assert there.workload.template_hash == "b"


AT_ALL = Canary(steps=(SetWeight(50), SetWeight(100), PauseUntilPromoted()))


def _deployment(there: World) -> tuple[bool, bool, UpdateFields]:
    assert there.workload is not None and there.workload.deployment is not None
    found = there.workload.deployment
    return found.paused, found.held is not None, found.fields


def test_a_retry_after_an_abort_takes_the_same_replica_set_and_starts_no_pod_twice() -> None:
    """The one that had left the Deployment returns to it."""
    there = settled(template_changed(_taken(), "b"))
    (before,) = [each for each in there.replica_sets if each.revision == "b"]
    there = settled(annotated(there, "abort", "b"))
    there = settled(annotated(there, "abort", None))

    (after,) = [each for each in there.replica_sets if each.revision == "b"]
    assert (after.uid, after.inside) == (before.uid, True)
    assert sizes(there) == {"a": 3, "b": 1}


def test_an_abort_when_no_stable_pod_is_left_gives_the_stable_revision_its_first_pod_before_the_others_leave() -> None:
    """Without it the Deployment's controller would grow the newest of the others."""
    there = settled(deployed(AT_ALL))
    there = settled(template_changed(there, "b"))
    assert sizes(there) == {"b": 4}
    there = settled(annotated(there, "abort", "b"))

    assert sizes(there) == {"a": 4}
    assert there.status.phase is Phase.ABORTED


def test_a_newer_template_replaces_an_update_at_its_step() -> None:
    """The pods of the one before go."""
    there = settled(template_changed(_taken(), "b"))
    there = settled(template_changed(there, "c"))

    assert sizes(there) == {"a": 3, "c": 1}


def test_the_old_template_again_ends_the_update_and_everything_is_as_before() -> None:
    """`kubectl rollout undo`, or a revert in Git."""
    there = settled(template_changed(_taken(), "b"))
    there = settled(template_changed(there, "a"))

    assert sizes(there) == {"a": 4}
    assert there.status.phase is Phase.HEALTHY
    assert _deployment(there) == (False, False, USERS)
    assert all(each.inside for each in there.replica_sets)


def test_an_autoscaler_that_scales_in_a_step_keeps_the_share() -> None:
    """A fields' share is a percentage, where one says exactly so many pods: so it holds while the controller is down, too."""
    there = settled(template_changed(_taken(8), "b"))
    assert sizes(there) == {"a": 6, "b": 2}
    there = settled(scaled(there, 16))

    assert sizes(there) == {"a": 12, "b": 4}
    there = settled(scaled(there, 4))

    assert sizes(there) == {"a": 3, "b": 1}


def test_a_deployment_at_rest_is_left_alone_whatever_it_is_scaled_to() -> None:
    """Its own controller scales it; we write nothing."""
    there = settled(scaled(_taken(), 7))

    assert (sizes(there), there.status.phase) == ({"a": 7}, Phase.HEALTHY)
    assert "StepDeployment" not in there.writes


def test_a_hold_at_rest_pauses_the_deployment_again_after_the_promotion() -> None:
    """No policy would pause it in time for the next template."""
    there = settled(deployed(STEPS, hold=Hold.AT_REST))
    assert _deployment(there) == (True, False, USERS)
    there = settled(template_changed(there, "b", policy=False))
    assert sizes(there) == {"a": 3, "b": 1}
    there = settled(annotated(there, "promote", "b@full"))

    assert sizes(there) == {"b": 4}
    assert _deployment(there) == (True, False, USERS)


def test_a_change_that_the_policy_did_not_hold_is_held_as_soon_as_it_is_seen() -> None:
    """The policy was missing: the Deployment's controller has begun, as far as its own limits let it."""
    there = template_changed(_taken(), "b", policy=False)
    there = deployment_synced(deployment_synced(there))
    there = settled(there)

    assert there.status.phase is Phase.PAUSED
    assert sizes(there) == {"a": 3, "b": 1}


@pytest.mark.parametrize(
    ("verb", "value", "types"),
    [
        ("restart", "true", "kubectl rollout restart deployment/cart -n shop"),
        ("rollback", "true", "kubectl rollout undo deployment/cart -n shop"),
    ],
)
def test_a_command_that_only_the_template_can_carry_out_names_kubectls(verb: str, value: str, types: str) -> None:
    """It is refused with what to type."""
    there = settled(annotated(settled(template_changed(_taken(), "b")), "promote", "b@full"))
    there = settled(annotated(there, verb, value))

    (command,) = [each for each in there.status.commands if each.verb == verb]
    assert command.refusal is not None
    assert types in command.refusal.message


def test_a_rollback_in_a_step_is_the_way_back_to_the_stable_revision() -> None:
    """The template is another one still, so the Deployment stays paused."""
    there = settled(annotated(settled(template_changed(_taken(), "b")), "rollback", "true"))

    assert (sizes(there), there.status.phase) == ({"a": 4}, Phase.ROLLED_BACK)
    assert _deployment(there)[0]


def test_pods_are_available_after_the_users_own_min_ready_seconds() -> None:
    """Its controller counts none as available meanwhile; the list of pods says since when they are ready."""
    there = template_changed(settled(deployed(STEPS, min_ready_s=20)), "b")
    there = settled(there, seconds=15)
    assert there.status.phase is Phase.PROGRESSING
    there = settled(there, seconds=30)

    assert (sizes(there), there.status.phase) == ({"a": 3, "b": 1}, Phase.PAUSED)


@pytest.mark.parametrize(("replicas", "stale"), [(8, "ab"), (8, "a"), (8, "b"), (2, "ab"), (2, "a")])
def test_replica_sets_that_are_seen_later_than_their_deployment_take_nothing_out_of_it(
    replicas: int, stale: str
) -> None:
    """Two watches show them. Sizes from before a change of `replicas` look as if the update had to go back, which costs pods."""
    before = settled(template_changed(_taken(), "b"))
    there = scaled(before, replicas)
    for _ in range(3):
        there = deployment_synced(there)
    assert there.workload is not None and there.workload.observed
    old = {each.revision: each for each in before.replica_sets}
    shown = tuple([old[each.revision] if each.revision in stale else each for each in there.replica_sets])
    seen = replace(snapshot(there), replica_sets=shown)
    assert seen.replica_sets != there.replica_sets

    decision = decide(seen)
    assert [each for each in decision.intents if isinstance(each, MoveReplicaSet | StepDeployment)] == []


def test_fields_that_somebody_else_writes_in_a_step_are_written_again_and_told() -> None:
    """A manifest that names them, without the policy: the Deployment is paused at once, else its controller may go on."""
    there = settled(template_changed(_taken(), "b"))
    assert there.workload is not None and there.workload.deployment is not None
    fields = there.workload.deployment.fields
    changed = replace(there.workload.deployment, fields=replace(fields, max_surge=Percent(50), min_ready_s=None))
    there = replace(there, workload=replace(there.workload, in_place=changed, observed=False))
    decision = decide(snapshot(there))

    (written,) = [each for each in decision.intents if isinstance(each, StepDeployment)]
    assert (written.paused, written.fields) == (True, replace(fields, max_surge=Percent(50)))
    (told,) = decision.notices
    assert (told.reason, told.warning) == (Reason.FIELDS_OVERWRITTEN, True)
    assert told.message == (
        "somebody else has written maxSurge, minReadySeconds of Deployment cart in a step; they are written again: let the tool "
        "that applies its manifest ignore them, or install the policies that keep them (the chart's `admission.holds`)"
    )
    there = settled(there)
    assert (sizes(there), _deployment(there)) == ({"a": 3, "b": 1}, (False, True, fields))
    assert decide(snapshot(there)).notices == ()


def test_fields_that_its_controller_has_followed_already_end_in_the_same_place() -> None:
    """The Rollout looks late: all pods are of the new template."""
    there = settled(template_changed(_taken(), "b"))
    assert there.workload is not None and there.workload.deployment is not None
    fields = there.workload.deployment.fields
    changed = replace(there.workload.deployment, fields=USERS)
    there = replace(there, workload=replace(there.workload, in_place=changed, observed=False))
    for _ in range(12):
        there = quiet(there)
    assert sizes(there) == {"b": 4}

    there = settled(there)
    assert (sizes(there), _deployment(there)) == ({"a": 3, "b": 1}, (False, True, fields))
