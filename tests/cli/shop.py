"""A simulated cluster over HTTP with the real controller on it, as the command line finds it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from rollouts.cli.demo.manifests import rollout, service
from rollouts.cli.demo.stage import DemoStage, simulated_stage
from rollouts.cli.view.objects import RolloutObjects, status_of
from rollouts.objects import Manifest
from rollouts.ports import Request, Response
from rollouts.sim.apiserver.http import SimHttp
from rollouts.sim.apiserver.server import SimServer
from tests.build import canary
from tests.cli.command_line import CommandLine, Said
from tests.controller.door import Door, refusal
from tests.patience import PATIENCE_S

STEPS = canary({"setWeight": 50}, {"pause": {}})


class ShopDoor(Door):
    """The API server as the command line finds it; it answers 403 for parts of paths, and knows no resource for others."""

    def __init__(self, api: SimServer) -> None:
        super().__init__(api, self._answer)
        self.refused: tuple[str, ...] = ()
        self.absent: tuple[str, ...] = ()
        self.end_watches = api.end_watches

    def _answer(self, request: Request) -> Response | None:
        if any(part in request.path for part in self.refused):
            return refusal(403, "Forbidden")
        absent = any(part in request.path for part in self.absent)
        return refusal(404, "NotFound", "the server could not find the requested resource") if absent else None


@dataclass(frozen=True)
class Shop(CommandLine):
    """A cluster, and its door for the command line."""

    stage: DemoStage
    door: ShopDoor

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
        door = ShopDoor(stage.sim.api)
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
