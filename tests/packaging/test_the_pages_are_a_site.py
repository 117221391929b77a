"""Promise: `make site` makes a site of all pages; every link leads somewhere, and a page asks no other server for anything."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.architecture.tracked import ROOT, tracked
from tests.packaging.site import NAVIGATION, build

FETCHED = re.compile(r"<(?:script|img|link|iframe)\b[^>]*?\b(?:src|href)=[\"']?(?:https?:)?//([^\"'/ >]+)")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built by the program that `make site` runs."""
    folder = tmp_path_factory.mktemp("pages")
    done = build(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site"


def _pages() -> set[str]:
    return {page for part in NAVIGATION.values() for page in part.values()}


def test_every_page_can_be_reached_from_the_menu() -> None:
    """A page that nobody finds is not there; the decisions are listed on a page of their own."""
    written = {path.relative_to(ROOT).as_posix() for path in tracked() if path.suffix == ".md"}
    wanted = {page for page in written if not page.startswith("docs/decisions/0")} - {"README.md"} | {"index.md"}

    assert _pages() == wanted


def test_every_page_is_built_and_fetches_nothing_from_others(site: Path) -> None:
    """A reader behind a firewall sees the same page; nobody else learns who reads it."""
    built = sorted(site.rglob("*.html"))

    assert len(built) > len(_pages())
    assert {host for page in built for host in FETCHED.findall(page.read_text())} == set()
