"""Promise: in a real browser behind a reverse proxy, pages stay live while the proxy vouches, and follow the identity."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from urllib.parse import urlsplit

import aiohttp
import pytest
from aiohttp import web
from playwright.async_api import expect

from rollouts.cli.dashboard import sessions
from rollouts.cli.view import giving
from rollouts.objects import ROLLOUT
from tests.cli.runs import Served
from tests.cli.tenants import PROXY_SECRET, proxied_dashboard
from tests.cli.test_people_sign_in_to_the_dashboard import shared, until
from tests.cli.test_the_dashboard_behind_a_proxy import ALICE, BOB, MEMBERS, READERS, RELEASERS, RULES
from tests.cli.test_the_dashboard_in_a_browser import CHROMIUM, chromium, opened, page_with
from tests.cli.test_the_dashboard_shows_and_acts import annotations_of

pytestmark = [
    pytest.mark.browser,
    pytest.mark.long,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed"),
]
SAID = """() => {
  window.said = [];
  const live = document.getElementById("live");
  new MutationObserver(() => window.said.push(live.textContent)).observe(live, { childList: true, characterData: true });
}"""
"""Notes what the page says about its live updates."""


@dataclass
class ReverseProxy:
    """A proxy that knows the one person who is signed in, and sends everybody else to the company's way in."""

    dashboard: str
    way_in: str
    client: aiohttp.ClientSession
    user: str = ALICE
    groups: str = RELEASERS
    streams: int = 0

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Passes a request on, with what it knows of the person in the place of what the browser says."""
        if not self.user:
            raise web.HTTPFound(self.way_in)
        self.streams += request.path.endswith("/events")
        said = {
            "X-Rollouts-Proxy-Secret": PROXY_SECRET,
            "X-Forwarded-User": self.user,
            "X-Forwarded-Groups": self.groups,
        }
        headers = {**request.headers, **said}
        async with self.client.request(
            request.method,
            self.dashboard + request.path_qs,
            headers=headers,
            data=await request.read(),
            allow_redirects=False,
        ) as found:
            answer = web.StreamResponse(status=found.status)
            for name, value in found.headers.items():
                if name.lower() not in ("transfer-encoding", "connection", "date", "server"):
                    answer.headers.add(name, value)
            with contextlib.suppress(ConnectionError):  # the browser has gone
                await answer.prepare(request)
                async for piece in found.content.iter_any():
                    await answer.write(piece)
        return answer


@contextlib.asynccontextmanager
async def behind_proxy(dashboard: str, way_in: str) -> AsyncIterator[tuple[ReverseProxy, str]]:
    """The proxy, and its address for browsers."""
    app = web.Application()
    async with aiohttp.ClientSession(auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar()) as client:
        proxy = ReverseProxy(dashboard, way_in, client)
        app.router.add_route("*", "/{path:.*}", proxy.answer)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            yield proxy, f"http://localhost:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()


async def test_a_page_stays_live_and_shows_whoever_the_proxy_names(
    there: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One person promotes, another one takes the browser over, and the proxy then knows nobody any more."""
    monkeypatch.setattr(giving, "RECORDED_WITHIN_S", 0.05)
    monkeypatch.setattr(sessions, "STREAMS_LAST_S", 0.5)
    await shared(there)
    async with (
        chromium() as browser,
        proxied_dashboard(there, MEMBERS, RULES) as served,
        page_with("<h1>Sign in to the company</h1>") as way_in,
        behind_proxy(served.url, way_in) as (proxy, origin),
    ):
        page = await opened(await browser.new_context(), f"{origin}/r/default/cart", [])
        await expect(page).to_have_title("Paused: cart")
        await expect(page.get_by_text(ALICE)).to_be_visible()
        await expect(page.get_by_role("status")).to_have_text("live")
        await page.evaluate(SAID)
        before = proxy.streams
        await until(lambda: proxy.streams > before + 2)
        await there.put_status(ROLLOUT, "cart", {"phase": "Degraded"})
        await expect(page).to_have_title("Degraded: cart")
        assert await page.evaluate("window.said") == []

        await page.goto(f"{origin}/r/default/cart/pause")
        await page.get_by_role("button", name="Pause").click()
        await expect(page.get_by_text("no controller has recorded the command")).to_be_visible()
        (session,) = served.sessions.open
        assert session.name == ALICE

        proxy.user, proxy.groups = BOB, READERS
        await expect(page.get_by_text(BOB)).to_be_visible()
        await expect(page.get_by_text(ALICE)).to_have_count(0)
        await expect(page.get_by_text("You may not patch rollouts in namespace default")).to_be_visible()
        assert [each.name for each in served.sessions.open] == [BOB]

        proxy.user = ""
        await expect(page.get_by_role("heading", name="Sign in to the company")).to_be_visible()
        assert urlsplit(page.url).netloc == urlsplit(way_in).netloc

    assert set(await annotations_of(there)) == {"rollouts.dev/pause"}
