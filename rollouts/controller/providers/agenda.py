"""What is looked after when: names with a time each, one after the other, and what follows when looking after one fails."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import NoReturn

import structlog

from rollouts.errors import ApiConflict, ApiNotFound, NotLeader, RolloutsError, TransientError
from rollouts.objects import Kind
from rollouts.ports import Clock

REFUSED_AGAIN_S = 300.0  # what makes the API server refuse something changes without an event that we see
UNAVAILABLE_AGAIN_S = 15.0

log = structlog.get_logger()


class Agenda:
    """Names of objects of one kind, each with the monotonic time at which it is due.

    Args:
        look_after: does what is due for one name. What it raises delays that name and no other.
    """

    def __init__(self, kind: Kind, *, clock: Clock, look_after: Callable[[str], Awaitable[None]]) -> None:
        self._kind = kind
        self._clock = clock
        self._look_after = look_after
        self._due_s: dict[str, float] = {}
        self._work = asyncio.Event()

    def do(self, name: str, *, at_s: float = 0.0) -> None:
        """Schedules the name for that monotonic time, or before."""
        self._due_s[name] = min(at_s, self._due_s.get(name, at_s))
        self._work.set()

    def drop(self, name: str) -> None:
        """Forgets the name."""
        self._due_s.pop(name, None)

    def wake(self) -> None:
        """Looks again whether something is due."""
        self._work.set()

    async def run(self, names: Iterable[str], *, on_idle: Callable[[], None] = lambda: None) -> NoReturn:
        """Looks after each name when it is due, beginning with all of `names`. Cancellation: safe.

        Args:
            on_idle: called whenever nothing is due.
        """
        self._due_s = dict.fromkeys(names, 0.0)
        while True:
            self._work.clear()
            now_s = self._clock.monotonic_s()
            due = [name for name, at_s in self._due_s.items() if at_s <= now_s]
            if not due:
                on_idle()
                wait_s = min(self._due_s.values(), default=None)
                try:
                    async with asyncio.timeout(None if wait_s is None else wait_s - now_s):
                        await self._work.wait()
                except TimeoutError:
                    pass
                continue
            for name in due:
                if name in self._due_s:  # it may have been dropped while another one was handled
                    del self._due_s[name]
                    await self._one(name)

    async def _one(self, name: str) -> None:
        """Raises: nothing but cancellation."""
        try:
            await self._look_after(name)
        except (ApiConflict, ApiNotFound):
            return  # it has changed, or is gone; the watch shows that
        except NotLeader:
            self._again(name, UNAVAILABLE_AGAIN_S)
        except RolloutsError as exc:
            again_in_s = UNAVAILABLE_AGAIN_S if isinstance(exc, TransientError) else REFUSED_AGAIN_S
            log.warning(
                "provider_status_not_written", kind=self._kind.kind, name=name, why=str(exc), retry_in_s=again_in_s
            )
            self._again(name, again_in_s)
        except Exception:  # a bug; the other providers are not affected
            log.exception("provider_crashed", kind=self._kind.kind, name=name, retry_in_s=REFUSED_AGAIN_S)
            self._again(name, REFUSED_AGAIN_S)

    def _again(self, name: str, in_s: float) -> None:
        self.do(name, at_s=self._clock.monotonic_s() + in_s)
