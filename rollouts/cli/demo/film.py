"""Draws `rollouts demo` as a moving picture: `python -m rollouts.cli.demo.film docs/images/demo.svg`.

The demo is played in virtual time on a terminal that keeps what it is sent. Each picture that it shows becomes a frame of one
SVG, which loads nothing, and stands still on its last frame where animation is off.
"""

from __future__ import annotations

import asyncio
import io
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from msgspec import Struct
from rich.cells import cell_len
from rich.color_triplet import ColorTriplet
from rich.console import Console
from rich.style import Style
from rich.terminal_theme import SVG_EXPORT_THEME
from rich.text import Text

from rollouts.cli.demo.command import demo
from rollouts.cli.exits import Exit
from rollouts.sim.clock import SimClock, run_virtual

COLUMNS, ROWS = 100, 26
FASTER = 1.5  # than the demo
LAST_S = 5.0  # the table stays
_EVERY_S = 0.8  # of the demo's time; a screen that comes sooner takes the place of the one before
_CELL_PX, _LINE_PX, _EDGE_PX, _BAR_PX = 8.4, 17, 12, 28
_HOME, _LEAVE = "\x1b[H", "\x1b[?1049l"
_SPACE = "\N{NO-BREAK SPACE}"  # not every program that draws SVG keeps runs of spaces
_LIMIT_S = 600.0
_DIM_PERCENT = 60
_STYLE = (
    "text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;white-space:pre}"
    "@keyframes play{%s}"
    "#film{transform:translateY(-%dpx);animation:play %.2fs step-end infinite}"
    "@media (prefers-reduced-motion:reduce){#film{animation:none}}"
)


class NotPlayed(Exception):
    """The demo did not end as it promises, so there is nothing to show."""


class Frame(Struct, frozen=True):
    """What a terminal shows since that time of the demo: at most ROWS rows, without spaces at their ends."""

    at_s: float
    rows: tuple[Text, ...]


class _Recorder(io.StringIO):
    """A terminal that notes when it is sent what."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self.sent: list[tuple[float, str]] = []
        self._loop = loop

    def write(self, text: str, /) -> int:
        self.sent.append((self._loop.time(), text))
        return len(text)


def played() -> tuple[Frame, ...]:
    """The frames of a whole demo, the last of them its table.

    Raises: NotPlayed.
    """

    async def play() -> list[tuple[float, str]]:
        loop = asyncio.get_running_loop()
        recorder = _Recorder(loop)
        console = Console(file=recorder, width=COLUMNS, height=ROWS, force_terminal=True, color_system="truecolor",
                          legacy_windows=False, _environ={})  # fmt: skip
        if await demo(console=console, lines=False, clock=SimClock(loop)) is not Exit.OK:
            raise NotPlayed("the demo did not end as promised: run `make demo` and see why")
        return recorder.sent

    return tuple(frames_of(run_virtual(play(), limit_s=_LIMIT_S)))


def frames_of(sent: Iterable[tuple[float, str]]) -> Iterator[Frame]:
    """What a terminal shows after each time at which it was sent something; each frame differs from the one before.

    Args:
        sent: times in seconds, and texts: pictures that begin at the top of a screen of their own, then lines on the usual one.
    """
    kept: list[Frame] = []
    after = ""
    left = False
    for at_s, text in sent:
        picture, leaves, rest = text.partition(_LEAVE)
        left = left or bool(leaves)
        if left:
            after += rest if leaves else text
        elif _HOME in picture:
            frame = Frame(at_s, _rows(picture.rpartition(_HOME)[2]))
            if kept and at_s - kept[-1].at_s < _EVERY_S:
                frame = Frame(kept.pop().at_s, frame.rows)
            if not kept or kept[-1].rows != frame.rows:
                kept.append(frame)
        last_s = at_s
    yield from kept
    if after:
        yield Frame(last_s, _rows(after))


def svg(frames: Sequence[Frame]) -> str:
    """The moving picture: a strip of all frames, of which a window shows one."""
    length_s = (frames[-1].at_s - frames[0].at_s) / FASTER + LAST_S
    height = ROWS * _LINE_PX
    pitch = (
        height + _LINE_PX
    )  # letters and blocks reach over their line: an empty one keeps the next frame out of the window
    keys = "".join(
        f"{(frame.at_s - frames[0].at_s) / FASTER / length_s:.3%}{{transform:translateY(-{index * pitch}px)}}"
        for index, frame in enumerate(frames)
    )
    colours: dict[str, str] = {}
    lines: dict[str, str] = {}
    strip = []
    for index, frame in enumerate(frames):
        for number, row in enumerate(frame.rows):
            if drawn := _line(row, colours):
                name = lines.setdefault(drawn, f"l{len(lines)}")
                strip.append(f'<use href="#{name}" y="{index * pitch + number * _LINE_PX}"/>')
    style = _STYLE % (keys, (len(frames) - 1) * pitch, length_s) + "".join(
        f".{name}{{{rule}}}" for rule, name in colours.items()
    )
    width_px, height_px = round(COLUMNS * _CELL_PX) + 2 * _EDGE_PX, height + _BAR_PX + _EDGE_PX
    theme = SVG_EXPORT_THEME
    # A grey line around the window, so that it has an edge on a page as dark as it is.
    edge = f'fill="{theme.background_color.hex}" stroke="#808080" stroke-opacity="0.5"'
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width_px} {height_px}" role="img" aria-labelledby="title">',
        '<title id="title">rollouts demo: a canary, two aborts and a blue-green update, with no request lost</title>',
        f"<style>{style}</style>",
        "<defs>", *(f'<g id="{name}">{drawn}</g>' for drawn, name in lines.items()), "</defs>",
        f'<rect x="0.5" y="0.5" width="{width_px - 1}" height="{height_px - 1}" rx="8" {edge}/>',
        f'<text x="{width_px / 2:g}" y="19" text-anchor="middle" fill="{theme.foreground_color.hex}">make demo</text>',
        *(f'<circle cx="{18 + 18 * index}" cy="14" r="5.5" fill="{colour}"/>'
          for index, colour in enumerate(("#ff5f57", "#febc2e", "#28c840"))),
        f'<svg x="{_EDGE_PX}" y="{_BAR_PX}" width="{width_px - 2 * _EDGE_PX}" height="{height}"><g id="film">',
        *strip,
        "</g></svg>",
        "</svg>",
        "",
    ])  # fmt: skip


def _rows(text: str) -> tuple[Text, ...]:
    rows = [Text.from_ansi(line) for line in text.split("\n")]
    for row in rows:
        row.rstrip()
    while rows and not rows[-1].plain:
        rows.pop()
    return tuple(rows[:ROWS])


def _line(row: Text, colours: dict[str, str]) -> str:
    """The row as texts of one style each; "" for an empty one. New styles get a name in `colours`."""
    parts, column = [], 0
    for segment in row.render(Console(file=io.StringIO(), width=10 * COLUMNS)):
        cells = cell_len(segment.text)
        if segment.text.strip():
            name = colours.setdefault(_rule(segment.style or Style()), f"c{len(colours)}")
            shown = segment.text.strip()
            first = column + cell_len(segment.text) - cell_len(segment.text.lstrip())
            words = escape(shown).replace(" ", _SPACE)
            # The length holds the columns in place, whatever font the reader has.
            length = cell_len(shown) * _CELL_PX
            place = f'x="{first * _CELL_PX:g}" y="13" textLength="{length:g}"'
            parts.append(f'<text class="{name}" {place}>{words}</text>')
        column += cells
    return "".join(parts)


def _rule(style: Style) -> str:
    theme = SVG_EXPORT_THEME
    colour = style.color.get_truecolor(theme) if style.color is not None else theme.foreground_color
    if style.dim:
        red, green, blue = (
            (_DIM_PERCENT * channel + (100 - _DIM_PERCENT) * below) // 100
            for channel, below in zip(colour, theme.background_color, strict=True)
        )
        colour = ColorTriplet(red, green, blue)
    weight = ";font-weight:bold" if style.bold else ""
    return f"fill:{colour.hex}{weight}{';font-style:italic' if style.italic else ''}"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(svg(played()), encoding="utf-8")
