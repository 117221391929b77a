"""Promise: the value of a secret goes into one request, and into no status, no message and no log."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest
from structlog.testing import capture_logs

from rollouts.api.spec.analysis.run import parse_run
from rollouts.bounded.here import Here
from rollouts.clock import SystemClock
from rollouts.controller.analysis.http_measurements import HttpMeasurements, SecretProblem
from rollouts.controller.analysis.sources import MeasuredRun
from rollouts.core.analysis.measurement import Measurement
from rollouts.core.analysis.metric import SecretReference
from rollouts.core.analysis.run import Due, Task
from rollouts.core.model.analysis import AnalysisPhase
from rollouts.metrics.addresses import TenantUrls
from rollouts.metrics.requests import HttpAnswer, HttpRequest, MetricAnswer, MetricEndpoint, NoAnswer
from rollouts.probes.metric_asker import MetricAsker

PLANTED = "pl4nted-t0ken"
NUMBER = "8412345"
RUN = MeasuredRun(namespace="shop", name="run", uid="u", rollout="cart", revision="abc", started_at_s=0.0)


class Echo:
    """A server that sends back what it was sent, in every way it can."""

    def __init__(self, answer: Any = None, *, status: int = 200, why: str = "") -> None:
        self.requests: list[HttpRequest] = []
        self._answer = answer
        self._status = status
        self._why = why

    async def ask(self, request: HttpRequest, _endpoint: MetricEndpoint, *, deadline_s: float) -> MetricAnswer:
        """See `ports.MetricEndpoints`."""
        assert deadline_s > 0
        self.requests.append(request)
        if self._why:
            return NoAnswer(self._why)
        return HttpAnswer(status=self._status, body=json.dumps(self._answer).encode(), content_type="application/json")


async def values(_namespace: str, secrets: tuple[SecretReference, ...]) -> Mapping[str, str] | SecretProblem:
    """What the Secrets of a namespace hold."""
    known = {"token": PLANTED, "number": NUMBER}
    return {each.argument: known[each.argument] for each in secrets if each.argument in known}


def holding(text: str) -> Callable[[str, tuple[SecretReference, ...]], Awaitable[Mapping[str, str]]]:
    """Secrets that hold a text, each of them."""

    async def values(_namespace: str, secrets: tuple[SecretReference, ...]) -> Mapping[str, str]:
        return {each.argument: text for each in secrets}

    return values


async def unreadable(_namespace: str, secrets: tuple[SecretReference, ...]) -> SecretProblem:
    """A controller that may not read Secrets."""
    return SecretProblem(f"the controller may not read {len(secrets)} Secrets")


async def measured(
    provider: Any, echo: Any, *, secret_values: Any = values, condition: str = "result > 0"
) -> Measurement:
    """One measurement of a metric whose arguments are secrets."""
    metric = {"name": "m", "provider": provider, "successCondition": condition}
    return await taken(metric, echo, secret_values=secret_values)


async def compared(of: Any, echo: Any, *, secret_values: Any = values) -> Measurement:
    """One look of a comparison whose arguments are secrets."""
    compare = {"kind": "value", "canary": "new", "stable": "old", "of": of, "effect": "10%"}
    metric = {"name": "m", "interval": "1m", "count": 9, "provider": {"compare": compare}}
    return await taken(metric, echo, secret_values=secret_values)


async def taken(metric: Any, echo: Any, *, secret_values: Any = values) -> Measurement:
    """One measurement of the metric."""
    names = ("token", "number", "missing")
    args = [{"name": name, "valueFrom": {"secretKeyRef": {"name": "keys", "key": name}}} for name in names]
    (parsed,) = parse_run({"metrics": [metric], "args": args}).metrics
    source = HttpMeasurements(
        endpoints=echo, declared=dict, secret_values=secret_values, bounded=Here(), clock=SystemClock(), deadline_s=5.0
    )
    due = Due(metric="m", task=Task.TAKE, number=1)
    return await source.measure(RUN, parsed, due, now_s=SystemClock().now_s())


def web(url: str = "https://shop.example/q", **more: Any) -> dict[str, Any]:
    """A web metric that sends both secrets in headers."""
    headers = [{"key": "Authorization", "value": "Bearer {{args.token}}"}, {"key": "N", "value": "{{args.number}}"}]
    return {"web": {"url": url, "headers": headers, **more}}


async def test_a_secret_is_sent_where_its_place_is() -> None:
    """Otherwise all other tests here would promise nothing."""
    echo = Echo(1)

    found = await measured(web("https://shop.example/{{args.token}}"), echo)

    assert found.phase is AnalysisPhase.SUCCESSFUL
    (request,) = echo.requests
    assert request.url.endswith(PLANTED)
    assert [value.reveal() for _, value in request.headers] == [f"Bearer {PLANTED}", NUMBER]


async def test_a_secret_is_one_value_where_its_place_is() -> None:
    """Whoever writes a Secret writes no other part of a request: it is encoded in a URL, and escaped in a JSON body."""
    echo = Echo(1)
    for body in ('{"e": "{{args.token}}"}', '{"e": {{args.token}}}'):
        await measured(
            {"web": {"url": "https://shop.example/q?t={{args.token}}&z=1", "method": "POST", "body": body}},
            echo,
            secret_values=holding('a&b="c", "d": 1'),
        )

    (request,) = echo.requests
    assert request.url == "https://shop.example/q?t=a%26b%3D%22c%22,%20%22d%22:%201&z=1"
    assert json.loads(request.body) == {"e": 'a&b="c", "d": 1'}


async def test_a_comparison_sends_its_secrets_to_both_arms() -> None:
    """Each arm stands where its place is."""
    echo = Echo(1)

    found = await compared(web("https://shop.example/{{arm}}/{{args.token}}"), echo)

    assert found.phase is AnalysisPhase.PENDING
    assert found.value.startswith("canary 1 · stable 1")
    assert [each.url for each in echo.requests] == [f"https://shop.example/{arm}/{PLANTED}" for arm in ("new", "old")]


async def test_nothing_in_a_secret_is_the_place_of_an_arm() -> None:
    """Whoever writes a Secret writes no part of a request."""
    echo = Echo(1)

    await compared(web("https://shop.example/{{arm}}"), echo, secret_values=holding("{{arm}}"))

    assert [value.reveal() for _, value in echo.requests[0].headers] == ["Bearer {{arm}}", "{{arm}}"]


async def test_a_comparison_does_not_show_a_secret_that_a_server_sends_back() -> None:
    """Rounded neither."""
    found = await compared(web("https://shop.example/{{arm}}"), Echo(float(NUMBER)))

    assert found.phase is AnalysisPhase.PENDING
    assert found.value == ""


ECHOES = [
    Echo(PLANTED),
    Echo({"error": PLANTED, PLANTED: PLANTED}),
    Echo(int(NUMBER)),
    Echo([1, int(NUMBER)]),
    Echo({"value": float(NUMBER)}),
    Echo(1, status=403),
    Echo(why=f"https://shop.example: refuses {PLANTED}"),
]


@pytest.mark.parametrize("echo", ECHOES)
async def test_a_server_that_repeats_a_secret_gets_it_into_no_measurement(echo: Echo) -> None:
    """A measurement goes into a status, which more people may read than the Secret."""
    with capture_logs() as logs:
        found = await measured(web(), echo)

    for text in (PLANTED, NUMBER):
        assert text not in repr(found)
        assert text not in repr(logs)
    assert len(echo.requests) == 1


@pytest.mark.parametrize("secret", ["0084123", "84123.0", "+84123", "8.4123e4", "123456789012345678"])
async def test_a_number_that_is_a_secret_is_not_shown_in_another_spelling(secret: str) -> None:
    """A server sends it back as JSON writes it, and a status shows it as Prometheus does."""
    found = await measured(web(), Echo([7, float(secret)]), secret_values=holding(secret), condition="result[0] > 0.0")

    assert (found.phase, found.value) == (AnalysisPhase.SUCCESSFUL, "")


@pytest.mark.parametrize(
    "url", ["https://{{args.token}}.example", "https://a.example:{{args.number}}", "{{args.token}}"]
)
async def test_a_secret_may_not_say_who_is_asked(url: str) -> None:
    """Hosts and ports are told in messages and logs, and a host is asked of name servers."""
    with capture_logs() as logs:
        echo = Echo(1)
        found = await measured(web(url), echo)

    assert found.phase is AnalysisPhase.ERROR
    assert "host or the port" in found.message
    assert not echo.requests
    assert PLANTED not in repr((found, logs))


async def test_nothing_is_asked_without_the_secret() -> None:
    """A request without its token would be another question."""
    echo = Echo(1)

    missing = await measured({"web": {"url": "https://a.example/{{args.missing}}"}}, echo)
    unread = await measured(web(), echo, secret_values=unreadable)

    assert missing.message == "needs the secret missing, which has no value"
    assert unread.message == "the controller may not read 2 Secrets"
    assert not echo.requests


async def test_an_asker_that_refuses_the_address_tells_no_secret() -> None:
    """The real asker's words and logs are about origins alone."""
    asker = MetricAsker(tenants=TenantUrls(), clock=SystemClock())
    with capture_logs() as logs:
        found = await measured(web("https://127.0.0.1:1/{{args.token}}"), asker)
    await asker.aclose()

    assert found.phase is AnalysisPhase.ERROR
    assert PLANTED not in repr((found, logs))


async def test_a_stop_is_answered_without_a_question() -> None:
    """Nothing of it is in flight; a forged record of one ends."""
    source = HttpMeasurements(
        endpoints=Echo(1), declared=dict, secret_values=values, bounded=Here(), clock=SystemClock(), deadline_s=5.0
    )
    (metric,) = parse_run({"metrics": [{"name": "m", "provider": {"web": {"url": "https://a.example"}}}]}).metrics

    found = await source.measure(RUN, metric, Due(metric="m", task=Task.STOP, number=1), now_s=7.0)

    assert (found.phase, found.finished_at_s) == (AnalysisPhase.PENDING, 7.0)
