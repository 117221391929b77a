"""Promise: behind a proxy, nobody is somebody else or gets a group by what a browser sends, and what is forged is refused."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollouts.cli.dashboard.guard import RefusedRequest
from rollouts.cli.dashboard.identity import IdentityRules, PersonIdentity, identity_in
from rollouts.cli.view import giving
from tests.cli.dashboards import until_page
from tests.cli.runs import Served
from tests.cli.tenants import PROXY_SECRET, ProxiedDashboard, proxied_dashboard
from tests.cli.test_a_shared_dashboard_under_attack import SECRETS
from tests.cli.test_people_sign_in_to_the_dashboard import shared
from tests.cli.test_the_dashboard_behind_a_proxy import ALICE, EVE, MEMBERS, READERS, RELEASERS, RULES, until_it_ends
from tests.cli.test_the_dashboard_shows_and_acts import PROMOTE, annotations_of
from tests.patience import PATIENCE_S

PATHS = (
    "/",
    "/?ns=default",
    "/r/default/cart",
    "/r/default/cart/events",
    PROMOTE,
    "/static/style.css",
    "/login",
    "/no",
)
PROVEN = (b"X-Rollouts-Proxy-Secret", PROXY_SECRET.encode())
ALICES = (b"X-Forwarded-User", ALICE.encode())
GROUPS = (b"X-Forwarded-Groups", READERS.encode())

Raw = tuple[tuple[bytes, bytes], ...]


async def answered(served: ProxiedDashboard, headers: Raw, path: str = "/r/default/cart") -> tuple[int, str]:
    """Status and text of the answer to these very bytes."""
    address = urlsplit(served.url)
    lines = [f"GET {path} HTTP/1.1".encode(), f"Host: {address.netloc}".encode(), b"Connection: close"]
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    writer.write(b"\r\n".join([*lines, *(name + b": " + value for name, value in headers), b"", b""]))
    async with asyncio.timeout(PATIENCE_S):
        text = (await reader.read()).decode()
    writer.close()
    return int(text.split(" ")[1]), text


@pytest.mark.parametrize(
    "proof",
    [
        (),
        ((b"X-Rollouts-Proxy-Secret", b""),),
        ((b"X-Rollouts-Proxy-Secret", PROXY_SECRET[:-1].encode()),),
        ((b"X-Rollouts-Proxy-Secret", f"{PROXY_SECRET}x".encode()),),
        ((b"X-Rollouts-Proxy-Secret", PROXY_SECRET.upper().encode()),),
        ((b"X-Rollouts-Proxy-Secret", "ü".encode() * 32),),
        ((b"X_Rollouts_Proxy_Secret", PROXY_SECRET.encode()),),
        (PROVEN, PROVEN),
        (PROVEN, (b"X-Rollouts-Proxy-Secret", b"guess")),
        (PROVEN, (b"x_rollouts-proxy_secret", b"guess")),
        ((b"Cookie", b"X-Rollouts-Proxy-Secret=" + PROXY_SECRET.encode()),),
        ((b"Authorization", b"Bearer " + PROXY_SECRET.encode()),),
    ],
)
async def test_what_has_not_come_through_the_proxy_reads_nothing(there: Served, proof: Raw) -> None:
    """Whoever reaches the port can send the identity's headers; the secret comes once and under its name, or it is none."""
    await shared(there)
    async with proxied_dashboard(there, MEMBERS, RULES) as served:
        for path in PATHS:
            status, text = await answered(served, (*proof, ALICES, GROUPS), path)
            assert status in (400, 403), path
            assert not [word for word in (*SECRETS, PROXY_SECRET, "set-cookie") if word in text], path
        health = await answered(served, (), "/healthz")

    assert (health[0], health[1].endswith("ok\n")) == (200, True)
    assert not served.tenancy.asked


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ((), 401),
        (((b"X-Forwarded-User", b""),), 401),
        (((b"X-Forwarded-User", b"  \t "),), 401),
        ((ALICES, ALICES), 400),
        ((ALICES, (b"X-Forwarded-User", b"admin")), 400),
        (((b"X-Forwarded-User", b""), ALICES), 400),
        ((ALICES, (b"X_Forwarded_User", b"admin")), 400),
        (((b"X_Forwarded_User", b"admin"),), 400),
        (((b"x-forwarded_user", b"admin"),), 400),
        (((b"X-Forwarded-User", b"alice@example.com, admin"),), 403),
        (((b"X-Forwarded-User", "älice".encode()),), 403),
        (((b"X-Forwarded-User", "аdmin".encode()),), 403),  # Cyrillic
        (((b"X-Forwarded-User", "admin\u202e".encode()),), 403),
        (((b"X-Forwarded-User", b"\xff\xfe"),), 403),
        (((b"X-Forwarded-User", b"alice\x00"),), 400),
        (((b"X-Forwarded-User", b"alice\tadmin"),), 403),
        (((b"X-Forwarded-User", b"alice\r\n admin"),), 400),  # a folded line
        (((b"X-Forwarded-User", b"alice\nX-Forwarded-Groups: admins"),), 400),
        (((b"X-Forwarded-User ", b"admin"),), 400),
        (((b"X-Forwarded-User", b"a" * 257),), 403),
        (((b"X-Forwarded-User", b"system:admin"),), 403),
        (((b"X-Forwarded-User", b"System:Kube-Controller-Manager"),), 403),
        (((b"X-Forwarded-User", b"system:serviceaccount:kube-system:default"),), 403),
        (((b"X-Forwarded-User", b"system:anonymous"),), 403),
        ((ALICES, (b"X-Forwarded-Groups", b"system:masters")), 403),
        ((ALICES, (b"X-Forwarded-Groups", READERS.encode() + b", SYSTEM:masters")), 403),
        ((ALICES, GROUPS, GROUPS), 400),
        ((ALICES, GROUPS, (b"X-Forwarded-Groups", b"shop-releasers")), 400),
        ((ALICES, GROUPS, (b"X_Forwarded_Groups", b"shop-releasers")), 400),
        ((ALICES, (b"X-Forwarded_Groups", b"shop-releasers")), 400),
        ((ALICES, (b"X-Forwarded-Groups", b"a," * 1_001 + b"shop-releasers")), 400),
    ],
)
async def test_a_name_that_could_be_forged_is_nobodys(there: Served, said: Raw, status: int) -> None:
    """The proxy has added its headers to those of a browser, or has let such of another spelling pass."""
    await shared(there)
    async with proxied_dashboard(there, MEMBERS, RULES) as served:
        got, text = await answered(served, (PROVEN, *said))

    assert got == status
    assert not [word for word in (*SECRETS, "set-cookie") if word in text]
    assert not served.tenancy.asked


@pytest.mark.parametrize(
    "text", ["x,shop-releasers ", "shop-releasers,,", " , shop-releasers,shop-releasers", "ü,shop-releasers"]
)
async def test_groups_that_do_not_count_are_left_out(there: Served, text: str) -> None:
    """A person may have hundreds, with any names: what counts is what the dashboard was told."""
    await shared(there)
    async with proxied_dashboard(there, MEMBERS, RULES) as served:
        status, _ = await answered(served, (PROVEN, ALICES, (b"x-forwarded-groups", text.encode())))

    assert status == 200
    assert {*served.tenancy.impersonated} == {(ALICE, (RELEASERS,))}


async def test_headers_of_a_browser_are_not_passed_on(there: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what the dashboard makes of the identity reaches the API server."""
    monkeypatch.setattr(giving, "RECORDED_WITHIN_S", 0.05)
    await shared(there)
    async with proxied_dashboard(there, MEMBERS, RULES) as served:
        alice = served.person(ALICE, RELEASERS)
        form = {**await alice.form(PROMOTE), "user": "admin", "rollouts.dev/promote-by": "admin"}
        claimed = {
            "Impersonate_User": "admin",
            "Impersonate_Group": "system:masters",
            "Impersonate_Uid": "0",
            "Impersonate_Extra_Scopes": "all",
            "Authorization": "Bearer stolen",
            "X_Remote_User": "admin",
            "X_Remote_Group": "system:masters",
            "X_Forwarded_Email": "admin",
        }
        assert (await alice.post(PROMOTE, form, **claimed)).status == 303

    assert {*served.tenancy.impersonated} == {(ALICE, (RELEASERS,))}
    assert {who for who, _ in served.tenancy.asked} == {ALICE}
    assert served.tenancy.other_headers == set()
    assert await annotations_of(there) == {"rollouts.dev/promote": "newrev@1"}


async def test_pages_of_others_press_nothing_although_the_proxy_vouches(there: Served) -> None:
    """The proxy's own cookie goes along with any request of the browser, so that it proves nothing about who has sent it."""
    await shared(there)
    async with proxied_dashboard(there, MEMBERS, RULES) as served:
        alice = served.person(ALICE, RELEASERS)
        form = await alice.form(PROMOTE)
        forged: tuple[dict[str, str], ...] = (
            {"Origin": "https://evil.example"},
            {"Origin": "null"},
            {"Origin": ""},
            {"Sec_Fetch_Site": "cross-site"},
            {"Sec_Fetch_Site": "same-site"},
        )
        for headers in forged:
            assert (await alice.post(PROMOTE, form, **headers)).status == 403, headers
        for fields in ({}, {**form, "form": ""}, {**form, "form": "guessed"}):
            assert (await alice.post(PROMOTE, fields)).status == 403, fields
        for mode in ("cors", "no-cors"):
            for path in PATHS:
                answer = await alice.get(path, Sec_Fetch_Site="cross-site", Sec_Fetch_Mode=mode)
                assert (answer.status, "cart" in answer.body) == (403, False), (path, mode)
        for host in ("rebound.example", "localhost.evil.example"):
            assert (await alice.get("/", Host=host)).status == 421, host

    assert await annotations_of(there) == {}
    assert not [each for _, each in served.tenancy.asked if each.method == "PATCH"]


async def test_a_stolen_cookie_shows_nothing_of_its_owner(there: Served) -> None:
    """It is no proof of who somebody is: the proxy's word decides, and the session of the other one ends."""
    await shared(there)
    async with proxied_dashboard(there, MEMBERS, RULES) as served:
        alice, eve = served.person(ALICE, RELEASERS), served.person(EVE)
        form = await alice.form(PROMOTE)
        async with alice.stream("/r/default/cart/events") as stream:
            await until_page(stream, "waiting for promotion")
            eve.cookie = alice.cookie
            for path in ("/?ns=default", "/r/default/cart", PROMOTE):
                eve.cookie = alice.cookie
                answer = await eve.get(path)
                assert (answer.status, [word for word in SECRETS if word in answer.body]) == (403, []), path
            await until_it_ends(stream)
        eve.cookie = alice.cookie
        assert (await eve.post(PROMOTE, form)).status == 403
        status, _ = await answered(served, ((b"Cookie", alice.cookie.encode()),))

    assert status == 403
    assert await annotations_of(there) == {}


async def test_on_a_connection_that_the_proxy_keeps_each_request_is_of_its_own_person(there: Served) -> None:
    """Nothing of one is in the answer to the next, also where that one is refused."""
    await shared(there)
    async with proxied_dashboard(there, MEMBERS, RULES) as served:
        address = urlsplit(served.url)
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        bodies = []
        for said in ((PROVEN, ALICES, GROUPS), (PROVEN,), (PROVEN, (b"X-Forwarded-User", EVE.encode())), (ALICES,)):
            head = [
                b"GET /r/default/cart HTTP/1.1",
                f"Host: {address.netloc}".encode(),
                *(b": ".join(each) for each in said),
            ]
            writer.write(b"\r\n".join([*head, b"", b""]))
            async with asyncio.timeout(PATIENCE_S):
                size = int((await reader.readuntil(b"\r\n\r\n")).lower().partition(b"content-length: ")[2].split()[0])
                bodies.append((await reader.readexactly(size)).decode())
        writer.close()

    assert [ALICE in body for body in bodies] == [True, False, False, False]
    assert ["waiting for promotion" in body for body in bodies] == [True, False, False, False]
    assert EVE in bodies[2]


_NAMES = st.sampled_from(
    [b"X-Forwarded-User", b"x-forwarded-user", b"X_Forwarded_User", b"X-Forwarded-Groups", b"X-FORWARDED_GROUPS"]
)
_TEXTS = st.one_of(
    st.sampled_from(
        [b"alice", b"system:masters", b"a, b", b"", b" ", b"shop readers,x", b"SYSTEM:x,shop-releasers", b"\xff"]
    ),
    st.binary(max_size=12),
)


@given(st.lists(st.tuples(_NAMES, _TEXTS), max_size=4))
def test_an_identity_is_what_one_header_says(headers: list[tuple[bytes, bytes]]) -> None:
    """Whatever is sent: a refusal, or the one name that was sent, with groups that count and none of the API server's own."""
    found = identity_in(headers, RULES)

    if isinstance(found, RefusedRequest):
        assert found.why
        return
    (sent,) = [value for name, value in headers if name.lower().replace(b"_", b"-") == b"x-forwarded-user"]
    assert found.user.encode() == sent.strip()
    assert found.user.isascii()
    assert found.user.isprintable()
    assert not found.user.lower().startswith("system:")
    of_groups = [value for name, value in headers if b"groups" in name.lower()]
    assert len(of_groups) <= 1
    assert b"system:" not in b"".join(of_groups).lower() or b",system:" not in b"," + b"".join(of_groups).lower()
    assert {*found.groups} <= RULES.groups
    assert {*found.groups} <= {each.strip().decode("latin-1") for each in b"".join(of_groups).split(b",")}


def test_without_a_list_no_group_counts() -> None:
    """A group that nobody has named may have any rights in the cluster."""
    found = identity_in(
        ((b"X-Forwarded-User", b"alice"), (b"X-Forwarded-Groups", b"admins,cluster-admins")), IdentityRules()
    )

    assert found == PersonIdentity("alice")
