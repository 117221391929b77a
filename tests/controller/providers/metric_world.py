"""MetricProviders in a simulated cluster, and who follows them."""

from __future__ import annotations

import asyncio
import base64
import random
from pathlib import Path
from typing import Any

from rollouts.cluster.client import Client
from rollouts.controller.providers.metric_providers import MetricProviders
from rollouts.objects import METRIC_PROVIDER, SECRET, Manifest
from rollouts.ports import Request
from rollouts.sim.cluster import SimulatedCluster
from tests import build
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
        client = Client(self.door, clock=cluster.clock, may_write=lambda: bool(self.leading), request_deadline_s=15)
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
        self.cluster.apply(build.manifest(METRIC_PROVIDER, name, spec={"url": URL, **spec}))

    def secret(self, name: str = "prom", **data: str) -> None:
        """Applies a Secret."""
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
        self.cluster.apply(build.secret(name, NAMESPACE, data=encoded))

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
