"""The blocks of code in the project's pages, and what each says about who runs it.

A comment right before a block, which readers of the page do not see, names the test that runs it (`run by: tests/…`), or says why
none does (`not run: needs a container engine`). YAML needs no comment: `test_manifests_of_pages_are_taken.py` reads all of it.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.architecture.tracked import ROOT, tracked

_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)$")
_MARK = re.compile(r"^ *<!-- (?P<kind>run by|not run): (?P<what>.+?) -->$")
_PROMPT = "$ "


@dataclass(frozen=True)
class Exchange:
    """One command, and what the page says that it prints ("" when it shows nothing)."""

    command: str
    shown: str


@dataclass(frozen=True)
class Block:
    """One block of a page."""

    page: str  # relative to the project, such as `docs/cli.md`
    line: int  # of its first fence, from 1
    language: str  # as the fence names it, "" for none
    text: str  # without the fences and without the block's indentation
    run_by: str = ""  # path of the test that runs it, "" when the page names none
    why_not: str = ""  # why no test runs it, "" when one does

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def exchanges(self) -> tuple[Exchange, ...]:
        """What is typed, one command after the other; without prompts (`$`) all of the text is one command."""
        if not self.text.startswith(_PROMPT):
            return (Exchange(command=self.text, shown=""),)
        parts = re.split(r"^\$ ", self.text, flags=re.MULTILINE)[1:]
        return tuple(Exchange(command=first, shown=rest) for first, _, rest in (part.partition("\n") for part in parts))


def blocks_of(page: Path) -> tuple[Block, ...]:
    """All blocks of one page, in their order."""
    lines = page.read_text(encoding="utf-8").splitlines()
    return tuple(_blocks(str(page.relative_to(ROOT)), lines))


@cache
def all_blocks() -> tuple[Block, ...]:
    """Those of every page of the project."""
    return tuple(block for page in sorted(tracked()) if page.suffix == ".md" for block in blocks_of(page))


def run_by(test: str) -> tuple[Block, ...]:
    """The blocks that name a test (its `__file__`) as the one that runs them."""
    path = str(Path(test).relative_to(ROOT))
    return tuple(block for block in all_blocks() if block.run_by == path)


def _blocks(page: str, lines: list[str]) -> Iterator[Block]:
    number = 0
    while number < len(lines):
        opened = _FENCE.match(lines[number])
        if not opened:
            number += 1
            continue
        end = lines.index(f"{opened['indent']}```", number + 1)
        mark = _MARK.match(lines[number - 1]) if number else None
        yield Block(
            page=page,
            line=number + 1,
            language=opened["language"],
            text=textwrap.dedent("\n".join(lines[number + 1 : end]) + "\n"),
            run_by=mark["what"] if mark and mark["kind"] == "run by" else "",
            why_not=mark["what"] if mark and mark["kind"] == "not run" else "",
        )
        number = end + 1
