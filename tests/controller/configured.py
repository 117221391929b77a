"""A canary that reads a ConfigMap, and a controller on a simulated cluster behind a door that sees and refuses requests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rollouts.api.schema import crd_manifests
from rollouts.controller.wiring import EXIT_STOPPED
from rollouts.objects import CONFIG_MAP, REPLICA_SET, ROLLOUT, Kind, Manifest
from rollouts.ports import JSON, MERGE_PATCH, ApiServer, Request, Response, WatchStream
from rollouts.sim.clock import run_virtual
from rollouts.sim.cluster import SimulatedCluster
from tests.controller.test_the_process_outlives_what_objects_hold import Running

COPY = "rollouts.dev/config-copy"
SOURCE = "app-config"
GATED: tuple[Manifest, ...] = ({"setWeight": 50}, {"pause": {}})


def config_map(name: str = SOURCE, data: Mapping[str, str] | None = None, **more: Any) -> Manifest:
    """A ConfigMap of the user's."""
    metadata = {"name": name, "namespace": "default"} | more.pop("metadata", {})
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "data": dict(data or {"color": "blue"}),
        **more,
    }


def canary(name: str = "web", *names: str, image: str = "app:1", **more: Any) -> Manifest:
    """A Rollout whose container gets its environment from these ConfigMaps, from `app-config` without names."""
    labels = {"app": name}
    env = [{"configMapRef": {"name": each}} for each in names or (SOURCE,)]
    container = {"name": "app", "image": image, "envFrom": env}
    return {
        "apiVersion": "rollouts.dev/v1alpha1",
        "kind": "Rollout",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "strategy": {"canary": {"steps": list(GATED)}},
            "drain": {"maxRequestSeconds": 0},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
            **more,
        },
    }


@dataclass
class Door:
    """The API server as the controller reaches it.

    Args:
        refuses: the answer to a request instead of the server's; None for the server's.
        seen: reads of whole ConfigMaps, by name, and how often they were watched or listed.
    """

    api: ApiServer
    refuses: Callable[[Request], Response | None] = lambda _request: None
    reads: list[str] = field(default_factory=list)
    lists: int = 0

    async def request(self, request: Request, *, deadline_s: float) -> Response:
        """The server's answer, or a refusal."""
        if (refused := self.refuses(request)) is not None:
            return refused
        if request.method == "GET" and "/configmaps" in request.path and "/kube-system/" not in request.path:
            if request.accept == JSON:
                self.reads.append(request.path.rpartition("/")[2])
            else:
                self.lists += 1
        return await self.api.request(request, deadline_s=deadline_s)

    async def open_watch(self, request: Request, *, deadline_s: float, silence_s: float) -> WatchStream:
        """The server's watch, or a refusal."""
        if (refused := self.refuses(request)) is not None:
            return _Refused(refused)
        self.lists += "/configmaps" in request.path
        return await self.api.open_watch(request, deadline_s=deadline_s, silence_s=silence_s)

    async def aclose(self) -> None:
        """The cluster closes its own."""


@dataclass
class _Refused:
    answer: Response
    status: int = 403

    async def readline(self) -> bytes:
        return self.answer.body

    async def aclose(self) -> None:
        """Holds nothing."""


def forbidden(
    method: str = "GET", *, accept: str | None = None, name: str = ""
) -> Callable[[Request], Response | None]:
    """Refuses requests about ConfigMaps, as RBAC does."""
    verb = {"GET": "get", "POST": "create"}[method]
    message = f'configmaps is forbidden: User "rollouts" cannot {verb} resource "configmaps" in API group ""'
    body = json.dumps({"kind": "Status", "code": 403, "reason": "Forbidden", "message": message}).encode()

    def refuse(request: Request) -> Response | None:
        about = "/namespaces/default/configmaps" in request.path or request.path.endswith("/api/v1/configmaps")
        same = about and request.method == method and accept in (None, request.accept)
        return Response(403, body) if same and request.path.endswith(name) else None

    return refuse


@dataclass
class Configured:
    """A cluster with one controller."""

    cluster: SimulatedCluster
    door: Door
    running: Running

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
        found = [
            each for each in self.cluster.list(REPLICA_SET, "default") if each["metadata"]["labels"]["app"] == name
        ]
        return {each["metadata"]["labels"]["rollouts.dev/revision"]: each for each in found}

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


def play(scenario: Callable[[Configured], Awaitable[None]], *, limit_s: float = 3600, **settings: Any) -> None:
    """Plays a scenario in virtual time."""

    async def main() -> None:
        async with SimulatedCluster(seed=3, crds=crd_manifests()) as cluster:
            door = Door(cluster.api)
            stage = Configured(cluster, door, Running(cluster, door, **settings))
            await scenario(stage)
            await asyncio.sleep(1)
            assert await stage.running.stopped() == EXIT_STOPPED

    run_virtual(main(), limit_s=limit_s)
