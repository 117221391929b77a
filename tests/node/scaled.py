"""Updates of a Rollout that an autoscaler scales, with `spec.autoscaling`, under load."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.e2e.stage import Stage
from tests.node import metrics_server
from tests.node.cutover import Seen, usual_rate
from tests.node.cutover_report import Case
from tests.node.moves import DONE_WITHIN_S, abort, until_phase, until_waiting_for, wait_until_back, wait_until_done
from tests.node.real_node import Proxy, RealNode
from tests.node.traffic import traffic
from tests.node.workload import NAME, REPLICAS, Manifest, canary, new_version, requesting, service

CPU = "100m"
"""What each pod requests. Its answers cost it a tenth to a fifth of that."""

BURNT_MILLICORES = 200
"""What a pod of the bad version uses beside them: over the limit alone, under the target of the autoscaler with three others."""

TARGET_PERCENT = 80
LIMIT_PERCENT = 90
HEADROOM_PERCENT = 20
HELD_S = 40.0
"""Longer than two looks of the gate."""

GATE: Manifest = {
    "settled": True,
    "minHeadroomPercent": HEADROOM_PERCENT,
    "containerResource": {"container": "web", "resource": "cpu", "maxUtilizationPercent": LIMIT_PERCENT},
}
BY_THE_GATE: Sequence[Manifest] = ({"setWeight": 25}, {"setWeight": 50})
BY_ITS_ANALYSIS: Sequence[Manifest] = ({"setWeight": 25}, {"analysis": {"templates": [{"templateName": NAME}]}})
TEMPLATE: Manifest = {
    "apiVersion": "rollouts.dev/v1alpha1",
    "kind": "AnalysisTemplate",
    "metadata": {"name": NAME},
    "spec": {
        "metrics": [
            {
                "name": "cpu",
                "interval": "5s",
                "count": 3,
                "noData": "wait",  # a new pod is measured some 20 to 30 s after its start
                "successCondition": f"result.utilizationPercent <= {LIMIT_PERCENT}",
                "provider": {"containerResource": {"container": "web", "resource": "cpu"}},
            }
        ]
    },
}

Act = Callable[[RealNode, Stage], Manifest | None]


@dataclass(frozen=True, kw_only=True)
class Scaled(Seen):
    """An update as it went.

    Args:
        first: the revision that was there before.
        held: the Rollout while it stood still; None when it never did.
        autoscaler: at that moment, or in the end.
        rollout, runs: in the end.
    """

    first: str
    held: Manifest | None
    autoscaler: Manifest
    rollout: Manifest
    runs: Sequence[Manifest]


@dataclass(frozen=True, kw_only=True)
class ScaledUpdate:
    """A canary of four pods behind one Service, which an autoscaler scales by the average of all of them.

    Args:
        name: in reports.
        act: what happens once the new version is asked for; gives the Rollout as it stood still.
        gate: `spec.autoscaling`; None for none.
        burn_millicores: of each pod of the new version.
        most: the autoscaler's maximum.
    """

    name: str
    act: Act
    steps: Sequence[Manifest] = field(default=BY_THE_GATE, hash=False)
    gate: Manifest | None = field(default_factory=lambda: GATE, hash=False)
    burn_millicores: int = 0
    most: int = 10
    rate: float = field(default_factory=usual_rate)
    proxy: Proxy = Proxy("iptables")
    alone: bool = False
    flags: Sequence[str] = ()

    def __str__(self) -> str:
        return self.name.replace(" ", "-")

    def run(self, node: RealNode, stage: Stage) -> Scaled:
        """Waits until the autoscaler has looked, asks for the new version, and acts, under load."""
        spec = {"autoscaling": self.gate} if self.gate is not None else {}
        stage.apply(TEMPLATE, service(), requesting(canary("dies", "auto", steps=self.steps, spec=spec), cpu=CPU))
        first = str(until_phase(stage, "Healthy")["status"]["currentRevision"])
        stage.apply(autoscaler(most=self.most))
        address = stage.get("services", NAME)["spec"]["clusterIP"]
        with traffic(node, f"http://{address}/", rate=self.rate, name=f"load-{stage.namespace}") as running:
            stage.until("horizontalpodautoscalers", NAME, _is_active, within_s=DONE_WITHIN_S)
            began = time.monotonic()
            stage.patch(NAME, new_version("2", burn_millicores=self.burn_millicores))
            held = self.act(node, stage)
            seen = stage.get("horizontalpodautoscalers", NAME)
            if held is not None:
                abort(stage)
            took_s = time.monotonic() - began
        row = Case(
            case=f"autoscaler: {self.name}",
            proxy=str(self.proxy),
            drain="auto",
            app="dies",
            connections="new",
            protocol="http1",
            sent=running.outcome.sent,
            failed=dict(running.outcome.failed),
            seconds=round(took_s, 1),
            timeline=running.outcome.seconds,
        )
        return Scaled(
            outcome=running.outcome,
            row=row,
            namespace=stage.namespace,
            slowest_sync_s=node.slowest_sync_s(),
            first=first,
            held=held,
            autoscaler=seen,
            rollout=stage.get("rollouts", NAME),
            runs=stage.all("analysisruns"),
        )


def is_promoted(_: RealNode, stage: Stage) -> None:
    """All of its own accord."""
    wait_until_done(stage)


def is_aborted(_: RealNode, stage: Stage) -> None:
    """All of its own accord."""
    until_phase(stage, "Aborted")
    wait_until_back(stage)


def is_held_by(reason: str) -> Act:
    """The gate holds the first step for this reason, and goes on doing so."""

    def act(_: RealNode, stage: Stage) -> Manifest:
        until_waiting_for(stage, reason)
        threading.Event().wait(HELD_S)
        return stage.get("rollouts", NAME)

    return act


def is_held_without_metrics(node: RealNode, stage: Stage) -> Manifest:
    """metrics-server ends as the update begins, and comes back when it has been held for a while."""
    metrics_server.stop(node.processes)
    try:
        until_waiting_for(stage, "AutoscalingUnknown")
        threading.Event().wait(HELD_S)
        return stage.get("rollouts", NAME)
    finally:
        metrics_server.start(node.plane, node.processes)


def autoscaler(*, most: int) -> Manifest:
    """By the average of all pods, as autoscalers do; it never takes one of the four away."""
    target = {"type": "Utilization", "averageUtilization": TARGET_PERCENT}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": NAME},
        "spec": {
            "scaleTargetRef": {"apiVersion": "rollouts.dev/v1alpha1", "kind": "Rollout", "name": NAME},
            "minReplicas": REPLICAS,
            "maxReplicas": most,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
        },
    }


def _is_active(one: Manifest) -> bool:
    conditions = one.get("status", {}).get("conditions") or []
    return any(each["type"] == "ScalingActive" and each["status"] == "True" for each in conditions)
