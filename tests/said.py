"""Values as texts that people read in a diff."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from fractions import Fraction
from functools import cache
from typing import Any

import msgspec

from rollouts.core.model.revision import short_hash
from tests.core.model import T0

_TIMES_FROM_S = T0 - 1e8
_NOTHING = object()


def said(value: object) -> str:
    """A value in words: without fields that have their default, and with times from the beginning on."""
    match value:
        case Enum():
            return str(value.value)
        case float() if value > _TIMES_FROM_S:
            return f"{value - T0:.3f}".rstrip("0").rstrip(".") + " s"
        case Fraction():
            return str(value)
        case bytes():
            return value.decode()
        case tuple() | list():
            return f"[{', '.join(map(said, value))}]"
        case set() | frozenset():
            return f"{{{', '.join(sorted(map(said, value)))}}}"
        case Mapping():
            return f"{{{', '.join(f'{said(key)}: {said(part)}' for key, part in value.items())}}}"
        case _ if isinstance(value, msgspec.Struct) or (is_dataclass(value) and not isinstance(value, type)):
            parts = ((name, getattr(value, name), default) for name, default in _fields(type(value)))
            given = ", ".join(f"{name}={said_of(name, part)}" for name, part, default in parts if part != default)
            return f"{type(value).__name__}({given})"
        case _:
            return repr(value)


def said_of(name: str, part: object) -> str:
    """A field's value; that of the model's strategies, which is all of their text, by a hash."""
    return short_hash(str(part).encode()) if name == "strategy_hash" else said(part)


@cache
def _fields(kind: Any) -> tuple[tuple[str, Any], ...]:
    """The names of fields with their defaults."""
    found, missing = [], (msgspec.NODEFAULT, MISSING)
    all_of_them: Any = msgspec.structs.fields(kind) if issubclass(kind, msgspec.Struct) else fields(kind)
    for each in all_of_them:
        made = each.default_factory() if each.default_factory not in missing else each.default
        found.append((each.name, _NOTHING if made in missing else made))
    return tuple(found)
