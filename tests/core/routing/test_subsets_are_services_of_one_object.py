"""Promise: two subsets of one DestinationRule, which are one object, are changed by two passes, and told by their names."""

from __future__ import annotations

import pytest

from rollouts.core.decide import decide
from rollouts.core.model.drain import DrainSpec
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import SwitchService
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import Canary
from rollouts.core.model.service_ref import ServiceRef, SubsetName, service_ref
from rollouts.core.model.status import Phase
from rollouts.core.model.steps import PauseUntilPromoted, SetWeight
from rollouts.core.routing.services import display_name
from tests.core.model import World, snapshot, world
from tests.core.updates import TIMED, routed, traffic, updating
from tests.core.worlds import edited, quiet, reconciled, running, steps_of

STABLE, CANARY = SubsetName("cart-rule", "stable"), SubsetName("cart-rule", "canary")
PAIRS: dict[str, tuple[ServiceRef, ServiceRef]] = {
    "Services": ("cart", "cart-canary"),
    "subsets": (STABLE, CANARY),
    "subsets of two rules": (STABLE, SubsetName("other-rule", "canary")),
}


def canary(stable: ServiceRef, other: ServiceRef) -> Canary:
    """Between any two, by one route whose time is waited for."""
    return routed(SetWeight(50), PauseUntilPromoted(), by=(TIMED,), stable_service=stable, canary_service=other)


def pointed(there: World) -> list[set[ServiceRef]]:
    """Names of those that each pass changed, on the way to the first revision."""
    passes = []
    for _ in range(40):
        decision = decide(snapshot(there))
        names = {each.name for each in decision.intents if isinstance(each, SwitchService)}
        switched = [each for each in decision.notices if each.reason is Reason.SWITCH_SERVICE]
        assert len(switched) <= len(names), "told of a change that is not made"
        passes += [names] if names else []
        there = quiet(reconciled(there))
    return passes


@pytest.mark.parametrize(("pair", "at_once"), [("Services", 2), ("subsets", 1), ("subsets of two rules", 2)])
def test_two_subsets_of_one_rule_are_changed_by_two_passes(pair: str, at_once: int) -> None:
    """The second write of a pass would be of a version that the first has replaced; what is not one object costs no pass more."""
    passes = pointed(world(canary(*PAIRS[pair])))

    assert set.union(*passes) == set(PAIRS[pair])
    assert max(map(len, passes)) == at_once


def test_a_change_is_told_by_the_pass_that_makes_it() -> None:
    """Both subsets still name a revision of before: each change is an Event, and neither is one twice."""
    there = world(canary(*PAIRS["subsets"]))
    named = {name: replace(each, revision="before") for name, each in there.services.items()}

    assert pointed(replace(there, services=named)) == [{STABLE}, {CANARY}]


@pytest.mark.parametrize("pair", PAIRS)
def test_one_that_is_watched_no_more_is_marked_again(pair: str) -> None:
    """Somebody took our label off: what its slices showed last says nothing any more."""
    there = running(canary(*PAIRS[pair]))
    stable = PAIRS[pair][0]
    seen = snapshot(there)
    unmarked = replace(there.services[stable], watched=False)

    decision = decide(replace(seen, services={**seen.services, stable: unmarked}))

    assert stable in {each.name for each in decision.intents if isinstance(each, SwitchService)}


@pytest.mark.parametrize("pair", PAIRS)
def test_an_update_goes_between_any_two(pair: str) -> None:
    """The same steps, the same order."""
    there = updating(canary(*PAIRS[pair]))

    assert [there.services[name].revision for name in PAIRS[pair]] == ["a", "b"]
    assert there.status.step_index == 1


@pytest.mark.parametrize(("pair", "waits_s"), [("Services", 0), ("subsets", 5), ("subsets of two rules", 5)])
def test_requests_return_to_a_changed_subset_once_every_proxy_knows_it(pair: str, waits_s: float) -> None:
    """One that has the route before the rule would send all of them to the old pods that `dynamicStableScale` has left."""
    stable, other = PAIRS[pair]
    strategy = routed(SetWeight(50), by=(TIMED,), dynamic=True, stable_service=stable, canary_service=other)
    worlds = [*steps_of(edited(running(strategy, drain=DrainSpec(max_request_s=20)), revision="b"))]
    changed = next(at for at, each in enumerate(worlds) if each.services[stable].revision == "b")
    returned = next(each for each in worlds[changed:] if traffic(each).desired_percent == 0)

    assert returned.now_s - worlds[changed].now_s == waits_s
    assert worlds[-1].status.phase is Phase.HEALTHY


def test_a_subsets_name_is_read_as_it_was_written_and_told_as_people_know_it() -> None:
    """Status has its text, and `rule/subset` is in no object."""
    assert (service_ref(str(CANARY)), service_ref("cart-canary")) == (CANARY, "cart-canary")
    assert display_name(CANARY) == "subset canary of DestinationRule cart-rule"
    assert display_name("cart-canary") == "Service cart-canary"
