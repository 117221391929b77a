"""Changed copies of frozen values. One pass copies a status of thirty fields about six times, so the cost matters."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, TypeVar

__all__ = ["replace"]

if TYPE_CHECKING:
    from dataclasses import replace  # so that the names and types of changes are checked
else:
    T = TypeVar("T")

    def replace(value: T, /, **changes: Any) -> T:
        """`dataclasses.replace`; a tenth of its cost for a class without slots, whose fields need no second look.

        Raises: TypeError for a name that is no field.
        """
        fields = getattr(value, "__dict__", None)
        if fields is None:
            return dataclasses.replace(value, **changes)
        for name in changes:
            if name not in fields:
                raise TypeError(f"{type(value).__name__} has no field {name}")
        copy = object.__new__(type(value))
        copy.__dict__.update(fields)
        copy.__dict__.update(changes)
        return copy
