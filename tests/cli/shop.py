"""A simulated cluster over HTTP with the real controller on it, as the command line finds it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from rollouts.cli.demo.manifests import rollout, service
from rollouts.cli.demo.stage import DemoStage, simulated_stage
from rollouts.cli.view.objects import RolloutObjects, status_of
from rollouts.objects import Manifest
from rollouts.ports import Request, Response, WatchStream
from rollouts.sim.apiserver.http import SimHttp
from rollouts.sim.apiserver.server import SimServer
from tests.build import canary
from tests.cli.command_line import CommandLine, Said

STEPS = canary({"setWeight": 50}, {"pause": {}})
PATIENCE_S = 20.0


@dataclass
class Door:
    """The API server as the command line finds it: every request is recorded, and some paths are refused.

    Args:
        refused: parts of paths that are answered with 403.
        absent: parts of paths that this server knows no resource for.
    """

    api: SimServer
    requests: list[Request] = field(default_factory=list)
    refused: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()

    async def request(self, request: Request, *, deadline_s: float) -> Response:
        """As the port's."""
        self.requests.append(request)
        if any(part in request.path for part in self.refused):
            return Response(403, b'{"kind": "Status", "code": 403, "reason": "Forbidden", "message": "no"}')
        if any(part in request.path for part in self.absent):
            message = "the server could not find the requested resource"
            return Response(404, json.dumps({"kind": "Status", "code": 404, "message": message}).encode())
        return await self.api.request(request, deadline_s=deadline_s)

    async def open_watch(self, request: Request, *, deadline_s: float, silence_s: float) -> WatchStream:
        """As the port's."""
        self.requests.append(request)
        return await self.api.open_watch(request, deadline_s=deadline_s, silence_s=silence_s)

    def end_watches(self) -> None:
        """As the server's."""
        self.api.end_watches()


@dataclass(frozen=True)
class Shop(CommandLine):
    """A cluster, and its door for the command line."""

    stage: DemoStage
    door: Door

    @property
    def namespace(self) -> str:
        """Of all of it."""
        return self.stage.namespace

    def service(self, name: str = "cart", app: str = "cart") -> Manifest:
        """A Service of the namespace."""
        return service(self.namespace, name, app=app)

    async def installed(self, *manifests: Manifest, phase: str = "Healthy") -> None:
        """Installs objects, and waits until the Rollout cart is rolled out."""
        await self.stage.install(manifests)
        await self.reaches(phase)

    async def reaches(self, phase: str) -> RolloutObjects:
        """Waits for the phase of the Rollout cart, of its latest spec."""

        def holds(seen: RolloutObjects) -> bool:
            status = status_of(seen.rollout)
            return status.phase == phase and status.observed_generation == seen.rollout["metadata"]["generation"]

        return await self.stage.until("cart", holds, deadline_s=PATIENCE_S, what=phase)

    async def plan(self, *objects: Manifest | str, words: Iterable[str] = (), code: int | None = 0) -> Said:
        """What `rollouts plan` says of a file with these objects, or with that text."""
        return await self.run("plan", "-f", self.file(*objects), *words, code=code)

    async def planned(self, *objects: Manifest | str, words: Iterable[str] = ()) -> dict[str, Any]:
        """The one plan of such a file as data, and that its exit code says whether it is unsafe."""
        said = await self.plan(*objects, words=("-o", "json", *words), code=None)
        (plan,) = json.loads(said.out)["plans"]
        assert said.code == (5 if plan["unsafe"] else 0)
        return dict(plan)


@contextlib.asynccontextmanager
async def empty_shop(folder: Path, printed: pytest.CaptureFixture[str]) -> AsyncIterator[Shop]:
    """A namespace with nothing in it."""
    async with simulated_stage(serve=None, seed=3) as stage:
        assert stage.sim is not None
        door = Door(stage.sim.api)
        async with SimHttp(cast(SimServer, door)) as http:
            kubeconfig = http.write_kubeconfig(folder / "kubeconfig", namespace=stage.namespace)
            yield Shop(folder, printed, kubeconfig, stage, door)


@contextlib.asynccontextmanager
async def shop(
    folder: Path, printed: pytest.CaptureFixture[str], *templates: Manifest, strategy: Manifest = STEPS
) -> AsyncIterator[Shop]:
    """One Rollout of two pods, Healthy, and AnalysisTemplates."""
    async with empty_shop(folder, printed) as there:
        manifest = rollout(there.namespace, "cart", strategy)
        manifest["spec"]["replicas"] = 2
        await there.installed(*templates, there.service(), manifest)
        yield there
