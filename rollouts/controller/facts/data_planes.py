"""Joins the data planes that the operator named and the routers that TrafficProviders declare with a way to ask them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rollouts.core.model.snapshot import DrainSeen
from rollouts.core.model.traffic import LiveSeen, RouteName, VerifiedBy
from rollouts.ports import DataPlanes, DrainQuestion, LiveQuestion
from rollouts.probes.declared_probes import DeclaredProbes
from rollouts.traffic.codec import Provider
from rollouts.traffic.declared.codec import Declared
from rollouts.traffic.declared.probe import DeclaredProbe


@dataclass(slots=True, eq=False)
class AllDataPlanes:
    """Asks a router as its TrafficProvider declares, whatever `--data-plane` names, and all others as `--data-plane` names.

    Args:
        providers: the current providers; read at each question.
    """

    planes: DataPlanes
    probes: DeclaredProbes = field(kw_only=True)
    providers: Mapping[str, Provider] = field(kw_only=True)

    def asked_by(self, route: RouteName, gateways: tuple[str, ...]) -> VerifiedBy | None:
        """See `ports.DataPlanes`."""
        return self.planes.asked_by(route, gateways) if self._probe(route) is None else VerifiedBy.CONFIG

    async def live(self, question: LiveQuestion, *, deadline_s: float) -> LiveSeen:
        """See `ports.DataPlanes`."""
        probe = self._probe(question.route)
        if probe is None:
            return await self.planes.live(question, deadline_s=deadline_s)
        return await self.probes.live(probe, question, deadline_s=deadline_s)

    async def drained(self, question: DrainQuestion, *, deadline_s: float) -> DrainSeen:
        """See `ports.DataPlanes`."""
        return await self.planes.drained(question, deadline_s=deadline_s)

    def _probe(self, route: RouteName) -> DeclaredProbe | None:
        provider = self.providers.get(route.router)
        return provider.live if isinstance(provider, Declared) else None
