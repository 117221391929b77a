"""Providers broken on purpose, each in one way: the suite is worth what it finds in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from rollouts.core.model.frozen import replace
from rollouts.core.model.traffic import Split
from rollouts.objects import Manifest
from rollouts.traffic.codec import LEDGER, ApplyOwned, Context, Objects, Op, PatchUser, Provider, Target

Operations = tuple[Mapping[str, Any], ...]


@dataclass
class Broken:
    """A provider that passes everything on, but for what a subclass breaks."""

    sound: Provider

    def __getattr__(self, name: str) -> Any:
        return getattr(self.sound, name)


class ForgetsTheLastOperation(Broken):
    """A write that is not finished."""

    def plan(self, objects: Objects, target: Target, context: Context, want: Split) -> tuple[Op, ...]:
        return _last(self.sound.plan(objects, target, context, want), lambda all_of_them: all_of_them[:-1])


class ForgetsTheFirstWrite(Broken):
    """An operation is missing at the beginning: its tests, or the ledger."""

    def plan(self, objects: Objects, target: Target, context: Context, want: Split) -> tuple[Op, ...]:
        return _last(self.sound.plan(objects, target, context, want), _without_first_change)


class NeverUndoes(Broken):
    """What is ours stays in the user's object."""

    def release(self, objects: Objects, target: Target, context: Context) -> tuple[Op, ...]:  # noqa: ARG002 - that is the mistake
        return ()


class WritesAlways(Broken):
    """Never comes to rest: two writers of this kind would fight for ever."""

    def plan(self, objects: Objects, target: Target, context: Context, want: Split) -> tuple[Op, ...]:
        same = {"op": "add", "path": "/apiVersion", "value": objects.user["apiVersion"]}
        return self.sound.plan(objects, target, context, want) or (PatchUser((same,)),)


class ReadsTheOtherHalf(Broken):
    """Takes the canary for the stable one."""

    def read(self, objects: Objects, target: Target, context: Context) -> Split:
        split = self.sound.read(objects, target, context)
        return replace(split, share=1 - split.share)


class RoundsTheShare(Broken):
    """Sends a little more than it was asked for."""

    def plan(self, objects: Objects, target: Target, context: Context, want: Split) -> tuple[Op, ...]:
        rounded = Fraction(-(-want.share * 10 // 1), 10)
        return self.sound.plan(objects, target, context, replace(want, share=rounded))


class DropsManagedRoutes(Broken):
    """A weight step ends the header routes."""

    def plan(self, objects: Objects, target: Target, context: Context, want: Split) -> tuple[Op, ...]:
        if self.sound.read(objects, target, context).share != want.share:
            want = Split(want.share)
        return self.sound.plan(objects, target, context, want)


class RestoresASnapshot(Broken):
    """Gives back what it saw first, not what the user has made of it since."""

    _seen: dict[str, Manifest] = {}  # noqa: RUF012 - the mistake is that it remembers

    def plan(self, objects: Objects, target: Target, context: Context, want: Split) -> tuple[Op, ...]:
        if not self.sound.release(objects, target, context):
            self._seen[target.name] = objects.user
        return self.sound.plan(objects, target, context, want)

    def release(self, objects: Objects, target: Target, context: Context) -> tuple[Op, ...]:
        ops = self.sound.release(objects, target, context)
        old = self._seen.get(target.name)
        if not ops or old is None or old == objects.user:
            return ops
        paths = [name for name in old if old[name] != objects.user.get(name)]
        operations = [
            {"op": op, "path": f"/{name}", "value": part[name]}
            for name in paths
            for op, part in (("test", objects.user), ("replace", old))
        ]
        others = tuple(op for op in ops if not isinstance(op, PatchUser))
        return (*others, *((PatchUser(tuple(operations)),) if operations else ()))


class LosesTheLedger(Broken):
    """Changes the object and forgets what it was before."""

    def plan(self, objects: Objects, target: Target, context: Context, want: Split) -> tuple[Op, ...]:
        return tuple(_without_ledger(op) for op in self.sound.plan(objects, target, context, want))


class TouchesALabel(Broken):
    """Writes something that is nobody's business but the user's."""

    def plan(self, objects: Objects, target: Target, context: Context, want: Split) -> tuple[Op, ...]:
        ops = self.sound.plan(objects, target, context, want)
        if not ops:
            return ops
        return (*ops, PatchUser(({"op": "add", "path": "/metadata/labels", "value": {"mine": "now"}},)))


class TestsNothing(Broken):
    """No net under the guard."""

    __test__ = False

    def plan(self, objects: Objects, target: Target, context: Context, want: Split) -> tuple[Op, ...]:
        return _last(
            self.sound.plan(objects, target, context, want),
            lambda all_of_them: tuple(each for each in all_of_them if each["op"] != "test"),
        )


BROKEN: tuple[type[Broken], ...] = (
    ForgetsTheLastOperation, ForgetsTheFirstWrite, NeverUndoes, WritesAlways, ReadsTheOtherHalf, RoundsTheShare,
    DropsManagedRoutes, RestoresASnapshot, LosesTheLedger, TouchesALabel, TestsNothing,
)  # fmt: skip


def _last(ops: tuple[Op, ...], change: Callable[[Operations], Operations]) -> tuple[Op, ...]:
    """The writes with the operations of the last patch changed; without the last write when it is none or nothing is left."""
    if not ops:
        return ops
    last = ops[-1]
    operations = change(last.operations) if isinstance(last, PatchUser) else ()
    return (*ops[:-1], *((PatchUser(operations),) if operations else ()))


def _without_first_change(operations: Operations) -> Operations:
    at = next(at for at, each in enumerate(operations) if each["op"] != "test")
    return operations[:at] + operations[at + 1 :]


def _without_ledger(op: Op) -> Op:
    match op:
        case PatchUser(operations):
            kept = tuple(_forgetting(each) for each in operations)
            return PatchUser(kept)
        case ApplyOwned(manifest):
            annotations = {k: v for k, v in manifest["metadata"].get("annotations", {}).items() if k != LEDGER}
            return ApplyOwned({**manifest, "metadata": {**manifest["metadata"], "annotations": annotations}})
        case _:
            return op


def _forgetting(operation: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same, with another word where the ledger was."""
    if operation["op"] == "test":
        return operation
    if operation["path"].endswith(LEDGER.replace("/", "~1")) and "value" in operation:
        return {**operation, "value": "{}"}
    if operation["path"] == "/metadata/annotations" and "value" in operation:
        return {**operation, "value": {k: "{}" if k == LEDGER else v for k, v in operation["value"].items()}}
    return operation
