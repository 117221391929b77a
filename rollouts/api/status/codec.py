"""Writer, reader and schema of a status, made of the fields that its classes declare (`core/model/declared.py`).

Each class is looked at once, at its first use. Reading never raises, because somebody may edit a status, and an older controller
may read a newer one's: a part that cannot be read gets its default and is reported as a problem.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from enum import StrEnum
from fractions import Fraction
from functools import cache, partial
from itertools import islice
from operator import attrgetter
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct

from rollouts.api.times import format_time, parse_time
from rollouts.core.model.declared import Absent, AtMost, Entries, Json, Mark, Section, Unreadable
from rollouts.core.model.service_ref import ServiceRef, service_ref
from rollouts.core.model.steps import WeightPercent
from rollouts.core.model.traffic import RoutePlace, route_place
from rollouts.objects import Manifest

_DENOMINATOR_MAX = 1_000_000  # api/spec/routing.py allows weights in so many parts
_NOTHING = object()


class FieldMissing(Exception):
    """A value cannot be read without the field that the message names."""


class Derived(Struct, frozen=True):
    """A field of JSON that is only written, for people, in front of another one.

    Args:
        before: the other one's name in JSON; "" for the end.
        of: its value; None leaves it out.
    """

    name: str
    text: str
    of: Callable[[Any], Any]
    before: str
    schema: Mapping[str, Any] = msgspec.field(default_factory=lambda: {"type": "string"})


class Shape(Struct, frozen=True):
    """What the declared fields of a class do not say about its JSON.

    Args:
        derived: more fields.
        written: the object, before it is sent.
        read: the values of the fields as they were read, and the object. Raises: FieldMissing.
        whole: a writer and a reader instead; the reader gives None for what is no such value.
        required: the CRD requires these fields.
    """

    derived: tuple[Derived, ...] = ()
    written: Callable[[Any, Manifest], Manifest] | None = None
    read: Callable[[dict[str, Any], Mapping[str, Any]], None] | None = None
    whole: tuple[Callable[[Any], Manifest], Callable[[object], Any]] | None = None
    required: tuple[str, ...] = ()


SHAPES: dict[type, Shape] = {}
"""By class; `wire.py` fills it."""


class _Kind(Struct, frozen=True):
    """How values of one type are written, read and described.

    Args:
        read: for what is no object or list of objects. Raises: ValueError.
        of: the class of an object, or of the objects of a list.
        empty: what an absent value is.
        left_out: a value that is not written.
    """

    wanted: str
    schema: Manifest
    read: Callable[[Any], Any] | None = None
    write: Callable[[Any], Any] | None = None
    of: type | None = None
    entries: Entries = Entries()
    empty: Any = None
    left_out: Any = _NOTHING


class _Field(Struct, frozen=True):
    """One field of a class, ready for use.

    Args:
        flat: the class whose fields stand beside the others.
        strict: its object is left out when it cannot be read.
        unreadable: its value when it cannot be read; `_NOTHING` for that of an absent one.
        absent: its value when it is absent; `_NOTHING` for the class's default.
    """

    name: str
    json: str
    kind: _Kind
    text: str
    schema: Mapping[str, Any]
    section: Section | None
    flat: type | None
    needed: bool
    strict: bool
    left_out: Any
    absent: Any
    unreadable: Any


class _Reading(Struct, frozen=True):
    """What the reader of a class needs: fields by their names in JSON, those of a section in a table of its own."""

    fields: Mapping[str, _Field | Mapping[str, _Field]]
    flat: tuple[_Field, ...]
    absent: Mapping[str, Any]
    needed: tuple[tuple[str, str], ...]


def to_json(value: Any) -> Manifest:
    """A declared value as JSON; what is empty is left out, and long messages are cut."""
    shape = SHAPES.get(type(value), _PLAIN)
    if shape.whole is not None:
        return shape.whole[0](value)
    wire: Manifest = {}
    for name, of, left_out, write, section in _writing(type(value)):  # type: ignore[arg-type]
        part = of(value)
        if part is None or (left_out is not _NOTHING and part == left_out):
            continue
        if write is not None:
            part = write(part)
        if section:
            wire.setdefault(section, {})[name] = part
        elif name:
            wire[name] = part
        else:
            wire |= part
    return wire if shape.written is None else shape.written(value, wire)


def from_json(of: type, wire: Mapping[str, Any], path: str, problems: list[str]) -> Any:
    """The value in an object of JSON; what cannot be read is added to `problems`. Raises: FieldMissing."""
    shape = SHAPES.get(of, _PLAIN)
    if shape.whole is not None:
        if (found := shape.whole[1](wire)) is None:
            raise FieldMissing("*")
        return found
    reading = _reading(of)
    values: dict[str, Any] = {**reading.absent}
    _read_fields(reading.fields, wire, path, problems, values)
    for field in reading.flat:
        try:
            values[field.name] = from_json(field.flat, wire, path, problems)  # type: ignore[arg-type]
        except FieldMissing:
            if field.needed:
                raise
    for name, json in reading.needed:
        if name not in values:
            raise FieldMissing(json)
    if shape.read is not None:
        shape.read(values, wire)
    return of(**values)


def _read_fields(
    fields: Mapping[str, _Field | Mapping[str, _Field]],
    wire: Mapping[str, Any],
    path: str,
    problems: list[str],
    values: dict[str, Any],
) -> None:
    for json, value in wire.items():
        field = fields.get(json)
        if field is None or value is None:
            continue
        if not isinstance(field, _Field):
            if isinstance(value, Mapping):
                _read_fields(field, value, f"{path}.{json}", problems, values)
            else:
                problems.append(f"{path}.{json}: is not an object")
            continue
        try:
            if field.kind.read is not None:
                values[field.name] = field.kind.read(value)
            elif field.kind.empty is None:
                values[field.name] = _part(field.kind.of, value, f"{path}.{json}", problems)
            else:
                values[field.name] = _parts(field.kind, value, f"{path}.{json}", problems)
        except FieldMissing as missing:
            problems.append(f"{path}.{json}.{missing}: cannot be read, so {path}.{json} is left out")
        except ValueError as error:
            if field.needed or field.strict:
                raise FieldMissing(json) from error
            problems.append(f"{path}.{json}: is not {field.kind.wanted}")
            if field.unreadable is not _NOTHING:
                values[field.name] = field.unreadable


def _part(of: Any, value: Any, path: str, problems: list[str]) -> Any:
    """The value of an object. Raises: FieldMissing; ValueError, for what is no object."""
    if not isinstance(value, Mapping):
        raise ValueError
    return from_json(of, value, path, problems)


def _parts(kind: _Kind, value: Any, path: str, problems: list[str]) -> tuple[Any, ...]:
    """The values of a list of objects, without those that cannot be read. Raises: ValueError, for what is no list."""
    if not isinstance(value, list):
        raise ValueError
    found = []
    begin = 0 if kind.entries.last is None else max(0, len(value) - kind.entries.last)
    for index, entry in enumerate(islice(value, begin, kind.entries.first), begin):
        where = f"{path}[{index}]"
        try:
            found.append(_part(kind.of, entry, where, problems))
        except FieldMissing as missing:
            problems.append(f"{where}.{missing}: cannot be read, so {where} is left out")
        except ValueError:
            problems.append(f"{where}: is not an object")
    return tuple(found)


def schema_of(of: type, text: str = "") -> Manifest:
    """The structural schema of a class for the CRD.

    Lengths are not limited: no CEL rule looks at a status, and a write that the API server refuses would stop the Rollout.

    Args:
        text: its description; "" for the first paragraph of the class's docstring.
    """
    properties: Manifest = {}
    for field in _fields(of):
        if isinstance(field, Derived):
            properties[field.name] = {**field.schema, "description": field.text}
        elif field.flat is not None:
            for name, inner in schema_of(field.flat)["properties"].items():
                properties[name] = {**inner, "description": field.text or inner["description"]}
        else:
            place = properties
            if field.section is not None:
                outer: Manifest = {"description": field.section.text, "properties": {}, "type": "object"}
                place = properties.setdefault(field.section.name, outer)["properties"]
            place[field.json] = {**field.kind.schema, "description": field.text, **field.schema}
    paragraph = (inspect.getdoc(of) or "").partition("\n\n")[0].replace("\n", " ")
    required = SHAPES.get(of, _PLAIN).required
    extra: Manifest = {"required": list(required)} if required else {}
    return {"description": text or paragraph, "properties": properties, **extra, "type": "object"}


_PLAIN = Shape()


@cache
def _writing(of: type) -> tuple[tuple[str, Callable[[Any], Any], Any, Callable[[Any], Any] | None, str], ...]:
    """For each field: its name in JSON, "" for the fields of its value; its value; what is left out; its JSON; its section."""
    return tuple(
        (field.name, field.of, _NOTHING, None, "")
        if isinstance(field, Derived)
        else (
            "" if field.flat is not None else field.json,
            attrgetter(field.name),
            field.left_out,
            field.kind.write,
            field.section.name if field.section is not None else "",
        )
        for field in _fields(of)
    )


@cache
def _reading(of: type) -> _Reading:
    fields: dict[str, Any] = {}
    declared = [field for field in _fields(of) if isinstance(field, _Field)]
    for field in declared:
        if field.flat is None:
            place = fields if field.section is None else fields.setdefault(field.section.name, {})
            place[field.json] = field
    return _Reading(
        fields=fields,
        flat=tuple(field for field in declared if field.flat is not None),
        absent={field.name: field.absent for field in declared if field.absent is not _NOTHING and not field.needed},
        needed=tuple((field.name, field.json) for field in declared if field.needed),
    )


@cache
def _fields(of: type) -> tuple[_Field | Derived, ...]:
    """The fields of a class in the order of its JSON."""
    hints = get_type_hints(of, include_extras=True)
    defaults = {each.name: each for each in msgspec.structs.fields(of)}
    derived = list(SHAPES.get(of, _PLAIN).derived)
    found: list[_Field | Derived] = []
    for name, hint in hints.items():
        if get_origin(hint) is not Annotated:
            raise TypeError(
                f"{of.__name__}.{name} says nothing about its JSON: declare it as `core/model/declared.py` shows"
            )
        if Mark.HIDDEN not in hint.__metadata__:
            field = _field(name, hint, required=defaults[name].required)
            found += [each for each in derived if each.before == field.json]
            found.append(field)
    return (*found, *(each for each in derived if not each.before))


def _field(name: str, hint: Any, *, required: bool) -> _Field:
    inner, *marks = get_args(hint)
    optional = get_origin(inner) in (Union, UnionType) and type(None) in get_args(inner)
    choices = tuple(each for each in get_args(inner) if each is not type(None)) if optional else (inner,)
    bare, *more = get_args(choices[0]) if get_origin(choices[0]) is Annotated else (choices[0],)
    marks += more
    if len(choices) > 1:
        bare = Union[choices]  # noqa: UP007 - made of values
    json = next((each for each in marks if isinstance(each, Json)), Json())
    kind = _kind(bare, marks, json)
    absent = next((each.value for each in marks if isinstance(each, Absent)), _NOTHING)
    if absent is _NOTHING and required and kind.empty is not None:
        absent = kind.empty
    if absent is _NOTHING and required and optional:
        absent = None
    text = next((each for each in marks if isinstance(each, str)), "")
    return _Field(
        name=name,
        json=json.name or _camel(name.removesuffix("_s") if Mark.TIME in marks else name),
        kind=kind,
        text=text,
        schema=json.schema,
        section=json.section,
        flat=bare if Mark.FLAT in marks else None,
        needed=Mark.NEEDED in marks or (Mark.FLAT in marks and required),
        strict=Mark.STRICT in marks,
        left_out=_NOTHING
        if Mark.ALWAYS in marks or Mark.NEEDED in marks
        else 0
        if Mark.LEFT_OUT in marks
        else kind.left_out,
        absent=absent,
        unreadable=next((each.value for each in marks if isinstance(each, Unreadable)), _NOTHING),
    )


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def _kind(of: Any, marks: list[Any], json: Json) -> _Kind:
    """How a type is written, read and described."""
    text: Manifest = {"type": "string"}
    if Mark.TIME in marks:
        return _Kind("an RFC 3339 time", {"format": "date-time", **text}, _time, format_time)
    if Mark.TRUE_OR_FALSE in marks:
        words = {"enum": ["True", "False", "Unknown"], **text}
        return _Kind("True or False", words, _truth, lambda holds: "True" if holds else "False")
    if Mark.PONG in marks:
        words = {"enum": ["ping", "pong"], **text}
        return _Kind("a string", words, lambda value: _text(value) == "pong", lambda _: "pong", left_out=False)
    if of is str:
        most = next((each.characters for each in marks if isinstance(each, AtMost)), None)
        cut = None if most is None else lambda value: value[:most]
        return _Kind("a string", text, _text, cut, empty="", left_out="")
    if of is bool:
        return _Kind("true or false", {"type": "boolean"}, _flag, empty=False, left_out=False)
    if of is int:
        return _Kind("an integer of 0 or more", {"type": "integer"}, _count, empty=0)
    if of is float:
        return _Kind("a number of 0 or more", {"type": "number"}, _seconds, empty=0.0)
    if of is RoutePlace:
        return _Kind("a string", text, lambda value: route_place(_text(value)), str)
    if of == ServiceRef:
        return _Kind("a string", text, lambda value: service_ref(_text(value)), str, empty="")
    if of == WeightPercent:
        return _Kind("a number from 0 to 100", {"type": "number"}, _weight, weight_to_json)
    if of == tuple[str, ...]:
        return _Kind("a list of strings", {"items": text, "type": "array"}, _texts, list, empty=(), left_out=())
    if of == tuple[tuple[str, str], ...]:
        pairs = {"additionalProperties": text, "type": "object"}
        return _Kind("an object", pairs, _pairs, dict, empty=(), left_out=())
    if get_origin(of) is tuple:
        inner = get_args(of)[0]
        array = {"items": schema_of(inner, json.text), "type": "array"}
        entries = next((each for each in marks if isinstance(each, Entries)), Entries())
        return _Kind(
            "a list", array, None, lambda values: list(map(to_json, values)), inner, entries, empty=(), left_out=()
        )
    if issubclass(of, StrEnum):
        listed = {"enum": [word.value for word in of]} if Mark.LISTED in marks else {}
        return _Kind(
            f"a {of.__name__} of this version",
            {**listed, **text},
            partial(_word, {**of._value2member_map_}),
            attrgetter("value"),
        )
    return _Kind("an object", schema_of(of), None, to_json, of)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value


def _word(words: Mapping[Any, StrEnum], value: Any) -> StrEnum:
    if (word := words.get(_text(value))) is None:
        raise ValueError
    return word


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError
    return tuple(map(_text, value))


def _pairs(value: Any) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, Mapping):
        raise ValueError
    return tuple((name, part) for name, part in value.items() if isinstance(part, str))


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError
    return value


def _truth(value: Any) -> bool:
    if value not in ("True", "False"):
        raise ValueError
    return bool(value == "True")


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError
    return value


def _seconds(value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or value < 0:
        raise ValueError
    return float(value)


def _time(value: Any) -> float:
    return parse_time(_text(value))


def _weight(value: Any) -> WeightPercent:
    """A percentage, made exact again from a JSON number."""
    if not _seconds(value) <= 100:
        raise ValueError
    percent = Fraction(value).limit_denominator(_DENOMINATOR_MAX)
    return percent.numerator if percent.denominator == 1 else percent


def weight_to_json(percent: WeightPercent | None) -> int | float | None:
    """A percentage as a JSON number, which is read back exactly."""
    return float(percent) if isinstance(percent, Fraction) else percent
