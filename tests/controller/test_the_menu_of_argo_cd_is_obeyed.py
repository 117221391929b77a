"""Promise: what somebody chooses in the menu of Argo CD is carried out, and a click that comes too late is not."""

from __future__ import annotations

import asyncio

import pytest

from rollouts.objects import ANALYSIS_RUN, POD, ROLLOUT, Manifest
from tests.controller.configured import Configured, canary, config_map
from tests.packaging.argo_cd import available, changes

pytestmark = pytest.mark.virtual_time


def shown(stage: Configured) -> Manifest:
    """The Rollout as Argo CD shows it."""
    found = stage.cluster.get(ROLLOUT, "default", "web")
    assert found is not None
    return found


def choose(stage: Configured, action: str, seen: Manifest | None = None) -> None:
    """Somebody clicks; on what is shown now, unless it is an older view."""
    obj = seen or shown(stage)
    assert action in available(ROLLOUT, obj)
    stage.patch("web", changes(ROLLOUT, obj, action, now_s=stage.cluster.clock.now_s()), kind=ROLLOUT)


async def updating(stage: Configured) -> str:
    """An update waits at its pause; the revision before."""
    stage.apply(config_map(), canary())
    before = await stage.until_healthy()
    stage.apply(canary(image="app:2"))
    await stage.until(lambda one: one.get("phase") == "Paused" and one.get("currentStepIndex") == 1)
    return before


async def test_an_update_is_paused_resumed_and_promoted(stage: Configured) -> None:
    """The same click again, on what was shown before, changes nothing."""
    before = await updating(stage)
    choose(stage, "pause")
    await stage.until_waiting("PausedByUser")
    assert "promote" not in available(ROLLOUT, shown(stage))
    choose(stage, "resume")
    await stage.until(lambda one: (one.get("waitingFor") or {}).get("reason") not in (None, "PausedByUser"))
    seen = shown(stage)
    choose(stage, "promote")
    after = await stage.until_healthy(at=before)
    stage.apply(canary(image="app:3"))
    await stage.until(lambda one: one.get("phase") == "Paused" and one.get("currentRevision") != after)
    choose(stage, "promote", seen)
    await asyncio.sleep(60)
    assert shown(stage)["status"]["phase"] == "Paused"


async def test_an_update_is_aborted_retried_and_promoted_whole(stage: Configured) -> None:
    """The abort of the menu does not hold against its own retry."""
    before = await updating(stage)
    choose(stage, "abort")
    await stage.until(lambda one: one.get("phase") == "Aborted")
    choose(stage, "retry")
    await stage.until(lambda one: one.get("phase") == "Paused" and one.get("attempt") == 1)
    choose(stage, "promote-full")
    assert await stage.until_healthy(at=before) != before


async def test_a_finished_update_is_rolled_back_and_pods_are_restarted(stage: Configured) -> None:
    """Back to the revision before, by its steps; then each pod is a new one."""
    before = await updating(stage)
    choose(stage, "promote-full")
    await stage.until_healthy(at=before)
    choose(stage, "rollback")
    await stage.until(lambda one: one.get("phase") == "Paused" and one.get("currentRevision") == before)
    choose(stage, "promote-full")
    await stage.until(lambda one: one.get("phase") == "RolledBack" and one.get("stableRevision") == before)
    old = {each["metadata"]["uid"] for each in stage.cluster.list(POD, "default")}
    choose(stage, "restart")
    await asyncio.sleep(300)
    pods = stage.cluster.list(POD, "default")
    assert pods and not old & {each["metadata"]["uid"] for each in pods}


def test_a_run_ends_when_it_is_terminated() -> None:
    """By the field that the command line writes, too."""
    run: Manifest = {"metadata": {"generation": 1}, "spec": {"metrics": []}, "status": {"phase": "Running"}}
    assert changes(ANALYSIS_RUN, run, "terminate") == {"spec": {"terminate": True}}
