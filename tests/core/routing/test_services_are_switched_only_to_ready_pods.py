"""Promise: a Service goes where ready pods are, and pods go only after the Service's EndpointSlices have let go of them."""

from __future__ import annotations

import pytest

from rollouts.core.decide import decide
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import AskService, PatchReplicaSet, ReleaseService
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import BlueGreen, Canary, Strategy, TrafficRouting
from rollouts.core.model.service_ref import ServiceRef, SubsetName
from rollouts.core.model.snapshot import Service, ServiceAbsent, ServiceUnasked
from rollouts.core.model.status import Phase
from rollouts.core.model.steps import PauseUntilPromoted, SetWeight
from tests.core.model import World, annotated, service, snapshot, world
from tests.core.updates import updating, waits_for
from tests.core.worlds import edited, later, looks_again_in_s, replica_sets_caught_up, running, settled, steps_of

STEPS = (SetWeight(50), PauseUntilPromoted())
SERVICES = Canary(steps=STEPS, stable_service="cart", canary_service="cart-canary")
ROUTED = replace(SERVICES, traffic_routing=TrafficRouting())
GREEN = BlueGreen(active_service="cart", auto_promotion_enabled=False, scale_down_delay_s=0)


@pytest.mark.parametrize("strategy", [SERVICES, ROUTED, GREEN])
def test_a_service_is_not_taken_over_before_every_pod_is_there(strategy: Strategy) -> None:
    """As its user made it, it serves whatever its selector finds, which is at least as much."""
    there = running(strategy)
    there = replace(there, services={**there.services, "cart": service("cart", uid="new", resource_version="n")})
    there = replica_sets_caught_up(
        replace(there, bad=frozenset("a"), pods=(replace(there.pods[0], ready=False), *there.pods[1:]))
    )

    assert settled(there, seconds=5).services["cart"].revision == ""
    assert settled(replace(there, bad=frozenset())).services["cart"].revision == "a"


@pytest.mark.parametrize(
    "wrong", [{"selects_template": False}, {"has_selector": False}, {"problem": "is an ExternalName"}]
)
def test_a_service_that_was_put_right_is_found_by_itself(wrong: dict[str, object]) -> None:
    """Nobody watches one that is not managed yet: its user mends it, and no event tells."""
    there = world(GREEN)
    there = settled(replace(there, services={"cart": service("cart", **wrong)}), seconds=5)
    assert waits_for(there) is Reason.SERVICE_NOT_USABLE
    assert looks_again_in_s(there) <= 10

    there = settled(later(replace(there, services={"cart": service("cart", resource_version="2")}), 10.1))

    assert (there.status.phase, there.services["cart"].revision) == (Phase.HEALTHY, "a")


def test_a_service_that_the_spec_no_longer_names_is_given_back() -> None:
    """Or it would select one revision for ever."""
    there = running(SERVICES)

    there = settled(edited(there, strategy=Canary(steps=STEPS, stable_service="cart")))

    assert there.services["cart-canary"].revision == ""
    assert there.services["cart-canary"].managed_by == ""
    assert ReleaseService.__name__ in there.writes


SUBSET = SubsetName("cart-rule", "canary")
OF_A_RULE = replace(ROUTED, canary_service=SUBSET)
LEADING = pytest.mark.parametrize(
    ("strategy", "name"), [(ROUTED, "cart-canary"), (ROUTED, "cart"), (GREEN, "cart"), (OF_A_RULE, SUBSET)]
)


def _seeing(there: World, *services: Service) -> tuple[bool, list[ServiceRef]]:
    """Whether a pass that sees these Services takes all pods of a revision away, and which Services it asks about."""
    seen = snapshot(there)
    intents = decide(replace(seen, services={**seen.services, **{each.name: each for each in services}})).intents
    leave = any(isinstance(each, PatchReplicaSet) and each.replicas == 0 for each in intents)
    return leave, [each.name for each in intents if isinstance(each, AskService)]


def _aborted(strategy: Strategy) -> World:
    """An aborted update, in the moment in which its pods may leave."""
    there = annotated(updating(strategy), "abort", "b")
    return next(each for each in steps_of(there) if _seeing(each) == (True, []))


@LEADING
def test_pods_leave_when_services_that_could_not_be_used_were_read_a_moment_ago(
    strategy: Strategy, name: ServiceRef
) -> None:
    """Somebody makes one by hand, or mends its selector; then it finds every pod, and no event tells that."""
    there = _aborted(strategy)
    of_others = service(name, selects_template=False)

    for read_s in (2.0, 9.0):
        at_s = there.now_s - read_s
        for unsure in (ServiceAbsent(name, at_s), replace(of_others, read_at_s=at_s), ServiceUnasked(name)):
            assert _seeing(there, unsure) == (False, [name])
    at_s = there.now_s - 0.5
    for sure in (ServiceAbsent(name, at_s), replace(of_others, read_at_s=at_s)):
        assert _seeing(there, sure) == (True, [])


@LEADING
def test_no_pod_leaves_before_the_slices_of_a_service_are_seen(strategy: Strategy, name: ServiceRef) -> None:
    """As its user made it, it found every pod, and its slices may still show them: they are labelled after their Service."""
    there = _aborted(strategy)
    seen = there.services[name]

    assert _seeing(there, seen) == (True, [])
    assert _seeing(there, replace(seen, slices_seen=False, ready_by_revision={})) == (False, [])
