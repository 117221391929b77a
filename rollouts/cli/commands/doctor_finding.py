"""What `doctor` says of one thing that it looked at."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from msgspec import Struct

from rollouts.objects import Manifest


class Level(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    NOTE = "note"  # not looked at, and why
    WARNING = "warning"  # Rollouts go on, slower or with less than somebody expects
    FAULT = "fault"  # some Rollouts, or all, do not go on


class Diagnosis(Struct, frozen=True):
    """One thing that was looked at.

    Args:
        fix: what to do, as a command where one does it; "" when there is nothing to do.
    """

    check: str
    level: Level
    says: str
    fix: str = ""


def conditions_of(one: Manifest) -> list[dict[str, Any]]:
    """The conditions in an object's status."""
    found: list[dict[str, Any]] = one.get("status", {}).get("conditions") or []
    return found


def is_false(condition: dict[str, Any]) -> bool:
    """Whether a condition says no; `Unknown` is not no."""
    return condition.get("status") == "False"
