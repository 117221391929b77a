"""Groups of the API that another server answers, as an APIService registers them: metrics.k8s.io and the like.

Source: https://kubernetes.io/docs/concepts/extend-kubernetes/api-extension/apiserver-aggregation/
"""

from __future__ import annotations

from typing import Protocol

from rollouts import ports


class AggregatedApi(Protocol):
    """A server of one version of a group."""

    def answer(self, request: ports.Request, steps: tuple[str, ...]) -> ports.Response:
        """Answers a request; `steps` is its path below the version, () for the list of types."""
        ...


class Aggregation:
    """The registered groups. One that is not registered is not found (404)."""

    def __init__(self) -> None:
        self._apis: dict[tuple[str, str], AggregatedApi] = {}

    def register(self, group: str, version: str, api: AggregatedApi) -> None:
        """Sends requests for a version of a group to a server, as a new APIService does."""
        self._apis[group, version] = api

    def remove(self, group: str, version: str) -> None:
        """Serves it no longer, as after the deletion of its APIService."""
        self._apis.pop((group, version), None)

    @property
    def versions(self) -> list[tuple[str, str]]:
        """What is registered: groups and versions. Discovery names a group whether its server answers or not."""
        return list(self._apis)

    def answer(self, request: ports.Request) -> ports.Response | None:
        """The answer of the server that the path leads to; None when it leads to none."""
        if not self._apis:
            return None
        match request.path.strip("/").split("/"):
            case ["apis", group, version, *steps] if (group, version) in self._apis:
                return self._apis[group, version].answer(request, tuple(steps))
            case _:
                return None
