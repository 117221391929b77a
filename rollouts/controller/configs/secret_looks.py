"""Looks at the Secrets that Rollouts name, one by one and without their data: each costs a `get` by its name, and no other right.

A watch for each Secret would need the rights to list and to watch it too, and keep a connection open for each.
"""

from __future__ import annotations

import asyncio
import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import structlog

from rollouts.cluster.client import Client
from rollouts.cluster.decoding import decode_secret_metadata
from rollouts.controller.configs.contents import Contents, SecretSeen
from rollouts.controller.configs.reads import read_failed
from rollouts.controller.workqueue.askers import SourceKey
from rollouts.controller.workqueue.queue import WorkQueue
from rollouts.core.model.config import ConfigKind
from rollouts.errors import ApiNotFound, RolloutsError
from rollouts.objects import SECRET
from rollouts.ports import Clock

LOOK_AGAIN_S = 30.0
"""How often a Secret is looked at; a kubelet follows one after 60 to 90 seconds."""
LOOKS_PER_S = 10.0
"""The most looks of one controller; with more than 300 Secrets those of large namespaces are looked at less often."""
LOOK_AGAIN_FAILED_S = 5.0
FAILED_TELL_S = 60.0
"""How long looks fail until what was seen before does not count any more; a refusal is told at once."""

log = structlog.get_logger()


def look_again_s(followed: Mapping[str, int], namespace: str) -> float:
    """How often each Secret of a namespace is looked at, in seconds, `LOOK_AGAIN_S` at least.

    All looks together are `LOOKS_PER_S` at most. A namespace that needs less than an equal part of these has what it needs; the
    rest is for the others, in equal parts. So nobody's thousands of Secrets keep another tenant waiting.

    Args:
        followed: the number of Secrets by namespace, >= 1.
    """
    rest_per_s = LOOKS_PER_S
    for index, count in enumerate(sorted(followed.values())):
        part_per_s = rest_per_s / (len(followed) - index)
        if count / LOOK_AGAIN_S > part_per_s:
            return max(LOOK_AGAIN_S, followed[namespace] / part_per_s)
        rest_per_s -= count / LOOK_AGAIN_S
    return LOOK_AGAIN_S


@dataclass(slots=True, kw_only=True, eq=False)
class SecretLooks:
    """Follows Secrets for as long as a Rollout names them.

    Args:
        room: bounds the requests that are under way.
        looks: owns the tasks; they end with it.
    """

    client: Client
    contents: Contents
    queue: WorkQueue
    clock: Clock
    room: asyncio.Semaphore
    looks: asyncio.TaskGroup
    _following: dict[SourceKey, asyncio.Task[None]] = field(default_factory=dict)
    _in_namespace: Counter[str] = field(default_factory=Counter)

    def follow(self, source: SourceKey) -> bool:
        """Begins to look at a Secret; False when that goes on already. What is new wakes everybody who names it."""
        if source in self._following:
            return False
        self._following[source] = self.looks.create_task(self._follow(source))
        self._in_namespace[source[1]] += 1
        return True

    def stop(self) -> None:
        """Ends all looks, because no pass will need them."""
        for task in self._following.values():
            task.cancel()

    async def _follow(self, source: SourceKey) -> None:
        """Looks until nobody names the Secret; never fails the task group."""
        seen_at_s = self.clock.monotonic_s()
        first = True
        try:
            while self.contents.askers.count(source):
                async with self.room:
                    seen = await self._look(source)
                now_s = self.clock.monotonic_s()
                if seen.failed is None:
                    seen_at_s = now_s
                known = self.contents.secret(source)
                tells = seen.failed is None or seen.failed.needs_a_person or known is None
                if (tells or now_s - seen_at_s >= FAILED_TELL_S) and self.contents.look(
                    source, seen, now_s=self.clock.now_s()
                ):
                    for key in self.contents.askers.of(source):
                        self.queue.add(key)
                await asyncio.sleep(self._pause_s(source, seen, first=first))
                first = first and seen.failed is not None
        finally:
            self._following.pop(source, None)
            self._in_namespace -= Counter((source[1],))
            self.contents.forget_secret(source)

    def _pause_s(self, source: SourceKey, seen: SecretSeen, *, first: bool) -> float:
        """Until the next look. After the first one a part of the time, so that not all Secrets are looked at in one moment."""
        if seen.failed is not None and not seen.failed.needs_a_person:
            return LOOK_AGAIN_FAILED_S
        again_s = look_again_s(self._in_namespace, source[1])
        return again_s * (0.5 + zlib.crc32("/".join(source).encode()) / 2**33) if first else again_s

    async def _look(self, source: SourceKey) -> SecretSeen:
        _, namespace, name = source
        try:
            answer = await self.client.get(SECRET, namespace, name, metadata_only=True)
            return SecretSeen(decode_secret_metadata(answer))
        except ApiNotFound:
            return SecretSeen()
        except Exception as exc:
            if not isinstance(exc, RolloutsError):  # a bug; it affects this Secret alone
                log.exception("secret_look_crashed", namespace=namespace, name=name)
            failed = read_failed(ConfigKind.SECRET, name, exc)
            log.warning("secret_not_seen", namespace=namespace, name=name, why=failed.message)
            return SecretSeen(failed=failed)
