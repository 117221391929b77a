"""Updates that an analysis decides about, under load: what was done, what became of requests, and what was measured."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.e2e.stage import Stage
from tests.lab.prometheus_server import Prometheus
from tests.node.cutover import Seen, usual_rate
from tests.node.cutover_report import Case
from tests.node.measuring import ANALYSIS, OF_THE_PODS, SUCCESS_RATE, measuring, result_of
from tests.node.moves import DONE_WITHIN_S, abort, until_phase, until_waiting_for, wait_until_back, wait_until_done
from tests.node.real_node import Proxy, RealNode
from tests.node.traffic import Outcome, traffic
from tests.node.workload import NAME, Manifest, canary, new_version, service

STEPS: Sequence[Manifest] = (
    {"setWeight": 25},
    {"analysis": ANALYSIS},
    {"setWeight": 50},
    {"pause": {"duration": "2s"}},
)
DOWN_S = 4.0
"""How long a Prometheus is away that comes back: longer than a query may take, and errors fewer than are borne."""

HELD_S = 5.0

Act = Callable[[Stage, Prometheus], Manifest | None]


@dataclass(frozen=True, kw_only=True)
class Judged(Seen):
    """An update as it went.

    Args:
        first: the revision that was there before.
        rollout: in the end.
        held: while it stood still for a person; None when it never did.
        runs: all AnalysisRuns.
    """

    first: str
    rollout: Manifest
    held: Manifest | None
    runs: Sequence[Manifest]

    @property
    def run(self) -> Manifest:
        """The only AnalysisRun."""
        (one,) = self.runs
        return one


@dataclass(frozen=True, kw_only=True)
class Update:
    """A canary of four pods behind one Service; an analysis judges the new version at a quarter of the requests.

    Args:
        name: in reports.
        act: what happens once the new version is asked for, until the pods that had to go are gone; gives the Rollout as it
            stood still for a person.
        port: of its Prometheus; each has one of its own.
        errors_percent: of the new version's answers.
        work: how long each of them takes, as Go writes it.
    """

    name: str
    act: Act
    port: int
    errors_percent: float = 0
    work: str = "20ms"
    rate: float = field(default_factory=usual_rate)
    proxy: Proxy = Proxy("iptables")
    alone: bool = False

    def __str__(self) -> str:
        return self.name.replace(" ", "-")

    @property
    def flags(self) -> Sequence[str]:
        """Where its controller finds the Prometheus."""
        return (f"--prometheus-url=http://127.0.0.1:{self.port}",)

    def run(self, node: RealNode, stage: Stage) -> Judged:
        """Asks for the new version; the requests are those that were sent from before it until the act was over."""
        with measuring(node, stage, port=self.port) as prometheus:
            stage.apply(OF_THE_PODS, service(), canary("dies", "auto", steps=STEPS))
            first = until_phase(stage, "Healthy")["status"]["currentRevision"]
            address = stage.get("services", NAME)["spec"]["clusterIP"]
            with traffic(node, f"http://{address}/", rate=self.rate, name=f"load-{stage.namespace}") as running:
                began = time.monotonic()
                stage.patch(NAME, new_version("2", errors_percent=self.errors_percent, work=self.work))
                held = self.act(stage, prometheus)
                took_s = time.monotonic() - began
        return Judged(
            outcome=running.outcome,
            row=self._row(running.outcome, took_s),
            namespace=stage.namespace,
            slowest_sync_s=node.slowest_sync_s(),
            first=first,
            rollout=stage.get("rollouts", NAME),
            held=held,
            runs=stage.all("analysisruns"),
        )

    def _row(self, outcome: Outcome, took_s: float) -> Case:
        return Case(
            case=f"analysis: {self.name}",
            proxy=str(self.proxy),
            drain="auto",
            app="dies",
            connections="new",
            protocol="http1",
            sent=outcome.sent,
            failed=dict(outcome.failed),
            seconds=round(took_s, 1),
            timeline=outcome.seconds,
        )


def is_promoted(stage: Stage, _: Prometheus) -> None:
    """All of its own accord."""
    wait_until_done(stage)


def is_aborted(stage: Stage, _: Prometheus) -> None:
    """All of its own accord."""
    until_phase(stage, "Aborted")
    wait_until_back(stage)


def outlives_absences(stage: Stage, prometheus: Prometheus) -> Manifest | None:
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


def is_held_without_prometheus(stage: Stage, prometheus: Prometheus) -> Manifest | None:
    """Prometheus goes while the analysis runs, and does not come back; after some time a person aborts."""
    _until_more_evidence(stage, _until_run(stage))
    prometheus.stop()
    until_waiting_for(stage, "AnalysisInconclusive")
    threading.Event().wait(HELD_S)
    held = stage.get("rollouts", NAME)
    abort(stage)
    return held


def _until_run(stage: Stage) -> str:
    one = until_waiting_for(stage, "AnalysisRunning")
    return str(one["status"]["analyses"][-1]["run"])


def _until_more_evidence(stage: Stage, run: str) -> None:
    """Waits for one more success of the metric."""
    before = _successes(stage.get("analysisruns", run))
    stage.until("analysisruns", run, lambda one: _successes(one) > before, within_s=DONE_WITHIN_S)


def _successes(run: Manifest) -> int:
    return int(result_of(run, SUCCESS_RATE).get("successful", 0))


def _decided(rollout: Manifest) -> bool:
    status = rollout["status"]
    waiting: dict[str, Any] = status.get("waitingFor") or {}
    return status["phase"] == "Healthy" or waiting.get("reason") == "AnalysisInconclusive"
