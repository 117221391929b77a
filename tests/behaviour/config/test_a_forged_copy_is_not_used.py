"""Promise: a copy counts by its data. Who may write ConfigMaps puts nothing into a revision by making one of a copy's name.

The attacker may create and delete ConfigMaps, and nothing else. He gives his object the name, the labels, the annotations and the
owner of the controller's copy, and other data.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rollouts.core.config.content import content_hash, copy_name
from rollouts.core.model.config import ConfigKind
from rollouts.manifests.ownership import CONFIG_SOURCE, CONTENT
from rollouts.objects import CONFIG_MAP, Manifest
from tests.behaviour.configured import (
    CONF,
    at_gate,
    config_map,
    configured,
    copies,
    copies_missing,
    healthy,
    until_all_answer,
    until_new,
    values,
    write,
)
from tests.behaviour.stage import KEY, Stage, play

EVIL = "evil"
WINDOW: dict[str, Any] = {"rollbackWindow": {"revisions": 5}}


def _copy_of(stage: Stage, value: str) -> str:
    (name,) = (name for name, each in copies(stage).items() if each == value)
    return name


def _forge(stage: Stage, name: str, **fields: Any) -> None:
    """Somebody deletes a copy and makes another one of its name."""
    copy = stage.find(CONFIG_MAP, name)
    kept = ("name", "namespace", "labels", "annotations", "ownerReferences")
    stage.remove(CONFIG_MAP, name)
    metadata = {part: copy["metadata"][part] for part in kept}
    made: Manifest = {**copy, "metadata": metadata, "data": {"key": EVIL}, **fields}
    stage.cluster.apply({name: part for name, part in made.items() if part is not None})


async def _two_revisions(stage: Stage) -> tuple[str, str]:
    """The first one is kept without pods."""
    first, second = await at_gate(stage)
    stage.annotate("promote", "true")
    await stage.until(lambda: stage.status.get("phase") == "Healthy")
    await until_all_answer(stage, "v2")
    await asyncio.sleep(60.0)
    return first, second


def _told(stage: Stage) -> str:
    """What is said of a forged copy while the Rollout waits for it; "" for nothing."""
    return str(stage.status["waitingFor"]["message"]) if stage.waits_for == "ConfigCopyNotUsable" else ""


@pytest.mark.parametrize(
    "forged",
    [{}, {"immutable": None}, {"immutable": None, "data": {"key": "v1"}}],
    ids=["data", "both", "may be changed"],
)
def test_a_rollback_to_a_revision_with_a_forged_copy_waits_and_says_so(forged: Manifest) -> None:
    """It went to all pods at once, past all steps. Once the copy is deleted and the source has that content, it goes on."""

    async def script(stage: Stage) -> None:
        first, second = await _two_revisions(stage)
        name = _copy_of(stage, "v1")
        _forge(stage, name, **forged)
        await asyncio.sleep(10.0)
        stage.annotate("rollback", first)
        await stage.until(lambda: bool(_told(stage)))
        await asyncio.sleep(60.0)
        assert f"ConfigMap {name} is not the copy that the controller made" in _told(stage)
        assert f"revision {first}" in _told(stage)
        assert values(stage) == {second: {"v2"}}

        stage.remove(CONFIG_MAP, name)
        write(stage, "v1")
        await until_all_answer(stage, "v1")

    run = play((config_map("v1"), configured(**WINDOW)), script, grace_s=0.1)

    assert run.violations == []


def test_a_forged_copy_of_the_revision_that_serves_is_told() -> None:
    """Its pods are not taken away for it; those that run have read the true one."""

    async def script(stage: Stage) -> None:
        first = await healthy(stage)
        name = _copy_of(stage, "v1")
        await asyncio.sleep(10.0)
        _forge(stage, name)
        await stage.until(lambda: name in copies_missing(stage))
        assert f"revision {first} names it, and pods that start read it" in copies_missing(stage)
        assert "delete it" in copies_missing(stage)
        assert values(stage) == {first: {"v1"}}

        stage.remove(CONFIG_MAP, name)
        await stage.until(lambda: not copies_missing(stage) and copies(stage).get(name) == "v1")

    run = play((config_map("v1"), configured()), script, grace_s=0.1)

    assert run.violations == []


def test_a_copy_that_was_there_before_the_controller_made_it_is_read_before_a_revision_names_it() -> None:
    """Its name follows from the content, so everybody who knows what comes next can make it first."""

    async def script(stage: Stage) -> None:
        first = await healthy(stage)
        made = stage.find(CONFIG_MAP, _copy_of(stage, "v1"))
        content = content_hash({"key": "v2"}, None)
        name = copy_name(ConfigKind.CONFIG_MAP, rollout=KEY.name, source=CONF, content=content)
        kept = {part: made["metadata"][part] for part in ("namespace", "labels", "ownerReferences")}
        metadata = {**kept, "name": name, "annotations": {CONFIG_SOURCE: CONF, CONTENT: content}}
        stage.cluster.apply({**made, "metadata": metadata, "data": {"key": EVIL}})
        write(stage, "v2")
        await stage.until(lambda: bool(_told(stage)))
        await asyncio.sleep(30.0)
        assert values(stage) == {first: {"v1"}}

        stage.remove(CONFIG_MAP, name)
        second = await until_new(stage, "Paused", before=first)
        assert values(stage) == {first: {"v1"}, second: {"v2"}}

    run = play((config_map("v1"), configured()), script, grace_s=0.1)

    assert run.violations == []


def test_an_idle_cluster_is_asked_nothing_for_it() -> None:
    """A copy that the controller made is never read again, and one that it did not make once."""
    asked: list[str] = []

    async def script(stage: Stage) -> None:
        await _two_revisions(stage)
        name = _copy_of(stage, "v1")
        _forge(stage, name)
        await stage.until(lambda: name in copies_missing(stage))
        reads = [each.what for each in stage.witness.arrivals].count("GET configmaps")
        before = len(stage.witness.arrivals)
        await asyncio.sleep(600.0)
        assert reads > 0
        asked.extend(each.what for each in stage.witness.arrivals[before:] if each.what == "GET configmaps")

    play((config_map("v1"), configured(**WINDOW)), script, grace_s=0.1)

    assert asked == []
