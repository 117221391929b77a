"""Promise: when a server refuses credentials, they are read again and the measurement is taken with what they are now."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rollouts.controller.providers.metric_providers import FreshCredentials
from rollouts.metrics.requests import (
    Bearer,
    ClientCredentials,
    HttpAnswer,
    HttpRequest,
    MetricAnswer,
    MetricEndpoint,
    NoAnswer,
    ServiceAccount,
)
from rollouts.secret import Secret
from tests.controller.providers.metric_world import KEY, TOKEN, URL, Running
from tests.probes.google_accounts import key_file

pytestmark = pytest.mark.virtual_time(limit_s=4_000)


class Picky:
    """A server that takes one token."""

    def __init__(self, token: str, refusal: MetricAnswer) -> None:
        self.token = token
        self.refusal = refusal
        self.asked = 0

    async def ask(self, _request: HttpRequest, endpoint: MetricEndpoint, *, deadline_s: float) -> MetricAnswer:
        """Takes its time, and looks at the credentials."""
        assert deadline_s > 0
        self.asked += 1
        await asyncio.sleep(0.1)
        match endpoint.credentials:
            case Bearer(secret) | ClientCredentials(client_secret=secret) | ServiceAccount(secret) if (
                secret.reveal() == self.token
            ):
                return HttpAnswer(status=200, body=b"{}")
            case _:
                return self.refusal


@pytest.mark.parametrize(
    ("spec", "refused"),
    [
        ({"bearer": KEY}, HttpAnswer(status=401, body=b"")),
        ({"bearer": KEY}, HttpAnswer(status=403, body=b"")),
        ({"google": {"key": KEY}}, NoAnswer("the URL of its token gives none")),
        ({"oauth2": {"tokenUrl": "https://l", "clientId": "a", "clientSecret": KEY}}, NoAnswer("gives no token (400)")),
    ],
)
async def test_a_refused_secret_is_read_again_and_sent_once_more(
    spec: dict[str, Any], refused: MetricAnswer, running: Running
) -> None:
    """The server refuses the old value: it is read again and the request is sent once more, within the same time."""
    old, newer = TOKEN, "newer"
    if "google" in spec:
        old, newer = key_file("https://l"), key_file("https://l", private_key_id="newer")
    running.secret(token=old)
    running.provider(**spec)
    await asyncio.sleep(20)
    server = Picky(newer, refused)
    asker = FreshCredentials(server, providers=running.providers, clock=running.cluster.clock)
    request = HttpRequest(url=URL, timeout_s=30)
    running.secret(token=newer)
    answer = await asker.ask(request, running.providers.declared()["prom"], deadline_s=10)
    assert answer == HttpAnswer(status=200, body=b"{}")
    assert (server.asked, running.door.count("/secrets/")) == (2, 2)


async def test_a_server_that_refuses_everything_is_not_asked_twice_each_time(running: Running) -> None:
    """Nor is the API server: one reading in ten seconds."""
    running.secret(token=TOKEN)
    running.provider(bearer=KEY)
    await asyncio.sleep(20)
    server = Picky("other", HttpAnswer(status=401, body=b""))
    asker = FreshCredentials(server, providers=running.providers, clock=running.cluster.clock)
    request = HttpRequest(url=URL, timeout_s=30)
    for _ in range(100):
        answer = await asker.ask(request, running.providers.declared()["prom"], deadline_s=10)
        assert answer == server.refusal
    assert server.asked == 100
    assert running.door.count("/secrets/") <= 3
    strange = MetricEndpoint(url="https://a.example", credentials=Bearer(Secret(TOKEN)))
    assert await asker.ask(request, strange, deadline_s=10) == server.refusal
    assert server.asked == 101
