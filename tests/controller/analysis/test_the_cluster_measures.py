"""Promise: runs are measured by what the cluster itself has; an API that is missing is told with its remedy, passing nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

import msgspec
import pytest

from rollouts.bounded.here import Here
from rollouts.cluster.client import Client
from rollouts.controller.analysis.cluster_measurements import cluster_sources
from rollouts.controller.analysis.sources import MeasuredRun
from rollouts.controller.facts.cluster_metrics import ClusterMetrics
from rollouts.core.analysis.cluster_source import (
    AutoscalerMetric,
    ClusterSource,
    ContainerResourceMetric,
    CustomMetric,
    DescribedObject,
    ExternalMetric,
)
from rollouts.core.analysis.measurement import Measurement
from rollouts.core.analysis.metric import Metric, MetricCondition, MetricRules
from rollouts.core.analysis.run import Due, Task
from rollouts.core.model.analysis import AnalysisPhase
from rollouts.core.model.autoscaling import ContainerMetric
from rollouts.core.model.frozen import replace
from rollouts.manifests.ownership import NAME, REVISION
from rollouts.objects import POD, ROLLOUT, Manifest
from rollouts.ports import Request, Response
from rollouts.sim.clock import SimClock
from tests.controller.analysis.stage import BUSY, Stage, analysis_run
from tests.controller.analysis.test_one_run_harms_no_other import healthy_after_s
from tests.controller.door import Door, refusal
from tests.controller.world import ScriptedApi, error
from tests.metrics.measured_pods import NOW_S, at, autoscaler, listed, pod, sample

pytestmark = pytest.mark.virtual_time(limit_s=20_000)

Measure: TypeAlias = Callable[..., Coroutine[Any, Any, Measurement]]
Answers: TypeAlias = dict[str, Response | bytes]

USE = ContainerResourceMetric(container="app", resource=ContainerMetric.CPU)
ROOM = AutoscalerMetric()
HITS = CustomMetric(metric="hits", selector="code=500")
INGRESS = replace(HITS, of=DescribedObject(api_version="networking.k8s.io/v1", kind="Ingress", name="web"))
QUEUE = ExternalMetric(metric="s0/queue", selector="scaledobject.keda.sh/name=web")
RUN = MeasuredRun(namespace="shop", name="run", uid="u", rollout="web", revision="new", started_at_s=NOW_S - 600)
SHOP = "namespaces/shop"
CUSTOM = "/apis/custom.metrics.k8s.io"
EXTERNAL = "/apis/external.metrics.k8s.io"
SAMPLES, PODS = f"/apis/metrics.k8s.io/v1beta1/{SHOP}/pods", f"/api/v1/{SHOP}/pods"
AUTOSCALERS = f"/apis/autoscaling/v2/{SHOP}/horizontalpodautoscalers"
NETWORKING = "/apis/networking.k8s.io/v1"
HITS_OF_PODS = f"{CUSTOM}/v1beta2/{SHOP}/pods/*/hits"
HITS_OF_INGRESS = f"{CUSTOM}/v1beta2/{SHOP}/ingresses.networking.k8s.io/web/hits"
LENGTH = f"{EXTERNAL}/v1beta1/{SHOP}/s0%2Fqueue"
INGRESSES = ("ingresses/status", "ingresses")
TOLD = "told by a server"
NOT_FOUND, DOWN = error(404, "NotFound", TOLD), error(503, "ServiceUnavailable", TOLD)


def values(*names: str, number: str = "3") -> bytes:
    """Values of a metric, one for each object."""
    return listed(*({"describedObject": {"name": each}, "value": number, "timestamp": at(-5)} for each in names))


def group(*versions: str) -> bytes:
    """What an API group serves."""
    return msgspec.json.encode({"kind": "APIGroup", "versions": [{"version": each} for each in versions]})


def whole(changes: Answers | None = None) -> Answers:
    """A cluster with two pods of the revision, an autoscaler, and adapters for custom and external metrics."""
    return {
        SAMPLES: listed(sample("a", "100m"), sample("b", "300m")),
        PODS: listed(pod("a"), pod("b"), pod("c", revision="old")),
        AUTOSCALERS: listed(autoscaler()),
        NETWORKING: msgspec.json.encode({"resources": [{"name": name, "kind": "Ingress"} for name in INGRESSES]}),
        HITS_OF_PODS: values("a", "b"),
        HITS_OF_INGRESS: values("web"),
        CUSTOM: group("v1beta2", "v1beta1"),
        LENGTH: values(""),
        EXTERNAL: group("v1beta1"),
        **(changes or {}),
    }


def _holds(source: ClusterSource) -> str:
    """A condition that any number fulfils."""
    name = "max" if isinstance(source, AutoscalerMetric) else "value"
    return f"result.{name} <= 0 || result.{name} >= 0"


@pytest.fixture
def found() -> Answers:
    """All of it, unless a test says otherwise."""
    return whole()


@pytest.fixture
def api(found: Answers) -> ScriptedApi:
    """A server that has what was found."""

    def answer(request: Request) -> Response:
        what = found.get(request.path, NOT_FOUND)
        return Response(200, what) if isinstance(what, bytes) else what

    return ScriptedApi(otherwise=answer)


@pytest.fixture
async def measure(api: ScriptedApi) -> Measure:
    """A function that measures a source, in virtual time that begins at NOW_S."""
    clock = SimClock(asyncio.get_running_loop(), epoch_s=NOW_S - asyncio.get_running_loop().time())
    client = Client(api, clock=clock, may_write=lambda: False, request_deadline_s=1.0)
    takers = cluster_sources(ClusterMetrics(client, clock), client=client, bounded=Here(), clock=clock)

    async def taken(
        source: ClusterSource,
        success: str = "",
        *,
        run: MeasuredRun = RUN,
        task: Task = Task.TAKE,
        before: Measurement | None = None,
    ) -> Measurement:
        rules, condition = MetricRules(name="m"), MetricCondition(success=success or _holds(source))
        due = Due(metric="m", task=task, number=1, measurement=before)
        metric = Metric(rules=rules, condition=condition, source=source)
        return await takers[source.provider].measure(run, metric, due, now_s=clock.now_s())

    return taken


@pytest.mark.parametrize(
    ("source", "success", "value"),
    [
        (USE, "result.utilizationPercent == 40.0", "utilizationPercent=40 averageValue=0.2 "),
        (ROOM, "result.settled && result.headroomPercent == 70.0", "current=3 min=2 max=10 settled=true "),
        (AutoscalerMetric(name="web"), "result.desired == 3.0", "current=3 "),
        (HITS, "result.averageValue == 3.0 && result.count == 2.0", "value=6 "),
        (INGRESS, "result.value == 3.0", "value=3 "),
        (QUEUE, "result.value < 5.0", "value=3 "),
    ],
)
async def test_each_source_is_measured(source: ClusterSource, success: str, value: str, measure: Measure) -> None:
    """Of the run's revision, in the run's namespace."""
    found = await measure(source, success)
    assert (found.phase, found.message) == (AnalysisPhase.SUCCESSFUL, "")
    assert found.value.startswith(value)


async def test_names_and_selectors_go_where_the_adapter_reads_them(measure: Measure, api: ScriptedApi) -> None:
    """No name leads to another path, and the selector of pods is not the one of the metric's labels."""
    await measure(HITS)
    (asked,) = (each for each in api.requests if each.path == HITS_OF_PODS)
    selector = "rollouts.dev/name=web,rollouts.dev/revision=new"
    assert asked.query == {"labelSelector": selector, "metricLabelSelector": "code=500"}
    await measure(QUEUE)
    assert (api.requests[-1].path, api.requests[-1].query) == (LENGTH, {"labelSelector": QUEUE.selector})
    await measure(ExternalMetric(metric=".."))
    assert f"{EXTERNAL}/v1beta1/{SHOP}/%2E%2E" in {each.path for each in api.requests}


async def test_runs_share_lists_with_each_other(measure: Measure, api: ScriptedApi) -> None:
    """500 runs in a namespace cost one list of samples and one of pods in an interval."""
    found = await asyncio.gather(*(measure(USE) for _ in range(500)))
    assert {each.phase for each in found} == {AnalysisPhase.SUCCESSFUL}
    assert sorted(each.path for each in api.requests) == [PODS, SAMPLES]


ABSENT: dict[str, tuple[ClusterSource, Answers, str]] = {
    "no metrics-server": (USE, whole({SAMPLES: NOT_FOUND}), "install metrics-server"),
    "metrics-server down": (USE, whole({SAMPLES: DOWN}), "see kubectl get apiservice v1beta1.metrics.k8s.io"),
    "no right to samples": (USE, whole({SAMPLES: error(403, "Forbidden", TOLD)}), "kubectl rollouts doctor"),
    "no right to pods": (USE, whole({PODS: error(403, "Forbidden", TOLD)}), "may not list pods;"),
    "no right to autoscalers": (ROOM, whole({AUTOSCALERS: error(403, "Forbidden", TOLD)}), "kubectl rollouts doctor"),
    "no adapter": (HITS, whole({HITS_OF_PODS: NOT_FOUND, CUSTOM: NOT_FOUND}), "install an adapter"),
    "adapter down": (HITS, whole({HITS_OF_PODS: DOWN}), "does not answer; see kubectl get apiservice"),
    "no right to the metric": (HITS, whole({HITS_OF_PODS: error(403, "x", TOLD)}), "analysis.customMetrics"),
    "adapter refuses": (HITS, whole({HITS_OF_PODS: error(400, "x", TOLD)}), "does not answer as it must (ApiInvalid)"),
    "adapter sends a page": (HITS, whole({HITS_OF_PODS: b"<html>"}), "cannot be read"),
    "a group that is none": (HITS, whole({HITS_OF_PODS: NOT_FOUND, CUSTOM: b"[]"}), "cannot be read"),
    "no pods to compare with": (HITS, whole({PODS: error(403, "x", TOLD)}), "may not list pods;"),
    "no kind": (INGRESS, whole({NETWORKING: b'{"resources":[]}'}), "does not have Ingress of networking.k8s.io/v1"),
    "no such group": (INGRESS, whole({NETWORKING: NOT_FOUND}), "does not have Ingress"),
    "no external adapter": (QUEUE, whole({LENGTH: NOT_FOUND, EXTERNAL: NOT_FOUND}), "install an adapter"),
    "external adapter down": (QUEUE, whole({LENGTH: error(500, "x", TOLD)}), "does not answer"),
    "no right to the external metric": (QUEUE, whole({LENGTH: error(403, "x", TOLD)}), "analysis.externalMetrics"),
    "external nonsense": (QUEUE, whole({LENGTH: b"7"}), "cannot be read"),
}


@pytest.mark.parametrize(("source", "found", "words"), ABSENT.values(), ids=ABSENT)
async def test_what_cannot_be_read_is_told_with_its_remedy(source: ClusterSource, words: str, measure: Measure) -> None:
    """No part of a server's text gets into a status."""
    measured = await measure(source)
    assert (measured.phase, measured.value) == (AnalysisPhase.ERROR, "")
    assert words in measured.message
    assert TOLD not in measured.message


@pytest.mark.parametrize(
    ("source", "found", "words"),
    [
        (HITS, whole({HITS_OF_PODS: NOT_FOUND}), "has no metric hits of pods"),
        (HITS, whole({HITS_OF_PODS: NOT_FOUND, CUSTOM: group("v1beta1")}), "has no metric hits of pods"),
        (INGRESS, whole({HITS_OF_INGRESS: NOT_FOUND}), "has no metric hits of ingresses.networking.k8s.io"),
        (QUEUE, whole({LENGTH: NOT_FOUND}), "has no metric s0/queue"),
        (QUEUE, whole({LENGTH: listed()}), "has no values"),
        (AutoscalerMetric(name="other"), whole(), "there is no HorizontalPodAutoscaler other"),
    ],
)
async def test_a_metric_that_is_not_there_is_no_evidence(source: ClusterSource, words: str, measure: Measure) -> None:
    """An adapter has a metric only once something has exported it, so this may change by itself."""
    measured = await measure(source)
    assert (measured.phase, words in measured.message) == (AnalysisPhase.INCONCLUSIVE, True)


async def test_an_older_adapter_is_asked_in_its_version(found: Answers, measure: Measure, api: ScriptedApi) -> None:
    """Some serve v1beta1 alone."""
    old = HITS_OF_PODS.replace("v1beta2", "v1beta1")
    found |= {HITS_OF_PODS: NOT_FOUND, old: values("a", "b"), CUSTOM: group("v1beta1")}
    assert (await measure(HITS)).phase is AnalysisPhase.SUCCESSFUL
    assert [each.path for each in api.requests] == [HITS_OF_PODS, CUSTOM, old, PODS]


@pytest.mark.parametrize("source", [USE, HITS, ROOM])
async def test_a_run_without_labels_says_which_it_needs(
    source: ClusterSource, measure: Measure, api: ScriptedApi
) -> None:
    """Somebody made it by hand: nobody can know which pods are meant."""
    measured = await measure(source, run=replace(RUN, rollout="", revision=""))
    assert (measured.phase, api.requests) == (AnalysisPhase.ERROR, [])
    assert "rollouts.dev/name" in measured.message


async def test_a_measurement_goes_on_when_there_is_a_newer_sample(measure: Measure) -> None:
    """It keeps its beginning; a run that is stopped meanwhile has no verdict from it."""
    young = replace(RUN, started_at_s=NOW_S - 2)
    waits = await measure(USE, run=young)
    assert (waits.phase, waits.finished, waits.resume_at_s) == (AnalysisPhase.RUNNING, False, NOW_S + 15)
    await asyncio.sleep(15)
    again = await measure(USE, run=young, task=Task.RESUME, before=waits)
    assert (again.phase, again.started_at_s) == (AnalysisPhase.RUNNING, NOW_S)
    stopped = await measure(USE, run=young, task=Task.STOP, before=again)
    assert (stopped.phase, stopped.started_at_s) == (AnalysisPhase.PENDING, NOW_S)
    await asyncio.sleep(75)
    over = await measure(USE, run=young, task=Task.RESUME, before=again)
    assert over.phase is AnalysisPhase.INCONCLUSIVE


async def test_an_autoscaler_is_asked_once_it_could_see_what_the_run_judges(measure: Measure) -> None:
    """Until its next look it says what it saw before the step, and one that has not looked says that all is well."""
    young = replace(RUN, started_at_s=NOW_S)
    found = await measure(ROOM, run=young)
    for waited_s in (15, 30):
        assert (found.phase, found.resume_at_s) == (AnalysisPhase.RUNNING, NOW_S + waited_s)
        assert "is given 30 s to see" in found.message
        await asyncio.sleep(15)
        found = await measure(ROOM, run=young, task=Task.RESUME, before=found)
    assert found.phase is AnalysisPhase.SUCCESSFUL


async def test_a_list_of_autoscalers_that_somebody_read_before_is_not_taken_for_a_later_look(measure: Measure) -> None:
    """Lists are shared: it counts when it was read."""
    young = replace(RUN, started_at_s=NOW_S - 25)
    assert (await measure(ROOM)).phase is AnalysisPhase.SUCCESSFUL
    await asyncio.sleep(10)
    assert (await measure(ROOM, run=young)).phase is AnalysisPhase.RUNNING


class Metered(Door):
    """A cluster whose pods have samples of `millicores`; None for a cluster without metrics-server."""

    def __init__(self, stage: Stage, millicores: int | None) -> None:
        super().__init__(stage.cluster.api, self._answer)
        self._stage = stage
        self._millicores = millicores

    def _answer(self, request: Request) -> Response | None:
        if not request.path.startswith("/apis/metrics.k8s.io/"):
            return None
        if self._millicores is None:
            return NOT_FOUND
        age_s = 1 - (self._stage.now_s() - NOW_S)  # on the builders' clock
        names = [each["metadata"]["name"] for each in self._stage.cluster.list(POD, BUSY)]
        of = f"{self._millicores}m"
        return Response(200, listed(*(sample(each, of, age_s=age_s, window="1s") for each in names)))


def of_container(**more: Any) -> Manifest:
    """A metric of container `app`."""
    source = {"containerResource": {"container": "app", "resource": "cpu"}}
    return {"name": "use", "successCondition": "result.averageValue < 0.5", "provider": source, **more}


@pytest.mark.parametrize(
    ("millicores", "phase", "words"),
    [(100, "Successful", ""), (900, "Failed", "does not hold"), (None, "Error", "install metrics-server")],
)
async def test_a_run_ends_as_its_containers_show(millicores: int | None, phase: str, words: str, stage: Stage) -> None:
    """From the object to its status, through the whole controller."""
    async with stage.controller(api=Metered(stage, millicores)):
        await healthy_after_s(stage)
        revision = (stage.cluster.get(ROLLOUT, BUSY, "web") or {})["status"]["stableRevision"]
        run = analysis_run("run", of_container(consecutiveErrorLimit=0))
        stage.cluster.apply(labelled(run, name="web", revision=revision))
        assert await stage.until_over(namespace=BUSY) == phase
    (result,) = stage.status(namespace=BUSY)["metricResults"]
    assert words in result.get("message", "") + stage.status(namespace=BUSY).get("message", "")
    if phase != "Error":
        assert f"averageValue={(millicores or 0) / 1000:g} " in result["measurements"][0]["value"]


KUBERNETES = {"name": "pods", "consecutiveErrorLimit": 0, "provider": {"kubernetes": {}}}


def labelled(run: Manifest, **labels: str) -> Manifest:
    """A run in the Rollout's namespace, about a revision."""
    run["metadata"] |= {"namespace": BUSY, "labels": {f"rollouts.dev/{name}": value for name, value in labels.items()}}
    return run


async def test_the_pods_of_a_revision_are_evidence(stage: Stage) -> None:
    """Only those that carry its labels: neighbours in the namespace say nothing about it."""
    async with stage.controller():
        await healthy_after_s(stage)
        revision = (stage.cluster.get(ROLLOUT, BUSY, "web") or {})["status"]["stableRevision"]
        for name, about in (("run", revision), ("none", "nobody")):
            stage.cluster.apply(labelled(analysis_run(name, KUBERNETES), name="web", revision=about))
        assert await stage.until_over(namespace=BUSY) == "Successful"
        assert await stage.until_over("none", namespace=BUSY) == "Inconclusive"
    (result,) = stage.status(namespace=BUSY)["metricResults"]
    assert result["measurements"][0]["value"] == "[0, 2, 2]"
    assert not stage.metrics.asked
    (pod, *_) = stage.cluster.list(POD, BUSY)
    assert {NAME, REVISION} <= pod["metadata"]["labels"].keys()


async def test_a_run_made_by_hand_says_which_labels_it_needs(stage: Stage) -> None:
    """Somebody made it by hand: nobody can know which pods are meant."""
    stage.cluster.apply(analysis_run("run", KUBERNETES))
    async with stage.controller():
        assert await stage.until_over() == "Error"
    assert "rollouts.dev/name and rollouts.dev/revision" in stage.status()["message"]


async def test_a_controller_that_may_not_list_pods_says_so(stage: Stage) -> None:
    """What the API server said in full is in the log; a status is for tenants."""
    stage.cluster.apply(labelled(analysis_run("run", KUBERNETES), name="web", revision="abc"))
    refused = refusal(403, "Forbidden", "may not watch")
    no_pods = Door(stage.cluster.api, lambda request: refused if request.path.endswith(f"/{POD.plural}") else None)
    async with stage.controller(api=no_pods):
        assert await stage.until_over(namespace=BUSY) == "Error"
    assert "may not list pods" in stage.status(namespace=BUSY)["message"]
