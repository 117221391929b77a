"""What may go to a terminal: users' texts without control characters, and the marks of states. Pure."""

from __future__ import annotations

from msgspec import Struct


def plain(text: str) -> str:
    """Replaces control characters in text of users' objects; a newline or a tab becomes a space."""
    return "".join(
        character if character.isprintable() else " " if character in "\n\r\t" else "\N{REPLACEMENT CHARACTER}"
        for character in text
    )


class TerminalMarks(Struct, frozen=True, kw_only=True):
    """One character for each state, and the bars of a sparkline, the lowest first."""

    done: str
    now: str
    todo: str
    bad: str
    unclear: str
    starting: str
    ending: str
    dot: str
    more: str
    arrow: str
    levels: str


MARKS = TerminalMarks(
    done="✔",
    now="▶",
    todo="·",
    bad="✘",
    unclear="?",
    starting="…",
    ending="⌫",
    dot="·",
    more="…",
    arrow="→",
    levels="▁▂▃▄▅▆▇█",
)
ASCII_MARKS = TerminalMarks(
    done="+",
    now=">",
    todo="-",
    bad="x",
    unclear="?",
    starting="~",
    ending="-",
    dot="-",
    more="...",
    arrow="->",
    levels="_.-=+*#",
)


def marks_for(*, ascii_only: bool) -> TerminalMarks:
    """The marks that a terminal can show (`console.options.ascii_only`)."""
    return ASCII_MARKS if ascii_only else MARKS
