"""The kinds of workloads that get random orders: what their users write, and what that promises, as arithmetic over pods."""

from __future__ import annotations

from rollouts.objects import DAEMON_SET, DEPLOYMENT, STATEFUL_SET
from tests.e2e.manifests import Manifest
from tests.e2e.orders import MOVES, Limit, Order, SizedOrder

LIMITS: tuple[tuple[Limit, Limit], ...] = (("25%", "25%"), (1, 0), ("25%", 0), (0, 1), ("50%", "10%"), (2, 1))
"""`maxSurge` and `maxUnavailable` of Deployments, as users write them."""
NODES = 5
"""Of the lab."""


class OrderedDeployment(SizedOrder):
    """A Deployment promises its replicas without `maxUnavailable`, which a percentage rounds down.

    Scaling in a step may cost one pod, as docs/workloads.md says.
    """

    kind = DEPLOYMENT
    moves = (*MOVES, SizedOrder.scale, SizedOrder.scale)

    def draw(self) -> None:
        """Its limits."""
        super().draw()
        self.surge, self.unavailable = self.random.choice(LIMITS)

    def own(self) -> Manifest:
        """With its limits."""
        limits = {"maxSurge": self.surge, "maxUnavailable": self.unavailable}
        return {**super().own(), "strategy": {"type": "RollingUpdate", "rollingUpdate": limits}}

    def promised(self) -> int:
        """Of the smallest size that it was asked for: how late each controller sees a size is nobody's promise."""
        least = min(self.sizes)
        return least - max(_part(self.unavailable, least), int(len(self.sizes) > 1))


class OrderedStatefulSet(SizedOrder):
    """A StatefulSet promises all ordinals but one, or but `maxUnavailable`, which a percentage rounds down to one at least."""

    kind = STATEFUL_SET
    moves = (*MOVES, SizedOrder.scale, SizedOrder.scale)

    def draw(self) -> None:
        """Its strategy."""
        super().draw()
        self.management = self.random.choice(("OrderedReady", "Parallel"))
        self.unavailable: Limit | None = self.random.choice((None, None, 1, 2, "50%"))
        self.on_delete = self.random.random() < 0.15

    def own(self) -> Manifest:
        """With its strategy."""
        limit = {} if self.unavailable is None else {"rollingUpdate": {"maxUnavailable": self.unavailable}}
        strategy = {"type": "OnDelete"} if self.on_delete else {"type": "RollingUpdate", **limit}
        return {
            **super().own(),
            "serviceName": self.name,
            "podManagementPolicy": self.management,
            "updateStrategy": strategy,
        }

    def promised(self) -> int:
        """Of the smallest size; the largest one decides how many ordinals could be unavailable when it was made smaller."""
        limit = 1 if self.on_delete or self.unavailable is None else self.unavailable
        return min(self.sizes) - max(1, _part(limit, max(self.sizes)))


class OrderedDaemonSet(Order):
    """A DaemonSet promises a pod on all nodes but `maxUnavailable`, which a percentage rounds up; but one with OnDelete."""

    kind = DAEMON_SET
    moves = MOVES

    def draw(self) -> None:
        """Its strategy, and what an abort does."""
        self.replicas = NODES
        self.unavailable: Limit = self.random.choice((1, 1, 2, "30%"))
        self.on_delete = self.random.random() < 0.15
        self.on_abort = self.random.choice(("Hold", "RevertTemplate"))

    def own(self) -> Manifest:
        """Its strategy."""
        limit = {"rollingUpdate": {"maxUnavailable": self.unavailable}}
        return {"updateStrategy": {"type": "OnDelete"} if self.on_delete else {"type": "RollingUpdate", **limit}}

    def rollout(self, **more: str) -> Manifest:
        """With what an abort does."""
        return super().rollout(onAbort=self.on_abort, **more)

    def promised(self) -> int:
        """Of all nodes."""
        limit = 1 if self.on_delete else self.unavailable
        return NODES - (limit if isinstance(limit, int) else -_part(f"-{limit}", NODES))


KINDS: tuple[type[Order], ...] = (OrderedDeployment, OrderedStatefulSet, OrderedDaemonSet)


def _part(limit: Limit, pods: int) -> int:
    """So many pods; a percentage rounds down."""
    return limit if isinstance(limit, int) else int(limit.removesuffix("%")) * pods // 100


def ordered(seed: int) -> Order:
    """The order of that seed; kinds take turns."""
    kind = KINDS[seed % len(KINDS)]
    return kind(f"{kind.kind.kind[0].lower()}{seed:03}", seed)
