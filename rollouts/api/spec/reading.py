"""From a JSON object to one of the wire's models, with everything that its types do not allow, and from there to the core."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import lru_cache, partial
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import pydantic
from msgspec import Struct

from rollouts.api.problems import Problems
from rollouts.api.v1alpha1.wire import ExactlyOne, Wire, needed_fields
from rollouts.core.analysis.metric import MetricCondition
from rollouts.core.analysis.source import PodEvidence
from rollouts.core.model.autoscaling import AutoscalingGate

_T = TypeVar("_T")
_W = TypeVar("_W", bound=Wire)


_RENAMED: Mapping[tuple[type, str], str] = {
    (MetricCondition, "success"): "success_condition",
    (MetricCondition, "failure"): "failure_condition",
    (PodEvidence, "restarts_max"): "max_restarts",
    (PodEvidence, "ready_percent_min"): "min_ready_percent",
    (AutoscalingGate, "container"): "container_resource",
}
"""Fields of the core's classes that the API names in another way."""


def read_model(model: type[_W], raw: Mapping[str, Any], problems: Problems, *, root: str) -> _W:
    """The object, typed. What a type does not allow becomes a problem and is left out, so that the rest is checked too."""
    kept: Any = raw
    for levels in range(1, 12):
        try:
            return model.model_validate(kept)
        except pydantic.ValidationError as error:
            if kept is raw:
                kept = copy.deepcopy(dict(raw))
            for detail in error.errors(include_url=False):
                location = [part for part in detail["loc"] if part != "[key]"]
                if levels == 1:
                    problems.add_unreadable(
                        location, detail["type"], detail["input"], detail.get("ctx") or {}, root=root
                    )
                if not location:  # the object as a whole: a name in it that is no text
                    return model.empty()
                # An entry that was left out may make its list unreadable in turn: then the list goes, and so on upwards.
                _leave_out(kept, location[: len(location) - levels + 1] or location[:1])
    return model.empty()


def check_needed(wire: Wire, path: str, problems: Problems, *only: str) -> None:
    """Adds a problem for each needed field that is not given; `only` names some of them, as in JSON."""
    for attribute, name, missing in needed_fields(type(wire)):
        if (not only or name in only) and getattr(wire, attribute) is None:
            problems.add_missing(f"{path}.{name}", missing)


def given_of(wire: Wire) -> list[str]:
    """Which of the fields are given of which the model wants exactly one, by their names in JSON."""
    return _exactly_one(wire).given(wire)


def check_exactly_one(wire: Wire, path: str, problems: Problems, *, none: str = "", several: str = "") -> None:
    """Adds the problem that none, or more than one, of the fields is given of which the model wants exactly one.

    Args:
        none: the end of the message when none is given.
        several: its end when several are given, with `{}` for their names.
    """
    given, message = given_of(wire), f"needs exactly one of {_exactly_one(wire).listed(type(wire))}"
    if len(given) > 1 and several:
        problems.add(path, message + several.format(" and ".join(given)))
    elif len(given) != 1:
        problems.add_missing(path, message + ("" if given else none))


def _exactly_one(wire: Wire) -> ExactlyOne:
    return next(rule for rule in wire.RULES if isinstance(rule, ExactlyOne))


def core_value(of: type[_T], wire: Wire, /, **others: Any) -> _T:
    """A value of the core: each of its fields has the value of the object's field of that name, and its default without one.

    Seconds are named `…_s` in the core. What the object has as a list, a text or an object becomes a tuple, a member of the
    enumeration or a value of the core, as the core's class says.

    Args:
        others: the fields that do not follow from one of the object's by name.
    """
    for name, attribute, convert in _mapping(of, type(wire)):  # type: ignore[arg-type]
        if name not in others and (value := getattr(wire, attribute)) is not None:
            others[name] = value if convert is None else convert(value)
    return of(**others)


@lru_cache(maxsize=128)  # pairs of classes
def _mapping(of: type, model: type[Wire]) -> tuple[tuple[str, str, Callable[[Any], Any] | None], ...]:
    """For each field that is mapped: its name, the attribute of the model, and what converts the value."""
    mapped = []
    for name, hint in get_type_hints(of).items():
        bare = name.removesuffix("_s")
        names = (name, bare, f"{bare}_seconds", f"seconds_{bare}", _RENAMED.get((of, name)))
        attribute = next((each for each in names if each in model.model_fields), None)
        if attribute is not None:
            mapped.append((name, attribute, _converter(hint)))
    return tuple(mapped)


def _converter(hint: Any) -> Callable[[Any], Any] | None:
    if get_origin(hint) in (Union, UnionType):
        choices = [choice for choice in get_args(hint) if choice is not NoneType]
        return _converter(choices[0]) if len(choices) == 1 else None
    if get_origin(hint) is tuple:
        convert = _converter(get_args(hint)[0])
        return tuple if convert is None else lambda entries: tuple(map(convert, entries))
    if not isinstance(hint, type):
        return None
    if issubclass(hint, Struct):
        return partial(core_value, hint)
    return hint if issubclass(hint, (float, StrEnum)) else None


def _leave_out(value: Any, location: list[str | int]) -> None:
    *parents, last = location
    for part in parents:
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            return
    if isinstance(value, dict):
        value.pop(last, None)
    elif isinstance(value, list) and isinstance(last, int):
        value[last] = {}  # keeps the indexes of its neighbours
