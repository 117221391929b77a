"""Promise: a metric's request goes to the address that was judged, with its own credentials, within its time, or not at all."""

from __future__ import annotations

import asyncio
import gzip
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import structlog

from rollouts.core.model.frozen import replace
from rollouts.metrics.requests import Basic, Bearer, HttpAnswer, MetricEndpoint
from rollouts.secret import Secret
from tests.probes.metric_questions import (
    DEADLINE_S,
    GOOD,
    SECRET,
    TOKEN,
    Make,
    ask,
    endpoint_of,
    oauth,
    request_to,
    resolver_of,
    why_not,
)
from tests.probes.servers import needs_openssl, ok, raw, redirect, refused_port, served_as, serving


@dataclass
class Time:
    """A clock that goes when it is told to."""

    at_s: float = 1_000.0

    def now_s(self) -> float:
        return self.at_s

    monotonic_s = now_s


async def test_a_request_is_sent_as_it_is_and_its_answer_comes_back(asker: Make) -> None:
    """Method, path with query, headers and body; any status; uncompressed, on one connection."""
    headers = (("X-Own", SECRET), ("Content-Type", Secret("text/plain")))
    async with serving({"/a": raw(b"no", status="422 Unprocessable", headers=["X-A: 1"])}) as server:
        sending = {"method": "PUT", "headers": headers, "body": b"hello"}
        found = await ask(asker(), endpoint_of(server), "/a/?b=c%20d/", **sending)

    assert found == HttpAnswer(status=422, body=b"no", content_type="application/json")
    (sent,) = server.sent
    assert (sent.line, sent.body) == ("PUT /a/?b=c%20d/ HTTP/1.1", b"hello")
    assert (sent.headers["x-own"], sent.headers["content-type"]) == (TOKEN, "text/plain")
    assert (sent.headers["accept-encoding"], sent.headers["user-agent"]) == ("identity", "rollouts")
    assert "authorization" not in sent.headers


async def test_a_cookie_of_an_answer_is_sent_to_nobody(asker: Make) -> None:
    """One address may serve several tenants: what one of them was told to remember must not go along with another's request."""
    async with serving({"/": raw(b"{}", headers=["Set-Cookie: session=of-somebody; Path=/"])}) as server:
        by = asker()
        for _ in range(2):
            await ask(by, endpoint_of(server), "/")

    assert [each.headers.get("cookie") for each in server.sent] == [None, None]


def bomb() -> bytes:
    """64 MiB as an answer of 64 KiB. Made for its test only: each worker would make it while it collects the tests."""
    return raw(gzip.compress(b" " * (64 << 20)), headers=["Content-Encoding: gzip"])


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
        (bomb, "compressed"),
    ],
    ids=["redirect", "gzip", "br", "huge", "endless", "cut", "no HTTP", "nothing", "headers", "chunks", "bomb"],
)
async def test_an_answer_that_is_not_one_is_none(asker: Make, answer: bytes | Callable[[], bytes], words: str) -> None:
    """Nobody else is asked, nothing is unpacked, and what is read has an end."""
    async with serving({"/": answer() if callable(answer) else answer}) as server:
        why = why_not(await ask(asker(), endpoint_of(server)))

    assert words in why
    assert TOKEN not in why
    assert f"http://127.0.0.1:{server.port}" in why
    assert len(server.asked) == 1


@pytest.mark.parametrize("drip_s", [0.0, 0.02])
async def test_a_slow_answer_ends_with_the_deadline(asker: Make, drip_s: float) -> None:
    """Nobody answers, or a byte comes now and then: the time is for all of it, the metric's or the caller's."""
    async with serving({"/": raw(b" " * 2_000) if drip_s else None}, drip_s=drip_s) as server:
        began_s = time.monotonic()
        mine = await ask(asker(), endpoint_of(server), timeout_s=0.2)
        theirs = await asker().ask(request_to(server.url()), endpoint_of(server), deadline_s=0.3)

    assert "no answer within 0.2 s" in why_not(mine)
    assert "no answer within 0.3 s" in why_not(theirs)
    assert time.monotonic() - began_s < 3.0


async def test_a_resolver_that_hangs_ends_with_the_deadline(asker: Make) -> None:
    """Names are part of the time."""

    async def never(host: str, port: int) -> Sequence[str]:
        await asyncio.Event().wait()
        return []

    answer = await ask(asker(resolve=never), MetricEndpoint(url="http://a", declared=True), timeout_s=0.2)

    assert "has no address" in why_not(answer) or "no answer within 0.2 s" in why_not(answer)


async def test_the_environments_proxy_is_not_used(asker: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would see the credentials, and answer for the endpoint."""
    for name in ("HTTP_PROXY", "ALL_PROXY", "http_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{await refused_port()}")
    async with serving(GOOD) as server:
        assert isinstance(await ask(asker(), endpoint_of(server)), HttpAnswer)


async def test_the_next_address_is_asked_when_nobody_listens(asker: Make) -> None:
    """A Prometheus of two replicas, one of which is away; a request that was sent is not sent twice."""
    async with serving(GOOD, host="127.0.0.2") as server:
        by = asker(resolve=resolver_of(prom=["127.0.0.1", "127.0.0.2"]))
        endpoint = MetricEndpoint(url=server.url("prom"), declared=True)
        assert isinstance(await ask(by, endpoint), HttpAnswer)
        server.answers = {"/": b""}
        assert "disconnected" in why_not(await ask(by, endpoint, method="POST", body=b"x"))

    assert len(server.sent) == 2
    assert server.hosts == [f"prom:{server.port}"] * 2


@pytest.mark.parametrize(
    ("credentials", "header"),
    [(Basic("user", SECRET), "Basic dXNlcjpwbDRudGVkLXQwa2Vu"), (Bearer(SECRET), f"Bearer {TOKEN}"), (None, None)],
)
async def test_credentials_are_sent_to_their_origin(asker: Make, credentials: Any, header: str | None) -> None:
    """In place of what a metric sets itself, as are the endpoint's own headers: a metric does not choose whose data it sees."""
    async with serving(GOOD) as server:
        endpoint = endpoint_of(server, credentials=credentials, headers=(("X-Scope-OrgID", Secret("shop")),))
        own = (("authorization", Secret("Bearer mine")), ("x-scope-orgid", Secret("other")), ("X-Own", Secret("1")))
        assert isinstance(await ask(asker(), endpoint, headers=own), HttpAnswer)

    (sent,) = server.sent
    assert sent.headers["authorization"] == (header or "Bearer mine")
    assert (sent.headers["x-scope-orgid"], sent.headers["x-own"]) == ("shop", "1")


async def test_nothing_is_sent_to_another_origin(asker: Make) -> None:
    """Another port, host or scheme is somebody else."""
    async with serving(GOOD) as server, serving(GOOD) as other:
        endpoint = endpoint_of(server, credentials=Bearer(SECRET))
        for url in (other.url(), server.url("localhost"), f"https://127.0.0.1:{server.port}", "", "http://"):
            answer = await asker().ask(request_to(url), endpoint, deadline_s=DEADLINE_S)
            assert "not go below" in why_not(answer)

    assert server.sent == other.sent == []


async def test_client_credentials_are_changed_for_a_token_that_is_kept(asker: Make) -> None:
    """The secret goes to the token's server alone; a token is asked for again before it is old, and when it is refused."""
    clock = Time()
    async with serving(GOOD) as tokens, serving(GOOD) as server:
        by, endpoint = asker(clock=clock), endpoint_of(server, credentials=oauth(tokens))
        await ask(by, endpoint)
        await ask(by, endpoint)
        assert len(tokens.sent) == 1
        (asked,) = tokens.sent
        assert asked.line == "POST /token HTTP/1.1"
        assert asked.headers["authorization"] == "Basic aSUzQWQ6cGw0bnRlZC10MGtlbg=="
        assert asked.body == b"grant_type=client_credentials&scope=a+b"
        clock.at_s += 3_571
        await ask(by, endpoint)
        assert len(tokens.sent) == 2
        server.answers = {"/": raw(b"", status="401 Unauthorized")}
        await ask(by, endpoint)
        await ask(by, endpoint)
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
        why = why_not(await ask(asker(), endpoint_of(server, credentials=oauth(tokens))))

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
        f"HTTP/1.1 200 OK\r\nContent-Length: {TOKEN}\r\n\r\n",
        f"HTTP/1.1 200 OK\r\nContent-Encoding: {TOKEN}\r\n\r\n",
    ]
    with structlog.testing.capture_logs() as logged:
        for answer in answers:
            async with serving({"/": answer.encode()}) as server:
                for credentials in (Bearer(SECRET), Basic(TOKEN, SECRET), oauth(server)):
                    endpoint = endpoint_of(server, credentials=credentials, headers=(("X-A", SECRET),))
                    sent = {"headers": (("X-B", SECRET),), "method": "POST", "body": TOKEN.encode()}
                    found = await ask(asker(), endpoint, f"/{TOKEN}", **sent)
                    assert TOKEN not in f"{found}{found!r}"
        refused = MetricEndpoint(url=f"http://127.0.0.1:{await refused_port()}/{TOKEN}", declared=True)
        assert TOKEN not in why_not(await ask(asker(), refused, f"?{TOKEN}"))

    assert logged
    assert TOKEN not in str(logged)
    assert TOKEN not in caplog.text


@needs_openssl
async def test_a_certificate_is_checked_for_the_name(asker: Make, tmp_path: Path) -> None:
    """By the authority that was named; `insecure` asks whoever is there."""
    served = served_as("prom.example", tmp_path)
    resolve = resolver_of(prom=["127.0.0.1"], other=["127.0.0.1"])
    async with serving(GOOD, tls=served) as server:
        known, stranger = asker(resolve=resolve, ca_file=tmp_path / "cert.pem"), asker(resolve=resolve)
        good = MetricEndpoint(url=f"https://prom.example:{server.port}", declared=True)
        bad = MetricEndpoint(url=f"https://other.example:{server.port}", declared=True, credentials=Bearer(SECRET))
        assert isinstance(await ask(known, good), HttpAnswer)
        assert "certificate" in why_not(await ask(known, bad))
        assert "certificate" in why_not(await ask(stranger, good))
        assert len(server.sent) == 1
        assert isinstance(await ask(stranger, replace(bad, insecure=True)), HttpAnswer)


@needs_openssl
async def test_an_endpoint_may_have_an_authority_and_a_name_of_its_own(asker: Make, tmp_path: Path) -> None:
    """A Prometheus within the cluster has a certificate of the cluster's authority, for another name than its Service's."""
    served = served_as("prom.internal", tmp_path)
    by = asker(resolve=resolver_of(prom=["127.0.0.1"]))
    async with serving(GOOD, tls=served) as server:
        endpoint = MetricEndpoint(url=f"https://prom.example:{server.port}", declared=True)
        known = replace(endpoint, authorities=(tmp_path / "cert.pem").read_text())
        assert "certificate" in why_not(await ask(by, known))
        assert "certificate" in why_not(await ask(by, replace(endpoint, server_name="prom.internal")))
        assert server.sent == []
        assert isinstance(await ask(by, replace(known, server_name="prom.internal")), HttpAnswer)
        assert server.hosts == [f"prom.example:{server.port}"]
        assert "cannot be used" in why_not(await ask(by, replace(endpoint, authorities=TOKEN)))


async def test_fifty_hanging_endpoints_delay_no_other(asker: Make) -> None:
    """Each has a connection of its own; the next question is answered while all of them hang."""
    async with serving({"/slow": None, **GOOD}) as server:
        by, endpoint = asker(), endpoint_of(server)
        hanging = [asyncio.create_task(ask(by, endpoint, "/slow")) for _ in range(50)]
        while len(server.sent) < len(hanging):  # noqa: ASYNC110 - the server writes down what it was asked
            await asyncio.sleep(0)
        assert isinstance(await ask(by, endpoint), HttpAnswer)
        assert not any(each.done() for each in hanging)
        for each in hanging:
            each.cancel()
        assert len(await asyncio.gather(*hanging, return_exceptions=True)) == len(hanging)
