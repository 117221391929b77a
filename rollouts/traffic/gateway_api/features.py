"""What gateways and the Gateway API's CRDs take: the features that classes publish, minus known defects of products; mirrors, as
a rule has them, of which most is known to go wrong; and the sizes of routes.

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


_RULES_MOST, _MATCHES_MOST, _MATCHES_IN_ALL, _CONDITIONS_MOST, _FILTERS_MOST, _BACKENDS_MOST = 16, 64, 128, 16, 16, 16


def check_limits(user: Manifest) -> None:
    """Holds a route to the sizes that the CRDs allow, so that one that is too large is reported before it is refused.

    Source: gateway-api v1.6.1, validation of HTTPRoute and GRPCRoute. Raises: Unroutable.
    """
    rules: list[Manifest] = user["spec"]["rules"]
    if any(map(_replaces_other_than_one_prefix, rules)):
        raise Unroutable(
            "a rule with replacePrefixMatch has exactly one match, of a PathPrefix; remove exact paths, regular expressions "
            "and further matches from the step, or name the other rules in the spec"
        )
    matches = [rule.get("matches") or [] for rule in rules]
    every = [match for some in matches for match in some]
    conditions = [match.get(name) or () for match in every for name in ("headers", "queryParams")]
    for what, count, most in (
        ("rules", len(rules), _RULES_MOST),
        ("matches in one rule", max(map(len, matches)), _MATCHES_MOST),
        ("matches in total", len(every), _MATCHES_IN_ALL),
        ("headers or query parameters in one match", max(map(len, conditions), default=0), _CONDITIONS_MOST),
        ("filters in one rule", max(len(rule.get("filters") or ()) for rule in rules), _FILTERS_MOST),
        ("backends in one rule", max(len(rule.get("backendRefs") or ()) for rule in rules), _BACKENDS_MOST),
    ):
        if count > most:
            raise Unroutable(
                f"it would have {count} {what}, and at most {most} are allowed; split the route in two, "
                "or name the rules to manage in the spec"
            )


def _replaces_other_than_one_prefix(rule: Manifest) -> bool:
    rewrites = [(each.get("urlRewrite") or {}).get("path") or {} for each in rule.get("filters") or ()]
    paths = [(each.get("path") or {}).get("type", "PathPrefix") for each in rule.get("matches") or [{}]]
    return any(each.get("type") == "ReplacePrefixMatch" for each in rewrites) and paths != ["PathPrefix"]
