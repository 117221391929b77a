"""Configuration of revisions in a terminal: a list, and the difference of two. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct
from rich.console import Group, RenderableType
from rich.text import Text

from rollouts.cli.terminal.listing import Column, Listing
from rollouts.cli.terminal.text import TerminalMarks, plain
from rollouts.cli.view.config import KeyValue, SourceChange
from rollouts.cli.view.config_lines import change_lines, change_title
from rollouts.core.model.config import ConfigKind, ConfigUse
from rollouts.core.model.numbering import revision_title

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
    names = (revision_title(before.number, before.revision), revision_title(after.number, after.revision))
    for change in changes:
        parts += [Text(""), Text(plain(change_title(change, *names, marks)), "bold")]
        if change.unknown:
            parts.append(Text(plain(f"  {change.unknown}"), "yellow"))
        lines = (line for key in change.keys for line in change_lines(change.kind, key, marks, full=full))
        parts += [Text(plain(line), DIFF_STYLES.get(line[0], "")) for line in lines]
    return Group(*parts)
