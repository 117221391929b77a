"""Promise: what a status declares, a rule writes: nobody reads a field of the CRD that stays empty for ever."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any, get_args, get_type_hints

from msgspec import Struct

from rollouts.core.analysis.measurement import RunStatus
from rollouts.core.model.status import RolloutStatus
from tests.architecture.tracked import ROOT, tracked

WRITERS = ("core", "metrics", "controller")


def declared(of: Any) -> Iterator[type[Struct]]:
    """The class, and those of its fields."""
    if isinstance(of, type) and issubclass(of, Struct):
        yield of
        for hint in get_type_hints(of).values():
            yield from declared(hint)
    for part in get_args(of):
        yield from declared(part)


def written(code: str) -> Iterator[tuple[str, int] | str]:
    """Names of arguments in calls, and of each function that is called with how many it gets by place."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Call):
            yield from (keyword.arg for keyword in node.keywords if keyword.arg)
            yield from ((ast.unparse(node.func), count) for count in range(1, len(node.args) + 1))


def test_each_field_is_given_to_a_constructor_or_a_change() -> None:
    """By its name, or by its place; a field whose rule was forgotten has neither."""
    rooms = tuple(ROOT / "rollouts" / room for room in WRITERS)
    files = [path for path in tracked() if path.suffix == ".py" and any(map(path.is_relative_to, rooms))]
    given = {argument for path in files for argument in written(path.read_text(encoding="utf-8"))}
    classes = {*declared(RolloutStatus), *declared(RunStatus)}

    never = {
        f"{of.__name__}.{name}"
        for of in classes
        for place, name in enumerate(of.__struct_fields__, start=1)
        if name not in given and (of.__name__, place) not in given
    }

    assert len(classes) > 20
    assert never == set()
