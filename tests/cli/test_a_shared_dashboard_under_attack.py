"""Promise: a dashboard for many people gives nothing to anybody but whose token may have it, and does nothing for others."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from urllib.parse import urlsplit

import pytest

from rollouts.cli.dashboard import connections
from rollouts.cli.dashboard.app import BODY_MAX_BYTES, serving_people
from rollouts.cli.dashboard.doors import ManyPeople
from rollouts.cli.dashboard.sites import Sites, named_site
from rollouts.cli.view import giving
from rollouts.objects import ROLLOUT
from tests.cli.dashboards import Answer, until_page
from tests.cli.runs import Served
from tests.cli.tenants import PeoplesDashboard, Tenant, peoples_dashboard
from tests.cli.test_people_sign_in_to_the_dashboard import ADMIN, ALL, PEOPLE, READER, RELEASER, STRANGER, shared
from tests.cli.test_text_of_others_is_text_on_every_page import assert_is_ours
from tests.cli.test_the_dashboard_is_for_one_person import HOSTILE
from tests.cli.test_the_dashboard_shows_and_acts import PROMOTE, annotations_of
from tests.cli.test_the_dashboard_shows_experiments import RUNNING as EXPERIMENT_RUNS
from tests.cli.test_the_dashboard_shows_experiments import TERMINATE, surround
from tests.cli.test_the_dashboard_shows_experiments import add as add_experiment
from tests.patience import PATIENCE_S

SECRETS = ("newrev", "cart:2", "waiting for promotion", "h4sh", "web:1", "verdicts of smoke")
"""What the namespace default has, and others may not see."""


async def raw(served: PeoplesDashboard, text: str) -> Answer:
    """The answer to these bytes."""
    address = urlsplit(served.url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    writer.write(text.encode())
    async with asyncio.timeout(PATIENCE_S):
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        rest = (await reader.read(65_536)).decode() if "Content-Length: 0" not in head else ""
    writer.close()
    return Answer(int(head.split(" ")[1]), {}, rest)


async def test_it_listens_everywhere_and_answers_to_names_that_it_was_given(
    there: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody's name that points here is not ours (DNS rebinding), whatever the port; those of a port-forward are."""
    monkeypatch.setattr(socket, "getfqdn", lambda *_: "localhost")  # by which aiohttp calls a request without a Host
    async with peoples_dashboard(there, PEOPLE, "rollouts.example.com", "http://plain.example:3100") as served:
        guest = await served.signed_in(ADMIN)
        port = guest.host.partition(":")[2]
        ours = ("rollouts.example.com", "plain.example:3100", "localhost:9", "127.0.0.1", "[::1]:1", guest.host)
        for host in ours:
            assert (await served.guest().get("/", Host=host)).status == 401, host
        for host in (
            "rebound.example",
            f"rebound.example:{port}",
            "rollouts.example.com.evil.example",
            "rollouts.example.com:3100",
            "plain.example",
            "localhost.evil.example",
            "localhost:x",
            "127.0.0.1.evil.example",
            f"10.0.0.9:{port}",
        ):
            for path in ("/", "/login", "/static/style.css", "/r/default/cart"):
                answer = await guest.get(path, Host=host)
                assert (answer.status, "--host NAME" in answer.body) == (421, True), host
        both = f"GET / HTTP/1.1\r\nHost: {guest.host}\r\nHost: evil.example\r\nCookie: {guest.cookie}\r\n\r\n"
        assert (await raw(served, both)).status in (400, 421)
        absolute = f"GET http://evil.example/ HTTP/1.1\r\nHost: {guest.host}\r\nCookie: {guest.cookie}\r\n\r\n"
        assert "Rollouts" not in (await raw(served, absolute)).body
        assert (await raw(served, f"GET / HTTP/1.0\r\nCookie: {guest.cookie}\r\n\r\n")).status == 421

        async with serving_people(
            ManyPeople(Sites(()), served.sessions, lambda _: there.api), address="", port=0
        ) as everywhere:
            for address in {str(each[4][0]) for each in socket.getaddrinfo(socket.gethostname(), None)} | {"127.0.0.1"}:
                _, writer = await asyncio.open_connection(address, everywhere)
                writer.close()


@pytest.mark.parametrize("name", ["", "a b", "evil.example/path", "https://", "ftp://a", "a@b", "a:99999999", "*"])
def test_a_name_that_no_browser_sends_is_refused(name: str) -> None:
    """It would match nothing, or more than was meant."""
    with pytest.raises(ValueError, match="is no name of a host"):
        named_site(name)


async def test_only_a_session_of_ones_own_reads_or_acts(there: Served) -> None:
    """No cookie, one that was guessed, one of another dashboard or port, and a token where a cookie belongs: nothing."""
    await shared(there)
    async with peoples_dashboard(there, PEOPLE) as served, peoples_dashboard(there, PEOPLE) as other:
        admin = await served.signed_in(ADMIN)
        form = await admin.form(PROMOTE)
        name, value = admin.cookie.split("=", 1)
        foreign = (await other.signed_in(ADMIN)).cookie
        asked = len(served.tenancy.asked)
        stranger = served.guest()
        for headers in (
            {"Cookie": ""},
            {"Cookie": "", "Authorization": f"Bearer {ADMIN}"},
            {"Cookie": f"{name}={ADMIN}"},
            {"Cookie": f"{name}={value[:-1]}"},
            {"Cookie": f"{name}={value}x"},
            {"Cookie": f"{name}="},
            {"Cookie": f"__Host-rollouts={value}"},
            {"Cookie": foreign},
            {"Cookie": f"{name}={foreign.partition('=')[2]}"},
            {"Cookie": f"{name.rpartition('-')[0]}-9={value}", "Host": "127.0.0.1:9"},  # stolen by another port
            {"Cookie": admin.cookie, "Host": f"localhost:{admin.host.partition(':')[2]}"},
        ):
            for path in ("/", "/events", "/r/default/cart", "/r/default/cart/events", PROMOTE, "/r/default/cart/plan"):
                answer = await stranger.get(path, **headers)
                assert (answer.status, [word for word in SECRETS if word in answer.body]) == (401, []), (path, headers)
            own = {"Origin": f"http://{headers.get('Host', stranger.host)}"}
            answer = await stranger.post(PROMOTE, form, **{**own, **headers})
            assert (answer.status, "Nothing was written." in answer.body) == (401, True), headers
        assert len(served.tenancy.asked) == asked

    assert await annotations_of(there) == {}


async def test_pages_of_others_read_nothing_and_press_nothing(there: Served) -> None:
    """Forms and requests of other origins, to act, to sign somebody in as another one, or to sign them out."""
    await shared(there)
    async with peoples_dashboard(there, PEOPLE) as served:
        admin = await served.signed_in(ADMIN)
        form = await admin.form(PROMOTE)
        asked = len(served.tenancy.asked)
        forged: list[dict[str, str]] = [
            {"Origin": "https://evil.example"},
            {"Origin": "null"},
            {"Origin": ""},
            {"Origin": f"https://{admin.host}"},
            {"Origin": "http://127.0.0.1:9"},
            {"Sec-Fetch-Site": "cross-site"},
            {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "navigate"},
        ]
        for path, fields in ((PROMOTE, form), ("/login", {"token": READER}), ("/logout", form)):
            for headers in forged:
                answer = await admin.post(path, fields, **headers)
                assert (answer.status, "set-cookie" in answer.headers) == (403, False), (path, headers)
        for content_type in ("text/plain", "multipart/form-data; boundary=x", "application/json", ""):
            for path, fields in ((PROMOTE, form), ("/login", {"token": READER}), ("/logout", form)):
                answer = await admin.post(path, fields, Content_Type=content_type)
                assert answer.status == 415, (path, content_type)
        for mode in ("cors", "no-cors", "websocket"):
            for path in ("/", "/events", "/r/default/cart", "/static/live.js", "/login"):
                answer = await admin.get(path, Sec_Fetch_Site="cross-site", Sec_Fetch_Mode=mode)
                assert (answer.status, "cart" in answer.body) == (403, False), (path, mode)
        query = "&".join(f"{name}={value}" for name, value in form.items())
        assert (await admin.get(f"{PROMOTE}?{query}")).status == 200  # asks, and does nothing
        assert (await admin.get(f"/login?token={READER}&next=/")).headers.get("set-cookie") is None
        for answer in (await admin.get("/"), await served.guest().get("/"), await served.guest().get("/login")):
            assert not [name for name in answer.headers if name.startswith("access-control")]
            assert answer.headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'")
            assert "unsafe" not in answer.headers["content-security-policy"]
            assert answer.headers["cache-control"] == "no-store"
        written = [each for _, each in served.tenancy.asked[asked:] if each.method in ("PATCH", "PUT", "DELETE")]
        assert (await admin.get("/")).status == 200

    assert not written
    assert await annotations_of(there) == {}


async def test_a_link_elsewhere_opens_a_page_for_who_is_signed_in(there: Served) -> None:
    """Such a link brings no cookie, so the page is opened once more from here; once, or it would go on for ever."""
    async with peoples_dashboard(there, PEOPLE) as served:
        guest = served.guest()
        first = await guest.get("/r/default/cart", Sec_Fetch_Site="cross-site")
        again = first.headers["set-cookie"].partition(";")[0]
        second = await guest.get("/r/default/cart", Sec_Fetch_Site="cross-site", Cookie=again)

    assert (first.status, second.status) == (200, 401)
    assert '<meta http-equiv="refresh" content="0">' in first.body
    assert "default" not in first.body
    assert "Max-Age=5" in first.headers["set-cookie"]


@pytest.mark.parametrize(
    "path",
    [
        "/static/../guard.py",
        "/static/%2e%2e%2fsessions.py",
        "/static/..%5csessions.py",
        "/static//etc/passwd",
        "/login/../r/default/cart",
        "/static/../r/default/cart",
        "/healthz/../r/default/cart",
        "/r/default/..",
        "/r/default/%2e%2e%2fsecrets",
        "/r/default%2fsecrets/cart",
        "/r/default/cart/delete",
        "//evil.example/",
        "/r/%00/cart",
        "/experiments/default/..",
        "/experiments/default/%2e%2e%2fsecrets",
        "/experiments/default/exp/delete",
        "/experiments/default/exp/runs/..%2f..%2fsecrets",
        "/api/v1/namespaces/default/secrets",
    ],
)
async def test_no_path_leads_around_the_door_or_into_the_api(there: Served, path: str) -> None:
    """What needs nobody is named as a whole; what is below a name is the name of an object, or there is no such page."""
    await shared(there)
    async with peoples_dashboard(there, PEOPLE) as served:
        stranger, admin = served.guest(), await served.signed_in(ADMIN)
        asked = len(served.tenancy.asked)
        without, with_session = await stranger.get(path), await admin.get(path)
        paths = {each.path for _, each in served.tenancy.asked[asked:]}

    assert without.status in (400, 401, 404)
    assert with_session.status in (400, 404)
    assert not [word for word in SECRETS if word in without.body + with_session.body]
    assert not [each for each in paths if "secrets" in each]


@pytest.mark.parametrize(
    "back", ["//evil.example", "/\\evil.example", "https://evil.example", "/a\r\nSet-Cookie: x=y", "/logout", ""]
)
async def test_after_signing_in_nobody_is_sent_elsewhere(there: Served, back: str) -> None:
    """An address that somebody was sent begins here, so it must end here."""
    async with peoples_dashboard(there, PEOPLE) as served:
        answer = await served.guest().sign_in(ADMIN, back=back)

    assert (answer.status, answer.headers["location"]) == (303, "/")
    assert answer.headers["set-cookie"].startswith("rollouts-session-")


async def test_a_tenant_sees_nothing_of_others_by_any_page(there: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while somebody who may looks at the same page: nothing that was read for one is shown to another."""
    monkeypatch.setattr(giving, "RECORDED_WITHIN_S", 0.05)
    await shared(there)
    await surround(there, await add_experiment(there, EXPERIMENT_RUNS))
    async with peoples_dashboard(there, PEOPLE) as served:
        admin, stranger = await served.signed_in(ADMIN), await served.signed_in(STRANGER)
        below, experiment = "/r/default/cart", "/experiments/default/exp"
        async with (
            admin.stream(f"{below}/events") as one,
            admin.stream("/events") as two,
            admin.stream(f"{experiment}/events") as three,
            admin.stream("/experiments/events") as four,
        ):
            await until_page(one, "waiting for promotion")
            await until_page(two, "default/cart")
            await until_page(three, "h4sh")
            await until_page(four, "default/exp")
            told = (await admin.post(PROMOTE, await admin.form(PROMOTE))).headers["location"]
            assert "Promote: " in (await admin.get(told)).body
            for path in (
                "/",
                "/?q=cart",
                "/?ns=default",
                "/?ns=default%2fcart",
                below,
                told,
                f"{below}/runs/cart-newrev-step-1",
                f"{below}/diff",
                f"{below}/plan",
                *(f"{below}/{act}" for act in ("promote", "abort", "undo?to=oldrev", "restart")),
                "/r/default/none",
                "/experiments",
                "/experiments?ns=default&q=exp",
                experiment,
                f"{experiment}/runs/exp-smoke-1",
                TERMINATE,
            ):
                answer = await stranger.get(path)
                assert answer.status in (200, 403), path
                assert not [word for word in (*SECRETS, "admin@", "Promote: ") if word in answer.body], path
            for path in (
                "/events?ns=default",
                f"{below}/events",
                f"{below}/runs/cart-newrev-step-1/events",
                "/experiments/events?ns=default",
                f"{experiment}/events",
                f"{experiment}/runs/exp-smoke-1/events",
            ):
                async with stranger.stream(path) as stream:
                    event = await until_page(stream, "You may not")
                    assert not [word for word in SECRETS if word in event], path
        there_is, there_is_none = [await stranger.get(f"/r/default/{name}") for name in ("cart", "none")]
        ends, ends_none = [await stranger.get(f"/experiments/default/{name}/terminate") for name in ("exp", "none")]

    assert there_is.body.replace("cart", "none") == there_is_none.body
    assert (ends.status, ends.body) == (ends_none.status, ends_none.body)
    who = {name for name, each in served.tenancy.asked if "default" in each.path and each.method == "PATCH"}
    assert who == {"admin@example.com"}


async def test_a_name_that_a_form_claims_is_not_written(there: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who gave a command is for the API server to say, by the token: the dashboard writes one annotation, and as the person."""
    monkeypatch.setattr(giving, "RECORDED_WITHIN_S", 0.05)
    await shared(there)
    async with peoples_dashboard(there, PEOPLE) as served:
        guest = await served.signed_in(RELEASER)
        form = await guest.form(PROMOTE)
        claimed = {**form, "user": "admin", "rollouts.dev/promote-by": "admin", "annotation": "rollouts.dev/abort"}
        headers = {"X-Forwarded-User": "admin", "X-Remote-User": "admin", "Impersonate-User": "admin"}
        assert (await guest.post(PROMOTE, claimed, **headers)).status == 303
        (patch,) = [(who, each) for who, each in served.tenancy.asked if each.method == "PATCH"]

    assert patch[0] == "system:serviceaccount:default:releaser"
    assert await annotations_of(there) == {"rollouts.dev/promote": "newrev@1"}


async def test_on_a_connection_of_many_each_request_is_of_its_own_person(there: Served) -> None:
    """A proxy sends the requests of all people on the connections that it keeps: nothing of one is in an answer to the next."""
    async with peoples_dashboard(there, PEOPLE) as served:
        admin, stranger = await served.signed_in(ADMIN), await served.signed_in(STRANGER)
        own = f"Host: {admin.host}\r\n"
        reader, writer = await asyncio.open_connection(*admin.host.split(":"))
        answers = []
        for path, cookie in (
            ("/", admin.cookie),
            ("/static/none", ""),
            ("/login", ""),
            ("/", admin.cookie),
            ("/", stranger.cookie),
            ("/nothing", "rollouts-session-1=x"),
        ):
            writer.write(f"GET {path} HTTP/1.1\r\n{own}Cookie: {cookie}\r\n\r\n".encode())
            async with asyncio.timeout(PATIENCE_S):
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                size = int(head.lower().partition("content-length: ")[2].partition("\r\n")[0])
                answers.append((await reader.readexactly(size)).decode())
        writer.close()

    assert ["admin@example.com" in body for body in answers] == [True, False, False, True, False, False]
    assert ["Sign out" in body for body in answers] == [True, False, False, True, True, False]


async def test_what_tenants_and_names_say_is_text(there: Served) -> None:
    """On the page to sign in, in the head of each page, and in what is said of a namespace that somebody asked for."""
    await shared(there)
    await there.put_status(ROLLOUT, "cart", {"message": HOSTILE})
    token = "hostile.token"
    async with peoples_dashboard(there, {token: Tenant(HOSTILE, ALL)}) as served:
        stranger, guest = served.guest(), await served.signed_in(token)
        pages = [
            await stranger.get("/?q=%22%3E%3Cscript%3Ealert(1)%3C/script%3E"),
            await stranger.sign_in('"><script>alert(1)</script>', back='/"><script>'),
            await guest.get("/?ns=%22%3E%3Cscript%3E"),
            await guest.get("/r/default/cart"),
        ]

    for page in pages:
        assert_is_ours(page.body, scripts=1)
    assert "onerror=alert(1)" in pages[3].body
    assert token not in "".join(page.body for page in pages)


async def test_requests_have_bounds(there: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """In their size, and in the time that they take to come."""
    monkeypatch.setattr("rollouts.cli.dashboard.app.BODY_WITHIN_S", 0.05)
    async with peoples_dashboard(there, PEOPLE) as served:
        guest = served.guest()
        large = await guest.post("/login", {"token": "a" * BODY_MAX_BYTES})
        own = f"Host: {guest.host}\r\nOrigin: http://{guest.host}\r\nContent-Type: application/x-www-form-urlencoded"
        slow = await raw(served, f"POST /login HTTP/1.1\r\n{own}\r\nContent-Length: 99\r\n\r\ntoken=")
        long_head = await raw(served, f"GET /{'a' * 20_000} HTTP/1.1\r\n{own}\r\n\r\n")

    assert (large.status, "too large" in large.body) == (413, True)
    assert (slow.status, "took too long" in slow.body) == (408, True)
    assert long_head.status in (400, 414, 431)


@pytest.mark.long
async def test_ten_thousand_connections_keep_nobody_out(there: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Silent ones, and those that begin a request and do not end it, make room for each other; live pages stay."""
    monkeypatch.setattr(connections, "CONNECTIONS_MAX", 100)
    await shared(there)
    loop = asyncio.get_running_loop()
    async with peoples_dashboard(there, PEOPLE) as served, contextlib.AsyncExitStack() as held:
        guest = await served.signed_in(ADMIN)
        stream = await held.enter_async_context(guest.stream("/r/default/cart/events"))
        await until_page(stream, "waiting for promotion")
        address = (urlsplit(served.url).hostname, urlsplit(served.url).port)
        for round_ in range(20):
            with contextlib.ExitStack() as silent_ones:
                for index in range(500):
                    silent = silent_ones.enter_context(socket.socket())
                    silent.setblocking(False)
                    await loop.sock_connect(silent, address)
                    if index % 2:
                        await loop.sock_sendall(silent, b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
                assert (await guest.get("/")).status == 200, round_
                assert (await served.guest().get("/login")).status == 200, round_
        await there.put_status(ROLLOUT, "cart", {"phase": "Degraded"})
        await until_page(stream, "Degraded")
