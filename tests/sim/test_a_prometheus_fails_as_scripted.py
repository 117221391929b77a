"""Promise: everything that goes wrong with a Prometheus can be scripted, and none of it looks like a success."""

from __future__ import annotations

import asyncio

import pytest

from rollouts.core.model.analysis import AnalysisPhase
from rollouts.metrics.requests import HttpRequest, MetricEndpoint, NoAnswer
from rollouts.sim.cluster import SimulatedCluster
from rollouts.sim.network.prometheus.faults import (
    Empty,
    FaultWindow,
    Hangs,
    HttpError,
    Huge,
    PrometheusFault,
    Replaced,
    SeveralSeries,
    Shifted,
    SlowAnswer,
    StatusError,
    Truncated,
    Unreachable,
    Warned,
    WebPage,
)
from rollouts.sim.network.prometheus.server import SimPrometheus
from tests.sim.manifests import replica_set, service
from tests.sim.measuring import DEADLINE_S, measure, value_of

pytestmark = pytest.mark.virtual_time
QUERY = "count(up)"
ALWAYS = "result[0] >= 1"

ERROR, INCONCLUSIVE = AnalysisPhase.ERROR, AnalysisPhase.INCONCLUSIVE
FAULTS: list[tuple[PrometheusFault, AnalysisPhase, str]] = [
    (Unreachable(), ERROR, "connection refused"),
    (Unreachable("answers with a redirect (302), which is not followed"), ERROR, "redirect"),
    (Hangs(), ERROR, "no answer within 10 s"),
    (SlowAnswer(20.0), ERROR, "no answer within 10 s"),
    (HttpError(503), ERROR, "503"),
    (HttpError(401), ERROR, "401"),
    (StatusError("timeout"), ERROR, "timeout"),
    (StatusError("execution", status=200), ERROR, "execution"),
    (Truncated(), ERROR, "not one of Prometheus"),
    (Truncated(0.0), ERROR, "not one of Prometheus"),
    (Huge(), ERROR, "more than 1 MiB"),
    (WebPage(), ERROR, "not one of Prometheus"),
    (Replaced("NaN"), INCONCLUSIVE, "NaN"),
    (Replaced("+Inf"), INCONCLUSIVE, "infinite"),
    (Replaced("many"), INCONCLUSIVE, "NaN"),
    (Empty(), INCONCLUSIVE, "no value"),
    (SeveralSeries(3), INCONCLUSIVE, "3 values"),
    (Shifted(-400.0), INCONCLUSIVE, "older"),
    (Shifted(400.0), INCONCLUSIVE, "future"),
    (Warned(), INCONCLUSIVE, "warnings"),
]


@pytest.fixture
async def server(cluster: SimulatedCluster) -> SimPrometheus:
    """It has scraped one pod behind a Service."""
    cluster.apply(service("web"))
    cluster.apply(replica_set("web", replicas=1))
    found = cluster.prometheus()
    await asyncio.sleep(40)
    return found


@pytest.mark.parametrize(("fault", "phase", "why"), FAULTS, ids=lambda value: repr(value)[:60])
async def test_no_fault_is_taken_for_a_success(
    cluster: SimulatedCluster, server: SimPrometheus, fault: PrometheusFault, phase: AnalysisPhase, why: str
) -> None:
    """The condition holds for every number of 1 and more: only the fault can be the reason."""
    server.faults.begin(fault)
    during = await measure(cluster, QUERY, ALWAYS)
    server.faults.end()

    after = await measure(cluster, QUERY, ALWAYS)

    assert (during.phase, why in during.message) == (phase, True), during.message
    assert after.phase is AnalysisPhase.SUCCESSFUL


async def test_a_fault_has_a_begin_and_an_end(cluster: SimulatedCluster, server: SimPrometheus) -> None:
    """A Prometheus that flaps: up, down, up."""
    now_s = asyncio.get_running_loop().time()
    server.faults.windows.append(FaultWindow(Unreachable(), now_s + 10, now_s + 30))
    seen = []
    for _ in range(5):
        seen.append((await measure(cluster, QUERY, ALWAYS)).phase)
        await asyncio.sleep(10)

    good, bad = AnalysisPhase.SUCCESSFUL, AnalysisPhase.ERROR
    assert seen == [good, bad, bad, good, good]


async def test_a_fault_can_be_that_of_one_question(cluster: SimulatedCluster) -> None:
    """So every single fault at every single question can be tried."""
    cluster.apply(service("web"))
    cluster.apply(replica_set("web", replicas=1))
    cluster.prometheus(faults={1: Empty()})
    await asyncio.sleep(40)

    assert [await value_of(cluster, QUERY) for _ in range(3)] == [[1], [], [1]]


async def test_a_slow_answer_comes_when_there_is_time(cluster: SimulatedCluster, server: SimPrometheus) -> None:
    """Slow is not wrong."""
    server.faults.begin(SlowAnswer(3.0))

    found = await measure(cluster, QUERY, ALWAYS)
    assert found.phase is AnalysisPhase.SUCCESSFUL
    assert 3.0 < (found.finished_at_s or 0.0) - (found.started_at_s or 0.0) < 3.1


async def test_nobody_listens_where_no_server_is(cluster: SimulatedCluster, server: SimPrometheus) -> None:
    """An address with a mistake in it, and a request that leads away from its endpoint."""
    elsewhere = MetricEndpoint(url="http://prometheus.elsewhere:9090")
    away = HttpRequest(url=f"{server.url}/api/v1/query?query=1", timeout_s=DEADLINE_S)
    down = HttpRequest(url=f"{elsewhere.url}/api/v1/query?query=1", timeout_s=DEADLINE_S)
    answers = [await cluster.metrics.ask(each, elsewhere, deadline_s=DEADLINE_S) for each in (away, down)]

    assert [each.why for each in answers if isinstance(each, NoAnswer)] == [
        "the request does not go below its endpoint's URL",
        "http://prometheus.elsewhere:9090: connection refused",
    ]


@pytest.mark.parametrize(
    "query", ["topk(3, up)", "max_over_time(up[5m:1m])", "up @ end()", "sum by (le) up", "rate(up)"]
)
async def test_what_it_does_not_understand_is_an_error(
    cluster: SimulatedCluster, server: SimPrometheus, query: str
) -> None:
    """A simulation that guesses would let a test pass that means nothing."""
    found = await measure(cluster, query, ALWAYS)
    assert (found.phase, "bad_data" in found.message) == (AnalysisPhase.ERROR, True)
