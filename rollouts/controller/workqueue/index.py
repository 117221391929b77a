"""Sets by key: which Rollouts an object concerns, and the other way round."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeVar

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V", bound=Hashable)


class Index(dict[_K, set[_V]]):
    """None of the sets is empty, so it is as large as what it knows."""

    def add(self, key: _K, value: _V) -> None:
        """Adds a value to the set of a key."""
        self.setdefault(key, set()).add(value)

    def discard(self, key: _K, value: _V) -> None:
        """Takes a value out of the set of a key, if it is there."""
        values = self.get(key, set())
        values.discard(value)
        if not values:
            self.pop(key, None)
