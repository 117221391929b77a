"""Updates that an analysis, or the gate of an autoscaler, decides about, under load: what was done, and what was measured."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tests import build
from tests.e2e.manifests import container_of
from tests.e2e.stage import Stage
from tests.lab.control_plane import is_true
from tests.lab.prometheus_server import Prometheus
from tests.node import metrics_server
from tests.node.cutover import Seen, UnderLoad
from tests.node.measuring import ANALYSIS, OF_THE_PODS, SUCCESS_RATE, measuring, result_of
from tests.node.moves import DONE_WITHIN_S, abort, until_phase, until_waiting_for, wait_until_back, wait_until_done
from tests.node.real_node import RealNode
from tests.node.workload import NAME, REPLICAS, Manifest, autoscaler, canary, new_version, service

STEPS: Sequence[Manifest] = (
    {"setWeight": 25},
    {"analysis": ANALYSIS},
    {"setWeight": 50},
    {"pause": {"duration": "2s"}},
)
DOWN_S = 4.0
"""How long a Prometheus is away that comes back: longer than a query may take, and errors fewer than are borne."""

HELD_S = 5.0
HELD_BY_THE_GATE_S = 40.0  # longer than two looks of the gate
CPU = "100m"
"""What each pod requests. Its answers cost it a tenth to a fifth of that."""

BURNT_MILLICORES = 200
"""What a pod of the bad version uses beside them: over the limit alone, under the target of the autoscaler with three others."""

TARGET_PERCENT = 80
LIMIT_PERCENT = 90
GATE: Manifest = {
    "settled": True,
    "minHeadroomPercent": 20,
    "containerResource": {"container": "web", "resource": "cpu", "maxUtilizationPercent": LIMIT_PERCENT},
}
BY_THE_GATE: Sequence[Manifest] = ({"setWeight": 25}, {"setWeight": 50})
BY_ITS_ANALYSIS: Sequence[Manifest] = ({"setWeight": 25}, {"analysis": {"templates": [{"templateName": NAME}]}})
OF_CONTAINERS = build.analysis_template(
    {
        "name": "cpu",
        "interval": "5s",
        "count": 3,
        "noData": "wait",  # a new pod is measured some 20 to 30 s after its start
        "successCondition": f"result.utilizationPercent <= {LIMIT_PERCENT}",
        "provider": {"containerResource": {"container": "web", "resource": "cpu"}},
    },
    name=NAME,
)

UnderPrometheus: TypeAlias = Callable[[Prometheus, Stage], Manifest | None]
OnNode: TypeAlias = Callable[[RealNode, Stage], Manifest | None]
"""What happens once the new version is asked for; gives the Rollout as it stood still for a person."""


@dataclass(frozen=True, kw_only=True)
class Judged(Seen):
    """An update as it went."""

    first: str  # the revision that was there before
    rollout: Manifest  # in the end
    held: Manifest | None  # the Rollout while it stood still for a person; None when it never did
    runs: Sequence[Manifest]  # all AnalysisRuns
    autoscaler: Manifest  # in the end; {} for none

    @property
    def run(self) -> Manifest:
        (one,) = self.runs
        return one


@dataclass(frozen=True, kw_only=True)
class Update(UnderLoad):
    """A canary of four pods behind one Service; an analysis judges the new version at a quarter of the requests."""

    name: str  # in reports
    act: UnderPrometheus
    port: int  # of its Prometheus; each has one of its own
    errors_percent: float = 0  # of the new version's answers
    work: str = "20ms"  # how long each of them takes, as Go writes it

    def __str__(self) -> str:
        return self.name.replace(" ", "-")

    @property
    def flags(self) -> Sequence[str]:
        """Where its controller finds the Prometheus."""
        return (f"--prometheus-url=http://127.0.0.1:{self.port}",)

    def run(self, node: RealNode, stage: Stage) -> Judged:
        with measuring(node, stage, port=self.port) as prometheus:
            stage.apply(OF_THE_PODS, service(), canary("dies", "auto", steps=STEPS))
            version = new_version("2", errors_percent=self.errors_percent, work=self.work)
            return _judged(self, node, stage, version, lambda: self.act(prometheus, stage), f"analysis: {self.name}")


@dataclass(frozen=True, kw_only=True)
class ScaledUpdate(UnderLoad):
    """A canary of four pods behind one Service, which an autoscaler scales by the average of all of them."""

    name: str  # in reports
    act: OnNode
    steps: Sequence[Manifest] = field(default=BY_THE_GATE, hash=False)
    gate: Manifest | None = field(default_factory=lambda: GATE, hash=False)  # `spec.autoscaling`; None for none
    burn_millicores: int = 0  # of each pod of the new version
    most: int = 10  # the autoscaler's maximum

    def __str__(self) -> str:
        return self.name.replace(" ", "-")

    def run(self, node: RealNode, stage: Stage) -> Judged:
        rollout = canary("dies", "auto", steps=self.steps, spec={"autoscaling": self.gate} if self.gate else {})
        container_of(rollout)["resources"]["requests"]["cpu"] = CPU
        stage.apply(OF_CONTAINERS, service(), rollout)
        until_phase(stage, "Healthy")
        # By the average of all pods, as autoscalers do; it never takes one of the four away.
        target = {"type": "Utilization", "averageUtilization": TARGET_PERCENT}
        stage.apply(autoscaler(target, minReplicas=REPLICAS, most=self.most))
        kind = "horizontalpodautoscalers"
        stage.until(kind, NAME, lambda one: is_true(one, "ScalingActive"), within_s=DONE_WITHIN_S)
        scaled: list[Manifest] = []

        def act() -> Manifest | None:
            held = self.act(node, stage)
            scaled.append(stage.get(kind, NAME))
            if held is not None:
                abort(stage)
            return held

        version = new_version("2", burn_millicores=self.burn_millicores)
        return _judged(self, node, stage, version, act, f"autoscaler: {self.name}", scaled)


def _judged(job: UnderLoad, node: RealNode, stage: Stage, version: Manifest, act: Callable[[], Manifest | None],
            case: str, scaled: Sequence[Manifest] = ()) -> Judged:  # fmt: skip
    first = str(until_phase(stage, "Healthy")["status"]["currentRevision"])
    held: list[Manifest | None] = []

    def update() -> None:
        stage.patch(NAME, version)
        held.append(act())

    seen = job.seen(node, stage, update, case=case)
    return Judged(
        **vars(seen),
        first=first,
        rollout=stage.get("rollouts", NAME),
        held=held[0],
        runs=stage.all("analysisruns"),
        autoscaler=scaled[0] if scaled else {},
    )


def is_promoted(_: object, stage: Stage) -> None:
    """All of its own accord."""
    wait_until_done(stage)


def is_aborted(_: object, stage: Stage) -> None:
    """All of its own accord."""
    until_phase(stage, "Aborted")
    wait_until_back(stage)


def outlives_absences(prometheus: Prometheus, stage: Stage) -> Manifest | None:
    """While the analysis runs Prometheus is restarted, and later hangs; a person aborts if that was too much for it."""
    run = _until_run(stage)
    for goes, comes_back in ((prometheus.stop, prometheus.start), (prometheus.freeze, prometheus.thaw)):
        _until_more_evidence(stage, run)
        goes()
        threading.Event().wait(DOWN_S)
        comes_back()
    one = stage.until("rollouts", NAME, _decided, within_s=DONE_WITHIN_S)
    if one["status"]["phase"] == "Healthy":
        wait_until_done(stage)
        return None
    abort(stage)
    return one


def is_held_without_prometheus(prometheus: Prometheus, stage: Stage) -> Manifest | None:
    """Prometheus goes while the analysis runs, and does not come back; after some time a person aborts."""
    _until_more_evidence(stage, _until_run(stage))
    prometheus.stop()
    until_waiting_for(stage, "AnalysisInconclusive")
    threading.Event().wait(HELD_S)
    held = stage.get("rollouts", NAME)
    abort(stage)
    return held


def is_held_by(reason: str) -> OnNode:
    """The gate holds the first step for this reason, and goes on doing so."""

    def act(_: RealNode, stage: Stage) -> Manifest:
        until_waiting_for(stage, reason)
        threading.Event().wait(HELD_BY_THE_GATE_S)
        return stage.get("rollouts", NAME)

    return act


def is_held_without_metrics(node: RealNode, stage: Stage) -> Manifest | None:
    """metrics-server ends as the update begins, and comes back when it has been held for a while."""
    metrics_server.stop(node.processes)
    try:
        return is_held_by("AutoscalingUnknown")(node, stage)
    finally:
        metrics_server.start(node.plane, node.processes)


def _until_run(stage: Stage) -> str:
    return str(until_waiting_for(stage, "AnalysisRunning")["status"]["analyses"][-1]["run"])


def _until_more_evidence(stage: Stage, run: str) -> None:
    """Waits for one more success of the metric."""

    def successes(of: Manifest) -> int:
        return int(result_of(of, SUCCESS_RATE).get("successful", 0))

    before = successes(stage.get("analysisruns", run))
    stage.until("analysisruns", run, lambda one: successes(one) > before, within_s=DONE_WITHIN_S)


def _decided(rollout: Manifest) -> bool:
    status = rollout["status"]
    return status["phase"] == "Healthy" or (status.get("waitingFor") or {}).get("reason") == "AnalysisInconclusive"
