"""kubectl's own commands, autoscalers and budgets work on a Rollout as they do on a Deployment."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import partial

import pytest

from rollouts.sim.storage.registry import DISRUPTION_BUDGET
from tests import build
from tests.e2e.manifests import GATE, Manifest, blue_green, canary, service, services
from tests.e2e.scaled import KINDS, autoscaler, loaded
from tests.e2e.stage import REVISION, Stage, counted, current

pytestmark = pytest.mark.controlplane

TENTH_AND_HALF: tuple[Manifest, ...] = ({"setWeight": 10}, {"pause": {}}, {"setWeight": 50}, {"pause": {}})
SCALED = {
    "by-ratio": partial(canary, replicas=10, steps=TENTH_AND_HALF),
    "routed": partial(canary, replicas=10, steps=TENTH_AND_HALF, trafficRouting={}),
    "dynamic": partial(canary, replicas=10, steps=TENTH_AND_HALF, trafficRouting={}, dynamicStableScale=True),
    "blue-green": partial(blue_green, replicas=10, autoPromotionEnabled=False),
}


def test_kubectl_wait_waits_for_what_was_applied_last(stage: Stage) -> None:
    """A pipeline applies and waits: it must not be told of the revision before, even if the controller has not looked yet."""
    for image in ("web:1", "web:2", "web:3"):
        stage.apply(canary("web", image=image, steps=[{"setWeight": 50}]))
        stage.kubectl("wait", "rollout/web", "--for=condition=Ready", "--timeout=50s")
        ready = stage.get("rollouts", "web")

        assert ready["status"]["observedGeneration"] == ready["metadata"]["generation"]
        images = {pod["spec"]["containers"][0]["image"] for pod in stage.all("pods", f"{REVISION}={current(ready)}")}
        assert images == {image}
        assert ready["status"]["stableRevision"] == current(ready)


def test_kubectl_get_tells_how_far_it_is(stage: Stage) -> None:
    """The line that people look at most: the phase, the step, the weight, and the pods."""
    stage.rolled_out(canary("web"))
    stage.gated("web", "web:2", step=GATE)
    stage.until("rollouts", "web", lambda one: one["status"]["readyReplicas"] == 4)

    header, row = stage.kubectl("get", "rollouts").splitlines()
    by_short_name = stage.kubectl("get", "ro", "-o", "name")

    assert header.split() == ["NAME", "PHASE", "STEP", "WEIGHT", "READY", "DESIRED", "AGE"]
    assert row.split()[:6] == ["web", "Paused", "1/4", "25", "4", "4"]
    assert by_short_name == "rollout.rollouts.dev/web\n"


def test_kubectl_scale_and_the_scale_subresource_agree(stage: Stage) -> None:
    """What an autoscaler reads is what `kubectl scale` wrote, and the selector finds the Rollout's pods and no others."""
    stage.rolled_out(canary("web", replicas=2), canary("other", replicas=1))

    stage.kubectl("scale", "rollout", "web", "--current-replicas=2", "--replicas=5")
    grown = current(stage.wait_ready("web"))
    stage.until_pods("web", {grown: 5})
    stage.until("rollouts", "web", lambda one: one["status"]["replicas"] == 5)
    scale = json.loads(
        stage.kubectl(*("get", "--raw"), f"/apis/rollouts.dev/v1alpha1/namespaces/{stage.namespace}/rollouts/web/scale")
    )

    assert (scale["spec"]["replicas"], scale["status"]["replicas"]) == (5, 5)
    assert len(stage.all("pods", scale["status"]["selector"])) == 5


def test_an_autoscaler_computes_from_the_pods_that_the_selector_names(stage: Stage) -> None:
    """Blue-green: the pods that serve are measured, not the idle preview, which would halve the average."""
    first = stage.rolled_out(
        blue_green("web", replicas=2, autoPromotionEnabled=False), *services("web", "active", "preview")
    )
    second = stage.gated("web", "web:2")
    by_cpu = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}
    autoscaler_of_four = build.autoscaler("web", None, {"type": "Resource", "resource": by_cpu}, most=4)

    with loaded(stage, pods=4) as load:
        stage.apply(autoscaler_of_four)
        stage.until_pods("web", {first: 4, second: 4})
        scaled = stage.until("horizontalpodautoscalers", "web", lambda one: one["status"].get("currentReplicas") == 4)

    assert scaled["status"]["desiredReplicas"] == 4
    assert set(load.selectors) == {stage.get("rollouts", "web")["status"]["selector"]}
    assert first in load.selectors[0]


def test_the_strategy_may_change_to_the_other_and_back(stage: Stage) -> None:
    """From canary to blue-green and back without a lost pod; Services are taken when named, and given back after."""
    first = stage.rolled_out(canary("web", replicas=3), *services("web", "active", "preview"))
    with stage.history("pods", "app=web") as changes:
        stage.patch("web", {"strategy": {"canary": None, **blue_green("web")["spec"]["strategy"]}})
        stage.wait_ready("web")
        stage.until_endpoints("web-active", {first: 3})
        as_blue_green = stage.selected("web-active")
        stage.set_image("web", "web:2")
        second = current(stage.wait_ready("web"))
        stage.until_endpoints("web-active", {second: 3})

        stage.patch("web", {"strategy": {"blueGreen": None, **canary("web")["spec"]["strategy"]}})
        for name in ("web-active", "web-preview"):
            stage.until("services", name, lambda one: REVISION not in one["spec"]["selector"])
        third = stage.gated("web", "web:3", step=GATE)
        stage.annotate("web", "promote", f"{third}@full")
        stage.wait_ready("web")
        stage.until_pods("web", {third: 3})

    assert as_blue_green == first
    assert min(ready for ready, _ in counted(changes)[2:]) == 3


def test_a_restart_replaces_each_pod_once(stage: Stage) -> None:
    """A pod of this second is not an old one; maxUnavailable is 0, so a pod more comes first and no pod is ever missing."""
    stage.apply(canary("web", replicas=3, spec={"minReadySeconds": 1}))  # so that all are of an earlier second
    revision = current(stage.wait_ready("web"))
    stage.until_pods("web", {revision: 3})
    with stage.history("pods", "app=web") as changes:
        stage.annotate("web", "restart", "true")
        stage.until("rollouts", "web", lambda one: "restartedAt" in one["status"])
        stage.until_pods("web", {revision: 3})

    assert len({change["object"]["metadata"]["name"] for change in changes}) == 3 + 3 + 1
    assert min(ready for ready, _ in counted(changes)[2:]) == 3
    assert max(pods for _, pods in counted(changes)) == 4
    stage.until_events("web", "RolloutRestarted")


def test_a_restart_respects_disruption_budgets(stage: Stage) -> None:
    """Pods are evicted, never deleted: a budget that allows no disruption stops a restart, and it goes on when one is allowed."""
    spec = {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}}
    budget = build.manifest(DISRUPTION_BUDGET, "web", spec=spec)
    revision = stage.rolled_out(canary("web", replicas=2, spec={"minReadySeconds": 1}), budget)
    stage.until("poddisruptionbudgets", "web", lambda one: one.get("status", {}).get("currentHealthy") == 2)
    old = {pod["metadata"]["name"] for pod in stage.all("pods", "app=web")}
    stage.annotate("web", "restart", datetime.now(UTC).isoformat())
    held = stage.until_at("web", "DisruptionBudget")
    untouched = {pod["metadata"]["name"] for pod in stage.all("pods", "app=web")}
    stage.kubectl("patch", "pdb", "web", "--type=merge", "-p", '{"spec": {"maxUnavailable": 1}}')
    stage.until("rollouts", "web", lambda one: "restartedAt" in one["status"], within_s=60)
    stage.until_pods("web", {revision: 2})

    assert "eviction" in held["status"]["waitingFor"]["message"]
    assert old <= untouched, "a pod more is there, and none was evicted"
    assert old.isdisjoint(pod["metadata"]["name"] for pod in stage.all("pods", "app=web"))


def test_an_update_scales_nothing_without_load_and_a_load_is_seen_in_the_middle_of_it(stage: Stage) -> None:
    """Pods of a canary on top are not pods that the load needs: a queue for 10 pods made 11 of them.

    Ten pods are loaded for ten, at a canary of a tenth and of a half; then for twelve. By a metric of one `Value`, which an
    HPA multiplies by all ready pods, a routed canary grows beyond twelve: docs/autoscaling.md says so, and `lint`.
    """
    names = {f"{way}-{kind}": (way, kind) for way in SCALED for kind in KINDS if way != "dynamic" or "value" in kind}
    with_steps = [name for name, (way, _) in names.items() if way != "blue-green"]
    fronts = [each for name in {*names}.difference(with_steps) for each in services(name, "active", "preview")]
    made = [SCALED[way](name) for name, (way, _) in names.items()]
    stage.rolled_out(*fronts, service("queue", app="none"), *made)
    for name in names:
        stage.set_image(name, "web:2")
    tenth = {name: stage.until_at(name, "PromotionNeeded", image="web:2") for name in names}
    with loaded(stage, pods=10) as load:
        stage.apply(*(autoscaler(name, kind) for name, (_, kind) in names.items()))
        load.wait_for_looks(names, looks=4)
        at_a_tenth = _scaled(stage, names)
        for name in with_steps:
            stage.annotate(name, "promote", f"{current(tenth[name])}@1")
        for name in with_steps:
            stage.until_at(name, "PromotionNeeded", step=3)
        load.wait_for_looks(names, looks=4)
        at_a_half = _scaled(stage, names)
        load.pods = 12
        load.wait_for_looks(names, looks=6)
        with_load = _scaled(stage, names)

    assert {name: size for name, size in at_a_tenth.items() if size != 10} == {}
    assert {name: size for name, size in at_a_half.items() if size != 10} == {}
    beyond = {"routed-object-value": 18, "routed-external-value": 18}
    assert {name: size for name, size in with_load.items() if size != 12} == beyond


def _scaled(stage: Stage, names: Iterable[str]) -> dict[str, int]:
    return {name: stage.get("rollouts", name)["spec"]["replicas"] for name in names}
