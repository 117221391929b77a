"""What a simulated Prometheus says, measured with the project's own codecs, and what metrics.k8s.io says."""

from __future__ import annotations

import json
from typing import Any

from rollouts.core.analysis.measurement import Measurement
from rollouts.core.analysis.metric import MetricCondition
from rollouts.core.analysis.source import PrometheusQuery
from rollouts.metrics.requests import MetricEndpoint
from rollouts.metrics.samples import NoEvidence
from rollouts.metrics.sources import judged, question_of, window_of
from rollouts.ports import Request
from rollouts.sim.cluster import SimulatedCluster
from rollouts.sim.network.prometheus.server import DEFAULT_URL

DEADLINE_S = 10.0
POD_METRICS = "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods"


def good_share(**labels: str) -> str:
    """A query for the share of requests without errors, of those with labels."""
    here = ",".join(f'{name}="{value}"' for name, value in labels.items())
    good = f'sum(rate(http_requests_total{{{here},code!~"5.."}}[1m]))'
    return f"{good} / sum(rate(http_requests_total{{{here}}}[1m]))"


async def measure(cluster: SimulatedCluster, query: str, success: str = "", *, url: str = DEFAULT_URL) -> Measurement:
    now_s = cluster.clock.now_s
    started_at_s = now_s()
    source = PrometheusQuery(query=query, timeout_s=DEADLINE_S)
    question = question_of(source, MetricEndpoint(url=url, declared=True), window_of(source, started_at_s))
    assert not isinstance(question, NoEvidence)
    answer = await cluster.metrics.ask(question.request, question.endpoint, deadline_s=DEADLINE_S)
    condition = MetricCondition(success=success)
    return judged(answer, question.source, question.window, condition, started_at_s, now_s())


async def value_of(cluster: SimulatedCluster, query: str) -> list[float]:
    found = await measure(cluster, query, "true")
    return [float(each) for each in found.value.strip("[]").split(", ") if each]


def asked(cluster: SimulatedCluster, path: str = POD_METRICS, **query: str) -> tuple[int, Any]:
    """Status and body of a GET, without the port; a body that is no JSON as text."""
    answer = cluster.api.answer(Request("GET", path, query))
    try:
        return answer.status, json.loads(answer.body)
    except ValueError:
        return answer.status, answer.body.decode()


def usage(cluster: SimulatedCluster, **query: str) -> dict[str, dict[str, str]]:
    """CPU of each container, by the start of the pod's name."""
    status, body = asked(cluster, **query)
    assert status == 200, body
    return {
        item["metadata"]["name"].rpartition("-")[0]: {each["name"]: each["usage"]["cpu"] for each in item["containers"]}
        for item in body["items"]
    }
