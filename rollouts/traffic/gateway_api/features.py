"""The features of the Gateway API that gateways support: those that their classes publish, minus known defects of products. And
mirrors, as a rule has them: the feature of which most is known to go wrong.

Source: gateway-api v1.6.1, GatewayClass.status.supportedFeatures and pkg/features.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction

from rollouts.core.model.traffic import Feature, MirrorRoute
from rollouts.errors import Unroutable
from rollouts.objects import Manifest
from rollouts.traffic.gateway_api.parents import controllers_of

_LACKING = {
    "traefik.io/gateway-controller": frozenset({Feature.MIRROR, Feature.MIRROR_PERCENT}),
    "projectcontour.io/gateway-controller": frozenset({Feature.MIRROR_PERCENT}),
}
"""Features that products accept and get wrong, by the controller name in the status: Traefik 3.7 answers every request of a route
with a mirror with 500, Contour 1.33 mirrors all requests, whatever the percentage."""
CLASS_FEATURES: Mapping[str, tuple[Feature, ...]] = {
    "HTTPRouteQueryParamMatching": (Feature.QUERY,),
    "HTTPRouteMethodMatching": (Feature.METHOD,),
    "HTTPRouteRequestMirror": (Feature.MIRROR,),
    "HTTPRouteRequestPercentageMirror": (Feature.MIRROR_PERCENT,),
}
"""Our features by the names of a class's extended features."""


_CORE = frozenset(Feature) - {feature for features in CLASS_FEATURES.values() for feature in features}


def features_of_class(supported: Iterable[str] | None) -> frozenset[Feature]:
    """The features that a GatewayClass supports by its `status.supportedFeatures`: core ones always, extended ones when named.

    Some products publish no list (None or empty): then extended features are not known to work. Traefik answers all requests with
    500 for a mirror that it does not know.
    """
    named = set(supported or ())
    extended = {feature for name, features in CLASS_FEATURES.items() if name in named for feature in features}
    return _CORE | extended


def lacking(user: Manifest) -> frozenset[Feature]:
    """The features that the products which accepted the route get wrong."""
    controllers = controllers_of(user)
    return frozenset[Feature]().union(*(_LACKING.get(each, frozenset()) for each in controllers))


def check_mirror(mirror: MirrorRoute, user: Manifest) -> None:
    """Raises: Unroutable when one of the route's gateways would get the mirror wrong."""
    worse = lacking(user)
    if Feature.MIRROR in worse:
        raise Unroutable(
            f"its gateway would answer all requests of a route with a mirror with 500; remove {mirror.name} from the steps"
        )
    if Feature.MIRROR_PERCENT in worse and mirror.percent < 100:
        raise Unroutable(
            f"its gateway mirrors all requests, whatever the percentage; set the percentage of {mirror.name} to 100"
        )


def with_mirror(rule: Manifest, mirror: MirrorRoute, backend: Manifest) -> Manifest:
    """The rule with a filter that sends copies of its requests to the backend's Service.

    Source: gateway-api v1.6.1, HTTPRequestMirrorFilter.
    """
    to = {name: backend[name] for name in ("group", "kind", "name", "namespace", "port") if name in backend}
    percent = {"percent": mirror.percent} if mirror.percent < 100 else {}
    ours = {"type": "RequestMirror", "requestMirror": {"backendRef": to, **percent}}
    return {**rule, "filters": [*(rule.get("filters") or ()), ours]}


def without_mirrors(rule: Manifest, is_ours: Callable[[Manifest], bool]) -> Manifest:
    """The rule without mirrors to our backends, and without a list of filters that is then empty; `rule` if nothing changes."""
    filters = rule.get("filters") or []
    kept = [each for each in filters if not is_ours((each.get("requestMirror") or {}).get("backendRef") or {})]
    if len(kept) == len(filters):
        return rule
    rest = {name: value for name, value in rule.items() if name != "filters"}
    return {**rest, "filters": kept} if kept else rest


def copied_percents(rule: Manifest, is_canary: Callable[[Manifest], bool]) -> tuple[Fraction, ...]:
    """For each mirror of a rule to the canary Service, the percentage of requests that it copies."""
    percents = []
    for each in rule.get("filters") or ():
        mirror = each.get("requestMirror") or {}
        if not is_canary(mirror.get("backendRef") or {}):
            continue
        if (part := mirror.get("fraction")) is not None:
            percents.append(100 * Fraction(int(part.get("numerator", 0)), int(part.get("denominator") or 100)))
        else:
            percents.append(Fraction(100 if mirror.get("percent") is None else mirror["percent"]))
    return tuple(percents)
