"""Configuration of revisions in a terminal: a list, and the difference of two. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct
from rich.console import Group, RenderableType
from rich.text import Text

from rollouts.cli.terminal.listing import Column, Listing
from rollouts.cli.terminal.text import TerminalMarks, plain
from rollouts.cli.view.config import KeyChange, KeyValue, SourceChange, size_text
from rollouts.cli.view.counts import count_of
from rollouts.core.model.config import ConfigKind, ConfigUse
from rollouts.core.model.numbering import revision_title

LINES_SHOWN = 60  # of the difference of one key: a screen
LINES_COMPARED = 10_000  # a second for the slowest; the time grows with the square
TEXT_SHOWN = 160  # characters of one line
_BEFORE_IT = 40  # characters shown before the first that differs
DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan"}


class RevisionConfig(Struct, frozen=True, kw_only=True):
    """One revision with what it has of each source, as its ReplicaSet notes; its number is 0 when it is not known."""

    revision: str
    number: int
    roles: tuple[str, ...]
    uses: tuple[ConfigUse, ...]
    current: bool = False

    @property
    def title(self) -> str:
        """`#4 f7w2k9xq4c (canary)`."""
        roles = f" ({', '.join(self.roles)})" if self.roles else ""
        return f"{revision_title(self.number, self.revision)}{roles}"


def revision_as_json(row: RevisionConfig) -> dict[str, Any]:
    """A revision with what it has of each source, as data."""
    config = [
        {"kind": use.kind.value, "source": use.source, "copy": use.copy or None, "content": use.content or None}
        for use in row.uses
    ]
    return {"revision": row.revision, "number": row.number, "roles": list(row.roles), "config": config}


def changes_as_json(changes: Iterable[SourceChange], before: RevisionConfig, after: RevisionConfig) -> dict[str, Any]:
    """The difference of two revisions as data; of binary values only the sizes, of Secrets only the keys."""

    def value(kind: ConfigKind, value: KeyValue | None) -> dict[str, Any] | None:
        if value is None:
            return None
        # Even the size of a Secret tells something.
        return {} if kind is ConfigKind.SECRET else {"bytes": value.size_bytes, "text": value.text}

    documents = [
        {
            "kind": change.kind.value,
            "source": change.source,
            "copyBefore": (change.before and change.before.copy) or None,
            "copyAfter": (change.after and change.after.copy) or None,
            "keys": [
                {"key": key.key, "before": value(change.kind, key.before), "after": value(change.kind, key.after)}
                for key in change.keys
            ],
            "unknown": change.unknown or None,
        }
        for change in changes
    ]
    return {"before": before.revision, "after": after.revision, "changes": documents}


def config_table(rows: Iterable[RevisionConfig]) -> Listing:
    """A line for each source of each revision, in the order of the rows."""
    headers = ("NUMBER", "REVISION", "ROLE", "KIND", "SOURCE", "PODS READ", "CONTENT")
    lines = []
    for row in rows:
        about = (f"#{row.number or '?'}", row.revision, ",".join(row.roles) or "-")
        for use in row.uses:
            cells = (*about, use.kind.value, use.source, use.name if use.content else "-", use.content or "absent")
            lines.append([Text(plain(cell)) for cell in cells])
    return Listing([Column(header) for header in headers], lines)


def draw_changes(
    changes: Iterable[SourceChange], before: RevisionConfig, after: RevisionConfig, *, marks: TerminalMarks, full: bool
) -> RenderableType:
    """The difference of two revisions, in full or with long values cut."""
    parts: list[RenderableType] = [Text(plain(f"{before.title} {marks.arrow} {after.title}"), "bold")]
    for change in changes:
        if change.before is None:
            pods_read = f"only in {revision_title(after.number, after.revision)}"
        elif change.after is None:
            pods_read = f"only in {revision_title(before.number, before.revision)}"
        else:
            pods_read = f" {marks.arrow} ".join(dict.fromkeys((change.before.name, change.after.name)))
        parts += [Text(""), Text(plain(f"{change.kind} {change.source}: {pods_read}"), "bold")]
        if change.unknown:
            parts.append(Text(plain(f"  {change.unknown}"), "yellow"))
        lines = (line for key in change.keys for line in _lines(change.kind, key, marks, full=full))
        parts += [Text(plain(line), DIFF_STYLES.get(line[0], "")) for line in lines]
    return Group(*parts)


def _lines(kind: ConfigKind, change: KeyChange, marks: TerminalMarks, *, full: bool) -> Iterator[str]:
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
        yield from _cut(_line_difference(old.text, new.text, marks), marks, full=full)
    else:
        start = 0 if full else _first_difference(old.text, new.text)
        yield f"-{key}: {_window(old.text, start, marks, full=full)}"
        yield f"+{key}: {_window(new.text, start, marks, full=full)}"


def _line_difference(old: str, new: str, marks: TerminalMarks) -> list[str]:
    before, after = old.splitlines(), new.splitlines()
    if max(len(before), len(after)) > LINES_COMPARED:
        first = _first_difference(before, after) + 1
        return [f"  {len(before)} {marks.arrow} {len(after)} lines; the first difference is in line {first}"]
    diff = list(difflib.unified_diff(before, after, lineterm="", n=2))[2:]
    ends = old.endswith("\n"), new.endswith("\n")
    if ends[0] != ends[1]:
        diff.append(f"{'-' if ends[0] else '+'}(a newline at the end)")
    return diff


def _whole(
    kind: ConfigKind, sign: str, key: str, value: KeyValue | None, marks: TerminalMarks, *, full: bool
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


def _cut(lines: list[str], marks: TerminalMarks, *, full: bool) -> Iterator[str]:
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


def _window(text: str, start: int, marks: TerminalMarks, *, full: bool) -> str:
    """The text, or the part of it about `start` where it is too long for a line."""
    if full or len(text) <= TEXT_SHOWN:
        return text
    first = max(0, min(start - _BEFORE_IT, len(text) - TEXT_SHOWN))
    last = first + TEXT_SHOWN
    before, after = marks.more if first else "", marks.more if last < len(text) else ""
    return f"{before}{text[first:last]}{after} ({len(text)} characters)"
