"""Objects of the NGINX dialect, of AWS's ALB, Skipper, APISIX and Gloo as users write them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from hypothesis import strategies as st

from rollouts.core.model.traffic import Feature
from rollouts.objects import Manifest
from rollouts.traffic import apisix, gloo, skipper
from rollouts.traffic.alb import codec as alb
from rollouts.traffic.codec import LEDGER, Objects
from rollouts.traffic.nginx import codec as nginx
from tests.traffic.cases.case import BOOLEANS, CART, EXPERIMENTS, SHARES, Case, Crd, metadata, other_spec, written

PAIRS = st.sampled_from([(100, 0), (1, 0), (3, 1), (50, 50), (0, 7)])
ONE_OR_TWO = st.integers(1, 2)
ONE_TO_THREE = st.integers(1, 3)
BACKENDS = st.sampled_from(["pair", "pair", "alone", "both"])
INDENTS = st.sampled_from([None, 2])
ALB_ACTION = "alb.ingress.kubernetes.io/actions.cart"


def _path(service: str, path: str = "/", port: Any = None) -> Manifest:
    backend = {"service": {"name": service, "port": port or {"number": 80}}}
    return {"path": path, "pathType": "Prefix", "backend": backend}


MORE_PATHS = st.lists(st.sampled_from([_path("cart", "/items"), _path("legacy", "/old")]), max_size=2)


def _ingress(*paths: Manifest, metadata: Mapping[str, Any] = CART) -> Manifest:
    rules = [{"host": "cart.example.com", "http": {"paths": list(paths)}}]
    return written("Ingress", "networking.k8s.io/v1", {"ingressClassName": "web", "rules": rules}, metadata)


@st.composite
def _ingresses(draw: st.DrawFn) -> Manifest:
    more = draw(MORE_PATHS)
    return _ingress(_path("cart"), *more, metadata=draw(metadata("cart")))


def _other_host(user: Manifest) -> Manifest:
    rule = {"host": "other.example.com", "http": {"paths": [_path("cart")]}}
    return {**user, "spec": {**user["spec"], "rules": [*user["spec"]["rules"], rule]}}


class _Nginx(Case):
    """All of ours is in the object that we own."""

    def canary_only(self, objects: Objects) -> list[Any]:
        """The header's annotations, and what they are remembered by."""
        told = objects.owned["metadata"]["annotations"] if objects.owned else {}
        return [(name, text) for name, text in sorted(told.items()) if "header" in name or name == LEDGER]

    def pairs(self, objects: Objects) -> list[Any]:
        told = objects.owned["metadata"]["annotations"] if objects.owned else {}
        return [told.get("nginx.ingress.kubernetes.io/canary-weight", "0")]


@st.composite
def _alb_ingresses(draw: st.DrawFn) -> Manifest:
    found = _ingress(_path("cart", port={"name": "use-annotation"}), metadata=draw(metadata("cart")))
    if draw(BOOLEANS):
        stable, canary = draw(PAIRS)
        groups = [{"serviceName": "cart", "servicePort": "80", "weight": stable}]
        groups += [{"serviceName": "cart-canary", "servicePort": "80", "weight": canary}] if canary else []
        action = {"forwardConfig": {"targetGroups": groups}, "type": "forward"}
        text = json.dumps(action, indent=draw(INDENTS))
        found["metadata"].setdefault("annotations", {})[ALB_ACTION] = text
    return found


@st.composite
def _skipper_ingresses(draw: st.DrawFn) -> Manifest:
    paths = _path("cart"), _path("cart-canary"), _path("legacy", "/old")
    found = _ingress(*paths, metadata=draw(metadata("cart")))
    if draw(BOOLEANS):
        stable, canary = draw(PAIRS)
        text = json.dumps({"cart": stable, "cart-canary": canary}, indent=draw(INDENTS))
        found["metadata"].setdefault("annotations", {})[skipper.WEIGHTS] = text
    return found


class _InOneAnnotation(Case):
    """Everything of ours is one text."""

    def scrubbed(self, value: Any) -> Any:
        """Without that text."""
        meta = {name: part for name, part in value["metadata"].items() if name != "annotations"}
        ours = (ALB_ACTION, skipper.WEIGHTS, LEDGER)
        annotations = {k: v for k, v in value["metadata"].get("annotations", {}).items() if k not in ours}
        return {**value, "metadata": {**meta, "annotations": annotations}}

    def reweighed(self, value: Any) -> Any:
        """With that text changed."""
        annotations = value["metadata"].get("annotations", {})
        mine = {name: f"{text}\n" for name, text in annotations.items() if name in (ALB_ACTION, skipper.WEIGHTS)}
        return {**value, "metadata": {**value["metadata"], "annotations": {**annotations, **mine}}}

    def pairs(self, objects: Objects) -> list[Any]:
        told = objects.user["metadata"].get("annotations", {})
        return [told.get(ALB_ACTION), told.get(skipper.WEIGHTS)]


def _backend(name: str, weight: int | None) -> Manifest:
    return {"serviceName": name, "servicePort": 80, **({} if weight is None else {"weight": weight})}


@st.composite
def _apisix_routes(draw: st.DrawFn) -> Manifest:
    http: list[Manifest] = []
    for at in range(draw(ONE_TO_THREE)):
        stable, canary = draw(PAIRS)
        backends = {
            "pair": [_backend("cart", stable), _backend("cart-canary", canary)],
            "alone": [_backend("cart", None)],
            "both": [_backend("cart", 90), _backend("cart-canary", 0), _backend("legacy", 10)],
        }[draw(BACKENDS)]
        match: Manifest = {"hosts": ["a.example.com"], "paths": [f"/{at}/*"]}
        if draw(BOOLEANS):
            match["exprs"] = [{"subject": {"scope": "Header", "name": "X-Region"}, "op": "Equal", "value": "eu"}]
        http.append({"name": f"r{at}", "match": match, "backends": backends, **({"priority": 3} if at else {})})
    return written("ApisixRoute", "apisix.apache.org/v2", {"http": http}, draw(metadata("cart")))


class _Gloo(Case):
    """A destination tells the two apart deep inside."""

    def _role(self, value: Any) -> str | None:
        destination = value.get("destination") if isinstance(value, dict) else None
        name = destination["kube"]["ref"]["name"] if isinstance(destination, dict) else None
        return name if name in (*self.roles, *EXPERIMENTS) else None


def _kube(name: str, weight: int) -> Manifest:
    return {"destination": {"kube": {"ref": {"name": name, "namespace": "shop"}, "port": 80}}, "weight": weight}


@st.composite
def _route_tables(draw: st.DrawFn) -> Manifest:
    routes: list[Manifest] = [
        {"matchers": [{"prefix": "/old"}], "routeAction": {"single": _kube("legacy", 1)["destination"]}}
    ]
    for at in range(draw(ONE_OR_TWO)):
        stable, canary = draw(PAIRS)
        destinations = [_kube("cart", stable), _kube("cart-canary", canary)]
        multi = {"destinations": list(draw(st.permutations(destinations)))}
        routes.append(
            {"matchers": [{"prefix": f"/{at}"}], "routeAction": {"multi": multi}, "options": {"timeout": "5s"}}
        )
    return written("RouteTable", "gateway.solo.io/v1", {"routes": routes}, draw(metadata("cart")))


_RULE = {
    "name": "all",
    "match": {"hosts": ["cart.example.com"], "paths": ["/*"]},
    "backends": [_backend("cart", 100), _backend("cart-canary", 0), _backend("legacy", 0)],
}
_ROUTE = {
    "matchers": [{"prefix": "/"}],
    "routeAction": {"multi": {"destinations": [_kube("cart", 100), _kube("cart-canary", 0)]}},
}
CASES: tuple[Case, ...] = (
    _Nginx(name="nginx", provider=nginx.PROVIDER, settings={"stableIngress": "cart"}, users=_ingresses(),
        example=_ingress(_path("cart")), strangers=(_other_host,), features=frozenset({Feature.HEADER, Feature.HEADER_REGEX}),
        shares=SHARES | st.sampled_from([Fraction(1, 1000), Fraction(1, 3)]), keeps_user_as_is=True),
    _InOneAnnotation(name="alb", provider=alb.PROVIDER, settings={"ingress": "cart", "servicePort": 80},
        users=_alb_ingresses(), example=_ingress(_path("cart", port={"name": "use-annotation"})),
        strangers=(_other_host,)),
    _InOneAnnotation(name="skipper", provider=skipper.PROVIDER, settings={"ingress": "cart"},
        users=_skipper_ingresses(), example=_ingress(_path("cart"), _path("cart-canary")),
        strangers=(other_spec("tls", [{"hosts": ["a.example.com"]}]),)),
    Case(
        name="ApisixRoute", provider=apisix.PROVIDER, settings={"route": {"name": "cart"}}, users=_apisix_routes(),
        example=written("ApisixRoute", "apisix.apache.org/v2", {"http": [_RULE]}),
        crds=(Crd("github.com/apache/apisix-ingress-controller@v1.8.4", "samples/deploy/crd/v1/ApisixRoute.yaml"),),
        names=frozenset({"serviceName"}), strangers=(other_spec("ingressClassName", "apisix"),),
        features=frozenset(Feature) - {Feature.PATH, Feature.METHOD, Feature.MIRROR, Feature.MIRROR_PERCENT},
    ),
    _Gloo(
        name="RouteTable", provider=gloo.PROVIDER, settings={"routeTables": [{"name": "cart"}]}, users=_route_tables(),
        example=written("RouteTable", "gateway.solo.io/v1", {"routes": [_ROUTE]}),
        crds=(Crd("github.com/solo-io/solo-apis@v1.6.31", "crds/gateway.solo.io_v1_crds.yaml"),),
        strangers=(other_spec("weight", 3),), features=frozenset({Feature.EXPERIMENT}),
    ),
)  # fmt: skip
