"""Promise: whoever asks shares one list for each namespace and interval; nothing is polled; what a server does is an answer."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

import pytest

from rollouts.cluster.client import Client
from rollouts.controller.facts.cluster_metrics import INTERVAL_S, ClusterMetrics, Read, Unread
from rollouts.core.model.autoscaling import AutoscalingGate, ContainerLimit, ContainerMetric
from rollouts.manifests.ownership import name_label
from rollouts.objects import Key
from rollouts.ports import Request, Response
from rollouts.sim.clock import SimClock
from tests.controller.world import ScriptedApi, error
from tests.metrics.measured_pods import NOW_S, autoscaler, listed, pod, sample

pytestmark = pytest.mark.virtual_time

WEB = Key("shop", "web")
CPU = ContainerMetric.CPU
SAMPLES = "/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods"
PODS = "/api/v1/namespaces/shop/pods"
AUTOSCALERS = "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers"
TOLD = "told by a server"
FORBIDDEN = error(403, "Forbidden", TOLD)
LIMIT = ContainerLimit(container="app", resource=CPU, max_utilization_percent=90)
ALL = AutoscalingGate(settled=True, min_headroom_percent=20, container=LIMIT)


def answers(**changes: Response | bytes) -> Callable[[Request], Response]:
    """A cluster with two pods of `web`; `samples`, `pods` and `autoscalers` may be something else."""
    found: dict[str, Response | bytes] = {
        SAMPLES: changes.get("samples", listed(sample("a", "900m"), sample("b", "50m"), sample("c"))),
        PODS: changes.get("pods", listed(pod("a"), pod("b", revision="old"), pod("c", rollout="other"))),
        AUTOSCALERS: changes.get("autoscalers", listed(autoscaler(), autoscaler("else", target="other"))),
    }

    def answer(request: Request) -> Response:
        what = found.get(request.path.replace("/garden/", "/shop/"), b"")
        return Response(200, what) if isinstance(what, bytes) else what

    return answer


@pytest.fixture
def api() -> ScriptedApi:
    """A cluster with two pods of `web`."""
    return ScriptedApi(otherwise=answers())


@pytest.fixture
async def metrics(api: ScriptedApi) -> ClusterMetrics:
    """In virtual time that begins at NOW_S."""
    clock = SimClock(asyncio.get_running_loop(), epoch_s=NOW_S - asyncio.get_running_loop().time())
    return ClusterMetrics(Client(api, clock=clock, may_write=lambda: False, request_deadline_s=1.0), clock)


def asked(api: ScriptedApi) -> Counter[str]:
    """How often each list was asked for."""
    return Counter(each.path for each in api.requests)


async def test_the_gate_gets_what_it_asks_for(metrics: ClusterMetrics) -> None:
    """Autoscalers of this Rollout, and its pods by revision; pods of others in the namespace are left out."""
    seen = await metrics.seen(WEB, ALL)
    assert [each.name for each in seen.autoscalers or ()] == ["web"]
    assert {revision: use.utilization_percent for revision, use in (seen.use or {}).items()} == {
        "new": pytest.approx(180.0),
        "old": pytest.approx(10.0),
    }
    assert (seen.at_s, seen.message) == (NOW_S, "")


async def test_pods_and_autoscalers_of_a_long_name_are_found(metrics: ClusterMetrics, api: ScriptedApi) -> None:
    """A label has 63 characters, so pods and runs carry a name that was shortened; the autoscaler names the whole one."""
    name = "a-name-that-is-longer-than-any-label-could-ever-be-in-kubernetes"
    scalers = listed(autoscaler(target=name), autoscaler("else", target=name[:-1]))
    api.otherwise = answers(pods=listed(pod("a", rollout=name_label(name))), autoscalers=scalers)
    for known_as in (name, name_label(name)):
        seen = await metrics.seen(Key("shop", known_as), ALL)
        assert [each.name for each in seen.autoscalers or ()] == ["web"]
        assert {revision: use.pods for revision, use in (seen.use or {}).items()} == {"new": 1}


@pytest.mark.parametrize(
    ("gate", "paths"),
    [
        (AutoscalingGate(settled=True), {AUTOSCALERS}),
        (AutoscalingGate(min_headroom_percent=0), {AUTOSCALERS}),
        (AutoscalingGate(container=LIMIT), {SAMPLES, PODS}),
        (AutoscalingGate(), set()),
    ],
)
async def test_nothing_else_is_asked(
    gate: AutoscalingGate, paths: set[str], metrics: ClusterMetrics, api: ScriptedApi
) -> None:
    """A gate without a container needs no metrics API, which the cluster may not have."""
    seen = await metrics.seen(WEB, gate)
    assert asked(api).keys() == paths
    assert (seen.autoscalers is None, seen.use is None) == (AUTOSCALERS not in paths, SAMPLES not in paths)


async def test_500_rollouts_share_one_list(metrics: ClusterMetrics, api: ScriptedApi) -> None:
    """Of each kind, in each namespace and interval; those who ask at the same moment share the request."""
    keys = [Key(namespace, f"web-{each}") for namespace in ("shop", "garden") for each in range(500)]
    await asyncio.gather(*(metrics.seen(key, ALL) for key in keys))
    assert set(asked(api).values()) == {1}
    assert len(api.requests) == 6
    await asyncio.sleep(INTERVAL_S - 1)
    await asyncio.gather(*(metrics.seen(key, ALL) for key in keys))
    assert len(api.requests) == 6
    await asyncio.sleep(2)
    assert len(api.requests) == 6
    seen = await metrics.seen(WEB, ALL)
    assert len(api.requests) == 9
    assert seen.at_s == NOW_S + INTERVAL_S + 1


async def test_an_answer_tells_when_it_was_read(metrics: ClusterMetrics) -> None:
    """Not when somebody was given it: the gate must not take an old one for new."""
    await metrics.autoscalers(WEB)
    await asyncio.sleep(10)
    assert (await metrics.seen(WEB, ALL)).at_s == NOW_S
    assert (await metrics.seen(WEB, AutoscalingGate(container=LIMIT))).at_s == NOW_S + 10


async def test_one_who_is_cancelled_takes_nobody_along(metrics: ClusterMetrics, api: ScriptedApi) -> None:
    """The next one who waits asks instead."""
    first, second = (asyncio.create_task(metrics.autoscalers(WEB)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    found = await second
    assert isinstance(found, Read)
    assert [each.name for each in found.value] == ["web"]
    assert first.cancelled()
    assert len(api.requests) == 2


@pytest.mark.parametrize(
    ("response", "words"),
    [
        (
            error(404, "NotFound", TOLD),
            "metrics.k8s.io cannot be read: the cluster does not have it; install metrics-server",
        ),
        (error(503, "x", TOLD), "it does not answer; see kubectl get apiservice v1beta1.metrics.k8s.io"),
        (error(429, "TooManyRequests", TOLD), "it does not answer"),
        (FORBIDDEN, "may not list pods of metrics.k8s.io; kubectl rollouts doctor says more"),
        (error(400, "BadRequest", TOLD), "does not answer as it must (ApiInvalid)"),
        (Response(200, b"<html>"), "the answer is no list"),
    ],
)
async def test_what_cannot_be_read_is_told_with_its_remedy(
    response: Response, words: str, metrics: ClusterMetrics, api: ScriptedApi
) -> None:
    """It is not zero, and not an error of the pass. Everybody who asks meanwhile is told the same, by one request."""
    api.otherwise = answers(samples=response)
    seen = await metrics.seen(WEB, ALL)
    requests = asked(api)[SAMPLES]
    assert seen.use is None
    assert seen.autoscalers is not None
    assert words in seen.message
    assert TOLD not in seen.message
    again = await asyncio.gather(*(metrics.container_use(WEB, "app", CPU) for _ in range(100)))
    assert all(isinstance(each, Unread) for each in again)
    assert asked(api)[SAMPLES] == requests


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"pods": FORBIDDEN}, "pods cannot be read: the controller may not list pods;"),
        ({"autoscalers": FORBIDDEN}, "the controller may not list horizontalpodautoscalers of autoscaling;"),
        ({"autoscalers": error(404, "NotFound", TOLD)}, "the cluster does not have autoscaling/v2"),
        ({"autoscalers": Response(200, b'{"items": [{"metadata": 3}]}')}, "the answer is no list"),
    ],
)
async def test_each_part_can_be_missing(
    changes: dict[str, Response], words: str, metrics: ClusterMetrics, api: ScriptedApi
) -> None:
    """Only what could not be read is None."""
    api.otherwise = answers(**changes)
    seen = await metrics.seen(WEB, ALL)
    assert (seen.use is None, seen.autoscalers is None) == ("pods" in changes, "autoscalers" in changes)
    assert words in seen.message


async def test_a_long_list_is_read_to_its_end(metrics: ClusterMetrics, api: ScriptedApi) -> None:
    """A pod on the second page is not missing."""

    def answer(request: Request) -> Response:
        if request.path != PODS:
            return answers()(request)
        second = request.query.get("continue") == "next"
        return Response(200, listed(pod("b")) if second else listed(pod("a"), token="next"))

    api.otherwise = answer
    found = await metrics.container_use(WEB, "app", CPU)
    assert isinstance(found, Read)
    assert found.value["new"].pods == 2
