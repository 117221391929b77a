"""docs/images/demo.svg shows the demo's own screens, moves by itself, stands still where that is wanted, and loads nothing."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.text import Text

from rollouts.cli.demo.film import LAST_S, Frame, frames_of, played, svg

PICTURE = Path(__file__).parents[2] / "docs" / "images" / "demo.svg"
MOST_BYTES = 300 * 1024
SENT = [
    (0.0, "\x1b[?1049h\x1b[H\x1b[1mfirst\x1b[0m   \nnext line  "),
    (2.0, "\x1b[Hsecond   \n           "),
    (2.1, "\x1b[Hthird    \n           "),
    (3.0, "\x1b[?1049l"),
    (3.0, "the table\n"),
]


def words(frames: list[Frame]) -> list[list[str]]:
    """The texts of each frame."""
    return [[row.plain for row in frame.rows] for frame in frames]


def drawn(picture: str) -> str:
    """All words of a picture."""
    return " ".join(ElementTree.fromstring(picture).itertext()).replace("\N{NO-BREAK SPACE}", " ")  # noqa: S314  our own


def test_each_screen_is_a_frame_and_what_is_left_afterwards_is_the_last() -> None:
    """A screen that comes a moment after another takes its place: nobody can read both."""
    assert words(list(frames_of(SENT))) == [["first", "next line"], ["third"], ["the table"]]


def test_without_animation_the_last_frame_is_shown() -> None:
    """Some readers want no motion, and some programs know none: they see the table with its requests sent and lost."""
    frames = list(frames_of(SENT))
    picture = svg(frames)
    last = re.search(r"100\.000%|#film\{transform:translateY\((-\d+)px\)", picture)

    assert last is not None and f"translateY({last[1]}px)" in picture.partition("#film")[0].split("}")[-3]
    assert "@media (prefers-reduced-motion:reduce){#film{animation:none}}" in picture
    assert f"play {3.0 / 1.5 + LAST_S:.2f}s step-end infinite" in picture


def test_a_frame_shows_nothing_of_the_next_one() -> None:
    """Letters and blocks reach over their line; a browser showed the upper edge of the next frame's bar in the last line."""
    frames = [Frame(0.0, (Text("█"),)), Frame(1.0, (Text("▒"),))]
    steps = [int(each) for each in re.findall(r"translateY\(-(\d+)px\)\}", svg(frames))]

    height = re.search(r'<svg x="\d+" y="\d+" width="\d+" height="(\d+)"', svg(frames))
    assert height is not None
    assert steps[1] - steps[0] >= int(height[1]) + 10


def test_the_picture_in_the_readme_is_small_and_loads_nothing() -> None:
    """It comes with every visit, and GitHub shows no picture that loads something."""
    text = PICTURE.read_text(encoding="utf-8")

    assert len(text.encode()) <= MOST_BYTES
    assert not re.search(r"url\(|@import|<script|<image|href=\"[^#]", text)


@pytest.mark.long
def test_the_picture_shows_the_demo_as_it_is() -> None:
    """`make docs` draws it again. Pods may start in another order, so what is said is compared, and not every count."""
    recorded, now = (drawn(each) for each in (PICTURE.read_text(encoding="utf-8"), svg(played())))
    said = re.compile(r"(?:promote|abort|next|new image|measured|Every)\b[^\n]{12,40}")

    assert set(said.findall(recorded)) & set(said.findall(now))
    whole = "Every outcome was as promised; no request was lost."
    for text in (whole, "install", "bad image", "5 % errors", "blue-green"):
        assert text in recorded and text in now
