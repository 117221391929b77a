"""Promise: a step's Experiment gets the share of the requests that its templates ask for while it runs, and none is ever lost."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rollouts.objects import EXPERIMENT, REPLICA_SET, SERVICE, Manifest
from rollouts.sim.network.gateway_types import HTTP_ROUTE
from tests.behaviour.routed import STAY, Users, assert_good, play_routed, weight, world
from tests.behaviour.stage import KEY, Stage

TRIED: Manifest = {
    "experiment": {
        "duration": "60s",
        "scaleDownDelaySeconds": 0,
        "templates": [
            {"name": "baseline", "specRef": "stable", "weight": 10, "metadata": {"labels": {"trial": "baseline"}}},
            {"name": "trial", "specRef": "canary", "weight": 5, "metadata": {"labels": {"trial": "canary"}}},
        ],
    }
}
STEPS = (weight(20), TRIED, weight(50), STAY)


def experiment(stage: Stage) -> Manifest:
    """The latest one; empty when there is none."""
    found = stage.cluster.list(EXPERIMENT, KEY.namespace)
    return max(found, key=lambda each: each["metadata"]["creationTimestamp"]) if found else {}


def sizes_of_experiments(stage: Stage) -> list[int]:
    """Of the ReplicaSets that Experiments control."""
    sets = stage.cluster.list(REPLICA_SET, KEY.namespace)
    return [each["spec"]["replicas"] for each in sets if each["metadata"]["ownerReferences"][0]["kind"] == "Experiment"]


def backends(stage: Stage) -> dict[str, int]:
    """The weights of the route by Service; those of an Experiment by the name of its template."""
    named = {
        each["metadata"]["name"]: each["metadata"]["labels"]["rollouts.dev/experiment-template"]
        for each in stage.cluster.list(SERVICE, KEY.namespace)
        if "rollouts.dev/experiment-template" in (each["metadata"].get("labels") or {})
    }
    route = stage.cluster.get(HTTP_ROUTE, KEY.namespace, KEY.name) or {}
    (rule,) = route["spec"]["rules"]
    return {named.get(each["name"], each["name"]): each["weight"] for each in rule["backendRefs"]}


def share_of(weights: dict[str, int], name: str) -> float:
    return weights.get(name, 0) / sum(weights.values())


async def until_live(stage: Stage) -> None:
    """The data plane sends the Experiment its shares."""
    await stage.until(lambda: bool(_observed(stage).get("experiments")))


def _observed(stage: Stage) -> Manifest:
    return (stage.status.get("traffic") or {}).get("observed") or {}


def test_each_template_gets_its_share_and_the_stable_revision_the_rest() -> None:
    """The share of both revisions is that of the canary and of the templates together. Then all of it goes as it came."""
    seen: dict[str, Any] = {}

    async def script(stage: Stage, users: Users) -> None:
        stage.image("2")
        await until_live(stage)
        seen["weights"] = backends(stage)
        seen["status"] = _observed(stage)["experiments"]
        await users.measure(stage, "trial", "2", for_s=20.0)
        await stage.until_phase("Healthy", "2")
        seen["after"] = backends(stage)
        await asyncio.sleep(60.0)
        seen["sizes"] = sizes_of_experiments(stage)
        seen["services"] = [
            each for each in stage.cluster.list(SERVICE, KEY.namespace) if each["metadata"].get("ownerReferences")
        ]

    outcome = play_routed(world(*STEPS), script)

    assert_good(outcome)
    assert [share_of(seen["weights"], name) for name in ("stable", "canary", "baseline", "trial")] == [
        *(0.65, 0.2, 0.1, 0.05)
    ]
    assert [each["weight"] for each in seen["status"]] == [10, 5]
    assert outcome.users.shares["trial"] == pytest.approx(0.2, abs=0.01), "by the pods of the Rollout"
    assert seen["after"] == {"stable": 100, "canary": 0}
    assert (seen["sizes"], seen["services"]) == ([0, 0], [])


async def _end(stage: Stage, how: str) -> None:
    """Somebody ends the update, or the Experiment; or its pods fail."""
    name, revision = experiment(stage)["metadata"]["name"], stage.status["currentRevision"]
    match how:
        case "abort":
            stage.annotate("abort", revision)
        case "supersede":
            stage.image("3")
        case "skip":
            stage.annotate("promote", f"{revision}@skip-1")
        case "terminate":
            stage.merge(EXPERIMENT, name, {"spec": {"terminate": True}})
        case "edit":
            stage.merge(EXPERIMENT, name, {"spec": {"analyses": [{"name": "x", "templateName": "x"}]}})


@pytest.mark.parametrize("how", ["abort", "supersede", "skip", "terminate", "edit"])
def test_an_end_in_the_middle_loses_nothing(how: str) -> None:
    """The shares leave the routes first, then the requests in flight end, and then the pods go."""
    seen: dict[str, Any] = {}

    async def script(stage: Stage, users: Users) -> None:
        stage.image("2")
        await until_live(stage)
        await asyncio.sleep(5.0)
        await _end(stage, how)
        await stage.until(lambda: set(backends(stage)) == {"stable", "canary"})
        seen["sizes then"] = sizes_of_experiments(stage)
        await asyncio.sleep(200.0)
        seen["sizes"] = sizes_of_experiments(stage)

    outcome = play_routed(world(*STEPS), script, duration_s=3.0)

    assert set(outcome.users.causes) == set(), outcome.users.causes
    outcome.run.assert_clean()
    assert seen["sizes then"][:2] == [1, 1]
    assert set(seen["sizes"]) <= {0}


def test_the_service_of_a_weight_has_the_ports_of_the_stable_one() -> None:
    """The route names that port, and the gateway speaks the protocol that it says. Argo Rollouts takes the containers' ports."""
    seen: dict[str, Any] = {}
    port = {"name": "web", "port": 80, "targetPort": 8080, "appProtocol": "kubernetes.io/h2c"}
    manifests = list(world(*STEPS))
    stable = next(each for each in manifests if (each["kind"], each["metadata"]["name"]) == ("Service", "stable"))
    manifests[manifests.index(stable)] = {**stable, "spec": {**stable["spec"], "ports": [port]}}

    async def script(stage: Stage, users: Users) -> None:
        stage.image("2")
        await until_live(stage)
        seen["ports"] = [
            each["spec"]["ports"]
            for each in stage.cluster.list(SERVICE, KEY.namespace)
            if each["metadata"].get("ownerReferences")
        ]
        stage.annotate("abort", stage.status["currentRevision"])

    play_routed(tuple(manifests), script)

    assert seen["ports"] == [[{**port, "protocol": "TCP"}]] * 2
