"""How the keys of two revisions' configuration differ, as lines for people. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from typing import Protocol

from rollouts.cli.view.config import KeyChange, KeyValue, SourceChange, size_text
from rollouts.cli.view.counts import count_of
from rollouts.cli.view.difference import comparison_steps
from rollouts.core.model.config import ConfigKind

LINES_SHOWN = 60  # of the difference of one key: a screen
STEPS_MAX = 100_000_000  # of a comparison of 10,000 lines that differ
TEXT_SHOWN = 160  # characters of one line
_BEFORE_IT = 40  # characters shown before the first that differs


class LineMarks(Protocol):
    """The characters for what follows from something, and for what is left out."""

    @property
    def arrow(self) -> str: ...
    @property
    def more(self) -> str: ...


def change_title(change: SourceChange, before: str, after: str, marks: LineMarks) -> str:
    """The source, and what the pods of each revision read of it: `ConfigMap app: app-1 → app-2`, `Secret db: only in #4 …`.

    Args:
        before, after: what the revisions are called.
    """
    if change.before is None:
        read = f"only in {after}"
    elif change.after is None:
        read = f"only in {before}"
    else:
        read = f" {marks.arrow} ".join(dict.fromkeys((change.before.name, change.after.name)))
    return f"{change.kind} {change.source}: {read}"


def change_steps(change: KeyChange) -> int:
    """The steps that `change_lines` needs to compare texts of several lines."""
    texts = [value.text.splitlines() for value in (change.before, change.after) if value is not None and value.text]
    return comparison_steps(*texts) if len(texts) == 2 else 0


def change_lines(
    kind: ConfigKind, change: KeyChange, marks: LineMarks, *, full: bool, steps_max: int = STEPS_MAX
) -> Iterator[str]:
    """How one key differs, as lines that begin with `+`, `-`, `@` or a space; of a Secret no value.

    Args:
        full: long values are not cut.
        steps_max: of texts that need more (`change_steps`) only the first line that differs is told.
    """
    old, new, key = change.before, change.after, change.key
    if old is None or new is None:
        sign, there = ("-", old) if new is None else ("+", new)
        yield from _whole(kind, sign, key, there, marks, full=full)
    elif kind is ConfigKind.SECRET:
        yield f"  {key}: changed"
    elif old.text is None or new.text is None:
        yield f"  {key}: binary, {size_text(old.size_bytes)} {marks.arrow} {size_text(new.size_bytes)}"
    elif "\n" in old.text or "\n" in new.text:
        yield f"  {key}:"
        if change_steps(change) > steps_max:
            before, after = old.text.splitlines(), new.text.splitlines()
            first = _first_difference(before, after) + 1
            yield f"  {len(before)} {marks.arrow} {len(after)} lines; the first difference is in line {first}"
        else:
            yield from _cut(_line_difference(old.text, new.text), marks, full=full)
    else:
        start = 0 if full else _first_difference(old.text, new.text)
        yield f"-{key}: {_window(old.text, start, marks, full=full)}"
        yield f"+{key}: {_window(new.text, start, marks, full=full)}"


def _line_difference(old: str, new: str) -> list[str]:
    diff = list(difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=2))[2:]
    ends = old.endswith("\n"), new.endswith("\n")
    if ends[0] != ends[1]:
        diff.append(f"{'-' if ends[0] else '+'}(a newline at the end)")
    return diff


def _whole(
    kind: ConfigKind, sign: str, key: str, value: KeyValue | None, marks: LineMarks, *, full: bool
) -> Iterator[str]:
    """A key that only one revision has."""
    if value is None:
        return
    if value.text is None:
        yield f"{sign}{key}" if kind is ConfigKind.SECRET else f"{sign}{key}: binary, {size_text(value.size_bytes)}"
    elif "\n" in value.text:
        yield f"{sign}{key}:"
        yield from _cut([f"{sign}  {line}" for line in value.text.splitlines()], marks, full=full)
    else:
        yield f"{sign}{key}: {_window(value.text, 0, marks, full=full)}"


def _cut(lines: list[str], marks: LineMarks, *, full: bool) -> Iterator[str]:
    if full:
        yield from lines
        return
    for line in lines[:LINES_SHOWN]:
        yield _window(line, 0, marks, full=False)
    if len(lines) > LINES_SHOWN:
        yield f"  {marks.more} and {count_of(len(lines) - LINES_SHOWN, 'more line')}: --full shows them"


def _first_difference(old: Sequence[str], new: Sequence[str]) -> int:
    pairs = enumerate(zip(old, new, strict=False))
    return next((index for index, (one, other) in pairs if one != other), min(len(old), len(new)))


def _window(text: str, start: int, marks: LineMarks, *, full: bool) -> str:
    """The text, or the part of it about `start` where it is too long for a line."""
    if full or len(text) <= TEXT_SHOWN:
        return text
    first = max(0, min(start - _BEFORE_IT, len(text) - TEXT_SHOWN))
    last = first + TEXT_SHOWN
    before, after = marks.more if first else "", marks.more if last < len(text) else ""
    return f"{before}{text[first:last]}{after} ({len(text)} characters)"
