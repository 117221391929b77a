"""Promise: a user's own rules beside the managed ones change no verdict, in any data plane that is asked.

A route for testers that leads to the canary Service alone, a path that stays at stable, a redirect, another Service, a mirror:
all of them are the user's. A verdict that they change holds up every update, or lets one go on that has not arrived.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pytest
from msgspec import Struct

from rollouts.core.model.traffic import (
    ALL_TO_STABLE,
    ExperimentShare,
    MatchKind,
    MirrorRoute,
    RequestMatch,
    RouteName,
    RuleSaid,
    Split,
    TextMatch,
)
from rollouts.objects import Manifest
from rollouts.ports import LiveQuestion
from rollouts.probes.counter_series import Counters
from rollouts.probes.counters import judged_by_requests
from rollouts.probes.verdict import Entry, Judgement, judged
from rollouts.traffic.codec import Provider
from rollouts.traffic.registry import registry
from tests.probes import products
from tests.probes.dumps import BETA, question, share
from tests.traffic.situation import Situation, destination

ALB, CONTOUR, GATEWAY_API, ISTIO = (registry()[name] for name in ("alb", "contour", "gatewayAPI", "istio"))
TESTER = [{"name": "x-tester", "value": "1"}]
PAIR = [("cart", 100), ("cart-canary", 0)]
MIRRORED = Split(Fraction(1, 10), mirrors=(MirrorRoute("shadow", percent=50),))
BY_WEIGHT = {"0": ALL_TO_STABLE, "10": share(10), "50": share(50), "100": share(100)}
BY_HEADER = {**BY_WEIGHT, "header": Split(Fraction(1, 10), (BETA,))}


def _to(*backends: tuple[str, int], kind: str = "Service") -> list[Manifest]:
    return [{"kind": kind, "name": name, "port": 80, "weight": weight} for name, weight in backends]


def _mirror(**more: int) -> Manifest:
    return {"type": "RequestMirror", "requestMirror": {"backendRef": {"name": "cart-canary", "port": 80}, **more}}


def _at(path: str, kind: str = "PathPrefix") -> list[Manifest]:
    return [{"path": {"type": kind, "value": path}}]


OF_ROUTES: Mapping[str, Manifest] = {
    "canary alone, by header": {"matches": [{"headers": TESTER}], "backendRefs": _to(("cart-canary", 1))},
    "canary alone, by path": {"matches": _at("/next"), "backendRefs": _to(("cart-canary", 1))},
    "canary alone, by exact path": {"matches": _at("/exactly", "Exact"), "backendRefs": _to(("cart-canary", 1))},
    "canary alone, two matches": {"matches": [*_at("/soon"), {"headers": [{"name": "x-soon", "value": "1"}]}],
        "backendRefs": _to(("cart-canary", 1))},
    "canary beside another Service": {"matches": _at("/some"), "backendRefs": _to(("audit", 9), ("cart-canary", 1))},
    "stable alone": {"matches": _at("/static"), "backendRefs": _to(("cart", 1))},
    "redirect": {"matches": _at("/old"),
        "filters": [{"type": "RequestRedirect", "requestRedirect": {"hostname": "x"}}]},
    "another Service": {"matches": _at("/audit"), "backendRefs": _to(("audit", 1))},
    "another kind of backend": {"matches": _at("/outside"), "backendRefs": _to(("bucket", 1), kind="Backend")},
    "mirror of another Service": {"matches": _at("/copied"), "backendRefs": _to(("audit", 1)),
        "filters": [_mirror(percent=50)]},
    "mirror of stable": {"matches": _at("/static/copied"), "backendRefs": _to(("cart", 1)), "filters": [_mirror()]},
}  # fmt: skip
OF_PROXIES: Mapping[str, Manifest] = {
    "canary alone, by header": {"conditions": [{"header": {"name": "x-tester", "exact": "1"}}],
        "services": [{"name": "cart-canary", "port": 80}]},
    "canary alone, by path": {"conditions": [{"prefix": "/next"}], "services": [{"name": "cart-canary", "port": 80}]},
    "stable alone": {"conditions": [{"prefix": "/static"}], "services": [{"name": "cart", "port": 80}]},
    "redirect": {"conditions": [{"prefix": "/old"}], "requestRedirectPolicy": {"hostname": "x"}},
    "another Service": {"conditions": [{"prefix": "/audit"}], "services": [{"name": "audit", "port": 80}]},
    "mirror of another Service": {"conditions": [{"prefix": "/copied"}],
        "services": [{"name": "audit", "port": 80}, {"name": "cart-canary", "port": 80, "mirror": True}]},
}  # fmt: skip


def _forward(service: str) -> Manifest:
    """An action as AWS's controller reads it."""
    return {"type": "forward", "forwardConfig": {"targetGroups": [{"serviceName": service, "weight": 1}]}}


BY_TESTERS = {"field": "http-header", "httpHeaderConfig": {"httpHeaderName": "x-tester", "values": ["1"]}}
OF_INGRESSES: Mapping[str, tuple[str, str, Mapping[str, Any]]] = {
    "canary alone, by header": ("/", "cart-canary", {"conditions.cart-canary": [BY_TESTERS]}),
    "canary alone, by path": ("/next", "cart-canary", {}),
    "stable alone": ("/static", "cart", {}),
    "another Service": ("/audit", "audit", {}),
    "redirect": ("/old", "gone", {"actions.gone": {"type": "redirect", "redirectConfig": {"host": "x"}}}),
    "canary by an action": ("/soon", "next", {"actions.next": _forward("cart-canary")}),
}


def _object(kind: str, spec: Manifest, **metadata: Any) -> Manifest:
    return {"kind": kind, "metadata": {"namespace": "shop", "name": "cart", **metadata}, "spec": spec}


def _http_route(*rules: Manifest) -> Manifest:
    return _object("HTTPRoute", {"rules": list(rules)})


def _http_proxy(*routes: Manifest) -> Manifest:
    return _object("HTTPProxy", {"routes": list(routes)})


def _ingress(*paths: tuple[str, str, Mapping[str, Any]]) -> Manifest:
    told = {"actions.cart-root": _forward("cart"), **{name: each for *_, more in paths for name, each in more.items()}}
    named = {name.removeprefix("actions.") for name in told}
    ports = {name: {"name": "use-annotation"} if name in named else {"number": 80} for _, name, _ in paths}
    backends = [
        {"path": path, "pathType": "Prefix", "backend": {"service": {"name": name, "port": ports[name]}}}
        for path, name, _ in paths
    ]
    annotations = {f"alb.ingress.kubernetes.io/{name}": json.dumps(each) for name, each in told.items()}
    return _object("Ingress", {"rules": [{"http": {"paths": backends}}]}, annotations=annotations)


MAIN_RULE: Manifest = {"name": "main", "backendRefs": _to(*PAIR)}
MAIN_ROUTE = {"services": [{"name": name, "port": 80, "weight": weight} for name, weight in PAIR]}
MAIN_PATH: tuple[str, str, Mapping[str, Any]] = ("/", "cart-root", {})
ALB_SETTINGS = {"ingress": "cart", "servicePort": 80, "rootService": "cart-root"}


class Plane(Struct, frozen=True):
    """A reader of data planes, with a managed route and what users put beside its rules."""

    name: str
    provider: Provider
    settings: Mapping[str, Any]
    make: Any
    main: Any
    beside: Mapping[str, Any]
    answer: products.Answer
    splits: Mapping[str, Split]

    def situation(self, *rules: Any) -> Situation:
        """A route with these rules, all weight on stable."""
        return Situation.of(self.provider, self.settings, self.make(*rules))

    def judged(self, said: Situation, done: Situation, split: Split) -> Judgement:
        """What the reader says of a data plane that does what `done` says, while the object is `said`."""
        return self.answer(done.objects.user, asked(said, split))


def asked(said: Situation, split: Split, **changes: Any) -> LiveQuestion:
    """The question whether a data plane does what the object says."""
    kind = said.objects.user["kind"]
    route = RouteName(said.provider.name, kind, "shop", "cart")
    rules = said.provider.rules(said.objects, said.target, said.context)
    return question(split, route=route, objects=(said.objects.user,), rules=rules, **changes)


NAMED = {"httpRoutes": [{"name": "cart", "rules": ["main"]}]}
ROUTES = {"httpRoutes": [{"name": "cart"}]}
PROXIES = {"httpProxies": [{"name": "cart"}]}
MIRRORED_TOO = {**BY_HEADER, "mirror": MIRRORED}
WITHOUT_MIRRORS = {name: each for name, each in OF_ROUTES.items() if "mirror" not in name}
PLANES = [
    Plane("contour routes", GATEWAY_API, ROUTES, _http_route, MAIN_RULE, OF_ROUTES, products.contour_of_routes,
        BY_HEADER),
    Plane("contour proxies", CONTOUR, PROXIES, _http_proxy, MAIN_ROUTE, OF_PROXIES, products.contour_of_proxies,
        BY_HEADER),
    Plane("envoy gateway", GATEWAY_API, ROUTES, _http_route, MAIN_RULE, OF_ROUTES, products.envoy_gateway,
        MIRRORED_TOO),
    Plane("traefik", GATEWAY_API, ROUTES, _http_route, MAIN_RULE, WITHOUT_MIRRORS, products.traefik_of_routes,
        BY_HEADER),
    Plane("alb", ALB, ALB_SETTINGS, _ingress, MAIN_PATH, OF_INGRESSES, products.load_balancer, BY_WEIGHT),
]  # fmt: skip
CASES = [pytest.param(plane, kind, id=f"{plane.name}: {kind}") for plane in PLANES for kind in plane.beside]


def there(pristine: Situation, split: Split) -> Situation:
    """The route when it says the split."""
    return pristine if split == ALL_TO_STABLE else pristine.managed(split)


@pytest.mark.parametrize("last", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(("plane", "kind"), CASES)
def test_a_rule_of_the_users_changes_no_verdict(plane: Plane, kind: str, last: bool) -> None:
    """Live for what the data plane does and for nothing else, as without the rule; for every split now and before."""
    users = plane.beside[kind]
    rules = [plane.main, users] if last else [users, plane.main]
    pristine = plane.situation(*rules)
    # No step can mirror while a rule of the user's mirrors to the canary already (`Unroutable`).
    possible = {name: each for name, each in plane.splits.items() if "mirror" not in kind or not each.mirrors}
    at = {name: there(pristine, split) for name, split in possible.items()}

    for said, saying in at.items():
        for done, doing in at.items():
            found = plane.judged(saying, doing, plane.splits[said])
            assert found.live is (said == done), (said, done, found)


@pytest.mark.parametrize("plane", PLANES, ids=lambda plane: plane.name)
def test_all_rules_of_the_users_together_change_none(plane: Plane) -> None:
    """And a proxy that has lost one of the user's rules is no reason to wait: it is not of the split."""
    pristine = plane.situation(plane.main, *plane.beside.values())
    less = plane.situation(plane.main)
    for split in plane.splits.values():
        if split == ALL_TO_STABLE or split.mirrors:
            continue
        now = pristine.managed(split)
        assert plane.judged(now, now, split).live
        assert plane.judged(now, less.managed(split), split).live
        assert not plane.judged(now, pristine, split).live


@pytest.mark.parametrize("plane", [each for each in PLANES if each.provider is GATEWAY_API], ids=lambda each: each.name)
def test_a_weighted_rule_that_the_spec_does_not_name_is_the_users(plane: Plane) -> None:
    """Even if it has the very share that the split should have: it proves nothing."""
    users = {"name": "half", "matches": _at("/half"), "backendRefs": _to(("cart", 50), ("cart-canary", 50))}
    named = Plane("", GATEWAY_API, NAMED, _http_route, MAIN_RULE, {}, plane.answer, BY_WEIGHT)
    pristine = named.situation(users, MAIN_RULE)

    for percent in (0, 10, 50):
        split = share(percent)
        now = there(pristine, split)
        assert named.judged(now, now, split).live
        assert percent == 0 or not named.judged(now, pristine, split).live


@pytest.mark.parametrize("plane", [each for each in PLANES if each.provider is GATEWAY_API], ids=lambda each: each.name)
def test_a_rule_of_the_users_for_the_same_requests_hides_nothing(plane: Plane) -> None:
    """Two rules for all requests: the one that carries the split must be seen to do so, whatever the other does."""
    users = {"backendRefs": _to(("cart-canary", 1))}
    pristine = plane.situation(MAIN_RULE, users)
    now = pristine.managed(share(10))

    assert not plane.judged(now, pristine, share(10)).live
    assert not plane.judged(pristine, now, ALL_TO_STABLE).live


@pytest.mark.parametrize("plane", [each for each in PLANES if "header" in each.splits], ids=lambda plane: plane.name)
def test_a_header_route_that_outlived_its_step_is_no_rule_of_the_users(plane: Plane) -> None:
    """After an abort it still leads to pods that are about to go, though the user has a rule to the canary, too."""
    pristine = plane.situation(plane.main, *plane.beside.values())
    aborted = pristine.managed(plane.splits["header"])

    assert not plane.judged(pristine, aborted, ALL_TO_STABLE).live


OF_A_MESH = [
    {"match": [{"headers": {"x-tester": {"exact": "1"}}}], "route": [destination("cart-canary", 100)]},
    {"route": [destination(*each) for each in PAIR]},
]
BY_A_MESH = Situation.of(ISTIO, {"virtualService": {"name": "cart"}}, _object("VirtualService", {"http": OF_A_MESH}))


@pytest.mark.parametrize(
    ("counters", "situation"),
    [
        (Counters.CONTOUR, Situation.of(GATEWAY_API, ROUTES, _http_route(MAIN_RULE, OF_ROUTES[kind])))
        for kind in ("canary alone, by header", "stable alone", "mirror of another Service")
    ]
    + [(Counters.ISTIO, BY_A_MESH)],
)
def test_counters_cannot_tell_the_users_requests_from_the_splits(counters: Counters, situation: Situation) -> None:
    """So they are no evidence, for or against: after a while the settle time decides, and no update hangs."""
    found = judged_by_requests([], asked(situation, share(10)), counters, now_s=1_000.0)

    assert not found.evidence
    assert "a rule of the user's leads to one of its two Services" in found.message


def test_counters_of_a_route_without_such_rules_count() -> None:
    """A redirect and another Service are in no series of the two Services."""
    for kind in ("redirect", "another Service"):
        situation = Situation.of(GATEWAY_API, ROUTES, _http_route(MAIN_RULE, OF_ROUTES[kind]))

        found = judged_by_requests([], asked(situation, share(10)), Counters.CONTOUR, now_s=1_000.0)

        assert found.message == "no requests were counted since the last change"


def test_every_kind_of_route_that_is_asked_about_tells_its_rules() -> None:
    """A router that is asked by its configuration, and whose codec tells no rules, would judge rules of its users."""
    told = {each.provider.name for each in PLANES}
    without = {"traefik", "gloo", "skipper", "apisix", "istio", "nginx"}
    # A TraefikService has no rules, only weights; the others are not asked by their configuration.

    assert told | without == set(registry())


def test_copies_of_ours_are_no_rules_of_the_users() -> None:
    """The object has both, and only the ledger tells them apart."""
    pristine = Situation.of(GATEWAY_API, ROUTES, _http_route(OF_ROUTES["canary alone, by header"], MAIN_RULE))
    managed = pristine.managed(BY_HEADER["header"])
    rules = managed.provider.rules(managed.objects, managed.target, managed.context)

    assert [each.users for each in rules] == [True, False, False]


@pytest.mark.parametrize("part", [0, 5])
def test_an_entry_with_an_experiment_is_no_rule_of_the_users(part: int) -> None:
    """Whatever the pair gets in it: none of the user's rules has the Service of an Experiment."""
    split = Split(Fraction(0), experiments=(ExperimentShare("cart-try", Fraction(0)),))
    admin = TextMatch(MatchKind.PREFIX, "/admin")
    rules = [RuleSaid(users=True, requests=(RequestMatch(path=admin),), stable=Fraction(1))]
    main = Entry(where="main", group="all", stable=Fraction(100), experiments=(Fraction(0),))
    other = Entry(where="admin", group="all", path=admin, stable=Fraction(95), experiments=(Fraction(part),))

    assert judged([main, other], split, rules).live is not bool(part)
