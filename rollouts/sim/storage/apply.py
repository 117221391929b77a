"""Field ownership: what every write does to `managedFields`, and the merge of a server-side apply.

An owner is a manager with an operation and a subresource. An update takes the fields that it changes. An apply owns the fields of
its configuration, is refused where another owner has a field with another value, and removes fields that it no longer contains.
Source: https://kubernetes.io/docs/reference/using-api/server-side-apply/ and structured-merge-diff merge/update.go.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import msgspec

from rollouts.core.model.frozen import replace
from rollouts.objects import Manifest
from rollouts.sim.storage.fields import (
    FieldPath,
    FieldSet,
    as_fields_v1,
    compare,
    fields_of_v1,
    item_step,
    owned_fields,
    path_text,
    reading_order,
)
from rollouts.sim.storage.patches import json_patch
from rollouts.sim.storage.refusals import apply_conflict
from rollouts.sim.storage.shapes import MergeShape

APPLY = "Apply"
UPDATE = "Update"


@dataclass(frozen=True, slots=True)
class Owner:
    """One entry of `managedFields`.

    Args:
        subresource: `status`, `scale`, or empty.
        time: RFC 3339 time of the last write of its manager that set a field, or of its last apply that changed anything.
    """

    manager: str
    operation: str
    subresource: str
    api_version: str
    fields: FieldSet
    time: str
    _fields_v1: list[msgspec.Raw] = field(default_factory=list, compare=False)

    def is_same(self, other: Owner) -> bool:
        """Whether both entries belong to the same owner."""
        return (self.manager, self.operation, self.subresource) == (other.manager, other.operation, other.subresource)

    def wire(self) -> msgspec.Raw:
        """The JSON of the entry; that of its fields, which is most of it, is made once."""
        if not self._fields_v1:
            self._fields_v1.append(msgspec.Raw(msgspec.json.encode(as_fields_v1(self.fields))))
        entry: Manifest = {
            "manager": self.manager,
            "operation": self.operation,
            "apiVersion": self.api_version,
            "time": self.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": self._fields_v1[0],
        }
        if self.subresource:
            entry["subresource"] = self.subresource
        return msgspec.Raw(msgspec.json.encode(entry))

    def describe(self) -> str:
        """The owner as conflict messages name it."""
        if self.operation == APPLY:
            return f'"{self.manager}"'
        part = f' with subresource "{self.subresource}"' if self.subresource else ""
        return f'"{self.manager}"{part} using {self.api_version}'


def owners_after_update(
    owners: tuple[Owner, ...], writer: Owner, old: Manifest, new: Manifest, shape: MergeShape
) -> tuple[Owner, ...]:
    """The owners after a write that is not an apply: the writer owns what it changed, and removed fields have no owner."""
    removed, changed = compare(old, new, shape)
    if not removed and not changed:
        return owners
    kept: list[Owner] = []
    for owner in owners:
        if changed and owner.is_same(writer):
            kept.append(_written(owner, writer, (owner.fields | changed) - removed))
        else:
            _keep(kept, owner, owner.fields - removed - changed)
    if changed and not any(owner.is_same(writer) for owner in owners):
        kept.append(replace(writer, fields=frozenset(changed), _fields_v1=[]))
    return tuple(kept)


def names_owners(patch: Any) -> bool:
    """Whether an operation of a JSON Patch is about `managedFields`."""
    paths = [str(each.get("path")) for each in patch if isinstance(each, dict)] if isinstance(patch, list) else []
    return any(path.startswith("/metadata/managedFields") for path in paths)


def with_owners(manifest: Manifest, owners: tuple[Owner, ...], patch: Any) -> tuple[Manifest, tuple[Owner, ...]]:
    """The object and its owners after a JSON Patch that sees both. Raises: Refused (422)."""
    entries = [json.loads(msgspec.json.encode(owner.wire())) for owner in owners]
    whole = {**manifest, "metadata": {**manifest["metadata"], "managedFields": entries}}
    patched = json_patch(whole, patch)
    metadata = dict(patched["metadata"])
    left = tuple(
        [
            Owner(
                manager=entry["manager"],
                operation=entry["operation"],
                subresource=entry.get("subresource", ""),
                api_version=entry["apiVersion"],
                fields=frozenset(fields_of_v1(entry["fieldsV1"])),
                time=entry["time"],
            )
            for entry in metadata.pop("managedFields")
        ]
    )
    return {**patched, "metadata": metadata}, left


def _written(owner: Owner, writer: Owner, fields: FieldSet) -> Owner:
    """The owner after a write of its own that sets a field: its time moves, also where its fields stay the same."""
    if fields == owner.fields:
        return replace(owner, time=writer.time, api_version=writer.api_version)
    return replace(writer, fields=fields, _fields_v1=[])


def _keep(kept: list[Owner], owner: Owner, fields: FieldSet) -> None:
    if len(fields) == len(owner.fields):
        kept.append(owner)
    elif fields:
        kept.append(replace(owner, fields=fields, _fields_v1=[]))


def apply(
    live: Manifest, owners: tuple[Owner, ...], config: Manifest, writer: Owner, shape: MergeShape, *, force: bool
) -> tuple[Manifest, tuple[Owner, ...]]:
    """The object after a server-side apply of `config`, and its owners.

    Raises: Refused (409) for fields that other owners hold with another value, unless `force`.
    """
    applied = owned_fields(config, shape)
    merged = _merge(live, config, shape)
    _, changed = compare(live, merged, shape)
    others = [owner for owner in owners if not owner.is_same(writer)]
    if not force:
        conflicts = [
            (owner.describe(), path_text(path))
            for owner in others
            for path in sorted(owner.fields & changed, key=reading_order)
        ]
        if conflicts:
            raise apply_conflict(conflicts)
    before = next((owner for owner in owners if owner.is_same(writer)), None)
    held_by_others = frozenset().union(*(owner.fields - changed for owner in others)) if others else frozenset()
    no_longer_applied = (before.fields if before else frozenset()) - applied - held_by_others
    pruned = _prune(merged, no_longer_applied, held_by_others, shape)
    removed, _ = compare(live, pruned, shape)
    kept: list[Owner] = []
    for owner in owners:
        if owner is not before:
            _keep(kept, owner, owner.fields - changed - removed)
        elif owner.fields == applied and owner.api_version == writer.api_version and not changed and not removed:
            kept.append(owner)
        elif applied:
            kept.append(_written(owner, writer, applied))
    if before is None and applied:
        kept.append(replace(writer, fields=applied, _fields_v1=[]))
    return pruned, tuple(kept)


def _merge(live: Any, config: Any, shape: MergeShape) -> Any:
    if isinstance(live, dict) and isinstance(config, dict) and not shape.atomic:
        merged = dict(live)
        for name, value in config.items():
            merged[name] = _merge(live[name], value, shape.child(name)) if name in live else value
        return merged if merged != live else live
    if isinstance(live, list) and isinstance(config, list) and not shape.atomic:
        if shape.keys:
            return _merge_list_map(live, config, shape)
        if shape.is_set:
            return live + [item for item in config if item not in live]
    return live if live == config else config


def _merge_list_map(live: list[Any], config: list[Any], shape: MergeShape) -> list[Any]:
    wanted = {item_step(item, shape): item for item in config}
    present = {item_step(item, shape): item for item in live}
    merged = [_merge(item, wanted[step], shape.item) if step in wanted else item for step, item in present.items()]
    merged.extend(item for step, item in wanted.items() if step not in present)
    return live if merged == live else merged


def _prune(manifest: Manifest, no_longer_applied: FieldSet, held_by_others: FieldSet, shape: MergeShape) -> Manifest:
    """Removes fields that their only owner no longer applies; a list item as a whole, unless another owner has a part of it."""
    for path in sorted(no_longer_applied, key=len):
        if any(other[: len(path)] == path for other in held_by_others):
            continue
        manifest = _without(manifest, path, shape)
    return manifest


def _without(value: Any, path: FieldPath, shape: MergeShape) -> Any:
    """`value` without the field at `path` and the maps that become empty."""
    kind, _, rest = path[0].partition(":")
    if kind == "f" and isinstance(value, dict) and rest in value:
        return _without_field(value, rest, path[1:], shape.child(rest))
    if kind == "k" and isinstance(value, list):
        items = [
            (_without(item, path[1:], shape.item) if path[1:] else None) if item_step(item, shape) == path[0] else item
            for item in value
        ]
        return [item for item in items if item is not None]
    if kind == "v" and isinstance(value, list):
        return [item for item in value if item != json.loads(rest)]
    return value


def _without_field(value: Manifest, name: str, path: FieldPath, shape: MergeShape) -> Manifest:
    left = _without(value[name], path, shape) if path else {}
    if path and left == value[name]:
        return value
    return {key: part for key, part in value.items() if key != name} if left in ({}, []) else {**value, name: left}
