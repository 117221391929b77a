"""Whether a value is what its type says, down to each field.

A type checker believes whatever comes out of JSON, as its type is `Any`, and structs do not look at what they are given.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, TypeAlias, Union, get_args, get_origin, get_type_hints

from msgspec import Struct

Check: TypeAlias = Callable[[Any], str]
_ALSO: Mapping[type, tuple[type, ...]] = {float: (int,)}
"""What may stand for a type without being one of it. A bool is no number, though it is an int."""


def misfit(value: object, hint: Any) -> str:
    """Where a value is not what the type says, such as `.status.attempt is None`; "" when all of it is."""
    return _check(hint)(value)


@cache
def _check(hint: Any) -> Check:
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _check(inner[0])
    if origin in (Union, UnionType):
        return _one_of([_check(each) for each in inner])
    if origin is tuple and inner[1:] != (...,):
        places = [_check(each) for each in inner]
        return lambda value: _not_a(tuple, value) or _first(zip(places, value, strict=True))
    if origin in (tuple, list, set, frozenset):
        item = _check(inner[0])
        return lambda value: _not_a(origin, value) or _first((item, each) for each in value)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        key, item = map(_check, inner)
        return lambda value: (
            _not_a(Mapping, value)
            or _first((key, each) for each in value)
            or _first((item, value[each]) for each in value)
        )
    kind = NoneType if hint is None else origin or hint
    if kind is Any or not isinstance(kind, type) or getattr(kind, "_is_protocol", False):
        return lambda _: ""  # what only a type checker can tell
    if issubclass(kind, Struct) or dataclasses.is_dataclass(kind):
        return lambda value: _not_a(kind, value) or _of_fields(value)
    return lambda value: _not_a(kind, value)


def _one_of(checks: list[Check]) -> Check:
    def problem(value: Any) -> str:
        found = ""
        for check in checks:
            if not (wrong := check(value)):
                return ""
            found = max(found, wrong, key=len)  # the one that is right the farthest
        return found

    return problem


def _not_a(kind: type, value: object) -> str:
    fits = isinstance(value, (kind, *_ALSO.get(kind, ()))) and (not isinstance(value, bool) or kind in (bool, object))
    return "" if fits else f" is {value!r:.80}, no {kind.__name__}"


def _first(pairs: Iterable[tuple[Check, Any]]) -> str:
    return next((f"[{at}]{wrong}" for at, (check, value) in enumerate(pairs) if (wrong := check(value))), "")


def _of_fields(value: Any) -> str:
    fields = _fields(type(value))  # type: ignore[arg-type]
    return next((f".{name}{wrong}" for name, check in fields if (wrong := check(getattr(value, name)))), "")


@cache
def _fields(kind: Any) -> tuple[tuple[str, Check], ...]:
    names = kind.__struct_fields__ if issubclass(kind, Struct) else [each.name for each in dataclasses.fields(kind)]
    hints = get_type_hints(kind)
    return tuple([(name, _check(hints[name])) for name in names])
