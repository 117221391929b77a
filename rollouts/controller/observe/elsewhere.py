"""Routes in other namespaces than the Rollout's: what is told of those that their owners keep from us. No I/O.

A controller that may read every namespace is asked by people who may not. So a route that its owner does not open to the
Rollout's namespace is told in the same words as one that does not exist, and what it says is not read.
"""

from __future__ import annotations

from rollouts.cluster.structs import RouteObject
from rollouts.controller.workqueue.managed import lets, marked_by
from rollouts.core.model.traffic import Route, RouteAbsent, RouteName
from rollouts.manifests.ownership import ALLOW_FROM
from rollouts.objects import Key, Kind


def as_told_to(
    key: Key, name: RouteName, kind: Kind, absent: Route, user: RouteObject | None, *, now_s: float
) -> tuple[Route, RouteObject | None]:
    """What Rollout `key` is told of a route: why there is none, or the route.

    One that its owner closed while it carries the Rollout's mark is still told: what it brings where is not known any more, and
    no pod may go as long as that is so.

    Args:
        absent: why there is none, as far as `user` is None.
    """
    if name.namespace == key.namespace or (user is not None and (lets(user, key.namespace) or marked_by(user) == key)):
        return absent, user
    if user is None and (not isinstance(absent, RouteAbsent) or absent.message):
        return absent, None
    at_s, named = (absent.at_s, absent.named) if isinstance(absent, RouteAbsent) else (now_s, absent.named)
    return RouteAbsent(
        name, at_s, f"{name} does not exist, or {how_to_allow(key.namespace, name, kind)}", named=named
    ), None


def how_to_allow(namespace: str, name: RouteName, kind: Kind) -> str:
    """What the route's owner would have to do for Rollouts of `namespace`."""
    command = f"kubectl annotate {kind.plural}.{kind.group} -n {name.namespace} {name.name} {ALLOW_FROM}={namespace}"
    return f"its owner has to allow Rollouts of namespace {namespace}: {command}"
