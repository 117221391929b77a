"""What `rollouts lint` says of routes that stand beside a Rollout: its own codec reads them, as the controller does. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rollouts.cli.kubernetes.parts import mapping
from rollouts.controller.observe.observer import context_of
from rollouts.controller.observe.places import places_of
from rollouts.core.model.rollout import Canary, RolloutSpec, named_services
from rollouts.core.model.service_ref import SubsetName
from rollouts.core.model.status import RolloutStatus
from rollouts.core.model.steps import SetWeight, WeightPercent
from rollouts.core.routing.routes import asked_split
from rollouts.errors import Unroutable
from rollouts.objects import Key, Manifest
from rollouts.traffic.codec import Context, Objects, Provider, Target


def route_problems(
    route: Manifest, rollout: Manifest, spec: RolloutSpec, known: Mapping[str, Provider]
) -> Iterator[tuple[str, str]]:
    """Why the Rollout's router cannot split requests with this route; nothing for an object that the Rollout does not name.

    Routes between subsets of one Service are left out: what they name depends on the object that defines the subsets.

    Args:
        known: the traffic providers, by name.
    """
    metadata, route_metadata = mapping(rollout.get("metadata")), mapping(route.get("metadata"))
    namespace, name = str(metadata.get("namespace") or "default"), str(metadata.get("name") or "")
    route_name = (route_metadata.get("name"), route_metadata.get("namespace") or "default")
    if any(isinstance(service, SubsetName) for service in named_services(spec.strategy)):
        return
    for place in places_of(spec, known, namespace=namespace):
        target = place.target
        mine = (target.name, target.namespace) == route_name
        versions = {(kind.api_version, kind.kind) for kind in target.kinds}
        if place.provider is None or not mine or (route.get("apiVersion"), route.get("kind")) not in versions:
            continue
        if not isinstance(route.get("spec", {}), dict):
            yield "spec", "must be an object"
            continue
        context = context_of(Key(namespace, name), spec, RolloutStatus())
        try:
            place.provider.read(Objects(user=route), target, context)
            for at, why in _steps_not_said(place.provider, Objects(user=route), target, context, spec):
                yield "spec", f"Rollout {name} cannot take its step {at} with it: {why}"
        except Unroutable as why:
            yield "spec", f"Rollout {name} cannot split requests with it: {why}"
        except (AttributeError, KeyError, TypeError, ValueError):
            yield "spec", f"Rollout {name} cannot read it: a field has another type than the API server accepts"


def _steps_not_said(
    provider: Provider, objects: Objects, target: Target, context: Context, spec: RolloutSpec
) -> Iterator[tuple[int, str]]:
    """The steps whose split the route cannot express, each reason once, with the first step (from 0) that it stops."""
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
