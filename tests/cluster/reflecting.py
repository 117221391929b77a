"""A reflector that runs while a test looks, and what it has reported."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Generic

from rollouts.cluster.decoding import UnreadableObject
from rollouts.cluster.store import Table
from rollouts.cluster.structs import T
from rollouts.cluster.watch import reflect
from rollouts.errors import RolloutsError
from rollouts.ports import ApiServer


class Seen(Generic[T]):
    def __init__(self, table: Table[T]) -> None:
        self.table = table
        self.changes: list[tuple[T | None, T | None]] = []
        self.unreadable: list[UnreadableObject] = []
        self.problems: list[RolloutsError] = []

    def names(self) -> list[str]:
        return sorted(each.metadata.name for each in self.table.all())

    def versions(self) -> list[tuple[int | None, int | None]]:
        return [(a.metadata.version if a else None, b.metadata.version if b else None) for a, b in self.changes]


@asynccontextmanager
async def reflecting(api: ApiServer, table: Table[T], **options: Any) -> AsyncIterator[Seen[T]]:
    """A reflector that runs while the block does, and has not ended by then."""
    seen = Seen(table)
    given: dict[str, Any] = {
        "on_change": lambda _, *change: seen.changes.append(change),
        "on_unreadable": lambda _, each: seen.unreadable.append(each),
        "on_problem": lambda _, problem: seen.problems.append(problem),
        "rng": random.Random(7),  # noqa: S311 - the same jitter in every run
    }
    task = asyncio.ensure_future(reflect(api, table, **(given | options)))
    try:
        yield seen
        assert not task.done(), task
    finally:
        task.cancel()
        await asyncio.wait({task})
