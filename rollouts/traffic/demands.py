"""What a spec asks of a router that no object of its kind could say: told with the spec, before anything is read or moved. Pure.

By the codec's own table (`Provider.supported`), which the driver goes by before each write too. What only the objects tell (what
a GatewayClass supports, whether a VirtualService is for HTTP) the driver finds out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from types import MappingProxyType

from rollouts.core.model.rollout import Canary
from rollouts.core.model.steps import SetHeaderRoute, SetMirrorRoute, SetWeight
from rollouts.core.model.traffic import Feature, Split, features_needed
from rollouts.core.routing.routes import routed_splits
from rollouts.core.routing.stickiness import as_said
from rollouts.errors import SpecProblem
from rollouts.traffic.codec import Provider, Target

WORDS: Mapping[Feature, str] = MappingProxyType(
    {
        Feature.HEADER: "route requests by a header",
        Feature.HEADER_REGEX: "match a header other than exactly",
        Feature.COOKIE: "match cookies",
        Feature.SEVERAL_COOKIES: "match more than one cookie of a request",
        Feature.QUERY: "match query parameters",
        Feature.METHOD: "match methods",
        Feature.PATH: "match paths",
        Feature.SEVERAL_CONDITIONS: "match more than one condition in a route",
        Feature.SEVERAL_ROUTES: "have more than one header route at a time",
        Feature.MIRROR: "mirror requests",
        Feature.MIRROR_PERCENT: "mirror a part of the requests",
    }
)
"""What a router cannot do that lacks it, most telling first."""


def impossible(strategy: Canary, provider: Provider, target: Target) -> Iterator[SpecProblem]:
    """What the strategy asks for and `target` cannot have; paths begin below `spec.strategy.canary`."""
    supported = provider.supported(target)
    if strategy.ping_pong and target.no_ping_pong:
        yield SpecProblem("pingPong", target.no_ping_pong)
    sticky = strategy.traffic_routing.sticky if strategy.traffic_routing is not None else None
    if sticky is not None and (lacking := features_needed(as_said(Split(Fraction(1, 2), sticky=sticky))) - supported):
        yield SpecProblem("trafficRouting.stickiness", f"{_cannot(lacking, provider, target)}; take it out")
    for index, step in enumerate(strategy.steps):
        where = f"steps[{index}]"
        match step:
            case SetHeaderRoute(match=wanted) if wanted is not None:
                field = f"{where}.setHeaderRoute"
            case SetMirrorRoute(mirror=wanted) if wanted is not None:
                field = f"{where}.setMirrorRoute"
            case SetWeight(weight_percent=percent):
                if target.weight_total is not None and Fraction(percent) * target.weight_total % 100:
                    told = (
                        f"{float(percent):g} % is no whole part of the {target.weight_total} that {provider.name} knows"
                    )
                    yield SpecProblem(f"{where}.setWeight", f"{told}; change the weight")
                continue
            case _:
                continue
        matches, mirrors = routed_splits(strategy, index)
        split = Split(
            Fraction(0),
            tuple(each for each in matches if each.name == step.name),
            tuple(each for each in mirrors if each.name == step.name),
        )
        several = {Feature.SEVERAL_ROUTES} if split.matches and len(matches) > 1 else set[Feature]()
        if lacking := (features_needed(split) | several) - supported:
            yield SpecProblem(field, f"{_cannot(lacking, provider, target)}; take the step out, or use another router")


def _cannot(lacking: frozenset[Feature], provider: Provider, target: Target) -> str:
    if Feature.HEADER in lacking:  # the rest goes without saying
        lacking -= {Feature.HEADER_REGEX, Feature.SEVERAL_CONDITIONS, Feature.SEVERAL_ROUTES}
    for feature, more in ((Feature.COOKIE, Feature.SEVERAL_COOKIES), (Feature.MIRROR, Feature.MIRROR_PERCENT)):
        if feature in lacking:
            lacking -= {more}
    told = " or ".join(words for feature, words in WORDS.items() if feature in lacking)
    return f"{provider.name} cannot {told} with {target.kinds[0].kind} {target.name}"
