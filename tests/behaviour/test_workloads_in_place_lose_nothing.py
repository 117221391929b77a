"""Promise: a Deployment, a StatefulSet and a DaemonSet that keep their pods lose no request and skip no step; mistakes are seen.

Judged by pods (`in_place_witness.py`): which of them leave, which are made, and what is written to bring that about.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from rollouts.core.carrier import daemonset, deployment, statefulset
from rollouts.core.model.frozen import replace
from rollouts.core.model.in_place_intents import DeletePod
from rollouts.core.model.workload_ref import WorkloadKind
from rollouts.objects import POD, ROLLOUT
from rollouts.ports import MERGE_PATCH, Request
from tests import build
from tests.behaviour.in_place import AT_REST_S, KINDS, image, manifests, own_fields, through_everything, until
from tests.behaviour.stage import KEY, Stage, play

BY_TIME = [{"setWeight": 25}, {"pause": {"duration": "1s"}}, {"setWeight": 50}, {"pause": {"duration": "1s"}}]
WRITES = {WorkloadKind.DEPLOYMENT: 26, WorkloadKind.STATEFUL_SET: 16, WorkloadKind.DAEMON_SET: 11}
"""At most, to the workload, its ReplicaSets and its pods, for all that `through_everything` does."""


class _EnoughError(Exception):
    """What follows from mistakes does not matter."""


Plant = Callable[[pytest.MonkeyPatch], None]


@pytest.mark.parametrize("kind", KINDS)
def test_everything_that_happens_to_an_update_in_place_loses_no_request(kind: WorkloadKind) -> None:
    """Pods that stop gracefully, slices that are late. At the end all fields are the user's."""
    lost: list[int] = []

    async def script(stage: Stage) -> None:
        await until(stage, "Healthy", v1=4)
        await asyncio.sleep(2.0)
        users = stage.cluster.clients(namespace=KEY.namespace, service=KEY.name, rate_per_s=20.0, duration_s=0.02)
        await through_everything(stage, kind)
        await stage.until(lambda: own_fields(stage, kind), within_s=1.0)
        await asyncio.sleep(5.0)
        users.stop()
        assert users.tally.sent.total() > 200
        lost.append(users.tally.lost.total())

    service = build.service(KEY.name, KEY.namespace, app=KEY.name)
    run = play((*manifests(kind, pre_stop_s=3), service), script, slice_lag_s=0.3, hold_policies=True)

    run.assert_clean()
    assert lost == [0]
    others = ("rollouts", "rollouts/status", "events")
    written = {what: times for what, times in run.effects.items() if what.partition(" ")[2] not in others}
    assert sum(written.values()) <= WRITES[kind], written


@pytest.mark.parametrize("kind", KINDS)
def test_a_newer_template_is_rolled_out_although_the_one_before_is_aborted_in_the_same_moment(
    kind: WorkloadKind,
) -> None:
    """The abort is about the revision that is given up; nothing waits for pods that only the older template would make."""

    async def script(stage: Stage) -> None:
        await until(stage, "Healthy", v1=4)
        await asyncio.sleep(AT_REST_S)
        image(stage, kind, "2")
        await until(stage, "Paused", v1=3, v2=1)
        stage.annotate("abort", "true")
        image(stage, kind, "3")
        await until(stage, "Paused", v1=3, v3=1)
        await stage.until(lambda: "annotations" not in stage.find(ROLLOUT)["metadata"])

    play(manifests(kind), script, hold_policies=True).assert_clean()


def _one_pod_more_may_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Deployment's controller is told to make do with one old pod less."""
    right = vars(deployment)["unavailable"]
    monkeypatch.setattr(
        deployment, "unavailable", lambda pods, *, replicas: right(min(pods + 1, replicas), replicas=replicas)
    )


def _a_partition_is_too_low(monkeypatch: pytest.MonkeyPatch) -> None:
    """A StatefulSet's controller replaces one pod more than the step says."""
    right = vars(statefulset)["_update"]

    def update(*given: Any) -> Any:
        found = right(*given)
        if not found.stable or not found.wanted.get(found.new):
            return found
        more = {found.new: found.wanted[found.new] + 1, found.stable: found.wanted[found.stable] - 1}
        return replace(found, wanted={**found.wanted, **more})

    monkeypatch.setattr(statefulset, "_update", update)


def _all_pods_go_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a DaemonSet's `maxUnavailable` says."""

    def leaving(update: Any) -> tuple[DeletePod, ...]:
        gone = [(pod.name, pod.uid, pod.resource_version) for pod in update.old]
        return tuple(DeletePod(name=name, uid=uid, resource_version=version) for name, uid, version in gone)

    monkeypatch.setattr(daemonset, "_leaving", leaving)


MISTAKES: dict[WorkloadKind, tuple[Plant, str]] = {
    WorkloadKind.DEPLOYMENT: (_one_pod_more_may_be_missing, "S3"),
    WorkloadKind.STATEFUL_SET: (_a_partition_is_too_low, "S7"),
    WorkloadKind.DAEMON_SET: (_all_pods_go_at_once, "S3"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_that_goes_too_far_is_seen(kind: WorkloadKind, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the pods that leave too early, or are new too early; where no policy holds the workload."""
    plant, rule = MISTAKES[kind]
    seen: list[str] = []

    async def script(stage: Stage) -> None:
        await until(stage, "Healthy", v1=4)
        await asyncio.sleep(AT_REST_S)
        plant(monkeypatch)
        image(stage, kind, "2")
        await stage.until(lambda: bool(stage.witness.violations), within_s=60.0)
        seen.extend(stage.witness.violations)
        raise _EnoughError

    with pytest.raises(_EnoughError):
        play(manifests(kind, steps=BY_TIME), script)

    assert rule in {each.partition(" s: ")[2].partition(":")[0] for each in seen}


async def _mistaken(stage: Stage, method: str, path: str, body: Any) -> set[str]:
    """What the witness tells of a write, as a controller would send it."""
    known = len(stage.witness.violations)
    content = MERGE_PATCH if method == "PATCH" else "application/json"
    request = Request(method, path, {}, msgspec.json.encode(body), content)
    response = await stage.witness.door("mistaken").request(request, deadline_s=5.0)
    assert response.status < 300, response.body
    return {each.partition(" s: ")[2].partition(":")[0] for each in stage.witness.violations[known:]}


@pytest.mark.parametrize("kind", KINDS)
def test_a_write_that_no_pass_may_make_is_seen(kind: WorkloadKind) -> None:
    """One that changes nothing, a pod that goes for nothing, a promotion without a verdict, and another template."""
    told: dict[str, set[str]] = {}

    async def script(stage: Stage) -> None:
        await until(stage, "Healthy", v1=4)
        await asyncio.sleep(AT_REST_S)
        image(stage, kind, "2")
        await until(stage, "Paused", v1=3, v2=1)
        path = kind.resource.path(KEY.namespace, KEY.name)
        stands = stage.find(kind.resource)
        seen = {each: stands["metadata"][each] for each in ("uid", "resourceVersion")}
        marks = {"annotations": {"rollouts.dev/held": stands["metadata"]["annotations"]["rollouts.dev/held"]}}
        strategy = {} if kind is WorkloadKind.DEPLOYMENT else {"updateStrategy": stands["spec"]["updateStrategy"]}
        nothing = {"metadata": {**seen, **marks}, "spec": strategy or {"paused": None}}
        told["changes nothing"] = await _mistaken(stage, "PATCH", path, nothing)
        if kind is not WorkloadKind.DEPLOYMENT:
            pods = stage.cluster.list(POD, KEY.namespace)
            new = next(each for each in pods if each["spec"]["containers"][0]["image"] == "web:2")["metadata"]
            preconditions = {each: new[each] for each in ("uid", "resourceVersion")}
            body = {"preconditions": preconditions}
            told["goes for nothing"] = await _mistaken(stage, "DELETE", POD.path(KEY.namespace, new["name"]), body)
        promoted = {"status": {"stableRevision": stage.status["currentRevision"]}}
        status = ROLLOUT.path(KEY.namespace, KEY.name, "status")
        told["promoted"] = await _mistaken(stage, "PATCH", status, promoted)
        containers = [{"name": "app", "image": "web:3"}]
        template = {"spec": {"template": {"spec": {"containers": containers}}}, "metadata": {"annotations": {}}}
        told["template"] = await _mistaken(stage, "PATCH", path, template)
        raise _EnoughError

    with pytest.raises(_EnoughError):
        play(manifests(kind), script)

    wanted = {"changes nothing": {"S11"}, "goes for nothing": {"S11"}, "promoted": {"S7", "S8"}, "template": {"S13"}}
    assert {what: wanted[what] <= rules for what, rules in told.items()} == dict.fromkeys(told, True), told
