"""Promise: a metric's request goes to the address that was judged, with its own credentials, within its time, or not at all."""

from __future__ import annotations

import asyncio
import gzip
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
import structlog

from rollouts.clock import SystemClock
from rollouts.metrics.addresses import AddressKind, TenantUrls, address_kind, may_be_asked, url_problem
from rollouts.metrics.requests import (
    Basic,
    Bearer,
    ClientCredentials,
    HttpAnswer,
    HttpRequest,
    MetricAnswer,
    MetricEndpoint,
    NoAnswer,
)
from rollouts.probes.metric_asker import MetricAsker
from rollouts.secret import Secret
from tests.probes.servers import Server, needs_openssl, ok, raw, redirect, refused_port, served_as, serving

DEADLINE_S = 20.0
GOOD = {"/api/v1/query": ok({"status": "success"}), "/token": ok({"access_token": "tok-1", "expires_in": 3600})}
TOKEN = "pl4nted-t0ken"
SECRET = Secret(TOKEN)
OPEN = TenantUrls(allowed=True)


@dataclass
class Time:
    """A clock that goes when it is told to."""

    at_s: float = 1_000.0

    def now_s(self) -> float:
        """Seconds since 1970."""
        return self.at_s

    def monotonic_s(self) -> float:
        """Seconds."""
        return self.at_s


Make = Callable[..., MetricAsker]


@pytest.fixture
async def asker() -> AsyncIterator[Make]:
    """Askers; closed afterwards."""
    made: list[MetricAsker] = []

    def make(*, tenants: TenantUrls = OPEN, clock: Any = None, **more: Any) -> MetricAsker:
        made.append(MetricAsker(tenants=tenants, clock=clock or SystemClock(), **more))
        return made[-1]

    yield make
    for each in made:
        await each.aclose()
        await each.aclose()


def _endpoint(server: Server, **changes: Any) -> MetricEndpoint:
    return MetricEndpoint(url=server.url(), **{"declared": True, **changes})


def _request(url: str, **changes: Any) -> HttpRequest:
    return HttpRequest(url=url, **{"timeout_s": DEADLINE_S, **changes})


async def _ask(by: MetricAsker, endpoint: MetricEndpoint, path: str = "/api/v1/query", **changes: Any) -> MetricAnswer:
    return await by.ask(_request(endpoint.url + path, **changes), endpoint, deadline_s=DEADLINE_S)


def _why(answer: MetricAnswer) -> str:
    assert isinstance(answer, NoAnswer), answer
    return answer.why


async def test_a_request_is_sent_as_it_is_and_its_answer_comes_back(asker: Make) -> None:
    """Method, path with query, headers and body; any status; uncompressed, on one connection."""
    async with serving({"/a": raw(b"no", status="422 Unprocessable", headers=["X-A: 1"])}) as server:
        found = await _ask(
            asker(),
            _endpoint(server),
            "/a/?b=c%20d/",
            method="PUT",
            headers=(("X-Own", SECRET), ("Content-Type", Secret("text/plain"))),
            body=b"hello",
        )

    assert found == HttpAnswer(status=422, body=b"no", content_type="application/json")
    (sent,) = server.sent
    assert (sent.line, sent.body) == ("PUT /a/?b=c%20d/ HTTP/1.1", b"hello")
    assert (sent.headers["x-own"], sent.headers["content-type"]) == (TOKEN, "text/plain")
    assert (sent.headers["accept-encoding"], sent.headers["user-agent"]) == ("identity", "rollouts")
    assert "authorization" not in sent.headers


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (redirect("http://127.0.0.1:1/"), "redirect (302), which is not followed"),
        (raw(gzip.compress(b"[1]"), headers=["Content-Encoding: gzip"]), "compressed"),
        (raw(b"[1]", headers=["Content-Encoding: br"]), "compressed"),
        (raw(b" " * ((1 << 20) + 1)), "more than 1 MiB"),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + b" " * (2 << 20), "more than 1 MiB"),
        (raw(b"[1", length=10), "peer closed connection"),
        (f"HTTP/9.9 {TOKEN}\r\n\r\n".encode(), "illegal"),
        (b"", "disconnected"),
        (b"HTTP/1.1 200 OK\r\n" + b"X-A: 1\r\n" * 20_000 + b"\r\n", ""),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nZZZ\r\n", ""),
        (raw(gzip.compress(b" " * (64 << 20)), headers=["Content-Encoding: gzip"]), "compressed"),
    ],
    ids=["redirect", "gzip", "br", "huge", "endless", "cut", "no HTTP", "nothing", "headers", "chunks", "bomb"],
)
async def test_an_answer_that_is_not_one_is_none(asker: Make, answer: bytes, words: str) -> None:
    """Nobody else is asked, nothing is unpacked, and what is read has an end."""
    async with serving({"/": answer}) as server:
        why = _why(await _ask(asker(), _endpoint(server)))

    assert words in why
    assert TOKEN not in why
    assert f"http://127.0.0.1:{server.port}" in why
    assert len(server.asked) == 1


@pytest.mark.parametrize("drip_s", [0.0, 0.02])
async def test_a_slow_answer_ends_with_the_deadline(asker: Make, drip_s: float) -> None:
    """Nobody answers, or a byte comes now and then: the time is for all of it, the metric's or the caller's."""
    async with serving({"/": raw(b" " * 2_000) if drip_s else None}, drip_s=drip_s) as server:
        began_s = time.monotonic()
        mine = await _ask(asker(), _endpoint(server), timeout_s=0.2)
        request = _request(server.url("127.0.0.1"))
        theirs = await asker().ask(request, _endpoint(server), deadline_s=0.3)

    assert "no answer within 0.2 s" in _why(mine)
    assert "no answer within 0.3 s" in _why(theirs)
    assert time.monotonic() - began_s < 3.0


async def test_a_resolver_that_hangs_ends_with_the_deadline(asker: Make) -> None:
    """Names are part of the time."""

    async def never(host: str, port: int) -> Sequence[str]:
        await asyncio.Event().wait()
        return []

    answer = await _ask(asker(resolve=never), MetricEndpoint(url="http://a", declared=True), timeout_s=0.2)

    assert "has no address" in _why(answer) or "no answer within 0.2 s" in _why(answer)


async def test_the_environments_proxy_is_not_used(asker: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would see the credentials, and answer for the endpoint."""
    for name in ("HTTP_PROXY", "ALL_PROXY", "http_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{await refused_port()}")
    async with serving(GOOD) as server:
        assert isinstance(await _ask(asker(), _endpoint(server)), HttpAnswer)


async def test_the_next_address_is_asked_when_nobody_listens(asker: Make) -> None:
    """A Prometheus of two replicas, one of which is away; a request that was sent is not sent twice."""
    async with serving(GOOD, host="127.0.0.2") as server:
        by = asker(resolve=_resolving(prom=["127.0.0.1", "127.0.0.2"]))
        endpoint = MetricEndpoint(url=server.url("prom"), declared=True)
        assert isinstance(await _ask(by, endpoint), HttpAnswer)
        server.answers = {"/": b""}
        assert "disconnected" in _why(await _ask(by, endpoint, method="POST", body=b"x"))

    assert len(server.sent) == 2
    assert server.hosts == [f"prom:{server.port}"] * 2


@pytest.mark.parametrize(
    ("credentials", "header"),
    [
        (Basic("user", SECRET), "Basic dXNlcjpwbDRudGVkLXQwa2Vu"),
        (Bearer(SECRET), f"Bearer {TOKEN}"),
        (None, None),
    ],
)
async def test_credentials_are_sent_to_their_origin(asker: Make, credentials: Any, header: str | None) -> None:
    """In place of what a metric sets itself, as are the endpoint's own headers: a metric does not choose whose data it sees."""
    async with serving(GOOD) as server:
        endpoint = _endpoint(server, credentials=credentials, headers=(("X-Scope-OrgID", Secret("shop")),))
        own = (("authorization", Secret("Bearer mine")), ("x-scope-orgid", Secret("other")), ("X-Own", Secret("1")))
        assert isinstance(await _ask(asker(), endpoint, headers=own), HttpAnswer)

    (sent,) = server.sent
    assert sent.headers["authorization"] == (header or "Bearer mine")
    assert (sent.headers["x-scope-orgid"], sent.headers["x-own"]) == ("shop", "1")


async def test_nothing_is_sent_to_another_origin(asker: Make) -> None:
    """Another port, host or scheme is somebody else."""
    async with serving(GOOD) as server, serving(GOOD) as other:
        endpoint = _endpoint(server, credentials=Bearer(SECRET))
        for url in (other.url(), server.url("localhost"), f"https://127.0.0.1:{server.port}", "", "http://"):
            answer = await asker().ask(_request(url), endpoint, deadline_s=DEADLINE_S)
            assert "another origin" in _why(answer)

    assert server.sent == other.sent == []


def _oauth(server: Server, **changes: Any) -> ClientCredentials:
    values = {"token_url": f"{server.url()}/token", "client_id": "i:d", "client_secret": SECRET, "scopes": ("a", "b")}
    return ClientCredentials(**{**values, **changes})


async def test_client_credentials_are_changed_for_a_token_that_is_kept(asker: Make) -> None:
    """The secret goes to the token's server alone; a token is asked for again before it is old, and when it is refused."""
    clock = Time()
    async with serving(GOOD) as tokens, serving(GOOD) as server:
        by, endpoint = asker(clock=clock), _endpoint(server, credentials=_oauth(tokens))
        await _ask(by, endpoint)
        await _ask(by, endpoint)
        assert len(tokens.sent) == 1
        (asked,) = tokens.sent
        assert asked.line == "POST /token HTTP/1.1"
        assert asked.headers["authorization"] == "Basic aSUzQWQ6cGw0bnRlZC10MGtlbg=="
        assert asked.body == b"grant_type=client_credentials&scope=a+b"
        clock.at_s += 3_571
        await _ask(by, endpoint)
        assert len(tokens.sent) == 2
        server.answers = {"/": raw(b"", status="401 Unauthorized")}
        await _ask(by, endpoint)
        await _ask(by, endpoint)
        assert len(tokens.sent) == 3

    assert {each.headers["authorization"] for each in server.sent} == {"Bearer tok-1"}
    assert all(TOKEN not in str(each) for each in server.sent)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (raw(TOKEN.encode(), status="400 Bad Request"), "gives no token (400)"),
        (raw(TOKEN.encode()), "no bearer token"),
        (raw(b"[" * 100_000), "no bearer token"),
        (ok({"access_token": ""}), "no bearer token"),
        (ok({"access_token": "a\r\nX-B: 1"}), "no bearer token"),
        (ok({"access_token": "a", "token_type": "mac"}), "no bearer token"),
        (ok({"access_token": "a", "expires_in": TOKEN}), "no bearer token"),
        (ok({"access_token": "a" * 9_000}), "no bearer token"),
        (redirect("http://127.0.0.1/"), "redirect"),
    ],
)
async def test_a_token_that_is_none_is_told(asker: Make, answer: bytes, words: str) -> None:
    """And nothing is asked without one."""
    async with serving({"/token": answer}) as tokens, serving(GOOD) as server:
        why = _why(await _ask(asker(), _endpoint(server, credentials=_oauth(tokens))))

    assert words in why
    assert TOKEN not in why
    assert server.sent == []


async def test_no_secret_is_told_or_logged(asker: Make, caplog: pytest.LogCaptureFixture) -> None:
    """A server that repeats what it was sent, in each place of a broken answer."""
    caplog.set_level(logging.WARNING)
    answers = [
        f"HTTP/1.1 200 {TOKEN}\r\nX {TOKEN}\r\n\r\n",
        f"{TOKEN}\r\n\r\n",
        f"HTTP/1.1 302 Found\r\nLocation: /{TOKEN}\r\n\r\n",
    ]
    answers += [
        f"HTTP/1.1 200 OK\r\nContent-Length: {TOKEN}\r\n\r\n",
        f"HTTP/1.1 200 OK\r\nContent-Encoding: {TOKEN}\r\n\r\n",
    ]
    with structlog.testing.capture_logs() as logged:
        for answer in answers:
            async with serving({"/": answer.encode()}) as server:
                for credentials in (Bearer(SECRET), Basic(TOKEN, SECRET), _oauth(server)):
                    endpoint = _endpoint(server, credentials=credentials, headers=(("X-A", SECRET),))
                    request = _request(
                        f"{server.url()}/{TOKEN}", headers=(("X-B", SECRET),), method="POST", body=TOKEN.encode()
                    )
                    found = await asker().ask(request, endpoint, deadline_s=DEADLINE_S)
                    assert TOKEN not in f"{found}{found!r}"
        refused = MetricEndpoint(url=f"http://127.0.0.1:{await refused_port()}/{TOKEN}", declared=True)
        found = await asker().ask(_request(f"{refused.url}?{TOKEN}"), refused, deadline_s=DEADLINE_S)
        assert TOKEN not in _why(found)

    assert logged
    assert TOKEN not in str(logged)
    assert TOKEN not in caplog.text


PUBLIC = ["93.184.216.34", "2606:2800:220:1::1", "8.8.8.8", "1.1.1.1", "2a00:1450:4001::5"]
PRIVATE = [
    *("127.0.0.1", "127.8.9.10", "10.0.0.1", "10.255.255.255", "172.16.0.1", "172.31.255.255", "192.168.1.1"),
    *("100.64.0.1", "100.127.255.254", "::1", "fc00::1", "fdff::1"),
]
REFUSED = [
    *("169.254.169.254", "169.254.0.1", "169.254.170.2", "100.100.100.200", "168.63.129.16", "192.0.0.192"),
    *("fd00:ec2::254", "fd20:ce::254", "fe80::1", "fe80::1%eth0", "fe80::a9fe:a9fe", "fec0::1"),
    *("0.0.0.0", "0.1.2.3", "::", "255.255.255.255", "224.0.0.1", "239.1.1.1", "ff02::1", "240.0.0.1"),  # noqa: S104
    *("192.0.2.1", "198.51.100.1", "203.0.113.1", "198.18.0.1", "192.88.99.1", "2001:db8::1", "3fff::1"),
    *("::ffff:127.0.0.1", "::ffff:8.8.8.8", "::ffff:a9fe:a9fe", "::127.0.0.1", "::8.8.8.8", "64:ff9b::7f00:1"),
    *("64:ff9b:1::1", "2002:7f00:1::", "2001:0:7f00:1::", "2001::1", "100::1", "5f00::1"),
    *("", "localhost", "127.1", "0x7f.1", "2130706433", "8.8.8.8.8", "8.8.8.8 ", "[::1]"),
]


@pytest.mark.parametrize(
    ("addresses", "kind"),
    [(PUBLIC, AddressKind.PUBLIC), (PRIVATE, AddressKind.PRIVATE), (REFUSED, AddressKind.REFUSED)],
)
def test_addresses_are_judged(addresses: list[str], kind: AddressKind) -> None:
    """A tenant may have public ones alone, an administrator all but those of metadata services and of nobody."""
    for each in addresses:
        assert address_kind(each) is kind, each
        assert may_be_asked(each, OPEN) is (kind is AddressKind.PUBLIC), each
        assert may_be_asked(each, None) is (kind is not AddressKind.REFUSED), each


def test_the_clusters_own_public_networks_may_be_refused() -> None:
    """An API server with a public address is still the cluster's own."""
    tenants = replace(OPEN, refused=(ip_network("93.184.216.0/24"), ip_network("2606:2800::/32")))

    assert [may_be_asked(each, tenants) for each in PUBLIC] == [False, False, True, True, True]


BAD_URLS = [
    # Not a URL of a server, or with parts that readers understand differently.
    *(
        "",
        "http",
        "https://",
        "https:///x",
        "//a.example/",
        "a.example",
        "ftp://a.example",
        "file:///etc/passwd",
        "gopher://a/x",
    ),
    *(
        "data:,x",
        "javascript:1",
        "unix:/run/x.sock",
        "https:a.example",
        "https:/a.example",
        "https:\\\\a.example",
        " https://a.example",
    ),
    *(
        "https://a.example ",
        "https://a.example/a b",
        "https://a.exa\nmple/",
        "https://a.example/\r\nX: 1",
        "https://a.example/\t",
    ),
    *(
        "https://a.example\\@b.example/",
        "https://a.example#@b.example/",
        "https://a.example/#x",
        "https://user@a.example",
    ),
    *(
        "https://user:word@a.example",
        "https://@a.example",
        "https://a.example@127.0.0.1/",
        "https://127.0.0.1:443@a.example",
    ),
    *(
        "https://a.example:",
        "https://a.example:0/",
        "https://a.example:99999/",
        "https://a.example:-1/",
        "https://a.example:44a/",
    ),
    *(
        "https://ⓐ.example/",
        "https://ⅼocalhost/",
        "https://①②⑦.0.0.1/",
        "https://127。0。0。1/",
        "https://a%2eexample/",
    ),
    *(
        "https://[::1",
        "https://::1/",
        "https://[::1]]/",
        "https://[fe80::1%25eth0]/",
        "https://[::1%lo]/",
        "https://[a]/",
    ),
    *(
        "https://a.example/" + "a" * 5_000,
        "https://" + "a" * 300 + "/",
        "https://a.example/\x00",
        "https://a.example/é",
    ),
    # Not for tenants.
    *(
        "http://a.example",
        "https://a.example:8443",
        "https://a.example:6443/",
        "https://a.example:22",
        "https://a.example:9090/",
    ),
    *("https://2130706433/", "https://0x7f000001/", "https://017700000001/", "https://127.1/", "https://0177.0.0.1/"),
    *(
        "https://0x7f.0.0.1/",
        "https://127.0.0.1.2/",
        "https://1/",
        "https://0/",
        "https://127.0.0.0x1/",
        "https://a.0x1/",
    ),
]
BAD_HOSTS = [
    *(
        "https://127.0.0.1/",
        "https://10.0.0.1/",
        "https://169.254.169.254/latest/meta-data/",
        "https://[::1]/",
        "https://[::]/",
    ),
    *(
        "https://[::ffff:127.0.0.1]/",
        "https://[::ffff:7f00:1]/",
        "https://[64:ff9b::7f00:1]/",
        "https://[fd00:ec2::254]/",
    ),
    *(
        "https://0.0.0.0/",
        "https://100.100.100.200/",
        "https://168.63.129.16/",
        "https://192.168.0.1/",
        "https://localhost/",
    ),
    *("https://LOCALHOST/", "https://100.64.0.1/", "https://172.20.0.1/", "https://[fe80::1]/"),
]


@pytest.mark.parametrize("url", BAD_URLS)
async def test_a_url_that_a_tenant_may_not_name_is_not_asked(asker: Make, url: str) -> None:
    """Not even its name is looked up."""

    async def seen(host: str, port: int) -> Sequence[str]:
        raise AssertionError(host)

    assert url_problem(url, OPEN)
    answer = await asker(resolve=seen).ask(_request(url), MetricEndpoint(url=url), deadline_s=DEADLINE_S)
    assert isinstance(answer, NoAnswer)
    assert "word" not in answer.why


@pytest.mark.parametrize("url", BAD_HOSTS)
async def test_an_address_that_a_tenant_may_not_ask_is_not_asked(asker: Make, url: str) -> None:
    """By the system's own resolver, which knows each way to write an address."""
    answer = await asker().ask(_request(url), MetricEndpoint(url=url), deadline_s=DEADLINE_S)

    assert "may not be asked" in _why(answer)


def test_the_corpora_are_large_enough() -> None:
    """Of URLs and of addresses."""
    assert len(BAD_URLS) + len(BAD_HOSTS) >= 60
    assert len(PUBLIC) + len(PRIVATE) + len(REFUSED) >= 60


@pytest.mark.parametrize(
    ("url", "tenants", "words"),
    [
        ("https://a.example/x?y=1", OPEN, ""),
        ("https://A.Example.:443", OPEN, ""),
        ("https://8.8.8.8/", OPEN, ""),
        ("https://[2606:2800::1]/", OPEN, ""),
        ("https://a.example/x@b", OPEN, ""),
        ("https://a.example", TenantUrls(), "an administrator declared"),
        ("http://a.example", replace(OPEN, plain_http=True, ports=frozenset({80})), ""),
        ("https://a.example:9090", replace(OPEN, ports=frozenset({9090})), ""),
        ("https://m.a.example", replace(OPEN, hosts=("*.a.example",)), ""),
        ("https://a.example", replace(OPEN, hosts=("*.a.example",)), "not one that"),
        ("https://ba.example", replace(OPEN, hosts=("*.a.example", "a.example")), "not one that"),
        ("https://a.example.evil", replace(OPEN, hosts=("a.example",)), "not one that"),
        ("http://prometheus.monitoring:9090", None, ""),
        ("http://127.0.0.1:9090", None, ""),
    ],
)
def test_the_administrator_says_which_urls_tenants_may_name(url: str, tenants: TenantUrls | None, words: str) -> None:
    """None at first; then https on 443 alone."""
    problem = url_problem(url, tenants)

    assert (words in problem) if words else problem == ""


def _resolving(**addresses: Sequence[str]) -> Callable[[str, int], Awaitable[Sequence[str]]]:
    async def resolve(host: str, port: int) -> Sequence[str]:
        return addresses[host.partition(".")[0]]

    return resolve


@pytest.mark.parametrize(
    ("found", "declared"),
    [
        (["127.0.0.1"], False),
        (["93.184.216.34", "127.0.0.1"], False),
        (["93.184.216.34", "::ffff:7f00:1"], False),
        (["fe80::1%lo"], False),
        (["not an address"], False),
        (["169.254.169.254"], True),
        (["127.0.0.1", "169.254.169.254"], True),
    ],
)
async def test_all_addresses_of_a_name_must_be_good(asker: Make, found: list[str], declared: bool) -> None:
    """A name with a good and a bad address gets the bad one asked sooner or later; the answer does not tell which it has."""
    async with serving(GOOD) as server:
        tenants = replace(OPEN, plain_http=True, ports=frozenset({server.port}))
        endpoint = MetricEndpoint(url=server.url("a.example"), declared=declared)
        why = _why(await _ask(asker(tenants=tenants, resolve=_resolving(a=found)), endpoint))

    assert "address" in why
    assert not any(each in why for each in found)
    assert server.sent == []


async def test_a_name_that_changes_its_address_is_asked_where_it_was_judged(asker: Make) -> None:
    """To a good address first, to the metadata service then: one look a request, and the connection goes to what was seen."""
    looks: list[str] = []

    async def rebinding(host: str, port: int) -> Sequence[str]:
        looks.append(host)
        return ["127.0.0.2"] if len(looks) == 1 else ["169.254.169.254"]

    async with serving(GOOD, host="127.0.0.2") as server:
        by, endpoint = asker(resolve=rebinding), MetricEndpoint(url=server.url("a.example"), declared=True)
        assert isinstance(await _ask(by, endpoint), HttpAnswer)
        assert looks == ["a.example"]
        assert "may not be asked" in _why(await _ask(by, endpoint))

    assert server.hosts == [f"a.example:{server.port}"]


async def test_a_tenants_token_server_is_judged_too(asker: Make) -> None:
    """The secret of a tenant's client does not make the controller ask within the cluster."""
    async with serving(GOOD) as tokens:
        credentials = _oauth(tokens, token_url=f"http://internal.example:{tokens.port}/token")
        endpoint = MetricEndpoint(url="http://a.example:80", credentials=credentials)
        tenants = replace(OPEN, plain_http=True, ports=frozenset({80, tokens.port}))
        by = asker(tenants=tenants, resolve=_resolving(a=["93.184.216.34"], internal=["127.0.0.1"]))
        assert "may not be asked" in _why(await _ask(by, endpoint))

    assert tokens.sent == []


@needs_openssl
async def test_a_certificate_is_checked_for_the_name(asker: Make, tmp_path: Path) -> None:
    """By the authority that was named; `insecure` asks whoever is there."""
    served = served_as("prom.example", tmp_path)
    resolve = _resolving(prom=["127.0.0.1"], other=["127.0.0.1"])
    async with serving(GOOD, tls=served) as server:
        known, stranger = asker(resolve=resolve, ca_file=tmp_path / "cert.pem"), asker(resolve=resolve)
        good = MetricEndpoint(url=f"https://prom.example:{server.port}", declared=True)
        bad = MetricEndpoint(url=f"https://other.example:{server.port}", declared=True, credentials=Bearer(SECRET))
        assert isinstance(await _ask(known, good), HttpAnswer)
        assert "certificate" in _why(await _ask(known, bad))
        assert "certificate" in _why(await _ask(stranger, good))
        assert len(server.sent) == 1
        assert isinstance(await _ask(stranger, replace(bad, insecure=True)), HttpAnswer)


async def test_fifty_hanging_endpoints_delay_no_other(asker: Make) -> None:
    """Each has a connection of its own; the next question is answered while all of them hang."""
    async with serving({"/slow": None, **GOOD}) as server:
        by, endpoint = asker(), _endpoint(server)
        hanging = [asyncio.create_task(_ask(by, endpoint, "/slow")) for _ in range(50)]
        while len(server.sent) < len(hanging):  # noqa: ASYNC110 - the server writes down what it was asked
            await asyncio.sleep(0)
        assert isinstance(await _ask(by, endpoint), HttpAnswer)
        assert not any(each.done() for each in hanging)
        for each in hanging:
            each.cancel()
        assert len(await asyncio.gather(*hanging, return_exceptions=True)) == len(hanging)
