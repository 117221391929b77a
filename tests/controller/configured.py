"""A canary that reads a ConfigMap, and a controller on a simulated cluster behind a door that sees and refuses requests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from rollouts.api.schema import crd_manifests
from rollouts.controller.wiring import EXIT_STOPPED
from rollouts.objects import CONFIG_MAP, REPLICA_SET, ROLLOUT, Kind, Manifest
from rollouts.ports import JSON, MERGE_PATCH, Request, Response
from rollouts.sim.cluster import SimulatedCluster
from tests import build
from tests.controller.door import Door, refusal
from tests.controller.test_the_process_outlives_what_objects_hold import Running

COPY = "rollouts.dev/config-copy"
SOURCE = "app-config"
GATED: tuple[Manifest, ...] = ({"setWeight": 50}, {"pause": {}})


def config_map(name: str = SOURCE, data: Mapping[str, str] | None = None, **more: Any) -> Manifest:
    """A ConfigMap of the user's."""
    return build.config_map(name, "default", data=dict(data or {"color": "blue"}), **more)


def canary(name: str = "web", *names: str, image: str = "app:1", **more: Any) -> Manifest:
    """A Rollout whose container gets its environment from these ConfigMaps, from `app-config` without names."""
    container = {"envFrom": [{"configMapRef": {"name": each}} for each in names or (SOURCE,)]}
    template = build.pod_template(name, image=image, container=container)
    spec: Manifest = {"drain": {"maxRequestSeconds": 0}, "template": template, **more}
    return build.rollout({"canary": {"steps": list(GATED)}}, name, "default", **spec)


def forbidden(
    method: str = "GET", *, accept: str | None = None, name: str = ""
) -> Callable[[Request], Response | None]:
    """Refuses requests about ConfigMaps, as RBAC does."""
    verb = {"GET": "get", "POST": "create"}[method]
    message = f'configmaps is forbidden: User "rollouts" cannot {verb} resource "configmaps" in API group ""'
    refused = refusal(403, "Forbidden", message)

    def refuse(request: Request) -> Response | None:
        about = "/namespaces/default/configmaps" in request.path or request.path.endswith("/api/v1/configmaps")
        same = about and request.method == method and accept in (None, request.accept)
        return refused if same and request.path.endswith(name) else None

    return refuse


@dataclass
class Configured:
    """A cluster with one controller."""

    cluster: SimulatedCluster
    door: Door
    running: Running

    @property
    def reads(self) -> list[str]:
        """Reads of whole ConfigMaps, by name."""
        return [each.path.rpartition("/")[2] for each in self._asked() if each.accept == JSON]

    @property
    def lists(self) -> int:
        """How often ConfigMaps were listed or watched."""
        return sum(each.accept != JSON for each in self._asked())

    def _asked(self) -> list[Request]:
        asked = (each for each in self.door.asked if each.method == "GET" and "/kube-system/" not in each.path)
        return [each for each in asked if "/configmaps" in each.path]

    def apply(self, *manifests: Manifest) -> None:
        """As a user."""
        for each in manifests:
            self.cluster.apply(each)

    async def until(self, holds: Callable[[Manifest], bool], name: str = "web") -> Manifest:
        """Waits until that holds of a Rollout's status; the status."""

        def seen(found: Manifest | None) -> bool:
            return found is not None and holds(found.get("status") or {})

        await self.cluster.until(seen, kind=ROLLOUT, namespace="default", name=name, deadline_s=300)
        found = self.cluster.get(ROLLOUT, "default", name)
        assert found is not None
        return dict(found["status"])

    async def until_healthy(self, name: str = "web", *, at: str = "") -> str:
        """Waits until a revision is rolled out, other than `at`; the revision."""
        status = await self.until(
            lambda one: one.get("phase") == "Healthy" and one.get("stableRevision") not in ("", at), name
        )
        return str(status["stableRevision"])

    async def until_waiting(self, reason: str, name: str = "web") -> str:
        """Waits for a wait; its message."""
        status = await self.until(lambda one: (one.get("waitingFor") or {}).get("reason") == reason, name)
        return str(status["waitingFor"]["message"])

    async def promoted(self, name: str = "web", *, at: str) -> str:
        """Waits for the gate of a revision other than `at`, and lets it pass; the revision, once it is rolled out."""
        paused = await self.until(lambda one: one.get("phase") == "Paused" and one.get("currentRevision") != at, name)
        self.annotate("promote", f"{paused['currentRevision']}@full", name)
        return await self.until_healthy(name, at=at)

    def annotate(self, verb: str, value: str, name: str = "web") -> None:
        """A command."""
        body = json.dumps({"metadata": {"annotations": {f"rollouts.dev/{verb}": value}}}).encode()
        path = ROLLOUT.path("default", name)
        assert self.cluster.api.answer(Request("PATCH", path, {}, body, MERGE_PATCH)).status == 200

    def patch(self, name: str, body: Manifest, *, kind: Kind = CONFIG_MAP) -> None:
        """A merge patch, as a user."""
        path = kind.path("default", name)
        assert self.cluster.api.answer(Request("PATCH", path, {}, json.dumps(body).encode(), MERGE_PATCH)).status == 200

    def delete(self, name: str, *, kind: Kind = CONFIG_MAP) -> None:
        """As a user; what it owns follows."""
        assert self.cluster.api.answer(Request("DELETE", kind.path("default", name))).status == 200

    def replica_sets(self, name: str = "web") -> dict[str, Manifest]:
        """By revision."""
        found = self.cluster.list(REPLICA_SET, "default")
        labels = ((each["metadata"]["labels"], each) for each in found)
        return {of["rollouts.dev/revision"]: each for of, each in labels if of["app"] == name}

    def names(self, revision: str, name: str = "web") -> list[str]:
        """The ConfigMaps that a revision's pods read."""
        container = self.replica_sets(name)[revision]["spec"]["template"]["spec"]["containers"][0]
        return [each["configMapRef"]["name"] for each in container["envFrom"]]

    def copies(self) -> dict[str, Manifest]:
        """By name."""
        found = self.cluster.list(CONFIG_MAP, "default")
        return {each["metadata"]["name"]: each for each in found if COPY in each["metadata"].get("labels", {})}

    def color(self, revision: str, name: str = "web") -> str:
        """What the pods of a revision read."""
        found = self.cluster.get(CONFIG_MAP, "default", self.names(revision, name)[0])
        assert found is not None
        return str(found["data"]["color"])

    async def restarted(self, **settings: Any) -> None:
        """Another controller process."""
        assert await self.running.stopped() == EXIT_STOPPED
        self.running = Running(self.cluster, self.door, **settings)


@asynccontextmanager
async def configured(**settings: Any) -> AsyncIterator[Configured]:
    """A cluster with one controller, which ends in order."""
    async with SimulatedCluster(seed=3, crds=crd_manifests()) as cluster:
        door = Door(cluster.api)
        stage = Configured(cluster, door, Running(cluster, door, **settings))
        yield stage
        await asyncio.sleep(1)
        assert await stage.running.stopped() == EXIT_STOPPED
