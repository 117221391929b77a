"""Collects all problems of a spec, each with its path, so that they are reported together."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from rollouts.errors import SpecInvalid, SpecProblem

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LIMITS = {
    "greater_than_equal": "must be {ge} or more, not {input}",
    "less_than_equal": "must be {le} or less, not {input}",
    "string_too_short": "must not be empty",
    "string_too_long": "must have at most {max_length} characters",
    "too_long": "must have at most {max_length} entries, not {actual_length}",
    "literal_error": "must be {expected}, not {input}",
    "value_error": "{error}",
    "extra_forbidden": "unknown field",
    "int_type": "must be an integer, not {input}",
    "int_from_float": "must be an integer, not {input}",
    "int_parsing": "must be an integer, not {input}",
    "bool_type": "must be true or false, not {input}",
    "string_type": "must be a string, not {input}",
    "list_type": "must be a list, not {input}; begin each entry with a dash",
    "dict_type": "must be an object, not {input}",
    "model_type": "must be an object, not {input}",
    "model_attributes_type": "must be an object, not {input}",
    "string_pattern_mismatch": "must be a name of lower-case letters, digits and '-' that begins with a letter, not {input}",
}

_TYPES: dict[type, str] = {
    dict: "an object",
    list: "a list",
    str: "a text",
    int: "a number",
    float: "a number",
    bool: "true or false",
}


def path_of(location: Iterable[str | int], *, root: str = "spec") -> str:
    """A path as `kubectl explain` writes it: `spec.strategy.canary.steps[2].setWeight`, `spec.selector.matchLabels[a/b]`."""
    path = root
    for part in location:
        if isinstance(part, int) or not _PLAIN.fullmatch(part):
            path += f"[{part}]"
        else:
            path += f".{part}"
    return path


class Problems:
    """A growing list of problems; the same path and message is reported once.

    Args:
        quotes: whether a message may repeat a value of the wrong type: not where it may be a password in the wrong place.
    """

    def __init__(self, *, quotes: bool = True) -> None:
        self._quotes = quotes
        self._found: dict[SpecProblem, None] = {}
        self._unreadable: list[str] = []

    def add(self, path: str, message: str, *, may_come: bool = False) -> None:
        """Adds a problem at `path`."""
        self._found[SpecProblem(path, message, may_come)] = None

    def add_missing(self, path: str, message: str) -> None:
        """Adds the problem that nothing is at `path`, unless a value was there and could not be read."""
        if not any(other == path or other.startswith((f"{path}.", f"{path}[")) for other in self._unreadable):
            self.add(path, message)

    def add_unreadable(
        self, location: Sequence[str | int], kind: str, value: Any, facts: dict[str, Any], *, root: str = "spec"
    ) -> None:
        """Adds the problem that a value's type does not allow it.

        Args:
            kind, facts: pydantic's error type and context.
        """
        path = path_of(location, root=root)
        self._unreadable.append(path)
        plain = self._quotes and isinstance(value, (int, float, str, bool, type(None)))
        shown = repr(value) if plain else _TYPES.get(type(value), type(value).__name__)
        self.add(path, _LIMITS.get(kind, f"cannot be used ({kind})").format(input=shown, **facts))

    def found(self) -> tuple[SpecProblem, ...]:
        """All problems, in the order in which they were added."""
        return tuple(self._found)

    def raise_found(self) -> None:
        """Raises: SpecInvalid with all problems, if there are any."""
        if self._found:
            raise SpecInvalid(self.found())
