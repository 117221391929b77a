"""Promise: what a MetricProvider and a metric say reaches the server as it documents it, over HTTP, and its number decides."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
from pathlib import Path
from urllib.parse import parse_qs, parse_qsl, quote, urlsplit

import pytest

from rollouts.api.spec.analysis.run import parse_run
from rollouts.bounded.here import Here
from rollouts.clock import SystemClock
from rollouts.controller.analysis.http_measurements import HttpMeasurements
from rollouts.controller.providers.declarations import server_of
from rollouts.core.analysis.measurement import Measurement
from rollouts.core.analysis.metric import Metric, MetricCondition, MetricRules
from rollouts.core.analysis.metric_server import CredentialPlace, InSecret
from rollouts.core.analysis.run import Due, Task
from rollouts.core.analysis.source import PrometheusQuery
from rollouts.core.model.analysis import AnalysisPhase
from rollouts.core.model.frozen import replace
from rollouts.metrics.addresses import TenantUrls
from rollouts.metrics.declared import endpoint_of_server
from rollouts.metrics.requests import HttpAnswer, HttpRequest, Window
from rollouts.metrics.samples import NoEvidence
from rollouts.metrics.sources import question_to
from rollouts.objects import Manifest
from rollouts.probes.metric_asker import MetricAsker
from rollouts.secret import Secret
from tests.controller.analysis.test_servers_set_the_pace import RUN, no_secrets
from tests.metrics.answers import NOW_S, vector
from tests.metrics.servers.fake import ACCESS_KEY, REGION, TOKEN, Asked, Fake, all_fakes, body_of, one, written
from tests.metrics.test_no_server_promotes_without_evidence import source_of
from tests.probes.servers import Sent, raw, serving

FAKES = all_fakes()


class StandingClock(SystemClock):
    """The wall clock stands at the time that the fakes know."""

    def now_s(self) -> float:
        """See `ports.Clock`."""
        return NOW_S


def provider_spec(fake: Fake, url: str) -> Manifest:
    """The MetricProvider of a fake: each of its credentials is a key of a Secret."""
    reference = {"secretKeyRef": {"name": "it", "key": "token"}}
    headers = [{"name": name, "valueFrom": {"secretKeyRef": {"name": "it", "key": name}}} for name in fake.headers]
    spec: Manifest = {"url": url, **({"type": fake.kind} if fake.recipe is None else {"recipe": fake.recipe})}
    spec |= {"headers": headers} if headers else {}
    spec |= {"bearer": reference} if fake.bearer else {}
    key = {"region": REGION, "accessKeyId": ACCESS_KEY, "secretAccessKey": reference}
    spec |= {"sigv4": key} if fake.signed else {}
    return spec | ({"settings": dict(fake.settings)} if fake.settings else {})


def value_of(fake: Fake, place: CredentialPlace) -> Secret:
    assert isinstance(place, InSecret)
    return Secret({**fake.headers, "token": TOKEN}[place.key])


def signature_of(sent: Sent, service: str) -> str:
    """What AWS works out for itself, from what came and the key.

    Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
    """
    names = sorted({"host", "content-type", "x-amz-target", "x-amz-date"} & sent.headers.keys())
    method, target, _ = sent.line.split(" ")
    headers = "".join(f"{name}:{sent.headers[name]}\n" for name in names)
    path, _, query = target.partition("?")
    pairs = [(quote(name, safe="-_.~"), quote(value, safe="-_.~")) for name, value in parse_qsl(query)]
    canonical = "&".join(f"{name}={value}" for name, value in sorted(pairs))
    asked = f"{method}\n{path}\n{canonical}\n{headers}\n{';'.join(names)}\n{hashlib.sha256(sent.body).hexdigest()}"
    scope = f"{sent.headers['x-amz-date'][:8]}/{REGION}/{service}/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{sent.headers['x-amz-date']}\n{scope}\n{hashlib.sha256(asked.encode()).hexdigest()}"
    key = f"AWS4{TOKEN}".encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    return f"AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/{scope}, SignedHeaders={';'.join(names)}, Signature={signature}"


def asked_by(sent: Sent) -> Asked:
    method, target, _ = sent.line.split(" ")
    parts = urlsplit(target)
    return Asked(
        method=method,
        path=parts.path.removeprefix("/base"),
        parameters=parse_qs(parts.query, keep_blank_values=True),
        headers=sent.headers,
        body=body_of(sent.body, sent.headers),
    )


@pytest.mark.parametrize("fake", FAKES.values(), ids=FAKES)
@pytest.mark.parametrize(("value", "phase"), [(1.0, AnalysisPhase.SUCCESSFUL), (200.0, AnalysisPhase.FAILED)])
async def test_a_server_is_asked_as_it_wants_to_be(fake: Fake, value: float, phase: AnalysisPhase) -> None:
    """Path, parameters, body and credentials, which come out of Secrets of the controller's own namespace."""
    condition = MetricCondition(success=f"{fake.result} < 100")
    metric = Metric(rules=MetricRules(name="m"), condition=condition, source=source_of(fake))
    found, (sent,) = await measured(fake, metric, value)

    assert found.phase is phase, found
    assert fake.why_refused(asked_by(sent)) == ""
    if fake.signed:
        assert sent.headers["authorization"] == signature_of(sent, fake.signed)


@pytest.mark.parametrize("name", ["dynatrace", "declared"])
async def test_a_comparison_asks_for_each_arm_and_for_the_time_of_its_look(name: str) -> None:
    """With the credentials, and with the recipe, of the service."""
    fake = FAKES[name]
    asked = {kind: each for kind, each in fake.metric.items() if kind != "interval"}
    asked |= {"query": "errors:splitBy({{arm}})"}
    compare = {"canary": "new", "stable": "old", "kind": "value", "effect": "10%", "of": {fake.kind: asked}}
    spec = {"name": "m", "interval": "1m", "count": 9, "provider": {"compare": compare}}
    (metric,) = parse_run({"metrics": [spec]}).metrics
    found, (canary, stable) = await measured(fake, metric, 3.0, began_at_s=NOW_S - 90)

    assert found.phase is AnalysisPhase.PENDING, found
    assert found.value.startswith("canary 3 · stable 3 · evidence")
    for sent, arm in ((canary, "new"), (stable, "old")):
        got = asked_by(sent)
        assert f"errors:splitBy({arm})" in (got.parameter("metricSelector") or repr(got.body))
        assert {"authorization", "x-asked-by"} & got.headers.keys()
        assert str(int(NOW_S) * 1_000) in (got.parameter("to") or repr(got.body))
        assert "90" in (repr(got.body) if got.body else str(int(NOW_S) - int(got.parameter("from")) // 1_000))


async def measured(
    fake: Fake, metric: Metric, value: float, *, began_at_s: float = NOW_S - 600
) -> tuple[Measurement, list[Sent]]:
    """What a metric finds on a server that has this value, and what the server was sent."""
    async with serving({"/base/": raw(written(fake.body(one(value))))}) as server:
        spec = provider_spec(fake, f"{server.url()}/base")
        declared = server_of("it", spec, folder=Path("/nowhere"), taken=False)
        values = {place: value_of(fake, place) for place in declared.credentials}
        async with contextlib.aclosing(MetricAsker(tenants=TenantUrls(), clock=SystemClock())) as asker:
            source = HttpMeasurements(
                endpoints=asker,
                declared=lambda: {"it": endpoint_of_server(declared, values)},
                secret_values=no_secrets,
                bounded=Here(),
                clock=StandingClock(),
                deadline_s=10.0,
            )
            due = Due(metric="m", task=Task.TAKE, number=1)
            run = replace(RUN, started_at_s=began_at_s)
            return await source.measure(run, metric, due, now_s=NOW_S), server.sent


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("Retry-After: 7", 7.0), ("X-RateLimit-Reset: 12", 12.0), ("Retry-After: soon", None), ("X-Else: 1", None)],
)
async def test_when_to_ask_again_is_read_from_its_header(header: str, seconds: float | None) -> None:
    """In seconds, and from Datadog's own header; what is no time is none."""
    fake = FAKES["graphite"]
    async with serving({"/base/": raw(b"{}", status="429 Too Many Requests", headers=[header])}) as server:
        endpoint = endpoint_of_server(
            server_of("it", provider_spec(fake, f"{server.url()}/base"), folder=Path("/nowhere"), taken=False), {}
        )
        async with contextlib.aclosing(MetricAsker(tenants=TenantUrls(), clock=SystemClock())) as asker:
            answer = await asker.ask(HttpRequest(url=f"{endpoint.url}/x", timeout_s=5), endpoint, deadline_s=5)

    assert isinstance(answer, HttpAnswer)
    assert answer.asks_to_wait
    assert answer.retry_after_s == seconds


SIGNED = {"region": REGION, "accessKeyId": ACCESS_KEY, "secretAccessKey": {"secretKeyRef": {"name": "a", "key": "b"}}}


async def test_prometheus_of_aws_is_asked_with_a_signature() -> None:
    """A MetricProvider without a type, of Amazon's service for Prometheus; PromQL has what a signature writes in its own way."""
    query = 'sum(rate(errors{path=~"/a b+.*~"}[1m])) or vector(0)'
    async with serving({"/": raw(vector("1"))}) as server:
        spec = {"url": f"{server.url()}/workspaces/ws-1", "sigv4": SIGNED}
        endpoint = endpoint_of_server(
            server_of("it", spec, folder=Path("/nowhere"), taken=False), {InSecret("a", "b"): Secret(TOKEN)}
        )
        question = question_to(PrometheusQuery(query=query, endpoint="it"), {"it": endpoint}, Window(NOW_S))
        assert not isinstance(question, NoEvidence)
        async with contextlib.aclosing(MetricAsker(tenants=TenantUrls(), clock=SystemClock())) as asker:
            answer = await asker.ask(question.request, question.endpoint, deadline_s=10.0)

    assert isinstance(answer, HttpAnswer)
    (sent,) = server.sent
    parameters = parse_qs(urlsplit(sent.line.split(" ")[1]).query) | parse_qs(sent.body.decode())
    assert parameters["query"] == [query]
    assert sent.headers["authorization"] == signature_of(sent, "aps")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"__type":"ThrottlingException","message":"Rate exceeded"}', 429),
        (b'{"__type":"com.amazon.coral.service#Throttling"}', 429),
        (b'{"__type":"ValidationError","message":"no"}', 400),
        (b'{"a":"' + b" " * 5_000 + b'Throttling"}', 400),
    ],
    ids=["throttled", "throttled by another name", "a wrong query", "a word far from the beginning"],
)
@pytest.mark.parametrize("signed", [True, False])
async def test_aws_says_with_400_that_it_has_had_too_many_requests(body: bytes, status: int, signed: bool) -> None:
    """It is heard as 429 is; another server's 400 stays what it is."""
    async with serving({"/": raw(body, status="400 Bad Request")}) as server:
        credentials = {"sigv4": SIGNED} if signed else {}
        spec = {"url": server.url(), **credentials}
        declared = server_of("it", spec, folder=Path("/nowhere"), taken=False)
        endpoint = endpoint_of_server(declared, {InSecret("a", "b"): Secret(TOKEN)})
        async with contextlib.aclosing(MetricAsker(tenants=TenantUrls(), clock=SystemClock())) as asker:
            answer = await asker.ask(HttpRequest(url=server.url(), timeout_s=5), endpoint, deadline_s=5)

    assert isinstance(answer, HttpAnswer)
    assert answer.status == (status if signed else 400)
    assert answer.asks_to_wait is (answer.status == 429)
