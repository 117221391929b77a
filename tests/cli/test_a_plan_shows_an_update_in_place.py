"""Promise: `rollouts plan` shows the update of a Deployment in place as it will be: its revision, sizes and limits."""

from __future__ import annotations

from typing import Any

import pytest

from rollouts.cli.plan.workload import applied_over
from rollouts.objects import AUTOSCALER, DEPLOYMENT
from tests import build
from tests.cli.in_place import apply, at_rest, deployment, in_a_step, objects, revision, rolled_out, rollout
from tests.cli.shop import Shop

PODS = {"name": "cart", "image": "cart:1", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]}
LIVE = {
    "metadata": {"labels": {"app": "cart"}},
    "spec": {"restartPolicy": "Always", "containers": [{**PODS, "imagePullPolicy": "Always", "args": ["a", "b"]}]},
}


def sizes(plan: dict[str, Any]) -> list[tuple[int, int]]:
    """New and old pods at the end of each step."""
    return [(step["pods"]["new"], step["pods"]["old"]) for step in plan["steps"]]


async def test_what_is_planned_for_a_deployment_is_what_happens(empty: Shop) -> None:
    """The name that the controller then gives the revision, and the sizes at the pause."""
    shop = await at_rest(empty)
    plan = await shop.planned(deployment("2"), rollout())
    old = revision(shop, "1")
    apply(shop, deployment("2"))
    await shop.reaches("Paused")
    new = revision(shop, "2")
    found = {each["metadata"]["labels"]["pod-template-hash"]: each["spec"]["replicas"] for each in objects(shop)}

    assert plan["revision"] == {"template": new, "current": old, "stable": old, "target": new, "changes": True}
    assert plan["inPlace"] == "Deployment cart"
    assert sizes(plan)[:2] == [(1, 3), (found[new], found[old])]
    assert (plan["replicas"], plan["steps"][0]["sharePercent"]) == (4, 25)
    assert plan["startup"] is not None


async def test_a_manifest_that_says_the_same_starts_nothing(empty: Shop) -> None:
    """The API server has filled in defaults, which the file has not; the next update is shown."""
    shop = await at_rest(empty)
    plan = await shop.planned(deployment(), rollout())

    assert (plan["revision"]["changes"], plan["supposed"], sizes(plan)) == (False, True, [(1, 3), (1, 3), (4, 0)])
    said = await shop.plan(deployment(), rollout(), code=5)
    assert "In place  Deployment cart keeps its pods" in said.out
    assert "unsafe  Deployment cart  spec.template.spec.containers[0].readinessProbe" in said.out
    assert "Fix: add lifecycle.preStop.sleep.seconds: 6." in said.out, "preStop: Inject is refused in place"


async def test_the_template_of_the_cluster_counts_where_the_file_has_none(empty: Shop) -> None:
    """In a step, too: the limits that stand in the Deployment then are those of the step, and not its user's."""
    shop = await in_a_step(empty)
    plan = await shop.planned(rollout())

    assert plan["revision"] == {
        "template": revision(shop, "2"),
        "current": revision(shop, "2"),
        "stable": revision(shop, "1"),
        "target": revision(shop, "2"),
        "changes": False,
    }
    assert sizes(plan) == [(1, 3), (4, 0)]


async def test_a_deployment_that_is_not_there_is_planned_with_its_rollout(empty: Shop) -> None:
    """From the file alone; and without either, the message says what is missing."""
    plan = await empty.planned(deployment(replicas=10), rollout(), empty.service())

    assert (plan["exists"], plan["supposed"], plan["replicas"]) == (False, True, 10)
    assert sizes(plan) == [(3, 8), (3, 8), (10, 0)]
    said = await empty.plan(rollout(), code=4)
    assert "Deployment cart, which workloadRef names, is neither in the file nor in the cluster" in said.err


async def test_a_rollout_for_a_deployment_that_is_there_begins_with_its_pods(empty: Shop) -> None:
    """Nothing is updated by its creation."""
    await rolled_out(empty, deployment(), "1")
    plan = await empty.planned(rollout())

    assert (plan["revision"]["target"], plan["supposed"]) == (revision(empty, "1"), True)
    assert sizes(plan) == [(1, 3), (1, 3), (4, 0)]


async def test_an_autoscaler_of_the_deployment_limits_the_plan(empty: Shop) -> None:
    """It targets the Deployment, and not the Rollout."""
    shop = await at_rest(empty)
    target = {"apiVersion": DEPLOYMENT.api_version, "kind": DEPLOYMENT.kind, "name": "cart"}
    scaler = build.manifest(AUTOSCALER, "cart", shop.namespace, spec={"scaleTargetRef": target, "maxReplicas": 3})
    plan = await shop.planned(deployment("2"), rollout(), scaler)

    assert {each["kind"] for step in plan["steps"] for each in step["outgrown"]} == {AUTOSCALER.kind}


@pytest.mark.parametrize(
    ("file", "last", "expected"),
    [
        pytest.param({}, {}, {}, id="nothing said"),
        pytest.param({"image": "cart:2"}, {}, {"image": "cart:2"}, id="a new image"),
        pytest.param({"args": ["c"]}, {}, {"args": ["c"]}, id="a list of texts is replaced"),
        pytest.param(
            {"env": [{"name": "B", "value": "3"}]},
            {"env": PODS["env"]},
            {"env": [{"name": "B", "value": "3"}]},
            id="a variable that the last manifest had goes",
        ),
        pytest.param(
            {"env": [{"name": "B", "value": "3"}]},
            {},
            {"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "3"}]},
            id="a variable of somebody else stays",
        ),
        pytest.param({"imagePullPolicy": None}, {}, {"imagePullPolicy": ...}, id="a null removes"),
    ],
)
def test_a_template_is_applied_as_kubectl_does(file: Any, last: Any, expected: Any) -> None:
    """What the manifest leaves out keeps the API server's default, unless the manifest before had it."""
    live = LIVE["spec"]["containers"][0]  # type: ignore[index]
    made, before = ({"spec": {"containers": [{"name": "cart", **part}]}} for part in (file, last))
    container = {name: value for name, value in {**live, **expected}.items() if value is not ...}

    applied = applied_over(LIVE, made, before)
    assert applied == {**LIVE, "spec": {"restartPolicy": "Always", "containers": [container]}}
