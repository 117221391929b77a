"""Promise: what a field is when nobody gives it is a value of its type, and a constant is a number of the unit in its name.

Nothing looks at it when an object is made: a msgspec.Struct checks what it decodes, and not its own defaults. One of another type
would show in the first pass that meets an object without the field.
"""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
import re
from collections.abc import Iterator, Mapping
from typing import Any, get_type_hints

import msgspec
import pydantic
import pytest
from pydantic_core import SchemaError

import rollouts

_WITH_A_UNIT = re.compile(r"_?[A-Z][A-Z0-9_]*_(S|MS|BYTES|PERCENT|MAX)")
ANY_CLASS = pydantic.ConfigDict(arbitrary_types_allowed=True)


def _classes(room: str) -> Iterator[type]:
    """Those of values, of all modules of a room."""
    package = importlib.import_module(f"{rollouts.__name__}.{room}")
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        for each in vars(importlib.import_module(found.name)).values():
            if isinstance(each, type) and each.__module__ == found.name:
                yield each


def _defaults(of: type) -> dict[str, Any]:
    """What each field is when nobody gives it, of those that need not be given."""
    if issubclass(of, msgspec.Struct):
        found = {each.name: each.default for each in msgspec.structs.fields(of)}
        made = {each.name: each.default_factory for each in msgspec.structs.fields(of)}
        given = {name: each() for name, each in made.items() if each is not msgspec.NODEFAULT}
        return {name: each for name, each in found.items() if each is not msgspec.NODEFAULT} | given
    fields = dataclasses.fields(of) if dataclasses.is_dataclass(of) else ()
    return {each.name: each.default for each in fields if each.default is not dataclasses.MISSING}


@pytest.mark.parametrize(("room", "at_least"), [("core", 500), ("cluster", 100), ("metrics", 100), ("traffic", 40)])
def test_a_default_is_a_value_of_its_fields_type(room: str, at_least: int) -> None:
    """Mutable ones are made for each object; they are looked at, too."""
    looked_at, wrong = 0, []
    for each in _classes(room):
        defaults = _defaults(each)
        hints = get_type_hints(each) if defaults else {}
        for name, value in defaults.items():
            try:
                pydantic.TypeAdapter(hints[name], config=ANY_CLASS).validate_python(value, strict=True)
            except (pydantic.PydanticUserError, SchemaError):  # of a class that is no data, such as a protocol
                continue
            except pydantic.ValidationError:
                wrong.append(f"{each.__module__}.{each.__qualname__}.{name} is {value!r}")
            looked_at += 1

    assert wrong == []
    assert looked_at >= at_least


def test_a_constant_with_a_unit_is_a_number() -> None:
    """Of seconds, bytes or whatever it counts: None would be no limit at all, to whom it is given."""
    looked_at, wrong = 0, []
    for found in pkgutil.walk_packages(rollouts.__path__, "rollouts."):
        if found.name.endswith("__main__") or found.name.startswith("rollouts.sim."):  # that names annotations so
            continue
        for name, value in vars(importlib.import_module(found.name)).items():
            if _WITH_A_UNIT.fullmatch(name):
                looked_at += 1
                values = (
                    value.values() if isinstance(value, Mapping) else value if isinstance(value, tuple) else (value,)
                )
                if any(type(each) not in (int, float) or each < 0 for each in values):
                    wrong.append(f"{found.name}.{name} is {value!r}")

    assert wrong == []
    assert looked_at >= 400
