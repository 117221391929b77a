"""Promise: autoscalers get the same defaults and the same refusals from the real server and from the simulated one."""

from __future__ import annotations

from typing import Any

import pytest

from rollouts.objects import AUTOSCALER, Manifest
from rollouts.ports import MERGE_PATCH
from tests.contract.conversation import WIDGET, Conversation

TARGET = {"apiVersion": WIDGET.api_version, "kind": "Widget", "name": "web"}
UTILIZATION = {"type": "Utilization", "averageUtilization": 50}
RULES = {"policies": [{"type": "Pods", "value": 2, "periodSeconds": 60}]}


def autoscaler(name: str = "web", **spec: Any) -> Manifest:
    """An autoscaler of an object that does not exist."""
    return {"metadata": {"name": name}, "spec": {"scaleTargetRef": TARGET, "maxReplicas": 5, **spec}}


def container(**given: Any) -> Manifest:
    return {"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "app", **given}}


async def test_an_autoscaler_gets_defaults(api: Conversation) -> None:
    """80 % of the CPU, at least one pod, and no behavior."""
    made = await api.made(AUTOSCALER, autoscaler())

    target = {"type": "Utilization", "averageUtilization": 80}
    assert made["spec"] == {
        "scaleTargetRef": TARGET,
        "minReplicas": 1,
        "maxReplicas": 5,
        "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
    }
    assert made["status"] == {"desiredReplicas": 0, "currentMetrics": None}


@pytest.mark.parametrize(
    ("given", "filled"),
    [
        ({}, {}),
        ({"scaleUp": RULES}, {"scaleUp": RULES}),
        ({"scaleDown": {"stabilizationWindowSeconds": 0}}, {"scaleDown": {"stabilizationWindowSeconds": 0}}),
        ({"scaleDown": {"selectPolicy": "Disabled"}}, {"scaleDown": {"selectPolicy": "Disabled"}}),
    ],
    ids=["none", "up", "down", "disabled"],
)
async def test_a_behavior_is_filled(api: Conversation, given: Manifest, filled: Manifest) -> None:
    """Both directions, as soon as there is one; the window of scale-downs stays open, because a flag says it."""
    made = await api.made(AUTOSCALER, autoscaler(behavior=given))

    up = {
        "stabilizationWindowSeconds": 0,
        "selectPolicy": "Max",
        "policies": [
            {"type": "Pods", "value": 4, "periodSeconds": 15},
            {"type": "Percent", "value": 100, "periodSeconds": 15},
        ],
    }
    down = {"selectPolicy": "Max", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]}
    assert made["spec"].get("behavior") == {
        "scaleUp": up | filled.get("scaleUp", {}),
        "scaleDown": down | filled.get("scaleDown", {}),
    }


@pytest.mark.parametrize(
    ("spec", "cause"),
    [
        ({"maxReplicas": 0}, ("FieldValueRequired", "spec.maxReplicas")),
        ({"maxReplicas": -1}, ("FieldValueInvalid", "spec.maxReplicas")),
        ({"minReplicas": 0}, ("FieldValueInvalid", "spec.minReplicas")),
        ({"minReplicas": 6}, ("FieldValueInvalid", "spec.maxReplicas")),
        ({"scaleTargetRef": {**TARGET, "apiVersion": "v1"}}, ("FieldValueInvalid", "spec.scaleTargetRef.apiVersion")),
        ({"scaleTargetRef": {**TARGET, "name": ""}}, ("FieldValueRequired", "spec.scaleTargetRef.name")),
        ({"metrics": [{"type": "Guess"}]}, ("FieldValueNotSupported", "spec.metrics[0].type")),
        ({"metrics": [{"type": "Resource"}]}, ("FieldValueRequired", "spec.metrics[0].resource")),
        ({"metrics": [container(target={"type": "Utilization", "averageUtilization": 0})]},
         ("FieldValueInvalid", "spec.metrics[0].containerResource.target.averageUtilization")),
        ({"metrics": [container(target=UTILIZATION, container="")]},
         ("FieldValueRequired", "spec.metrics[0].containerResource.container")),
        ({"metrics": [container(target={**UTILIZATION, "averageValue": "1"})]},
         ("FieldValueForbidden", "spec.metrics[0].containerResource.target.averageValue")),
        ({"behavior": {"scaleUp": {"stabilizationWindowSeconds": 3601}}},
         ("FieldValueInvalid", "spec.behavior.scaleUp.stabilizationWindowSeconds")),
        ({"behavior": {"scaleDown": {"selectPolicy": "Any"}}},
         ("FieldValueNotSupported", "spec.behavior.scaleDown.selectPolicy")),
        ({"behavior": {"scaleDown": {"policies": [{"type": "Pods", "value": 0, "periodSeconds": 60}]}}},
         ("FieldValueInvalid", "spec.behavior.scaleDown.policies[0].value")),
        ({"behavior": {"scaleDown": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 1801}]}}},
         ("FieldValueInvalid", "spec.behavior.scaleDown.policies[0].periodSeconds")),
    ],
    ids=lambda value: str(value)[:60],
)  # fmt: skip
async def test_an_autoscaler_of_the_wrong_shape_is_refused(
    api: Conversation, spec: Manifest, cause: tuple[str, str]
) -> None:
    """With the field that is wrong."""
    answer = await api.create(AUTOSCALER, autoscaler(**spec))

    assert (answer.status, answer.reason) == (422, "Invalid"), answer.body
    assert cause in answer.causes


async def test_a_changed_spec_is_seen_in_no_generation(api: Conversation) -> None:
    """Nobody can tell from an autoscaler whether its status is about its present spec."""
    made = await api.made(AUTOSCALER, autoscaler())
    changed = await api.patch(AUTOSCALER, "web", {"spec": {"maxReplicas": 6}}, MERGE_PATCH)

    assert changed.status == 200
    assert made["metadata"].get("generation") == changed.body["metadata"].get("generation")
    assert "observedGeneration" not in changed.body["status"]
