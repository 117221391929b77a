"""Promise: two Rollouts with one selector both say so, as long as it is so."""

from __future__ import annotations

from rollouts.objects import ROLLOUT
from tests.behaviour.configured import status_of
from tests.behaviour.scenarios import HALF, canary, rollout
from tests.behaviour.stage import KEY, Stage, play


def _told(stage: Stage, name: str) -> str:
    conditions = status_of(stage, name).get("conditions") or ()
    return next((each["message"] for each in conditions if each["type"] == "SelectorShared"), "")


def test_both_of_two_rollouts_with_one_selector_say_so_until_one_of_them_goes() -> None:
    """Both were Ready, and a Service or an autoscaler took the pods of both for one."""
    other = rollout(canary(HALF))
    other["metadata"]["name"] = "other"

    async def script(stage: Stage) -> None:
        await stage.until_phase("Healthy", "1")
        stage.cluster.apply(other)
        await stage.until(lambda: bool(_told(stage, KEY.name) and _told(stage, "other")))
        assert "Rollout other and this Rollout find each other's pods" in _told(stage, KEY.name)
        assert f"Rollout {KEY.name} and this Rollout" in _told(stage, "other")

        stage.merge(ROLLOUT, "other", {"metadata": {"labels": {"a": "b"}}})
        stage.remove(ROLLOUT, "other")
        await stage.until(lambda: not _told(stage, KEY.name))

    play((rollout(canary(HALF)),), script, grace_s=0.1)
