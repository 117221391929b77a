"""Providers broken on purpose, each in one way: the suite is worth what it finds in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

from rollouts.core.model.frozen import replace
from rollouts.core.model.traffic import Split
from rollouts.objects import Manifest
from rollouts.traffic.codec import LEDGER, ApplyOwned, Context, Objects, Op, PatchUser, Provider, Target

Operations = tuple[Mapping[str, Any], ...]
Ops = tuple[Op, ...]


@dataclass
class Broken:
    """A provider that passes everything on, but for what it writes in place of its writes, or what a subclass breaks."""

    sound: Provider
    written: Callable[[Ops], Ops] = tuple

    def __getattr__(self, name: str) -> Any:
        return getattr(self.sound, name)

    def plan(self, objects: Objects, target: Target, context: Context, want: Split) -> Ops:
        return self.written(self.sound.plan(objects, target, context, want))


class NeverUndoes(Broken):
    """What is ours stays in the user's object."""

    def release(self, objects: Objects, target: Target, context: Context) -> Ops:  # noqa: ARG002 - that is the mistake
        return ()


class WritesAlways(Broken):
    """Never comes to rest: two writers of this kind would fight for ever."""

    def plan(self, objects: Objects, target: Target, context: Context, want: Split) -> Ops:
        same = {"op": "add", "path": "/apiVersion", "value": objects.user["apiVersion"]}
        return self.sound.plan(objects, target, context, want) or (PatchUser((same,)),)


class ReadsTheOtherHalf(Broken):
    """Takes the canary for the stable one."""

    def read(self, objects: Objects, target: Target, context: Context) -> Split:
        split = self.sound.read(objects, target, context)
        return replace(split, share=1 - split.share)


class RoundsTheShare(Broken):
    """Sends a little more than it was asked for."""

    def plan(self, objects: Objects, target: Target, context: Context, want: Split) -> Ops:
        rounded = Fraction(-(-want.share * 10 // 1), 10)
        return self.sound.plan(objects, target, context, replace(want, share=rounded))


class DropsManagedRoutes(Broken):
    """A weight step ends the header routes."""

    def plan(self, objects: Objects, target: Target, context: Context, want: Split) -> Ops:
        if self.sound.read(objects, target, context).share != want.share:
            want = Split(want.share)
        return self.sound.plan(objects, target, context, want)


class RestoresASnapshot(Broken):
    """Gives back what it saw first, not what the user has made of it since."""

    _seen: dict[str, Manifest] = {}  # noqa: RUF012 - the mistake is that it remembers

    def plan(self, objects: Objects, target: Target, context: Context, want: Split) -> Ops:
        if not self.sound.release(objects, target, context):
            self._seen[target.name] = objects.user
        return self.sound.plan(objects, target, context, want)

    def release(self, objects: Objects, target: Target, context: Context) -> Ops:
        ops = self.sound.release(objects, target, context)
        old = self._seen.get(target.name)
        if not ops or old is None or old == objects.user:
            return ops
        operations = tuple(
            {"op": op, "path": f"/{name}", "value": part[name]}
            for name in (name for name in old if old[name] != objects.user.get(name))
            for op, part in (("test", objects.user), ("replace", old))
        )
        others = (op for op in ops if not isinstance(op, PatchUser))
        return (*others, *((PatchUser(operations),) if operations else ()))


def _with_a_label(ops: Ops) -> Ops:
    return (*ops, PatchUser(({"op": "add", "path": "/metadata/labels", "value": {"mine": "now"}},))) if ops else ops


def _without_tests(operations: Operations) -> Operations:
    return tuple(each for each in operations if each["op"] != "test")


DROPS_MANAGED_ROUTES, RESTORES_A_SNAPSHOT, TESTS_NOTHING = (
    "drops managed routes",
    "restores a snapshot",
    "tests nothing",
)
MISTAKES: Mapping[str, Callable[[Provider], Broken]] = {
    "forgets the last operation": partial(Broken, written=lambda ops: _last(ops, lambda operations: operations[:-1])),
    "forgets the first write, or the ledger": partial(Broken, written=lambda ops: _last(ops, _without_first_change)),
    "never undoes": NeverUndoes,
    "writes always": WritesAlways,
    "reads the other half": ReadsTheOtherHalf,
    "rounds the share": RoundsTheShare,
    DROPS_MANAGED_ROUTES: DropsManagedRoutes,
    RESTORES_A_SNAPSHOT: RestoresASnapshot,
    "loses the ledger": partial(Broken, written=lambda ops: tuple(map(_without_ledger, ops))),
    "touches a label of the user's": partial(Broken, written=_with_a_label),
    TESTS_NOTHING: partial(Broken, written=lambda ops: _last(ops, _without_tests)),
}


def _last(ops: Ops, change: Callable[[Operations], Operations]) -> Ops:
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
            return PatchUser(tuple(map(_forgetting, operations)))
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
