"""Promise: an Experiment's Service gets exactly its share beside the canary's, after its proxies know it, and leaves no trace."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pytest

from rollouts.core.model.frozen import replace
from rollouts.core.model.traffic import ALL_TO_STABLE, ExperimentShare, Feature, Split, Sticky
from rollouts.errors import Unroutable
from rollouts.objects import Manifest
from rollouts.traffic.codec import LEDGER, Destination, Provider
from rollouts.traffic.contour.codec import PROVIDER as CONTOUR
from rollouts.traffic.gateway_api.codec import PROVIDER
from rollouts.traffic.istio.codec import PROVIDER as ISTIO
from rollouts.traffic.rules.ledger import NOTHING, ledger_of
from rollouts.traffic.traefik import PROVIDER as TRAEFIK
from tests.traffic.cases.gateway_api import backend
from tests.traffic.situation import TESTERS, Situation

FIFTH = Fraction(1, 5)
TRY, BASE = ExperimentShare("cart-try", Fraction(1, 20)), ExperimentShare("cart-base", Fraction(1, 10))
BOTH = Split(FIFTH, experiments=(TRY, BASE))


def route(*backends: Manifest) -> Situation:
    refs = list(backends) or [backend("cart", 100), backend("cart-canary", 0)]
    match = {"path": {"type": "PathPrefix", "value": "/"}}
    spec = {"parentRefs": [{"name": "web"}], "rules": [{"matches": [match], "backendRefs": refs}]}
    return Situation.at(PROVIDER, {"httpRoutes": [{"name": "cart"}]}, spec)


def written(now: Situation, want: Split, *, settled: bool = True) -> Situation:
    asked = replace(now, context=replace(now.context, settled=settled))
    return replace(asked.after(asked.plan(want)), context=now.context)


def weights(now: Situation) -> dict[str, int]:
    (rule,) = now.objects.user["spec"]["rules"]
    return {each["name"]: each["weight"] for each in rule["backendRefs"]}


def reweighed(now: Situation, service: str, weight: int) -> Situation:
    """After a user has written another weight."""
    user = json.loads(json.dumps(now.objects.user))
    for each in user["spec"]["rules"][0]["backendRefs"]:
        each["weight"] = weight if each["name"] == service else each["weight"]
    return now.edited(user)


def test_the_stable_service_gets_what_is_left() -> None:
    """Of the user's own total; the new backends come last, so that no other one gets another number."""
    done = route(backend("cart", 100), backend("cart-canary", 0), backend("legacy", 0)).managed(BOTH)

    assert weights(done) == {"cart": 65, "cart-canary": 20, "legacy": 0, "cart-try": 5, "cart-base": 10}
    assert list(weights(done))[-2:] == ["cart-try", "cart-base"]
    assert done.objects.user["spec"]["rules"][0]["backendRefs"][3] == backend("cart-try", 5)


def test_requests_come_when_the_proxies_know_the_service() -> None:
    """A proxy with a cluster for each Service may have the route before the cluster, and answers 503."""
    there = written(route(), BOTH)
    waiting = written(there, BOTH, settled=False)
    done = written(waiting, BOTH)

    assert weights(there) == {"cart": 80, "cart-canary": 20, "cart-try": 0, "cart-base": 0}
    assert there.read().is_intermediate
    assert waiting.objects == there.objects
    assert done.read() == BOTH
    assert not done.read().is_intermediate


def test_the_service_stays_until_no_proxy_sends_it_requests() -> None:
    """The other Experiment, and the canary, keep theirs."""
    alone = Split(FIFTH, experiments=(BASE,))

    left = written(route().managed(BOTH), alone)
    waiting = written(left, alone, settled=False)
    done = written(waiting, alone)

    assert weights(left) == {"cart": 70, "cart-canary": 20, "cart-base": 10, "cart-try": 0}
    assert waiting.objects == left.objects
    assert done.read() == alone
    assert weights(done) == {"cart": 70, "cart-canary": 20, "cart-base": 10}


def test_an_abort_waits_for_nothing() -> None:
    """Canary and Experiments get nothing from the first write on, whatever was on its way."""
    aborted = written(written(route(), BOTH), ALL_TO_STABLE, settled=False)
    late = written(route().managed(BOTH), ALL_TO_STABLE, settled=False)

    assert weights(aborted) == weights(late) == {"cart": 100, "cart-canary": 0, "cart-try": 0, "cart-base": 0}
    assert written(late, ALL_TO_STABLE).objects == route().objects


def test_header_routes_lead_to_the_canary_alone() -> None:
    """A header route is for those who want the canary, not for an Experiment."""
    done = route().managed(replace(BOTH, matches=(TESTERS,)))

    assert done.read() == replace(BOTH, matches=(TESTERS,))
    _, copy = done.objects.user["spec"]["rules"]
    assert copy["backendRefs"] == [backend("cart-canary", 1)]


def test_a_share_of_clients_leaves_it_its_own() -> None:
    """Of the requests that the route for these clients does not take."""
    want = replace(BOTH, sticky=Sticky("sid", "0123456789abcdef", "r1"))

    done = route().managed(want)

    assert done.read() == want
    backends = done.objects.user["spec"]["rules"][0]["backendRefs"]
    assert [each["weight"] for each in backends] == [85, 0, 5, 10]


@pytest.mark.parametrize("service", ["cart", "cart-canary", "cart-try"])
@pytest.mark.parametrize("moment", ["on its way", "there"])
def test_a_weight_that_a_user_writes_meanwhile_keeps_no_experiment(service: str, moment: str) -> None:
    """The Service goes with the Experiment, so a route that is given back must not lead to it, whoever wrote its weight."""
    start = route()
    edited = reweighed(written(start, BOTH) if moment == "on its way" else start.managed(BOTH), service, 33)

    assert edited.read() != BOTH
    assert edited.managed(BOTH).read() == BOTH
    given_back = edited.given_back()
    assert set(weights(given_back)) == {"cart", "cart-canary"}
    assert given_back.release() == ()
    if service == "cart-try":
        assert given_back.objects == start.objects


def test_a_backend_that_a_user_removes_comes_back_at_0_first() -> None:
    """As if it were new: its proxies may have forgotten the Service."""
    managed = route().managed(BOTH)
    user = json.loads(json.dumps(managed.objects.user))
    del user["spec"]["rules"][0]["backendRefs"][-1]
    edited = managed.edited(user)

    assert not edited.read().whole
    assert weights(written(edited, BOTH))["cart-base"] == 0
    assert edited.managed(BOTH).read() == BOTH


def test_a_backend_of_the_users_with_that_service_is_refused() -> None:
    """Nobody could tell afterwards which of the two is the user's."""
    taken = route(backend("cart", 100), backend("cart-canary", 0), backend("cart-try", 0))

    with pytest.raises(Unroutable, match="Service cart-try of an Experiment as a backend already; remove it"):
        taken.plan(BOTH)


def test_shares_that_cannot_be_said_are_refused_in_words() -> None:
    """A rule has 16 backends at most, a total beside other backends stays, and nobody has more than all requests."""
    others = [backend(f"other-{at}", 0) for at in range(13)]
    full = route(backend("cart", 100), backend("cart-canary", 0), *others)
    beside = route(backend("cart", 90), backend("cart-canary", 0), backend("legacy", 10))

    with pytest.raises(Unroutable, match="17 backends in one rule, and at most 16"):
        full.plan(BOTH)
    with pytest.raises(
        Unroutable, match=r"20 % and 5 % and 10 % of a total of 90 .* multiply every weight of the rule by 2"
    ):
        beside.plan(BOTH)
    with pytest.raises(Unroutable, match="100 % and 5 % are more than all requests"):
        route().managed(Split(Fraction(1), experiments=(TRY,)))


def istio(spec: Manifest, *, subsets: bool = False) -> Situation:
    """A VirtualService, between two Services, or between two subsets of one."""
    start = Situation.at(ISTIO, {"virtualService": {"name": "cart"}}, spec)
    stable, canary = Destination("cart", "stable"), Destination("cart", "canary")
    return replace(start, context=replace(start.context, stable=stable, canary=canary)) if subsets else start


@pytest.mark.parametrize("subsets", [True, False])
def test_an_experiment_is_a_host_without_subsets(subsets: bool) -> None:
    """Also beside subsets: no DestinationRule has any for it, and Istio answers 503 for a subset that is nowhere."""
    host = {"host": "cart.shop.svc.cluster.local", "subset": "stable", "port": {"number": 80}}
    start = istio({"http": [{"route": [{"destination": host}]}]}, subsets=subsets)

    _, canary, there = start.managed(Split(FIFTH, experiments=(TRY,))).objects.user["spec"]["http"][0]["route"]

    assert canary["destination"]["subset"] == ("canary" if subsets else "stable"), "its host is in a DestinationRule"
    assert there == {
        "destination": {"host": "cart-try.shop.svc.cluster.local", "port": {"number": 80}}, "weight": 5
    }  # fmt: skip


def test_routes_of_istio_that_are_not_for_http_have_shares_of_experiments_too() -> None:
    """By port or by name of a server: weights are all that they have."""
    start = istio({"tcp": [{"route": [{"destination": {"host": "cart"}}]}]})

    assert start.provider.features(start.objects, start.target) == {Feature.EXPERIMENT}
    assert start.managed(BOTH).read() == BOTH


ALONE: tuple[tuple[Provider, Manifest, Manifest], ...] = (
    (ISTIO, {"virtualService": {"name": "cart"}}, {"http": [{"route": [{"destination": {"host": "cart"}}]}]}),
    (CONTOUR, {"httpProxies": [{"name": "cart"}]}, {"routes": [{"services": [{"name": "cart", "port": 80}]}]}),
    (
        TRAEFIK,
        {"weightedTraefikServiceName": "cart"},
        {"weighted": {"services": [{"name": "cart", "port": 80}]}},
    ),
)


@pytest.mark.parametrize(("provider", "settings", "spec"), ALONE, ids=lambda each: getattr(each, "name", ""))
def test_a_backend_without_a_weight_keeps_its_requests(provider: Provider, settings: Manifest, spec: Manifest) -> None:
    """Beside a second one of weight 0 it would have the weight 0 too; Contour then splits evenly."""
    start = Situation.at(provider, settings, spec)
    want = Split(Fraction(0), experiments=(TRY,))

    first, done = [each.objects.user["spec"] for each in start.towards(want)]

    assert weights_of(first)[0] > 0
    assert weights_of(first)[1:] == [0, 0]
    assert weights_of(done)[-1] * 19 == weights_of(done)[0]
    assert start.managed(want).given_back().objects == start.objects


def weights_of(value: Any) -> list[int]:
    """All weights in a spec, in its order."""
    parts = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    own = [value["weight"]] if isinstance(value, dict) and "weight" in value else []
    return [*own, *(weight for part in parts for weight in weights_of(part))]


def test_the_note_of_a_route_without_experiments_is_as_before() -> None:
    """A controller of before wrote it, and one of before can read it: an upgrade writes no route."""
    note = json.loads(route().managed(Split(FIFTH)).objects.user["metadata"]["annotations"][LEDGER])

    assert set(note) == {"between", "pairs"}


@pytest.mark.parametrize("names", [["cart"], ["cart-canary"], ["cart", "cart-try"], ["cart/try"], ["x" * 64], [1]])
def test_a_note_that_names_no_experiment_takes_no_backend(names: list[Any]) -> None:
    """Anybody may have written the annotation."""
    managed = route().managed(BOTH)
    user = json.loads(json.dumps(managed.objects.user))
    note = json.loads(user["metadata"]["annotations"][LEDGER])
    user["metadata"]["annotations"][LEDGER] = json.dumps({**note, "experiments": names})

    assert {"cart", "cart-canary"} <= set(weights(managed.edited(user).given_back()))


@pytest.mark.parametrize(
    "names", [["cart/try"], ["x" * 64], [1], ["cart-try"] * 65], ids=["subset", "long", "number", "many"]
)
def test_a_note_with_other_than_a_few_names_of_services_is_none(names: list[Any]) -> None:
    """Each name is looked for in each backend of the route, in each pass."""
    text = json.dumps({"between": ["cart", "cart-canary"], "experiments": names})

    assert ledger_of({"metadata": {"annotations": {LEDGER: text}}}) == NOTHING
