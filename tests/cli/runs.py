"""AnalysisRuns as the API server gives them, and a cluster that serves them, for the tests of the command line."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest

from rollouts.api.schema import crd_manifests
from rollouts.api.status.analysis_run import run_status_to_wire
from rollouts.cli.view.session import Session, session_on
from rollouts.clock import SystemClock
from rollouts.core.analysis.measurement import Measurement, MetricResult, RunStatus
from rollouts.core.model.analysis import AnalysisPhase
from rollouts.core.model.frozen import replace
from rollouts.objects import ANALYSIS_RUN, ROLLOUT, Kind, Manifest
from rollouts.ports import MERGE_PATCH, Request
from rollouts.sim.apiserver.http import SimHttp
from rollouts.sim.apiserver.server import SimServer
from tests import build
from tests.cli.command_line import CommandLine
from tests.cli.shop import ShopDoor

NOW_S = 1_800_000_000.0
SUCCESSFUL, FAILED = AnalysisPhase.SUCCESSFUL, AnalysisPhase.FAILED
OWNER = {"apiVersion": "rollouts.dev/v1alpha1", "kind": "Rollout", "name": "cart", "uid": "u1", "controller": True}


def metric(name: str = "success-rate", **fields: Any) -> Manifest:
    """A metric of a run's spec."""
    return build.metric(name, condition="result[0] >= 0.99", **{"interval": "30s", "count": 10, **fields})


def measurement(
    value: str, phase: AnalysisPhase = SUCCESSFUL, *, ago_s: float = 10.0, message: str = ""
) -> Measurement:
    """One measurement that took half a second."""
    at_s = NOW_S - ago_s
    return Measurement(
        phase=phase, started_at_s=at_s, finished_at_s=at_s + 0.5, value=value, samples=1, message=message
    )


def result(*measurements: Measurement, name: str = "success-rate", **fields: Any) -> MetricResult:
    """What is known of a metric after these measurements, by their own counts."""
    phases = [each.phase for each in measurements]
    counts = {
        "count": len(phases) - phases.count(AnalysisPhase.ERROR),
        "successful": phases.count(SUCCESSFUL),
        "failed": phases.count(FAILED),
        "inconclusive": phases.count(AnalysisPhase.INCONCLUSIVE),
        "error": phases.count(AnalysisPhase.ERROR),
    }
    return MetricResult(
        **{"name": name, "phase": AnalysisPhase.RUNNING, "measurements": measurements, **counts, **fields}
    )


def run(
    name: str = "cart-newrev-step-1",
    *,
    status: RunStatus | None = None,
    labels: dict[str, str] | None = None,
    owned: bool = True,
    **spec: Any,
) -> Manifest:
    """An AnalysisRun of step 1 of revision newrev of the Rollout cart."""
    of_step = {"rollouts.dev/analysis": "step", "rollouts.dev/step": "1"} if owned else {}
    about = {"rollouts.dev/name": "cart", "rollouts.dev/revision": "newrev", **of_step}
    metadata: Manifest = {"name": name, "labels": about if labels is None else labels}
    if owned:
        metadata["ownerReferences"] = [OWNER]
    made = {"metadata": metadata, "spec": {"metrics": [metric()], **spec}}
    return made if status is None else {**made, "status": run_status_to_wire(status)}


RUNNING = RunStatus(
    phase=AnalysisPhase.RUNNING,
    results=(
        result(
            measurement("[0.995]", ago_s=70),
            measurement("[0.981]", FAILED, ago_s=40, message="the success condition does not hold"),
            measurement("[0.999]", ago_s=10),
        ),
    ),
    started_at_s=NOW_S - 72,
)
GOOD = RunStatus(
    phase=SUCCESSFUL,
    results=(result(measurement("[1]"), phase=SUCCESSFUL),),
    started_at_s=NOW_S - 90,
    completed_at_s=NOW_S - 30,
)
BAD = replace(
    GOOD,
    phase=FAILED,
    message='Metric "success-rate" assessed Failed due to failed (1) > failureLimit (0)',
    results=(result(measurement("[0.5]", FAILED), phase=FAILED, message="failed (1) > failureLimit (0)"),),
)


@dataclass(frozen=True)
class Served(CommandLine):
    """An API server without a controller, on a port of loopback, and its door for the command line."""

    api: SimServer
    door: ShopDoor

    @property
    def session(self) -> Session:
        """Of the namespace default."""
        return session_on(self.api, namespace="default", request_timeout_s=2.0)

    async def create(self, kind: Kind, manifest: Manifest) -> None:
        """Creates an object, with its status."""
        namespace = "default" if kind.namespaced else None
        await self.session.client.create(kind, namespace, {**manifest, "status": None})
        if manifest.get("status"):
            await self.put_status(kind, manifest["metadata"]["name"], manifest["status"])

    async def put_status(self, kind: Kind, name: str, status: Manifest) -> None:
        """What a controller would write."""
        body = json.dumps({"status": status}).encode()
        namespace = "default" if kind.namespaced else None
        request = Request("PATCH", kind.path(namespace, name, "status"), {}, body, MERGE_PATCH)
        answer = await self.api.request(request, deadline_s=2.0)
        assert answer.status == 200, answer.body

    async def object(self, kind: Kind, name: str) -> Manifest:
        """An object as it is now."""
        found: Manifest = json.loads(await self.session.client.get(kind, "default", name))
        return found

    async def all(self, kind: Kind) -> list[Manifest]:
        """Every object of a kind in the namespace."""
        listed: list[Manifest] = json.loads(await self.session.client.list_page(kind, "default"))["items"]
        return listed


_crds = cache(crd_manifests)


@contextlib.asynccontextmanager
async def served(tmp_path: Path, printed: pytest.CaptureFixture[str], *, without: str = "") -> AsyncIterator[Served]:
    """A server with the project's types, but for the one of this plural."""
    crds = [each for each in _crds() if each["spec"]["names"]["plural"] != without]
    api = SimServer(clock=SystemClock(), crds=crds)
    door = ShopDoor(api)
    async with SimHttp(cast(SimServer, door)) as http:
        yield Served(tmp_path, printed, http.write_kubeconfig(tmp_path / "kubeconfig"), api, door)


def rollout(**status: Any) -> Manifest:
    """The Rollout cart, in the middle of its update to revision newrev."""
    at = {"phase": "Progressing", "currentRevision": "newrev", "stableRevision": "oldrev", "currentStepIndex": 1,
          "observedGeneration": 1}  # fmt: skip
    return {
        "metadata": {"name": "cart", "labels": {"region": "north"}},
        "spec": {
            "selector": {"matchLabels": {"app": "cart"}},
            "strategy": {"canary": {"steps": [{"setWeight": 25}, {"pause": {}}]}},
            "template": build.pod_template("cart", image="cart:2"),
        },
        "status": {**at, **status},
    }


async def install(there: Served, *runs: Manifest) -> None:
    """Creates the Rollout and runs that it owns, by its real uid."""
    await there.create(ROLLOUT, rollout())
    uid = (await there.object(ROLLOUT, "cart"))["metadata"]["uid"]
    for each in runs:
        owners = [{**owner, "uid": uid} for owner in each["metadata"].get("ownerReferences", ())]
        metadata = {**each["metadata"], **({"ownerReferences": owners} if owners else {})}
        await there.create(ANALYSIS_RUN, {**each, "metadata": metadata})


def replica_set(of: Manifest) -> Manifest:
    """The ReplicaSet of revision newrev, which the Rollout owns."""
    labels = {"app": "cart", "rollouts.dev/name": "cart", "rollouts.dev/revision": "newrev"}
    metadata = {"labels": labels, "ownerReferences": [{**OWNER, "uid": of["metadata"]["uid"]}]}
    template = {"metadata": {"labels": labels}, "spec": of["spec"]["template"]["spec"]}
    selector = {"matchLabels": labels}
    return build.replica_set("cart-newrev", replicas=1, metadata=metadata, selector=selector, template=template)
