"""Routes of the Gateway API as users write them and the API server gives them back: with its defaults filled in."""

from __future__ import annotations

from functools import cache

from hypothesis import strategies as st

from rollouts.core.model.traffic import Feature
from rollouts.objects import Manifest
from rollouts.traffic.gateway_api.codec import PROVIDER
from tests.traffic.cases.case import BOOLEANS, Case, Crd, metadata, one_more, other_spec, written

API_VERSION, MODULE = "gateway.networking.k8s.io/v1", "sigs.k8s.io/gateway-api@v1.6.1"
PATHS = st.sampled_from(
    [("PathPrefix", "/"), ("PathPrefix", "/cart"), ("Exact", "/cart/items"), ("PathPrefix", "/other")]
)
WEIGHTS = st.sampled_from([0, 1, 3, 50, 100, 200])
WEIGHTS_ALONE = st.sampled_from([1, 100])
PAIRS = st.sampled_from([(100, 0), (1, 0), (3, 1), (1, 1), (50, 50), (0, 7)])
BACKENDS = st.sampled_from(["pair", "pair", "pair", "stable", "foreign", "pair and foreign"])
REGIONS = st.sampled_from(["eu", "us"])


def backend(name: str, weight: int = 1) -> Manifest:
    """A Service as a backend, as it is given back."""
    return {"group": "", "kind": "Service", "name": name, "port": 80, "weight": weight}


@cache
@st.composite
def _backends(draw: st.DrawFn) -> list[Manifest]:
    kind = draw(BACKENDS)
    foreign = [backend("legacy", draw(WEIGHTS))]
    stable, canary = draw(PAIRS)
    match kind:
        case "pair":
            found = [backend("cart", stable), backend("cart-canary", canary)]
        case "stable":
            found = [backend("cart", draw(WEIGHTS_ALONE))]
        case "foreign":
            return foreign
        case _:
            found = [backend("cart", 100), backend("cart-canary", 0), *foreign]
    return list(draw(st.permutations(found)))


@cache
@st.composite
def _matches(draw: st.DrawFn, kind: str) -> list[Manifest]:
    headers = [{"type": "Exact", "name": "X-Region", "value": draw(REGIONS)}]
    match: Manifest = {}
    if kind == "HTTPRoute":
        path = draw(PATHS)
        match["path"] = {"type": path[0], "value": path[1]}
    if not match or draw(BOOLEANS):
        match["headers"] = headers
    return [match]


@cache
def _lists_of_matches(kind: str) -> st.SearchStrategy[list[list[Manifest]]]:
    return st.lists(_matches(kind), min_size=kind == "HTTPRoute", max_size=2)


@cache
@st.composite
def _rules(draw: st.DrawFn, kind: str) -> list[Manifest]:
    most = 1 if kind in ("TCPRoute", "TLSRoute") else 3
    rules: list[Manifest] = []
    for at in range(draw(st.integers(1, most))):
        rule: Manifest = {"backendRefs": draw(_backends())}
        if most > 1:
            matches = draw(_lists_of_matches(kind))
            rule |= {"matches": [each for some in matches for each in some]} if matches else {}
            if draw(BOOLEANS):
                rule["filters"] = [
                    {"type": "RequestHeaderModifier", "requestHeaderModifier": {"set": [{"name": "a", "value": "b"}]}}
                ]
            if kind == "HTTPRoute" and draw(BOOLEANS):
                rule["timeouts"] = {"request": "10s"}
        if draw(BOOLEANS):
            rule["name"] = f"rule-{at}"
        rules.append(rule)
    if not any(each["name"] == "cart" for rule in rules for each in rule["backendRefs"]):
        rules[0]["backendRefs"] = [backend("cart", 1), backend("cart-canary", 0)]
    if kind == "HTTPRoute":  # one that every request could be for, so that no managed route is for nobody
        rules[-1]["matches"] = [{"path": {"type": "PathPrefix", "value": "/"}}]
        rules[-1]["backendRefs"] = [backend("cart", 100), backend("cart-canary", 0)]
    return rules


def _spec(kind: str, parent: Manifest, rules: list[Manifest]) -> Manifest:
    hosts = {"hostnames": ["cart.example.com"]} if kind != "TCPRoute" else {}
    return {"parentRefs": [parent], **hosts, "rules": rules}


@st.composite
def _routes(draw: st.DrawFn, kind: str) -> Manifest:
    parent = {"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "web"}
    there = written(kind, API_VERSION, _spec(kind, parent, draw(_rules(kind))), draw(metadata("cart")))
    return {**there, "status": {"parents": []}}


A_RULE = {"matches": [{"path": {"type": "Exact", "value": "/health"}}], "backendRefs": [backend("legacy", 1)]}


def _case(kind: str, field: str, plural: str, features: frozenset[Feature]) -> Case:
    rule: Manifest = {"backendRefs": [backend("cart", 100), backend("cart-canary", 0), backend("legacy", 0)]}
    if kind == "HTTPRoute":
        rule["matches"] = [{"path": {"type": "PathPrefix", "value": "/"}}]
    one = (one_more("rules", A_RULE),) if Feature.HEADER in features else ()
    return Case(
        name=kind,
        provider=PROVIDER,
        settings={field: [{"name": "cart"}]},
        users=_routes(kind),
        example=written(kind, API_VERSION, _spec(kind, {"name": "web"}, [rule])),
        crds=(Crd(MODULE, f"config/crd/standard/gateway.networking.k8s.io_{plural}.yaml"),),
        strangers=(other_spec("hostnames", ["a.example.com"]), *one),
        features=features,
    )


_GRPC = frozenset(Feature) - {Feature.SEVERAL_COOKIES, Feature.COOKIE, Feature.QUERY, Feature.METHOD, Feature.PATH}
_TCP = frozenset({Feature.EXPERIMENT})
CASES = (
    _case(
        "HTTPRoute", "httpRoutes", "httproutes", _GRPC | {Feature.COOKIE, Feature.QUERY, Feature.METHOD, Feature.PATH}
    ),
    _case("GRPCRoute", "grpcRoutes", "grpcroutes", _GRPC),
    _case("TLSRoute", "tlsRoutes", "tlsroutes", _TCP),
    _case("TCPRoute", "tcpRoutes", "tcproutes", _TCP),
)
