"""Frozen values: one `replace` for structs and for the few dataclasses, checked by type checkers; one object for equal ones."""

from __future__ import annotations

import dataclasses
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

__all__ = ["one_for_all", "replace"]

T = TypeVar("T")

if TYPE_CHECKING:
    from dataclasses import replace  # so that the names and types of changes are checked
else:

    def replace(value: T, /, **changes: Any) -> T:
        """A copy of a value with some fields changed.

        Raises: TypeError for a name that is no field.
        """
        if isinstance(value, msgspec.Struct):
            return msgspec.structs.replace(value, **changes)
        return dataclasses.replace(value, **changes)


@lru_cache(maxsize=512)
def one_for_all(value: T) -> T:
    """The first of equal values: most objects of a cluster have the same parts, and a controller keeps those of each."""
    return value
