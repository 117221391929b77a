"""A JSON object as one of the wire's models, and everything that its types do not allow."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, TypeVar

import pydantic

from rollouts.api.problems import Problems
from rollouts.api.v1alpha1.wire import Wire

_W = TypeVar("_W", bound=Wire)


def read_model(model: type[_W], raw: Mapping[str, Any], problems: Problems, *, root: str) -> _W:
    """The object, typed. What a type does not allow becomes a problem and is left out, so that the rest is checked too.

    Args:
        raw: is not changed.
        root: where the object stands, such as `spec`.
    """
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
                    return model()
                # An entry that was left out may make its list unreadable in turn: then the list goes, and so on upwards.
                _leave_out(kept, location[: len(location) - levels + 1] or location[:1])
    return model()


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
