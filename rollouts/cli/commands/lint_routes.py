"""What `lint` and `plan` know of routers: providers that files declare, and routes that cannot split requests. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache

from rollouts.cli.kubernetes.parts import is_a, namespace_of
from rollouts.cli.kubernetes.schema import Problem
from rollouts.controller.observe.observer import context_of
from rollouts.controller.observe.places import places_of
from rollouts.controller.providers.declarations import provider_of
from rollouts.core.model.numbering import step_number
from rollouts.core.model.rollout import Canary, RolloutSpec, named_services
from rollouts.core.model.service_ref import SubsetName
from rollouts.core.model.status import RolloutStatus
from rollouts.core.model.steps import SetWeight, WeightPercent
from rollouts.core.routing.routes import asked_split
from rollouts.errors import SpecInvalid, Unroutable
from rollouts.objects import TRAFFIC_PROVIDER, Key, Manifest, mapping
from rollouts.traffic.codec import Context, Objects, Provider, Target
from rollouts.traffic.registry import installed, registry


def providers(manifests: Iterable[Manifest] = ()) -> Mapping[str, Provider]:
    """The traffic providers of this installation, and those of TrafficProviders without a problem."""
    found: dict[str, Provider] = {}
    for manifest in manifests:
        if is_a(manifest, TRAFFIC_PROVIDER) and isinstance(manifest.get("spec"), dict):
            name = str(mapping(manifest.get("metadata")).get("name") or "")
            with suppress(SpecInvalid):
                found[name] = provider_of(name, manifest["spec"], fixed_providers())
    return {**found, **fixed_providers()}


@cache
def fixed_providers() -> Mapping[str, Provider]:
    """The traffic providers of this installation."""
    return registry(installed())


def route_problems(
    route: Manifest, rollout: Key, spec: RolloutSpec, known: Mapping[str, Provider]
) -> Iterator[Problem]:
    """Why the Rollout's router cannot split requests with this route; nothing for an object that the Rollout does not name.

    Routes between subsets of one Service are left out: what they name depends on the object that defines the subsets.
    """
    metadata, name = mapping(route.get("metadata")), rollout.name
    route_name = (metadata.get("name"), namespace_of(route) or "default")
    if any(isinstance(service, SubsetName) for service in named_services(spec.strategy)):
        return
    for place in places_of(spec, known, namespace=rollout.namespace):
        target, objects = place.target, Objects(user=route)
        mine = (target.name, target.namespace) == route_name
        of_its_kind = any(is_a(route, kind) for kind in target.kinds)
        if place.provider is None or not mine or not of_its_kind:
            continue
        if not isinstance(route.get("spec", {}), dict):
            yield "spec", "must be an object"
            continue
        context = context_of(rollout, spec, RolloutStatus())
        try:
            place.provider.read(objects, target, context)
            for at, why in _steps_not_said(place.provider, objects, target, context, spec):
                yield "spec", f"Rollout {name} cannot take its step {step_number(at)} with it: {why}"
        except Unroutable as why:
            yield "spec", f"Rollout {name} cannot split requests with it: {why}"
        except (AttributeError, KeyError, TypeError, ValueError):
            yield "spec", f"Rollout {name} cannot read it: a field has another type than the API server accepts"


def _steps_not_said(
    provider: Provider, objects: Objects, target: Target, context: Context, spec: RolloutSpec
) -> Iterator[tuple[int, str]]:
    """The steps whose split the route cannot express, each reason once, with the index of the first step that it stops."""
    strategy = spec.strategy
    if not isinstance(strategy, Canary):
        return
    told: set[str] = set()
    weight: WeightPercent = 0
    for at, step in enumerate(strategy.steps):
        weight = step.weight_percent if isinstance(step, SetWeight) else weight
        try:
            provider.plan(objects, target, context, asked_split(strategy, at, weight))
        except Unroutable as why:
            if str(why) not in told:
                told.add(str(why))
                yield at, str(why)
