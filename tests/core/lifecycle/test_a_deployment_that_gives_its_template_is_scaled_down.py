"""Promise: `workloadRef.scaleDown` takes a Deployment's own pods when others serve, at every revision, and gives them back."""

from __future__ import annotations

from typing import Any

import pytest

from rollouts.core.decide import decide
from rollouts.core.lifecycle.workload import release_of
from rollouts.core.model.after import after
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import MarkWorkload, ReleaseWorkload, ScaleWorkload
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import Canary
from rollouts.core.model.snapshot import Snapshot
from rollouts.core.model.status import Phase
from rollouts.core.model.steps import PauseUntilPromoted, SetWeight
from rollouts.core.model.workload import DeploymentSeen, ScaledDown, UpdateFields, WorkloadSeen
from rollouts.core.model.workload_ref import ScaleDownWorkload
from tests.core.model import World, annotated, snapshot, world
from tests.core.named_workloads import REF, deployment
from tests.core.worlds import edited, pods_unready, reconciled, replica_sets_caught_up, settled

STRATEGY = Canary(steps=(SetWeight(50), PauseUntilPromoted()))
NEVER, ON_SUCCESS, PROGRESSIVELY = ScaleDownWorkload


def _new(scale_down: ScaleDownWorkload, *, replicas: int = 4, own: int = 4) -> World:
    there = world(STRATEGY, replicas=replicas, workload_ref=replace(REF, scale_down=scale_down))
    return replace(there, workload=deployment(1, replicas=own, available=own))


def _workload(there: World) -> WorkloadSeen:
    assert there.workload is not None
    return there.workload


def _scaled(there: World, replicas: int) -> World:
    """Somebody else scales the Deployment."""
    version = there.version + 1
    truth = replace(_workload(there), replicas=replicas, available=replicas, resource_version=str(version))
    return replace(there, version=version, workload=truth)


def _with_available(seen: Snapshot, available: int) -> Snapshot:
    (found,) = seen.replica_sets
    return replace(seen, replica_sets=(replace(found, ready=available, available=available),))


def _scales(seen: Snapshot) -> list[int]:
    return [each.replicas for each in decide(seen).intents if isinstance(each, ScaleWorkload)]


@pytest.mark.parametrize("scale_down", ScaleDownWorkload)
def test_when_the_rollout_serves_the_deployment_has_no_pods_unless_it_keeps_them(scale_down: ScaleDownWorkload) -> None:
    """`never` is the default: whoever migrates looks at both first."""
    there = settled(_new(scale_down))

    kept = scale_down is NEVER
    assert there.status.phase is Phase.HEALTHY
    assert _workload(there).replicas == (4 if kept else 0)
    assert _workload(there).scaled_down == (None if kept else ScaledDown(own=4, to=0))


def test_until_then_the_deployment_makes_up_for_what_is_missing() -> None:
    """Pods of both together are never fewer than `spec.replicas`; without this the first revision began with double the pods."""
    there = settled(_new(PROGRESSIVELY))
    first = replace(snapshot(there), status=replace(there.status, stable_revision="", history=()))
    workload = replace(_workload(there), replicas=4, scaled_down=None)

    for available, left in ((0, []), (1, [3]), (3, [1])):
        assert _scales(replace(_with_available(first, available), workload=workload)) == left


def test_a_first_revision_that_fails_gets_the_pods_of_the_deployment_back() -> None:
    """As Argo Rollouts promises of `progressively`, and never more than there were."""
    there = settled(_new(PROGRESSIVELY, own=3))
    first = replace(snapshot(there), status=replace(there.status, stable_revision="", history=()))

    assert _workload(there).scaled_down == ScaledDown(own=3, to=0)
    assert _scales(_with_available(first, 2)) == [2]
    assert _scales(_with_available(first, 0)) == [3]


@pytest.mark.parametrize("scale_down", [ON_SUCCESS, PROGRESSIVELY])
@pytest.mark.parametrize("at", ["rest", "the gate of the third revision"])
def test_a_deployment_that_is_scaled_up_again_is_scaled_down_at_any_revision(
    scale_down: ScaleDownWorkload, at: str
) -> None:
    """A re-apply of its manifest doubled the fleet for ever, and nothing reported it (argo-rollouts issue 4935)."""
    there = settled(_new(scale_down))
    if at != "rest":
        there = settled(annotated(settled(edited(there, revision="b")), "promote", "b@full"))
        there = settled(edited(there, revision="c"))
        assert there.status.phase is Phase.PAUSED

    there = _scaled(there, 5)
    notices = decide(snapshot(there)).notices
    there = settled(there)

    assert _workload(there).replicas == 0
    assert _workload(there).scaled_down == ScaledDown(own=5, to=0), "this is what it gets back now"
    assert [(each.reason, each.warning) for each in notices] == [(Reason.REFERENCED_WORKLOAD_SCALED, True)]
    assert notices[0].message.startswith("somebody has scaled Deployment cart from 0 to 5; it is scaled to 0")


def test_pods_of_the_rollout_that_fail_later_bring_no_pods_of_the_deployment_back() -> None:
    """Its template may be a newer one than the stable revision by then."""
    there = settled(_new(PROGRESSIVELY))
    there = replica_sets_caught_up(pods_unready(there, "a", limit=3))

    assert _scales(snapshot(there)) == []
    assert _workload(reconciled(there)).replicas == 0


def test_while_too_few_pods_serve_a_deployment_that_was_scaled_up_keeps_what_is_missing() -> None:
    """What somebody scaled up in an outage is not taken away before the Rollout has recovered."""
    there = replica_sets_caught_up(pods_unready(_scaled(settled(_new(PROGRESSIVELY)), 5), "a", limit=3))

    assert _scales(snapshot(there)) == [3]
    on_success = replace(REF, scale_down=ON_SUCCESS)
    spec = replace(there.rollout.spec, workload_ref=on_success)
    assert _scales(snapshot(replace(there, rollout=replace(there.rollout, spec=spec)))) == []


def test_who_turns_it_off_gets_the_replicas_back() -> None:
    """`scaleDown: never` again, as before the first scale-down."""
    there = settled(_new(PROGRESSIVELY))
    there = settled(edited(there, workload_ref=REF))

    assert (_workload(there).replicas, _workload(there).scaled_down) == (4, None)


def test_an_absent_number_of_replicas_is_one() -> None:
    """The API server writes the default; a Rollout without `replicas` has one pod, too."""
    there = settled(_new(PROGRESSIVELY, replicas=1, own=1))

    assert _workload(there).scaled_down == ScaledDown(own=1, to=0)


@pytest.mark.parametrize(
    ("noted", "now", "given_back"),
    [(None, 4, None), (ScaledDown(4, 0), 0, 4), (ScaledDown(4, 2), 2, 4), (ScaledDown(4, 0), 7, None)],
    ids=["never scaled", "scaled to 0", "on the way", "somebody else has scaled it since"],
)
def test_a_release_gives_back_what_the_rollout_took(noted: ScaledDown | None, now: int, given_back: int | None) -> None:
    """In the same write as the marks: a crash between two writes would leave 0 replicas that nobody remembers."""
    found = deployment(7, replicas=now, scaled_down=noted, managed_by="cart", watched=True)

    release = release_of(found)
    assert release is not None and release.replicas == given_back


@pytest.mark.parametrize(("holds", "paused"), [(False, None), (True, True)])
def test_a_pause_of_its_user_is_none_of_a_release(holds: bool, paused: bool | None) -> None:
    """Only a Deployment with the label of a hold was paused for a Rollout; in an update it stays so."""
    found = deployment(7, managed_by="cart", watched=True)
    in_place = DeploymentSeen(paused=True, by_recreate=False, fields=UpdateFields(), holds=holds)
    release = release_of(replace(found, in_place=in_place))

    assert release is not None
    assert (release.paused, release.in_update) == (paused, bool(paused))
    assert release_of(replace(found, in_place=in_place, observed=False)) == (None if holds else release)


def test_a_rollout_that_is_being_deleted_gives_back_at_once() -> None:
    """While its own pods still serve; in a deletion in the foreground they go before it."""
    there = settled(_new(PROGRESSIVELY))
    seen = snapshot(there)
    seen = replace(seen, rollout=replace(seen.rollout, deleting=True))

    (release,) = decide(seen).intents

    assert isinstance(release, ReleaseWorkload)
    assert release.replicas == 4
    assert decide(replace(seen, workload=None)).intents == ()


def test_a_write_that_scales_has_the_effect_that_the_model_says() -> None:
    """In the model of our writes, on which `plan` builds."""
    view = snapshot(settled(_new(PROGRESSIVELY)))
    workload = view.workload
    assert isinstance(workload, WorkloadSeen)
    of_workload: dict[str, Any] = {
        "kind": REF.kind,
        "name": "cart",
        "uid": workload.uid,
        "resource_version": workload.resource_version,
    }

    scaled = after(view, ScaleWorkload(**of_workload, replicas=3, own=9)).workload
    back = after(view, ScaleWorkload(**of_workload, replicas=3, own=None)).workload
    marked = after(view, MarkWorkload(**of_workload)).workload

    assert isinstance(scaled, WorkloadSeen) and isinstance(back, WorkloadSeen) and isinstance(marked, WorkloadSeen)
    assert (scaled.replicas, scaled.scaled_down) == (3, ScaledDown(own=9, to=3))
    assert (back.replicas, back.scaled_down) == (3, None)
    assert marked.replicas == workload.replicas
