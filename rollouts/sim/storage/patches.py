"""Merge patch (RFC 7396), JSON Patch (RFC 6902) and the part of strategic merge patch that kubectl sends.

All three do not change the patched object; the result shares all unchanged parts with it.
"""

from __future__ import annotations

from typing import Any

from rollouts.manifests import json_patch as rfc6902
from rollouts.objects import Manifest
from rollouts.sim.storage.refusals import Refused, bad_request
from rollouts.sim.storage.shapes import MergeShape


def merge_patch(value: Any, patch: Any) -> Any:
    """`value` after a merge patch: null removes, maps merge, everything else replaces."""
    if not isinstance(patch, dict):
        return value if value == patch else patch
    merged: Manifest = dict(value) if isinstance(value, dict) else {}
    touched = not isinstance(value, dict)
    for name, part in patch.items():
        if part is None:
            touched = merged.pop(name, _MISSING) is not _MISSING or touched
            continue
        before = merged.get(name, _MISSING)
        after = merge_patch(None if before is _MISSING else before, part)
        if after is not before:
            merged[name] = after
            touched = True
    return merged if touched else value


_MISSING = object()


def json_patch(value: Any, operations: Any) -> Any:
    """`value` after a JSON Patch.

    Raises: Refused: 400 when `operations` are no JSON Patch, 422 when one cannot be carried out or a `test` fails.
    """
    if not isinstance(operations, list):
        raise bad_request("error decoding patch: json: cannot unmarshal object into Go value of type jsonpatch.Patch")
    try:
        return rfc6902.json_patch(value, operations)
    except rfc6902.PatchDoesNotFit as exc:
        # Without a cause: the patch is valid, but cannot be carried out, for example because a `test` fails.
        message = "the server rejected our request due to an error in our request"
        raise Refused(422, "Invalid", message, {}) from exc


def strategic_merge_patch(value: Any, patch: Any, shape: MergeShape) -> Any:
    """`value` after a strategic merge patch: as a merge patch, with list-maps merged by their first key.

    It supports `$patch: delete|replace`, `$retainKeys` and `$deleteFromPrimitiveList`, but not the order in `$setElementOrder`:
    items stay where they are, and new ones come last.
    """
    if isinstance(patch, dict):
        return _strategic_map(value if isinstance(value, dict) else {}, patch, shape)
    if isinstance(patch, list) and shape.keys:
        return _strategic_list(value if isinstance(value, list) else [], patch, shape)
    if isinstance(patch, list) and shape.is_set:
        present = value or []
        return present + [item for item in patch if item not in present]
    return value if value == patch else patch


def _strategic_map(value: Manifest, patch: Manifest, shape: MergeShape) -> Manifest:
    if patch.get("$patch") == "replace":
        return {name: part for name, part in patch.items() if name != "$patch"}
    merged = dict(value)
    if "$retainKeys" in patch:
        merged = {name: part for name, part in merged.items() if name in patch["$retainKeys"]}
    for name, part in patch.items():
        if name.startswith("$deleteFromPrimitiveList/"):
            field = name.partition("/")[2]
            merged[field] = [item for item in merged.get(field) or [] if item not in part]
        elif name.startswith("$"):
            continue
        elif part is None:
            merged.pop(name, None)
        else:
            merged[name] = strategic_merge_patch(merged.get(name), part, shape.child(name))
    return value if merged == value else merged


def _strategic_list(value: list[Any], patch: list[Any], shape: MergeShape) -> list[Any]:
    key = shape.keys[0]
    if any(item.get("$patch") == "replace" for item in patch):
        return [item for item in patch if "$patch" not in item]
    merged = list(value)
    for item in patch:
        at = next((i for i, present in enumerate(merged) if present.get(key) == item.get(key)), None)
        if item.get("$patch") == "delete":
            if at is not None:
                del merged[at]
        elif at is None:
            merged.append(item)
        else:
            merged[at] = strategic_merge_patch(merged[at], item, shape.item)
    return value if merged == value else merged
