"""What a field of Kubernetes' objects may hold: names, types and the values that are allowed, as the API server publishes them.

`objects.json` is the API server's own OpenAPI v3 without its texts (`python -m tests.lab.kubernetes_schema` writes it). The API
server decides by more than that: `formats.py` says what one field takes, `definitions.py`, `pods.py` and `objects.py` have the
rules between fields. Pure.
"""

from __future__ import annotations

import base64
import binascii
import difflib
import json
import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import cache
from importlib.resources import files
from typing import Any, TypeAlias

from rollouts.cli.kubernetes.formats import FORMATS, Format
from rollouts.sim.storage import quantities

Problem: TypeAlias = tuple[str, str]
"""The path of a field, and what is wrong with it and how to mend it."""

POD_TEMPLATE = "PodTemplateSpec"
JOB_SPEC = "JobSpec"
_PLACE = "{{"
_LIMITS = {"int32": 2**31, "int64": 2**63}


def schema_version() -> str:
    """The release of Kubernetes whose fields are known: `1.36`."""
    return str(_published()["kubernetes"])


def kinds() -> Mapping[tuple[str, str], str]:
    """The whole objects that are known: their definitions by apiVersion and kind."""
    return {(kind["apiVersion"], kind["kind"]): kind["definition"] for kind in _published()["kinds"]}


def field_problems(value: object, definition: str, path: str, *, filled_later: bool = False) -> Iterator[Problem]:
    """Fields that do not exist, values of another type, and values that are not among those allowed.

    With `filled_later`, texts with `{{` are filled in before Kubernetes sees them, so they may become anything.
    """
    yield from _value_problems(value, {"$ref": definition}, path, filled_later=filled_later)


def parts_of(value: object, definition: str, path: str) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """The definition, the path and the value of an object and of every object below it that has a definition."""
    if not isinstance(value, dict):
        return
    yield definition, path, value
    for name, schema in _definitions()[definition].get("properties", {}).items():
        below, part = schema.get("items", schema).get("$ref"), value.get(name)
        if below in _definitions():
            for at, item in enumerate(part) if isinstance(part, list) else [(None, part)]:
                yield from parts_of(item, below, f"{path}.{name}" if at is None else f"{path}.{name}[{at}]")


def quantity(value: object) -> Fraction | None:
    """The number that a quantity such as `500m` or `1Gi` is; None for what is no quantity."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    return quantities.quantity(str(value).strip())


def nearest(name: str, known: Mapping[str, Any] | list[str]) -> str:
    """`; did you mean containerPort?`; "" where no known name is near."""
    alike = [other for other in known if other.lower() == name.lower()]
    near = alike or difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""


def type_words(value: object) -> str:
    """What a value is, in words that do not repeat it: it may be secret."""
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case list():
            return "a list"
        case dict():
            return "an object"
        case _:
            return "nothing" if value is None else f"a {type(value).__name__}"


def _value_problems(value: object, schema: Mapping[str, Any], path: str, *, filled_later: bool) -> Iterator[Problem]:
    if value is None or (filled_later and isinstance(value, str) and _PLACE in value):
        return
    if (name := schema.get("$ref")) is not None:
        if name == "Quantity":
            yield from _quantity_problems(value, path)
            return
        schema = _definitions()[name]
    if "oneOf" in schema:
        if isinstance(value, bool) or not isinstance(value, int | str):
            yield path, f"must be a whole number or a text, not {type_words(value)}"
        return
    match schema.get("type"):
        case "object":
            yield from _object_problems(value, schema, path, filled_later=filled_later)
        case "array":
            yield from _list_problems(value, schema, path, filled_later=filled_later)
        case "string":
            yield from _text_problems(value, schema, path)
        case "integer" | "number":
            yield from _number_problems(value, schema, path)
        case "boolean" if not isinstance(value, bool):
            mend = "; remove the quotes" if str(value).lower() in ("true", "false") else ""
            yield path, f"must be true or false, not {type_words(value)}{mend}"
        case _:
            return


def _object_problems(value: object, schema: Mapping[str, Any], path: str, *, filled_later: bool) -> Iterator[Problem]:
    if not isinstance(value, dict):
        yield path, f"must be an object, not {type_words(value)}"
        return
    known, others = schema.get("properties"), schema.get("additionalProperties")
    for name, part in value.items():
        here = f"{path}.{name}"
        if isinstance(others, dict):
            yield from _value_problems(part, others, here, filled_later=filled_later)
        elif known is None:
            continue
        elif name in known:
            problems = [*_value_problems(part, known[name], here, filled_later=filled_later)]
            check = schema.get("formats", {}).get(name) if not problems else None
            yield from problems or (_format_problems(part, check, here, filled_later=filled_later) if check else ())
        else:
            yield here, f"is unknown to Kubernetes {schema_version()}{nearest(str(name), known)}"
    for name in schema.get("required", ()):
        if value.get(name) in (None, ""):
            yield f"{path}.{name}", "is required"


def _format_problems(value: object, check: Format, path: str, *, filled_later: bool) -> Iterator[Problem]:
    for at, part in (
        [(f"{path}[{at}]", part) for at, part in enumerate(value)] if isinstance(value, list) else [(path, value)]
    ):
        if part is not None and not (filled_later and _PLACE in str(part)) and (why := check(part)):
            yield at, why


def _list_problems(value: object, schema: Mapping[str, Any], path: str, *, filled_later: bool) -> Iterator[Problem]:
    if not isinstance(value, list):
        mend = f"write [{value!r}]" if isinstance(value, str) and len(value) < 40 else "write one item after each dash"
        yield path, f"must be a list, not {type_words(value)}; {mend}"
        return
    for index, item in enumerate(value):
        if item is None:
            yield f"{path}[{index}]", "is empty; remove the dash, or write a value after it"
        yield from _value_problems(item, schema["items"], f"{path}[{index}]", filled_later=filled_later)


def _text_problems(value: object, schema: Mapping[str, Any], path: str) -> Iterator[Problem]:
    if not isinstance(value, str):
        mend = "; put it in quotes" if isinstance(value, bool | int | float) else ""
        yield path, f"must be a text, not {type_words(value)}{mend}"
    elif value and "enum" in schema and value not in schema["enum"]:
        yield path, f"must be one of {', '.join(schema['enum'])}, not {value!r}{nearest(value, schema['enum'])}"
    elif schema.get("format") == "byte":
        try:
            base64.b64decode(value.replace("\n", "").replace("\r", ""), validate=True)
        except (binascii.Error, ValueError):
            yield path, "must be base64; use stringData or data for plain text"


def _number_problems(value: object, schema: Mapping[str, Any], path: str) -> Iterator[Problem]:
    whole = schema["type"] == "integer"
    if isinstance(value, bool) or not isinstance(value, int | float):
        digits = re.match(r"\s*([+-]?\d+)(.*)", value) if isinstance(value, str) else None
        mend = f"; write {digits[1]}" if digits and digits[2].strip() else "; remove the quotes" if digits else ""
        yield path, f"must be a {'whole ' if whole else ''}number, not {type_words(value)}{mend}"
    elif whole and value != value // 1:
        yield path, f"must be a whole number, not {value}"
    elif whole and abs(value) >= _LIMITS.get(schema.get("format", "int64"), 2**63):
        yield path, f"{value} is too large for a number of {schema.get('format', 'int64').removeprefix('int')} bits"


def _quantity_problems(value: object, path: str) -> Iterator[Problem]:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        yield path, f"must be a quantity such as 500m or 1Gi, not {type_words(value)}"
    elif quantity(value) is None:
        yield path, f"{value!r} is no quantity; write a number with n, u, m, k, M, G, T, P, E or Ki, Mi, Gi, Ti, Pi, Ei"


@cache
def _definitions() -> Mapping[str, Mapping[str, Any]]:
    return {name: {**schema, "formats": FORMATS.get(name, {})} for name, schema in _published()["definitions"].items()}


@cache
def _published() -> Mapping[str, Any]:
    text = files("rollouts.cli.kubernetes").joinpath("objects.json").read_text(encoding="utf-8")
    found: Mapping[str, Any] = json.loads(text)
    return found
