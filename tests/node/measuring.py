"""A Prometheus on the node that scrapes a Rollout's pods, and analyses that ask it.

In a cluster its service discovery reads pods from the API server, with their labels. Here the tests do that.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests import build
from tests.e2e.stage import REVISION, Stage
from tests.lab.loopback import meanwhile
from tests.lab.processes import Processes
from tests.lab.prometheus_server import NAME as PROGRAM
from tests.lab.prometheus_server import Job, Prometheus, listed_targets
from tests.node.real_node import RealNode
from tests.node.workload import NAME, Manifest

WINDOW = "5s"  # over which rates are taken: five scrapes
METRICS_PORT = 9090
SUCCESS_RATE, LATENCY = "success-rate", "latency-p95"
ENOUGH = 0.99
LONGEST_S = 0.5

_LOOKS_EVERY_S = 0.5
_THIS = 'namespace="{{args.namespace}}",revision="{{args.revision}}"'
_ALL = f"sum(rate(http_requests_total{{{_THIS}}}[{WINDOW}]))"
_GOOD = f'sum(rate(http_requests_total{{{_THIS},code!~"5.."}}[{WINDOW}]))'
_TIMES = f"sum by (le) (rate(http_request_duration_seconds_bucket{{{_THIS}}}[{WINDOW}]))"
_RULES: Manifest = {
    "interval": "1s",
    "count": 6,
    "failureLimit": 2,
    # A new pod is scraped a few seconds after it has become ready, and then twice, before there is a rate.
    "noData": "wait",
    # After an error there are 10 s: a server that is started again is waited for, and one that is gone for good is found out.
    "consecutiveErrorLimit": 2,
}


@contextmanager
def measuring(node: RealNode, stage: Stage, *, port: int, besides: Sequence[Job] = ()) -> Iterator[Prometheus]:
    """Runs it, empty at first, while the block runs. Its job NAME has the pods' labels: `namespace`, `pod`, `revision`."""
    folder, name = Path(node.plane.folder), f"prometheus-{stage.namespace}"
    home, logs = folder / name, node.plane.logs / name
    home.mkdir()
    logs.mkdir()
    pods = home / "pods.json"
    jobs = [listed_targets(NAME, pods), *besides]
    server = Prometheus(Processes(logs), program=Path(node.plane.programs, PROGRAM), home=home, port=port, jobs=jobs)
    with _listed(stage, pods), server.running():
        yield server


def judged_by(*metrics: Manifest) -> Manifest:
    """An AnalysisTemplate named NAME of these metrics, with the arguments that ANALYSIS gives it."""
    return build.analysis_template(*metrics, name=NAME, args=[{"name": "namespace"}, {"name": "revision"}])


def metric(name: str, *, query: str, condition: str, **rules: Any) -> Manifest:
    """One that is measured each second; a user's limits for a server that is not always there."""
    asked = {"prometheus": {"query": query, "timeout": 2}}
    return {"name": name, **_RULES, "successCondition": condition, "provider": asked, **rules}


ANALYSIS: Manifest = {
    "templates": [{"templateName": NAME}],
    "args": [
        {"name": "namespace", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
        {"name": "revision", "valueFrom": {"podTemplateHashValue": "Latest"}},
    ],
}
"""In a Rollout: whether the new revision's pods are good enough."""

OF_THE_PODS = judged_by(
    metric(SUCCESS_RATE, query=f"{_GOOD} / {_ALL}", condition=f"result[0] >= {ENOUGH}"),
    metric(LATENCY, query=f"histogram_quantile(0.95, {_TIMES})", condition=f"result[0] <= {LONGEST_S}"),
)
"""By what the app itself counts."""


def result_of(run: Manifest, name: str) -> Manifest:
    """The result of one metric; {} when there is none yet."""
    results: list[Manifest] = run.get("status", {}).get("metricResults", [])
    return next((one for one in results if one["name"] == name), {})


def values(result: Manifest) -> list[float]:
    """What was measured, of each measurement that gave one number."""
    measured = (one.get("value", "").strip("[]") for one in result.get("measurements", []))
    return [float(one) for one in measured if one]


@contextmanager
def _listed(stage: Stage, file: Path) -> Iterator[None]:
    """Keeps the list of the pods that have addresses, while the block runs."""

    def keep(over: threading.Event) -> None:
        written = ""
        while not over.is_set():
            text = json.dumps(_targets(stage), sort_keys=True)
            if text != written:
                part = file.with_suffix(".new")
                part.write_text(text)
                part.replace(file)
                written = text
            over.wait(_LOOKS_EVERY_S)

    file.write_text("[]")
    with meanwhile(keep):
        yield


def _targets(stage: Stage) -> list[Manifest]:
    return [
        {"targets": [f"{address}:{METRICS_PORT}"], "labels": _labels(pod["metadata"])}
        for pod in stage.all("pods", f"app={NAME}")
        if (address := pod["status"].get("podIP"))
    ]


def _labels(pod: Manifest) -> dict[str, str]:
    return {"namespace": pod["namespace"], "pod": pod["name"], "revision": pod["labels"][REVISION]}
