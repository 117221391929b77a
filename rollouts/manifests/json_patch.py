"""Applies a JSON Patch (RFC 6902) to a value. The value does not change; the result shares its unchanged parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rollouts.json_pointer import steps_of


class PatchDoesNotFit(ValueError):
    """An operation names a missing place, a `test` failed, or an operation is malformed."""


def json_patch(value: Any, operations: Iterable[Mapping[str, Any]]) -> Any:
    """`value` after the operations. Raises: PatchDoesNotFit."""
    for operation in operations:
        if not isinstance(operation, Mapping) or not isinstance(operation.get("path"), str):
            raise PatchDoesNotFit(f"not an operation: {operation!r}")
        steps = steps_of(operation["path"])
        match operation.get("op"):
            case "add":
                value = _set(value, steps, operation.get("value"), insert=True)
            case "replace":
                _get(value, steps)
                value = _set(value, steps, operation.get("value"), insert=False)
            case "remove":
                value = _remove(value, steps)
            case "test":
                try:
                    present = _get(value, steps)
                except PatchDoesNotFit:
                    present = None
                if present != operation.get("value"):
                    raise PatchDoesNotFit(f"{operation['path']} is {present!r}, not {operation.get('value')!r}")
            case "copy":
                value = _set(value, steps, _get(value, steps_of(operation["from"])), insert=True)
            case "move":
                source = steps_of(operation["from"])
                value = _set(_remove(value, source), steps, _get(value, source), insert=True)
            case unknown:
                raise PatchDoesNotFit(f"unknown operation {unknown!r}")
    return value


def _index(items: list[Any], step: str, *, insert: bool) -> int:
    if step == "-" and insert:
        return len(items)
    if not step.lstrip("-").isdigit() or not 0 <= int(step) < len(items) + insert:
        raise PatchDoesNotFit(f"a list of length {len(items)} has no index {step}")
    return int(step)


def _get(value: Any, steps: list[str]) -> Any:
    for step in steps:
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list):
            value = value[_index(value, step, insert=False)]
        else:
            raise PatchDoesNotFit(f"there is no {step}")
    return value


def _set(value: Any, steps: list[str], new: Any, *, insert: bool) -> Any:
    if not steps:
        return new
    step, rest = steps[0], steps[1:]
    if isinstance(value, dict):
        if rest and step not in value:
            raise PatchDoesNotFit(f"there is no {step}")
        return {**value, step: _set(value.get(step), rest, new, insert=insert)}
    if isinstance(value, list):
        at = _index(value, step, insert=insert and not rest)
        if insert and not rest:
            return [*value[:at], new, *value[at:]]
        return [*value[:at], _set(value[at], rest, new, insert=insert), *value[at + 1 :]]
    raise PatchDoesNotFit(f"nothing can be below {step}")


def _remove(value: Any, steps: list[str]) -> Any:
    step, rest = steps[0], steps[1:]
    if isinstance(value, dict) and step in value:
        if rest:
            return {**value, step: _remove(value[step], rest)}
        return {name: part for name, part in value.items() if name != step}
    if isinstance(value, list):
        at = _index(value, step, insert=False)
        return [*value[:at], *([_remove(value[at], rest)] if rest else []), *value[at + 1 :]]
    raise PatchDoesNotFit(f"there is no {step}")
