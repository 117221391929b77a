"""Promise: with `pingPong` a route says the same after the two Services have changed roles, or it is refused at once.

After the first promotion the Service that the user's route leads to is the canary's, and the next update begins from there.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rollouts.core.model.frozen import replace
from rollouts.core.model.traffic import ALL_TO_STABLE, Split
from rollouts.errors import Unroutable
from rollouts.traffic.registry import registry
from tests.traffic.cases.all_cases import CASES
from tests.traffic.cases.case import SHARES, Case
from tests.traffic.situation import CONTEXT, Situation

ALL_TO_CANARY = Split(Fraction(1))
TAKING_TURNS = [
    case for case in CASES if not Situation.of(case.provider, case.settings, case.example).target.no_ping_pong
]


def swapped(situation: Situation) -> Situation:
    """The same objects, with the Services in each other's role."""
    there = situation.context
    return replace(situation, context=replace(there, stable=there.canary, canary=there.stable))


def test_most_routers_can_take_turns() -> None:
    """The others are named here, so that none is left out in silence."""
    assert {case.name for case in CASES} - {case.name for case in TAKING_TURNS} == {"nginx", "alb"}


@pytest.mark.parametrize(
    "case", [case for case in TAKING_TURNS if "subset" not in case.name.lower()], ids=lambda case: case.name
)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(data=st.data())
def test_two_updates_go_there_and_back(case: Case, data: st.DataObject) -> None:
    """One to pong and one to ping, each by way of a share; at any moment the user's object can be given back as it was."""
    context = replace(case.context, ping_pong=True)
    start = Situation.of(case.provider, case.settings, data.draw(case.users), context)
    try:
        now = start.managed(ALL_TO_STABLE)
        now.managed(Split(data.draw(case.shares)))
    except Unroutable as refused:
        assert start.release() == (), refused
        return
    for _ in range(2):
        for want in (Split(data.draw(SHARES)), ALL_TO_CANARY):
            try:
                now = now.managed(want)
            except Unroutable as refused:
                assert "multiply" in str(refused) or "beside" in str(refused)
                return
            assert now.read() == want
            assert now.given_back().objects == start.objects
        now = turned = swapped(now)
        assert turned.read().share == 0, "nothing has moved"
        for now in turned.towards(ALL_TO_STABLE):
            assert now.read().share == 0, "only our note of who is who is written"
        assert now.read() == ALL_TO_STABLE


def _without_canary(value: Any, case: Case) -> Any:
    """The object without the backends that name the canary Service."""
    match value:
        case dict():
            return {name: _without_canary(part, case) for name, part in value.items()}
        case list():
            return [_without_canary(each, case) for each in value if not _names(each, case)]
    return value


def _names(backend: Any, case: Case) -> bool:
    match backend:
        case {"destination": {"kube": {"ref": {"name": name}}}} | {"destination": {"host": name}}:
            return bool(name == CONTEXT.canary_service)
        case dict():
            return any(backend.get(field) == CONTEXT.canary_service for field in case.names)
    return False


NAMING_BOTH = [case for case in TAKING_TURNS if _without_canary(case.example, case) != case.example]


@pytest.mark.parametrize("case", NAMING_BOTH, ids=lambda case: case.name)
def test_a_route_with_one_of_the_services_is_refused_before_it_is_written(case: Case) -> None:
    """After the first promotion it would lead to the canary Service alone, and nobody could tell where the other belongs."""
    alone, context = _without_canary(case.example, case), replace(case.context, ping_pong=True)
    start = Situation.of(case.provider, case.settings, alone, context)

    for situation in (start, swapped(start)):
        with pytest.raises(Unroutable, match=f"Service {CONTEXT.canary_service}"):
            situation.read()


def test_an_alb_with_a_root_service_takes_turns() -> None:
    """Its annotation is named by that Service, whichever of the two is stable; so Argo Rollouts asks for one, too."""
    paths = [{"path": "/", "backend": {"service": {"name": "root", "port": {"name": "use-annotation"}}}}]
    user = {"metadata": {"name": "cart"}, "spec": {"rules": [{"http": {"paths": paths}}]}}
    settings = {"ingress": "cart", "servicePort": 80, "rootService": "root"}
    start = Situation.of(registry()["alb"], settings, user, replace(CONTEXT, ping_pong=True))

    first = swapped(start.managed(ALL_TO_STABLE).managed(ALL_TO_CANARY))
    second = swapped(first.managed(Split(Fraction(1, 10))).managed(ALL_TO_CANARY))

    assert start.target.no_ping_pong == ""
    assert "alb.ingress.kubernetes.io/actions.root" in second.objects.user["metadata"]["annotations"]
    assert (first.read().share, second.read().share) == (Fraction(0), Fraction(0))
    assert first.managed(ALL_TO_STABLE).read() == ALL_TO_STABLE
    assert second.given_back().objects.user == user
