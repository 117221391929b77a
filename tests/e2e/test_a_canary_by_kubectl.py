"""A canary on a real control plane, driven by kubectl alone: every way it can go, with the pods that each step promises."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.manifests import GATE, HALF, canary, service
from tests.e2e.stage import Stage, counted, current, seconds, served, slices_of
from tests.lab.control_plane import condition

pytestmark = pytest.mark.controlplane


def _at_the_gate(stage: Stage) -> tuple[str, str]:
    """Rolls out web:1, then web:2; the two revisions, when the second waits for a person."""
    first = stage.rolled_out(canary("web"), service("web", app="web"))
    return first, stage.gated("web", "web:2", step=GATE)


def _asked_for(changes: list[dict[str, Any]]) -> list[int]:
    """Of the changes of ReplicaSets: after each, how many pods all of them were to have."""
    sizes: dict[str, int] = {}
    sums = []
    for change in changes:
        sizes[change["object"]["metadata"]["name"]] = change["object"]["spec"]["replicas"]
        sums.append(sum(sizes.values()))
    return sums


def _outcomes(rollout: dict[str, Any]) -> list[tuple[str, str]]:
    return [(entry["revision"], entry["outcome"]) for entry in rollout["status"]["history"]]


def test_it_is_promoted_step_by_step(stage: Stage) -> None:
    """The first promise of the README: a quarter, a person, a half for five seconds, all; never a pod too few or too many."""
    first = stage.rolled_out(canary("web"), service("web", app="web"))
    stage.until_pods("web", {first: 4})
    with stage.history("pods", "app=web") as changes, stage.history("replicasets", "app=web") as resized:
        second = stage.gated("web", "web:2", step=GATE)
        stage.until_pods("web", {first: 3, second: 1})
        gated = stage.get("rollouts", "web")
        stage.annotate("web", "promote", f"{second}@{GATE}")
        half = stage.until_at("web", "TimedPause", step=HALF)
        stage.until_pods("web", {first: 2, second: 2})
        done = stage.wait_ready("web")
        stage.until_pods("web", {second: 4})
    reasons = ("RolloutUpdated", "RolloutPaused", "Promoted", "RolloutStepCompleted", "RolloutCompleted")
    stage.until_events("web", *reasons)
    described = stage.kubectl("describe", "rollout", "web")

    assert condition(gated, "Paused") == ("True", "PromotionNeeded")
    assert condition(gated, "Ready") == ("False", "PromotionNeeded")
    assert gated["status"]["weight"] == 25
    assert seconds(done["status"]["finishedAt"]) - seconds(half["status"]["stepStartedAt"]) >= 5.0
    assert _outcomes(done) == [(first, "Promoted"), (second, "Promoted")]
    assert done["metadata"]["annotations"]["rollouts.dev/promote"] == f"{second}@{GATE}"  # declarative: it stays
    assert min(ready for ready, _ in counted(changes)[4:]) == 4
    # As for a Deployment, the surge limits what is asked for: two ReplicaSets' pods come and go each in their own time.
    assert max(_asked_for(resized)) == 5
    assert [reason for reason in reasons if reason not in described] == []


def test_it_is_aborted_at_a_half_and_retried(stage: Stage) -> None:
    """`abort=true` gives all pods back to the stable revision; `retry` starts at the first step again."""
    first, second = _at_the_gate(stage)
    stage.annotate("web", "promote", "true")
    stage.until_at("web", "TimedPause", step=HALF)

    stage.annotate("web", "abort", "true")
    aborted = stage.until_phase("web", "Aborted")
    stage.until_pods("web", {first: 4})
    stage.annotate("web", "retry", f"{second}@1")
    again = stage.until_at("web", "PromotionNeeded", step=GATE)
    stage.until_pods("web", {first: 3, second: 1})
    stage.annotate("web", "promote", "true")
    done = stage.wait_ready("web")
    stage.until_pods("web", {second: 4})

    assert condition(aborted, "Aborted") == ("True", "RolloutAborted")
    assert condition(aborted, "Stalled") == ("True", "RolloutAborted")
    assert condition(aborted, "Ready") == ("False", "RolloutAborted")
    assert aborted["status"]["stableRevision"] == first
    assert again["status"]["attempt"] == 1
    stage.until_events("web", "Warning/RolloutAborted", "RolloutRetry")
    assert set(done["metadata"]["annotations"]) & {"rollouts.dev/promote", "rollouts.dev/abort"} == set()


def test_a_declared_abort_holds_for_as_long_as_it_stands(stage: Stage) -> None:
    """In Git an abort is a line: while it is there the revision is held back, and taking it out tries again."""
    first, second = _at_the_gate(stage)

    stage.annotate("web", "abort", second)
    stage.until_phase("web", "Aborted")
    stage.until_pods("web", {first: 4})
    stage.kubectl("annotate", "rollout", "web", "rollouts.dev/abort-")
    again = stage.until_at("web", "PromotionNeeded", step=GATE)

    assert again["status"]["attempt"] == 1


def test_it_is_rolled_back_without_touching_the_spec(stage: Stage) -> None:
    """A rollback goes through the steps like any change, and Git may follow later."""
    first, second = _at_the_gate(stage)
    stage.annotate("web", "promote", f"{second}@full")
    stage.wait_ready("web")
    stage.until_pods("web", {second: 4})

    stage.annotate("web", "rollback", f"previous@{second}")
    back = stage.until("rollouts", "web", lambda one: current(one) == first)
    stage.until_at("web", "PromotionNeeded", step=GATE)
    stage.until_pods("web", {second: 3, first: 1})
    stage.annotate("web", "promote", "true")
    done = stage.until_phase("web", "RolledBack")
    stage.until_pods("web", {first: 4})

    assert condition(done, "Ready") == ("False", "RolledBack")
    assert back["status"]["stableRevision"] == second
    assert done["spec"]["template"]["spec"]["containers"][0]["image"] == "web:2"
    assert _outcomes(done)[-1] == (first, "RolledBack")


def test_it_is_superseded_twice_in_the_middle_of_a_step(stage: Stage) -> None:
    """A fix must not wait for the bad revision: the newest one takes its place, and no pod of the others stays."""
    first, second = _at_the_gate(stage)
    third = stage.gated("web", "web:3", step=GATE)
    stage.until_pods("web", {first: 3, third: 1})
    fourth = stage.gated("web", "web:4", step=GATE)
    stage.until_pods("web", {first: 3, fourth: 1})

    stage.annotate("web", "promote", f"{fourth}@full")
    done = stage.wait_ready("web")
    stage.until_pods("web", {fourth: 4})

    assert _outcomes(done)[1:] == [(second, "Superseded"), (third, "Superseded"), (fourth, "Promoted")]
    stage.until_events("web", "RolloutNotCompleted", "RolloutNotCompleted")


def test_it_is_scaled_in_the_middle_of_a_step(stage: Stage) -> None:
    """`kubectl scale` acts at once, also while a person is waited for, and keeps the step's share as near as pods allow."""
    first, second = _at_the_gate(stage)

    stage.kubectl("scale", "rollout/web", "--replicas=7")
    stage.until_pods("web", {first: 6, second: 2})  # exactly a quarter, with the one pod that may be too many
    stage.kubectl("scale", "rollout/web", "--replicas=2")
    stage.until_pods("web", {first: 2, second: 1})
    still = stage.get("rollouts", "web")
    stage.annotate("web", "promote", f"{second}@full")
    stage.wait_ready("web")
    stage.until_pods("web", {second: 2})

    assert still["status"]["waitingFor"]["reason"] == "PromotionNeeded"
    assert still["status"]["currentStepIndex"] == GATE


SIDED = canary(
    "web",
    replicas=5,
    stableService="web-stable",
    canaryService="web-canary",
    stableMetadata={"labels": {"role": "stable"}},
    canaryMetadata={"labels": {"role": "canary"}},
    steps=[{"setWeight": 20}, {"pause": {}}, {"setWeight": 60}, {"pause": {"duration": "1s"}}],
)


def _roles(stage: Stage) -> dict[str, int]:
    roles = [pod["metadata"]["labels"].get("role", "") for pod in stage.all("pods", "app=web")]
    return {role: roles.count(role) for role in roles}


def test_each_service_shows_its_side_and_the_stable_one_is_never_empty(stage: Stage) -> None:
    """Dashboards and clients look through these Services: an empty one is an outage, a mixed one a wrong graph."""
    fronts = [service(name, app="web") for name in ("web", "web-stable", "web-canary")]
    first = stage.rolled_out(SIDED, *fronts)
    stage.until_endpoints("web-stable", {first: 5})
    with stage.history("endpointslices", slices_of("web-stable")) as changes:
        second = stage.gated("web", "web:2", step=1)
        stage.until_pods("web", {first: 4, second: 1})
        stage.until_endpoints("web-stable", {first: 4})
        stage.until_endpoints("web-canary", {second: 1})
        stage.until_endpoints("web", {first: 4, second: 1})
        gated = _roles(stage)
        stage.annotate("web", "promote", "true")
        stage.wait_ready("web")
        for name in ("web", "web-stable", "web-canary"):
            stage.until_endpoints(name, {second: 5})

    assert gated == {"stable": 4, "canary": 1}
    assert all(sum(state.values()) for state in served(changes))
    stage.until(
        "pods", stage.all("pods")[0]["metadata"]["name"], lambda pod: pod["metadata"]["labels"]["role"] == "stable"
    )
