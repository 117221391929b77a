"""Objects of Istio, Traefik and Contour as users write them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from rollouts.core.model.traffic import Feature
from rollouts.objects import Manifest
from rollouts.traffic import traefik
from rollouts.traffic.contour import codec as contour
from rollouts.traffic.istio import codec as istio
from tests.traffic.cases.case import BOOLEANS, Case, Crd, metadata

PAIRS = st.sampled_from([(100, 0), (1, 0), (3, 1), (50, 50), (0, 7)])
SUFFIXES = st.sampled_from(["", ".shop", ".shop.svc.cluster.local"])
SEVERAL = st.integers(1, 3)
DESTINATIONS = st.sampled_from(["pair", "pair", "alone", "foreign", "both"])
SERVICES_OF_ONE = st.sampled_from(["pair", "alone", "both"])
SERVICES = st.sampled_from(["pair", "pair", "alone", "both"])


def _destination(host: str, weight: int) -> Manifest:
    return {"destination": {"host": host, "port": {"number": 80}}, "weight": weight}


@st.composite
def _virtual_services(draw: st.DrawFn) -> Manifest:
    suffix = draw(SUFFIXES)
    http: list[Manifest] = []
    for at in range(draw(SEVERAL)):
        stable, canary = draw(PAIRS)
        route = [_destination(f"cart{suffix}", stable), _destination(f"cart-canary{suffix}", canary)]
        kind = draw(DESTINATIONS)
        if kind == "alone":
            route = [{"destination": {"host": f"cart{suffix}"}}]
        elif kind == "foreign":
            route = [_destination("cart.elsewhere", 100)]
        elif kind == "both":
            route = [
                _destination(f"cart{suffix}", 90),
                _destination(f"cart-canary{suffix}", 0),
                _destination("legacy", 10),
            ]
        rule: Manifest = {"route": route}
        if draw(BOOLEANS):
            rule["match"] = [{"uri": {"prefix": f"/{at}"}}, {"headers": {"X-Region": {"exact": "eu"}}}]
        if draw(BOOLEANS):
            rule |= {"name": f"r{at}", "timeout": "5s"}
        http.append(rule)
    if not any(each["destination"]["host"] == f"cart{suffix}" for rule in http for each in rule["route"]):
        http[0]["route"] = [_destination(f"cart{suffix}", 100), _destination(f"cart-canary{suffix}", 0)]
    spec: Manifest = {"hosts": ["cart.example.com"], "http": http}
    if draw(BOOLEANS):
        tls = [_destination(f"cart{suffix}", 100), _destination(f"cart-canary{suffix}", 0)]
        spec["tls"] = [{"match": [{"sniHosts": ["a.example.com"], "port": 443}], "route": tls}]
    return {
        "apiVersion": "networking.istio.io/v1",
        "kind": "VirtualService",
        "metadata": draw(metadata("cart")),
        "spec": spec,
    }


_VIRTUAL_SERVICES = _virtual_services()


class _Istio(Case):
    """A destination tells the two apart by the first part of its host."""

    def _role(self, value: Any) -> str | None:
        host = str(value.get("destination", {}).get("host", "")) if isinstance(value, dict) else ""
        service, _, namespace = host.partition(".")
        return service if service in self.roles and namespace.split(".")[0] in ("", "shop") else None


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
        name = f"{service}/{destination.get('subset')}"
        return name if name in self.roles and namespace.split(".")[0] in ("", "shop") else None


def _service(name: str, weight: int) -> Manifest:
    return {"name": name, "port": 80, "weight": weight}


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
    return {
        "apiVersion": "traefik.io/v1alpha1",
        "kind": "TraefikService",
        "metadata": draw(metadata("cart")),
        "spec": {"weighted": weighted},
    }


class _Traefik(Case):
    """A TraefikService of the same name is somebody else."""

    def _role(self, value: Any) -> str | None:
        return super()._role(value) if isinstance(value, dict) and value.get("kind") != "TraefikService" else None


@st.composite
def _http_proxies(draw: st.DrawFn) -> Manifest:
    routes: list[Manifest] = []
    for at in range(draw(SEVERAL)):
        stable, canary = draw(PAIRS)
        services = [_service("cart", stable), _service("cart-canary", canary)]
        kind = draw(SERVICES)
        if kind == "alone":
            services = [{"name": "cart", "port": 80}]
        elif kind == "both":
            services = [
                _service("cart", 100),
                _service("cart-canary", 0),
                {"name": "copies", "port": 80, "mirror": True},
            ]
        path = f"/{at}" if at else "/"
        routes.append({"conditions": [{"prefix": path}], "services": services, "timeoutPolicy": {"response": "5s"}})
    return {
        "apiVersion": "projectcontour.io/v1",
        "kind": "HTTPProxy",
        "metadata": draw(metadata("cart")),
        "spec": {"virtualhost": {"fqdn": "cart.example.com"}, "routes": routes},
    }


class _HttpProxy(Case):
    """A service with `mirror: true` is no backend."""

    def _backends(self, rule: Any) -> list[Manifest]:
        return [each for each in super()._backends(rule) if not each.get("mirror")]


def _other_spec(name: str, value: Any) -> Any:
    """An edit of a field of the spec that is not ours."""

    def edit(user: Manifest) -> Manifest:
        return {**user, "spec": {**user["spec"], name: value}}

    return edit


def _more_routes(field: str, route: Manifest) -> Any:
    def edit(user: Manifest) -> Manifest:
        return {**user, "spec": {**user["spec"], field: [*user["spec"][field], route]}}

    return edit


def _example(kind: str, api_version: str, spec: Manifest) -> Manifest:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "cart"}, "spec": spec}


_ISTIO_PAIR = [_destination("cart", 100), _destination("cart-canary", 0)]
_PAIR = [_service("cart", 100), _service("cart-canary", 0)]
CASES: tuple[Case, ...] = (
    _Istio(
        name="VirtualService", provider=istio.PROVIDER, settings={"virtualService": {"name": "cart"}},
        users=_virtual_services(),
        example=_example(
            "VirtualService", "networking.istio.io/v1", {"hosts": ["a.example.com"], "http": [{"route": _ISTIO_PAIR}]},
        ),
        crds=(Crd("istio.io/api@v1.28.0", "kubernetes/customresourcedefinitions.gen.yaml"),),
        strangers=(
            _other_spec("gateways", ["web"]),
            _more_routes(
                "http", {"name": "mine", "match": [{"uri": {"exact": "/me"}}], "route": [_destination("legacy", 1)]},
            ),
        ),
        features=frozenset(Feature) - {Feature.SEVERAL_COOKIES},
    ),
    _Subsets(
        name="VirtualService with subsets", provider=istio.PROVIDER, settings={"virtualService": {"name": "cart"}},
        users=_subset_services(),
        example=_example(
            "VirtualService", "networking.istio.io/v1",
            {
                "hosts": ["a.example.com"],
                "http": [{"route": [{**each, "destination": _of_subset(each["destination"])} for each in _ISTIO_PAIR]}],
            },
        ),
        crds=(Crd("istio.io/api@v1.28.0", "kubernetes/customresourcedefinitions.gen.yaml"),),
        roles=("cart/stable", "cart/canary"), pair=("cart/stable", "cart/canary"),
        strangers=(_other_spec("gateways", ["web"]),), features=frozenset(Feature) - {Feature.SEVERAL_COOKIES},
    ),
    _Traefik(
        name="TraefikService", provider=traefik.PROVIDER, settings={"weightedTraefikServiceName": "cart"},
        users=_traefik_services(),
        example=_example("TraefikService", "traefik.io/v1alpha1", {"weighted": {"services": _PAIR}}),
        crds=(
            Crd(
                "github.com/traefik/traefik/v3@v3.7.12",
                "docs/content/reference/dynamic-configuration/traefik.io_traefikservices.yaml",
            ),
        ),
        strangers=(_other_spec("mirroring", {"name": "x"}),),
    ),
    _HttpProxy(
        name="HTTPProxy", provider=contour.PROVIDER, settings={"httpProxies": [{"name": "cart"}]},
        users=_http_proxies(),
        example=_example(
            "HTTPProxy", "projectcontour.io/v1",
            {
                "virtualhost": {"fqdn": "a.example.com"},
                "routes": [{"conditions": [{"prefix": "/"}], "services": _PAIR}],
            },
        ),
        crds=(Crd("github.com/projectcontour/contour@v1.33.8", "examples/contour/01-crds.yaml"),),
        strangers=(
            _other_spec("ingressClassName", "contour"),
            _more_routes("routes", {"conditions": [{"prefix": "/me"}], "services": [_service("legacy", 1)]}),
        ),
        features=frozenset(Feature) - {Feature.METHOD},
    ),
)  # fmt: skip
