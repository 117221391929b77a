"""What `doctor` says of one thing that it looked at."""

from __future__ import annotations

from enum import StrEnum

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

    The fix is a command for bash, "" where none repairs it. The hint says what only a person can do or decide.
    """

    check: str
    level: Level
    says: str
    fix: str = ""
    hint: str = ""


def conditions_of(thing: Manifest, *types: str, said: tuple[str, ...] = ("False",)) -> list[Manifest]:
    """The conditions of these types in an object's status that say so; `Unknown` is not no."""
    conditions = thing.get("status", {}).get("conditions") or ()
    return [condition for condition in conditions if condition["type"] in types and condition.get("status") in said]
