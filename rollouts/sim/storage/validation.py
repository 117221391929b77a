"""Structural schemas of custom resources: defaults, pruning and validation.

It checks type, required, enum, minimum, maximum, length, items, pattern, duplicate keys of list-maps and sets, and quantities of
`int-or-string`. **CEL rules (`x-kubernetes-validations`), `format`, `oneOf`, `anyOf` and `not` are not evaluated**, with one
exception: rules about `oldSelf` (fields that must not change) outside of lists. The contract tests check other CEL rules on the
real API server only. Messages follow k8s.io/apiextensions-apiserver pkg/apiserver/validation.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from rollouts.errors import ExpressionFailed
from rollouts.expressions import Result, compiled
from rollouts.objects import Manifest
from rollouts.sim.storage.refusals import (
    Cause,
    compact_json,
    value_invalid,
    value_not_supported,
    value_required,
    value_too_many,
)

_SERVERS_OWN = frozenset(("apiVersion", "kind", "metadata"))
_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}


def with_defaults(value: Any, schema: Manifest) -> Any:
    """`value` with the schema's defaults and without unknown fields; the same object when nothing changes."""
    if isinstance(value, dict) and schema.get("type") == "object":
        return _map_with_defaults(value, schema)
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        items = [with_defaults(item, schema["items"]) for item in value]
        return value if all(a is b for a, b in zip(items, value, strict=True)) else items
    return value


def _map_with_defaults(value: Manifest, schema: Manifest) -> Manifest:
    properties = schema.get("properties") or {}
    rest = schema.get("additionalProperties")
    keeps_unknown = schema.get("x-kubernetes-preserve-unknown-fields") or ("properties" not in schema and rest is None)
    embedded = schema.get("x-kubernetes-embedded-resource")
    result: Manifest = {}
    for name, part in value.items():
        known = properties.get(name)
        if known is not None:
            if part is None and "default" in known and not known.get("nullable"):
                continue  # a null is replaced by the default
            result[name] = with_defaults(part, known)
        elif isinstance(rest, dict):
            result[name] = with_defaults(part, rest)
        elif keeps_unknown or (embedded and name in _SERVERS_OWN) or rest is True:
            result[name] = part
    for name, known in properties.items():
        if "default" in known and name not in result:
            result[name] = with_defaults(known["default"], known)
    same = len(result) == len(value) and all(result.get(name, _MISSING) is part for name, part in value.items())
    return value if same else result


_MISSING = object()
_compiled = cache(compiled)


def unknown_fields(value: Any, schema: Manifest, path: str = "") -> Iterator[str]:
    """Dotted paths of the fields that the schema does not know; `apiVersion`, `kind` and `metadata` are known."""
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        for index, item in enumerate(value):
            yield from unknown_fields(item, schema["items"], f"{path}[{index}]")
    if not isinstance(value, dict) or schema.get("type") != "object":
        return
    properties, rest = schema.get("properties") or {}, schema.get("additionalProperties")
    for name, part in value.items():
        here = f"{path}.{name}" if path else name
        if name in properties:
            yield from unknown_fields(part, properties[name], here)
        elif isinstance(rest, dict):
            yield from unknown_fields(part, rest, here)
        elif schema.get("x-kubernetes-preserve-unknown-fields") or "properties" not in schema:
            continue
        elif path or name not in _SERVERS_OWN:
            yield here


def problems(value: Any, schema: Manifest, path: str = "") -> Iterator[Cause]:
    """All problems of `value`, in the order of its fields."""
    if value is None:
        if not schema.get("nullable") and "type" in schema:
            yield _wrong_type(path, schema["type"], "null")
        return
    if schema.get("x-kubernetes-int-or-string"):
        if isinstance(value, bool) or not isinstance(value, int | str):
            yield _wrong_type(path, "integer,string", _type_name(value))
        elif isinstance(value, str):
            yield from _string_problems(value, schema, path)
        return
    wanted = schema.get("type")
    if wanted and not _is_of_type(value, wanted):
        yield _wrong_type(path, wanted, _type_name(value))
        return
    if "enum" in schema and value not in schema["enum"]:
        yield value_not_supported(path, value, schema["enum"])
    if isinstance(value, dict):
        yield from _map_problems(value, schema, path)
    elif isinstance(value, list):
        yield from _list_problems(value, schema, path)
    elif isinstance(value, str):
        yield from _string_problems(value, schema, path)
    elif not isinstance(value, bool):
        yield from _number_problems(value, schema, path)


def immutable_problems(new: Any, old: Any, schema: Manifest, path: str = "") -> Iterator[Cause]:
    """The broken rules about `oldSelf` of parts that have changed.

    Raises: ExpressionInvalid for a rule that is no CEL.
    """
    if isinstance(new, dict) and isinstance(old, dict):
        for name, part in (schema.get("properties") or {}).items():
            if name in new and name in old and new[name] is not old[name]:
                yield from immutable_problems(new[name], old[name], part, f"{path}.{name}" if path else name)
    for rule in schema.get("x-kubernetes-validations") or ():
        if "oldSelf" in rule["rule"] and new != old and not _holds(rule["rule"], new, old):
            yield value_invalid(path, compact_json(new), rule.get("message", f"failed rule: {rule['rule']}"))


def _holds(rule: str, new: Any, old: Any) -> bool:
    if rule.strip() == "self == oldSelf":  # needs no CEL library
        return bool(new == old)
    try:
        return _compiled(rule, variables=("self", "oldSelf"), result=Result.TRUTH).truth({"self": new, "oldSelf": old})
    except ExpressionFailed:
        return False  # such as a field that is not there: the real server refuses that too


def _is_of_type(value: Any, wanted: str) -> bool:
    if isinstance(value, bool):
        return wanted == "boolean"
    if wanted == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES[wanted])


def _type_name(value: Any) -> str:
    return next(name for name in ("boolean", *_TYPES) if _is_of_type(value, name))


def _wrong_type(path: str, wanted: str, found: str) -> Cause:
    message = f'Invalid value: "{found}": {path} in body must be of type {wanted}: "{found}"'
    return Cause(path, "FieldValueTypeInvalid", message)


def _map_problems(value: Manifest, schema: Manifest, path: str) -> Iterator[Cause]:
    properties, rest = schema.get("properties") or {}, schema.get("additionalProperties")
    for name in schema.get("required") or ():
        if name not in value:
            yield value_required(f"{path}.{name}" if path else name)
    if len(value) > schema.get("maxProperties", len(value)):
        yield value_too_many(path, len(value), schema["maxProperties"])
    if len(value) < schema.get("minProperties", 0):
        yield _out_of_range(path, value, f"should have at least {schema['minProperties']} properties")
    for name, part in value.items():
        if not path and name in _SERVERS_OWN:
            continue
        if name in properties:
            yield from problems(part, properties[name], f"{path}.{name}" if path else name)
        elif isinstance(rest, dict):
            yield from problems(part, rest, f"{path}.{name}" if path else name)


def _list_problems(value: list[Any], schema: Manifest, path: str) -> Iterator[Cause]:
    if len(value) > schema.get("maxItems", len(value)):
        yield value_too_many(path, len(value), schema["maxItems"])
    if len(value) < schema.get("minItems", 0):
        yield _out_of_range(path, value, f"should have at least {schema['minItems']} items")
    for index, item in enumerate(value):
        yield from problems(item, schema.get("items") or {}, f"{path}[{index}]")
    seen: list[Any] = []
    for index, item in enumerate(value):
        match schema.get("x-kubernetes-list-type"):
            case "map" if isinstance(item, dict):
                key: Any = {name: item.get(name) for name in schema["x-kubernetes-list-map-keys"]}
            case "set":
                key = item
            case _:
                return
        if key in seen:
            yield Cause(f"{path}[{index}]", "FieldValueDuplicate", f"Duplicate value: {compact_json(key)}")
        seen.append(key)


def _string_problems(value: str, schema: Manifest, path: str) -> Iterator[Cause]:
    if len(value) > schema.get("maxLength", len(value)):
        yield Cause(path, "FieldValueTooLong", f"Too long: may not be more than {schema['maxLength']} bytes")
    if len(value) < schema.get("minLength", 0):
        yield _out_of_range(path, value, f"should be at least {schema['minLength']} chars long")
    if "pattern" in schema and not re.search(schema["pattern"], value):
        yield _out_of_range(path, value, f"should match '{schema['pattern']}'")


def _number_problems(value: float, schema: Manifest, path: str) -> Iterator[Cause]:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and (value < low or (schema.get("exclusiveMinimum") and value == low)):
        word = "greater than" if schema.get("exclusiveMinimum") else "greater than or equal to"
        yield _out_of_range(path, value, f"should be {word} {low}")
    if high is not None and (value > high or (schema.get("exclusiveMaximum") and value == high)):
        word = "less than" if schema.get("exclusiveMaximum") else "less than or equal to"
        yield _out_of_range(path, value, f"should be {word} {high}")


def _out_of_range(path: str, value: Any, rule: str) -> Cause:
    return value_invalid(path, json.dumps(value), f"{path} in body {rule}")
