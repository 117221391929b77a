"""One field of an object, by its path. Source: Kubernetes' downward API, and Argo Rollouts' `fieldRef` for what it adds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_PART = re.compile(r"""\.?([^.\[\]'"]+) | \['([^']*)'\] | \["([^"]*)"\] | \[(\d+)\]""", re.VERBOSE)


class NotInStatusError(ValueError):
    """A field of status that is not there: the controller may write it later."""


def field_value(manifest: Mapping[str, Any], path: str) -> str:
    """The text of a field that is no object and no list: `metadata.labels['region']`, `spec.template.metadata.labels.version`.

    Raises: ValueError that says what is wrong with the path.
    """
    value: Any = manifest
    parts = _parts(path)
    for part in parts:
        if isinstance(value, list) and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        elif isinstance(value, Mapping) and part in value:
            value = value[part]
        else:
            absent = NotInStatusError if parts[0] == "status" else ValueError
            raise absent(f"the Rollout has no {path}: {part!r} is not there")
    match value:
        case bool():
            return "true" if value else "false"
        case str() | int() | float():
            return str(value)
        case _:
            raise ValueError(f"{path} must be a text, a number or a truth value, not an object or a list")


def _parts(path: str) -> list[str]:
    parts: list[str] = []
    at = 0
    while at < len(path):
        found = _PART.match(path, at)
        if found is None:
            raise ValueError(f"is no path of a field: {path!r}; write metadata.labels['region']")
        parts.append(next(group for group in found.groups() if group is not None))
        at = found.end()
    if not parts:
        raise ValueError("is no path of a field")
    return parts
