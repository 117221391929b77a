"""Changed copies of frozen values: one `replace` for structs and for the few dataclasses, checked by type checkers."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

__all__ = ["replace"]

if TYPE_CHECKING:
    from dataclasses import replace  # so that the names and types of changes are checked
else:
    T = TypeVar("T")

    def replace(value: T, /, **changes: Any) -> T:
        """A copy of a value with some fields changed.

        Raises: TypeError for a name that is no field.
        """
        if isinstance(value, msgspec.Struct):
            return msgspec.structs.replace(value, **changes)
        return dataclasses.replace(value, **changes)
