"""What people do to a workload that a Rollout updates in place, in random orders, and who counts its pods meanwhile.

`ordered_workloads.py` has the kinds.
"""

from __future__ import annotations

import random
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

from rollouts.objects import ROLLOUT, Kind
from tests import build
from tests.e2e.interceptor import Loss, Place
from tests.e2e.manifests import Manifest
from tests.e2e.stage import Followed, Stage
from tests.lab.control_plane import is_true

Limit: TypeAlias = int | str

SIZES = range(4, 10)
KEEPS_ITS_SIZE = 0.75
"""Of so many orders nobody scales below the first size: all of it is promised at any moment."""
MOVES_OF_AN_ORDER = 7
FIRST_WRITES = 12
"""A controller is killed at one of these writes of an update."""
PAUSES_S = (0.05, 1.2)
STEPS: list[Manifest] = [{"setWeight": 25}, {"pause": {"duration": "1s"}}, {"setWeight": 50}, {"pause": {}}]
RESTARTED = "kubectl.kubernetes.io/restartedAt"
"""What `kubectl rollout restart` writes into a template."""


@dataclass
class Order(ABC):
    """One workload, and what is done to it; all of it follows from the seed.

    Args:
        name: of the workload and of its Rollout, without `-`.
    """

    name: str
    seed: int
    done: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    """All sizes that it was asked for."""
    begun: Manifest = field(default_factory=dict)
    """Its spec before it got a Rollout."""

    kind: ClassVar[Kind]
    moves: ClassVar[tuple[Move, ...]]

    def __post_init__(self) -> None:
        self.random = random.Random(f"order {self.seed}")  # noqa: S311 - a test's seed
        self.replicas = self.random.choice(SIZES)
        self.hold = self.random.choice(("Policy", "AtRest"))
        self.min_ready_s = self.random.choice((0, 0, 1))
        self.ready_after = self.random.choice(("0s", "300ms", "900ms"))
        self.images = ["web:1"]
        self.draw()
        self.sizes = [self.replicas]

    @abstractmethod
    def draw(self) -> None:
        """Draws what only this kind has."""

    @abstractmethod
    def own(self) -> Manifest:
        """What the user writes into the spec of a workload of this kind."""

    @abstractmethod
    def promised(self) -> int:
        """Ready pods that the workload promises now, whatever was asked of it."""

    def places(self, controllers: int) -> list[Place]:
        """Where each of the controllers that are killed hangs."""
        losses = tuple(Loss)
        return [Place(self.random.randint(1, FIRST_WRITES), self.random.choice(losses)) for _ in range(controllers)]

    def workload(self) -> Manifest:
        """The user's manifest."""
        metadata = {
            "labels": {"app": self.name, "ordered": "yes"},
            "annotations": {"lab/ready-after": self.ready_after},
        }
        spec = {
            "selector": {"matchLabels": {"app": self.name}},
            "minReadySeconds": self.min_ready_s,
            "template": build.pod_template(self.name, image=self.images[0], metadata=metadata),
            **self.own(),
        }
        return build.manifest(self.kind, self.name, spec=spec)

    def rollout(self, **more: str) -> Manifest:
        """The Rollout that steps it; `more` is for its `workloadRef`."""
        named = {"apiVersion": "apps/v1", "kind": self.kind.kind, "name": self.name, "mode": "InPlace"}
        reference = {**named, "hold": self.hold, **more}
        spec = {"workloadRef": reference, "strategy": {"canary": {"steps": STEPS}}}
        return build.manifest(ROLLOUT, self.name, spec=spec)

    def play(self, stage: Stage, moment: threading.Event) -> None:
        """Makes the moves, at random moments of what goes on."""
        self.supersede(stage)
        for _ in range(MOVES_OF_AN_ORDER):
            moment.wait(self.random.uniform(*PAUSES_S))
            move = self.random.choice(self.moves)
            self.done.append(move.__name__)
            move(self, stage)

    def supersede(self, stage: Stage) -> None:
        """A new image."""
        self.images.append(f"web:{len(self.images) + 1}")
        self._template(stage, self.images[-1])

    def supersede_broken(self, stage: Stage) -> None:
        """A new image whose pods are never ready."""
        self.images.append(f"never-ready:{len(self.images) + 1}")
        self._template(stage, self.images[-1])

    def undo(self, stage: Stage) -> None:
        """`kubectl rollout undo`, which writes more than the template, and is refused for a paused Deployment."""
        stage.plane.kubectl(*("rollout", "undo", f"{self.kind.kind}/{self.name}", "-n", stage.namespace), check=False)
        template = stage.get(self.kind.plural, self.name)["spec"]["template"]
        self.images.append(template["spec"]["containers"][0]["image"])

    def restart(self, stage: Stage) -> None:
        """`kubectl rollout restart`."""
        self._template(stage, self.images[-1], restarted=str(len(self.done)))

    def abort(self, stage: Stage) -> None:
        """A person's command."""
        stage.annotate(self.name, "abort", "true")

    def retry(self, stage: Stage) -> None:
        """A person's command."""
        stage.annotate(self.name, "retry", "true")

    def promote(self, stage: Stage) -> None:
        """A person's command."""
        stage.annotate(self.name, "promote", "true")

    def path(self, stage: Stage) -> str:
        """Of the workload."""
        return self.kind.path(stage.namespace, self.name)

    def _template(self, stage: Stage, image: str, *, restarted: str | None = None) -> None:
        containers = [{"name": "app", "image": image}]
        template = {"metadata": {"annotations": {RESTARTED: restarted}}, "spec": {"containers": containers}}
        stage.plane.patch(self.path(stage), {"spec": {"template": template}})


Move: TypeAlias = Callable[[Any, Stage], None]
MOVES: tuple[Move, ...] = (
    *(Order.abort, Order.abort, Order.retry, Order.promote),
    *(Order.supersede, Order.supersede_broken, Order.undo, Order.restart),
)
"""Of every kind."""


class SizedOrder(Order):
    """A workload that people scale."""

    def draw(self) -> None:
        """Down to which size it is scaled."""
        least = self.replicas if self.random.random() < KEEPS_ITS_SIZE else SIZES.start
        self.scales = range(least, SIZES.stop)

    def own(self) -> Manifest:
        """Its size."""
        return {"replicas": self.replicas}

    def scale(self, stage: Stage) -> None:
        """Another size."""
        size = self.random.choice(self.scales)
        self.sizes.append(size)
        stage.plane.patch(f"{self.path(stage)}/scale", {"spec": {"replicas": size}})
        self.replicas = size


@dataclass
class Judge:
    """Follows the pods of all orders, by their own events. Each workload has its pods when it begins.

    Args:
        orders: by name.
    """

    orders: dict[str, Order]
    broken: list[str] = field(default_factory=list)
    fewest: dict[str, int] = field(default_factory=dict)
    """Ready pods beyond those promised, at the worst moment."""

    def __post_init__(self) -> None:
        self._pods = {name: Followed() for name in self.orders}
        self._begun: set[str] = set()

    def see(self, event: dict[str, Any]) -> None:
        """Takes an event of a pod in."""
        name = event["object"]["metadata"]["labels"]["app"]
        pods, order = self._pods[name], self.orders[name]
        pods.follow(event)
        ready = [each for each in pods.objects.values() if is_true(each, "Ready") and not _is_leaving(each)]
        promised = order.promised()
        if name not in self._begun:  # its pods come in one by one
            if len(ready) == order.replicas:
                self._begun.add(name)
            return
        self.fewest[name] = min(len(ready) - promised, self.fewest.get(name, len(ready)))
        if len(ready) < promised:
            there = Counter(each["spec"]["containers"][0]["image"] for each in ready)
            self.broken.append(f"{name}: {dict(there)} ready, {promised} promised of {order.sizes}; {order.done}")


def _is_leaving(pod: Manifest) -> bool:
    return "deletionTimestamp" in pod["metadata"]
