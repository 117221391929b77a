"""Promise: a DaemonSet is updated in batches of its nodes. Its own controller makes the pods, and gets its user's type back."""

from __future__ import annotations

from typing import Any

import pytest

from rollouts.core.model.frozen import replace
from rollouts.core.model.rollout import Canary
from rollouts.core.model.status import Phase
from rollouts.core.model.steps import PauseUntilPromoted, SetWeight
from rollouts.core.model.workload_ref import Hold, OnAbort
from tests.core.daemonsets import (
    Nodes,
    annotated,
    daemons,
    failing,
    joined,
    later,
    quiet,
    reconciled,
    runs,
    settled,
    template_changed,
    typed,
    unavailable,
)

STEPS = Canary(steps=(SetWeight(30), PauseUntilPromoted(), SetWeight(50), PauseUntilPromoted()))


def _taken(**given: Any) -> Nodes:
    """The Rollout has seen the DaemonSet's first revision, and written nothing to its pods."""
    there = settled(daemons(STEPS, **given))
    assert (there.status.phase, there.deleted, there.held) == (Phase.HEALTHY, (), None)
    return replace(there, writes=())


def _at_its_step(**given: Any) -> Nodes:
    there = settled(template_changed(_taken(**given), "b"))
    assert there.status.phase is Phase.PAUSED
    return there


def test_a_new_template_reaches_as_many_nodes_as_the_step_asks_for() -> None:
    """30 % of 6 nodes are 2; with `maxUnavailable: 1` one after the other."""
    there = _at_its_step()

    assert runs(there) == {"a": 4, "b": 2}
    assert there.writes == ("StepDaemonSet", "DeletePod", "DeletePod")
    assert there.deleted == ("n0", "n1")


def test_no_pod_is_deleted_before_the_update_is_on_record() -> None:
    """The DaemonSet has its note and OnDelete first, and its controller has seen both."""
    there = quiet(template_changed(_taken(), "b"))
    for _ in range(3):
        there = reconciled(there)

    assert there.writes == ("StepDaemonSet",)
    assert there.held is not None
    assert there.on_delete


@pytest.mark.parametrize(
    ("weight", "nodes", "new"), [(30, 6, 2), (30, 3, 1), (1, 6, 1), (99, 6, 5), (50, 5, 3), (20, 4, 1)]
)
def test_a_weight_is_the_nearest_share_of_nodes(weight: int, nodes: int, new: int) -> None:
    """At least one node and not all of them, unless it is 0 or 100."""
    steps = Canary(steps=(SetWeight(weight), PauseUntilPromoted()))
    there = settled(template_changed(settled(daemons(steps, nodes=nodes)), "b"))

    assert runs(there) == {"a": nodes - new, "b": new}


def test_chosen_nodes_are_first() -> None:
    """Those that `canaryNodes` selects, then the others by name."""
    there = _at_its_step(chosen=("n4", "n2", "n9"))
    assert there.deleted == ("n2", "n4")
    there = settled(annotated(there, "promote", "true"))

    assert there.deleted == ("n2", "n4", "n0")


def test_a_batch_has_as_many_nodes_as_may_be_unavailable() -> None:
    """With `maxUnavailable: 2` both nodes of the step are replaced in one pass."""
    there = quiet(template_changed(_taken(max_unavailable=2), "b"))
    while "DeletePod" not in there.writes:
        there = quiet(there) if (after := reconciled(there)) == there else after

    assert there.deleted == ("n0", "n1")


def test_a_node_without_an_available_pod_is_part_of_the_quota_and_goes_first() -> None:
    """Its broken old pod costs nothing; nobody else's pod goes until the new one is available."""
    there = replace(failing(_taken(), 3), bad=frozenset("ab"))
    there = later(settled(template_changed(there, "b")), 0)

    assert there.deleted == ("n3",)
    assert unavailable(there) == 1
    there = settled(replace(there, bad=frozenset()))

    assert (there.deleted, there.status.phase) == (("n3", "n0"), Phase.PAUSED)


def test_a_pod_is_available_after_min_ready_seconds() -> None:
    """The next node follows no sooner."""
    there = _at_its_step(min_ready_s=20)
    first, second = [pod.created_at_s for pod in there.pods if pod.revision == "b"]

    assert second - first >= 20


def test_a_promotion_gives_the_users_type_back() -> None:
    """No note is left; its limits were never changed."""
    there = settled(annotated(_at_its_step(), "promote", "b@full"))

    assert (runs(there), there.status.phase) == ({"b": 6}, Phase.HEALTHY)
    assert (there.on_delete, there.held) == (False, None)


def test_a_users_own_on_delete_stays() -> None:
    """Without a `maxUnavailable` one node at a time is replaced."""
    there = settled(annotated(_at_its_step(own_on_delete=True), "promote", "b@full"))

    assert (runs(there), there.status.phase) == ({"b": 6}, Phase.HEALTHY)
    assert (there.on_delete, there.held) == (True, None)


def test_a_hold_at_rest_is_on_delete_between_updates() -> None:
    """No policy would stop the next template in time."""
    there = _taken(hold=Hold.AT_REST)
    assert there.on_delete
    there = settled(annotated(settled(template_changed(there, "b")), "promote", "b@full"))

    assert (runs(there), there.on_delete, there.held) == ({"b": 6}, True, None)


def test_the_stable_template_again_ends_the_update() -> None:
    """`kubectl rollout undo`, or a revert in Git: only nodes with the new revision get another pod."""
    there = settled(template_changed(_at_its_step(), "a"))

    assert (runs(there), there.status.phase) == ({"a": 6}, Phase.HEALTHY)
    assert (there.on_delete, there.held) == (False, None)
    assert there.deleted == ("n0", "n1", "n0", "n1")


def test_a_newer_template_replaces_an_update_at_its_step() -> None:
    """Nodes with the revision in between get the newer one, whatever the step asks for: nothing makes a stable pod any more."""
    there = settled(template_changed(_at_its_step(), "c"))

    assert (runs(there), there.status.phase) == ({"a": 4, "c": 2}, Phase.PAUSED)
    assert there.deleted == ("n0", "n1", "n0", "n1")


def test_an_abort_leaves_the_nodes_as_they_are() -> None:
    """Only the template makes pods, and it stays what Git says; the message says how to go back."""
    there = settled(annotated(_at_its_step(), "abort", "b"))

    assert (runs(there), there.status.phase) == ({"a": 4, "b": 2}, Phase.ABORTED)
    assert (there.on_delete, len(there.deleted)) == (True, 2)
    retry = "to try revision b again: rollouts retry agent -n shop"
    kept = "the nodes that have it keep it, until DaemonSet agent has the template of revision a again"
    undo = "kubectl rollout undo daemonset/agent -n shop --to-revision=1"
    assert there.status.message == f"revision b was aborted by annotation; {kept}: {undo}; {retry}"
    there = settled(replace(there, made=there.made[1:]))
    lost = "no template of revision a is left: apply one"
    assert there.status.message == f"revision b was aborted by annotation; {lost}; {retry}"


def test_a_retry_goes_on_with_the_nodes_that_have_it() -> None:
    """No node is replaced twice."""
    there = settled(annotated(_at_its_step(), "abort", "b"))
    there = settled(annotated(there, "abort", None))

    assert (runs(there), len(there.deleted)) == ({"a": 4, "b": 2}, 2)
    assert there.status.phase is Phase.PAUSED


@pytest.mark.parametrize(("verb", "types"), [("rollback", "undo"), ("restart", "restart")])
def test_a_command_that_only_a_template_carries_out_names_kubectls(verb: str, types: str) -> None:
    """Also the way back to the stable revision: nothing but its template makes its pods."""
    there = settled(annotated(_at_its_step(), verb, "true"))

    (command,) = [each for each in there.status.commands if each.verb == verb]
    assert command.refusal is not None
    assert f"kubectl rollout {types} daemonset/agent -n shop" in command.refusal.message
    assert runs(there) == {"a": 4, "b": 2}


def test_an_abort_that_reverts_the_template_brings_the_stable_pods_back() -> None:
    """The template comes first, then the pods, and the type last."""
    there = replace(_at_its_step(on_abort=OnAbort.REVERT_TEMPLATE), writes=())
    there = annotated(there, "abort", "b")
    told = "DaemonSet agent gets the template of revision a again"
    assert f"revision b was aborted by annotation; {told}; to try" in reconciled(there).status.message
    there = settled(there)

    assert (runs(there), there.template, there.status.phase) == ({"a": 6}, "a", Phase.HEALTHY)
    assert (there.on_delete, there.held) == (False, None)
    assert there.writes == ("RevertTemplate", "DeletePod", "DeletePod", "StepDaemonSet")


def test_a_node_that_joins_in_a_step_has_the_new_revision_and_is_told() -> None:
    """Its controller makes only pods of the newest template, so the step has more nodes than it asks for."""
    there = settled(joined(_at_its_step(), 8))

    assert runs(there) == {"a": 4, "b": 4}
    told = [condition for condition in there.status.conditions if condition.type == "NodeJoinedInStep"]
    why = "a node keeps it, and one that joins, or loses its pod, gets the newest template"
    assert [each.message for each in told] == [f"4 nodes have revision b, and the step asks for 2: {why}"]


def test_a_change_that_no_policy_held_is_held_as_soon_as_it_is_seen() -> None:
    """The policy was missing: the DaemonSet's controller has begun, as far as its own limit lets it."""
    there = quiet(template_changed(replace(_taken(), policy=False), "b"))
    assert not there.on_delete
    there = settled(there)

    assert (runs(there), there.status.phase) == ({"a": 4, "b": 2}, Phase.PAUSED)


def test_a_manifest_that_is_applied_again_in_an_update_is_undone_without_a_policy() -> None:
    """It names the user's type, and its controller may begin until the type is corrected."""
    there = typed(_at_its_step(hold=Hold.AT_REST))
    assert not there.on_delete
    there = settled(there)

    assert there.on_delete
    assert runs(there) == {"a": 4, "b": 2}


def test_a_controller_that_knows_no_policy_yet_lets_the_daemon_set_go_once_it_does() -> None:
    """What the policy has stopped passes only with the note of an update."""
    there = settled(replace(template_changed(_at_its_step(), "a"), hold_known=False))

    assert (there.on_delete, there.held, there.status.phase) == (False, None, Phase.HEALTHY)


def test_a_template_that_comes_before_the_first_revision_works_is_not_held() -> None:
    """There is nothing to go back to; the policy has stopped the DaemonSet's controller, which goes on."""
    there = replace(daemons(STEPS), bad=frozenset("a"))
    for number in range(6):
        there = failing(there, number)
    there = settled(there)
    assert there.status.phase is Phase.DEGRADED
    there = settled(template_changed(there, "b"))

    assert (runs(there), there.status.phase) == ({"b": 6}, Phase.HEALTHY)
    assert not there.on_delete
    assert there.deleted == ()
