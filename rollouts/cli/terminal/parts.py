"""A line of parts with two spaces or more between them, which a narrow terminal breaks between two parts. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.text import Text

_PART = re.compile(r"\S+(?: \S+)*")


class Parts:
    """The line. rich breaks a text at any space; here `✔ setWeight 25` and `50 %` stay whole, as long as they fit at all.

    Args:
        text: without line ends; two spaces or more separate its parts.
    """

    def __init__(self, text: Text) -> None:
        self._text = text

    def lines(self, console: Console, width: int) -> Iterator[Text]:
        """The lines of at most `width` cells; a part that is longer than that is broken between its words."""
        line: tuple[int, int] | None = None
        for start, stop in (part.span() for part in _PART.finditer(self._text.plain)):
            if line is not None and self._text[line[0] : stop].cell_len <= width:
                line = line[0], stop
                continue
            if line is not None:
                yield self._text[line[0] : line[1]]
            line = start, stop
            if self._text[start:stop].cell_len > width:
                yield from self._text[start:stop].wrap(console, width, overflow="fold")
                line = None
        if line is not None:
            yield self._text[line[0] : line[1]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The lines in the width that there is."""
        if self._text.cell_len <= options.max_width:
            yield self._text
        else:
            yield from self.lines(console, options.max_width)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """Between the longest word and the whole line."""
        return Measurement.get(console, options, self._text)
