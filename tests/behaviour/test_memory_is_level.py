"""Promise: what the controller keeps follows from what there is, and not from how much has happened.

After a day of updates with analyses and edited ConfigMaps it kept a kilobyte more for each of them. Objects are counted, by type:
megabytes say nothing about a process that plays its cluster too.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from typing import Any

import msgspec
import pytest

from rollouts.api.schema import crd_manifests
from rollouts.bounded.here import Here
from rollouts.controller.wiring import run_controller
from rollouts.objects import CONFIG_MAP, ROLLOUT, Kind, Manifest
from rollouts.ports import MERGE_PATCH, Request
from rollouts.sim.clock import run_virtual
from rollouts.sim.cluster import SimulatedCluster
from tests import build
from tests.behaviour.configured import config_map, configured
from tests.behaviour.kept import kept
from tests.behaviour.scenarios import HALF, SHORT, canary
from tests.behaviour.stage import ALONE, KEY

ROLLOUTS = 200 if os.environ.get("ROLLOUTS_DEEP") == "1" else 3
HOUR_S = 3_600.0
FULL_AFTER_HOURS = 14  # histories, of pods and of updates
HOURS = 24
PODS = {"name": "pods", "interval": "5s", "count": 2, "provider": {"kubernetes": {}}}
TEMPLATE = build.analysis_template(PODS, name="pods", namespace=KEY.namespace)


def watched(name: str) -> Manifest:
    analysis = {"analysis": {"templates": [{"templateName": "pods"}]}}
    manifest = configured(name=name, revisionHistoryLimit=2)
    manifest["spec"]["strategy"] = canary(HALF, SHORT, analysis)
    return manifest


class Town:
    """A cluster with Rollouts, each of which is updated every hour."""

    def __init__(self) -> None:
        self.cluster = SimulatedCluster(seed=1, crds=crd_manifests())
        self.names = [f"web{number}" for number in range(ROLLOUTS)]
        self._hour = 0

    async def hour(self) -> None:
        """In even hours people edit the ConfigMap, in odd ones the templates."""
        self._hour += 1
        if self._hour % 2:
            template = {"metadata": {"annotations": {"hour": str(self._hour)}}}
            for name in self.names:
                self._merge(ROLLOUT, name, {"spec": {"template": template}})
        else:
            self._merge(CONFIG_MAP, "conf", {"data": {"key": str(self._hour)}})
        await asyncio.sleep(HOUR_S)

    def all_are_healthy(self) -> bool:
        found = [self.cluster.get(ROLLOUT, KEY.namespace, name) or {} for name in self.names]
        return all((each.get("status") or {}).get("phase") == "Healthy" for each in found)

    def _merge(self, kind: Kind, name: str, patch: Manifest) -> None:
        request = Request("PATCH", kind.path(KEY.namespace, name), {}, msgspec.json.encode(patch), MERGE_PATCH)
        assert self.cluster.api.answer(request).status == 200


async def a_day() -> tuple[Counter[str], Counter[str]]:
    """What is kept when the histories are full, and at the end."""
    town, stop, counts = Town(), asyncio.Event(), list[Counter[str]]()
    async with town.cluster as cluster:
        for manifest in (config_map("0"), TEMPLATE, *map(watched, town.names)):
            cluster.apply(manifest)
        options: dict[str, Any] = {"metrics": cluster.metrics, "bounded": Here()}
        rng = random.Random(1)  # noqa: S311 - jitter
        running = asyncio.create_task(
            run_controller(ALONE, api=cluster.api, clock=cluster.clock, rng=rng, stop=stop, **options)
        )
        for hours in (FULL_AFTER_HOURS, HOURS - FULL_AFTER_HOURS):
            for _ in range(hours):
                await town.hour()
            assert town.all_are_healthy()
            counts.append(kept())
        stop.set()
        await running
    full, end = counts
    return full, end


@pytest.mark.long
def test_no_type_of_object_grows_by_the_number_of_updates() -> None:
    """Ten more updates of each Rollout, and nothing more of anything but what the interpreter itself keeps."""
    full, end = run_virtual(a_day())

    updates = (HOURS - FULL_AFTER_HOURS) * ROLLOUTS
    assert full["rollouts.cluster.structs.RolloutObject"] >= ROLLOUTS, "otherwise nothing was counted"
    assert {name: count - full[name] for name, count in end.items() if count - full[name] >= updates / 2} == {}
