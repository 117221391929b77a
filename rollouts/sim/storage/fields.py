"""Sets of field paths: the fields of an owner, and the differences between two versions of an object.

A path is a tuple of `fieldsV1` steps: `f:spec`, `k:{"name":"app"}`, `v:"finalizer"`. Source of the rules:
sigs.k8s.io/structured-merge-diff (`ToFieldSet`, `Compare`) and `FieldsV1` in apimachinery meta/v1.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, TypeAlias

from rollouts.objects import Manifest
from rollouts.sim.storage.shapes import METADATA, MergeShape

FieldPath: TypeAlias = tuple[str, ...]
FieldSet: TypeAlias = frozenset[FieldPath]

UNOWNED_METADATA = frozenset(
    ("name", "generateName", "namespace", "creationTimestamp", "selfLink", "uid", "generation", "resourceVersion",
     "managedFields", "deletionTimestamp", "deletionGracePeriodSeconds")
)  # fmt: skip
"""Fields of `metadata` that the server sets and nobody owns."""


@lru_cache(maxsize=65_536)
def field_step(name: str) -> str:
    """The step to a map's field."""
    return f"f:{name}"


def item_step(item: Any, shape: MergeShape) -> str:
    """The step to an item of a list-map."""
    names = item if isinstance(item, dict) else {}
    return _key_step(shape.keys, tuple(names.get(name, shape.key_defaults.get(name)) for name in shape.keys))


@lru_cache(maxsize=65_536)
def _key_step(keys: tuple[str, ...], values: tuple[Any, ...]) -> str:
    return "k:" + json.dumps(dict(zip(keys, values, strict=True)), separators=(",", ":"), sort_keys=True)


def owned_fields(manifest: Manifest, shape: MergeShape) -> FieldSet:
    """The fields that an applied configuration contains: leaves and list items."""
    paths: set[FieldPath] = set()
    for name, value, child in _owned_parts(manifest, shape):
        _collect(value, child, (name,), paths, inner=False)
    return frozenset(paths)


def _owned_parts(manifest: Manifest, shape: MergeShape) -> Iterable[tuple[str, Any, MergeShape]]:
    for name, value in manifest.items():
        if name == "metadata":
            yield "f:metadata", {k: v for k, v in value.items() if k not in UNOWNED_METADATA}, METADATA
        elif name not in {"apiVersion", "kind"}:
            yield field_step(name), value, shape.child(name)


def _collect(value: Any, shape: MergeShape, path: FieldPath, paths: set[FieldPath], *, inner: bool) -> None:
    """Adds the leaves under `value`; with `inner` also the maps above them, as a comparison reports them."""
    if isinstance(value, dict) and not shape.atomic:
        if (inner or not value) and len(path) > 1:  # nobody owns `metadata`, `spec` or `status` as such
            paths.add(path)
        for name, part in value.items():
            _collect(part, shape.child(name), (*path, field_step(name)), paths, inner=inner)
    elif isinstance(value, list) and shape.keys and not shape.atomic:
        if inner or not value:
            paths.add(path)
        for item in value:
            step = (*path, item_step(item, shape))
            paths.add(step)
            if not shape.item.atomic and isinstance(item, dict):
                for name, part in item.items():
                    _collect(part, shape.item.child(name), (*step, field_step(name)), paths, inner=inner)
    elif isinstance(value, list) and shape.is_set:
        if inner or not value:
            paths.add(path)
        paths.update((*path, "v:" + json.dumps(item)) for item in value)
    else:
        paths.add(path)


def compare(old: Manifest, new: Manifest, shape: MergeShape) -> tuple[set[FieldPath], set[FieldPath]]:
    """The paths that `new` has removed, and those that it has added or changed. Parts that both share cost nothing."""
    removed: set[FieldPath] = set()
    changed: set[FieldPath] = set()
    before = {name: (value, child) for name, value, child in _owned_parts(old, shape)}
    for name, value, child in _owned_parts(new, shape):
        known = before.pop(name, None)
        if known is None:
            _collect(value, child, (name,), changed, inner=True)
        else:
            _compare(known[0], value, child, (name,), removed, changed)
    for name, (value, child) in before.items():
        _collect(value, child, (name,), removed, inner=True)
    return removed, changed


def _compare(
    old: Any, new: Any, shape: MergeShape, path: FieldPath, removed: set[FieldPath], changed: set[FieldPath]
) -> None:  # six parts of one walk
    if old is new:
        return
    if isinstance(old, dict) and isinstance(new, dict) and not shape.atomic:
        pairs = {field_step(name): (part, new.get(name, _MISSING), shape.child(name)) for name, part in old.items()}
        for name, part in new.items():
            if name not in old:
                pairs[field_step(name)] = (_MISSING, part, shape.child(name))
    elif isinstance(old, list) and isinstance(new, list) and shape.keys and not shape.atomic:
        after = {item_step(item, shape): item for item in new}
        before = {item_step(item, shape): item for item in old}
        pairs = {
            step: (before.get(step, _MISSING), after.get(step, _MISSING), shape.item) for step in {**before, **after}
        }
    elif isinstance(old, list) and isinstance(new, list) and shape.is_set:
        was, now = ({"v:" + json.dumps(item) for item in items} for items in (old, new))
        removed.update((*path, step) for step in was - now)
        changed.update((*path, step) for step in now - was)
        return
    else:
        if old != new:
            changed.add(path)
        return
    for step, (was, now, child) in pairs.items():
        here = (*path, step)
        if was is _MISSING:
            _collect(now, child, here, changed, inner=True)
            changed.add(here)
        elif now is _MISSING:
            _collect(was, child, here, removed, inner=True)
            removed.add(here)
        else:
            _compare(was, now, child, here, removed, changed)


_MISSING = object()


def as_fields_v1(fields: Iterable[FieldPath]) -> Manifest:
    """The paths as a tree, as `managedFields` contains them."""
    tree: Manifest = {}
    for path in sorted(fields):
        node = tree
        for step in path[:-1]:
            child = node.setdefault(step, {})
            node = child
        node.setdefault(path[-1], {})
    paths = set(fields)
    _mark_members(tree, (), paths)
    return tree


def _mark_members(node: Manifest, path: FieldPath, members: set[FieldPath]) -> None:
    for step, child in list(node.items()):
        here = (*path, step)
        if child:
            _mark_members(child, here, members)
            if here in members:
                child["."] = {}


def reading_order(path: FieldPath) -> tuple[tuple[bool, str], ...]:
    """The sort key of a path in the real server's order: at every level, paths that end there come first."""
    return tuple((depth < len(path) - 1, step) for depth, step in enumerate(path))


def path_text(path: FieldPath) -> str:
    """A path as in conflict messages: `.spec.containers[name="app"].image`."""
    text = ""
    for step in path:
        kind, _, rest = step.partition(":")
        match kind:
            case "f":
                text += f".{rest}"
            case "k":
                text += "[" + ",".join(f"{name}={json.dumps(value)}" for name, value in json.loads(rest).items()) + "]"
            case _:
                text += f"[={rest}]"
    return text
