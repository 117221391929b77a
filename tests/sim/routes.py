"""Routes that the tests of the simulated gateways begin with."""

from __future__ import annotations

from typing import Any

from rollouts.objects import Manifest
from rollouts.sim.network.gateway_types import HTTP_ROUTE

GATEWAY_NAME = "public"


def backend(name: str, weight: int | None = None) -> Manifest:
    """A Service of a rule."""
    return {"name": name, "port": 80, **({} if weight is None else {"weight": weight})}


def rule(*backends: Manifest, **options: Any) -> Manifest:
    """One rule."""
    return {**options, "backendRefs": list(backends)}


def http_route(*rules: Manifest, name: str = "web") -> Manifest:
    """A route of the gateway `public`."""
    return {
        "apiVersion": HTTP_ROUTE.api_version,
        "kind": HTTP_ROUTE.kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"parentRefs": [{"name": GATEWAY_NAME}], "rules": list(rules)},
    }


def split(stable: int, canary: int, *more: Manifest) -> Manifest:
    """A route with one weighted rule between `stable` and `canary`, and what else is given before it."""
    return http_route(*more, rule(backend("stable", stable), backend("canary", canary)))
