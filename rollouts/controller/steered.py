"""Which Services and routes each Rollout steers, by the annotation that it left on them: indexes over what is watched."""

from __future__ import annotations

from dataclasses import dataclass

from rollouts.cluster.structs import RouteObject, ServiceObject
from rollouts.manifests.ownership import MADE_FROM, MANAGED_BY
from rollouts.objects import ROLLOUT, Key, Kind


def managed_by(service: ServiceObject) -> str:
    """Name of the Rollout that steers `service`, in the Service's namespace; "" for none."""
    return (service.metadata.annotations or {}).get(MANAGED_BY, "")


class SteeredServices:
    """Both directions, each O(1). May be lost at any moment: the watch's first list fills it again."""

    def __init__(self) -> None:
        self._names: dict[Key, set[str]] = {}

    def learn(self, before: ServiceObject | None, after: ServiceObject | None) -> None:
        """Follows one change of a watched Service."""
        if before is not None and (owner := _owner(before)):
            names = self._names.get(owner, set())
            names.discard(before.metadata.name)
            if not names:
                self._names.pop(owner, None)
        if after is not None and (owner := _owner(after)):
            self._names.setdefault(owner, set()).add(after.metadata.name)

    def of(self, key: Key) -> tuple[str, ...]:
        """Names of the Services that Rollout `key` steers, sorted."""
        return tuple(sorted(self._names.get(key, ())))


def _owner(service: ServiceObject) -> Key | None:
    name = managed_by(service)
    return Key(service.metadata.namespace, name) if name else None


@dataclass(frozen=True, slots=True)
class SteeredRoute:
    """Where a route is that some Rollout steers."""

    kind: Kind
    namespace: str
    name: str


class SteeredRoutes:
    """The routes of every kind that is watched; what a Rollout owns beside its routes is not among them."""

    def __init__(self) -> None:
        self._routes: dict[Key, set[tuple[Kind, str, str]]] = {}

    def learn(self, kind: Kind, before: RouteObject | None, after: RouteObject | None) -> None:
        """Follows one change of a watched route."""
        if before is not None and (owner := steering(before)):
            routes = self._routes.get(owner, set())
            routes.discard((kind, before.metadata.namespace, before.metadata.name))
            if not routes:
                self._routes.pop(owner, None)
        if after is not None and (owner := steering(after)) and not _is_beside(after):
            self._routes.setdefault(owner, set()).add((kind, after.metadata.namespace, after.metadata.name))

    def keys(self) -> tuple[Key, ...]:
        """Every Rollout that steers a route, also those that are gone."""
        return tuple(self._routes)

    def of(self, key: Key) -> tuple[SteeredRoute, ...]:
        """The routes that Rollout `key` steers, in order of kind, namespace and name."""
        found = self._routes.get(key, ())
        return tuple(sorted((SteeredRoute(kind, space, name) for kind, space, name in found), key=str))


def _is_beside(route: RouteObject) -> bool:
    """What we own beside a user's route; one that we made in a user's place is steered as a user's."""
    if MADE_FROM in (route.metadata.annotations or {}):
        return False
    return any(owner.controller and owner.kind == ROLLOUT.kind for owner in route.metadata.owner_references or ())


def steering(route: RouteObject) -> Key | None:
    """The Rollout that steers `route`: in the route's namespace, unless the annotation names another."""
    text = (route.metadata.annotations or {}).get(MANAGED_BY, "")
    namespace, _, name = text.rpartition("/")
    return Key(namespace or route.metadata.namespace, name) if name else None


def managed_by_text(rollout: Key, *, namespace: str) -> str:
    """What the annotation says on a route in `namespace`, so that `steering` reads it back."""
    return rollout.name if rollout.namespace == namespace else str(rollout)
