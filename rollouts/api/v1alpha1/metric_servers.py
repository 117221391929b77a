"""Metrics of servers that have a recipe, as the wire has them: models made of the fields that each server declares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType, NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from msgspec import Struct
from pydantic import Field, create_model

from rollouts.api.v1alpha1.template_scalars import Integer, Query, Seconds
from rollouts.api.v1alpha1.wire import Bool, FreeObject, ObjectName, Text, Wire, needed, optional
from rollouts.core.analysis import recipe
from rollouts.core.analysis.recipe import Recipe
from rollouts.core.analysis.recipes import RECIPES
from rollouts.core.model.declared import NEEDED

_ENTRIES_MAX = 64
_TEXTS: Mapping[Any, Any] = {recipe.QUERY: Query, recipe.NAME: ObjectName}


def wire_of(of: type[Struct], name: str, text: str) -> type[Wire]:
    """The model of a class whose fields are declared."""
    fields: dict[str, Any] = {}
    for attribute, hint in get_type_hints(of, include_extras=True).items():
        declared, description, *marks = get_args(hint)
        wire = attribute.removesuffix("_s")
        field = needed(description) if NEEDED in marks else optional(description)
        fields[wire] = (_type(declared, f"{name}{wire.title().replace('_', '')}", description, marks) | None, field)
    return create_model(f"{name}Wire", __base__=Wire, __doc__=text, __module__=__name__, **fields)


def _type(declared: Any, name: str, text: str, marks: list[Any]) -> Any:
    """What stands on the wire for a type of the core."""
    origin = get_origin(declared)
    match origin:
        case None if declared is str:
            return next((_TEXTS[mark] for mark in marks if mark in _TEXTS), Text)
        case None:
            scalar = {float: Seconds, int: Integer, bool: Bool}.get(declared)
            return scalar or wire_of(declared, name, declared.__doc__ or text)
        case _ if origin is Literal:
            return declared
        case _ if Any in get_args(declared):
            return FreeObject
        case _ if origin in (Union, UnionType):
            return _type(next(choice for choice in get_args(declared) if choice is not NoneType), name, text, marks)
    entry = _type(next(part for part in reversed(get_args(declared)) if part is not ...), name, text, marks)
    entries: Any = list.__class_getitem__(entry) if origin is tuple else dict.__class_getitem__((str, entry))
    return Annotated[entries, Field(max_length=_ENTRIES_MAX)]


def _models() -> Iterator[tuple[str, type[Wire]]]:
    for each in RECIPES.values():
        yield each.name, wire_of(each.fields, f"{each.name[0].upper()}{each.name[1:]}Metric", each.text)


SERVER_MODELS: Mapping[str, type[Wire]] = MappingProxyType(dict(_models()))
"""By the name of the recipe, which is the field of `provider`."""


def _field(each: Recipe) -> Any:
    return SERVER_MODELS[each.name] | None, Field(None, description=each.text, alias=each.name)


if TYPE_CHECKING:

    class ServersWire(Wire):
        """One field for each kind of server that has a recipe."""

else:
    ServersWire = create_model(
        "ServersWire",
        __base__=Wire,
        __module__=__name__,
        **{attribute: _field(each) for attribute, each in ((name.lower(), each) for name, each in RECIPES.items())},
    )


def server_given(wire: ServersWire) -> Iterator[tuple[Recipe, Wire]]:
    """The servers whose fields are given."""
    for name, each in RECIPES.items():
        if (given := getattr(wire, name.lower())) is not None:
            yield each, given
