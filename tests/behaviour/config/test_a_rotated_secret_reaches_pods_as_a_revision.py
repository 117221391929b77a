"""Promise: a rotated Secret goes through a canary, old pods keep the old value, and no crash or fault changes that."""

from __future__ import annotations

import base64
from functools import partial
from typing import Any

import pytest

from rollouts.core.model.frozen import replace
from rollouts.manifests.config_copy import config_key
from rollouts.manifests.ownership import CONFIG_KEY_NAME
from rollouts.objects import SECRET, Manifest
from rollouts.sim.faults import DropReply, DropRequest, Fault, FaultTape, Unavailable
from tests import build
from tests.behaviour.branches import CRASHES, assert_ends_as_without, distinct, places
from tests.behaviour.config_truth import HASH_KEY
from tests.behaviour.configured import (
    copies,
    copies_missing,
    healthy,
    until_all_answer,
    until_back,
    until_new,
    values,
    watched,
)
from tests.behaviour.scenarios import HALF, MANUAL, canary, rollout
from tests.behaviour.stage import AT_ONCE_S, KEY, Run, Script, Stage, play

CRED = "cred"
FAULTS = distinct(Unavailable(500), DropRequest(), DropReply())


def _data(value: str) -> Manifest:
    return {"data": {"key": base64.b64encode(value.encode()).decode()}}


def _reading() -> Manifest:
    """A canary with one gate whose pods read `cred` as a variable, as files, and as one file by subPath."""
    manifest = rollout(canary(HALF, MANUAL), configVersioning={"secrets": True, "settleSeconds": 0})
    pod = manifest["spec"]["template"]["spec"]
    pod["volumes"] = [{"name": "files", "secret": {"secretName": CRED}}]
    pod["containers"][0] |= {
        "env": [{"name": "VALUE", "valueFrom": {"secretKeyRef": {"name": CRED, "key": "key"}}}],
        "volumeMounts": [
            {"name": "files", "mountPath": "/etc/files"},
            {"name": "files", "mountPath": "/etc/one", "subPath": "key"},
        ],
    }
    return manifest


def _rotate(stage: Stage, value: str) -> None:
    stage.merge(SECRET, CRED, _data(value))


async def _rotated(stage: Stage) -> None:
    """A new value is promoted; the next one is aborted and taken back."""
    first = await healthy(stage)
    _rotate(stage, "v2")
    second = await until_new(stage, "Paused", before=first)
    assert values(stage) == {first: {"v1"}, second: {"v2"}}
    stage.annotate("promote", f"{second}@full")
    await until_back(stage, second, "v2")
    _rotate(stage, "v3")
    third = await until_new(stage, "Paused", before=second)
    stage.annotate("abort", third)
    await stage.until(lambda: stage.status.get("phase") == "Aborted")
    await until_all_answer(stage, "v2")
    _rotate(stage, "v2")
    await until_back(stage, second, "v2")
    assert not copies(stage)
    _nothing_is_left_over(stage)


async def _copy_deleted(stage: Stage) -> None:
    """Somebody deletes the copy, which nobody sees; a pod that starts waits for it, and has it soon."""
    first = await healthy(stage)
    (name,) = _copies(stage)
    stage.remove(SECRET, name)
    stage.edit({"spec": {"replicas": 3}})
    await until_all_answer(stage, "v1", pods=3)
    assert _copies(stage) == {name}
    assert stage.status["currentRevision"] == first
    _nothing_is_left_over(stage)


async def _copy_lost_for_good(stage: Stage) -> None:
    """The same, and the Secret was rotated: the stable revision says what it lacks, and a way back is to give it again."""
    first = await healthy(stage)
    (name,) = _copies(stage)
    _rotate(stage, "v2")
    await until_new(stage, "Paused", before=first)
    stage.remove(SECRET, name)
    stage.edit({"spec": {"replicas": 4}})
    await stage.until(lambda: f"Secret {name}, the copy of cred, is gone" in copies_missing(stage))
    _rotate(stage, "v1")
    await until_all_answer(stage, "v1", pods=4)
    await stage.until(lambda: stage.status.get("phase") == "Healthy" and not copies_missing(stage))


def _copies(stage: Stage) -> set[str]:
    return {each["metadata"]["name"] for each in stage.cluster.list(SECRET, KEY.namespace)} - {CRED, CONFIG_KEY_NAME}


def _nothing_is_left_over(stage: Stage) -> None:
    """Each copy has its ReplicaSet, and each ReplicaSet its copy."""
    owners = [stage.find(SECRET, name)["metadata"]["ownerReferences"][0]["name"] for name in _copies(stage)]
    assert sorted(owners) == sorted(stage.end_state()["replicaSets"])


MANIFESTS = (
    config_key(KEY.namespace, HASH_KEY),
    build.secret(CRED, KEY.namespace, type="Opaque", **_data("v1")),
    _reading(),
)


def _without_names(run: Run) -> dict[str, Any]:
    """The end without the names of copies, which are drawn anew for each ReplicaSet."""
    sets = {
        name: [*rest, [use[:3] for use in annotations["rollouts.dev/config"]]]
        for name, (*rest, annotations) in run.end["replicaSets"].items()
    }
    return {**run.end, "replicaSets": sets}


def test_old_pods_keep_the_old_value_until_they_are_replaced() -> None:
    """However they read it, from their first answer to their last."""
    run = play(MANIFESTS, _rotated, alongside=watched())

    run.assert_clean()
    assert run.end["status"]["phase"] == "Healthy"


def test_a_copy_that_somebody_deletes_is_made_again_for_the_pod_that_waits_for_it() -> None:
    """Under its old name, by a dry run of a creation: the controller may not read it."""
    run = play(MANIFESTS, _copy_deleted, alongside=watched())

    run.assert_clean()
    assert run.effects["POST secrets"] == 2


def test_a_lost_copy_of_a_rotated_secret_is_told_and_comes_back_with_its_content() -> None:
    """Nobody can make it again of another content."""
    play(MANIFESTS, _copy_lost_for_good, alongside=watched()).assert_clean()


def _played(script: Script, grace_s: float, tape: FaultTape | None = None) -> Run:
    run = play(MANIFESTS, script, tape=tape, grace_s=grace_s, alongside=watched())
    return replace(run, end=_without_names(run))


@pytest.mark.parametrize(("faults", "grace_s"), [(CRASHES, AT_ONCE_S), (FAULTS, 4.0)], ids=["crashes", "faults"])
@pytest.mark.parametrize("script", [_copy_deleted, pytest.param(_rotated, marks=pytest.mark.long)])
def test_no_crash_or_fault_of_any_write_changes_the_end(
    script: Script, faults: tuple[Fault, ...], grace_s: float
) -> None:
    """Between a ReplicaSet, its copy, its note and its pods; after the answer that a copy is gone, and around its creation."""
    without = _played(script, AT_ONCE_S)

    assert_ends_as_without(partial(_played, script, grace_s), without, places(without, faults))
