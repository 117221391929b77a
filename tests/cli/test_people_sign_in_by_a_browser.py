"""Promise: signing in works in a real browser: by link, by keyboard, in both themes and all widths, and its end is shown."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from playwright.async_api import Page, expect

from rollouts.cli.dashboard import sessions
from rollouts.cli.view import giving
from tests.cli.runs import Served
from tests.cli.tenants import PeoplesDashboard, peoples_dashboard, token_of
from tests.cli.test_people_sign_in_to_the_dashboard import ADMIN, PEOPLE, READER, RELEASER, shared
from tests.cli.test_the_dashboard_in_a_browser import (
    CHROMIUM,
    assert_readable,
    chromium,
    opened,
    page_with,
)
from tests.cli.test_the_dashboard_shows_and_acts import annotations_of
from tests.cluster.tables import HandClock

pytestmark = [
    pytest.mark.browser,
    pytest.mark.long,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed"),
]


async def sign_in(page: Page, token: str) -> None:
    """As somebody who pastes it, and looks at the answer."""
    await page.get_by_label("Bearer token of the cluster").fill(token)
    async with page.expect_navigation():
        await page.keyboard.press("Enter")


def by_name(served: PeoplesDashboard) -> str:
    """The dashboard at another host than pages of others are at."""
    return f"http://localhost:{urlsplit(served.url).port}"


async def test_somebody_signs_in_promotes_and_signs_out(there: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a link to a Rollout, which is what they see next; a link in a chat finds them signed in."""
    monkeypatch.setattr(giving, "RECORDED_WITHIN_S", 0.05)
    await shared(there)
    wrong: list[str] = []
    async with chromium() as browser, peoples_dashboard(there, PEOPLE) as served:
        origin = by_name(served)
        page = await opened(await browser.new_context(), f"{origin}/r/default/cart", wrong)
        await sign_in(page, "no.such.token")
        await expect(page.get_by_role("heading", name="does not accept this token")).to_be_visible()
        assert "no.such.token" not in await page.content()
        await sign_in(page, RELEASER)
        await expect(page).to_have_title("Paused: cart")
        assert page.url == f"{origin}/r/default/cart"
        await expect(page.get_by_text("system:serviceaccount:default:releaser")).to_be_visible()

        async with page_with(f'<a href="{origin}/r/default/cart/promote">see this</a>') as chat:
            await page.goto(chat)
            await page.get_by_role("link", name="see this").click()
            await expect(page.get_by_role("heading", name="Promote cart?")).to_be_visible()
        await page.get_by_role("button", name="Promote").click()
        await expect(page.get_by_text("no controller has recorded the command")).to_be_visible()
        await page.get_by_role("button", name="Sign out").click()
        await expect(page.get_by_role("heading", name="You are signed out.")).to_be_visible()
        await page.goto(f"{origin}/")
        await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()

    assert await annotations_of(there) == {"rollouts.dev/promote": "newrev@1"}
    assert [text for text in wrong if "401" not in text and "404" not in text] == []  # of the chat: it has no icon


async def test_everybody_can_read_the_way_in(there: Served) -> None:
    """axe finds nothing on the pages to sign in and on one with somebody in its head, and nothing is too wide."""
    await shared(there)
    wrong: list[str] = []
    async with chromium() as browser, peoples_dashboard(there, PEOPLE, "http://plain.example") as served:
        origin = by_name(served)
        context = await browser.new_context()
        page = await opened(context, f"{origin}/login", wrong)

        await assert_readable(page, "the way in")
        await sign_in(page, "wrong")
        await assert_readable(page, "a refusal")
        await sign_in(page, RELEASER)
        await assert_readable(page, "a list of one namespace")
        await page.get_by_label("Namespace", exact=True).fill("other")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name="0 Rollouts")).to_have_count(0)
        await expect(page.get_by_text("You may not list rollouts in namespace other")).to_be_visible()
        await assert_readable(page, "a list that is refused")
        await page.get_by_role("link", name="Experiments", exact=True).click()
        await expect(page.get_by_text("You may not list experiments in namespace other")).to_be_visible()
        await assert_readable(page, "a list of Experiments that is refused")
        await context.clear_cookies()
        await page.goto(f"{origin}/r/default/cart")
        await sign_in(page, READER)
        for path in ("/r/default/cart", "/r/default/cart/promote"):
            await page.goto(f"{origin}{path}")
            await expect(page.get_by_text("You may not patch rollouts in namespace default")).to_be_visible()
            await assert_readable(page, f"locked buttons of {path}")
        await page.goto(f"{origin}/r/other/web")
        await assert_readable(page, "a Rollout that is refused")

    assert [text for text in wrong if "401" not in text and "403" not in text] == []


async def test_an_open_page_goes_to_the_way_in_when_its_session_is_over(
    there: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the token, and with a restart of the dashboard: nothing old stays on the screen, and the reason is there."""
    monkeypatch.setattr(sessions, "LOOKED_AFTER_EVERY_S", 0.05)
    await shared(there)
    clock = HandClock()
    brief = token_of("brief", expires_s=600.0)
    async with chromium() as browser:
        page_of = await browser.new_context()
        async with peoples_dashboard(there, {brief: PEOPLE[ADMIN], ADMIN: PEOPLE[ADMIN]}, clock=clock) as served:
            port = urlsplit(served.url).port
            page = await opened(page_of, f"{served.url}/r/default/cart", [])
            await sign_in(page, brief)
            await expect(page.get_by_role("status")).to_have_text("live")
            clock.at_s = 600.0
            over = page.get_by_role("heading", name="Your token has expired")
            await expect(over).to_be_visible()  # a browser waits before it asks again
            await expect(page.get_by_text("waiting for promotion")).to_have_count(0)
            await sign_in(page, ADMIN)
            await expect(page).to_have_title("Paused: cart")
            await expect(page.get_by_role("status")).to_have_text("live")
        async with peoples_dashboard(there, PEOPLE, port=port or 0):
            over = page.get_by_role("heading", name="the dashboard was started again")
            await expect(over).to_be_visible()  # a browser waits before it asks again
            await sign_in(page, ADMIN)
            await expect(page).to_have_title("Paused: cart")
