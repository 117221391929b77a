"""One target of a provider: its objects, whom it is between, and what writes make of it. No API server: JSON Patch in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, assert_never

from rollouts.core.model.frozen import replace
from rollouts.core.model.traffic import MatchKind, MatchRoute, NamedMatch, RequestMatch, Split, TextMatch
from rollouts.objects import Manifest
from rollouts.sim.storage.patches import json_patch
from rollouts.traffic.codec import (
    ApplyOwned,
    Context,
    DeleteOwned,
    Destination,
    Objects,
    Op,
    PatchUser,
    Provider,
    Target,
)

NAMESPACE = "shop"
WRITES_MOST = 3
CONTEXT = Context(
    rollout="cart",
    namespace=NAMESPACE,
    stable=Destination("cart"),
    canary=Destination("cart-canary"),
)


def by_header(
    name: str = "x-canary", value: str = "1", kind: MatchKind = MatchKind.EXACT, **other: Any
) -> RequestMatch:
    return RequestMatch(headers=(NamedMatch(name, TextMatch(kind, value)),), **other)


def by_path(value: str, kind: MatchKind = MatchKind.PREFIX, **other: Any) -> RequestMatch:
    return RequestMatch(path=TextMatch(kind, value), **other)


A_TENTH = Split(Fraction(1, 10))
TESTERS = MatchRoute("testers", by_header())


def destination(host: str, weight: int | None = None) -> Manifest:
    return {"destination": {"host": host}, **({} if weight is None else {"weight": weight})}


@dataclass(frozen=True)
class Situation:
    """What a driver would have before it."""

    provider: Provider
    target: Target
    objects: Objects
    context: Context = CONTEXT
    _managed: dict[Split, Situation] = field(default_factory=dict, init=False, compare=False, repr=False)

    @classmethod
    def of(
        cls, provider: Provider, settings: Mapping[str, Any], user: Manifest, context: Context = CONTEXT
    ) -> Situation:
        """The first target of the settings."""
        target = provider.targets(settings, namespace=NAMESPACE)[0]
        return cls(provider, target, Objects(user), context)

    @classmethod
    def at(
        cls, provider: Provider, settings: Mapping[str, Any], spec: Manifest, status: Manifest | None = None
    ) -> Situation:
        """An object named cart with this spec."""
        metadata = {"name": "cart", "namespace": NAMESPACE, "generation": 4}
        return cls.of(provider, settings, {"metadata": metadata, "spec": spec, "status": status or {}})

    def read(self) -> Split:
        return self.provider.read(self.objects, self.target, self.context)

    def plan(self, want: Split) -> tuple[Op, ...]:
        return self.provider.plan(self.objects, self.target, self.context, want)

    def release(self) -> tuple[Op, ...]:
        return self.provider.release(self.objects, self.target, self.context)

    def after(self, ops: tuple[Op, ...]) -> Situation:
        """The situation after these writes."""
        objects = self.objects
        for op in ops:
            match op:
                case PatchUser(operations):
                    assert operations, "an empty patch is no write"
                    objects = replace(objects, user=json_patch(objects.user, [dict(each) for each in operations]))
                case ApplyOwned(manifest):
                    objects = replace(objects, owned=manifest)
                case DeleteOwned():
                    assert objects.owned is not None, "there is nothing to delete"
                    objects = replace(objects, owned=None)
                case never:
                    assert_never(never)
        return replace(self, objects=objects)

    def towards(self, want: Split) -> Iterator[Situation]:
        """After each write that is planned for `want`, as many as it takes."""
        now = self
        for _ in range(WRITES_MOST):
            if not (ops := now.plan(want)):
                return
            now = now.after(ops)
            yield now
        assert now.plan(want) == (), f"it is not there after {WRITES_MOST} writes"

    def managed(self, want: Split) -> Situation:
        """After all that is planned for `want`; computed once, as several laws ask for the same."""
        if want not in self._managed:
            self._managed[want] = [self, *self.towards(want)][-1]
        return self._managed[want]

    def given_back(self) -> Situation:
        return self.after(self.release())

    def edited(self, user: Manifest) -> Situation:
        """After somebody else has written the user's object."""
        return replace(self, objects=replace(self.objects, user=user))
