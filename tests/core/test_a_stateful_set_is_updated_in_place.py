"""Promise: a StatefulSet is updated in steps where it is, from the top ordinal down, and gets its user's fields back."""

from __future__ import annotations

import pytest

from rollouts.core.model.frozen import replace
from rollouts.core.model.rollout import Canary
from rollouts.core.model.status import Phase
from rollouts.core.model.steps import PauseUntilPromoted, SetWeight
from rollouts.core.model.workload import PartitionFields, StatefulSetSeen
from rollouts.core.model.workload_ref import Hold
from tests.core.model import World, annotated
from tests.core.stateful_sets import MOST, USERS, new_template, rescaled, stateful, workload_synced
from tests.core.worlds import pods_ready, pods_unready, settled

STEPS = Canary(steps=(SetWeight(20), PauseUntilPromoted(), SetWeight(60), PauseUntilPromoted()))


def _taken(*, replicas: int = 5, strategy: Canary = STEPS, ordered: bool = True) -> World:
    """The Rollout has seen the StatefulSet's first revision, and written nothing to it."""
    there = settled(stateful(strategy, replicas=replicas, ordered=ordered))
    assert there.status.phase is Phase.HEALTHY
    assert "StepStatefulSet" not in there.writes
    return replace(there, writes=())


def _found(there: World) -> StatefulSetSeen:
    assert there.workload is not None and there.workload.stateful_set is not None
    return there.workload.stateful_set


def _pods(there: World) -> str:
    """The revision of each pod, from ordinal 0 on."""
    return "".join(pod.revision for pod in sorted(there.pods, key=lambda pod: int(pod.name.rpartition("-")[2])))


def _partition(there: World) -> int | None:
    return _found(there).fields.partition


def _conditions(there: World) -> dict[str, str]:
    return {each.type: each.message for each in there.status.conditions if each.status}


def test_a_new_template_replaces_no_pod_before_the_update_has_begun() -> None:
    """The policy has set the partition in the write that changed the template."""
    there = new_template(_taken(), "b")

    assert (_partition(there), _pods(there)) == (MOST, "aaaaa")


def test_each_step_is_a_partition() -> None:
    """20 % of five pods is the highest one, 60 % the three highest."""
    there = settled(new_template(_taken(), "b"))
    assert (_partition(there), _pods(there), there.status.phase) == (4, "aaaab", Phase.PAUSED)
    there = settled(annotated(there, "promote", "true"))

    assert (_partition(there), _pods(there), there.status.phase) == (2, "aabbb", Phase.PAUSED)


def test_a_promotion_gives_the_users_fields_back() -> None:
    """Once the StatefulSet's controller takes the new revision for current."""
    there = settled(new_template(_taken(), "b"))
    there = settled(annotated(there, "promote", "b@full"))

    assert (_pods(there), there.status.phase) == ("bbbbb", Phase.HEALTHY)
    assert (_found(there).fields, _found(there).held, _found(there).current_revision) == (USERS, None, "b")


@pytest.mark.parametrize(
    "own",
    [PartitionFields(), PartitionFields(partition=0), PartitionFields(partition=3), PartitionFields(on_delete=True)],
)
def test_every_manifest_gets_back_what_it_says(own: PartitionFields) -> None:
    """A field that is absent is absent again, and OnDelete is OnDelete."""
    there = settled(stateful(STEPS, fields=own))
    there = settled(new_template(there, "b"))
    assert _pods(there) == "aaaab"
    there = settled(annotated(there, "promote", "b@full"))

    assert (_pods(there), _found(there).fields, _found(there).held) == ("bbbbb", own, None)
    assert _found(there).current_revision == "b"


@pytest.mark.parametrize("ordered", [True, False])
def test_an_abort_brings_the_stable_pods_back_one_at_a_time_and_leaves_the_template(*, ordered: bool) -> None:
    """No pod is above the partition, and the new ones are deleted from the top."""
    there = _taken(ordered=ordered)
    there = settled(new_template(there, "b"))
    there = settled(annotated(there, "promote", "true"))
    there = settled(annotated(replace(there, writes=()), "abort", "b"))

    assert (_pods(there), _partition(there), there.status.phase) == ("aaaaa", MOST, Phase.ABORTED)
    assert there.writes.count("DeletePod") == 3
    assert there.workload is not None and there.workload.template_hash == "b"


def test_an_abort_of_pods_that_cannot_start_deletes_the_lowest_of_them_first() -> None:
    """Its controller makes nothing above it before it is ready."""
    there = settled(new_template(_taken(), "b"))
    there = settled(annotated(there, "promote", "true"))
    there = pods_unready(replace(there, bad=frozenset("b"), writes=()), "b", limit=2)
    there = settled(annotated(there, "abort", "b"))

    assert (_pods(there), there.status.phase) == ("aaaaa", Phase.ABORTED)


def test_a_retry_goes_on_with_the_steps() -> None:
    """It begins with the first one."""
    there = settled(new_template(_taken(), "b"))
    there = settled(annotated(there, "abort", "b"))
    there = settled(annotated(there, "abort", None))

    assert (_partition(there), _pods(there)) == (4, "aaaab")


def test_a_newer_template_begins_when_the_pods_of_the_one_before_are_gone() -> None:
    """They come back as stable pods first."""
    there = settled(new_template(_taken(), "b"))
    there = settled(annotated(there, "promote", "true"))
    there = settled(new_template(there, "c"))

    assert (_partition(there), _pods(there)) == (4, "aaaac")


def test_the_old_template_again_ends_the_update() -> None:
    """`kubectl rollout undo`, or a revert in Git."""
    there = settled(new_template(_taken(), "b"))
    there = settled(annotated(there, "promote", "true"))
    there = settled(new_template(there, "a"))

    assert (_pods(there), there.status.phase) == ("aaaaa", Phase.HEALTHY)
    assert (_found(there).fields, _found(there).held) == (USERS, None)


def test_a_scale_up_in_a_step_moves_the_partition_and_what_it_has_made_stays() -> None:
    """The ordinals above a partition are new: its controller may be quicker than ours."""
    there = settled(new_template(_taken(strategy=Canary(steps=(SetWeight(40), PauseUntilPromoted()))), "b"))
    assert _pods(there) == "aaabb"
    there = pods_ready(workload_synced(rescaled(there, 8)))
    for _ in range(8):
        there = pods_ready(workload_synced(there))
    assert _pods(there) == "aaabbbbb"
    there = settled(there)

    assert (_partition(there), _pods(there), there.status.phase) == (6, "aaabbbbb", Phase.PAUSED)
    more = "scaling has made 2 more pods of revision b than the step asks for"  # 5, where 40 % of 8 are 3
    assert _conditions(there)["ScaledInStep"] == more
    assert "ScaledInStep" not in _conditions(settled(annotated(there, "abort", "b")))
    there = settled(annotated(there, "promote", "b@full"))
    assert (_pods(there), _found(there).fields, _found(there).held) == ("bbbbbbbb", USERS, None)


def test_a_scale_down_in_a_step_takes_the_highest_and_the_share_is_made_anew() -> None:
    """Those are the new ones."""
    strategy = Canary(steps=(SetWeight(40), PauseUntilPromoted()))
    there = settled(new_template(_taken(strategy=strategy), "b"))
    assert _pods(there) == "aaabb"
    there = settled(rescaled(there, 3))

    assert (_partition(there), _pods(there)) == (2, "aab")


def test_one_old_pod_stays_until_the_steps_are_over() -> None:
    """When the last one is ready, the StatefulSet's controller forgets the old revision."""
    strategy = Canary(steps=(SetWeight(100), PauseUntilPromoted()))
    there = settled(new_template(_taken(strategy=strategy), "b"))
    assert (_pods(there), there.status.phase) == ("abbbb", Phase.PAUSED)
    there = settled(annotated(there, "abort", "b"))

    assert (_pods(there), there.status.phase) == ("aaaaa", Phase.ABORTED)


def test_a_hold_at_rest_sets_the_partition_again_after_the_promotion() -> None:
    """No policy would in time for the next template. The note keeps what the user has."""
    there = settled(stateful(STEPS, hold=Hold.AT_REST))
    assert (_partition(there), _pods(there)) == (MOST, "aaaaa")
    there = settled(new_template(there, "b", policy=False))
    assert _pods(there) == "aaaab"
    there = settled(annotated(there, "promote", "b@full"))

    assert (_pods(there), _partition(there), there.status.phase) == ("bbbbb", MOST, Phase.HEALTHY)
    assert (held := _found(there).held) is not None and held.own == USERS


def test_a_stateful_set_at_rest_is_left_alone_whatever_it_is_scaled_to() -> None:
    """Its own controller scales it; we write nothing."""
    there = settled(rescaled(_taken(), 7))

    assert (_pods(there), there.status.phase) == ("aaaaaaa", Phase.HEALTHY)
    assert "StepStatefulSet" not in there.writes


def test_a_partition_that_somebody_lowers_in_a_step_is_raised_again() -> None:
    """What has become new meanwhile goes back."""
    there = settled(new_template(_taken(), "b"))
    assert there.workload is not None
    lowered = replace(_found(there), fields=PartitionFields(partition=0))
    number = there.version + 1
    workload = replace(there.workload, in_place=lowered, observed=False, resource_version=str(number))
    there = settled(replace(there, version=number, workload=workload))

    assert (_partition(there), _pods(there)) == (4, "aaaab")


def test_the_only_pod_goes_back_with_its_template_alone_and_the_status_says_so() -> None:
    """When it was new and ready, the StatefulSet's controller has forgotten the old revision."""
    strategy = Canary(steps=(SetWeight(50), PauseUntilPromoted()))
    there = settled(new_template(_taken(replicas=1, strategy=strategy), "b"))
    assert (_pods(there), there.status.phase) == ("b", Phase.PAUSED)
    there = settled(annotated(replace(there, writes=()), "abort", "b"))

    assert (_pods(there), there.status.phase) == ("b", Phase.ABORTED)
    assert "DeletePod" not in there.writes
    why = "its pods stay: the StatefulSet has forgotten revision a; apply its template, or kubectl rollout undo"
    assert _conditions(there)["TemplateNeedsRevert"] == f"{why} statefulset/cart -n shop"
    assert _conditions(there)["TemplateNeedsRevert"] in there.status.message
    there = settled(new_template(there, "a"))

    assert (_pods(there), there.status.phase, _found(there).fields) == ("a", Phase.HEALTHY, USERS)


def test_a_newer_template_reaches_the_only_pod_although_its_stable_revision_is_forgotten() -> None:
    """It replaces the one before."""
    strategy = Canary(steps=(SetWeight(50), PauseUntilPromoted()))
    there = settled(new_template(_taken(replicas=1, strategy=strategy), "b"))
    there = settled(new_template(there, "c"))
    assert (_pods(there), there.status.phase) == ("c", Phase.PAUSED)
    there = settled(annotated(there, "promote", "c@full"))

    assert (_pods(there), there.status.phase, _found(there).fields) == ("c", Phase.HEALTHY, USERS)
