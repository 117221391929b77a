"""Promise: at a dashboard for many, each sees and does what their own token may, until it ends, and is told when it has."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from rollouts.cli.dashboard import sessions
from rollouts.cli.view import giving
from rollouts.objects import ROLLOUT
from tests.cli.command_line import CommandLine
from tests.cli.dashboards import until_page
from tests.cli.runs import Served, install
from tests.cli.tenants import EVERYWHERE, PeoplesDashboard, Tenant, peoples_dashboard, token_of
from tests.cli.test_the_dashboard_shows_and_acts import PAUSED, PROMOTE, annotations_of
from tests.cluster.tables import HandClock
from tests.patience import PATIENCE_S

ADMIN, RELEASER, READER, STRANGER = (token_of(name) for name in ("admin", "releaser", "reader", "stranger"))
DEFAULT, ALL = frozenset({"default"}), frozenset({EVERYWHERE})
PEOPLE = {
    ADMIN: Tenant("admin@example.com", ALL, ALL),
    RELEASER: Tenant("system:serviceaccount:default:releaser", DEFAULT, DEFAULT),
    READER: Tenant("reader@example.com", DEFAULT),
    STRANGER: Tenant("system:serviceaccount:other:stranger", frozenset({"other"})),
}


async def shared(there: Served) -> None:
    """A canary that waits for a promotion, in the namespace default."""
    await install(there)
    await there.put_status(ROLLOUT, "cart", PAUSED)


async def until(holds: Callable[[], bool]) -> None:
    """Waits for what tasks of this loop do."""
    async with asyncio.timeout(PATIENCE_S):
        while not holds():  # noqa: ASYNC110 - nothing tells it
            await asyncio.sleep(0)


async def test_the_token_is_changed_for_a_cookie_and_the_page_that_was_asked_for(there: Served) -> None:
    """A link to a Rollout leads to it, by way of the page to sign in; the token is in no answer."""
    await shared(there)
    async with peoples_dashboard(there, PEOPLE) as served:
        guest = served.guest()
        asked = await guest.get("/r/default/cart?told=x")
        assert (asked.status, "<h1>Sign in</h1>" in asked.body) == (401, True)
        assert 'value="/r/default/cart?told=x"' in asked.body
        assert "cart</h1>" not in asked.body

        answer = await guest.sign_in(f"  Bearer {ADMIN}\n", back="/r/default/cart?told=x")

        assert (answer.status, answer.headers["location"]) == (303, "/r/default/cart?told=x")
        cookie = answer.headers["set-cookie"]
        assert cookie.startswith(f"rollouts-session-{guest.host.partition(':')[2]}=")
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        pages = [answer, *[await guest.get(path) for path in ("/", "/r/default/cart", PROMOTE)]]
        assert [page.status for page in pages] == [303, 200, 200, 200]
        assert "admin@example.com" in pages[1].body
        assert not [page for page in pages if ADMIN in str(page)]


async def test_behind_tls_the_cookie_is_for_one_host_alone(there: Served) -> None:
    """`__Host-` is what browsers take from no other host, port or path, and never without TLS."""
    async with peoples_dashboard(there, PEOPLE, "rollouts.example.com") as served:
        guest = served.guest()
        headers = {"Host": "rollouts.example.com", "Origin": "https://rollouts.example.com"}
        answer = await guest.sign_in(ADMIN, **headers)
        page = await guest.get("/", Host="rollouts.example.com")
        elsewhere = await guest.get("/")

    assert answer.headers["set-cookie"].startswith("__Host-rollouts=")
    assert "Secure" in answer.headers["set-cookie"]
    assert (page.status, elsewhere.status) == (200, 401)


@pytest.mark.parametrize(
    ("token", "status", "said"),
    [
        ("", 400, "no bearer token"),
        ("nothing", 401, "does not accept this token"),
        ("Basic YTpi", 400, "no bearer token"),
        ("a\r\nX-Evil: 1", 400, "no bearer token"),
        ("ü", 400, "no bearer token"),
        ("a" * 12_289, 400, "no bearer token"),
        (token_of("nobody"), 401, "does not accept this token"),
        (token_of("anonymous"), 401, "does not say whose token this is"),
    ],
)
async def test_what_is_no_token_of_the_cluster_opens_nothing(there: Served, token: str, status: int, said: str) -> None:
    """An empty header would be the anonymous user, whom some clusters let read."""
    async with peoples_dashboard(there, {token_of("anonymous"): Tenant("system:anonymous", ALL, ALL)}) as served:
        guest = served.guest()
        answer = await guest.sign_in(token)
        page = await guest.get("/")

    assert (answer.status, said in answer.body, "set-cookie" in answer.headers) == (status, True, False)
    assert page.status == 401


async def test_a_person_sees_and_does_what_their_own_token_may(there: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """One namespace or all of them, with buttons or without; and what is refused is said in a line."""
    monkeypatch.setattr(giving, "RECORDED_WITHIN_S", 0.05)
    await shared(there)
    async with peoples_dashboard(there, PEOPLE) as served:
        admin, releaser, reader, stranger = [await served.signed_in(token) for token in PEOPLE]

        assert "in all namespaces" in (await admin.get("/")).body
        assert "in namespace default" in (await releaser.get("/")).body
        assert "0 Rollouts" in (await stranger.get("/")).body
        refused = await stranger.get("/?ns=default")
        assert (refused.status, "default/cart" in refused.body) == (403, False)
        assert "You may not list rollouts in namespace default" in refused.body
        for path in ("/r/default/cart", "/r/default/cart/diff", "/r/default/cart/plan", PROMOTE):
            page = await stranger.get(path)
            assert (page.status, "newrev" in page.body) == (403, False), path
        for guest, link in ((admin, True), (releaser, True), (reader, False)):
            page = await guest.get("/r/default/cart")
            assert (page.status, f'href="{PROMOTE}"' in page.body) == (200, link)
        assert "You may not patch rollouts in namespace default" in (await reader.get("/r/default/cart")).body

        form = await reader.form(PROMOTE)
        assert (await reader.post(PROMOTE, form)).status == 403
        assert (await stranger.post(PROMOTE, form)).status == 403
        assert (await releaser.post(PROMOTE, form)).status == 403  # another's form
        assert await annotations_of(there) == {}
        assert (await releaser.post(PROMOTE, await releaser.form(PROMOTE))).status == 303

    assert await annotations_of(there) == {"rollouts.dev/promote": "newrev@1"}
    assert {who for who, each in served.tenancy.asked if each.method == "PATCH"} == {
        "system:serviceaccount:default:releaser",
        "reader@example.com",
    }
    assert "" not in {who for who, _ in served.tenancy.asked}  # nothing is asked without a person's token


def hours_pass(served: PeoplesDashboard, clock: HandClock) -> None:
    """Eight of them."""
    clock.at_s += sessions.LASTS_S


def the_token_expires(served: PeoplesDashboard, clock: HandClock) -> None:
    """The time that it says, which the API server has not been asked about yet."""
    clock.at_s += 600.0


def the_token_is_withdrawn(served: PeoplesDashboard, clock: HandClock) -> None:
    """As when its service account is deleted; an open watch goes on."""
    served.tenancy.people.clear()


@pytest.mark.parametrize(
    ("end", "said"),
    [
        (hours_pass, "a session lasts eight hours"),
        (the_token_expires, "has expired, or was withdrawn"),
        (the_token_is_withdrawn, "has expired, or was withdrawn"),
    ],
)
async def test_an_end_is_told_with_its_reason_and_ends_live_updates(
    there: Served,
    monkeypatch: pytest.MonkeyPatch,
    end: Callable[[PeoplesDashboard, HandClock], None],
    said: str,
) -> None:
    """Nothing old stays on a page that is open, and nothing is shown on one that is opened."""
    for name in ("LOOKED_AFTER_EVERY_S", "CONFIRMED_WHILE_OPEN_S"):
        monkeypatch.setattr(sessions, name, 0.02)
    await shared(there)
    clock = HandClock()
    token = token_of("admin", expires_s=600.0) if end is the_token_expires else ADMIN
    async with peoples_dashboard(there, {token: PEOPLE[ADMIN]}, clock=clock) as served:
        guest = await served.signed_in(token)
        async with guest.stream("/events") as stream:
            await until_page(stream, "1 Rollout")
            end(served, clock)
            async with asyncio.timeout(PATIENCE_S):
                while await stream.readline() != b"0\r\n":
                    pass  # until the dashboard ends it
        again = await guest.get("/events", Sec_Fetch_Site="same-origin", Sec_Fetch_Mode="cors")
        page = await guest.get("/")

    assert (page.status, again.status) == (401, 401)
    assert said in page.body
    assert said in again.body
    assert "<h1>Sign in</h1>" in page.body
    assert "default/cart" not in page.body


async def test_a_session_ends_without_a_page_that_is_open(there: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that is open with live updates is one that somebody looks at, or that hangs on a wall."""
    async with peoples_dashboard(there, PEOPLE) as served:
        guest = await served.signed_in(ADMIN)
        async with guest.stream("/events") as stream:
            await until_page(stream, "0 Rollouts")
            monkeypatch.setattr(sessions, "IDLE_S", 0.0)
            assert (await guest.get("/")).status == 200
        await until(lambda: not served.streams)
        page = await guest.get("/")

    assert (page.status, "an hour without a page that was open" in page.body) == (401, True)


async def test_after_a_restart_people_sign_in_again(there: Served) -> None:
    """Sessions are in memory alone; the page says what has happened instead of showing what is old."""
    async with peoples_dashboard(there, PEOPLE) as first:
        guest = await first.signed_in(ADMIN)
    async with peoples_dashboard(there, PEOPLE) as second:
        after = second.guest()
        # On the same port it would be the same cookie.
        after.cookie = f"rollouts-session-{after.host.partition(':')[2]}={guest.cookie.partition('=')[2]}"
        page, live = await after.get("/?q=cart"), await after.get("/events", Sec_Fetch_Mode="cors")

    assert (page.status, live.status) == (401, 401)
    assert "the dashboard was started again" in page.body
    assert 'value="/?q=cart"' in page.body


async def test_who_signs_out_is_out_everywhere_at_once(there: Served) -> None:
    """The cookie is worth nothing afterwards, wherever it was copied to; other sessions go on."""
    async with peoples_dashboard(there, PEOPLE) as served:
        guest, other = await served.signed_in(ADMIN), await served.signed_in(ADMIN)
        form = {"form": (await guest.get("/")).body.partition('name="form" value="')[2].partition('"')[0]}
        assert (await guest.post("/logout", {"form": "guessed"})).status == 403
        assert (await guest.get("/logout")).status == 405
        answer = await guest.post("/logout", form)
        page = await guest.get("/")
        assert (await other.get("/")).status == 200

    assert (answer.status, "You are signed out" in answer.body, "Max-Age=0" in answer.headers["set-cookie"]) == (
        200,
        True,
        True,
    )
    assert page.status == 401


async def test_sessions_have_bounds_that_are_told(there: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """One more of a person ends their first; one more of all is refused, and ends nobody's."""
    monkeypatch.setattr(sessions, "SESSIONS_OF_ONE_MAX", 2)
    monkeypatch.setattr(sessions, "SESSIONS_MAX", 3)
    async with peoples_dashboard(there, PEOPLE) as served:
        first, second, third = [await served.signed_in(ADMIN) for _ in range(3)]
        assert [(await guest.get("/")).status for guest in (first, second, third)] == [401, 200, 200]
        assert "You were signed out: you have signed in" in (await first.get("/")).body
        reader = await served.signed_in(READER)
        full = await served.guest().sign_in(RELEASER)
        assert (full.status, "which is the most" in full.body) == (503, True)
        assert [(await guest.get("/")).status for guest in (second, third, reader)] == [200, 200, 200]


async def test_signing_in_ends_the_session_before_in_that_browser(there: Served) -> None:
    """Another person at the same browser leaves nothing of the one before, and nobody can give them a session to use."""
    async with peoples_dashboard(there, PEOPLE) as served:
        guest = await served.signed_in(ADMIN)
        before = guest.cookie
        await guest.sign_in(STRANGER)
        assert guest.cookie != before
        assert "in namespace other" in (await guest.get("/")).body
        guest.cookie = before
        assert (await guest.get("/")).status == 401


async def test_tokens_that_fail_are_counted(there: Served) -> None:
    """Guesses cost the API server ten requests a minute; after that, also a good token waits."""
    clock = HandClock()
    async with peoples_dashboard(there, PEOPLE, clock=clock) as served:
        guest = served.guest()
        tried = [(await guest.sign_in(token_of(f"guess-{each}"))).status for each in range(12)]
        asked = len(served.tenancy.asked)
        good = await guest.sign_in(ADMIN)
        clock.at_s += 60.0
        later = await guest.sign_in(ADMIN)

    assert tried == [401] * 10 + [429] * 2
    assert asked == 10
    assert (good.status, "try again in 60 seconds" in good.body, later.status) == (429, True, 303)


async def test_without_the_api_server_nobody_comes_in_and_the_page_says_why(there: Served) -> None:
    """It is no reason to count a failure, nor to take somebody's word for who they are."""
    async with peoples_dashboard(there, PEOPLE) as served:
        await served.stop_api()
        answers = [await served.guest().sign_in(ADMIN) for _ in range(11)]

    assert {answer.status for answer in answers} == {502}
    assert "The token could not be checked: the API server cannot be reached" in answers[0].body
    assert "127.0.0.1" not in answers[0].body  # where it is, is in the log
    log = there.printed.readouterr().err
    assert "error: a token could not be checked: the API server cannot be reached: " in log
    assert ADMIN not in log


async def test_where_nobody_is_known_there_is_only_the_way_in(there: Served) -> None:
    """What needs nobody: the page to sign in, style and script, and the word that the kubelet asks for."""
    async with peoples_dashboard(there, PEOPLE) as served:
        guest = served.guest()
        answers = {
            path: (await guest.get(path)).status
            for path in ("/", "/r/default/cart", "/static/style.css", "/static/none", "/login", "/nothing", "/api")
        }
        health = await guest.get("/healthz", Host="10.0.0.9:3100")
        asked = served.tenancy.asked

    assert answers == {
        "/": 401,
        "/r/default/cart": 401,
        "/static/style.css": 200,
        "/static/none": 404,
        "/login": 200,
        "/nothing": 401,
        "/api": 401,
    }
    assert (health.status, health.body) == (200, "ok\n")
    assert not asked


def test_what_has_no_meaning_together_is_refused(typed: CommandLine) -> None:
    """Each with what to write instead."""
    for words, said in (
        (("--auth", "token", "-A"), "-A has no meaning with --auth"),
        (("--host", "example.org"), "--host is for --auth"),
        (("--auth", "token", "--host", "a b"), "is no name of a host"),
        (("--auth", "none"), "'none' is not"),
    ):
        assert said in typed("dashboard", *words, code=2).error
