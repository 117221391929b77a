"""`pingPong`: which of the two Services is the stable one now.

At the end of such a canary all traffic goes to the canary Service and stays there: the Services change roles, not selectors. Argo
Rollouts has this for load balancers that take long to register new pods (docs/features/alb, "Zero-Downtime Updates").

`with_roles` is the one place that exchanges them. A pass calls it twice: routes are read before there is a Snapshot, and a
Snapshot keeps the spec as its user wrote it, so that a forecast can continue with the status that a pass leaves.
"""

from __future__ import annotations

from rollouts.core.model.frozen import replace
from rollouts.core.model.rollout import Canary, Strategy
from rollouts.core.model.snapshot import Snapshot
from rollouts.core.model.status import RolloutStatus
from rollouts.core.model.traffic import Route, RouteSeen, Split


def with_roles(strategy: Strategy, status: RolloutStatus) -> Strategy:
    """The strategy with its Services in the roles that status gives them."""
    if not isinstance(strategy, Canary) or not strategy.ping_pong or not status.pong_is_stable:
        return strategy
    return replace(strategy, stable_service=strategy.canary_service, canary_service=strategy.stable_service)


def in_their_roles(seen: Snapshot) -> Snapshot:
    """The snapshot with the strategy's Services in the roles that status gives them."""
    strategy = with_roles(seen.rollout.spec.strategy, seen.status)
    if strategy is seen.rollout.spec.strategy:
        return seen
    return replace(seen, rollout=replace(seen.rollout, spec=replace(seen.rollout.spec, strategy=strategy)))


def seen_from_the_other_side(route: Route) -> Route:
    """The route as it reads after the Services exchanged roles: the shares change sides."""
    if not isinstance(route, RouteSeen) or route.split is None:
        return route
    return replace(route, split=Split(1 - route.split.share))
