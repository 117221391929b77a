"""Promise: a Rollout with `workloadRef` marks its workload and rolls its template out; what is wrong with it takes no pods."""

from __future__ import annotations

from typing import Any

import pytest

from rollouts.core.decide import decide
from rollouts.core.model.after import after
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import AskWorkload, CreateReplicaSet, MarkWorkload, ReleaseWorkload
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import Canary
from rollouts.core.model.snapshot import Snapshot
from rollouts.core.model.status import Phase
from rollouts.core.model.steps import PauseUntilPromoted, SetWeight
from rollouts.core.model.workload import WorkloadForbidden, WorkloadSeen
from tests.core import daemonsets
from tests.core.daemonsets import daemons
from tests.core.deployments import deployed, template_changed
from tests.core.model import World, deleted, snapshot, world
from tests.core.named_workloads import REF, Sight, deployment
from tests.core.stateful_sets import new_template, stateful
from tests.core.worlds import edited, later, one, reconciled, settled, sizes

STRATEGY = Canary(steps=(SetWeight(50), PauseUntilPromoted()))
FREE, FORBIDDEN = deployment(1), deployment(2)
OTHERS = {"managed_by": "till", "watched": True}
BROKEN: dict[str, tuple[WorkloadSeen | None, Reason, str]] = {
    "it does not exist": (None, Reason.WORKLOAD_NOT_FOUND, "Deployment cart does not exist"),
    "another Rollout has it": (
        deployment(1, **OTHERS),
        Reason.WORKLOAD_OWNED_TWICE,
        "Rollout till manages Deployment cart",
    ),
    "another tool has it": (
        deployment(1, problem="OpenKruise Rollouts manages it"),
        Reason.WORKLOAD_NOT_USABLE,
        "Deployment cart: OpenKruise Rollouts manages it",
    ),
    "nobody may see it": (FORBIDDEN, Reason.WORKLOAD_FORBIDDEN, "may not watch deployments"),
}
EVERY = pytest.mark.parametrize("case", BROKEN)


def _new(workload: WorkloadSeen | None = FREE) -> World:
    return _with(world(STRATEGY, workload_ref=REF), workload)


def _with(there: World, workload: WorkloadSeen | None) -> World:
    return replace(there, workload=workload, sight=replace(there.sight, forbidden=workload is FORBIDDEN))


def _running() -> World:
    return settled(_new())


def _intents(there: World) -> list[Any]:
    return list(decide(snapshot(there)).intents)


def test_a_workload_is_read_marked_and_rolled_out() -> None:
    """A watch of all Deployments of the cluster would cost more; so it is read once, and watched by our label from then on."""
    there = _new()

    assert _intents(there) == [AskWorkload(REF.kind, REF.name)]
    there = reconciled(there)
    assert _intents(there) == [MarkWorkload(kind=REF.kind, name="cart", uid="uid-1", resource_version="1")]
    there = reconciled(there)
    assert [type(each) for each in _intents(there)] == [CreateReplicaSet]
    there = settled(there)

    truth = there.workload
    assert truth is not None and (truth.managed_by, truth.watched) == ("cart", True)
    assert (there.status.phase, sizes(there)) == (Phase.HEALTHY, {"a": 4})
    assert _intents(there) == []


def test_a_new_template_of_the_workload_is_a_new_revision() -> None:
    """It goes through the steps as one in the spec does."""
    there = settled(edited(_running(), revision="b"))

    assert (there.status.current_revision, there.status.phase) == ("b", Phase.PAUSED)
    assert sizes(there) == {"a": 2, "b": 2}


@EVERY
def test_without_its_workload_a_new_rollout_waits_and_says_why(case: str) -> None:
    """`kubectl wait` and GitOps tools read that it is stalled, within seconds."""
    workload, reason, words = BROKEN[case]
    there = settled(_new(workload), seconds=30)

    waiting = there.status.waiting_for
    assert waiting is not None
    assert (waiting.reason, there.status.phase, there.replica_sets) == (reason, Phase.DEGRADED, ())
    assert waiting.message.startswith("spec.workloadRef: ")
    assert words in waiting.message
    assert "Stalled" in [each.type for each in there.status.conditions]


@EVERY
def test_a_running_rollout_keeps_its_pods_and_is_still_scaled(case: str) -> None:
    """An autoscaler that scales it must not be ignored, because somebody has deleted a Deployment."""
    workload, reason, _ = BROKEN[case]
    there = _with(_running(), workload)

    there = settled(edited(there, replicas=6), seconds=30)

    waiting = there.status.waiting_for
    assert waiting is not None and waiting.reason is reason
    assert (there.status.phase, sizes(there), there.status.selector) == (Phase.DEGRADED, {"a": 6}, "app=cart")


@EVERY
def test_an_update_goes_on_without_its_workload(case: str) -> None:
    """Its ReplicaSet has the template. People see what is wrong all the same."""
    workload, reason, words = BROKEN[case]
    there = settled(edited(_running(), revision="b"))
    there = settled(_with(there, workload), seconds=30)

    assert (there.status.phase, sizes(there)) == (Phase.PAUSED, {"a": 2, "b": 2})
    assert words in there.status.message
    assert ("WorkloadUnusable", reason) in [(each.type, each.reason) for each in there.status.conditions]


@EVERY
def test_a_workload_that_is_mended_goes_on_by_itself(case: str) -> None:
    """No edit of the Rollout is needed, and no restart."""
    there = settled(_new(BROKEN[case][0]), seconds=30)

    there = settled(_with(there, deployment(9)), seconds=60)

    assert (there.status.phase, there.status.waiting_for, sizes(there)) == (Phase.HEALTHY, None, {"a": 4})


def test_a_replica_set_that_is_lost_with_its_workload_is_not_made_of_nothing() -> None:
    """Its template is known nowhere any more; it is made as soon as the workload is back."""
    there = _with(deleted(_running(), "a"), None)
    there = settled(there, seconds=30)

    waiting = there.status.waiting_for
    assert waiting is not None and waiting.reason is Reason.WORKLOAD_NOT_FOUND
    assert there.replica_sets == ()
    there = settled(_with(there, deployment(9)), seconds=60)
    assert (there.status.phase, one(there, "a").available) == (Phase.HEALTHY, 4)


def test_marks_that_somebody_has_removed_are_set_again() -> None:
    """`kubectl replace` removes them; until they are back, the revision stays."""
    there = settled(edited(_with(_running(), deployment(9)), revision="b"))

    assert there.workload is not None and there.workload.managed_by == "cart"
    assert there.status.current_revision == "b"


def test_a_missing_workload_is_read_less_and_less_often() -> None:
    """No watch reports it: after 1 s first, and every 10 s in the end."""
    there, asked = _new(None), []
    for second in range(120):
        view = later(there, 1.0)
        if AskWorkload(REF.kind, REF.name) in _intents(view):
            asked.append(second)
        there = reconciled(view)

    assert asked[:2] == [0, 1]
    assert 10 <= len(asked) <= 20


def test_a_right_that_the_watch_lacks_is_not_asked_for_again_and_again() -> None:
    """The watch reports it; one that only a read or a write lacks is tried again."""
    there = _new(FORBIDDEN)
    view = snapshot(there)

    assert decide(view).intents == ()
    asked = replace(view, workload=WorkloadForbidden("no", there.now_s - 60))
    assert decide(asked).intents == (AskWorkload(REF.kind, REF.name),)


def test_a_workload_that_the_spec_no_longer_names_is_released() -> None:
    """Its marks would keep other Rollouts off."""
    left = deployment(7, name="till", uid="uid-till", managed_by="cart", watched=True)
    there = replace(_running(), sight=Sight(left=(left,)))

    released = ReleaseWorkload(kind=REF.kind, name="till", uid="uid-till", resource_version="7")
    decision = decide(snapshot(there))
    assert decision.intents == (released,)
    assert [each.reason for each in decision.notices] == [Reason.WORKLOAD_RELEASED]
    assert _intents(reconciled(there)) == []


def test_a_mark_makes_the_workload_the_rollouts_own() -> None:
    """In the model of our writes, on which `plan` builds."""
    there = reconciled(_new())
    view = snapshot(there)
    (mark,) = decide(view).intents

    told = after(view, mark).workload

    assert isinstance(told, WorkloadSeen)
    assert (told.managed_by, told.watched, told.resource_version) == ("cart", True, "1+")
    assert after(replace(view, workload=None), mark).workload is None


_STEPS = Canary(steps=(SetWeight(50), PauseUntilPromoted()))


def _in_place(kind: str, *, in_step: bool) -> Snapshot:
    """A workload that a Rollout updates in place: between updates, or at the step of one."""
    if kind == "DaemonSet":
        nodes = daemonsets.settled(daemons(_STEPS))
        nodes = daemonsets.settled(daemonsets.template_changed(nodes, "b")) if in_step else nodes
        return daemonsets.snapshot(nodes)
    there = settled(deployed(_STEPS) if kind == "Deployment" else stateful(_STEPS))
    changed = template_changed if kind == "Deployment" else new_template
    return snapshot(settled(changed(there, "b")) if in_step else there)


@pytest.mark.parametrize("in_step", [False, True], ids=["between updates", "in a step"])
@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "DaemonSet"])
@pytest.mark.parametrize(
    ("changes", "done"),
    [
        ({"managed_by": "another"}, []),
        ({"problem": "OpenKruise Rollouts manages it"}, []),
        ({"managed_by": "", "watched": False}, [MarkWorkload]),
    ],
    ids=["another Rollout's", "unusable", "unmarked"],
)
def test_a_workload_that_is_not_the_rollouts_own_is_not_written(
    changes: dict[str, Any], done: list[type], kind: str, in_step: bool
) -> None:
    """Its fields and pods stay as they are; one that has lost its marks gets them first."""
    seen = _in_place(kind, in_step=in_step)
    assert isinstance(seen.workload, WorkloadSeen) and decide(seen).intents == ()
    # The observer takes no template of it, so its revision is not known.
    spec, workload = replace(seen.rollout.spec, revision="", template_hash=""), replace(seen.workload, **changes)
    unknown = replace(seen, rollout=replace(seen.rollout, spec=spec), workload=replace(workload, template_hash=""))

    assert [type(each) for each in decide(unknown).intents] == done
