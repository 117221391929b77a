"""Whether somebody may give commands, so that their buttons say so before they are pressed.

It is a hint: whether a command is written, the API server decides by itself. Where it does not answer, nothing is locked.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict

from msgspec import Struct

from rollouts.cli.view.rights import OWN_REVIEW, Right, denied
from rollouts.cli.view.session import Session
from rollouts.errors import RolloutsError
from rollouts.objects import ROLLOUT

ON_LOAD_S = 10.0  # a person who was just given a right loads the page again
WHILE_OPEN_S = 60.0
ANSWERED_WITHIN_S = 1.0
_KEPT_MAX = 1_000  # namespaces


class _Answer(Struct, frozen=True):
    at_s: float
    denied: bool


class KnownRights:
    """The answers of the API server to one person, each asked for once whatever the number of pages."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._answers: dict[Right, _Answer] = {}
        self._turns: defaultdict[Right, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def lacking(self, namespace: str, *, newer_than_s: float) -> Right | None:
        """The right that is needed for commands in a namespace, if it is known to be missing.

        Args:
            newer_than_s: an answer that is younger is good enough.
        """
        right = Right(ROLLOUT.group, ROLLOUT.plural, "patch", namespace)
        async with self._turns[right]:
            now_s = asyncio.get_running_loop().time()
            known = self._answers.get(right)
            if known is None or now_s - known.at_s >= newer_than_s:
                known = _Answer(now_s, await self._is_denied(right, before=known is not None and known.denied))
                if len(self._answers) >= _KEPT_MAX:
                    self._answers.clear()
                    self._turns.clear()
                self._answers[right] = known
        return right if known.denied else None

    async def _is_denied(self, right: Right, *, before: bool) -> bool:
        """Asks; without an answer it is as it was `before`."""
        try:
            async with asyncio.timeout(ANSWERED_WITHIN_S):
                return bool(await denied(self._session, (right,), OWN_REVIEW, {}))
        except (RolloutsError, TimeoutError):
            return before
