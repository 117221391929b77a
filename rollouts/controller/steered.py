"""Which Services each Rollout steers, by the annotation that it left on them: an index over the watched Services."""

from __future__ import annotations

from rollouts.cluster.structs import ServiceObject
from rollouts.manifests.ownership import MANAGED_BY
from rollouts.objects import Key


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
