"""The writes of N background runs, sent by a plain client: what they cost the API server and whoever shares it.

The objects are of a kind with the schema of AnalysisRuns that nobody watches; each gets the status of a run with ten measurements
once an interval. The client is a process of its own, as the controller is.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import yaml

from benchmarks.api import MERGE_PATCH, Api, connected, for_each
from benchmarks.workloads import Object
from rollouts.api.times import format_time
from tests.lab.chart import wait_established
from tests.lab.control_plane import ControlPlane

ROOT = Path(__file__).parent.parent
GROUP = "bench.example"
NAMESPACE = "bench-same-writes"
MEASUREMENTS = 10  # as many as a run keeps
_COLLECTION = f"/apis/{GROUP}/v1alpha1/namespaces/{NAMESPACE}/analysisruns"


@asynccontextmanager
async def sent(plane: ControlPlane, api: Api, *, count: int, interval_s: float) -> AsyncIterator[None]:
    """Sends them while the block runs: each of `count` objects is written once in `interval_s` seconds, evenly.

    Raises: RuntimeError when the client has ended before the block.
    """
    await _made(plane, api, count=count)
    plane.save()
    client = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", __name__, plane.folder, str(count), str(interval_s))
    )
    try:
        yield
        if client.returncode is not None:
            raise RuntimeError(f"the client of the same writes has ended with {client.returncode}")
    finally:
        if client.returncode is None:
            client.kill()
        await client.wait()


async def _made(plane: ControlPlane, api: Api, *, count: int) -> None:
    crd = yaml.safe_load((ROOT / "crds" / "rollouts.dev_analysisruns.yaml").read_text())
    crd["metadata"]["name"] = f"analysisruns.{GROUP}"
    crd["spec"]["group"] = GROUP
    for name in ("shortNames", "categories"):
        crd["spec"]["names"].pop(name, None)
    await api.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
    await asyncio.to_thread(wait_established, plane, crd["metadata"]["name"])
    await api.request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})

    async def make(number: int) -> None:
        metric = {"name": "rate", "provider": {"prometheus": {"query": "1"}}}
        run = {"apiVersion": f"{GROUP}/v1alpha1", "kind": "AnalysisRun", "metadata": {"name": _name(number)}}
        await api.request("POST", _COLLECTION, {**run, "spec": {"metrics": [metric]}})

    await for_each(range(count), make)


async def _send(plane: ControlPlane, *, count: int, interval_s: float) -> None:
    """Writes until it is killed; a late answer delays no other write."""
    async with connected(plane) as api, asyncio.TaskGroup() as writes:
        began_s, number = time.monotonic(), 0
        while True:
            path = f"{_COLLECTION}/{_name(number % count)}/status"
            writes.create_task(api.request("PATCH", path, _status(time.time()), content_type=MERGE_PATCH))
            number += 1
            await asyncio.sleep(began_s + number * interval_s / count - time.monotonic())


def _status(now_s: float) -> Object:
    """What a run's status is with one more measurement."""
    one = {"phase": "Successful", "value": "[1]", "samples": 1}
    measurements = []
    for age in reversed(range(MEASUREMENTS)):
        at_s = now_s - 30.0 * age
        measurements.append({**one, "startedAt": format_time(at_s), "finishedAt": format_time(at_s + 0.01)})
    counts = {"count": MEASUREMENTS, "successful": MEASUREMENTS, "consecutiveSuccess": MEASUREMENTS}
    result = {"name": "rate", "phase": "Running", "measurements": measurements, **counts}
    return {"status": {"phase": "Running", "metricResults": [result], "runSummary": {"count": 1}}}


def _name(number: int) -> str:
    return f"run-{number:05}"


if __name__ == "__main__":
    asyncio.run(_send(ControlPlane.load(Path(sys.argv[1])), count=int(sys.argv[2]), interval_s=float(sys.argv[3])))
