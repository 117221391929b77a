"""Promise: Deployments get the same defaults and the same refusals from the real server and from the simulated one."""

from __future__ import annotations

from typing import Any

import pytest

from rollouts.objects import Manifest
from rollouts.ports import MERGE_PATCH
from tests import build
from tests.build import DEPLOYMENT
from tests.contract.conversation import STRATEGIC, Conversation

MANY = 2_147_483_646
ROLLING = "spec.strategy.rollingUpdate"
PERCENT_RULE = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', "
    "regex used for validation is '[0-9]+%')"
)


def deployment(**spec: Any) -> Manifest:
    """A Deployment that its controller leaves alone."""
    return build.deployment("web", replicas=0, paused=True, **spec)


async def test_a_deployment_gets_defaults(api: Conversation) -> None:
    """A field that is absent differs from its default: who puts a field back needs to know which it was."""
    made = await api.made(DEPLOYMENT, {"metadata": {"name": "web"}, "spec": deployment()["spec"]})

    spec = {name: value for name, value in made["spec"].items() if name not in ("template", "selector")}
    assert spec == {
        "paused": True,
        "progressDeadlineSeconds": 600,
        "replicas": 0,
        "revisionHistoryLimit": 10,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
    }
    assert (made["metadata"]["generation"], made["status"]) == (1, {})


@pytest.mark.parametrize(
    ("given", "filled"),
    [
        ({"rollingUpdate": {"maxSurge": 1}}, {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": "25%"}}),
        ({"rollingUpdate": {"maxUnavailable": 0}}, {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 0}}),
        ({"type": "Recreate"}, {}),
    ],
    ids=["surge", "unavailable", "recreate"],
)
async def test_a_strategy_gets_defaults(api: Conversation, given: Manifest, filled: Manifest) -> None:
    """Either limit is filled in for itself; who recreates has none."""
    made = await api.made(DEPLOYMENT, deployment(strategy=given))

    assert made["spec"]["strategy"] == {"type": given.get("type", "RollingUpdate"), **filled}


@pytest.mark.parametrize(
    ("spec", "refusal"),
    [
        (
            {"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}},
            f"{ROLLING}.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0",
        ),
        (
            {"strategy": {"rollingUpdate": {"maxSurge": "0%", "maxUnavailable": "0%"}}},
            f'{ROLLING}.maxUnavailable: Invalid value: "0%": may not be 0 when `maxSurge` is 0',
        ),
        (
            {"strategy": {"rollingUpdate": {"maxUnavailable": "101%"}}},
            f'{ROLLING}.maxUnavailable: Invalid value: "101%": must not be greater than 100%',
        ),
        (
            {"strategy": {"rollingUpdate": {"maxSurge": "ten"}}},
            f'{ROLLING}.maxSurge: Invalid value: "ten": {PERCENT_RULE}',
        ),
        (
            {"strategy": {"rollingUpdate": {"maxSurge": -1}}},
            f"{ROLLING}.maxSurge: Invalid value: -1: must be greater than or equal to 0",
        ),
        (
            {"strategy": {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}},
            f"{ROLLING}: Forbidden: may not be specified when strategy `type` is 'Recreate'",
        ),
        (
            {"minReadySeconds": 600},
            "spec.progressDeadlineSeconds: Invalid value: 600: must be greater than minReadySeconds",
        ),
        ({"minReadySeconds": -1}, "spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0"),
        (
            {"revisionHistoryLimit": -1},
            "spec.revisionHistoryLimit: Invalid value: -1: must be greater than or equal to 0",
        ),
    ],
)
async def test_a_deployment_that_breaks_a_rule_is_refused(api: Conversation, spec: Manifest, refusal: str) -> None:
    """The words are what people see."""
    answer = await api.create(DEPLOYMENT, deployment(**spec))

    assert (answer.status, answer.message) == (422, f'Deployment.apps "web" is invalid: {refusal}')


async def test_what_a_hold_writes_is_taken(api: Conversation) -> None:
    """Pods that are never available, and a deadline that never passes."""
    limits = {"rollingUpdate": {"maxSurge": "0%", "maxUnavailable": "30%"}}
    answer = await api.create(
        DEPLOYMENT, deployment(minReadySeconds=MANY, progressDeadlineSeconds=MANY + 1, strategy=limits)
    )

    assert answer.status == 201, answer.body


async def test_pods_of_a_workload_must_start_again(api: Conversation) -> None:
    """Other kinds are for pods that end."""
    template = build.pod_template("web", image="web:1", restartPolicy="Never")
    answer = await api.create(DEPLOYMENT, deployment(template=template))

    where = "spec.template.spec.restartPolicy"
    assert answer.message == (
        f'Deployment.apps "web" is invalid: {where}: Unsupported value: "Never": supported values: "Always"'
    )


async def test_annotations_raise_the_generation(api: Conversation) -> None:
    """They are copied to ReplicaSets, so a controller has something to do; labels are not."""
    await api.made(DEPLOYMENT, deployment())

    generations = [
        (await api.patch(DEPLOYMENT, "web", patch, MERGE_PATCH)).metadata["generation"]
        for patch in (
            {"metadata": {"labels": {"a": "1"}}},
            {"metadata": {"annotations": {"a": "1"}}},
            {"metadata": {"annotations": {"a": "1"}}},
            {"spec": {"replicas": 0, "minReadySeconds": 1}},
            {"metadata": {"annotations": {"a": None}}},
        )
    ]

    assert generations == [1, 2, 2, 3, 4]


async def test_the_status_path_writes_annotations(api: Conversation) -> None:
    """So a controller numbers revisions without a new generation."""
    await api.made(DEPLOYMENT, deployment())
    patch = {"metadata": {"annotations": {"a": "1"}, "labels": {"b": "2"}}, "spec": {"paused": False}}
    answer = await api.patch(DEPLOYMENT, "web", patch, MERGE_PATCH, "status")

    assert answer.metadata["annotations"]["a"] == "1"
    assert "labels" not in answer.metadata
    assert (answer.metadata["generation"], answer.body["spec"]["paused"]) == (1, True)


async def test_a_strategy_is_replaced_as_a_whole_where_a_client_says_so(api: Conversation) -> None:
    """`kubectl apply` names the fields that stay; then the other strategy's limits do not remain."""
    await api.made(DEPLOYMENT, deployment())
    patch = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    answer = await api.patch(DEPLOYMENT, "web", patch, STRATEGIC)

    assert answer.body["spec"]["strategy"] == {"type": "Recreate"}


@pytest.mark.parametrize("form", [MERGE_PATCH, STRATEGIC])
async def test_a_map_that_a_patch_empties_is_gone(api: Conversation, form: str) -> None:
    """Otherwise the template would differ from that of its ReplicaSet."""
    made = await api.made(DEPLOYMENT, deployment())
    await api.patch(DEPLOYMENT, "web", _annotated("now"), form)
    answer = await api.patch(DEPLOYMENT, "web", _annotated(None), form)
    again = await api.patch(DEPLOYMENT, "web", _annotated(None), form)

    assert answer.body["spec"] == made["spec"]
    assert again.metadata["generation"] == answer.metadata["generation"] == 3


def _annotated(value: str | None) -> Manifest:
    return {"spec": {"template": {"metadata": {"annotations": {"restarted": value}}}}}
