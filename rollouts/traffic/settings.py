"""Reads a provider's part of the spec: every problem at once, with the path below the provider's name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rollouts.core.model.grammar import is_object_name
from rollouts.errors import ExpressionInvalid, SpecInvalid, SpecProblem
from rollouts.expressions import Expression, Result, compiled

_NUMBER_MOST = 2**31 - 1


class SettingsReader:
    """One JSON object of the settings. A null field counts as absent; `done` raises all problems that were noted.

    The API's own fields were validated before (`api/v1alpha1/traffic.py`); those of a provider under `plugins` were not.
    """

    def __init__(self, value: Any, *, path: str = "", problems: list[SpecProblem] | None = None) -> None:
        self.path = path
        self.problems: list[SpecProblem] = [] if problems is None else problems
        self._value: Mapping[str, Any] = value if isinstance(value, dict | Mapping) else {}
        self._read: set[str] = set()
        if not isinstance(value, dict | Mapping):
            self.refuse("", "must be an object")

    def refuse(self, field: str, message: str) -> None:
        """Notes a problem of one field, or of the whole object for ""."""
        self.problems.append(SpecProblem(self._place(field), message))

    def text(self, field: str, *, default: str = "", needed: bool = False) -> str:
        """A string."""
        found = self._checked(
            field, lambda value: isinstance(value, str) and value, "a string that is not empty", needed
        )
        return default if found is None else str(found)

    def object_name(self, field: str, *, default: str = "", needed: bool = False) -> str:
        """A string that is a valid name of an object or of a namespace."""
        found = self.text(field, default=default, needed=needed)
        if found != default:
            self._check_name(field, found)
        return found

    def object_names(self, field: str) -> tuple[str, ...]:
        """A list of names of objects."""
        found = self.texts(field)
        for name in found:
            self._check_name(field, name)
        return found

    def number(
        self, field: str, *, default: int = 0, needed: bool = False, least: int = 0, most: int = _NUMBER_MOST
    ) -> int:
        """A whole number from `least` to `most`."""
        found = self._checked(
            field,
            lambda value: isinstance(value, int) and not isinstance(value, bool) and least <= value <= most,
            f"a whole number, {least}{' or more' if most == _NUMBER_MOST else f' to {most}'}",
            needed,
        )
        return default if found is None else int(found)

    def flag(self, field: str) -> bool:
        """true or false; false when left out."""
        return self._checked(field, lambda value: isinstance(value, bool), "true or false") is True

    def texts(self, field: str) -> tuple[str, ...]:
        """A list of strings."""
        found = self._checked(field, _are_texts, "a list of strings")
        return tuple(found or ())

    def text_map(self, field: str) -> Mapping[str, str]:
        """An object whose values are strings."""
        found = self._checked(
            field,
            lambda value: isinstance(value, Mapping) and all(isinstance(each, str) for each in value.values()),
            "an object whose values are strings",
        )
        return dict(found or {})

    def value(self, field: str) -> Mapping[str, Any]:
        """A required object, as it is."""
        found = self._take(field)
        if isinstance(found, Mapping):
            return found
        self.refuse(field, "must be an object")
        return {}

    def anything(self, field: str) -> Any:
        """A required JSON value of any type."""
        found = self._take(field)
        if field not in self._value:
            self.refuse(field, "is required")
        return found

    def part(self, field: str) -> SettingsReader | None:
        """A reader of a nested object; None when left out."""
        found = self._take(field)
        return None if found is None else SettingsReader(found, path=self._place(field), problems=self.problems)

    def parts(self, field: str) -> tuple[SettingsReader, ...]:
        """Readers of a list of objects."""
        found = self._checked(field, lambda value: isinstance(value, list | tuple), "a list")
        return tuple(
            SettingsReader(each, path=f"{self._place(field)}[{at}]", problems=self.problems)
            for at, each in enumerate(found or ())
        )

    def compiled(self, field: str, source: str, *, variables: tuple[str, ...], result: Result) -> Expression | None:
        """The expression that a field has, or something in it; None for one that cannot be compiled."""
        try:
            return compiled(source, variables=variables, result=result)
        except ExpressionInvalid as error:
            self.refuse(field, str(error))
            return None

    def done(self) -> None:
        """Notes every field that was not read. Raises: SpecInvalid, in the outermost object, when a problem was noted."""
        for field in self._value:
            if field not in self._read:
                self.refuse(field, "unknown field")
        if not self.path and self.problems:
            raise SpecInvalid(tuple(self.problems))

    def _check_name(self, field: str, name: str) -> None:
        if not is_object_name(name):
            self.refuse(field, f"{name[:40]!r} is not a valid object name (RFC 1123: lower case, digits, '-' and '.')")

    def _checked(self, field: str, holds: Callable[[Any], Any], what: str, needed: bool = False) -> Any:
        """The value of a field; None when it is left out, or is not what it must be."""
        found = self._take(field)
        if found is not None and not holds(found):
            self.refuse(field, f"must be {what}")
            return None
        if found is None and needed:
            self.refuse(field, "is required")
        return found

    def _take(self, field: str) -> Any:
        self._read.add(field)
        return self._value.get(field)

    def _place(self, field: str) -> str:
        return f"{self.path}.{field}" if self.path and field else self.path or field


def _are_texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(each, str) and each for each in value)
