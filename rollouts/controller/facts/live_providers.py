"""The current traffic providers: the fixed ones, and those that TrafficProviders of the cluster declare.

The watch of TrafficProviders keeps the mapping up to date. Readers look up names, and may ask why one is missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from rollouts.traffic.codec import Provider
from rollouts.traffic.registry import unknown

MISSED_MAX = 1_000
"""Most missed names that are kept. The authors of Rollouts choose them, so their number must have a limit."""

Fixed: TypeAlias = Mapping[str, Provider]


class LiveProviders(Mapping[str, Provider]):
    """Providers by name. A fixed one keeps its name, whatever is declared.

    `version` counts changes: values derived from an older version must be derived again. `missed` has the names that were asked
    for and that nothing declares.
    """

    def __init__(self, fixed: Fixed) -> None:
        self.fixed = fixed
        self.version = 0
        self.missed: dict[str, None] = {}
        self._listed = False
        self._declared: dict[str, Provider] = {}
        self._why_not: dict[str, str | None] = {}

    def __getitem__(self, name: str) -> Provider:
        return self.fixed[name] if name in self.fixed else self._declared[name]

    def __iter__(self) -> Iterator[str]:
        yield from self.fixed
        yield from (name for name in self._declared if name not in self.fixed)

    def __len__(self) -> int:
        return len(self.fixed) + sum(name not in self.fixed for name in self._declared)

    def undecided(self, name: str) -> bool:
        """Whether it is not known yet if a provider of that name exists: nothing was listed, or the provider is being tried."""
        if name in self:
            return False
        if name in self._why_not:
            return self._why_not[name] is None
        self._miss(name)
        return not self._listed

    def why_not(self, name: str) -> str:
        """Why there is no provider of that name, for people."""
        why = self._why_not.get(name)
        if name not in self._why_not:
            self._miss(name)
        return unknown(name, self) if why is None else f"TrafficProvider {name} is not Ready: {why}"

    def _miss(self, name: str) -> None:
        if len(self.missed) < MISSED_MAX:
            self.missed[name] = None

    # For the watch of TrafficProviders.

    def listed(self) -> None:
        """Notes that all declarations are known from now on."""
        if not self._listed:
            self._listed = True
            self.version += 1

    def has(self, provider: Provider) -> None:
        """Adds a declaration that may be used."""
        self._why_not.pop(provider.name, None)
        self._declared[provider.name] = provider
        self.version += 1

    def lacks(self, name: str, why: str | None) -> None:
        """Notes a declaration that may not be used; `why` is None while it is being tried."""
        self._declared.pop(name, None)
        self._why_not[name] = why
        self.version += 1

    def gone(self, name: str) -> None:
        """Forgets a declaration that was deleted."""
        self._declared.pop(name, None)
        self._why_not.pop(name, None)
        self.version += 1


def why_not(name: str, providers: Mapping[str, Provider]) -> str:
    """Why `providers` has no provider of that name, for people."""
    return providers.why_not(name) if isinstance(providers, LiveProviders) else unknown(name, providers)


def undecided(name: str, providers: Mapping[str, Provider]) -> bool:
    """Whether it is not known yet if a provider of that name exists; never for a fixed mapping."""
    return isinstance(providers, LiveProviders) and providers.undecided(name)
