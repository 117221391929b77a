"""Promise: canary and stable are compared by what the cluster measures of their pods; without all of it nothing is decided."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from rollouts.bounded.here import Here
from rollouts.cluster.client import Client
from rollouts.controller.analysis.cluster_measurements import cluster_sources
from rollouts.controller.analysis.sources import MeasuredRun
from rollouts.controller.facts.cluster_metrics import ClusterMetrics
from rollouts.core.analysis.cluster_source import ContainerResourceMetric, CustomMetric, ExternalMetric
from rollouts.core.analysis.measurement import Measurement
from rollouts.core.analysis.metric import Metric, MetricRules
from rollouts.core.analysis.run import Due, Task
from rollouts.core.analysis.source import ComparedBy, ComparedSource, Comparison, Effect
from rollouts.core.model.analysis import AnalysisPhase
from rollouts.core.model.autoscaling import ContainerMetric
from rollouts.core.model.frozen import replace
from rollouts.ports import Request, Response
from rollouts.sim.clock import SimClock
from tests.controller.world import ScriptedApi, error
from tests.metrics.measured_pods import NOW_S, at, listed, pod, sample

pytestmark = pytest.mark.virtual_time

CPU = ContainerResourceMetric(container="app", resource=ContainerMetric.CPU)
HITS = CustomMetric(metric="hits")
QUEUE = ExternalMetric(metric="queue", selector="hash={{arm}}")
RUN = MeasuredRun(namespace="shop", name="run", uid="u", rollout="web", revision="new", started_at_s=NOW_S - 60)
EVERY_S = 60.0
PODS = {"new": ("a",), "old": ("b", "c")}


@dataclass
class Measured:
    """A cluster that measures pods of two revisions.

    Args:
        cores: of each pod of a revision.
        stuck: no sample is taken any more.
        unmeasured: a pod without a sample.
        refused: all metrics APIs answer so.
    """

    cores: dict[str, float]
    stuck: bool = False
    unmeasured: str = ""
    refused: Response | None = None
    clock: SimClock | None = None

    def answer(self, request: Request) -> Response:
        """Of the API server."""
        if request.path == "/api/v1/namespaces/shop/pods":
            return Response(200, listed(*(pod(name, revision=arm) for arm, names in PODS.items() for name in names)))
        return self.refused or Response(200, self._of(request))

    def _of(self, request: Request) -> bytes:
        assert self.clock is not None
        now_s = 0.0 if self.stuck else self.clock.now_s() - NOW_S
        known = [(name, arm) for arm, names in PODS.items() for name in names if name != self.unmeasured]
        match request.path.split("/")[2]:
            case "metrics.k8s.io":
                samples = (sample(name, f"{1000 * self.cores[arm]:.0f}m", age_s=5 - now_s) for name, arm in known)
                return listed(*samples)
            case "custom.metrics.k8s.io":
                asked = [each for each in known if f"revision={each[1]}" in request.query["labelSelector"]]
                return listed(*(_value(name, self.cores[arm], now_s - 5) for name, arm in asked))
            case _:
                return listed(_value("", self.cores[request.query["labelSelector"].partition("=")[2]], now_s - 5))


def _value(name: str, number: float, at_s: float) -> dict[str, Any]:
    return {"describedObject": {"name": name}, "value": f"{1000 * number:.0f}m", "timestamp": at(at_s)}


async def compared(
    of: ComparedSource, cluster: Measured, *, run: MeasuredRun = RUN, looks: int = 6
) -> list[Measurement]:
    """The looks of one comparison, up to its answer."""
    effect = Effect(size=0.1, relative=True)
    source = Comparison(canary="new", stable="old", by=ComparedBy.VALUES, of=of, effect=effect, looks_max=looks)
    metric = Metric(rules=MetricRules(name="m"), source=source)
    found: list[Measurement] = []
    clock = cluster.clock = SimClock(asyncio.get_running_loop(), epoch_s=NOW_S - asyncio.get_running_loop().time())
    client = Client(ScriptedApi(otherwise=cluster.answer), clock=clock, may_write=lambda: False, request_deadline_s=1.0)
    takers = cluster_sources(ClusterMetrics(client, clock), client=client, bounded=Here(), clock=clock)
    carried: tuple[tuple[str, str], ...] = ()
    for number in range(1, looks + 1):
        due = Due(metric="m", task=Task.TAKE, number=number, carried=carried)
        found.append(await takers[source.provider].measure(run, metric, due, now_s=clock.now_s()))
        if found[-1].phase is not AnalysisPhase.PENDING:
            break
        carried = found[-1].carried
        await asyncio.sleep(EVERY_S)
    return found


@pytest.mark.parametrize("of", [CPU, HITS, QUEUE])
@pytest.mark.parametrize(("cores", "phase"), [(0.9, AnalysisPhase.FAILED), (0.2, AnalysisPhase.SUCCESSFUL)])
async def test_a_canary_that_uses_more_is_worse(of: ComparedSource, cores: float, phase: AnalysisPhase) -> None:
    """Stable has twice as many pods, so an average of all would hide it."""
    found = await compared(of, Measured({"new": cores, "old": 0.2}))

    assert [each.phase for each in found] == [AnalysisPhase.PENDING] * 4 + [phase]
    assert found[-1].value.startswith(f"canary {cores} · stable 0.2 · evidence ")


@pytest.mark.parametrize(
    ("of", "cluster", "phase", "words"),
    [
        (CPU, Measured({"new": 0.2, "old": 0.2}, stuck=True), AnalysisPhase.INCONCLUSIVE, "undecided after 6 looks"),
        (HITS, Measured({"new": 0.2, "old": 0.2}, stuck=True), AnalysisPhase.INCONCLUSIVE, "undecided after 6 looks"),
        (CPU, Measured({"new": 0.2, "old": 0.2}, unmeasured="c"), AnalysisPhase.INCONCLUSIVE, "stable: 1 of 2 pods"),
        (HITS, Measured({"new": 0.2, "old": 0.2}, unmeasured="a"), AnalysisPhase.INCONCLUSIVE, "canary: 1 of 1 pods"),
        (QUEUE, Measured({"new": -1.0, "old": 0.0}), AnalysisPhase.INCONCLUSIVE, "not above 0"),
        (CPU, Measured({}, refused=error(503, "x", "x")), AnalysisPhase.ERROR, "see kubectl get apiservice"),
        (CPU, Measured({}, refused=error(404, "NotFound", "x")), AnalysisPhase.ERROR, "install metrics-server"),
        (HITS, Measured({}, refused=error(403, "x", "x")), AnalysisPhase.ERROR, "analysis.customMetrics"),
        (QUEUE, Measured({}, refused=Response(200, b"<html>")), AnalysisPhase.ERROR, "cannot be read"),
    ],
)
async def test_what_is_not_measured_decides_nothing(
    of: ComparedSource, cluster: Measured, phase: AnalysisPhase, words: str
) -> None:
    """A canary with as many cores as stable would pass if its one sample counted at each look."""
    last = (await compared(of, cluster))[-1]

    assert (last.phase, words in last.message) == (phase, True)


@pytest.mark.parametrize("of", [CPU, HITS])
async def test_a_run_without_the_rollouts_name_says_so(of: ComparedSource) -> None:
    """Nobody can know whose pods are meant."""
    (found,) = await compared(of, Measured({"new": 0.2, "old": 0.2}), run=replace(RUN, rollout=""))

    assert found.phase is AnalysisPhase.ERROR
    assert "rollouts.dev/name" in found.message


async def test_a_metric_about_nothing_in_the_cluster_needs_no_rollout() -> None:
    """Its arms are in its selector."""
    looks = await compared(QUEUE, Measured({"new": 0.2, "old": 0.2}), run=replace(RUN, rollout=""))
    assert looks[-1].phase.over
