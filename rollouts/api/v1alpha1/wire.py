"""The scalars of the wire, and the base class of its models: what a field of the API may hold, apart from its meaning."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Self, TypeAlias, cast

from msgspec import Struct
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainValidator, Strict, WithJsonSchema
from pydantic.alias_generators import to_camel

from rollouts.core.model.rollout import IntOrPercent, Percent
from rollouts.objects import NAME_MAX, NAME_PATTERN, NAMESPACE_MAX, NAMESPACE_PATTERN, name_problem, namespace_problem

MAX_INT32 = 2**31 - 1
MAX_DRAIN_S = 86_400  # a day: no request takes longer
MAX_SETTLE_S = 300  # five minutes: what changes later is another change
DURATION_MAX = 32  # characters; the CRD says the same
_DURATION = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)")
_UNIT_S = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_SHOWN = 80
_PERCENT = re.compile(r"(\d{1,4})%?")


class CelRule(Struct, frozen=True):
    """A rule between fields of an object: a CEL expression of the CRD, and what the API server says when it is false."""

    cel: str
    text: str


class ExactlyOne(Struct, frozen=True):
    """Exactly one of the fields is given. `given` asks the same of an object that was read.

    Args:
        fields: their names in JSON; () for all fields of the model.
        text: what the API server says; by default the names.
        true: the one of them that counts as given only when it is true.
    """

    fields: tuple[str, ...]
    text: str = ""
    true: str = ""

    def in_cel(self, model: type[Wire]) -> CelRule:
        """The rule as the CRD has it."""
        fields = self.fields or attributes_of(model)
        given = [f"has(self.{field})" + (f" && self.{field}" if field == self.true else "") for field in fields]
        cel = " + ".join(f"({has} ? 1 : 0)" for has in given)
        return CelRule(f"{cel} == 1", self.text or f"exactly one of {self.listed(model)}")

    def given(self, wire: Wire) -> list[str]:
        """The fields that are given, by their names in JSON."""
        attributes = attributes_of(type(wire))
        return [
            field
            for field in self.fields or attributes
            if (value := getattr(wire, attributes[field])) is not None and (value or field != self.true)
        ]

    def listed(self, model: type[Wire]) -> str:
        """The names of the fields for messages."""
        *names, last = self.fields or attributes_of(model)
        return f"{', '.join(names)} and {last}"


class _Needed(Struct, frozen=True):
    """Marks a field that the CRD requires; api/spec says `missing` where it is not given."""

    missing: str


class Wire(BaseModel):
    """A JSON object of the API: camelCase, without unknown fields, immutable.

    Every field may be absent here, so that a spec with one bad field is still checked for everything else: api/spec says which
    fields are needed, and when. The CRD has those that are declared with `needed` in `required`, and the rules as CEL.
    """

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=to_camel,
        defer_build=True,  # one validator for the whole spec at its first use, not one for each of 80 models at import
        json_schema_extra=lambda schema, model: model.extend_schema(schema),
    )

    RULES: ClassVar[tuple[CelRule | ExactlyOne, ...]] = ()

    @classmethod
    def empty(cls) -> Self:
        """Without any field. Calling the class instead would build a validator of this model alone: 0.3 MiB for a strategy."""
        return cast(Self, cls.model_construct())

    @classmethod
    def extend_schema(cls, schema: dict[str, Any]) -> None:
        """Adds what only the CRD contains."""
        if required := [name for _, name, _ in needed_fields(cls)]:
            schema["required"] = required
        if rules := [rule if isinstance(rule, CelRule) else rule.in_cel(cls) for rule in cls.RULES]:
            schema["x-kubernetes-validations"] = [{"rule": rule.cel, "message": rule.text} for rule in rules]


def optional(description: str, **more: Any) -> Any:
    """A field of a model, with its description in the CRD."""
    return Field(None, description=description, **more)


def needed(description: str, *, missing: str = "is required", **more: Any) -> Any:
    """A field that the CRD requires."""
    field = Field(None, description=description, **more)
    field.metadata.append(_Needed(missing))
    return field


@lru_cache(maxsize=128)  # models
def needed_fields(model: type[Wire]) -> tuple[tuple[str, str, str], ...]:
    """For each field that the CRD requires: attribute, name in JSON, and the problem where it is missing."""
    return tuple(
        (attribute, wire_name(model, attribute), mark.missing)
        for attribute, field in model.model_fields.items()
        for mark in field.metadata
        if isinstance(mark, _Needed)
    )


def wire_name(model: type[Wire], attribute: str) -> str:
    """The name of a model's attribute on the wire."""
    return model.model_fields[attribute].alias or to_camel(attribute)


@lru_cache(maxsize=128)  # models
def attributes_of(model: type[Wire]) -> dict[str, str]:
    """The attributes of a model by their names in JSON."""
    return {wire_name(model, attribute): attribute for attribute in model.model_fields}


def exactly_one(*fields: str, text: str = "", true: str = "") -> ExactlyOne:
    """The rule that exactly one of `fields`, or of all fields of the model, is given."""
    return ExactlyOne(fields, text, true)


def parse_int_or_percent(value: object) -> IntOrPercent:
    """Reads `3`, `"25%"`, and Argo's bare `"25"`, which means percent.

    Raises: ValueError that says what is allowed.
    """
    match value:
        case bool():
            pass
        case int() if 0 <= value <= MAX_INT32:
            return value
        case str() if (found := _PERCENT.fullmatch(value)) and int(found[1]) <= 1000:
            return Percent(int(found[1]))
    raise ValueError(f"must be a number of pods, 0 or more, or a percentage such as 25%, not {_begun(value)}")


def _begun(value: object) -> str:
    """The value, or its beginning: it comes from anybody, and goes into conditions."""
    said = repr(value[:_SHOWN] if isinstance(value, str) else value)
    return said if len(said) <= 2 * _SHOWN else f"{said[:_SHOWN]}…"


def parse_duration(value: object) -> float:
    """Reads seconds as a number (`30`, `"30"`) or a duration as Go writes it (`10s`, `5m`, `1h30m`, `1.5h`); in seconds.

    Raises: ValueError that says what is allowed. Source of the grammar: https://pkg.go.dev/time#ParseDuration
    """
    seconds = -1.0
    match value:
        case bool():
            pass
        case int():
            seconds = float(value)
        case str() if value.isascii() and value.isdigit():
            seconds = float(value[:20])
        case str() if 0 < len(value) <= DURATION_MAX and _DURATION.sub("", value) == "":
            seconds = sum(float(number) * _UNIT_S[unit] for number, unit in _DURATION.findall(value))
    if 0 <= seconds <= MAX_INT32:
        return seconds
    raise ValueError(f"must be seconds or a duration such as 30s, 5m or 1h30m, 0 or more, not {_begun(value)}")


def parse_int_or_name(value: object) -> int | str:
    """Number or name of a port."""
    if isinstance(value, str) and 0 < len(value) <= 63:
        return value
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 65_535:
        return value
    raise ValueError("must be the number or the name of a port")


def _allowed_by(problem_of: Callable[[str], str]) -> AfterValidator:
    """Checks a name by the API server's rules, which `problem_of` knows."""

    def checked(value: str) -> str:
        if problem := problem_of(value):
            raise ValueError(problem)
        return value

    return AfterValidator(checked)


def _name_schema(length_max: int, pattern: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "minLength": 1, "maxLength": length_max, "pattern": pattern})


def int32(least: int, most: int) -> Any:
    """What a field says that is an int32 within these bounds."""
    return Field(strict=True, ge=least, le=most, json_schema_extra={"format": "int32"})


def int_or_string(length_max: int) -> WithJsonSchema:
    """The schema of a field that is an integer or a text."""
    choices = [{"type": "integer"}, {"type": "string"}]
    return WithJsonSchema({"x-kubernetes-int-or-string": True, "anyOf": choices, "maxLength": length_max})


Bool: TypeAlias = Annotated[bool, Strict()]
DateTime: TypeAlias = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
Count: TypeAlias = Annotated[int, int32(0, MAX_INT32)]
DrainSeconds: TypeAlias = Annotated[int, int32(0, MAX_DRAIN_S)]
SettleSeconds: TypeAlias = Annotated[int, int32(0, MAX_SETTLE_S)]
Number: TypeAlias = Annotated[int, int32(-MAX_INT32, MAX_INT32)]
PercentNumber: TypeAlias = Annotated[int, int32(0, 100)]
Weight: TypeAlias = Annotated[int, int32(0, 1_000_000)]  # parts of maxTrafficWeight
Amount: TypeAlias = Annotated[IntOrPercent, PlainValidator(parse_int_or_percent), int_or_string(DURATION_MAX)]
Duration: TypeAlias = Annotated[float, PlainValidator(parse_duration), int_or_string(DURATION_MAX)]
IntOrName: TypeAlias = Annotated[int | str, PlainValidator(parse_int_or_name), int_or_string(63)]
Name: TypeAlias = Annotated[str, Field(min_length=1, max_length=253)]
ObjectName: TypeAlias = Annotated[str, _allowed_by(name_problem), _name_schema(NAME_MAX, NAME_PATTERN)]
"""It becomes part of a URL's path."""
Namespace: TypeAlias = Annotated[str, _allowed_by(namespace_problem), _name_schema(NAMESPACE_MAX, NAMESPACE_PATTERN)]
ServiceName: TypeAlias = Annotated[str, Field(max_length=63, pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$")]
Text: TypeAlias = Annotated[str, Field(max_length=4096)]
StringMap: TypeAlias = Annotated[dict[str, Annotated[str, Field(max_length=4096)]], Field(max_length=64)]
FreeObject: TypeAlias = Annotated[
    dict[str, Any], WithJsonSchema({"type": "object", "x-kubernetes-preserve-unknown-fields": True})
]
AnyJson: TypeAlias = Annotated[Any, WithJsonSchema({"x-kubernetes-preserve-unknown-fields": True})]
WholeObject: TypeAlias = Annotated[
    dict[str, Any],
    WithJsonSchema(
        {
            "type": "object",
            "required": ["metadata", "spec"],
            "x-kubernetes-embedded-resource": True,
            "x-kubernetes-preserve-unknown-fields": True,
            "properties": {
                "metadata": {"type": "object", "description": "Name, labels and annotations of the object."},
                "spec": {
                    "type": "object",
                    "description": "Spec of the object.",
                    "x-kubernetes-preserve-unknown-fields": True,
                },
            },
        }
    ),
]  # with apiVersion, kind and metadata, which the API server checks
