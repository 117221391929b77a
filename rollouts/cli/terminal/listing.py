"""Lists as kubectl prints them: one line for an object, columns with three spaces between, and nothing is ever cut or wrapped.

rich's own tables break the lines of narrow terminals, and those of pipes at 80 columns. Here a line ends where its text ends, so
the last column may go beyond the edge. A terminal that is too narrow is given fewer columns, never shorter ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.text import Text

from rollouts.cli.terminal.text import plain

GAP = 3  # spaces between columns, as kubectl
LAST_SHOWN = 24  # cells of the last column that a terminal should have room for, before other columns are left out
_PIPED_WIDTH = 10_000  # cells: wider than anything that is drawn


class Column(Struct, frozen=True):
    """One column. A terminal that is too narrow leaves out those of the highest rank first, and those of 0 never."""

    header: str
    rank: int = 0


class Listing(Struct, frozen=True):
    """Rows under headers. Print it by `print_drawn`, or in a live picture, which cuts lines at the terminal's edge."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Text]]

    def lines(self, width: int | None = None) -> Iterator[Text]:
        """The header and a line for each row, on a terminal of so many cells; None for no limit."""
        shown = list(range(len(self.columns)))
        sizes = [
            max([len(column.header), *(row[n].cell_len for row in self.rows)]) for n, column in enumerate(self.columns)
        ]
        while width is not None and _needs(sizes, shown) > width:
            least = max(shown, key=lambda n: self.columns[n].rank)
            if self.columns[least].rank == 0:
                break
            shown.remove(least)
        for cells in ([Text(column.header) for column in self.columns], *self.rows):
            line = Text(no_wrap=True, overflow="ignore", end="")
            for n in shown:
                line.append_text(cells[n])
                if n != shown[-1]:
                    line.append(" " * (sizes[n] - cells[n].cell_len + GAP))
            line.rstrip()
            yield line

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The lines, with columns left out for a narrow terminal; cut at the edge where rich is not told to let them go on."""
        for line in self.lines(options.max_width if console.is_terminal else None):
            if options.overflow != "ignore":
                line.truncate(options.max_width, overflow="crop" if options.ascii_only else "ellipsis")
            line.end = "\n"
            yield line


def _needs(sizes: Sequence[int], shown: Sequence[int]) -> int:
    """Cells of a line of these columns; of the last one no more than it needs to begin."""
    return sum(sizes[n] + GAP for n in shown[:-1]) + min(sizes[shown[-1]], LAST_SHOWN)


def can_redraw(console: Console) -> bool:
    """Whether a picture can be drawn again in its place. A dumb terminal (`TERM=dumb`) gets lines, as a pipe does."""
    return console.is_terminal and not console.is_dumb_terminal


def print_line(console: Console, text: str, *, style: str | None = None) -> None:
    """Prints a text as one line, which the terminal wraps: without control characters, and nothing in it is markup."""
    console.print(plain(text), style=style, markup=False, highlight=False, soft_wrap=True)


def print_drawn(console: Console, *drawn: RenderableType, piped_width: int = _PIPED_WIDTH) -> None:
    """Prints pictures and lists: a picture in the width of the terminal, and without a terminal unwrapped."""
    for picture in drawn:
        if isinstance(picture, Listing):
            console.print(picture, soft_wrap=True)
        elif console.is_terminal:
            console.print(picture)
        else:
            # rich fills the lines of tables and trees up to the width; no pipe wants that.
            rows = console.render_lines(picture, console.options.update(width=piped_width), pad=False)
            text = "\n".join("".join(segment.text for segment in row).rstrip() for row in rows)
            console.out(text, highlight=False)
