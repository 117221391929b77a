"""The places where a Rollout's traffic is split, as the router settings in its spec name them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from rollouts.api.spec.routing import CANARY_PATH, ROUTING_PATH, router_path
from rollouts.controller.facts.live_providers import why_not
from rollouts.core.model.frozen import replace
from rollouts.core.model.rollout import BlueGreen, Canary, RolloutSpec, Router, Strategy, TrafficRouting
from rollouts.core.model.steps import RunExperiment
from rollouts.core.model.traffic import RouteName
from rollouts.errors import SpecInvalid, SpecProblem
from rollouts.objects import Manifest, name_problem, namespace_problem
from rollouts.traffic.codec import Provider, Target
from rollouts.traffic.demands import impossible


class Place(Struct, frozen=True):
    """One place where a Rollout's traffic is split.

    Args:
        provider: None when the place is known only by our marks, and they name a provider that does not exist.
        named: whether the spec names it; otherwise only our marks show it.
        own: the manifest from which we create it (`trafficRouting.own`); None for a user's object.
    """

    route: RouteName
    provider: Provider | None
    target: Target
    named: bool = True
    own: Manifest | None = None


def places_of(spec: RolloutSpec, providers: Mapping[str, Provider], *, namespace: str) -> tuple[Place, ...]:
    """The places that the spec's routers name, in their order.

    Raises: SpecInvalid, with every problem of every router; paths are those of the Rollout's spec.
    """
    places: dict[RouteName, Place] = {}
    problems: list[SpecProblem] = []
    asked: dict[tuple[str, str], SpecProblem] = {}  # one problem for each router, not for each of its objects
    for router in routing_of(spec.strategy).routers:
        path = router_path(router.name)
        try:
            provider, targets = _targets(router, path, providers, namespace=namespace)
        except SpecInvalid as exc:
            problems += exc.problems
            continue
        for target in targets:
            route = RouteName(router.name, target.kinds[0].kind, target.namespace, target.name)
            if route in places:
                problems.append(SpecProblem(path, f"names {route} twice; remove one of them"))
            places[route] = Place(route, provider, target)
            strategy = spec.strategy
            for problem in impossible(strategy, provider, target) if isinstance(strategy, Canary) else ():
                demand = SpecProblem(f"{CANARY_PATH}.{problem.path}", problem.message)
                asked.setdefault((router.name, problem.path), demand)
    problems += [*asked.values(), *_out_of_reach(places, spec.strategy, namespace)]
    problems += _put_own(places, routing_of(spec.strategy).own, namespace)
    if problems:
        raise SpecInvalid(tuple(problems))
    return tuple(places.values())


def _out_of_reach(places: Iterable[RouteName], strategy: Strategy, namespace: str) -> Iterator[SpecProblem]:
    """Why an Experiment gets no requests by a route elsewhere: its owner lets it reach Services by name, not those to come."""
    steps = strategy.steps if isinstance(strategy, Canary) else ()
    weighted = [index for index, step in enumerate(steps) if isinstance(step, RunExperiment) and step.weights]
    elsewhere = [route for route in places if route.namespace != namespace]
    for index in weighted if elsewhere else ():
        why = f"has weights, and {elsewhere[0]} is in namespace {elsewhere[0].namespace}"
        why = f"{why}: it cannot reach the Service of an Experiment; remove the weights of its templates"
        yield SpecProblem(f"{CANARY_PATH}.steps[{index}].experiment", why)


def _targets(
    router: Router, path: str, providers: Mapping[str, Provider], *, namespace: str
) -> tuple[Provider, tuple[Target, ...]]:
    """The router's provider, and its targets. Raises: SpecInvalid."""
    provider = providers.get(router.name)
    if provider is None:
        raise SpecInvalid((SpecProblem(path, why_not(router.name, providers)),))
    try:
        targets = provider.targets(router.settings, namespace=namespace)
    except SpecInvalid as exc:
        raise SpecInvalid(
            tuple(SpecProblem(_below(path, wrong.path), wrong.message) for wrong in exc.problems)
        ) from exc
    if wrong := [SpecProblem(path, why) for target in targets for why in name_problems(target)]:
        raise SpecInvalid(tuple(wrong))
    return provider, targets


def name_problems(target: Target) -> Iterator[str]:
    """Problems with the names of a target. They are from settings that only its provider knows, and become parts of URLs."""
    # "": a Rollout in a file, without a namespace
    if target.namespace and (problem := namespace_problem(target.namespace)):
        yield f"namespace {problem}"
    for name in filter(None, (target.name, target.owned_name)):
        if problem := name_problem(name):
            yield f"name {problem}"


def is_at(place: Place, manifest: Manifest, *, namespace: str) -> bool:
    """Whether the manifest describes the object at that place; `namespace` holds for a manifest that names none."""
    metadata, route = manifest.get("metadata") or {}, place.route
    kinds = [(kind.api_version, kind.kind) for kind in place.target.kinds]
    of_kind = (manifest.get("apiVersion"), manifest.get("kind")) in kinds
    return of_kind and (metadata.get("namespace", namespace), metadata.get("name")) == (route.namespace, route.name)


def _put_own(places: dict[RouteName, Place], own: Iterable[Manifest], namespace: str) -> Iterator[SpecProblem]:
    """Gives each place its manifest, in the version that the manifest is written in."""
    for index, manifest in enumerate(own):
        path = f"{ROUTING_PATH}.own[{index}]"
        place = next((place for place in places.values() if is_at(place, manifest, namespace=namespace)), None)
        if place is None:
            what = f"{manifest['apiVersion']} {manifest['kind']} {manifest['metadata']['name']}"
            yield SpecProblem(path, f"no router of trafficRouting names {what}; name it there, or remove it")
        elif place.route.namespace != namespace:
            yield SpecProblem(
                f"{path}.metadata.namespace",
                "must be the Rollout's namespace: the object is deleted together with the Rollout",
            )
        elif place.target.subsets:
            yield SpecProblem(path, f"{place.route} does not split requests; keep it as an object of your own")
        elif place.own is not None:
            yield SpecProblem(path, f"contains {place.route} a second time; remove one of them")
        else:
            kinds = tuple(kind for kind in place.target.kinds if kind.api_version == manifest["apiVersion"])
            places[place.route] = replace(place, own=manifest, target=replace(place.target, kinds=kinds))


def routing_of(strategy: Strategy) -> TrafficRouting:
    """The spec's traffic routing; an empty one when the spec has none."""
    match strategy:
        case Canary(traffic_routing=TrafficRouting() as routing):
            return routing
        case Canary() | BlueGreen():
            return TrafficRouting()


def _below(path: str, part: str) -> str:
    return path if not part else f"{path}{part}" if part.startswith("[") else f"{path}.{part}"
