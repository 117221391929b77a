"""Sets of field paths: the fields of an owner, and the differences between two versions of an object.

A path is a tuple of `fieldsV1` steps: `f:spec`, `k:{"name":"app"}`, `v:"finalizer"`. Source of the rules:
sigs.k8s.io/structured-merge-diff (`ToFieldSet`, `Compare`) and `FieldsV1` in apimachinery meta/v1.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

from rollouts.objects import Manifest
from rollouts.sim.storage.shapes import ATOMIC, METADATA, MergeShape

FieldPath: TypeAlias = tuple[str, ...]
FieldSet: TypeAlias = frozenset[FieldPath]

SERVERS_METADATA = (
    "name", "generateName", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
    "deletionGracePeriodSeconds", "selfLink", "managedFields",
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
    for step, (value, child) in _owned_parts(manifest, shape).items():
        _collect(value, child, (step,), paths, inner=False)
    return frozenset(paths)


def _children(value: Any, shape: MergeShape) -> dict[str, tuple[Any, MergeShape]] | None:
    """The parts of a value that have owners of their own, by their steps; None for a leaf."""
    if isinstance(value, dict) and not shape.atomic:
        return {field_step(name): (part, shape.child(name)) for name, part in value.items()}
    if isinstance(value, list) and shape.keys and not shape.atomic:
        return {item_step(item, shape): (item, shape.item) for item in value}
    if isinstance(value, list) and shape.is_set:
        return {"v:" + json.dumps(item): (item, ATOMIC) for item in value}
    return None


def _owned_parts(manifest: Manifest, shape: MergeShape) -> dict[str, tuple[Any, MergeShape]]:
    body = {name: value for name, value in manifest.items() if name not in {"apiVersion", "kind", "metadata"}}
    parts = {field_step(name): (value, shape.child(name)) for name, value in body.items()}
    metadata = {name: value for name, value in (manifest.get("metadata") or {}).items() if name not in SERVERS_METADATA}
    return {"f:metadata": (metadata, METADATA), **parts}


def _collect(value: Any, shape: MergeShape, path: FieldPath, paths: set[FieldPath], *, inner: bool) -> None:
    """Adds the leaves under `value`; with `inner` also the maps above them, as a comparison reports them."""
    children = _children(value, shape)
    if children is None:
        paths.add(path)
        return
    is_list = isinstance(value, list)
    if (inner or not children) and (is_list or len(path) > 1):  # nobody owns `metadata`, `spec` or `status` as such
        paths.add(path)
    for step, (part, child) in children.items():
        here = (*path, step)
        if is_list:
            paths.add(here)
        _collect(part, child, here, paths, inner=inner)


def compare(old: Manifest, new: Manifest, shape: MergeShape) -> tuple[set[FieldPath], set[FieldPath]]:
    """The paths that `new` has removed, and those that it has added or changed. Parts that both share cost nothing."""
    removed: set[FieldPath] = set()
    changed: set[FieldPath] = set()
    _compare_parts(_owned_parts(old, shape), _owned_parts(new, shape), (), removed, changed)
    return removed, changed


def _compare_parts(
    before: Mapping[str, tuple[Any, MergeShape]],
    after: Mapping[str, tuple[Any, MergeShape]],
    path: FieldPath,
    removed: set[FieldPath],
    changed: set[FieldPath],
) -> None:
    for step in before.keys() & after.keys():
        old, (new, shape) = before[step][0], after[step]
        if old is new:
            continue
        old_parts, new_parts = _children(old, shape), _children(new, shape)
        if old_parts is not None and new_parts is not None and type(old) is type(new):
            _compare_parts(old_parts, new_parts, (*path, step), removed, changed)
        elif old != new:
            changed.add((*path, step))
    for parts, others, differing in ((before, after, removed), (after, before, changed)):
        for step in parts.keys() - others.keys():
            _collect(*parts[step], (*path, step), differing, inner=True)
            if path:
                differing.add((*path, step))


def as_fields_v1(fields: Iterable[FieldPath]) -> Manifest:
    """The paths as a tree, as `managedFields` contains them."""
    tree: Manifest = {}
    for path in sorted(fields):
        node = tree
        for step in path:
            node = node.setdefault(step, {})
    _mark_members(tree, (), set(fields))
    return tree


def fields_of_v1(tree: Manifest, path: FieldPath = ()) -> Iterator[FieldPath]:
    """The paths of a tree of `as_fields_v1`."""
    for step, child in tree.items():
        if step == ".":
            yield path
        elif child:
            yield from fields_of_v1(child, (*path, step))
        else:
            yield (*path, step)


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
