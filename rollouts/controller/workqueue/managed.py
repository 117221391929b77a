"""Which Services, workloads and routes each Rollout manages, by its annotation on them: indexes over the watched objects.

Anybody may write an annotation. In the Rollout's own namespace it is believed: whoever writes there may change the Rollout too.
In other namespaces the route's owner must allow Rollouts of that namespace (`rollouts.dev/allow-rollouts-from`), and the route
counts for a Rollout only when its spec names it, or its status records that it did (`controller/observe/routes.py`).
"""

from __future__ import annotations

from msgspec import Struct

from rollouts.cluster.structs import OwnerReference, RouteObject, ServiceObject, WorkloadObject
from rollouts.controller.workqueue.index import Index
from rollouts.manifests.ownership import MADE_FROM, MANAGED_BY, allows
from rollouts.objects import ROLLOUT, Key, Kind, name_problem, namespace_problem


def managed_by(seen: ServiceObject | WorkloadObject) -> str:
    """Name of the Rollout that manages a Service or a workload, in the same namespace; "" for none."""
    name = (seen.metadata.annotations or {}).get(MANAGED_BY, "")
    return "" if name_problem(name) else name


class ManagedNames:
    """The managed objects of one kind, Services or workloads, by Rollout, in O(1). The watch's first list fills it."""

    def __init__(self) -> None:
        self._names: dict[Key, str | tuple[str, ...]] = {}  # most have one, which takes no tuple then

    def learn(
        self, before: ServiceObject | WorkloadObject | None, after: ServiceObject | WorkloadObject | None
    ) -> None:
        """Follows one change of a watched object."""
        if before is not None and (owner := _owner(before)):
            self._keep(owner, {*self.of(owner)} - {before.metadata.name})
        if after is not None and (owner := _owner(after)):
            self._keep(owner, {*self.of(owner), after.metadata.name})

    def of(self, key: Key) -> tuple[str, ...]:
        """Names of the objects that Rollout `key` manages, sorted."""
        names = self._names.get(key, ())
        return (names,) if isinstance(names, str) else names

    def _keep(self, owner: Key, names: set[str]) -> None:
        match sorted(names):
            case []:
                self._names.pop(owner, None)
            case [name]:
                self._names[owner] = name
            case several:
                self._names[owner] = tuple(several)


def _owner(seen: ServiceObject | WorkloadObject) -> Key | None:
    name = managed_by(seen)
    return Key(seen.metadata.namespace, name) if name else None


class ManagedRouteObject(Struct, frozen=True):
    """Where a managed route is."""

    kind: Kind
    namespace: str
    name: str


class ManagedRouteObjects:
    """The managed routes of every watched kind, without the objects that a Rollout owns beside its routes."""

    def __init__(self) -> None:
        self._routes: Index[Key, ManagedRouteObject] = Index()

    def learn(self, kind: Kind, before: RouteObject | None, after: RouteObject | None) -> None:
        """Follows one change of a watched route."""
        if before is not None and (owner := manager_of(before)):
            self._routes.discard(owner, ManagedRouteObject(kind, before.metadata.namespace, before.metadata.name))
        if after is not None and (owner := manager_of(after)) and not _is_owned_beside_a_route(after):
            self._routes.add(owner, ManagedRouteObject(kind, after.metadata.namespace, after.metadata.name))

    def keys(self) -> tuple[Key, ...]:
        """Every Rollout that manages a route, including those that are gone."""
        return tuple(self._routes)

    def of(self, key: Key) -> tuple[ManagedRouteObject, ...]:
        """The routes that Rollout `key` manages, in order of kind, namespace and name."""
        return tuple(sorted(self._routes.get(key, ()), key=str))


def _is_owned_beside_a_route(route: RouteObject) -> bool:
    """Whether we own the object beside a user's route. A route of `trafficRouting.own` is managed like a user's."""
    if MADE_FROM in (route.metadata.annotations or {}):
        return False
    return any(is_rollout(owner) for owner in route.metadata.owner_references or ())


def is_rollout(owner: OwnerReference, kind: Kind = ROLLOUT) -> bool:
    """Whether an owner reference names a Rollout, or an object of another kind of ours, as the controller of the object."""
    return owner.controller and owner.kind == kind.kind and owner.api_version.startswith(f"{kind.group}/")


def manager_of(route: RouteObject) -> Key | None:
    """The Rollout that manages `route`, in the route's namespace or in another one that the route's owner allows."""
    marked = marked_by(route)
    return marked if marked is not None and lets(route, marked.namespace) else None


def marked_by(route: RouteObject) -> Key | None:
    """The Rollout that the annotation names, whoever wrote it; in the route's namespace unless it names another one."""
    text = (route.metadata.annotations or {}).get(MANAGED_BY, "")
    namespace, _, name = text.rpartition("/")
    marked = Key(namespace or route.metadata.namespace, name)
    return None if name_problem(marked.name) or namespace_problem(marked.namespace) else marked


def lets(route: RouteObject, namespace: str) -> bool:
    """Whether Rollouts of that namespace may manage the route: it is the route's namespace, or its owner allows it."""
    return route.metadata.namespace == namespace or allows(route.metadata.annotations or {}, namespace)


def managed_by_text(rollout: Key, *, namespace: str) -> str:
    """The annotation's value on a route in `namespace`, as `manager_of` reads it."""
    return rollout.name if rollout.namespace == namespace else str(rollout)
