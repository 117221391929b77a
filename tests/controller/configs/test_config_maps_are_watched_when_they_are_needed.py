"""ConfigMaps are watched from the moment a Rollout needs one, by metadata; a refusal is told, and is never read as absence."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from structlog.testing import capture_logs

from rollouts.api.schema import crd_manifests
from rollouts.cluster.store import Store, Table
from rollouts.cluster.structs import ConfigMapObject
from rollouts.controller.configs.configuration import ConfigMapWatch
from rollouts.controller.workqueue.standing_watches import new_store
from rollouts.objects import CONFIG_MAP, Manifest
from rollouts.ports import Request
from rollouts.sim.cluster import SimulatedCluster
from rollouts.telemetry import Telemetry
from tests import build
from tests.controller.test_the_process_outlives_what_objects_hold import Running, Spoiling

pytestmark = pytest.mark.virtual_time(limit_s=3600)

REMEDY = "the controller may not watch configmaps: grant get, list and watch of configmaps"
NOT_YET = "configmaps are not listed yet"


def config_map(name: str, namespace: str = "default") -> Manifest:
    """A source."""
    return build.config_map(name, namespace, metadata={"labels": {"rollouts.dev/name": "cart"}})


@dataclass
class Stage:
    """A watch on a simulated cluster."""

    cluster: SimulatedCluster
    door: Spoiling
    store: Store
    watch: ConfigMapWatch
    telemetry: Telemetry
    changes: list[tuple[Any, Any]] = field(default_factory=list)
    sights: list[str] = field(default_factory=list)

    @property
    def table(self) -> Table[ConfigMapObject]:
        """What is seen."""
        return self.store.table(CONFIG_MAP)

    def names(self) -> set[str]:
        """The ConfigMaps that are seen in the first namespace."""
        return {each.metadata.name for each in self.table.all() if each.metadata.namespace == "default"}


@pytest.fixture
def scopes() -> tuple[str, ...]:
    """All namespaces."""
    return ("",)


@pytest.fixture
async def stage(scopes: tuple[str, ...]) -> AsyncIterator[Stage]:
    """A controller's only watch."""
    async with SimulatedCluster(seed=3) as cluster:
        door = Spoiling(cluster.api)
        store, telemetry = new_store(cluster.clock, scopes), Telemetry()
        watch = ConfigMapWatch(
            store,
            door,
            telemetry,
            on_change=lambda _, before, after: found.changes.append((before, after)),
            on_unreadable=lambda *_: None,
            on_sight=lambda: found.sights.append(found.watch.why_unseen("default")),
        )
        found = Stage(cluster, door, store, watch, telemetry)
        task = asyncio.ensure_future(watch.run())
        yield found
        task.cancel()
        await asyncio.wait({task})


async def test_nothing_is_asked_before_somebody_needs_a_config_map(stage: Stage) -> None:
    """Until then nothing is known, which is not the same as that there are none."""
    stage.cluster.apply(config_map("settings"))
    await asyncio.sleep(600)
    assert (stage.door.watches, stage.names()) == (0, set())
    assert stage.watch.why_unseen("default") == NOT_YET
    assert b'"configmaps"' not in stage.telemetry.exposition()

    stage.watch.wanted()
    stage.watch.wanted()
    await asyncio.sleep(1)

    assert (stage.door.watches, stage.names()) == (1, {"settings"})
    assert stage.watch.why_unseen("default") == ""
    assert stage.table.metadata_only
    assert b'"configmaps"' in stage.telemetry.exposition()
    assert len(stage.sights) == 1


async def test_a_copy_is_found_by_the_name_of_its_rollout(stage: Stage) -> None:
    """In its own namespace: another one may have a Rollout of the same name."""
    stage.cluster.apply(config_map("copy"))
    stage.cluster.apply(config_map("elsewhere", "kube-public"))
    stage.watch.wanted()
    await asyncio.sleep(1)

    (found,) = stage.table.labelled("rollouts.dev/name", "default", "cart")
    assert found.metadata.name == "copy"


async def test_without_the_right_the_reason_is_told_and_the_right_is_waited_for(stage: Stage) -> None:
    """Once in the log and once to the Rollouts, however often it is tried; a minute after the right is given all is seen."""
    stage.door.refuse(CONFIG_MAP)
    stage.cluster.apply(config_map("settings"))
    with capture_logs() as logs:
        stage.watch.wanted()
        await asyncio.sleep(600)
    assert stage.watch.why_unseen("default") == REMEDY
    assert stage.sights == [REMEDY]
    (told,) = (each["remedy"] for each in logs if each["event"] == "kind_not_seen")
    assert told == "grant get, list and watch of configmaps"
    stage.door.refused.clear()
    await asyncio.sleep(65)
    assert (stage.watch.why_unseen("default"), stage.names()) == ("", {"settings"})
    assert len(stage.sights) == 2


async def test_a_right_that_is_taken_away_makes_no_config_map_disappear(stage: Stage) -> None:
    """Otherwise every Rollout would start over because of an administrator's mistake."""
    stage.cluster.apply(config_map("settings"))
    stage.cluster.apply(config_map("gone-meanwhile"))
    stage.watch.wanted()
    await asyncio.sleep(1)
    stage.door.refuse(CONFIG_MAP)
    await asyncio.sleep(300)

    assert stage.watch.why_unseen("default") == REMEDY
    assert stage.names() == {"settings", "gone-meanwhile"}
    assert all(after is not None for _, after in stage.changes)

    stage.cluster.api.answer(Request("DELETE", CONFIG_MAP.path("default", "gone-meanwhile")))
    stage.door.refused.clear()
    await asyncio.sleep(65)
    assert stage.names() == {"settings"}
    assert sum(after is None for _, after in stage.changes) == 1


@pytest.mark.parametrize("scopes", [("default", "kube-public")])
async def test_each_namespace_has_a_right_of_its_own(stage: Stage) -> None:
    """A controller of two namespaces sees one of them."""
    stage.door.refuse(CONFIG_MAP, namespace="kube-public")
    stage.cluster.apply(config_map("settings"))
    stage.watch.wanted()
    await asyncio.sleep(5)

    assert stage.watch.why_unseen("kube-public") == REMEDY
    assert (stage.watch.why_unseen("default"), stage.names()) == ("", {"settings"})
    assert stage.watch.why_unseen("other") == "the controller does not work in namespace other"


async def test_a_controller_whose_rollouts_need_none_watches_none() -> None:
    """A cluster may have more ConfigMaps than anything else."""
    async with SimulatedCluster(seed=3, crds=crd_manifests()) as cluster:
        door = Spoiling(cluster.api)
        running = Running(cluster, api=door)
        await asyncio.sleep(100)
        seen = {stream.plural for stream in door.streams}
        assert await running.stopped() == 0

    assert "rollouts" in seen
    assert "configmaps" not in seen
