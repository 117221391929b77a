"""Promise: a server that has had too many requests is heard: nobody asks it before it said, then one metric, then all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from rollouts.bounded.here import Here
from rollouts.controller.analysis.http_measurements import WAITED_MAX_S, HttpMeasurements
from rollouts.controller.analysis.pace import PacedEndpoints
from rollouts.controller.analysis.sources import MeasuredRun
from rollouts.core.analysis.measurement import Measurement
from rollouts.core.analysis.metric import Metric, MetricCondition, MetricRules, SecretReference
from rollouts.core.analysis.run import Due, Task
from rollouts.core.analysis.source import PrometheusQuery, WebQuery, WebResult
from rollouts.core.model.analysis import AnalysisPhase
from rollouts.metrics.requests import HttpAnswer, HttpRequest, MetricAnswer, MetricEndpoint
from rollouts.sim.clock import SimClock
from tests.metrics.servers.fake import all_fakes, written
from tests.metrics.test_no_server_promotes_without_evidence import source_of

pytestmark = pytest.mark.virtual_time(limit_s=20_000)

RUN = MeasuredRun(namespace="shop", name="run", uid="u", rollout="cart", revision="abc", started_at_s=0.0)
FAKES = all_fakes()


class Limited:
    """A server that refuses for so long; whoever asks it in that time begins it again, as real ones count."""

    def __init__(
        self, clock: SimClock, answer: Callable[[], HttpAnswer], *, status: int = 429, wait_s: float | None = 30.0
    ) -> None:
        self.clock, self.answer, self.status, self.wait_s = clock, answer, status, wait_s
        self.refuses_until_s = clock.monotonic_s() + 30.0
        self.asked_at_s: list[float] = []
        self.refused = 0

    async def ask(self, _request: HttpRequest, _endpoint: MetricEndpoint, *, deadline_s: float) -> MetricAnswer:
        """As `ports.MetricEndpoints`."""
        assert deadline_s > 0
        self.asked_at_s.append(self.clock.monotonic_s())
        await asyncio.sleep(0.1)
        if self.clock.monotonic_s() < self.refuses_until_s:
            self.refused += 1
            return HttpAnswer(status=self.status, body=b"too many", retry_after_s=self.wait_s)
        return self.answer()


async def no_secrets(_namespace: str, _secrets: tuple[SecretReference, ...]) -> dict[str, str]:
    return {}


def measurements(endpoints: Any, clock: SimClock, name: str) -> HttpMeasurements:
    return HttpMeasurements(
        endpoints=endpoints,
        declared=lambda: {"it": FAKES[name].endpoint},
        secret_values=no_secrets,
        bounded=Here(),
        clock=clock,
        deadline_s=30.0,
    )


def metric_of(name: str) -> Metric:
    condition = MetricCondition(success=f"{FAKES[name].result} < 100")
    return Metric(rules=MetricRules(name="m"), condition=condition, source=source_of(FAKES[name]))


async def until_over(source: HttpMeasurements, metric: Metric, clock: SimClock) -> Measurement:
    """Takes the measurement, and resumes it when it says so, as a run does."""
    due = Due(metric="m", task=Task.TAKE, number=1)
    while True:
        found = await source.measure(RUN, metric, due, now_s=clock.now_s())
        if found.finished:
            return found
        assert found.phase is AnalysisPhase.RUNNING
        assert found.resume_at_s is not None
        await asyncio.sleep(found.resume_at_s - clock.now_s())
        due = Due(metric="m", task=Task.RESUME, number=1, measurement=found)


def answer_of(name: str, clock: SimClock) -> Callable[[], HttpAnswer]:
    """A good one, of now."""

    def answer() -> HttpAnswer:
        body = FAKES[name].body([[(clock.now_s(), 1.0)]])
        return HttpAnswer(status=200, body=written(body), content_type="application/json")

    return answer


@pytest.mark.parametrize(("status", "wait_s"), [(429, 50.0), (503, 50.0), (429, None)])
@pytest.mark.parametrize("name", FAKES)
async def test_a_measurement_waits_for_its_server(name: str, status: int, wait_s: float | None) -> None:
    """It is no error and no failure, and it is taken when the server has said."""
    clock = SimClock(asyncio.get_running_loop())
    server = Limited(clock, answer_of(name, clock), status=status, wait_s=wait_s)
    found = await until_over(measurements(PacedEndpoints(server, clock), clock, name), metric_of(name), clock)

    assert found.phase is AnalysisPhase.SUCCESSFUL, found
    if wait_s is not None:
        assert [at_s - server.asked_at_s[0] >= wait_s for at_s in server.asked_at_s[1:]] == [True]


async def test_a_server_that_never_has_time_is_an_error_in_the_end() -> None:
    """A run that waits for ever for a server would keep its update for ever."""
    clock = SimClock(asyncio.get_running_loop())
    server = Limited(clock, answer_of("graphite", clock), wait_s=60.0)
    server.refuses_until_s = 1e9
    began_s = clock.now_s()
    found = await until_over(
        measurements(PacedEndpoints(server, clock), clock, "graphite"), metric_of("graphite"), clock
    )

    assert found.phase is AnalysisPhase.ERROR
    assert "too many requests" in found.message
    assert clock.now_s() - began_s <= WAITED_MAX_S


async def test_a_refusal_that_its_author_calls_not_yet_is_no_error_however_long_it_lasts() -> None:
    """The author of a gate has said what 429 means there, so its run asks again after its own interval."""
    clock = SimClock(asyncio.get_running_loop())
    server = Limited(clock, lambda: HttpAnswer(status=200, body=b""), wait_s=WAITED_MAX_S + 1)
    gate = WebQuery(url="https://gate.example", result=WebResult.STATUS, not_yet=(429,))
    metric = Metric(rules=MetricRules(name="m"), condition=MetricCondition(success="result == 200"), source=gate)
    source = measurements(PacedEndpoints(server, clock), clock, "graphite")

    assert (await until_over(source, metric, clock)).phase is AnalysisPhase.PENDING
    await asyncio.sleep(WAITED_MAX_S + 1)
    assert (await until_over(source, metric, clock)).phase is AnalysisPhase.SUCCESSFUL


async def test_two_hundred_metrics_do_not_keep_each_other_refused() -> None:
    """Those that asked at once are refused once each; after that one asks for all of them until the server answers."""
    clock = SimClock(asyncio.get_running_loop())
    server = Limited(clock, answer_of("graphite", clock), wait_s=20.0)
    source = measurements(PacedEndpoints(server, clock), clock, "graphite")
    found = await asyncio.gather(*(until_over(source, metric_of("graphite"), clock) for _ in range(200)))

    assert {each.phase for each in found} == {AnalysisPhase.SUCCESSFUL}
    assert server.refused <= 200 + 2


async def test_one_server_that_refuses_slows_no_other() -> None:
    """Each has a pace of its own."""
    clock = SimClock(asyncio.get_running_loop())
    paced = PacedEndpoints(Limited(clock, lambda: HttpAnswer(status=200, body=b"{}")), clock)
    request = HttpRequest(url="https://a.example/x", timeout_s=5)
    await paced.ask(request, MetricEndpoint(url="https://a.example"), deadline_s=5)
    await asyncio.sleep(1)
    refused = await paced.ask(request, MetricEndpoint(url="https://a.example"), deadline_s=5)
    asked = len(paced.endpoints.asked_at_s)  # type: ignore[attr-defined]
    await paced.ask(request, MetricEndpoint(url="https://b.example"), deadline_s=5)

    assert isinstance(refused, HttpAnswer)
    assert refused.status == 429
    assert (asked, len(paced.endpoints.asked_at_s)) == (1, 2)  # type: ignore[attr-defined]


async def test_prometheus_is_heard_too() -> None:
    """Whatever has a limit says it in the same way."""
    clock = SimClock(asyncio.get_running_loop())

    def answer() -> HttpAnswer:
        series = [{"metric": {}, "value": [clock.now_s(), "1"]}]
        body = written({"status": "success", "data": {"resultType": "vector", "result": series}})
        return HttpAnswer(status=200, body=body)

    server = Limited(clock, answer, wait_s=60.0)
    source = HttpMeasurements(
        endpoints=PacedEndpoints(server, clock),
        declared=lambda: {"default": MetricEndpoint(url="http://prometheus:9090", declared=True)},
        secret_values=no_secrets,
        bounded=Here(),
        clock=clock,
        deadline_s=30.0,
    )
    condition = MetricCondition(success="result[0] < 100")
    metric = Metric(rules=MetricRules(name="m"), condition=condition, source=PrometheusQuery(query="up"))

    assert (await until_over(source, metric, clock)).phase is AnalysisPhase.SUCCESSFUL
    assert len(server.asked_at_s) == 2
