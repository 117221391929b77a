"""MetricProviders in a simulated cluster, and who follows them."""

from __future__ import annotations

import asyncio
import base64
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import structlog

from rollouts.api.schema import crd_manifests
from rollouts.cluster.client import Client
from rollouts.controller.providers.metric_providers import MetricProviders
from rollouts.objects import METRIC_PROVIDER, SECRET, Manifest
from rollouts.ports import Request
from rollouts.sim.clock import run_virtual
from rollouts.sim.cluster import SimulatedCluster
from tests.controller.door import Door

NAMESPACE = "rollouts"
URL = "https://prom.example/base"
TOKEN = "pl4nted-t0ken"
KEY = {"secretKeyRef": {"name": "prom", "key": "token"}}


class Running:
    """A cluster, and who follows its MetricProviders."""

    def __init__(self, cluster: SimulatedCluster, folder: Path, prometheus_url: str = "") -> None:
        self.cluster = cluster
        self.door = Door(cluster.api)
        client = Client(
            self.door, clock=cluster.clock, may_write=lambda: self.leading is not None, request_deadline_s=15
        )
        self.providers = MetricProviders(
            api=self.door,
            client=client,
            clock=cluster.clock,
            rng=random.Random(1),  # noqa: S311 - the same jitter each time
            namespace=NAMESPACE,
            folder=folder,
            prometheus_url=prometheus_url,
        )
        self.leading: asyncio.Task[None] | None = None
        self.watching = asyncio.create_task(self.providers.watch())

    def lead(self) -> None:
        """Becomes the leader."""
        self.leading = asyncio.create_task(self.providers.judge())

    async def stop(self) -> None:
        """Ends both."""
        tasks = [each for each in (self.watching, self.leading) if each is not None]
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def provider(self, name: str = "prom", **spec: Any) -> None:
        """Applies a MetricProvider."""
        head = {"apiVersion": METRIC_PROVIDER.api_version, "kind": METRIC_PROVIDER.kind}
        self.cluster.apply({**head, "metadata": {"name": name}, "spec": {"url": URL, **spec}})

    def secret(self, name: str = "prom", **data: str) -> None:
        """Applies a Secret."""
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
        head = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": NAMESPACE}}
        self.cluster.apply({**head, "data": encoded})

    def delete_secret(self, name: str = "prom") -> None:
        """Deletes it."""
        assert self.cluster.api.answer(Request("DELETE", SECRET.path(NAMESPACE, name))).status == 200

    def condition(self, name: str = "prom", kind: str = "Ready") -> Manifest:
        """A condition of the MetricProvider; empty before it is judged."""
        status = (self.cluster.get(METRIC_PROVIDER, "", name) or {}).get("status") or {}
        return next((each for each in status.get("conditions") or () if each["type"] == kind), {})

    def said(self, name: str = "prom") -> tuple[str, str, str]:
        """Status, reason and message of Ready."""
        ready = self.condition(name)
        return ready.get("status", ""), ready.get("reason", ""), ready.get("message", "")


def play(
    scenario: Callable[[Running], Awaitable[None]],
    folder: Path,
    *crds: Manifest,
    prometheus_url: str = "",
    leads: bool = True,
) -> Running:
    """Plays a scenario in virtual time on a cluster with these CRDs; by default all of ours, and who plays leads."""
    kept: list[Running] = []

    async def main() -> None:
        async with SimulatedCluster(seed=3, crds=crds or crd_manifests()) as cluster:
            cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
            running = Running(cluster, folder, prometheus_url)
            kept.append(running)
            if leads:
                running.lead()
            try:
                await scenario(running)
            finally:
                await running.stop()

    with structlog.testing.capture_logs() as logged:
        run_virtual(main(), limit_s=4_000)
    assert TOKEN not in str(logged)
    return kept[0]
