"""Promise: the key of a Google service account becomes a token, which is kept while it lives; the key itself is told nobody."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from rollouts.core.model.frozen import replace
from rollouts.errors import Unanswered
from rollouts.metrics.google_key import SCOPES
from rollouts.metrics.requests import HttpAnswer, MetricEndpoint, ServiceAccount
from rollouts.probes.exchange import Outgoing, Received
from rollouts.probes.tokens import NOT_INSTALLED, Tokens, TokenThrottled
from rollouts.secret import Secret
from tests.probes.google_accounts import EMAIL, GoogleTokens, key_file
from tests.probes.metric_questions import GOOD, Make, ask, endpoint_of, oauth, request_to, why_not
from tests.probes.servers import Server, raw, serving


@dataclass
class Time:
    """A clock that goes when it is told to."""

    at_s: float = 1_700_000_000.0

    def now_s(self) -> float:
        return self.at_s

    monotonic_s = now_s


@dataclass
class Google:
    """A server of metrics, the server of its tokens, and what both were asked."""

    clock: Time
    fake: GoogleTokens
    tokens: Server
    metrics: Server

    def endpoint(self, **changes: Any) -> MetricEndpoint:
        """With a key file that leads to the server of tokens."""
        key = Secret(key_file(f"{self.tokens.url()}/token", **changes))
        return endpoint_of(self.metrics, credentials=ServiceAccount(key, SCOPES))


@pytest.fixture
async def google() -> AsyncIterator[Google]:
    """Both servers, for as long as a test runs."""
    clock = Time()
    fake = GoogleTokens(clock.now_s)
    async with serving({"/token": fake.answer}) as tokens, serving(GOOD) as metrics:
        fake.audience = f"{tokens.url()}/token"
        yield Google(clock, fake, tokens, metrics)


def _has_no_key(text: str) -> bool:
    return "PRIVATE" not in text and EMAIL not in text


async def test_a_token_is_asked_for_once_and_kept_until_it_is_about_to_end(asker: Make, google: Google) -> None:
    """However many metrics ask at once; and the key leaves the controller only as a signature."""
    by, endpoint = asker(clock=google.clock), google.endpoint()
    found = await asyncio.gather(*(ask(by, endpoint) for _ in range(20)))
    assert {each.status for each in found if isinstance(each, HttpAnswer)} == {200}
    assert google.fake.given == 1

    google.clock.at_s += 3_599 - 31
    await ask(by, endpoint)
    assert google.fake.given == 1
    google.clock.at_s += 2
    await ask(by, endpoint)
    assert google.fake.given == 2

    assert {each.headers["authorization"] for each in google.metrics.sent} == {"Bearer ya29.1", "Bearer ya29.2"}
    assert all(_has_no_key(str(each)) for each in (*google.metrics.sent, *google.tokens.sent))


async def test_a_token_that_the_server_refuses_is_not_used_again(asker: Make, google: Google) -> None:
    """It may have been revoked, or be older than both clocks say."""
    by, endpoint = asker(clock=google.clock), google.endpoint()
    google.metrics.answers = {"/": raw(b"", status="401 Unauthorized")}
    await ask(by, endpoint)
    google.metrics.answers = GOOD

    assert await ask(by, endpoint) == HttpAnswer(
        status=200, body=b'{"status": "success"}', content_type="application/json"
    )
    assert google.metrics.sent[-1].headers["authorization"] == "Bearer ya29.2"


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"audience": "https://oauth2.example/token"}, "gives no token (400, invalid_grant: the key was deleted"),
        ({"key": "another"}, "gives no token (400, invalid_grant: the key was deleted"),
        ({"now_s": lambda: 1_700_010_000.0}, "or this clock is wrong"),
        ({"now_s": lambda: 1_699_990_000.0}, "or this clock is wrong"),
    ],
    ids=["another audience", "a key that was deleted", "a clock behind", "a clock ahead"],
)
async def test_a_refusal_of_the_key_is_told_in_our_words(
    asker: Make, google: Google, caplog: pytest.LogCaptureFixture, wrong: dict[str, Any], words: str
) -> None:
    """Google's own may have a part of what was sent. The server of metrics is not asked."""
    google.tokens.answers = {"/token": replace(google.fake, **wrong).answer}

    why = why_not(await ask(asker(clock=google.clock), google.endpoint()))

    assert words in why
    assert _has_no_key(f"{why}{caplog.text}{google.endpoint()!r}")
    assert google.metrics.sent == []


async def test_a_scope_that_google_does_not_know_is_told(asker: Make, google: Google) -> None:
    """The MetricProvider names it."""
    endpoint = google.endpoint()
    assert isinstance(endpoint.credentials, ServiceAccount)
    other = replace(endpoint, credentials=replace(endpoint.credentials, scopes=("monitoring",)))

    assert "invalid_scope: it does not know a scope" in why_not(await ask(asker(clock=google.clock), other))


async def test_a_server_of_tokens_that_hangs_ends_with_the_deadline(asker: Make, google: Google) -> None:
    """And delays no other server; the next question asks again."""
    google.tokens.answers = {"/token": None}
    by, endpoint = asker(clock=google.clock), google.endpoint()
    slow = asyncio.ensure_future(by.ask(request_to(f"{endpoint.url}/api/v1/query"), endpoint, deadline_s=0.5))
    async with serving(GOOD) as other:
        answer = await ask(by, endpoint_of(other))
    assert isinstance(answer, HttpAnswer)
    assert not slow.done()

    assert why_not(await slow) == f"{endpoint.display_name}: no answer within 0.5 s"
    google.tokens.answers = {"/token": google.fake.answer}
    assert isinstance(await ask(by, endpoint), HttpAnswer)


@pytest.mark.parametrize("status", ["429 Too Many Requests", "503 Service Unavailable"])
async def test_a_server_of_tokens_that_wants_to_be_left_alone_is(asker: Make, google: Google, status: str) -> None:
    """As if the server of metrics had said so: all that ask it wait until then."""
    google.tokens.answers = {"/token": raw(b"", status=status, headers=["Retry-After: 7"])}

    answer = await ask(asker(clock=google.clock), google.endpoint())

    assert isinstance(answer, HttpAnswer)
    assert (answer.asks_to_wait, answer.retry_after_s) == (True, 7.0)


@pytest.mark.parametrize("declared", [True, False])
async def test_the_token_server_of_a_template_makes_nobody_else_wait(google: Google, declared: bool) -> None:
    """Whoever writes templates could keep everybody's metrics from a server otherwise."""

    async def throttled(_: Outgoing) -> Received:
        return Received(status=429, headers={"retry-after": "7"}, body=b"")

    with pytest.raises(Unanswered) as refused:
        await Tokens(google.clock).token_of(oauth(google.tokens, declared=declared), throttled)

    assert isinstance(refused.value, TokenThrottled) is declared


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"type": "authorized_user"}, "another type"),
        ({"type": "external_account"}, "another type"),
        ({"client_email": ""}, "without client_email"),
        ({"token_uri": "http://169.254.169.254/token"}, "metadata service"),
        ({"token_uri": "file:///etc/passwd"}, "the URL of its token: the URL must be https://"),
        ({"private_key": "MIIEvQ"}, "not PEM"),
        ({"private_key": "-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\n"}, "cannot be used"),
        ({"project_id": "x" * 20_000}, "has more than 16384 characters"),
    ],
)
async def test_a_key_that_is_none_is_told_without_a_part_of_it(
    asker: Make, google: Google, changes: dict[str, Any], words: str
) -> None:
    """Nobody is asked anything then."""
    why = why_not(await ask(asker(clock=google.clock), google.endpoint(**changes)))

    assert words in why
    assert _has_no_key(why)
    assert google.tokens.sent == google.metrics.sent == []


async def test_an_image_without_the_library_says_which_one_has_it(
    asker: Make, google: Google, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with AWS's, only those who need it carry it."""
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives", None)

    assert why_not(await ask(asker(clock=google.clock), google.endpoint())) == NOT_INSTALLED
