"""A spec that the API server takes and the controller cannot carry out: all of it is told, and nothing that runs is touched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.manifests import GATE, canary, container_of, service
from tests.e2e.stage import KubectlStage, Stage, current
from tests.lab.control_plane import ControlPlane, condition

pytestmark = pytest.mark.controlplane

TROUBLES = (
    "spec.strategy.canary.maxSurge",
    "spec.template.spec.containers[0].image",
    "spec.template.spec.restartPolicy",
    "spec.template.metadata.labels",
)


def test_every_problem_is_told_while_the_running_revision_stays_whole(stage: Stage) -> None:
    """A person who has to fix four things wants to hear of four, once, and to find the service as it was."""
    stage = KubectlStage(stage.plane, stage.namespace)  # it takes a field off that somebody else has set, too
    first = stage.rolled_out(canary("web"), service("web", app="web"))
    second = stage.gated("web", "web:2", step=GATE)
    stage.until_pods("web", {first: 3, second: 1})
    broken = canary("web", image="web:3", maxSurge=-1)
    broken["spec"]["template"]["metadata"]["labels"]["app"] = "other"
    broken["spec"]["template"]["spec"]["restartPolicy"] = "Never"
    del container_of(broken)["image"]

    stage.apply(broken)
    told = stage.until_phase("web", "Degraded")
    event = stage.until_events("web", "Warning/InvalidSpec")[-1]

    message = next(one["message"] for one in told["status"]["conditions"] if one["type"] == "InvalidSpec")
    assert [path for path in TROUBLES if path not in message] == []
    assert event["message"] == message
    assert condition(told, "Ready") == ("False", "InvalidSpec")
    assert condition(told, "Stalled") == ("True", "InvalidSpec")
    stage.until_pods("web", {first: 3, second: 1})

    stage.apply(canary("web", image="web:3"))
    third = current(stage.until_at("web", "PromotionNeeded", step=GATE, image="web:3"))
    stage.until_pods("web", {first: 3, third: 1})
    stage.annotate("web", "promote", f"{third}@full")
    stage.wait_ready("web")
    stage.until_pods("web", {third: 4})


def test_what_the_schema_can_tell_is_refused_at_once(
    control_plane: ControlPlane, namespace: str, controller_kubeconfig: Path
) -> None:
    """The earlier the better: kubectl itself says what is wrong, with its path, and nothing is stored."""
    malformed = canary("web", steps=[{"setWeight": 101}, {"pause": {}, "setWeight": 5}])

    refused = control_plane.kubectl("apply", "-n", namespace, "-f", "-", input=json.dumps(malformed), check=False)

    assert refused.returncode != 0
    assert "spec.strategy.canary: Invalid value: setWeight must be maxTrafficWeight or less" in refused.stderr
    assert "spec.strategy.canary.steps[1]" in refused.stderr
    assert Stage(control_plane, namespace).all("rollouts") == []
