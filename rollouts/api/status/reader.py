"""Reads the JSON of a status field by field. It never raises: it reports what cannot be read, and reads the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from fractions import Fraction
from itertools import islice
from typing import Any, TypeVar

from rollouts.api.times import parse_time
from rollouts.core.model.steps import WeightPercent

_T = TypeVar("_T")
_W = TypeVar("_W", bound=StrEnum)
_DENOMINATOR_MAX = 1_000_000  # api/spec/routing.py allows weights in so many parts


MESSAGE_MAX = 32_768  # characters, as a condition's message in apimachinery; the CRD says the same


class FieldMissing(Exception):
    """A part cannot be read without the field that the message names."""


class Reader:
    """Reads the fields of one JSON object. Only the methods `need_…` raise; then the whole part is left out."""

    def __init__(self, wire: Mapping[str, Any], path: str, problems: list[str]) -> None:
        self._wire = wire
        self._path = path
        self._problems = problems

    @property
    def fields(self) -> Mapping[str, Any]:
        """The JSON object, for parts that the core reads itself."""
        return self._wire

    def text(self, name: str) -> str:
        """A string; "" when it cannot be read."""
        value = self._wire.get(name)
        return value if isinstance(value, str) else self._default(name, "a string", "")

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of strings; () when it cannot be read."""
        value = self._wire.get(name)
        if isinstance(value, list) and all(isinstance(each, str) for each in value):
            return tuple(value)
        return self._default(name, "a list of strings", ())

    def seconds(self, name: str) -> float:
        """Seconds, 0 or more; 0 when they cannot be read."""
        value = self._wire.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
            return float(value)
        return self._default(name, "a number of 0 or more", 0.0)

    def number(self, name: str) -> int:
        """An integer of 0 or more; 0 when it cannot be read."""
        return self.optional_number(name) or 0

    def optional_number(self, name: str) -> int | None:
        """An integer of 0 or more; None when it is absent or cannot be read."""
        value = self._wire.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
        return self._default(name, "an integer of 0 or more", None)

    def optional_weight(self, name: str) -> WeightPercent | None:
        """A percentage, made exact again from a JSON number; None when it is absent or cannot be read."""
        value = self._wire.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 100:
            percent = Fraction(value).limit_denominator(_DENOMINATOR_MAX)
            return percent.numerator if percent.denominator == 1 else percent
        return self._default(name, "a number from 0 to 100", None)

    def need_weight(self, name: str) -> WeightPercent:
        """A percentage. Raises: FieldMissing."""
        value = self.optional_weight(name)
        if value is None:
            raise FieldMissing(name)
        return value

    def flag(self, name: str) -> bool:
        """True or false; false when it cannot be read."""
        value = self._wire.get(name)
        return value if isinstance(value, bool) else self._default(name, "true or false", False)

    def time(self, name: str) -> float | None:
        """A time in seconds since 1970; None when it is absent or cannot be read."""
        value = self._wire.get(name)
        if isinstance(value, str):
            try:
                return parse_time(value)
            except ValueError:
                pass
        return self._default(name, "an RFC 3339 time", None)

    def word(self, name: str, words: type[_W], default: _W) -> _W:
        """One of `words`, or the default."""
        value = self._wire.get(name)
        if isinstance(value, str) and value in words._value2member_map_:
            return words(value)
        return self._default(name, f"a {words.__name__} of this version", default)

    def optional_word(self, name: str, words: type[_W]) -> _W | None:
        """One of `words`; None when it is absent or cannot be read."""
        value = self._wire.get(name)
        if isinstance(value, str) and value in words._value2member_map_:
            return words(value)
        return self._default(name, f"a {words.__name__} of this version", None)

    def child(self, name: str) -> Reader:
        """A reader for an object in this one; for an empty object when it is absent or cannot be read."""
        value = self._wire.get(name)
        if not isinstance(value, Mapping):
            value = self._default(name, "an object", {})
        return Reader(value, f"{self._path}.{name}", self._problems)

    def part(self, name: str, read: Callable[[Reader], _T]) -> _T | None:
        """The value that `read` makes of an object; None when it is absent or cannot be read."""
        if self._wire.get(name) is None:
            return None
        value = self._wire[name]
        if not isinstance(value, Mapping):
            return self._default(name, "an object", None)
        return self._whole(f"{self._path}.{name}", value, read)

    def parts(
        self, name: str, read: Callable[[Reader], _T], *, latest: int | None = None, most: int | None = None
    ) -> tuple[_T, ...]:
        """The values that `read` makes of a list's entries, without those that cannot be read.

        Args:
            latest: only so many entries at the end are looked at; None for all.
            most: of these only so many at the beginning; None for all.
        """
        value = self._wire.get(name)
        if not isinstance(value, list):
            return self._default(name, "a list", ())
        found = []
        begin = 0 if latest is None else max(0, len(value) - latest)
        for index, entry in enumerate(islice(value, begin, None if most is None else begin + most), begin):
            path = f"{self._path}.{name}[{index}]"
            if not isinstance(entry, Mapping):
                self._problems.append(f"{path}: is not an object")
            elif (part := self._whole(path, entry, read)) is not None:
                found.append(part)
        return tuple(found)

    def absent(self, name: str) -> bool:
        """Whether the field is absent or null."""
        return self._wire.get(name) is None

    def need_text(self, name: str) -> str:
        """A string. Raises: FieldMissing."""
        value = self._wire.get(name)
        if not isinstance(value, str):
            raise FieldMissing(name)
        return value

    def need_time(self, name: str) -> float:
        """A time in seconds since 1970. Raises: FieldMissing."""
        try:
            return parse_time(self.need_text(name))
        except ValueError as error:
            raise FieldMissing(name) from error

    def need_word(self, name: str, words: type[_W]) -> _W:
        """One of `words`. Raises: FieldMissing."""
        value = self.need_text(name)
        if value not in words._value2member_map_:
            raise FieldMissing(name)
        return words(value)

    def _whole(self, path: str, value: Mapping[str, Any], read: Callable[[Reader], _T]) -> _T | None:
        try:
            return read(Reader(value, path, self._problems))
        except FieldMissing as field:
            self._problems.append(f"{path}.{field}: cannot be read, so {path} is left out")
            return None

    def _default(self, name: str, wanted: str, default: _T) -> _T:
        if self._wire.get(name) is not None:
            self._problems.append(f"{self._path}.{name}: is not {wanted}")
        return default


def weight_to_wire(percent: WeightPercent | None) -> int | float | None:
    """A percentage as a JSON number, which `Reader.optional_weight` reads back exactly."""
    return float(percent) if isinstance(percent, Fraction) else percent
