"""Values of all classes whose fields are declared for JSON, and what a schema of the CRD does not name of such JSON."""

from __future__ import annotations

from enum import StrEnum
from fractions import Fraction
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from rollouts.core.model.analysis import AnalysisGate, AnalysisKind
from rollouts.core.model.author import Author
from rollouts.core.model.declared import Mark
from rollouts.core.model.service_ref import ServiceRef, service_ref
from rollouts.core.model.status import Command, Cutover
from rollouts.core.model.steps import WeightPercent
from rollouts.core.model.traffic import RoutePlace

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_COUNT = st.integers(0, 2**31 - 1)
_TIME = st.integers(-(10**15), 4 * 10**15).map(  # a float holds microseconds exactly until the year 2106
    lambda microseconds: microseconds / 1_000_000
)
_PERCENT: st.SearchStrategy[WeightPercent] = (
    st.integers(1, 1_000_000)
    .flatmap(lambda parts: st.integers(0, parts).map(lambda weight: Fraction(100 * weight, parts)))
    .map(lambda percent: percent.numerator if percent.denominator == 1 else percent)
)


def values_of(hint: Any) -> st.SearchStrategy[Any]:
    """Values of a declared type; a class has all of its fields."""
    marks: tuple[Any, ...] = ()
    if get_origin(hint) is Annotated:
        hint, *rest = get_args(hint)
        marks = tuple(rest)
    parts = [part for part in get_args(hint) if part is not type(None)]
    if len(parts) < len(get_args(hint)):
        return st.none() | values_of(Annotated[Union[tuple(parts)], *(marks or [""])])  # noqa: UP007
    if get_origin(hint) is Annotated or Mark.TIME in marks:
        return _TIME
    if hint in BY_TYPE:
        return BY_TYPE[hint]
    if get_origin(hint) is tuple:
        return st.lists(values_of(parts[0]), max_size=2).map(tuple)
    if issubclass(hint, StrEnum):
        return st.sampled_from(list(hint))
    return _built(hint)


def _built(of: type, **given: Any) -> st.SearchStrategy[Any]:
    hints = get_type_hints(of, include_extras=True)
    shown = {name: values_of(hint) for name, hint in hints.items() if Mark.HIDDEN not in hint.__metadata__}
    return st.builds(of, **(shown | given))


BY_TYPE: dict[Any, st.SearchStrategy[Any]] = {
    str: _TEXT, int: _COUNT, bool: st.booleans(), float: st.floats(0, 1e5), WeightPercent: _PERCENT,
    ServiceRef: _TEXT.map(service_ref),
    tuple[tuple[str, str], ...]: st.dictionaries(_TEXT, _TEXT, max_size=2).map(lambda pairs: tuple(pairs.items())),
    RoutePlace: st.builds(
        RoutePlace, *(st.sampled_from(each) for each in (("HTTPRoute", "Ingress"), ("shop", "a-b"), ("cart", "cart.v1")))
    ),
}  # fmt: skip
BY_TYPE |= {
    Author: _built(Author, name=_TEXT.filter(bool)),
    AnalysisGate: st.builds(AnalysisGate, st.sampled_from([each for each in AnalysisKind if each.is_step]), _COUNT)
    | st.builds(AnalysisGate, st.sampled_from([each for each in AnalysisKind if not each.is_step])),
    Cutover: _built(Cutover, confirmed_at_s=_TIME, until_s=_TIME)
    | st.builds(Cutover, service=_TEXT.map(service_ref), from_revision=_TEXT, to_revision=_TEXT),
}
BY_TYPE[Command] = _built(Command, refusal=st.none(), over=st.booleans()) | _built(Command)


def unknown(value: Any, schema: dict[str, Any], path: str = "status") -> list[str]:
    """The paths of what the schema does not name, or names as something else."""
    match value:
        case dict():
            known = schema.get("properties") or dict.fromkeys(value, schema.get("additionalProperties", {}))
            return [
                problem
                for name, part in value.items()
                for problem in (unknown(part, known[name], f"{path}.{name}") if name in known else [f"{path}.{name}"])
            ]
        case list():
            return [problem for part in value for problem in unknown(part, schema["items"], f"{path}[]")]
    types = {str: ("string",), bool: ("boolean",), int: ("integer", "number"), float: ("number",)}
    fits = schema["type"] in types[type(value)] and value in schema.get("enum", [value])
    return [] if fits else [path]
