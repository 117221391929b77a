"""Objects of Istio, Traefik and Contour as users write them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from rollouts.core.model.traffic import Feature
from rollouts.objects import Manifest
from rollouts.traffic import traefik
from rollouts.traffic.contour import codec as contour
from rollouts.traffic.istio import codec as istio
from tests.traffic.cases.case import BOOLEANS, EXPERIMENTS, Case, Crd, metadata, one_more, other_spec, written

PAIRS = st.sampled_from([(100, 0), (1, 0), (3, 1), (50, 50), (0, 7)])
SUFFIXES = st.sampled_from(["", ".shop", ".shop.svc.cluster.local"])
SEVERAL = st.integers(1, 3)
DESTINATIONS = st.sampled_from(["pair", "pair", "alone", "foreign", "both"])
SERVICES_OF_ONE = st.sampled_from(["pair", "alone", "both"])
SERVICES = st.sampled_from(["pair", "pair", "alone", "both"])
ISTIO = "networking.istio.io/v1"


def _destination(host: str, weight: int) -> Manifest:
    return {"destination": {"host": host, "port": {"number": 80}}, "weight": weight}


def _pair_of(suffix: str = "", stable: int = 100, canary: int = 0) -> list[Manifest]:
    return [_destination(f"cart{suffix}", stable), _destination(f"cart-canary{suffix}", canary)]


@st.composite
def _virtual_services(draw: st.DrawFn) -> Manifest:
    suffix = draw(SUFFIXES)
    http: list[Manifest] = []
    for at in range(draw(SEVERAL)):
        stable, canary = draw(PAIRS)
        routes = {
            "pair": [_destination(f"cart{suffix}", stable), _destination(f"cart-canary{suffix}", canary)],
            "alone": [{"destination": {"host": f"cart{suffix}"}}],
            "foreign": [_destination("cart.elsewhere", 100)],
            "both": [*_pair_of(suffix, 90), _destination("legacy", 10)],
        }
        rule: Manifest = {"route": routes[draw(DESTINATIONS)]}
        if draw(BOOLEANS):
            rule["match"] = [{"uri": {"prefix": f"/{at}"}}, {"headers": {"X-Region": {"exact": "eu"}}}]
        if draw(BOOLEANS):
            rule |= {"name": f"r{at}", "timeout": "5s"}
        http.append(rule)
    if not any(each["destination"]["host"] == f"cart{suffix}" for rule in http for each in rule["route"]):
        http[0]["route"] = _pair_of(suffix)
    spec: Manifest = {"hosts": ["cart.example.com"], "http": http}
    if draw(BOOLEANS):
        spec["tls"] = [{"match": [{"sniHosts": ["a.example.com"], "port": 443}], "route": _pair_of(suffix)}]
    return written("VirtualService", ISTIO, spec, draw(metadata("cart")))


_VIRTUAL_SERVICES = _virtual_services()


class _Istio(Case):
    """A destination tells the two apart by the first part of its host."""

    def _role(self, value: Any) -> str | None:
        host = str(value.get("destination", {}).get("host", "")) if isinstance(value, dict) else ""
        service, _, namespace = host.partition(".")
        known = service in (*self.roles, *EXPERIMENTS)
        return service if known and namespace.split(".")[0] in ("", "shop") else None


@st.composite
def _subset_services(draw: st.DrawFn) -> Manifest:
    """Between subsets of host cart; a subset of the same name on another host is somebody else's."""
    user = draw(_VIRTUAL_SERVICES)
    for kind in ("http", "tls"):
        for rule in user["spec"].get(kind, ()):
            for each in rule["route"]:
                each["destination"] = _of_subset(each["destination"])
    if draw(BOOLEANS):
        other = {"destination": {"host": "catalog", "subset": "stable"}, "weight": 100}
        user["spec"]["http"].append({"match": [{"uri": {"prefix": "/catalog"}}], "route": [other]})
    return user


def _of_subset(destination: Manifest) -> Manifest:
    host, _, rest = destination["host"].partition(".")
    if host not in ("cart", "cart-canary") or rest.startswith("elsewhere"):
        return destination
    subset = "canary" if host == "cart-canary" else "stable"
    return {**destination, "host": f"cart.{rest}" if rest else "cart", "subset": subset}


class _Subsets(Case):
    """A destination tells the two apart by host and subset."""

    def _role(self, value: Any) -> str | None:
        destination = value.get("destination", {}) if isinstance(value, dict) else {}
        service, _, namespace = str(destination.get("host", "")).partition(".")
        name = service if service in EXPERIMENTS else f"{service}/{destination.get('subset')}"
        return name if name in (*self.roles, *EXPERIMENTS) and namespace.split(".")[0] in ("", "shop") else None


def _service(name: str, weight: int) -> Manifest:
    return {"name": name, "port": 80, "weight": weight}


_PAIR = [_service("cart", 100), _service("cart-canary", 0)]


@st.composite
def _traefik_services(draw: st.DrawFn) -> Manifest:
    stable, canary = draw(PAIRS)
    pair = [{**_service("cart", stable), "kind": "Service"}, _service("cart-canary", canary)]
    kind = draw(SERVICES_OF_ONE)
    services = pair[:1] if kind == "alone" and stable else pair
    services += [{**_service("cart", 1), "kind": "TraefikService"}] if kind == "both" else []
    weighted: Manifest = {"services": list(draw(st.permutations(services)))}
    if draw(BOOLEANS):
        weighted["sticky"] = {"cookie": {"name": "lb"}}
    return written("TraefikService", "traefik.io/v1alpha1", {"weighted": weighted}, draw(metadata("cart")))


class _Traefik(Case):
    """A TraefikService of the same name is somebody else."""

    def _role(self, value: Any) -> str | None:
        return super()._role(value) if isinstance(value, dict) and value.get("kind") != "TraefikService" else None


@st.composite
def _http_proxies(draw: st.DrawFn) -> Manifest:
    routes: list[Manifest] = []
    for at in range(draw(SEVERAL)):
        stable, canary = draw(PAIRS)
        services = {
            "pair": [_service("cart", stable), _service("cart-canary", canary)],
            "alone": [{"name": "cart", "port": 80}],
            "both": [*_PAIR, {"name": "copies", "port": 80, "mirror": True}],
        }[draw(SERVICES)]
        path = f"/{at}" if at else "/"
        routes.append({"conditions": [{"prefix": path}], "services": services, "timeoutPolicy": {"response": "5s"}})
    spec = {"virtualhost": {"fqdn": "cart.example.com"}, "routes": routes}
    return written("HTTPProxy", "projectcontour.io/v1", spec, draw(metadata("cart")))


class _HttpProxy(Case):
    """A service with `mirror: true` is no backend."""

    def _backends(self, rule: Any) -> list[Manifest]:
        return [each for each in super()._backends(rule) if not each.get("mirror")]


def _virtual_service(*route: Manifest) -> Manifest:
    return written("VirtualService", ISTIO, {"hosts": ["a.example.com"], "http": [{"route": list(route)}]})


_MINE = {"name": "mine", "match": [{"uri": {"exact": "/me"}}], "route": [_destination("legacy", 1)]}
_ONE_COOKIE = frozenset(Feature) - {Feature.SEVERAL_COOKIES}
_OF_ISTIO = Crd("istio.io/api@v1.28.0", "kubernetes/customresourcedefinitions.gen.yaml")
_OF_TRAEFIK = "docs/content/reference/dynamic-configuration/traefik.io_traefikservices.yaml"
_PROXY = {"virtualhost": {"fqdn": "a.example.com"}, "routes": [{"conditions": [{"prefix": "/"}], "services": _PAIR}]}
CASES: tuple[Case, ...] = (
    _Istio(
        name="VirtualService", provider=istio.PROVIDER, settings={"virtualService": {"name": "cart"}},
        users=_virtual_services(), example=_virtual_service(*_pair_of()), crds=(_OF_ISTIO,), features=_ONE_COOKIE,
        strangers=(other_spec("gateways", ["web"]), one_more("http", _MINE)),
    ),
    _Subsets(
        name="VirtualService with subsets", provider=istio.PROVIDER, settings={"virtualService": {"name": "cart"}},
        users=_subset_services(), crds=(_OF_ISTIO,), features=_ONE_COOKIE,
        example=_virtual_service(*({**each, "destination": _of_subset(each["destination"])} for each in _pair_of())),
        roles=("cart/stable", "cart/canary"), pair=("cart/stable", "cart/canary"),
        strangers=(other_spec("gateways", ["web"]),),
    ),
    _Traefik(
        name="TraefikService", provider=traefik.PROVIDER, settings={"weightedTraefikServiceName": "cart"},
        users=_traefik_services(),
        example=written("TraefikService", "traefik.io/v1alpha1", {"weighted": {"services": _PAIR}}),
        crds=(Crd("github.com/traefik/traefik/v3@v3.7.12", _OF_TRAEFIK),),
        strangers=(other_spec("mirroring", {"name": "x"}),), features=frozenset({Feature.EXPERIMENT}),
    ),
    _HttpProxy(
        name="HTTPProxy", provider=contour.PROVIDER, settings={"httpProxies": [{"name": "cart"}]},
        users=_http_proxies(), example=written("HTTPProxy", "projectcontour.io/v1", _PROXY),
        crds=(Crd("github.com/projectcontour/contour@v1.33.8", "examples/contour/01-crds.yaml"),),
        strangers=(
            other_spec("ingressClassName", "contour"),
            one_more("routes", {"conditions": [{"prefix": "/me"}], "services": [_service("legacy", 1)]}),
        ),
        features=frozenset(Feature) - {Feature.METHOD},
    ),
)  # fmt: skip
