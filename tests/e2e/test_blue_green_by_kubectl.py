"""Blue-green on a real control plane: what the Services select, what their slices hold, and how long the old side stays."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.manifests import blue_green, service
from tests.e2e.stage import Stage, current, seconds, served, slices_of
from tests.lab.control_plane import condition

pytestmark = pytest.mark.controlplane

ACTIVE, PREVIEW = "web-active", "web-preview"


def _rolled_out(stage: Stage, **fields: Any) -> str:
    """The revision of web:1, with all its pods behind both Services."""
    first = stage.rolled_out(blue_green("web", **fields), service(ACTIVE, app="web"), service(PREVIEW, app="web"))
    assert (stage.selected(ACTIVE), stage.selected(PREVIEW)) == (first, first)
    stage.until_endpoints(ACTIVE, {first: 3})
    return first


def _scaled_at(stage: Stage, revision: str) -> float:
    """When the controller last wrote to a revision's ReplicaSet; whole seconds."""
    managed = stage.all("replicasets", f"rollouts.dev/revision={revision}")[0]
    times = [one["time"] for one in managed["metadata"]["managedFields"] if one["manager"] == "rollouts"]
    return max(seconds(time) for time in times)


def test_it_is_promoted_by_time_and_the_old_side_stays_for_a_while(stage: Stage) -> None:
    """All traffic moves at once, five seconds after the preview is whole; who must go back finds the old pods there."""
    first = _rolled_out(stage, autoPromotionSeconds=5, scaleDownDelaySeconds=5)

    with stage.history("endpointslices", slices_of(ACTIVE)) as changes:
        stage.set_image("web", "web:2")
        gated = stage.until_at("web", "AutoPromotion", image="web:2")
        second = current(gated)
        stage.until_endpoints(PREVIEW, {second: 3})
        assert (stage.selected(ACTIVE), stage.selected(PREVIEW)) == (first, second)
        stage.until_endpoints(ACTIVE, {first: 3})

        promoted = stage.wait_ready("web")
        assert (stage.selected(ACTIVE), stage.selected(PREVIEW)) == (second, second)
        stage.until_endpoints(ACTIVE, {second: 3})
        stage.until_pods("web", {first: 3, second: 3})
        stage.until_pods("web", {second: 3})

    finished_s = seconds(promoted["status"]["finishedAt"])
    assert finished_s - seconds(gated["status"]["blueGreen"]["gateStartedAt"]) >= 5.0
    assert [one["revision"] for one in promoted["status"]["scaleDowns"]] == [first]
    assert _scaled_at(stage, first) >= int(finished_s + 5.0)
    assert all(sum(state.values()) >= 3 for state in served(changes))
    stage.until_events("web", "SwitchService", "RolloutCompleted")


def test_it_is_promoted_by_hand_from_a_small_preview(stage: Stage) -> None:
    """One pod is enough to look at; before it takes the traffic the new side is as large as the old."""
    first = _rolled_out(stage, autoPromotionEnabled=False, previewReplicaCount=1, scaleDownDelaySeconds=1)
    stage.set_image("web", "web:2")
    gated = stage.until_at("web", "PromotionNeeded", image="web:2")
    second = current(gated)
    stage.until_pods("web", {first: 3, second: 1})
    stage.until_endpoints(PREVIEW, {second: 1})
    before = stage.selected(ACTIVE)

    with stage.history("endpointslices", slices_of(ACTIVE)) as changes:
        stage.annotate("web", "promote", f"{second}@0")
        stage.wait_ready("web")
        stage.until_pods("web", {second: 3})

    assert condition(gated, "Paused") == ("True", "PromotionNeeded")
    assert before == first
    assert stage.selected(ACTIVE) == second
    assert all(sum(state.values()) >= 3 for state in served(changes))


def test_it_is_aborted_before_the_switch(stage: Stage) -> None:
    """An abort changes nothing for the users: the active Service never moved, and the preview shows what serves."""
    first = _rolled_out(stage, autoPromotionEnabled=False, abortScaleDownDelaySeconds=2)
    second = stage.gated("web", "web:2")

    with stage.history("endpointslices", slices_of(ACTIVE)) as changes:
        stage.annotate("web", "abort", "true")
        aborted = stage.until_phase("web", "Aborted")
        stage.until_pods("web", {first: 3})
        stage.until_endpoints(PREVIEW, {first: 3})

    assert condition(aborted, "Aborted") == ("True", "RolloutAborted")
    assert (stage.selected(ACTIVE), stage.selected(PREVIEW)) == (first, first)
    assert _scaled_at(stage, second) >= int(seconds(aborted["status"]["abort"]["at"]) + 2.0)
    assert {tuple(state.items()) for state in served(changes)} == {((first, 3),)}
