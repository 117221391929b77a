"""Pictures of the dashboard for the docs, taken while tests drive it: build/pictures/NAME-light.png and NAME-dark.png.

docs/images/dashboard has copies of those that docs/dashboard.md shows.
"""

from __future__ import annotations

from playwright.async_api import Page

from tests.e2e.controllers import ROOT

FOLDER = ROOT / "build" / "pictures"
_WIDTH, _HEIGHT = 1_120, 420


async def pictured(page: Page, name: str) -> None:
    """Takes the page as it is, in both themes, as high as it is."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    await page.set_viewport_size({"width": _WIDTH, "height": _HEIGHT})
    for scheme in ("light", "dark"):
        await page.emulate_media(color_scheme=scheme)
        await page.screenshot(path=FOLDER / f"{name}-{scheme}.png", full_page=True)
