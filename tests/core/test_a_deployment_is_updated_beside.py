"""Promise: where Services or routers lead requests, new pods run beside the Deployment, and become its own when promoted."""

from __future__ import annotations

import pytest

from rollouts.core.model.frozen import replace
from rollouts.core.model.rollout import BlueGreen, Strategy
from rollouts.core.model.status import Phase
from rollouts.core.model.steps import PauseUntilPromoted, SetWeight
from rollouts.core.model.workload_ref import Hold
from tests.core.deployments import USERS, deployed, scaled, template_changed
from tests.core.model import World, annotated
from tests.core.updates import routed
from tests.core.worlds import settled, sizes

PREVIEWED = BlueGreen(active_service="cart", preview_service="cart-preview", auto_promotion_enabled=False)
SHIFTED = routed(SetWeight(25), PauseUntilPromoted(), SetWeight(50), PauseUntilPromoted())
STRATEGIES = pytest.mark.parametrize("strategy", [PREVIEWED, SHIFTED], ids=["blue-green", "routed"])


def _begun(strategy: Strategy, *, hold: Hold = Hold.POLICY) -> World:
    """A second revision waits for its promotion."""
    there = settled(deployed(strategy, hold=hold))
    assert there.status.phase is Phase.HEALTHY
    there = settled(template_changed(there, "b"))
    assert there.status.phase is Phase.PAUSED
    return there


def _inside(there: World) -> dict[str, int]:
    return {each.revision: each.spec_replicas for each in there.replica_sets if each.inside and each.spec_replicas}


def _fields_are_the_users(there: World) -> bool:
    assert there.workload is not None and there.workload.deployment is not None
    found = there.workload.deployment
    return (found.held, found.fields, found.paused) == (None, USERS, False)


@STRATEGIES
def test_new_pods_run_beside_a_deployment_that_keeps_all_of_its_own(strategy: Strategy) -> None:
    """A blue-green preview has as many; a canary of 25 % has one of four."""
    there = _begun(strategy)

    assert sizes(there) == {"a": 4, "b": 4 if strategy is PREVIEWED else 1}
    assert _inside(there) == {"a": 4}


@STRATEGIES
def test_no_pod_starts_twice_and_the_deployment_is_as_its_user_wrote_it(strategy: Strategy) -> None:
    """The ReplicaSet with the new pods takes the place of the Deployment's own."""
    there = _begun(strategy)
    pods = {pod.uid for pod in there.pods if pod.revision == "b"}
    there = settled(annotated(there, "promote", "b@full"))

    assert there.status.phase is Phase.HEALTHY
    assert (sizes(there), _inside(there)) == ({"b": 4}, {"b": 4})
    assert _fields_are_the_users(there)
    assert pods <= {pod.uid for pod in there.pods}
    assert all(each.inside for each in there.replica_sets)


@STRATEGIES
def test_old_pods_keep_their_delay_beside_the_deployment(strategy: Strategy) -> None:
    """They are there for a rollback; the Deployment has its fields back already."""
    there = settled(annotated(_begun(strategy), "promote", "b@full"), seconds=20)

    assert sizes(there) == {"a": 4, "b": 4}
    assert _inside(there) == {"b": 4}
    assert _fields_are_the_users(there)


@STRATEGIES
def test_an_abort_leaves_the_deployment_alone(strategy: Strategy) -> None:
    """The template stays what Git says."""
    there = settled(annotated(_begun(strategy), "abort", "b"))

    assert there.status.phase is Phase.ABORTED
    assert (sizes(there), _inside(there)) == ({"a": 4}, {"a": 4})


@STRATEGIES
def test_a_newer_template_takes_the_place_of_the_one_beside(strategy: Strategy) -> None:
    """The Deployment keeps its stable pods throughout."""
    there = settled(template_changed(_begun(strategy), "c"))

    assert there.status.phase is Phase.PAUSED
    assert sizes(there) == {"a": 4, "c": 4 if strategy is PREVIEWED else 1}
    assert _inside(there) == {"a": 4}


@STRATEGIES
def test_the_old_template_again_ends_the_update(strategy: Strategy) -> None:
    """A revert in Git."""
    there = settled(template_changed(_begun(strategy), "a"))

    assert there.status.phase is Phase.HEALTHY
    assert sizes(there) == {"a": 4}
    assert _fields_are_the_users(there)


@STRATEGIES
def test_an_undo_while_old_pods_keep_their_delay_starts_none_of_them_twice(strategy: Strategy) -> None:
    """Their ReplicaSet is the new one then; a canary of 25 % keeps one of them."""
    there = settled(annotated(_begun(strategy), "promote", "b@full"), seconds=20)
    pods = {pod.uid for pod in there.pods if pod.revision == "a"}
    there = template_changed(settled(annotated(there, "promote", None), seconds=1), "a")
    there = settled(annotated(settled(there, seconds=1), "promote", "a@full"))

    assert there.status.phase is Phase.HEALTHY
    assert (sizes(there), _inside(there)) == ({"a": 4}, {"a": 4})
    assert _fields_are_the_users(there)
    kept = pods & {pod.uid for pod in there.pods}
    assert len(kept) == (4 if strategy is PREVIEWED else 1)


@STRATEGIES
def test_an_autoscaler_scales_stable_pods_at_once_and_the_others_follow(strategy: Strategy) -> None:
    """Its target is the Deployment."""
    there = settled(scaled(_begun(strategy), 8))

    assert sizes(there) == {"a": 8, "b": 8 if strategy is PREVIEWED else 2}


@STRATEGIES
def test_a_hold_at_rest_stays_paused(strategy: Strategy) -> None:
    """No policy would hold the next template."""
    there = settled(annotated(_begun(strategy, hold=Hold.AT_REST), "promote", "b@full"))

    assert (sizes(there), _inside(there)) == ({"b": 4}, {"b": 4})
    assert there.workload is not None and there.workload.deployment is not None
    assert there.workload.deployment.paused
    assert there.workload.deployment.held is None


@STRATEGIES
def test_a_retry_goes_on_with_the_same_pods(strategy: Strategy) -> None:
    """They keep their delay after the abort."""
    there = settled(annotated(_begun(strategy), "abort", "b"), seconds=5)
    (before,) = [each.uid for each in there.replica_sets if each.revision == "b"]
    there = settled(annotated(replace(there, notices=()), "abort", None))

    (after,) = [each.uid for each in there.replica_sets if each.revision == "b"]
    assert after == before
    assert sizes(there) == {"a": 4, "b": 4 if strategy is PREVIEWED else 1}


@STRATEGIES
def test_services_select_one_revision_only_while_there_are_two(strategy: Strategy) -> None:
    """Between updates they follow the Deployment, also when nobody controls the Rollout any more."""
    there = settled(deployed(strategy))
    assert {each.revision for each in there.services.values()} == {""}
    there = settled(template_changed(there, "b"))
    assert sorted(each.revision for each in there.services.values()) == ["a", "b"]
    there = settled(annotated(there, "promote", "b@full"))

    assert there.status.phase is Phase.HEALTHY
    assert {each.revision for each in there.services.values()} == {""}
