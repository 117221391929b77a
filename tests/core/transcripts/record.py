"""What the core decides in a play, pass by pass, as a text that people read in a diff."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from rollouts.core.decide import decide
from rollouts.core.model.intents import Decision
from rollouts.core.model.snapshot import Snapshot
from rollouts.core.model.status import RolloutStatus
from tests.said import said, said_of

FOLDER = Path(__file__).parent


def transcript(plays: Mapping[str, Callable[[], Iterable[Snapshot]]]) -> str:
    """One text of several plays, each below its name."""
    return "\n".join("\n".join([f"# {name}", "", *told(play()), ""]) for name, play in plays.items())


def told(seen: Iterable[Snapshot]) -> Iterator[str]:
    """The lines about these passes, one after the other: nothing about one that decides what the one before did."""
    last: tuple[str, ...] = ()
    for view in seen:
        decision = decide(view)
        lines = tuple(_shortened(decision.status.message, _lines(view.status, decision)))
        if lines != last:
            yield f"{said(view.now_s)}:"
            yield from lines
        last = lines


def _lines(before: RolloutStatus, decision: Decision) -> Iterator[str]:
    for intent in decision.intents:
        yield f"  {said(intent)}"
    for name in RolloutStatus.__struct_fields__:
        old, new = getattr(before, name), getattr(decision.status, name)
        if old == new:
            continue
        if isinstance(new, tuple):
            yield from (f"  {name}: {said(each)}" for each in new if each not in old)
            gone = {_identity(each) for each in old} - {_identity(each) for each in new}
            yield from (f"  {name}: no {each}" for each in sorted(gone))
        else:
            yield f"  {name}: {said_of(name, new)}"
    for notice in decision.notices:
        yield f"  {said(notice)}"
    if decision.status_first:
        yield "  status first"
    if decision.requeue_at_s is not None:
        yield f"  again at {said(decision.requeue_at_s)}"


def _shortened(message: str, lines: Iterable[str]) -> Iterator[str]:
    """The lines with the message of the status in one of them alone: conditions say the same."""
    text = f"message={said(message)}"
    for line in lines:
        yield line.replace(text, "message=…") if message else line


def _identity(entry: Any) -> str:
    """What an entry of a list is known by: its first field."""
    return said(getattr(entry, entry.__struct_fields__[0]) if isinstance(entry, msgspec.Struct) else entry)
