"""Writer, reader and schema of a status, made of the fields that its classes declare (`core/model/declared.py`).

Each class is looked at once, at its first use. Reading never raises, because somebody may edit a status, and an older controller
may read a newer one's: a part that cannot be read gets its default and is reported as a problem.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import islice
from operator import attrgetter
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct

from rollouts.api.status.scalars import NOTHING, Codec, scalar_codec
from rollouts.core.model.declared import Entries, Json, Mark, WhenAbsent, WhenUnreadable
from rollouts.objects import Manifest

_T = TypeVar("_T")


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


class JsonShape(Struct, frozen=True):
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


SHAPES: dict[type, JsonShape] = {}
"""By class; `wire.py` fills it."""


class _Field(Struct, frozen=True):
    """One field of a class, ready for use.

    Args:
        flat: the class whose fields stand beside the others.
        strict: its object is left out when it cannot be read.
        unreadable: its value when it cannot be read; `NOTHING` for that of an absent one.
        absent: its value when it is absent; `NOTHING` for the class's default.
    """

    name: str
    json: str
    codec: Codec
    text: str
    declared: Json
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
        if part is None or (left_out is not NOTHING and part == left_out):
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
        _read_flat(field, wire, path, problems, values)
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
        if isinstance(field, _Field):
            _read_field(field, value, path, problems, values)
        elif isinstance(value, Mapping):
            _read_fields(field, value, f"{path}.{json}", problems, values)
        else:
            problems.append(f"{path}.{json}: is not an object")


def _read_field(field: _Field, value: Any, path: str, problems: list[str], values: dict[str, Any]) -> None:
    """Raises: FieldMissing, for a value without which its object says too little."""
    codec, json = field.codec, field.json
    try:
        if codec.read is not None:
            values[field.name] = codec.read(value)
        elif codec.empty is None:
            values[field.name] = _part(codec.of, value, f"{path}.{json}", problems)
        else:
            values[field.name] = _parts(codec, value, f"{path}.{json}", problems)
    except FieldMissing as missing:
        problems.append(f"{path}.{json}.{missing}: cannot be read, so {path}.{json} is left out")
    except ValueError as error:
        if field.needed or field.strict:
            raise FieldMissing(json) from error
        problems.append(f"{path}.{json}: is not {codec.wanted}")
        if field.unreadable is not NOTHING:
            values[field.name] = field.unreadable


def _read_flat(field: _Field, wire: Mapping[str, Any], path: str, problems: list[str], values: dict[str, Any]) -> None:
    """A value whose fields stand beside the others; one that may be missing is reported only when it is spoilt."""
    try:
        values[field.name] = from_json(field.flat, wire, path, problems)  # type: ignore[arg-type]
    except FieldMissing as missing:
        if field.needed:
            raise
        if wire.get(str(missing)) not in (None, ""):
            problems.append(f"{path}.{missing}: cannot be read")


def _part(of: Any, value: Any, path: str, problems: list[str]) -> Any:
    """The value of an object. Raises: FieldMissing; ValueError, for what is no object."""
    if not isinstance(value, Mapping):
        raise ValueError
    return from_json(of, value, path, problems)


def _parts(codec: Codec, value: Any, path: str, problems: list[str]) -> tuple[Any, ...]:
    """The values of a list of objects, without those that cannot be read. Raises: ValueError, for what is no list."""
    if not isinstance(value, list):
        raise ValueError
    found = []
    begin = 0 if codec.entries.last is None else max(0, len(value) - codec.entries.last)
    for index, entry in enumerate(islice(value, begin, codec.entries.first), begin):
        where = f"{path}[{index}]"
        try:
            found.append(_part(codec.of, entry, where, problems))
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
            if field.declared.section is not None:
                outer: Manifest = {"description": field.declared.section.text, "properties": {}, "type": "object"}
                place = properties.setdefault(field.declared.section.name, outer)["properties"]
            place[field.json] = {**_schema(field), "description": field.text, **field.declared.schema}
    paragraph = (inspect.getdoc(of) or "").partition("\n\n")[0].replace("\n", " ")
    required = SHAPES.get(of, _PLAIN).required
    extra: Manifest = {"required": list(required)} if required else {}
    return {"description": text or paragraph, "properties": properties, **extra, "type": "object"}


def _schema(field: _Field) -> Manifest:
    if field.codec.of is None:
        return field.codec.schema
    entry = schema_of(field.codec.of, field.declared.text)
    return entry if field.codec.empty is None else {"items": entry, "type": "array"}


_PLAIN = JsonShape()


@lru_cache(maxsize=64)  # classes
def _writing(of: type) -> tuple[tuple[str, Callable[[Any], Any], Any, Callable[[Any], Any] | None, str], ...]:
    """For each field: its name in JSON, "" for the fields of its value; its value; what is left out; its JSON; its section."""
    return tuple(
        (field.name, field.of, NOTHING, None, "")
        if isinstance(field, Derived)
        else (
            "" if field.flat is not None else field.json,
            attrgetter(field.name),
            field.left_out,
            field.codec.write,
            field.declared.section.name if field.declared.section is not None else "",
        )
        for field in _fields(of)
    )


@lru_cache(maxsize=64)  # classes
def _reading(of: type) -> _Reading:
    fields: dict[str, Any] = {}
    declared = [field for field in _fields(of) if isinstance(field, _Field)]
    for field in declared:
        if field.flat is None:
            place = fields if field.declared.section is None else fields.setdefault(field.declared.section.name, {})
            place[field.json] = field
    return _Reading(
        fields=fields,
        flat=tuple(field for field in declared if field.flat is not None),
        absent={field.name: field.absent for field in declared if field.absent is not NOTHING and not field.needed},
        needed=tuple((field.name, field.json) for field in declared if field.needed),
    )


@lru_cache(maxsize=64)  # classes
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
    of, marks, optional = _declared(hint)
    json = _first(marks, Json, Json())
    codec = scalar_codec(of, marks) or _codec(of, marks)
    absent = _first(
        marks, WhenAbsent, WhenAbsent(codec.empty if codec.empty is not None or optional else NOTHING)
    ).value
    # Not pydantic's `to_camel`: `rollouts get` reads statuses without loading it.
    first, *rest = (name.removesuffix("_s") if Mark.TIME in marks else name).split("_")
    left_out = NOTHING if Mark.ALWAYS in marks or Mark.NEEDED in marks else codec.left_out
    return _Field(
        name=name,
        json=json.name or first + "".join(map(str.capitalize, rest)),
        codec=codec,
        text=_first(marks, str, ""),
        declared=json,
        flat=of if Mark.FLAT in marks else None,
        needed=Mark.NEEDED in marks or (Mark.FLAT in marks and required),
        strict=Mark.STRICT in marks,
        left_out=0 if Mark.LEFT_OUT in marks else left_out,
        absent=absent if required else NOTHING,
        unreadable=_first(marks, WhenUnreadable, WhenUnreadable(NOTHING)).value,
    )


def _declared(hint: Any) -> tuple[Any, list[Any], bool]:
    """The type of a field, what its declaration says of it, and whether it may be None."""
    of, *marks = get_args(hint)
    choices = get_args(of) if get_origin(of) in (Union, UnionType) else (of,)
    parts = [part for part in choices if part is not type(None)]
    if len(parts) > 1:
        return Union[tuple(parts)], marks, len(parts) < len(choices)  # noqa: UP007 - made of values
    if get_origin(parts[0]) is Annotated:
        parts[0], *more = get_args(parts[0])
        marks += more
    return parts[0], marks, len(parts) < len(choices)


def _first(marks: list[Any], of: type[_T], otherwise: _T) -> _T:
    return next((mark for mark in marks if isinstance(mark, of)), otherwise)


def _codec(of: Any, marks: list[Any]) -> Codec:
    """How an object, or a list of objects, is written and read; its schema is worked out for the CRD alone."""
    if get_origin(of) is not tuple:
        return Codec("an object", {}, None, to_json, of)
    entries = _first(marks, Entries, Entries())
    return Codec(
        "a list", {}, None, lambda values: list(map(to_json, values)), get_args(of)[0], entries, empty=(), left_out=()
    )
