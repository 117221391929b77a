"""Which version of a route's kind the server has: asked when the first Rollout names the kind, which is watched from then on.

A Rollout may be deleted, or drop its router, while no controller runs. So at the start the controller looks once for routes with
our label of the routers that the administrator named. A kind without such routes costs no watch.

`known` never asks; `find` does, beside a pass. Only versions that exist are remembered: a missing CRD may be installed at any
moment, so each question about it asks again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping

import structlog

from rollouts.cluster.client import Client
from rollouts.cluster.decoding import Decoder
from rollouts.cluster.discovery import first_served
from rollouts.cluster.structs import RouteObject
from rollouts.errors import RolloutsError
from rollouts.manifests.ownership import MANAGED, MANAGED_VALUE
from rollouts.objects import Kind
from rollouts.ports import ApiServer
from rollouts.traffic.codec import Provider
from rollouts.traffic.declared.codec import Declared

DISCOVERY_DEADLINE_S = 10.0

_ROUTES: Decoder[RouteObject] = Decoder(RouteObject)

log = structlog.get_logger()


class RouteKinds:
    """The versions that the server has.

    Args:
        on_found: called once for each kind of a Rollout's route, when the server is known to have it.
    """

    def __init__(self, *, api: ApiServer, on_found: Callable[[Kind], None]) -> None:
        self._api = api
        self._on_found = on_found
        self._served: dict[tuple[Kind, ...], Kind] = {}
        self._told: set[Kind] = set()

    def known(self, kinds: tuple[Kind, ...]) -> Kind | None:
        """The version that the server has; None when it has none, or when nobody has asked yet."""
        return self._served.get(kinds)

    async def find(self, kinds: tuple[Kind, ...]) -> Kind | None:
        """The first of `kinds` that the server has, None when it has none of them. Asks unless it is known.

        Raises: ApiUnavailable, ApiForbidden.
        """
        served = self._served.get(kinds)
        if served is None:
            served = await first_served(self._api, kinds, deadline_s=DISCOVERY_DEADLINE_S)
        if served is not None:
            self.learn(kinds, served)
        return served

    def learn(self, kinds: tuple[Kind, ...], served: Kind) -> None:
        """Notes that the server has this one of `kinds`."""
        self._served[kinds] = served
        if served not in self._told:
            self._told.add(served)
            self._on_found(served)

    def forget(self, kinds: tuple[Kind, ...]) -> None:
        """Forgets a version after a 404: the CRD, or this version of it, may be gone, so the next question asks again."""
        self._served.pop(kinds, None)

    async def look_for_managed(
        self, routers: Iterable[tuple[Kind, ...]], *, client: Client, namespaces: Iterable[str]
    ) -> None:
        """Learns every kind that has a route with our label in one of `namespaces` ("" is all of them).

        Raises: nothing: a failed question is logged, and asked again when a Rollout names the kind.
        """
        scopes = tuple(namespace or None for namespace in namespaces)
        for kinds in routers:
            try:
                served = await first_served(self._api, kinds, deadline_s=DISCOVERY_DEADLINE_S)
                if served is None:
                    continue
                for scope in scopes:
                    managed = f"{MANAGED}={MANAGED_VALUE}"
                    page = _ROUTES.page(await client.list_page(served, scope, label_selector=managed, limit=1))
                    if page.items or page.unreadable:
                        self.learn(kinds, served)
                        break
            except RolloutsError as exc:
                log.warning("managed_routes_not_searched", kind=kinds[0].kind, error=type(exc).__name__, why=str(exc))


def kinds_of(provider: object) -> tuple[tuple[Kind, ...], ...]:
    """The kinds in `KINDS` of a traffic provider's module, each with its versions; () without `KINDS`."""
    named = getattr(sys.modules.get(type(provider).__module__), "KINDS", ())
    return tuple(named.values()) if isinstance(named, Mapping) else (tuple(named),) if named else ()


def kinds_named(provider: Provider | None, kind: str) -> tuple[Kind, ...]:
    """The versions of the provider's kind of that name; () when it has none."""
    if isinstance(provider, Declared):
        return provider.kinds if provider.kinds[0].kind == kind else ()
    return next((kinds for kinds in kinds_of(provider) if kinds[0].kind == kind), ())


def missing(kinds: tuple[Kind, ...]) -> str:
    """The message when the server has no version of a kind."""
    kind = kinds[0]
    versions = " or ".join(served.version for served in kinds)
    return (
        f"the server does not serve {kind.kind} {kind.group}/{versions}: install the CustomResourceDefinition "
        f"{kind.plural}.{kind.group}"
    )
