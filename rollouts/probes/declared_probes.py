"""Asks the routers that TrafficProviders declare whether they do what their objects say: one GET, judged by the declaration.

Every address of the URL's host is asked, and each must say yes. What cannot be asked or judged is not known, and never live.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, assert_never

from rollouts.core.model.traffic import Acceptance, Answer, LiveSeen, VerifiedBy
from rollouts.errors import ExpressionFailed, SettingsInvalid, Unanswered
from rollouts.ports import Clock, LiveQuestion
from rollouts.traffic.declared.probe import DeclaredProbe

if TYPE_CHECKING:
    from rollouts.probes.asker import Asker
    from rollouts.probes.exchange import Replica

ANSWER_MAX_BYTES = 256 * 1024
"""So much is evaluated within 20 ms, in which nothing else goes on."""

_SHOWN = 3  # replicas in a message


class DeclaredProbes:
    """Asks; nothing is kept between two questions but connections' settings.

    Args:
        ca_file: certificates of authorities that are believed besides the public ones, PEM; None for none.
        clock: dates the answers.
    """

    def __init__(self, ca_file: Path | None, *, clock: Clock) -> None:
        self._ca_file = ca_file
        self._clock = clock
        self._askers: dict[bool, Asker] = {}

    async def live(self, probe: DeclaredProbe, question: LiveQuestion, *, deadline_s: float) -> LiveSeen:
        """Whether the router does what the route, the first of the question's objects, says.

        Cancellation: safe. Raises: nothing that a router or an object could cause.
        """
        at_s = self._clock.now_s()
        try:
            async with asyncio.timeout(deadline_s):
                verdicts = await self._asked(probe, question, deadline_s)
        except TimeoutError:
            verdicts = [Acceptance(Answer.UNKNOWN, f"no answer within {deadline_s:g} s")]
        except (ExpressionFailed, SettingsInvalid, Unanswered) as exc:
            verdicts = [Acceptance(Answer.UNKNOWN, str(exc))]
        bad = [each for each in verdicts if each.answer is not Answer.YES]
        return LiveSeen(
            at_s=at_s,
            resource_version=question.resource_version,
            live=not bad,
            by=VerifiedBy.CONFIG,
            message="; ".join(_told(each) for each in bad[:_SHOWN]),
            evidence=not bad or any(each.answer is Answer.NO for each in bad),
        )

    async def aclose(self) -> None:
        """Closes connections; safe to call twice."""
        for each in self._askers.values():
            await each.aclose()

    async def _asked(self, probe: DeclaredProbe, question: LiveQuestion, deadline_s: float) -> list[Acceptance]:
        """One for each address. Raises: ExpressionFailed; SettingsInvalid; Unanswered."""
        if not question.objects:
            raise Unanswered(f"{question.route} was not read")
        user = question.objects[0]
        path = probe.path_of(user)
        asker = self._asker(tls=probe.url.startswith("https:"))

        async def one(replica: Replica) -> Acceptance:
            try:
                answer = await asker.get(replica, path, deadline_s=deadline_s, most_bytes=ANSWER_MAX_BYTES)
            except Unanswered as exc:
                return Acceptance(Answer.UNKNOWN, str(exc))
            found = probe.judged(
                answer, user, question.split, stable=question.stable_service, canary=question.canary_service
            )
            return Acceptance(found.answer, f"{replica.display_name}: {found.message}" if found.message else "")

        replicas = await asker.replicas(probe.url, deadline_s=deadline_s)
        return list(await asyncio.gather(*map(one, replicas)))

    def _asker(self, *, tls: bool) -> Asker:
        from rollouts.probes.asker import Asker  # noqa: PLC0415 - httpx costs 5 MiB, where somebody is to be asked

        if tls not in self._askers:
            self._askers[tls] = Asker(tls=tls, ca_file=self._ca_file if tls else None)
        return self._askers[tls]


def _told(verdict: Acceptance) -> str:
    match verdict.answer:
        case Answer.UNKNOWN:
            return f"not known: {verdict.message}"
        case Answer.YES | Answer.NO:
            return verdict.message
        case never:
            assert_never(never)
