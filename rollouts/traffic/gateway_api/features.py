"""The features of the Gateway API that gateways support: those that their classes publish, minus known defects of products.

Source: gateway-api v1.6.1, GatewayClass.status.supportedFeatures and pkg/features.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

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
