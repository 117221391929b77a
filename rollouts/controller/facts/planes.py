"""What the controller asks of data planes: `probes.planes.DataPlanes` on a real cluster, `sim.data_planes` on a simulated one."""

from __future__ import annotations

from typing import Protocol

from rollouts.core.model.snapshot import DrainSeen
from rollouts.core.model.traffic import LiveSeen, RouteName, VerifiedBy
from rollouts.probes.questions import DrainQuestion, LiveQuestion


class Planes(Protocol):
    """The data planes of all gateways that somebody named."""

    def asked_by(self, route: RouteName, gateways: tuple[str, ...]) -> VerifiedBy | None:
        """How the data planes that do `route` can tell whether they do; None when one of them cannot be asked.

        Args:
            gateways: theirs, as the codec names them; () where it cannot tell.
        """
        ...

    async def live(self, question: LiveQuestion, *, deadline_s: float) -> LiveSeen:
        """Whether every replica does what the route says.

        Cancellation: safe. Raises: nothing that a proxy could cause.
        """
        ...

    async def drained(self, question: DrainQuestion, *, deadline_s: float) -> DrainSeen:
        """What is in flight. Cancellation: safe. Raises: nothing that a proxy could cause."""
        ...
