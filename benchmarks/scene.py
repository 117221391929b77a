"""What every phase of the benchmark needs: the control plane, the audit log, the results, a progress bar."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from rich.progress import Progress

from benchmarks.api import Api
from benchmarks.audit import Audit
from benchmarks.figures import Results
from benchmarks.process import cpu_s
from benchmarks.workloads import Object
from tests.lab.chart import CONTROLLER_USER, install_chart
from tests.lab.control_plane import ControlPlane

QUIET_S = 7.0  # counters in status are written at most 5 s late
QUIET_WITHIN_S = 300.0
COUNTED_WITHIN_S = 900.0

Bar: TypeAlias = Callable[[int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What every phase needs.

    Args:
        kubeconfig: of the chart's ServiceAccount: the controller has no other rights.
    """

    plane: ControlPlane
    api: Api
    audit: Audit
    kubeconfig: Path
    results: Results
    progress: Progress

    @property
    def logs(self) -> Path:
        """Folder of the programs' logs."""
        return Path(self.plane.folder, "logs")

    def control_plane_cpu_s(self) -> float:
        """CPU of etcd, kube-apiserver, kube-controller-manager, kwok and the idle scheduler since they started."""
        return sum(cpu_s(each) for each in self.plane.process_ids.values())

    @contextmanager
    def bar(self, title: str, total: int) -> Iterator[Bar]:
        """A progress bar, or a line at the end where there is no terminal; what it yields takes the number that is done."""
        task = self.progress.add_task(title, total=total)
        began_s = time.monotonic()
        yield lambda done: self.progress.update(task, completed=done)
        self.progress.update(task, completed=total)
        if not self.progress.console.is_terminal:
            print(f"{title}: {total} in {time.monotonic() - began_s:.1f} s", flush=True)

    async def add_namespace(self, name: str) -> None:
        """Creates a namespace, and waits for its account."""
        await self.api.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        await asyncio.to_thread(self.plane.wait_for_default_account, name)

    async def quiet(self, title: str, *, within_s: float = QUIET_WITHIN_S) -> None:
        """Waits until the controller asks nothing any more. Raises: TimeoutError."""
        with self.bar(title, 1):
            await self.audit.quiet(for_s=QUIET_S, deadline_s=within_s)

    async def until_counted(self, collection: str, count: int, holds: Callable[[Object], bool], done: Bar) -> None:
        """Lists a collection now and then until so many of its objects hold. Raises: TimeoutError."""
        async with asyncio.timeout(COUNTED_WITHIN_S):
            while True:
                listed = await self.api.request("GET", collection)
                found = sum(1 for one in listed["items"] if holds(one))
                done(found)
                if found >= count:
                    return
                await asyncio.sleep(2)


async def scene_of(plane: ControlPlane, api: Api, results: Results, progress: Progress, *chart: str) -> Scene:
    """The scene, with the chart installed by these words of Helm's."""
    kubeconfig = await asyncio.to_thread(install_chart, plane, *chart)
    audit = Audit(plane, user=CONTROLLER_USER)
    return Scene(plane=plane, api=api, audit=audit, kubeconfig=kubeconfig, results=results, progress=progress)
