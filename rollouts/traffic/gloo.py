"""Gloo Edge: weights of `routeAction.multi.destinations` in a RouteTable whose destinations are Services of Kubernetes.

Source: solo-io/gloo, gateway.solo.io/v1. Its successor, kgateway, takes HTTPRoutes: then the provider is gatewayAPI.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from rollouts.core.model.traffic import Acceptance, Answer, Feature
from rollouts.objects import Kind, Manifest
from rollouts.traffic.codec import Destination, Objects, Target
from rollouts.traffic.rules.provider import Rules, listed_targets
from rollouts.traffic.rules.rule_paths import RulePath
from rollouts.traffic.rules.steering import Dialect, Side

KINDS = (Kind("gateway.solo.io", "v1", "RouteTable", "routetables"),)


@dataclass(frozen=True, slots=True)
class _RouteTable(Dialect):
    backends: ClassVar[str] = "destinations"
    weight_absent: ClassVar[int] = 0

    def lists(self, user: Manifest) -> tuple[RulePath, ...]:
        routes = (user.get("spec") or {}).get("routes") or ()
        return tuple(
            ("spec", "routes", at, "routeAction", "multi")
            for at, route in enumerate(routes)
            if (route.get("routeAction") or {}).get("multi")
        )

    def takes_requests(self, path: RulePath) -> bool:
        return False

    def is_named(self, rule: Manifest, path: RulePath, name: Any) -> bool:
        return False

    def side(self, backend: Manifest) -> Side | None:
        reference = ((backend.get("destination") or {}).get("kube") or {}).get("ref") or {}
        return Dialect.side(self, reference)

    def beside(self, stable: Manifest, to: Destination) -> Manifest:
        kube = stable["destination"]["kube"]
        reference = {**kube["ref"], "name": to.service}
        destination = {**stable["destination"], "kube": {**kube, "ref": reference}}
        return {**self._weighted(stable, None), "destination": destination}


class _Gloo(Rules):
    name = "gloo"
    dialect = _RouteTable
    supported_features = frozenset({Feature.EXPERIMENT})

    def targets(self, settings: Mapping[str, Any], *, namespace: str) -> tuple[Target, ...]:
        return listed_targets(settings, "routeTables", KINDS, namespace=namespace, elsewhere=True)

    def accepted(self, objects: Objects, target: Target) -> Acceptance:
        """No when Gloo reports Rejected. Its states are by Pod and have no generation, so Accepted may be an old state."""
        told = (objects.user.get("status") or {}).get("statuses") or {}
        bad = next((each for each in told.values() if str(each.get("state")) in ("2", "Rejected")), None)
        return Acceptance(Answer.YES) if bad is None else Acceptance(Answer.NO, f"Gloo says: {bad.get('reason', '')}")


PROVIDER = _Gloo()
