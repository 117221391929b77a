"""Skipper: the annotation `zalando.org/backend-weights` of an Ingress that has both Services as backends of the same path.

Weights of other Services in it stay as they are. Skipper splits a path by the weights of the backends that the path has.
Source: Skipper, kubernetes/ingress-usage, "Blue-Green deployments".

Skipper polls its routes every 3 s (`-source-poll-timeout`, 3000 by default); behind a routesrv two such polls follow each other.
It writes nothing about routes into the Ingress.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from rollouts.errors import Unroutable
from rollouts.objects import Kind, Manifest
from rollouts.traffic.codec import Context, Target
from rollouts.traffic.rules.annotations import OneAnnotation, ingress_paths
from rollouts.traffic.rules.weights import Weights, weights_for
from rollouts.traffic.settings import SettingsReader

KINDS = (Kind("networking.k8s.io", "v1", "Ingress", "ingresses"),)
WEIGHTS = "zalando.org/backend-weights"
_WEIGHT_MOST = 1_000_000
_SETTLE_S = 8.0  # two polls, and the time to build the routes


class _Skipper(OneAnnotation):
    name = "skipper"

    def targets(self, settings: Mapping[str, Any], *, namespace: str) -> tuple[Target, ...]:
        read = SettingsReader(settings)
        names = tuple(filter(None, (read.object_name("ingress"), *read.object_names("ingresses"))))
        if not names:
            read.refuse("ingress", "is required, unless ingresses is given")
        read.done()
        return tuple(Target(kinds=KINDS, namespace=namespace, name=name, settle_s=_SETTLE_S) for name in names)

    def annotation(self, target: Target, context: Context) -> str:
        return WEIGHTS

    def share(self, text: str | None, user: Manifest, target: Target, context: Context) -> Fraction | None:
        names = {service.get("name") for _, _, service in ingress_paths(user)}
        for service in (context.stable_service, context.canary_service):
            if service not in names:
                why = f"none of its paths has Service {service} as a backend; add it beside the other Service"
                raise Unroutable(why)
        if text is None:
            return None  # Skipper would split evenly among the backends
        return _pair(_weights(text), context).share

    def text(self, before: str | None, share: Fraction, user: Manifest, target: Target, context: Context) -> str:
        weights = {context.stable_service: 100, context.canary_service: 0} if before is None else _weights(before)
        others = set(weights) - {context.stable_service, context.canary_service}
        pair = weights_for(share, users=_pair(weights, context), most=_WEIGHT_MOST, fixed_total=bool(others))
        said = {**weights, context.stable_service: pair.stable, context.canary_service: pair.canary}
        return json.dumps(said, separators=(",", ":"))


def _weights(text: str) -> dict[str, int]:
    try:
        found = json.loads(text)
        weights = {str(name): int(weight) for name, weight in found.items()}
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise Unroutable(f"its annotation {WEIGHTS} is not a JSON object of weights by Service; correct it") from error
    if weights != found:
        raise Unroutable(f"its annotation {WEIGHTS} has weights that are not whole numbers; multiply all of them")
    return weights


def _pair(weights: Mapping[str, int], context: Context) -> Weights:
    return Weights(weights.get(context.stable_service, 0), weights.get(context.canary_service, 0))


PROVIDER = _Skipper()
