"""What happens to the ConfigMaps of the model world of `model.py`, and what a revision was taken up for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rollouts.core.config.target import config_plan
from rollouts.core.model.config import ConfigKind, ConfigRef, CopySeen
from rollouts.core.model.frozen import replace
from rollouts.core.model.snapshot import Snapshot
from tests.core.model import World
from tests.core.sources import Configs, answered, meaning, removed, written
from tests.invariants.configs import FORGED, is_forged_copy

CONF = ConfigRef(ConfigKind.CONFIG_MAP, "conf")
MAYBE = ConfigRef(ConfigKind.CONFIG_MAP, "maybe", optional=True)
REFS = (CONF, MAYBE)
"""What templates of these worlds name: `conf`, which pods need, and `maybe`, which they do not."""
CRED = ConfigRef(ConfigKind.SECRET, "cred")
WITH_SECRET = (*REFS, CRED)
"""The same with a Secret, for Rollouts that opted in."""


def _key(name: str) -> tuple[ConfigKind, str]:
    return (ConfigKind.SECRET if name == CRED.name else ConfigKind.CONFIG_MAP), name


def with_configs(there: World, **changes: Any) -> World:
    """The world with other circumstances of its configuration."""
    return replace(there, configs=replace(there.configs, **changes))


def source_written(there: World, content: str, name: str = "conf", **changes: bool) -> World:
    """Somebody writes a content into a ConfigMap, or the Secret `cred`, which is created if there is none."""
    key, version = _key(name), there.version + 1
    configs = written(there.configs, key, content, version=version, now_s=there.now_s, **changes)
    return replace(there, configs=configs, version=version)


def config_healed(there: World) -> World:
    """The world in which reads succeed, and somebody has brought back what pods need and somebody deleted."""
    honest = tuple(
        each for each in there.configs.copies if not is_forged_copy(each)
    )  # somebody deletes what status names
    there = with_configs(there, trouble="", slow=False, forbidden=False, copies=honest)
    for name in (CONF.name, CRED.name):
        if _key(name) not in there.configs.objects:
            there = source_written(there, "v1", name)
    return _secret_copies_restored(there)


def copies_restored(there: World) -> World:
    """Somebody restores from a backup each copy of a ConfigMap that a ReplicaSet without pods waits for."""
    there_now = {each.name for each in there.configs.copies}
    lacking = {
        use.copy: use
        for each in there.replica_sets
        for use in each.config or ()
        if not each.replicas and use.kind is ConfigKind.CONFIG_MAP and use.has_copy and use.copy not in there_now
    }
    restored = [
        CopySeen(
            kind=use.kind, name=name, uid=f"restored-{name}", resource_version=f"restored-{name}", source=use.source,
            content=use.content, created_at_s=there.now_s, owners=1, owner_index=0, checked=False,
        )
        for name, use in lacking.items()
    ]  # fmt: skip
    return with_configs(there, copies=(*there.configs.copies, *restored))


def source_removed(there: World, name: str = "conf") -> World:
    """Somebody deletes a ConfigMap, or the Secret."""
    return replace(there, configs=removed(there.configs, _key(name), now_s=there.now_s))


def copies_moved(there: World, *, owned: bool) -> World:
    """Somebody takes the owner of every copy away, or puts it back."""
    version = there.version + 1
    copies = tuple(
        replace(
            each, owned=owned, owners=int(owned), owner_index=int(owned) - 1, resource_version=f"{version}-{each.name}"
        )
        for each in there.configs.copies
    )
    return with_configs(replace(there, version=version), copies=copies)


def copy_deleted(there: World, number: int) -> World:
    """Somebody deletes one of our copies."""
    copies = there.configs.copies
    kept = tuple(each for index, each in enumerate(copies) if index != number % len(copies)) if copies else ()
    return with_configs(there, copies=kept)


def copy_forged(there: World, number: int) -> World:
    """Somebody deletes one of our copies and makes another one of its name, with other data."""
    copies = there.configs.copies
    if not copies:
        return there
    at, version = number % len(copies), there.version + 1
    made = replace(
        copies[at],
        uid=f"{FORGED}-{version}",
        resource_version=f"{version}-{copies[at].name}",
        created_at_s=there.now_s,
        checked=False,
    )
    return with_configs(replace(there, version=version), copies=(*copies[:at], made, *copies[at + 1 :]))


def reads_forgotten(there: World) -> World:
    """Another process goes on, which has read nothing yet."""
    copies = tuple(replace(each, checked=False, forged=False, problem="") for each in there.configs.copies)
    return with_configs(there, read={}, gone={}, copies=copies)


def copy_read(configs: Configs, ref: ConfigRef) -> Configs:
    """A copy is read, and shows whether it is what its name says."""
    return replace(configs, copies=tuple(_compared(each) if each.name == ref.name else each for each in configs.copies))


def _compared(copy: CopySeen) -> CopySeen:
    if is_forged_copy(copy):
        return replace(copy, forged=True, problem=f"{copy.name} is not ours: delete it")
    return replace(copy, checked=True)


def secret_copy_deleted(there: World, number: int = 0) -> World:
    """Somebody deletes one of our copies of the Secret, which nobody sees; pods that are ready stay so."""
    copies = sorted(there.configs.secret_copies)
    if not copies:
        return there
    gone = copies[number % len(copies)]
    taken = there.configs.secret_copies_taken | {gone[1]}
    return with_configs(there, secret_copies=frozenset(copies) - {gone}, secret_copies_taken=taken)


def _secret_copies_restored(there: World) -> World:
    """Somebody restores from a backup the copies of the Secret that they deleted and whose content is nowhere any more."""
    source = there.configs.objects.get(_key(CRED.name))
    lost = {
        (each.uid, use.copy)
        for each in there.replica_sets
        for use in each.config or ()
        if use.copy in there.configs.secret_copies_taken and (source is None or source.content != use.content)
    }
    taken = there.configs.secret_copies_taken - {name for _, name in lost}
    return with_configs(there, secret_copies=there.configs.secret_copies | lost, secret_copies_taken=taken)


def retained(there: World, *, retain: bool) -> World:
    """Somebody sets `configVersioning.retain`, or takes it away."""
    spec = there.rollout.spec
    versioning = replace(spec.config_versioning, retain=retain)
    rollout = replace(there.rollout, spec=replace(spec, config_versioning=versioning))
    return replace(there, rollout=rollout)


def with_meaning(before: World, after: World, view: Snapshot) -> World:
    """The world after a write of status, with what its revision was taken up for.

    Raises: AssertionError when an update begins although neither the template nor a content differs from those on record.
    """
    spec = view.rollout.spec
    if not spec.config_refs:
        return after
    was, now = before.status.current_revision, after.status.current_revision
    plan = config_plan(view)
    means = meaning(spec.template_hash, view.sources)
    if plan is None or plan.hold is not None or plan.revision != now:
        return after
    assert means is not None, f"revision {now} is taken up while a content is not known: {view.sources}"
    meant = before.configs.meant
    assert was in ("", now) or meant.get(was) != means, f"a false rollout from {was} to {now}: {means}"
    seen = any(each.revision == now for each in view.replica_sets)
    if now in meant and not seen:  # what its pods read is noted on its ReplicaSet, which somebody has taken away
        return after
    return replace(after, configs=replace(after.configs, meant={**meant, now: means}))


CONTENTS = ("v1", "v2", "v3")
SOURCES = (CONF.name, MAYBE.name)
CONFIGURATION: dict[str, Callable[[World, int, int], World]] = {
    "a source is edited, or created": lambda there, i, j: source_written(
        there, CONTENTS[i % len(CONTENTS)], SOURCES[j % 2], immutable=i + j == 14
    ),
    "a source is deleted": lambda there, i, _j: source_removed(there, SOURCES[i % 2]),
    "a source is left alone, or not": lambda there, i, j: source_written(
        there, CONTENTS[i % len(CONTENTS)], SOURCES[j % 2], left_alone=i % 2 == 0
    ),
    "reads fail, or not": lambda there, i, _j: with_configs(there, trouble="etcdserver: leader changed" * (i % 2)),
    "reads are slow, or not": lambda there, i, _j: with_configs(there, slow=i % 2 == 0),
    "reads are answered": lambda there, _i, _j: replace(there, configs=answered(there.configs)),
    "reads are forgotten": lambda there, _i, _j: reads_forgotten(there),
    "sources may not be watched, or may": lambda there, i, _j: with_configs(there, forbidden=i % 2 == 0),
    "sources are shared": lambda there, i, _j: with_configs(there, shared_by=i + 1),
    "a copy is deleted": lambda there, i, _j: copy_deleted(there, i),
    "a copy is forged": lambda there, i, _j: copy_forged(there, i),
    "copies lose their owner": lambda there, _i, _j: copies_moved(there, owned=False),
    "copies are retained, or not": lambda there, i, _j: retained(there, retain=i % 2 == 0),
}  # fmt: skip
OF_SECRETS: dict[str, Callable[[World, int, int], World]] = {
    "the Secret is rotated, or created": lambda there, i, j: source_written(
        there, CONTENTS[i % len(CONTENTS)], CRED.name, immutable=i + j == 14
    ),
    "a copy of the Secret is deleted": lambda there, i, _j: secret_copy_deleted(there, i),
    "the Secret is deleted": lambda there, _i, _j: source_removed(there, CRED.name),
}
