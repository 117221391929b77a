"""A simulated cluster with AnalysisRuns, a controller that carries them out, and a Prometheus that answers by a script."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeAlias
from urllib.parse import parse_qs, urlsplit

import msgspec

from rollouts.api.schema import crd_manifests
from rollouts.bounded.here import Here
from rollouts.controller.wiring import EXIT_STOPPED, run_controller
from rollouts.metrics.requests import HttpAnswer, HttpRequest, MetricAnswer, MetricEndpoint, NoAnswer
from rollouts.objects import ANALYSIS_RUN, EVENT, Manifest
from rollouts.ports import MERGE_PATCH, ApiServer, Clock, MetricEndpoints, Request
from rollouts.settings import Settings
from rollouts.sim.clock import run_virtual
from rollouts.sim.cluster import SimulatedCluster
from rollouts.sim.faults import (
    Conflict,
    CrashAfter,
    CrashBefore,
    Crashed,
    DropReply,
    DropRequest,
    Fault,
    FaultTape,
    Faulty,
    Slow,
    Throttle,
    Unavailable,
)
from rollouts.telemetry import Telemetry
from tests import build

Outcome: TypeAlias = "float | str | None"
"""A number, a text that Prometheus sends for one ("NaN"), or None for no answer."""

Script: TypeAlias = Mapping[str, "Iterable[Outcome] | Callable[[int], Outcome]"]
"""By query: outcomes, one after the other and the last one again and again, or one by the number of the measurement, from 1."""

FAULTS: tuple[Fault, ...] = (
    *(CrashBefore(), CrashAfter(), DropRequest(), DropReply()),
    *(Conflict(), Throttle(), Unavailable(), Slow(20.0)),
)
"""What may become of one request."""

HANGS = "hangs"
PROMETHEUS_URL = "http://prometheus.monitoring:9090"
NAMESPACE = "default"
BUSY = "busy"
CONTROLLER = Settings(leader_elect=False, identity="one", lease_namespace="default", prometheus_url=PROMETHEUS_URL)


class Metrics:
    """`ports.MetricEndpoints`: answers each query by its script, or 1 where it has none, after `took_s`."""

    def __init__(self, clock: Clock, script: Script | None = None, *, took_s: float = 0.01) -> None:
        self._clock = clock
        self._script = {query: _outcomes(each) for query, each in (script or {}).items()}
        self.took_s = took_s
        self.asked: list[tuple[float, str]] = []
        """When which query came, wall clock."""
        self.requests: list[HttpRequest] = []
        self.open = 0
        """Questions without an answer yet."""
        self.most_open = 0
        self.number_of: Callable[[str], int] = lambda _query: 1

    def says(self, script: Script) -> None:
        """Answers these queries so from now on."""
        self._script |= {query: _outcomes(each) for query, each in script.items()}

    def now_says(self, query: str, *outcomes: Outcome) -> None:
        """Changes the script of a query from now on."""
        self._script[query] = _outcomes(outcomes)

    async def ask(self, request: HttpRequest, endpoint: MetricEndpoint, *, deadline_s: float) -> MetricAnswer:
        """See `ports.MetricEndpoints`."""
        query = parse_qs(urlsplit(request.url).query).get("query", [request.url])[0]
        self.asked.append((self._clock.now_s(), query))
        self.requests.append(request)
        outcome = self._script[query](self.number_of(query)) if query in self._script else 1.0
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            if outcome == HANGS:
                await asyncio.sleep(min(deadline_s, request.timeout_s))
                return NoAnswer(f"{endpoint.display_name}: no answer within {request.timeout_s:g} s")
            await asyncio.sleep(self.took_s)
        finally:
            self.open -= 1
        if outcome is None:
            return NoAnswer(f"{endpoint.display_name}: does not answer")
        series = [{"metric": {}, "value": [self._clock.now_s(), str(outcome)]}]
        return answer({"status": "success", "data": {"resultType": "vector", "result": series}})

    def times_s(self, query: str) -> list[float]:
        """When the query came."""
        return [at_s for at_s, each in self.asked if each == query]


def _outcomes(script: Iterable[Outcome] | Callable[[int], Outcome]) -> Callable[[int], Outcome]:
    if callable(script):
        return script
    left = list(script)
    return lambda _number: left.pop(0) if len(left) > 1 else left[0]


def answer(body: Any, *, status: int = 200) -> HttpAnswer:
    """An answer in JSON."""
    return HttpAnswer(status=status, body=json.dumps(body).encode(), content_type="application/json")


def without_times(status: Any) -> Any:
    """A status without the moments in it, which differ between runs that end alike."""
    match status:
        case dict():
            return {name: without_times(part) for name, part in status.items() if not name.endswith("At")}
        case list():
            return [without_times(each) for each in status]
        case _:
            return status


def metric(name: str = "good", *, query: str = "", **more: Any) -> Manifest:
    """A metric of Prometheus whose success is a value of at least 0.95; its query is its name."""
    provider = {"prometheus": {"query": query or name}}
    return {"name": name, "successCondition": "result[0] >= 0.95", "provider": provider, **more}


def analysis_run(name: str = "run", *metrics: Manifest, namespace: str = NAMESPACE, **spec: Any) -> Manifest:
    """An AnalysisRun that somebody made by hand."""
    return build.manifest(ANALYSIS_RUN, name, namespace, spec={"metrics": list(metrics) or [metric()], **spec})


class Stage:
    """A cluster with AnalysisRuns."""

    def __init__(self, cluster: SimulatedCluster, metrics: Metrics) -> None:
        self.cluster = cluster
        self.metrics = metrics
        self.endpoints: MetricEndpoints | None = None
        """Whom the controller asks instead of `metrics`, where there is more than one server."""
        metrics.number_of = self._number_of
        self.telemetry: list[Telemetry] = []

    @asynccontextmanager
    async def controller(
        self, *, api: ApiServer | None = None, settings: Settings = CONTROLLER, seed: int = 1
    ) -> AsyncIterator[asyncio.Task[int]]:
        """A controller for as long as the block lasts; it must end in order."""
        stop = asyncio.Event()
        running = asyncio.create_task(self.control(stop, api=api, settings=settings, seed=seed))
        try:
            yield running
        finally:
            stop.set()
            assert await running == EXIT_STOPPED

    async def control(
        self, stop: asyncio.Event, *, api: ApiServer | None = None, settings: Settings = CONTROLLER, seed: int = 1
    ) -> int:
        """One controller until `stop`; its exit code."""
        return await run_controller(
            settings,
            api=api or self.cluster.api,
            clock=self.cluster.clock,
            rng=random.Random(seed),  # noqa: S311 - jitter
            stop=stop,
            on_ready=self.telemetry.append,
            metrics=self.endpoints or self.metrics,
            bounded=Here(),
        )

    def now_s(self) -> float:
        """Wall clock."""
        return self.cluster.clock.now_s()

    def run(self, name: str = "run", *, namespace: str = NAMESPACE) -> Manifest | None:
        """An AnalysisRun as it is now."""
        return self.cluster.get(ANALYSIS_RUN, namespace, name)

    def status(self, name: str = "run", *, namespace: str = NAMESPACE) -> Manifest:
        """Its status; empty when there is none."""
        return (self.run(name, namespace=namespace) or {}).get("status") or {}

    def result(self, metric_name: str = "good", *, name: str = "run") -> Manifest:
        """What the status says of a metric; empty when that is nothing."""
        results = self.status(name).get("metricResults") or []
        return next((each for each in results if each["name"] == metric_name), {})

    def _number_of(self, query: str) -> int:
        """Number of the measurement that is taken now, as the status has it; of a metric whose name is its query."""
        runs = (each["metadata"]["name"] for each in self.cluster.list(ANALYSIS_RUN))
        result = next((found for name in runs if (found := self.result(query, name=name))), {})
        number: int = result.get("count", 0) + result.get("error", 0) + 1
        return number

    def phases(self, metric_name: str = "good", *, name: str = "run") -> list[str]:
        """Phases of the metric's measurements."""
        return [each["phase"] for each in self.result(metric_name, name=name).get("measurements") or ()]

    def edit(self, patch: Manifest, name: str = "run", *, subresource: str | None = None) -> int:
        """Merges into a run, as `kubectl patch` does; the HTTP status."""
        path = ANALYSIS_RUN.path(NAMESPACE, name, subresource)
        return self.cluster.api.answer(Request("PATCH", path, {}, msgspec.json.encode(patch), MERGE_PATCH)).status

    def delete(self, name: str = "run") -> None:
        """Deletes a run."""
        assert self.cluster.api.answer(Request("DELETE", ANALYSIS_RUN.path(NAMESPACE, name))).status == 200

    def events(self, name: str = "run") -> list[tuple[str, str, str]]:
        """Type, reason and note of the Events about a run."""
        found = self.cluster.list(EVENT, NAMESPACE)
        about = [each for each in found if each["regarding"]["kind"] == ANALYSIS_RUN.kind]
        return [(each["type"], each["reason"], each["note"]) for each in about if each["regarding"]["name"] == name]

    async def keep_running(self, stop: asyncio.Event, tape: FaultTape) -> None:
        """Runs a controller whose requests have the tape's faults, and another one after a crash, until `stop`."""
        try:
            await self.control(stop, api=Faulty(self.cluster.api, tape))
        except BaseExceptionGroup as group:
            _, rest = group.split(Crashed)
            if rest is not None:
                raise rest from None
            await asyncio.sleep(1.0)
            await self.control(stop, seed=2)

    def end(self) -> dict[str, Any]:
        """Every run as it is, without times."""
        return {
            each["metadata"]["name"]: without_times(each.get("status") or {})
            for each in self.cluster.list(ANALYSIS_RUN, NAMESPACE)
        }

    async def until_over(self, name: str = "run", *, namespace: str = NAMESPACE, within_s: float = 3_600.0) -> str:
        """Waits until a run is over; its phase."""

        def over(seen: Manifest | None) -> bool:
            return bool(((seen or {}).get("status") or {}).get("completedAt"))

        await self.cluster.until(over, kind=ANALYSIS_RUN, namespace=namespace, name=name, deadline_s=within_s)
        phase: str = self.status(name, namespace=namespace)["phase"]
        return phase


@asynccontextmanager
async def staged(
    script: Script | None = None, *, took_s: float = 0.01, crds: Sequence[Manifest] | None = None
) -> AsyncIterator[Stage]:
    """A cluster with the CRDs, of ours all that there are unless they are named."""
    async with SimulatedCluster(seed=3, crds=crd_manifests() if crds is None else crds) as cluster:
        cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": BUSY}})
        yield Stage(cluster, Metrics(cluster.clock, script, took_s=took_s))


def play(scenario: Callable[[Stage], Awaitable[None]], script: Script | None = None) -> None:
    """Plays a scenario in virtual time."""

    async def main() -> None:
        async with staged(script) as stage:
            await scenario(stage)

    run_virtual(main(), limit_s=20_000.0)


def played_with(
    faults: dict[int, Fault],
    objects: Iterable[Manifest],
    script: Script,
    *,
    edit: Callable[[Stage, Manifest], int],
    end: Callable[[Stage], dict[str, Any]],
    terminate_s: float | None,
    rest_s: float,
) -> tuple[dict[str, Any], int]:
    """What is there at the end, and how many writes there were.

    Args:
        faults: by the number of the write.
        edit: changes the object that is told to end.
        end: what counts as the end.
        terminate_s: when it is told to end; None for never.
    """
    ends: list[dict[str, Any]] = []
    tape = FaultTape(faults)

    async def scenario(stage: Stage) -> None:
        for each in objects:
            stage.cluster.apply(each)
        stop = asyncio.Event()
        running = asyncio.create_task(stage.keep_running(stop, tape))
        if terminate_s is not None:
            await asyncio.sleep(terminate_s)
            assert edit(stage, {"spec": {"terminate": True}}) == 200
        await asyncio.sleep(rest_s)
        stop.set()
        await running
        ends.append(end(stage))

    play(scenario, script)
    return ends[0], tape.seen
