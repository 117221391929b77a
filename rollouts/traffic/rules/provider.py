"""What the codecs of routers with lists of rules share: a provider made of a dialect, and the objects that its settings name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from rollouts.core.model.traffic import RuleSaid, Split
from rollouts.objects import Kind
from rollouts.traffic.codec import Context, Objects, Op, SharesAlone, Target
from rollouts.traffic.rules.steering import Dialect
from rollouts.traffic.settings import SettingsReader


class Rules(SharesAlone, ABC):
    """A provider (`codec.Provider`), as far as it follows from its dialect."""

    @abstractmethod
    def dialect(self, target: Target, context: Context) -> Dialect:
        """How the target's rules are written."""

    def read(self, objects: Objects, target: Target, context: Context) -> Split:
        """See `codec.Provider`."""
        return self.dialect(target, context).read(objects.user)

    def plan(self, objects: Objects, target: Target, context: Context, want: Split) -> tuple[Op, ...]:
        """See `codec.Provider`."""
        self.check_experiments(want, target)
        return self.dialect(target, context).plan(objects.user, want)

    def release(self, objects: Objects, target: Target, context: Context) -> tuple[Op, ...]:
        """See `codec.Provider`."""
        return self.dialect(target, context).release(objects.user)

    def rules(self, objects: Objects, target: Target, context: Context) -> tuple[RuleSaid, ...]:
        """See `codec.Provider`."""
        return self.dialect(target, context).said(objects.user)


def listed_targets(
    settings: Mapping[str, Any], field: str, kinds: tuple[Kind, ...], *, namespace: str, elsewhere: bool = False
) -> tuple[Target, ...]:
    """The objects that a list of the settings names, at least one; with `elsewhere` each may have a namespace of its own."""
    read = SettingsReader(settings)
    targets: list[Target] = []
    parts = read.parts(field)
    for part in parts:
        where = part.object_name("namespace", default=namespace) if elsewhere else namespace
        targets.append(Target(kinds=kinds, namespace=where, name=part.object_name("name", needed=True)))
    for part in parts:
        part.done()
    if not targets:
        read.refuse(field, "is required: [{name: …}]")
    read.done()
    return tuple(targets)
