"""Asks the routers that TrafficProviders declare whether they follow their objects: one GET, judged by the declaration.

It asks every address of the URL's host, and each must say yes. An answer that is missing or unclear is never live.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from rollouts.core.model.traffic import Acceptance, Answer, LiveSeen, VerifiedBy
from rollouts.errors import CallEnded, ExpressionFailed, SettingsInvalid, Unanswered
from rollouts.ports import BoundedCalls, Clock, LiveQuestion
from rollouts.traffic.declared.probe import DeclaredProbe

if TYPE_CHECKING:
    from rollouts.probes.exchange import Asker, Replica

ANSWER_MAX_BYTES = 256 * 1024
"""The evaluation of an answer of this size takes 20 ms."""

_SHOWN = 3  # replicas in a message


class DeclaredProbes:
    """Asks the routers; nothing is kept between two questions except the settings of connections.

    Args:
        ca_file: PEM file of certificate authorities to trust besides the public ones; None for none.
    """

    def __init__(self, ca_file: Path | None, *, bounded: BoundedCalls, clock: Clock) -> None:
        self._ca_file = ca_file
        self._bounded = bounded
        self._clock = clock
        self._askers: dict[bool, Asker] = {}

    async def live(self, probe: DeclaredProbe, question: LiveQuestion, *, deadline_s: float) -> LiveSeen:
        """Whether the router follows the route, which is the first of the question's objects.

        Cancellation: safe. Raises: nothing that a router or an object could cause.
        """
        at_s = self._clock.now_s()
        try:
            async with asyncio.timeout(deadline_s):
                verdicts = await self._asked(probe, question, deadline_s)
        except TimeoutError:
            verdicts = [Acceptance(Answer.UNKNOWN, f"no answer within {deadline_s:g} s")]
        except (CallEnded, ExpressionFailed, SettingsInvalid, Unanswered) as exc:
            verdicts = [Acceptance(Answer.UNKNOWN, str(exc))]
        bad = [verdict for verdict in verdicts if verdict.answer is not Answer.YES]
        return LiveSeen(
            at_s=at_s,
            resource_version=question.resource_version,
            live=not bad,
            by=VerifiedBy.CONFIG,
            message="; ".join(
                f"unknown: {verdict.message}" if verdict.answer is Answer.UNKNOWN else verdict.message
                for verdict in bad[:_SHOWN]
            ),
            evidence=not bad or any(verdict.answer is Answer.NO for verdict in bad),
        )

    async def aclose(self) -> None:
        """Closes connections; safe to call twice."""
        for asker in self._askers.values():
            await asker.aclose()

    async def _asked(self, probe: DeclaredProbe, question: LiveQuestion, deadline_s: float) -> list[Acceptance]:
        """One verdict for each address. Raises: CallEnded; ExpressionFailed; SettingsInvalid; Unanswered."""
        if not question.objects:
            raise Unanswered(f"the controller has not read {question.route} yet")
        user, tenant = question.objects[0], question.route.namespace
        path = await self._bounded.call(probe.path_of, user, tenant=tenant)
        tls = probe.url.startswith("https:")
        if tls not in self._askers:
            from rollouts.probes.exchange import Asker  # noqa: PLC0415 - httpx costs 5 MiB, so only when it is needed

            self._askers[tls] = Asker(tls=tls, ca_file=self._ca_file if tls else None)
        asker = self._askers[tls]

        async def verdict_of(replica: Replica) -> Acceptance:
            try:
                answer = await asker.get(replica, path, deadline_s=deadline_s, most_bytes=ANSWER_MAX_BYTES)
            except Unanswered as exc:
                return Acceptance(Answer.UNKNOWN, str(exc))
            services = question.stable_service, question.canary_service
            found = await self._bounded.call(probe.judged, answer, user, question.split, *services, tenant=tenant)
            return Acceptance(found.answer, f"{replica.display_name}: {found.message}" if found.message else "")

        replicas = await asker.replicas(probe.url, deadline_s=deadline_s)
        return list(await asyncio.gather(*map(verdict_of, replicas)))
