"""Promise: a reader who follows a link of the project's pages arrives: the file is there, and so is the heading."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.architecture.tracked import ROOT, tracked

LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)|<(?:img|source|a)\s[^>]*?(?:src|srcset|href)=\"([^\"]+)\"")
PAGE = re.compile(
    r"(?<![\w./-])(?:docs/[\w./-]+\.(?:md|svg)|(?:ARCHITECTURE|CHANGELOG|CONTRIBUTING|README|SECURITY)\.md)"
)
SUFFIXES = {".py", ".toml", ".yaml", ".tpl"}


def _prose(page: Path) -> str:
    """The page without its code: brackets mean something else there."""
    text = re.sub(r"^( *)(```|~~~).*?^\1\2", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`\n]*`", "", text)


def _anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, made as GitHub makes them."""
    text = re.sub(r"^(```|~~~).*?^\1", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    seen: Counter[str] = Counter()
    anchors = set()
    for heading in re.findall(r"^#{1,6} +(.+?) *#*$", text, flags=re.MULTILINE):
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")
        anchors.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return anchors


def _broken(page: Path) -> list[str]:
    """Links of one page that lead nowhere."""
    broken = []
    for found in LINK.finditer(_prose(page)):
        link = found.group(1) or found.group(2)
        if re.match(r"[a-z][a-z+.-]*:", link):
            continue
        path, _, anchor = unquote(link).partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in _anchors(target)):
            broken.append(link)
    return broken


PAGES = [path for path in tracked() if path.suffix == ".md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    """A page that was moved or split takes its readers along; a heading that is reworded does, too."""
    assert _broken(page) == []


def test_pages_that_code_and_settings_name_are_there() -> None:
    """A comment, a help text or a value of the chart that sends people to a page sends them somewhere."""
    named = {
        (page, str(path.relative_to(ROOT)))
        for path in tracked()
        if path.suffix in SUFFIXES or path.name in {"Makefile", "Dockerfile"}
        for page in PAGE.findall(path.read_text(encoding="utf-8"))
    }

    missing = sorted(name for name in named if not (ROOT / name[0]).exists())

    assert missing == []
    assert named


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_modules_and_tests_that_a_page_names_are_there(page: Path) -> None:
    """A reader of ARCHITECTURE.md goes from its table to the file; `core/decide.py` is short for `rollouts/core/decide.py`."""
    named = re.findall(r"`((?:[\w-]+/)+[\w-]+\.py|(?:tests|helm|examples)/[\w./-]+)`", page.read_text(encoding="utf-8"))

    missing = [name for name in named if not (ROOT / name).exists() and not (ROOT / "rollouts" / name).exists()]

    assert missing == []


def test_names_that_the_tables_of_changes_find_in_a_module_are_in_it() -> None:
    """A function that moves leaves its line in "Where a change goes" behind, and the module that it left is still there."""
    text = (ROOT / "docs/changes.md").read_text(encoding="utf-8")
    before = re.findall(r"((?:`\w+`(?:, | and | or )?)+) in `([\w./-]+\.py)`", text)
    after = [(names, path) for path, names in re.findall(r"`([\w./-]+\.py)` \(((?:`\w+`(?:, | and )?)+)[:);,]", text)]
    places = [(name, path) for names, path in before + after for name in re.findall(r"`(\w+)`", names)]

    gone = [
        (name, path)
        for name, path in places
        if not any(
            file.exists() and re.search(rf"\b{name}\b", file.read_text(encoding="utf-8"))
            for file in (ROOT / path, ROOT / "rollouts" / path)
        )
    ]

    assert gone == []
    assert len(places) > 30
