"""Merge patch (RFC 7396), JSON Patch (RFC 6902) and the part of strategic merge patch that kubectl sends.

All three leave the patched object alone and share with the result every part that did not change.
"""

from __future__ import annotations

from typing import Any

from rollouts.objects import Manifest
from rollouts.sim.refusals import Refused, bad_request, patch_refused
from rollouts.sim.shapes import Shape


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
    for operation in operations:
        if not isinstance(operation, dict) or not isinstance(operation.get("path"), str):
            raise patch_refused()
        value = _operate(value, operation)
    return value


def _operate(value: Any, operation: Manifest) -> Any:
    steps = _steps(operation["path"])
    match operation.get("op"):
        case "add":
            return _set(value, steps, operation.get("value"), insert=True)
        case "replace":
            _get(value, steps)
            return _set(value, steps, operation.get("value"), insert=False)
        case "remove":
            return _remove(value, steps)
        case "test":
            try:
                found = _get(value, steps)
            except Refused:
                found = None
            if found != operation.get("value"):
                raise patch_refused()
            return value
        case "copy":
            return _set(value, steps, _get(value, _steps(operation["from"])), insert=True)
        case "move":
            source = _steps(operation["from"])
            return _set(_remove(value, source), steps, _get(value, source), insert=True)
        case _:
            raise patch_refused()


def _steps(pointer: str) -> list[str]:
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]


def _index(items: list[Any], step: str, *, insert: bool) -> int:
    if step == "-" and insert:
        return len(items)
    if not step.lstrip("-").isdigit() or not 0 <= int(step) < len(items) + insert:
        raise patch_refused()
    return int(step)


def _get(value: Any, steps: list[str]) -> Any:
    for step in steps:
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list):
            value = value[_index(value, step, insert=False)]
        else:
            raise patch_refused()
    return value


def _set(value: Any, steps: list[str], new: Any, *, insert: bool) -> Any:
    if not steps:
        return new
    step, rest = steps[0], steps[1:]
    if isinstance(value, dict):
        if rest and step not in value:
            raise patch_refused()
        return {**value, step: _set(value.get(step), rest, new, insert=insert)}
    if isinstance(value, list):
        at = _index(value, step, insert=insert and not rest)
        if insert and not rest:
            return [*value[:at], new, *value[at:]]
        return [*value[:at], _set(value[at], rest, new, insert=insert), *value[at + 1 :]]
    raise patch_refused()


def _remove(value: Any, steps: list[str]) -> Any:
    step, rest = steps[0], steps[1:]
    if isinstance(value, dict) and step in value:
        if rest:
            return {**value, step: _remove(value[step], rest)}
        return {name: part for name, part in value.items() if name != step}
    if isinstance(value, list):
        at = _index(value, step, insert=False)
        return [*value[:at], *([_remove(value[at], rest)] if rest else []), *value[at + 1 :]]
    raise patch_refused()


def strategic_merge_patch(value: Any, patch: Any, shape: Shape) -> Any:
    """`value` after a strategic merge patch: as a merge patch, with list-maps merged by their first key.

    Knows `$patch: delete|replace`, `$retainKeys` and `$deleteFromPrimitiveList`; the order asked for by `$setElementOrder`
    is not kept, items stay where they are and new ones come last.
    """
    if isinstance(patch, dict):
        return _strategic_map(value if isinstance(value, dict) else {}, patch, shape)
    if isinstance(patch, list) and shape.keys:
        return _strategic_list(value if isinstance(value, list) else [], patch, shape)
    if isinstance(patch, list) and shape.is_set:
        there = value or []
        return there + [item for item in patch if item not in there]
    return value if value == patch else patch


def _strategic_map(value: Manifest, patch: Manifest, shape: Shape) -> Manifest:
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


def _strategic_list(value: list[Any], patch: list[Any], shape: Shape) -> list[Any]:
    key = shape.keys[0]
    if any(item.get("$patch") == "replace" for item in patch):
        return [item for item in patch if "$patch" not in item]
    merged = list(value)
    for item in patch:
        at = next((i for i, there in enumerate(merged) if there.get(key) == item.get(key)), None)
        if item.get("$patch") == "delete":
            if at is not None:
                del merged[at]
        elif at is None:
            merged.append(item)
        else:
            merged[at] = strategic_merge_patch(merged[at], item, shape.item)
    return value if merged == value else merged
