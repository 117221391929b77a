"""Promise: behind a proxy that knows people, each sees and does by impersonation what is theirs, while the proxy says so."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from rollouts.cli.dashboard import proxy, sessions
from rollouts.cli.dashboard.identity import IdentityRules, PersonIdentity
from rollouts.cli.view import giving
from tests.cli.command_line import CommandLine
from tests.cli.dashboards import until_page
from tests.cli.runs import Served
from tests.cli.tenants import IMPERSONATOR, PROXY_SECRET, Tenant, proxied_dashboard
from tests.cli.test_people_sign_in_to_the_dashboard import ALL, DEFAULT, shared, until
from tests.cli.test_the_dashboard_shows_and_acts import PROMOTE, annotations_of
from tests.patience import PATIENCE_S

ALICE, BOB, EVE = "alice@example.com", "bob@example.com", "eve@example.com"
READERS, RELEASERS = "shop readers", "shop-releasers"
MEMBERS = {
    READERS: Tenant(READERS, DEFAULT),
    RELEASERS: Tenant(RELEASERS, DEFAULT, DEFAULT),
    "admins": Tenant("admins", ALL, ALL),
    EVE: Tenant(EVE, frozenset({"other"})),
}
RULES = IdentityRules(groups=frozenset({READERS, RELEASERS}))


async def until_it_ends(stream: asyncio.StreamReader) -> str:
    """What is left of a stream, until the dashboard ends it."""
    text = b""
    async with asyncio.timeout(PATIENCE_S):
        while (line := await stream.readline()) != b"0\r\n":
            text += line
    return text.decode()


async def test_each_sees_and_does_as_whom_the_proxy_names(there: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """By name and by those of the groups that count; the API server is asked as that person, and as nobody else."""
    monkeypatch.setattr(giving, "RECORDED_WITHIN_S", 0.05)
    await shared(there)
    async with proxied_dashboard(there, MEMBERS, RULES) as served:
        alice = served.person(ALICE, "everybody", f" {RELEASERS} ", READERS, "admins")
        bob, eve = served.person(BOB, READERS), served.person(EVE)
        for guest, name in ((alice, ALICE), (bob, BOB)):
            page = await guest.get("/r/default/cart")
            assert (page.status, name in page.body, "Sign out" in page.body) == (200, True, False)
        assert "You may not patch rollouts in namespace default" in (await bob.get("/r/default/cart")).body
        assert (await bob.post(PROMOTE, await bob.form(PROMOTE))).status == 403
        for path in ("/?ns=default", "/r/default/cart", PROMOTE):
            refused = await eve.get(path)
            assert (refused.status, "newrev" in refused.body) == (403, False), path
        assert await annotations_of(there) == {}
        assert (await alice.post(PROMOTE, await alice.form(PROMOTE))).status == 303

    assert await annotations_of(there) == {"rollouts.dev/promote": "newrev@1"}
    assert {who for who, each in served.tenancy.asked if each.method == "PATCH"} == {ALICE, BOB}
    # `admins` is not among the groups that count, nor is `everybody`.
    assert {*served.tenancy.impersonated} == {
        (ALICE, (READERS, RELEASERS)),
        (BOB, (READERS,)),
        (EVE, ()),
    }
    assert "" not in {who for who, _ in served.tenancy.asked}  # nothing is asked as the dashboard itself


async def test_only_those_who_are_named_come_in_where_there_is_a_list(there: Served) -> None:
    """The proxy may know the whole company."""
    rules = IdentityRules(users=frozenset({ALICE}), groups=RULES.groups)
    async with proxied_dashboard(there, MEMBERS, rules) as served:
        alice, bob = await served.person(ALICE, READERS).get("/"), await served.person(BOB, READERS).get("/")

    assert alice.status == 200
    assert (bob.status, bob.body) == (403, f"{BOB} is not among those who may use this dashboard\n")
    assert {who for who, _ in served.tenancy.asked} == {ALICE}


async def test_other_headers_of_the_proxy_are_a_setting(there: Served) -> None:
    """Each proxy has names of its own; those that are not set are anybody's text."""
    rules = IdentityRules(user_header="X-Auth-Request-Email", groups_header="Remote-Groups", groups=RULES.groups)
    async with proxied_dashboard(there, MEMBERS, rules) as served:
        own = {"X_Auth_Request_Email": BOB, "Remote_Groups": f"x,{READERS}"}
        page = await served.person(ALICE, RELEASERS, **own).get("/")
        nobody = await served.person(ALICE, RELEASERS).get("/")

    assert (page.status, BOB in page.body, ALICE in page.body) == (200, True, False)
    assert (nobody.status, "it has to send X-Auth-Request-Email" in nobody.body) == (401, True)
    assert {*served.tenancy.impersonated} == {(BOB, (READERS,))}


async def test_a_browser_has_one_session_for_as_long_as_it_is_the_same_person(there: Served) -> None:
    """Also when a link elsewhere brings no cookie: the page opens once more from here."""
    async with proxied_dashboard(there, MEMBERS, RULES, "rollouts.example.com") as served:
        alice = served.person(ALICE, READERS, Host="rollouts.example.com")
        first = await alice.get("/")
        assert first.headers["set-cookie"].startswith("__Host-rollouts=")
        assert first.headers["set-cookie"].endswith("; HttpOnly; Path=/; SameSite=Strict; Secure")
        again = [await alice.get(path) for path in ("/", "/r/default/none", "/static/live.js")]
        cookie, alice.cookie = alice.cookie, ""
        linked = await alice.get("/", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate")
        opened = await alice.get("/", Cookie=f"{alice.cookie}; {cookie}", Sec_Fetch_Site="same-origin")
        kept = len(served.sessions.open)

    assert not [page for page in (*again, opened) if "set-cookie" in page.headers]
    assert '<meta http-equiv="refresh" content="0">' in linked.body
    assert "rollouts-opened-again=1" in linked.headers["set-cookie"]
    assert (opened.status, kept) == (200, 1)


@pytest.mark.parametrize("groups", [(), (READERS,)])
async def test_another_identity_ends_what_the_one_before_had_open(there: Served, groups: tuple[str, ...]) -> None:
    """Another person in the same browser, or the same one with fewer groups: live pages end, and forms are worth nothing."""
    await shared(there)
    async with proxied_dashboard(there, MEMBERS, RULES) as served:
        alice = served.person(ALICE, RELEASERS)
        form = await alice.form(PROMOTE)
        async with alice.stream("/events?ns=default") as stream:
            await until_page(stream, "default/cart")
            other = served.person(ALICE if groups else EVE, *groups)
            other.cookie = alice.cookie
            assert (await other.get("/?ns=other")).status == (403 if groups else 200)
            await until_it_ends(stream)
        other.cookie = alice.cookie
        live = await other.get("/events?ns=other", Sec_Fetch_Site="same-origin", Sec_Fetch_Mode="cors")
        assert (live.status, live.body) == (401, "this page is of a session that is over: open it again\n")
        assert (await other.get("/?ns=other")).status == (403 if groups else 200)
        answer = await other.post(PROMOTE, form)
        assert (answer.status, "this form is not from this run" in answer.body) == (403, True)
        identities = {each.as_whom for each in served.sessions.open}

    assert identities == {PersonIdentity(ALICE if groups else EVE, groups)}
    assert await annotations_of(there) == {}


async def test_live_pages_ask_through_the_proxy_again(there: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have shut somebody out meanwhile, and knows nothing of a request that goes on."""
    monkeypatch.setattr(sessions, "STREAMS_LAST_S", 0.05)
    await shared(there)
    async with proxied_dashboard(there, MEMBERS, RULES) as served:
        alice = served.person(ALICE, READERS)
        await alice.get("/")
        async with alice.stream("/events?ns=default") as stream:
            text = await until_it_ends(stream)
        await until(lambda: not served.streams)

    assert "default/cart" in text
    assert text.rstrip().endswith('event: again\ndata: ""')


async def test_the_proxys_secret_can_be_replaced(there: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both count while both are in the file, and none counts while the file cannot be used."""
    monkeypatch.setattr(proxy, "READ_AGAIN_S", 0.0)
    async with proxied_dashboard(there, MEMBERS, RULES) as served:
        file, new = there.folder / "proxy-secret", "f" * 32

        async def answers() -> list[int]:
            alice = served.person(ALICE, READERS)
            return [(await alice.get("/", X_Rollouts_Proxy_Secret=each)).status for each in (PROXY_SECRET, new)]

        assert await answers() == [200, 403]
        file.write_text(f"{PROXY_SECRET}\n{new}\n")
        assert await answers() == [200, 200]
        file.write_text(f"{new}\n")
        assert await answers() == [403, 200]
        for text in ("", "short\n", f"{new}\nshort", "ü" * 32):
            file.write_text(text)
            assert await answers() == [403, 403], text
        file.unlink()
        assert await answers() == [403, 403]
        log = there.printed.readouterr().err
        file.write_text(new)
        assert await answers() == [403, 200]

    assert "error: nobody is let in: the proxy's secret" in log
    assert log.count("\n") == 1
    assert new not in log


async def test_an_account_that_may_not_impersonate_says_so(there: Served) -> None:
    """The person learns whose right is missing, and the log which one."""
    async with proxied_dashboard(there, MEMBERS, RULES) as served:
        served.tenancy.may_impersonate = lambda name: name != RELEASERS
        alice = await served.person(ALICE, RELEASERS).get("/")
        bob = await served.person(BOB, READERS).get("/")

    assert (alice.status, bob.status) == (502, 200)
    assert "its account may not `impersonate` your user or one of your groups" in alice.body
    assert 'cannot impersonate resource "groups"' in there.printed.readouterr().err


async def test_nobody_acts_as_the_dashboards_own_account(there: Served) -> None:
    """Something between that removes the headers would make everybody the dashboard: the API server is asked who it sees."""
    async with proxied_dashboard(there, MEMBERS, RULES) as served:
        served.tenancy.people[IMPERSONATOR] = Tenant(
            "system:serviceaccount:rollouts-system:rollouts-dashboard", ALL, ALL
        )
        served.tenancy.drops_impersonation = True
        page = await served.person(ALICE, READERS).get("/")

    assert (page.status, "something between removes Impersonate-User" in page.body) == (502, True)
    assert [each.path for _, each in served.tenancy.asked] == ["/apis/authentication.k8s.io/v1/selfsubjectreviews"]


async def test_without_the_api_server_the_page_says_why(there: Served) -> None:
    """Where it is, is in the log."""
    async with proxied_dashboard(there, MEMBERS, RULES) as served:
        await served.stop_api()
        page = await served.person(ALICE).get("/")

    assert (page.status, "the API server cannot be reached; its log has more" in page.body) == (502, True)
    assert "127.0.0.1" not in page.body


def test_what_would_let_anybody_in_is_refused(typed: CommandLine, tmp_path: Path) -> None:
    """Each with what to write instead."""
    good, short = tmp_path / "good", tmp_path / "short"
    good.write_text(PROXY_SECRET)
    short.write_text("guess")
    secret = ("--auth", "proxy", "--proxy-secret", str(good))
    for words, said in (
        (("--auth", "proxy"), "--auth proxy needs --proxy-secret FILE"),
        (("--auth", "token", "--proxy-secret", str(good)), "the options of a proxy are for --auth proxy"),
        (("--allow-group", "x"), "the options of a proxy are for --auth proxy"),
        ((*secret, "--allow-group", "system:masters"), "'system:masters' is the API server's own"),
        ((*secret, "--allow-user", "system:admin"), "'system:admin' is the API server's own"),
        ((*secret, "--allow-group", "a,b"), "'a,b' is no name of one user or group"),
        ((*secret, "--user-header", "X_User"), "'X_User' is no name of a header"),
        ((*secret, "--user-header", "X-Forwarded-Groups"), "need a header each"),
        ((*secret, "--groups-header", "x-rollouts-proxy-secret"), "need a header each"),
    ):
        assert said in typed("dashboard", *words, code=2).error, words
    for path, said in ((short, "can be guessed"), (tmp_path / "none", "cannot read the proxy's secret")):
        assert said in typed("dashboard", "--auth", "proxy", "--proxy-secret", str(path), code=4).error
