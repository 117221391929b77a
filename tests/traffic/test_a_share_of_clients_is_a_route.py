"""Promise: routers that know cookies can say a share of clients, read it back, and give the object back as it was."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from rollouts.core.model.frozen import replace
from rollouts.core.model.traffic import Feature, Split, Sticky
from rollouts.core.routing.stickiness import STICKY_ROUTE
from rollouts.errors import Unroutable
from rollouts.objects import Manifest
from rollouts.traffic.codec import LEDGER, Objects
from rollouts.traffic.contour import codec as contour
from rollouts.traffic.gateway_api import codec as gateway_api
from rollouts.traffic.istio import codec as istio
from tests.build import backend
from tests.traffic import laws
from tests.traffic.cases.all_cases import CASES
from tests.traffic.cases.case import Case, splits
from tests.traffic.situation import Situation, destination

KNOWING = [case for case in CASES if {Feature.COOKIE, Feature.HEADER_REGEX} <= case.features]
SID = Sticky("sid", "0123456789abcdef", "r1")
A_QUARTER = Split(Fraction(1, 4), sticky=SID)
HELD = (
    laws.what_is_planned_is_read_back, laws.undo_gives_the_users_object_back, laws.nothing_else_is_touched,
    laws.what_another_wrote_is_never_lost, laws.a_gitops_tool_may_write_its_own_again,
    laws.what_is_replaced_is_tested_first, laws.a_change_of_the_share_alone_is_one_write,
)  # fmt: skip


@st.composite
def wants(draw: st.DrawFn, case: Case) -> list[Split]:
    """Shares of clients and of requests, one after the other."""
    found = draw(st.lists(splits(case.features - {Feature.COOKIE}, case.shares), min_size=2, max_size=3))
    by = Sticky("sid", draw(st.sampled_from(["0123456789abcdef", "01"])), draw(st.sampled_from(["r1", "r2"])))
    return [replace(each, sticky=by) if 0 < each.share < 1 and draw(st.booleans()) else each for each in found]


@pytest.mark.parametrize("case", KNOWING, ids=lambda case: case.name)
@settings(max_examples=10, deadline=None, suppress_health_check=(HealthCheck.filter_too_much, HealthCheck.too_slow))
@given(data=st.data())
def test_the_laws_hold_for_shares_of_clients(case: Case, data: st.DataObject) -> None:
    """The same laws as for all that a provider writes; only that a share is a route here, and so changes one."""
    start = Situation.of(case.provider, case.settings, data.draw(case.users), case.context)
    asked = data.draw(wants(case))
    try:
        for law in HELD:
            law(case, start, asked)
    except Unroutable:
        assume(False)


def test_there_are_cases_enough() -> None:
    """A suite without a case would pass."""
    assert {case.name for case in KNOWING} >= {"HTTPRoute", "VirtualService", "HTTPProxy"}


def pair(stable: int, canary: int) -> Manifest:
    return {"backendRefs": [backend("cart", stable), backend("cart-canary", canary)]}


START = Situation.at(gateway_api.PROVIDER, {"httpRoutes": [{"name": "cart"}]}, {"rules": [pair(100, 0)]})


def test_an_http_route_leaves_the_weights_and_adds_one_rule() -> None:
    """Nobody comes by weight: who has no cookie goes to stable."""
    rules = START.managed(A_QUARTER).objects.user["spec"]["rules"]

    plain, sticky = sorted(rules, key=lambda rule: "matches" in rule)
    assert plain == pair(100, 0)
    (match,) = sticky["matches"]
    (header,) = match["headers"]
    assert (header["name"], header["type"]) == ("cookie", "RegularExpression")
    assert [each["name"] for each in sticky["backendRefs"]] == ["cart-canary"]


@pytest.mark.parametrize("edit", ["rule", "weights", "ledger"])
def test_what_somebody_takes_out_is_seen(edit: str) -> None:
    """It reads as what it is then, never as what was wanted."""
    user = START.managed(A_QUARTER).objects.user
    rules = user["spec"]["rules"]
    changed: dict[str, Any] = {
        "rule": {**user, "spec": {"rules": [rule for rule in rules if "matches" not in rule]}},
        "weights": {**user, "spec": {"rules": [pair(10, 90), *rules[1:]]}},
        "ledger": {**user, "metadata": {"name": "cart", "annotations": {LEDGER: '{"sticky":["a"],"share":"1/0"}'}}},
    }[edit]

    found = START.provider.read(Objects(changed), START.target, START.context)

    assert found != A_QUARTER
    if edit == "weights":
        assert found.share == Fraction(9, 10)


def test_istio_and_contour_name_it() -> None:
    """The route can be found in the object by the name that the docs give."""
    pair = [destination("cart", 100), destination("cart-canary", 0)]
    service = Situation.at(istio.PROVIDER, {"virtualService": {"name": "cart"}}, {"http": [{"route": pair}]})
    assert service.managed(A_QUARTER).objects.user["spec"]["http"][0]["name"] == STICKY_ROUTE

    services = [{"name": "cart", "port": 80, "weight": 100}, {"name": "cart-canary", "port": 80, "weight": 0}]
    proxy = Situation.at(contour.PROVIDER, {"httpProxies": [{"name": "cart"}]}, {"routes": [{"services": services}]})
    assert len(proxy.managed(A_QUARTER).objects.user["spec"]["routes"]) == 2
