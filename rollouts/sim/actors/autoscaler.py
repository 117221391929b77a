"""An autoscaler with a script: at given times it sets the scale of a workload, as a HorizontalPodAutoscaler would."""

from __future__ import annotations

from msgspec import Struct

from rollouts.objects import Kind
from rollouts.sim.actors.work import Actor, World
from rollouts.sim.apiserver.subresources import put_scale
from rollouts.sim.storage.history import ObjectKey


class ScaleAt(Struct, frozen=True):
    """One decision of the autoscaler, `at_s` loop seconds after its start, on a kind with a scale subresource."""

    at_s: float
    kind: Kind
    namespace: str
    name: str
    replicas: int


class Autoscaler(Actor):
    """Carries out a script through the scale subresource. It skips a workload that does not exist at that time."""

    name = "horizontal-pod-autoscaler"

    def __init__(self, world: World, script: tuple[ScaleAt, ...]) -> None:
        super().__init__(world, lag_s=0.0)
        self._script = script

    def watch(self) -> None:
        """Sets a timer for each decision; a key is the number of a decision."""
        for number, decision in enumerate(self._script):
            self.mark(("", str(number)), decision.at_s)

    def look(self, key: ObjectKey) -> None:
        """Carries out one decision."""
        decision = self._script[int(key[1])]
        stored = self.world.history.get(decision.kind, decision.namespace, decision.name)
        if stored is not None:
            scale = {"spec": {"replicas": decision.replicas}}
            put_scale(self.world.verbs, self.world.resource(decision.kind), stored, scale, self.options)
