"""What a spec asks for and no object of its router can express: a problem of the spec, before anything is read or moved. Pure.

It uses the codec's own table (`Provider.supported`), which the driver checks before each write too. The driver finds out what
only the objects show (the features of a GatewayClass, whether a VirtualService is for HTTP).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from types import MappingProxyType

from rollouts.core.model.rollout import Canary
from rollouts.core.model.steps import RunExperiment, SetHeaderRoute, SetMirrorRoute, SetWeight, TemplateWeight
from rollouts.core.model.traffic import Feature, Split, features_needed
from rollouts.core.routing.routes import routed_splits
from rollouts.core.routing.stickiness import as_said
from rollouts.errors import SpecProblem
from rollouts.traffic.codec import Provider, Target

WORDS: Mapping[Feature, str] = MappingProxyType(
    {
        Feature.HEADER: "route requests by a header",
        Feature.HEADER_REGEX: "match a header by a prefix or a pattern",
        Feature.COOKIE: "match cookies",
        Feature.SEVERAL_COOKIES: "match more than one cookie of a request",
        Feature.QUERY: "match query parameters",
        Feature.METHOD: "match methods",
        Feature.PATH: "match paths",
        Feature.SEVERAL_CONDITIONS: "have more than one condition in a route",
        Feature.SEVERAL_ROUTES: "have more than one header route at a time",
        Feature.MIRROR: "mirror requests",
        Feature.MIRROR_PERCENT: "mirror only a part of the requests",
        Feature.EXPERIMENT: "send a share of the requests to an Experiment",
    }
)
"""What a router without the feature cannot do, the most important first."""


def impossible(strategy: Canary, provider: Provider, target: Target) -> Iterator[SpecProblem]:
    """What the strategy asks for and `target` cannot express; paths begin below `spec.strategy.canary`."""
    supported = provider.supported(target)
    if strategy.ping_pong and target.no_ping_pong:
        yield SpecProblem("pingPong", target.no_ping_pong)
    sticky = strategy.traffic_routing.sticky if strategy.traffic_routing is not None else None
    if sticky is not None and (lacking := features_needed(as_said(Split(Fraction(1, 2), sticky=sticky))) - supported):
        yield SpecProblem("trafficRouting.stickiness", f"{_cannot(lacking, provider, target)}; remove it")
    for index, step in enumerate(strategy.steps):
        where = f"steps[{index}]"
        match step:
            case SetHeaderRoute(match=wanted) if wanted is not None:
                field = f"{where}.setHeaderRoute"
            case SetMirrorRoute(mirror=wanted) if wanted is not None:
                field = f"{where}.setMirrorRoute"
            case RunExperiment(weights=weights) if weights:
                yield from _impossible_weights(weights, f"{where}.experiment", provider, target)
                continue
            case SetWeight(weight_percent=percent):
                if target.weight_total is not None and Fraction(percent) * target.weight_total % 100:
                    told = f"{float(percent):g} % of {provider.name}'s total weight {target.weight_total} is not a whole number"
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
            yield SpecProblem(field, f"{_cannot(lacking, provider, target)}; remove the step, or use another router")


def _impossible_weights(
    weights: Iterable[TemplateWeight], path: str, provider: Provider, target: Target
) -> Iterator[SpecProblem]:
    if Feature.EXPERIMENT not in provider.supported(target):
        cannot = _cannot(frozenset({Feature.EXPERIMENT}), provider, target)
        yield SpecProblem(path, f"{cannot}; remove the weights of its templates, or use another router")
    for each in weights:
        if target.weight_total is not None and Fraction(each.weight_percent) * target.weight_total % 100:
            told = f"{float(each.weight_percent):g} % of {provider.name}'s total weight {target.weight_total}"
            yield SpecProblem(path, f"{told} is not a whole number; change the weight of {each.template}")


def _cannot(lacking: frozenset[Feature], provider: Provider, target: Target) -> str:
    if Feature.HEADER in lacking:  # the others follow from it
        lacking -= {Feature.HEADER_REGEX, Feature.SEVERAL_CONDITIONS, Feature.SEVERAL_ROUTES}
    for feature, more in ((Feature.COOKIE, Feature.SEVERAL_COOKIES), (Feature.MIRROR, Feature.MIRROR_PERCENT)):
        if feature in lacking:
            lacking -= {more}
    told = " or ".join(words for feature, words in WORDS.items() if feature in lacking)
    return f"{provider.name} cannot {told} with {target.kinds[0].kind} {target.name}"
