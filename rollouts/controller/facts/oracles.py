"""Data planes that the operator named, and routers that TrafficProviders declare with a way to ask them: one answer to both."""

from __future__ import annotations

from collections.abc import Mapping

from rollouts.core.model.snapshot import DrainSeen
from rollouts.core.model.traffic import LiveSeen, RouteName, VerifiedBy
from rollouts.ports import DrainQuestion, LiveQuestion, Planes
from rollouts.probes.oracles import Oracles
from rollouts.traffic.codec import Provider
from rollouts.traffic.declared.codec import Declared
from rollouts.traffic.declared.oracle import Oracle


class PlanesAndOracles:
    """A router that says itself how it is asked is asked so, whatever `--data-plane` names.

    Args:
        providers: those that there are now; read at each question.
    """

    def __init__(self, planes: Planes, *, oracles: Oracles, providers: Mapping[str, Provider]) -> None:
        self._planes = planes
        self._oracles = oracles
        self._providers = providers

    def asked_by(self, route: RouteName, gateways: tuple[str, ...]) -> VerifiedBy | None:
        """See `ports.Planes`."""
        return self._planes.asked_by(route, gateways) if self._oracle(route) is None else VerifiedBy.CONFIG

    async def live(self, question: LiveQuestion, *, deadline_s: float) -> LiveSeen:
        """See `ports.Planes`."""
        oracle = self._oracle(question.route)
        if oracle is None:
            return await self._planes.live(question, deadline_s=deadline_s)
        return await self._oracles.live(oracle, question, deadline_s=deadline_s)

    async def drained(self, question: DrainQuestion, *, deadline_s: float) -> DrainSeen:
        """See `ports.Planes`."""
        return await self._planes.drained(question, deadline_s=deadline_s)

    def _oracle(self, route: RouteName) -> Oracle | None:
        provider = self._providers.get(route.router)
        return provider.live if isinstance(provider, Declared) else None
