"""Which Rollouts depend on which objects that are not theirs: analysis templates, and sources of configuration.

Of templates only those of an update that is under way: an idle Rollout asks for none. It waits for AnalysisRuns of somebody else,
too, that have a name which it needs. Where a template has the same name, a pass too many is all that follows.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, TypeAlias, TypeVar

from rollouts.controller.workqueue.index import Index
from rollouts.core.model.config import ConfigKind
from rollouts.objects import Key

SourceKey: TypeAlias = tuple[ConfigKind, str, str]
"""Kind, namespace and name of a source of configuration."""

_Thing = TypeVar("_Thing", bound=Hashable)


class Askers(Generic[_Thing]):
    """Rollouts by what they depend on, and the other way round."""

    def __init__(self) -> None:
        self._asked: Index[Key, _Thing] = Index()
        self._askers: Index[_Thing, Key] = Index()

    def asks(self, key: Key, objects: Iterable[_Thing]) -> None:
        """Notes that the Rollout depends on these objects and on no others, whether they exist or not; () when it is gone."""
        asked, before = frozenset(objects), frozenset(self._asked.get(key, ()))
        for thing in before - asked:
            self._asked.discard(key, thing)
            self._askers.discard(thing, key)
        for thing in asked - before:
            self.asks_also(key, thing)

    def asks_also(self, key: Key, thing: _Thing) -> None:
        """Notes that the Rollout depends on one more object."""
        self._asked.add(key, thing)
        self._askers.add(thing, key)

    def of(self, thing: _Thing) -> frozenset[Key]:
        """The Rollouts that depend on it."""
        return frozenset(self._askers.get(thing, ()))

    def count(self, thing: _Thing) -> int:
        """How many Rollouts depend on it."""
        return len(self._askers.get(thing, ()))

    def all(self) -> tuple[Key, ...]:
        """Every Rollout that depends on anything."""
        return tuple(self._asked)
