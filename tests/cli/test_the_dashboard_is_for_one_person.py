"""Promise: the dashboard acts with one person's rights, so nobody and no page but their own gets an answer from it."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from rollouts.cli.dashboard.app import serving
from rollouts.cli.dashboard.hub import STREAMS_MAX
from rollouts.objects import ROLLOUT
from tests.cli.command_line import CommandLine
from tests.cli.dashboards import Visitor, dashboard, session_of, until_page
from tests.cli.runs import Served, install, rollout

HOSTILE = 'a"><img src=x onerror=alert(1)> \x1b[31mred \u202egpj.exe \u0085 {{7*7}} </script><script>alert(2)</script>'


@pytest.mark.parametrize("address", ["10.0.0.1", "::", "example.org"])
def test_it_listens_on_this_machine_alone(typed: CommandLine, address: str) -> None:
    """Whoever reaches it acts with the rights of whoever started it, as it is with `kubectl proxy`."""
    said = typed("dashboard", "--address", address, code=2)

    assert ("acts with your rights" in said.error) is (address != "example.org")


async def test_the_key_is_exchanged_once_for_a_cookie(there: Served) -> None:
    """The address that was printed stays in histories and logs of terminals: it must be good for nothing afterwards."""
    async with serving(session_of(there), namespace=None, address="127.0.0.1", port=0) as url:
        visitor, address = Visitor(url), urlsplit(url)
        assert (await visitor.get("/")).status == 401
        assert (await visitor.get("/login?key=wrong")).status == 403

        answer = await visitor.log_in()

        assert (answer.status, answer.headers["location"]) == (303, "/")
        cookie = answer.headers["set-cookie"]
        assert cookie.startswith(f"rollouts-dashboard-{address.port}=")
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert len(address.query.removeprefix("key=")) == 43  # 256 bits in base64
        assert (await visitor.get("/")).status == 200
        assert (await visitor.get(f"{address.path}?{address.query}")).status == 403


async def test_a_page_elsewhere_reads_and_does_nothing(there: Served) -> None:
    """Names that point to this machine, other ports of it, forms of others: each is refused before anything is read."""
    await install(there)
    async with dashboard(there) as visitor, dashboard(there) as other:
        port, form = urlsplit(visitor.url).port, await visitor.form("/r/default/cart/promote")
        others = (await other.form("/r/default/cart/promote"))["form"]
        before = len(there.door.asked)
        own = f"http://{visitor.host}"
        reads: list[tuple[int, dict[str, str]]] = [
            (421, {"Host": "rebound.example"}),
            (421, {"Host": f"rebound.example:{port}"}),
            (421, {"Host": "127.0.0.1"}),
            (401, {"Cookie": other.cookie}),
            (401, {"Cookie": visitor.cookie.partition("=")[0] + "=" + other.cookie.partition("=")[2]}),
            (403, {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"}),  # another port of this machine
            (403, {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}),
        ]
        for status, headers in reads:
            for path in ("/", "/events", "/r/default/cart", "/static/live.js"):
                answer = await visitor.get(path, **headers)
                assert (answer.status, "cart" in answer.body) == (status, False), (path, headers)
        writes: list[tuple[int, dict[str, str], dict[str, str]]] = [
            (403, form, {"Origin": "https://evil.example"}),
            (403, form, {"Origin": "null"}),
            (403, form, {"Origin": ""}),
            (403, form, {"Origin": f"http://127.0.0.1:{(port or 0) + 1}"}),
            (403, form, {"Origin": own, "Sec-Fetch-Site": "cross-site"}),
            (403, form | {"form": "guessed"}, {}),
            (403, form | {"form": others}, {}),
            (401, form, {"Cookie": ""}),
            (421, form, {"Host": f"rebound.example:{port}", "Origin": f"http://rebound.example:{port}"}),
        ]
        for status, fields, headers in writes:
            assert (await visitor.post("/r/default/cart/promote", fields, **headers)).status == status, headers
        assert len(there.door.asked) == before
        assert (
            await visitor.get("/r/default/cart/promote?form=" + form["form"])
        ).status == 200  # asks, and does nothing

    posted = {each.path.rpartition("/")[2] for each in there.door.asked if each.method != "GET"}
    assert posted <= {"selfsubjectaccessreviews"}  # a question about rights, which changes nothing
    assert not (await there.object(ROLLOUT, "cart"))["metadata"].get("annotations")


@pytest.mark.parametrize(
    "path",
    [
        "/static/../guard.py",
        "/static/%2e%2e%2fguard.py",
        "/static/..%5cguard.py",
        "/static//etc/passwd",
        "/r/default/..",
        "/r/default/%2e%2e%2fsecrets",
        "/r/default%2fsecrets/cart",
        "/r/default/cart/delete",
        "/r/default/UPPER",
        f"/r/default/{'a' * 300}",
        "/api/v1/namespaces/default/secrets",
    ],
)
async def test_only_pages_and_files_that_there_are_have_an_address(there: Served, path: str) -> None:
    """No part of an address becomes a path of a file, or of the API server."""
    async with dashboard(there) as visitor:
        answer = await visitor.get(path)

    assert answer.status == 404
    assert "There is no such page" in answer.body


async def test_what_tenants_wrote_is_text(there: Served) -> None:
    """A message in a status is written by whoever may write the object, and is read by somebody who may promote."""
    hostile = rollout(
        message=HOSTILE, waitingFor={"reason": "Hostile", "message": HOSTILE, "since": "2026-11-21T10:00:00Z"}
    )
    hostile["spec"]["template"]["spec"]["containers"][0]["image"] = 'x"><script>alert(3)</script>'
    await there.create(ROLLOUT, hostile)
    async with dashboard(there) as visitor:
        pages = [
            await visitor.get(path) for path in ("/?q=%22%3E%3Cscript%3E", "/r/default/cart", "/r/default/cart/abort")
        ]
        async with visitor.stream("/r/default/cart/events") as stream:
            event = await until_page(stream, "onerror")

    assert pages[1].status == 200
    assert "onerror" in pages[1].body
    for text in (*(page.body for page in pages), event):
        assert "<img" not in text
        assert "<script>" not in text
        assert not set(text) & set("\x1b\u202e\u0085")


async def test_every_answer_forbids_what_it_does_not_need(there: Served) -> None:
    """Refusals and files too: the first answer without a policy is where somebody begins."""
    async with dashboard(there) as visitor:
        answers = [await visitor.get(path) for path in ("/", "/static/live.js", "/nothing", "/r/default/none")]
        answers.append(await visitor.get("/", Cookie=""))

        for answer in answers:
            policy = answer.headers["content-security-policy"]
            assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
            assert "unsafe" not in policy
            assert answer.headers["cache-control"] == "no-store"
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["referrer-policy"] == "same-origin"
            assert not [name for name in answer.headers if name.startswith("access-control")]


async def test_live_updates_have_a_bound_that_is_told(there: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is beyond it says so, and the pages themselves still work."""
    assert STREAMS_MAX >= 20
    monkeypatch.setattr("rollouts.cli.dashboard.hub.STREAMS_MAX", 1)
    async with dashboard(there) as visitor, visitor.stream("/events") as first:
        await until_page(first, "0 Rollouts")
        async with visitor.stream("/events") as second:
            assert "1 of your pages are open, which is the most" in await until_page(second, "event: full")

        assert (await visitor.get("/")).status == 200
