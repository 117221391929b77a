"""Whether somebody may give commands, so that their buttons say so before they are pressed.

It is a hint: whether a command is written, the API server decides by itself. Where it does not answer, nothing is locked.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict

from msgspec import Struct

from rollouts.cli.terminal.errors import may_not_text
from rollouts.cli.view.rights import OWN_REVIEW, Right, denied
from rollouts.cli.view.session import Session
from rollouts.core.model.status import Verb
from rollouts.errors import RolloutsError
from rollouts.objects import EXPERIMENT, ROLLOUT, Kind

ON_LOAD_S = 10.0  # a person who was just given a right loads the page again
WHILE_OPEN_S = 60.0
ANSWERED_WITHIN_S = 1.0
_KEPT_MAX = 1_000  # rights, each in a namespace
_WRITE = "patch"


class _Answer(Struct, frozen=True):
    at_s: float
    denied: bool


class Locks(Struct, frozen=True):
    """Which commands somebody may not give in a namespace.

    Args:
        lacking: verbs on the kind that are known to be missing: `patch`, without which there is no command, or those of commands.
    """

    namespace: str = ""
    lacking: frozenset[str] = frozenset()
    kind: Kind = ROLLOUT

    @property
    def everything(self) -> bool:
        """Whether no command can be given."""
        return _WRITE in self.lacking

    def why(self, *verbs: Verb) -> str:
        """Why some of these commands cannot be given; "" where all can, or where that is not known."""
        missing = [_WRITE] if self.everything else sorted(self.lacking.intersection(verbs))
        return may_not_text(", ".join(missing), self.kind.plural, self.namespace) if missing else ""


NO_LOCKS = Locks()


class KnownRights:
    """The answers of the API server to one person, each asked for once whatever the number of pages."""

    def __init__(self, session: Session, *, of_commands: bool = False) -> None:
        """`of_commands`: each command needs a verb of its own in this cluster."""
        self._verbs = {ROLLOUT: (_WRITE, *(Verb if of_commands else ())), EXPERIMENT: (_WRITE,)}
        self._session = session
        self._answers: dict[Right, _Answer] = {}
        self._turns: defaultdict[Right, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def locks(self, namespace: str, *, newer_than_s: float, kind: Kind = ROLLOUT) -> Locks:
        """The commands to Rollouts, or to Experiments, that cannot be given in a namespace.

        Args:
            newer_than_s: an answer that is younger is good enough.
        """
        verbs = self._verbs[kind]
        rights = [Right(kind.group, kind.plural, verb, namespace) for verb in verbs]
        lacks = await asyncio.gather(*(self._lacks(right, newer_than_s) for right in rights))
        return Locks(namespace, frozenset(verb for verb, lacking in zip(verbs, lacks, strict=True) if lacking), kind)

    async def _lacks(self, right: Right, newer_than_s: float) -> bool:
        async with self._turns[right]:
            now_s = asyncio.get_running_loop().time()
            known = self._answers.get(right)
            if known is None or now_s - known.at_s >= newer_than_s:
                known = _Answer(now_s, await self._is_denied(right, before=known is not None and known.denied))
                if len(self._answers) >= _KEPT_MAX:
                    self._answers.clear()
                    self._turns.clear()
                self._answers[right] = known
        return known.denied

    async def _is_denied(self, right: Right, *, before: bool) -> bool:
        """Asks; without an answer it is as it was `before`."""
        try:
            async with asyncio.timeout(ANSWERED_WITHIN_S):
                return bool(await denied(self._session, (right,), OWN_REVIEW, {}))
        except (RolloutsError, TimeoutError):
            return before
