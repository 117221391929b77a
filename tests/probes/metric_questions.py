"""Questions for metric endpoints on the loopback, and who asks them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from rollouts.metrics.addresses import TenantUrls
from rollouts.metrics.requests import ClientCredentials, HttpRequest, MetricAnswer, MetricEndpoint, NoAnswer
from rollouts.probes.metric_asker import MetricAsker
from rollouts.secret import Secret
from tests.probes.servers import Server, ok

Make = Callable[..., MetricAsker]

DEADLINE_S = 20.0
GOOD = {"/api/v1/query": ok({"status": "success"}), "/token": ok({"access_token": "tok-1", "expires_in": 3600})}
TOKEN = "pl4nted-t0ken"
SECRET = Secret(TOKEN)
OPEN = TenantUrls(allowed=True)


def endpoint_of(server: Server, **changes: Any) -> MetricEndpoint:
    """A server that an administrator declared."""
    return MetricEndpoint(url=server.url(), **{"declared": True, **changes})


def request_to(url: str, **changes: Any) -> HttpRequest:
    """A request with all the time that there is."""
    return HttpRequest(url=url, **{"timeout_s": DEADLINE_S, **changes})


async def ask(by: MetricAsker, endpoint: MetricEndpoint, path: str = "/api/v1/query", **changes: Any) -> MetricAnswer:
    return await by.ask(request_to(endpoint.url + path, **changes), endpoint, deadline_s=DEADLINE_S)


def why_not(answer: MetricAnswer) -> str:
    assert isinstance(answer, NoAnswer), answer
    return answer.why


def oauth(server: Server, **changes: Any) -> ClientCredentials:
    values = {"token_url": f"{server.url()}/token", "client_id": "i:d", "client_secret": SECRET, "scopes": ("a", "b")}
    values["declared"] = True  # by an administrator
    return ClientCredentials(**{**values, **changes})


def resolver_of(**addresses: Sequence[str]) -> Callable[[str, int], Awaitable[Sequence[str]]]:
    """A resolver that knows the first labels of names."""

    async def resolve(host: str, port: int) -> Sequence[str]:
        return addresses[host.partition(".")[0]]

    return resolve
