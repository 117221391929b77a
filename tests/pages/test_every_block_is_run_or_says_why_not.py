"""Promise: each block of a page is run by a test, or the page says why none can run it."""

from __future__ import annotations

import re

import pytest

from tests.architecture.tracked import ROOT
from tests.pages.blocks import Block, all_blocks, blocks_of
from tests.pages.test_manifests_of_pages_are_taken import BLOCKS as TAKEN

FOLLOWED = "docs/getting-started.md"
"""Followed word for word, in its order, by tests/e2e/test_the_pages_that_people_follow.py."""


@pytest.mark.parametrize(
    "block", [each for each in all_blocks() if each not in TAKEN and each.page != FOLLOWED], ids=str
)
def test_a_block_names_its_test_or_its_reason(block: Block) -> None:
    """A command that nobody has run since it was written is wrong one day. The test that runs a block reads the page."""
    assert bool(block.run_by) != bool(block.why_not), (
        "put `<!-- run by: tests/… -->` or `<!-- not run: the reason -->` on the line before the block"
    )
    if block.run_by:
        test = ROOT / block.run_by
        assert test.is_file() and test.name.startswith("test_")
        read = block.page.rpartition("/")[2]
        assert read in test.read_text() or "tests.pages.blocks" in test.read_text(), f"it does not read {block.page}"


def test_code_is_in_fences() -> None:
    """Code that is only indented has no place for a mark, and no test finds it."""
    pages = sorted({each.page for each in all_blocks()})
    indented = re.compile(r"(?:^|\n)(?![ *|-]|\d+\.)[^\n]+\n\n    \S")

    found = [
        page for page in pages if indented.search(re.sub(r"```.*?```", "", (ROOT / page).read_text(), flags=re.DOTALL))
    ]

    assert found == []


def test_all_blocks_of_a_page_are_found() -> None:
    """A fence that is written in another way would be a block without a mark."""
    for page in sorted({each.page for each in all_blocks()}):
        fences = len(re.findall(r"^ *(?:```|~~~)", (ROOT / page).read_text(), re.MULTILINE))
        assert len(blocks_of(ROOT / page)) * 2 == fences, page
