"""Promise: `make site` makes a site of all pages; every link leads somewhere, and a page asks no other server for anything."""

from __future__ import annotations

import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree

import pytest

from tests.architecture.tracked import ROOT, tracked
from tests.packaging.site import NAVIGATION, build, stage

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
    written = {path.relative_to(ROOT).as_posix() for path in tracked(new=False) if path.suffix == ".md"}
    wanted = {page for page in written if not page.startswith("docs/decisions/0")} - {"README.md"} | {"index.md"}

    assert _pages() == wanted


def test_every_page_is_built_and_fetches_nothing_from_others(site: Path) -> None:
    """A reader behind a firewall sees the same page; nobody else learns who reads it."""
    built = sorted(site.rglob("*.html"))

    assert len(built) > len(_pages())
    assert {host for page in built for host in FETCHED.findall(page.read_text())} == set()


def test_notes_that_are_not_in_git_are_no_pages(tmp_path: Path) -> None:
    """Somebody keeps notes in the checkout, with links that lead nowhere: the site is built without them."""
    checkout = tmp_path / "checkout"
    subprocess.run(["git", "init", "-q", str(checkout)], check=True)
    (checkout / "README.md").write_text("# Rollouts\n")
    subprocess.run(["git", "add", "README.md"], cwd=checkout, check=True)
    (checkout / "notes.md").write_text("[gone](gone.md)\n")

    stage(tmp_path / "pages", checkout)

    assert [page.name for page in (tmp_path / "pages").rglob("*.md")] == ["index.md"]


@pytest.mark.parametrize(
    ("what", "unwanted"),
    [
        ("a link that shows the name of a page's file", r">(?:[\w.-]+/)*[\w-]+\.md</a>"),
        (
            "code with a backslash before a bar, which fails when it is copied",
            r"<td[^>]*>(?:(?!</td>).)*<code>[^<]*\\\|",
        ),
        ("a number that can stand on another line than its %", r"<p>(?:(?!</p>|<code).)*\d %"),
        ("code in a table that breaks after a hyphen", r"<td[^>]*>(?:(?!</td>).)*<code>(?:[^<]* )?[^< ]*-[^<]*</code>"),
    ],
    ids=lambda value: value.split()[0] if value.startswith(("a ", "code")) else "",
)
def test_a_page_reads_as_its_author_meant_it(site: Path, what: str, unwanted: str) -> None:
    """Markdown that is read in an editor and Markdown that is read in a browser differ in a few places."""
    found = [
        f"{page.relative_to(site)}: {hit[0][-80:]}"
        for page in site.rglob("*.html")
        for hit in re.finditer(unwanted, page.read_text())
    ]

    assert found == [], what


def test_lists_count_on_after_a_block() -> None:
    """The site's Markdown takes only four spaces for a part of an item. After less, and after a paragraph, it begins again."""
    blocks = re.compile(r"^( *)```.*?^\1```", re.MULTILINE | re.DOTALL)
    wrong = re.compile(r"^ {1,3}(?:```|<!--|[-*] )|\n\n    [^-*\n ].*(?:\n    .*)*\n\d+\. ", re.MULTILINE)
    pages = {path: blocks.sub(r"\1```", path.read_text()) for path in tracked(new=False) if path.suffix == ".md"}

    assert [path.name for path, text in pages.items() if wrong.search(text)] == []


class _Page(HTMLParser):
    """What a page leads to, and the places in it that others lead to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.leads_to: set[str] = set()
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002 - HTMLParser calls it
        """Notes links, pictures, styles, scripts and places."""
        for name, value in attrs:
            if value and name in ("href", "src"):
                self.leads_to.add(value)
            elif value and name in ("id", "name"):
                self.places.add(value)


def test_no_link_of_the_site_is_broken_and_no_picture_is_missing(site: Path) -> None:
    """In the pages as browsers get them, with the menu and the styles: also where the site stands in a folder of a server."""
    pages = {path: _Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html") if path.name != "404.html"}
    broken = []
    for path, page in pages.items():
        for link in page.leads_to:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            lost = target in pages and parts.fragment and unquote(parts.fragment) not in pages[target].places
            if not target.is_file() or lost:
                broken.append(f"{path.relative_to(site)}: {link}")

    assert broken == []
    assert any(link.endswith("images/demo.svg") for page in pages.values() for link in page.leads_to)


def test_every_picture_of_the_docs_can_be_drawn() -> None:
    """A browser shows nothing of an SVG that is no XML, or that has no size of its own."""
    for picture in (ROOT / "docs" / "images").glob("*.svg"):
        drawing = ElementTree.parse(picture).getroot()  # noqa: S314 - our own

        assert drawing.tag == "{http://www.w3.org/2000/svg}svg", picture
        assert drawing.get("viewBox"), picture
