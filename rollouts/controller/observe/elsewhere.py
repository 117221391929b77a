"""Routes in other namespaces than the Rollout's: what a Rollout may learn of routes that their owners do not share. No I/O.

The controller may read every namespace, and the authors of Rollouts may not. So a route whose owner does not allow the Rollout's
namespace is reported in the same words as one that does not exist, and its content is not read.
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
    """The route as Rollout `key` may see it, or why there is none.

    A route that its owner no longer shares is still visible while it carries the Rollout's mark: nobody knows any more where its
    requests go, and no pod may be removed meanwhile.

    Args:
        absent: why there is no route; used when `user` is None.
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
    """What the route's owner must do to allow Rollouts of `namespace`, with the command."""
    command = f"kubectl annotate {kind.plural}.{kind.group} -n {name.namespace} {name.name} {ALLOW_FROM}={namespace}"
    return f"its owner must allow Rollouts of namespace {namespace}: {command}"
