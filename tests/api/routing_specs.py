"""Specs with traffic routing: good ones, and one bad one for every rule."""

from __future__ import annotations

from typing import Any

from tests.api.specs import Bad, Spec, canary, late, step

GATEWAY = {"httpRoutes": [{"name": "cart"}]}
SUBSETS = {
    "virtualService": {"name": "cart"},
    "destinationRule": {"name": "cart-rule", "stableSubsetName": "stable", "canarySubsetName": "canary"},
}
ROUTING = "spec.strategy.canary.trafficRouting"
_CANARY = "spec.strategy.canary"
_STEP = f"{_CANARY}.steps[0]"
_EXACT = {"exact": "yes"}


def routed(steps: list[Any] | None = None, **routing: Any) -> Spec:
    """A canary with two Services and these routers, by default one HTTPRoute."""
    return canary(
        stableService="cart",
        canaryService="cart-canary",
        trafficRouting=routing or {"gatewayAPI": GATEWAY},
        **({} if steps is None else {"steps": steps}),
    )


def route_step(**kinds: Any) -> Spec:
    """One step that makes the managed route `beta`, by a router."""
    return routed([kinds], gatewayAPI=GATEWAY, managedRoutes=[{"name": "beta"}])


def _header(*matches: Any) -> Spec:
    return route_step(setHeaderRoute={"name": "beta", "match": list(matches)})


def _mirror(**fields: Any) -> Spec:
    return route_step(setMirrorRoute={"name": "beta", **fields})


def _own(**changes: Any) -> Spec:
    """A route that we are to make, with fields that are changed; one that is changed to None is left out."""
    route = {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": {"name": "cart"},
        "spec": {"rules": []},
        **changes,
    }
    return routed(gatewayAPI=GATEWAY, own=[{name: part for name, part in route.items() if part is not None}])


_OWN = f"{ROUTING}.own[0]"

_MATCH = f"{_STEP}.setHeaderRoute.match[0]"
_MIRRORED = f"{_STEP}.setMirrorRoute.match[0]"

WORDS_BAD = (
    late("managed route on two lines", routed(gatewayAPI=GATEWAY, managedRoutes=[{"name": "a\nb"}]),
        f"{ROUTING}.managedRoutes[0].name", "one line"),
    late("header with a space in its name", _header({"headerName": "x y", "headerValue": _EXACT}),
        f"{_MATCH}.headerName", "'x y' is not a valid header name (RFC 9110)"),
    late("header value on two lines", _header({"headerName": "x", "headerValue": {"exact": "a\n}"}}),
        f"{_MATCH}.headerValue.exact", "one line"),
    late("regular expression with a control character", _header({"headerName": "x", "headerValue": {"regex": "a\x07b"}}),
        f"{_MATCH}.headerValue.regex", "one line"),
    late("cookie with a semicolon in its name", _header({"cookieName": "a;b", "cookieValue": _EXACT}),
        f"{_MATCH}.cookieName", "is not a valid cookie name (RFC 6265)"),
    late("query parameter on two lines", _header({"queryParamName": "a\r\nb", "queryParamValue": _EXACT}),
        f"{_MATCH}.queryParamName", "one line"),
    late("path without a slash", _header({"path": {"prefix": "cart"}}), f"{_MATCH}.path.prefix", "must begin with /"),
    late("method of two words", _header({"method": {"exact": "GET x"}}), f"{_MATCH}.method.exact",
        "is not a valid HTTP method (RFC 9110)"),
    late("mirrored header with a colon in its name", _mirror(match=[{"headers": {"x:": _EXACT}}]),
        f"{_MIRRORED}.headers[x:]", "is not a valid header name"),
    late("mirrored cookie with a space in its name", _mirror(match=[{"cookies": {"a b": _EXACT}}]),
        f"{_MIRRORED}.cookies[a b]", "is not a valid cookie name"),
    late("mirrored query value on two lines", _mirror(match=[{"queryParams": {"v": {"exact": "\u2028"}}}]),
        f"{_MIRRORED}.queryParams.v.exact", "one line"),
    late("mirrored path without a slash", _mirror(match=[{"path": {"exact": "api"}}]), f"{_MIRRORED}.path.exact",
        "must begin with /"),
)  # fmt: skip
"""Words of a spec that go into routers' objects, and from there into the configuration of proxies."""

ROUTING_BAD = (
    *WORDS_BAD,
    Bad("own route without a kind", _own(kind=None), f"{_OWN}.kind", "required"),
    Bad("own route without a spec", _own(spec=None), f"{_OWN}.spec", "required"),
    Bad("own route without metadata", _own(metadata=None), f"{_OWN}.metadata", "required"),
    late("own route without a name", _own(metadata={}), f"{_OWN}.metadata.name", "required"),
    late("own route with a status", _own(status={}), f"{_OWN}.status", "allowed are apiVersion"),
    late("own route with finalizers", _own(metadata={"name": "cart", "finalizers": ["a.io/b"]}),
        f"{_OWN}.metadata.finalizers", "allowed are name, namespace"),
    late("own route with a label of ours", _own(metadata={"name": "cart", "labels": {"rollouts.dev/managed": "true"}}),
        f"{_OWN}.metadata.labels[rollouts.dev/managed]", "the controller sets"),
    late(
        "own route with a snippet",
        _own(metadata={"name": "cart", "annotations": {"nginx.ingress.kubernetes.io/server-snippet": "x"}}),
        f"{_OWN}.metadata.annotations[nginx.ingress.kubernetes.io/server-snippet]",
        "to the configuration of every route",
    ),
    Bad("own route with a number for an annotation", _own(metadata={"name": "cart", "annotations": {"a": 1}}),
        f"{_OWN}.metadata.annotations.a", "not a string"),
    late("router without the stable Service",
        canary(canaryService="cart-canary", trafficRouting={"gatewayAPI": GATEWAY}), f"{_CANARY}.stableService",
        "is required with trafficRouting.gatewayAPI"),
    late("plugin without the canary Service", canary(stableService="cart", trafficRouting={"plugins": {"mine": {}}}),
        f"{_CANARY}.canaryService", "is required with trafficRouting.mine"),
    late("router given twice", routed(gatewayAPI=GATEWAY, plugins={"gatewayAPI": GATEWAY}),
        f"{ROUTING}.plugins.gatewayAPI", "too"),
    late("ambassador", routed(ambassador={"mappings": ["a"]}), f"{ROUTING}.ambassador", "gatewayAPI"),
    late("app mesh", routed(appMesh={"virtualService": {"name": "a"}}), f"{ROUTING}.appMesh", "gatewayAPI"),
    late("smi", routed(smi={}), f"{ROUTING}.smi", "gatewayAPI"),
    Bad("no parts at all", routed(gatewayAPI=GATEWAY, maxTrafficWeight=0), f"{ROUTING}.maxTrafficWeight", "from 1 to 1000000"),
    late("too many parts", routed(gatewayAPI=GATEWAY, maxTrafficWeight=1_000_001), f"{ROUTING}.maxTrafficWeight",
        "from 1 to 1000000"),
    Bad("weight above its total", routed([{"setWeight": 11}], gatewayAPI=GATEWAY, maxTrafficWeight=10),
        f"{_STEP}.setWeight", "10 or less"),
    Bad("managed route without a name", routed(gatewayAPI=GATEWAY, managedRoutes=[{}]),
        f"{ROUTING}.managedRoutes[0].name", "required"),
    late("managed route twice", routed(gatewayAPI=GATEWAY, managedRoutes=[{"name": "a"}, {"name": "a"}]),
        f"{ROUTING}.managedRoutes[1].name", "another"),
    Bad("header route without routing", step(setHeaderRoute={"name": "beta"}), f"{_STEP}.setHeaderRoute", "needs a router"),
    late("mirror route without a router",
        canary(steps=[{"setMirrorRoute": {"name": "beta"}}], trafficRouting={"managedRoutes": [{"name": "beta"}]}),
        f"{_STEP}.setMirrorRoute", "needs a router"),
    Bad("header route without a name", route_step(setHeaderRoute={}), f"{_STEP}.setHeaderRoute.name", "required"),
    late("header route that is not managed", route_step(setHeaderRoute={"name": "gamma"}),
        f"{_STEP}.setHeaderRoute.name", "not among"),
    late(
        "route of two kinds",
        routed(
            [{"setHeaderRoute": {"name": "beta"}}, {"setMirrorRoute": {"name": "beta"}}],
            gatewayAPI=GATEWAY,
            managedRoutes=[{"name": "beta"}],
        ),
        f"{_CANARY}.steps[1].setMirrorRoute.name",
        "can only be of one kind",
    ),
    Bad("header without a name", _header({"headerValue": _EXACT}), f"{_MATCH}.headerName", "required"),
    Bad("header without a value", _header({"headerName": "a"}), f"{_MATCH}.headerValue", "required"),
    late("header twice", _header({"headerName": "A", "headerValue": _EXACT}, {"headerName": "a", "headerValue": _EXACT}),
        f"{_STEP}.setHeaderRoute.match[1].headerName", "twice"),
    Bad("header value of no kind", _header({"headerName": "a", "headerValue": {}}), f"{_MATCH}.headerValue", "it has none"),
    Bad("header value of two kinds", _header({"headerName": "a", "headerValue": {"exact": "a", "regex": "b"}}),
        f"{_MATCH}.headerValue", "exact and regex"),
    late("mirror of nothing", _mirror(match=[{}], percentage=0), f"{_STEP}.setMirrorRoute.percentage", "from 1 to 100"),
    Bad("mirrored path of two kinds", _mirror(match=[{"path": {"exact": "/", "prefix": "/"}}]),
        f"{_MIRRORED}.path", "exact and prefix"),
    Bad("mirrored method of no kind", _mirror(match=[{"method": {}}]), f"{_MIRRORED}.method", "it has none"),
    Bad("condition of two kinds", _header({"cookieName": "beta", "cookieValue": _EXACT, "path": {"prefix": "/"}}),
        _MATCH, "it has cookieName and path"),
    Bad("condition of no kind", _header({}), _MATCH,
        "needs exactly one of headerName, cookieName, queryParamName, path, method; it has none"),
    Bad("cookie without a value", _header({"cookieName": "beta"}), f"{_MATCH}.cookieValue", "is required"),
    Bad("query parameter without a name", _header({"queryParamValue": _EXACT}), f"{_MATCH}.queryParamName", "is required"),
    Bad("path of no kind", _header({"path": {}}), f"{_MATCH}.path", "it has none"),
    late("method twice", _header({"method": {"exact": "GET"}}, {"method": {"exact": "PUT"}}),
        f"{_STEP}.setHeaderRoute.match[1].method", "twice"),
    late("cookie twice", _header({"cookieName": "a", "cookieValue": _EXACT}, {"cookieName": "a", "cookieValue": _EXACT}),
        f"{_STEP}.setHeaderRoute.match[1].cookieName", "'a' is given twice"),
    Bad("mirrored cookie of no kind", _mirror(match=[{"cookies": {"beta": {}}}]), f"{_MIRRORED}.cookies.beta", "it has none"),
    Bad("mirrored query parameter of two kinds", _mirror(match=[{"queryParams": {"v": {"exact": "1", "regex": "1"}}}]),
        f"{_MIRRORED}.queryParams.v", "exact and regex"),
    Bad("stickiness without a cookie", routed(gatewayAPI=GATEWAY, stickiness={"digits": "01"}),
        f"{ROUTING}.stickiness.cookieName", "is required"),
    late("stickiness by what is no cookie", routed(gatewayAPI=GATEWAY, stickiness={"cookieName": "a b"}),
        f"{ROUTING}.stickiness.cookieName", "is not a valid cookie name"),
    late("stickiness by uneven digits", routed(gatewayAPI=GATEWAY, stickiness={"cookieName": "sid", "digits": "0120"}),
        f"{ROUTING}.stickiness.digits", "has a character twice"),
    late("stickiness without a router", canary(trafficRouting={"stickiness": {"cookieName": "sid"}}),
        f"{ROUTING}.stickiness", "needs a router"),
    late(
        "stickiness with a stable side that shrinks",
        canary(
            stableService="cart",
            canaryService="cart-canary",
            dynamicStableScale=True,
            trafficRouting={"gatewayAPI": GATEWAY, "stickiness": {"cookieName": "sid"}},
        ),
        f"{ROUTING}.stickiness",
        "cannot be combined with dynamicStableScale",
    ),
    late("stickiness beside its own route",
        routed(gatewayAPI=GATEWAY, stickiness={"cookieName": "sid"}, managedRoutes=[{"name": "rollouts-sticky"}]),
        f"{ROUTING}.stickiness", "makes a route of the name rollouts-sticky"),
    late("subsets beside Services", routed(istio=SUBSETS), f"{_CANARY}.stableService",
        "cannot be combined with istio.destinationRule"),
    late("subsets beside another router", canary(trafficRouting={"istio": SUBSETS, "gatewayAPI": GATEWAY}),
        f"{ROUTING}.istio.destinationRule", "cannot be combined with gatewayAPI"),
    late("subsets that change roles",
        canary(trafficRouting={"istio": SUBSETS}, pingPong={"pingService": "a", "pongService": "b"}),
        f"{ROUTING}.istio.destinationRule", "cannot be combined with pingPong"),
    Bad("mirrored header of no kind", _mirror(match=[{"headers": {"x-user": {}}}]),
        f"{_MIRRORED}.headers[x-user]", "it has none"),
)  # fmt: skip
