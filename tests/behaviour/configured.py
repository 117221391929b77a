"""Rollouts whose pods read a ConfigMap in every way, people who edit it, and an eye on what pods answer with."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from rollouts.manifests.ownership import CONFIG_COPY, REVISION
from rollouts.objects import CONFIG_MAP, POD, REPLICA_SET, ROLLOUT, Manifest
from rollouts.sim.actors import pods as pod_facts
from rollouts.sim.storage.history import Stored
from tests import build
from tests.behaviour.scenarios import HALF, MANUAL, canary, rollout
from tests.behaviour.stage import KEY, Script, Stage

CONF = "conf"
LOOKS_EACH_S = 0.2


def config_map(value: str, name: str = CONF) -> Manifest:
    return build.config_map(name, KEY.namespace, data={"key": value})


def configured(*, name: str = KEY.name, optional: bool = False, **spec: Any) -> Manifest:
    """A canary with one gate whose pods read `conf` as a variable, as files, and as one file by subPath."""
    manifest = rollout(canary(HALF, MANUAL), **spec)
    manifest["metadata"]["name"] = name
    if name != KEY.name:
        manifest["spec"]["selector"] = {"matchLabels": {"app": name}}
        manifest["spec"]["template"]["metadata"] = {"labels": {"app": name}}
    pod = manifest["spec"]["template"]["spec"]
    ref = {"name": CONF, "optional": optional}
    pod["volumes"] = [{"name": "files", "configMap": ref}]
    pod["containers"][0] |= {
        "env": [{"name": "VALUE", "valueFrom": {"configMapKeyRef": {**ref, "key": "key"}}}],
        "volumeMounts": [
            {"name": "files", "mountPath": "/etc/files"},
            {"name": "files", "mountPath": "/etc/one", "subPath": "key"},
        ],
    }
    return manifest


# --- people


def write(stage: Stage, value: str) -> None:
    """Somebody edits the ConfigMap, or creates it."""
    if stage.cluster.get(CONFIG_MAP, KEY.namespace, CONF) is None:
        stage.cluster.apply(config_map(value))
        return
    stage.merge(CONFIG_MAP, CONF, {"data": {"key": value}})


def touch(stage: Stage, number: int) -> None:
    """Somebody edits a label of the ConfigMap: another version with the same content."""
    stage.merge(CONFIG_MAP, CONF, {"metadata": {"labels": {"touched": str(number)}}})


def crash_a_pod(stage: Stage, *, app: str = "web") -> None:
    """A container of one pod ends, and is started again."""
    stage.cluster.kubelets.crash(ready_pods(stage, app)[0].key)


def copies_missing(stage: Stage) -> str:
    """What the Rollout says about copies that are gone; "" for nothing."""
    return str(stage.condition("ConfigCopyMissing").get("message", ""))


def status_of(stage: Stage, name: str) -> Manifest:
    return (stage.cluster.get(ROLLOUT, KEY.namespace, name) or {}).get("status") or {}


async def until_new(stage: Stage, phase: str, *, before: str, name: str = KEY.name) -> str:
    """Waits until another revision than `before` is in that phase; its name."""

    def holds() -> bool:
        status = status_of(stage, name)
        return status.get("phase") == phase and status.get("currentRevision", before) != before

    await stage.until(holds)
    return str(status_of(stage, name)["currentRevision"])


async def healthy(stage: Stage, name: str = KEY.name) -> str:
    """Waits until the first revision is rolled out; its name."""
    return await until_new(stage, "Healthy", before="", name=name)


async def at_gate(stage: Stage) -> tuple[str, str]:
    """The content `v1` serves, a revision of `v2` stands at its gate; both revisions."""
    before = await healthy(stage)
    write(stage, "v2")
    return before, await until_new(stage, "Paused", before=before)


async def until_back(stage: Stage, revision: str, value: str = "v1") -> None:
    """Waits until that revision is Healthy again, and all pods answer with the value."""
    await stage.until(lambda: stage.status.get("phase") == "Healthy" and stage.status["currentRevision"] == revision)
    await until_all_answer(stage, value)


# --- what pods answer with


def values(stage: Stage, *, app: str = "web") -> dict[str, set[str]]:
    """By revision: what its ready pods read, in any way."""
    found: dict[str, set[str]] = {}
    for pod in ready_pods(stage, app):
        found.setdefault(pod.labels.get(REVISION, ""), set()).update(_reads(stage, pod))
    return found


async def until_all_answer(stage: Stage, value: str, *, pods: int = 2, app: str = "web") -> None:
    """Waits until there are so many ready pods, and each answers with `value`, whichever way it reads."""

    def holds() -> bool:
        ready = ready_pods(stage, app)
        return len(ready) == pods and all(_reads(stage, each) == {value} for each in ready)

    await stage.until(holds)


def copies(stage: Stage) -> dict[str, str]:
    """Our copies: what is in each."""
    found = stage.cluster.list(CONFIG_MAP, KEY.namespace)
    return {each["metadata"]["name"]: each["data"]["key"] for each in found if _is_copy(each)}


def owners_of_copies(stage: Stage) -> list[list[str]]:
    found = [each["metadata"] for each in stage.cluster.list(CONFIG_MAP, KEY.namespace) if _is_copy(each)]
    return [[owner["name"] for owner in each.get("ownerReferences") or ()] for each in found]


def copies_named(stage: Stage) -> set[str]:
    sets = stage.cluster.list(REPLICA_SET, KEY.namespace)
    return {each["spec"]["template"]["spec"]["volumes"][0]["configMap"]["name"] for each in sets}


@dataclass(slots=True)
class Answers:
    """Follows what each pod answers with: one value from its first answer to its last."""

    first: dict[str, set[str]]

    def look(self, stage: Stage) -> None:
        for pod in ready_pods(stage, None):
            uid, reads = pod.metadata["uid"], _reads(stage, pod)
            before = self.first.setdefault(uid, reads)
            if len(reads) != 1 or reads != before:
                stage.witness.violations.append(f"pod {pod.key[1]} answers with {sorted(reads)} after {sorted(before)}")

    async def follow(self, stage: Stage) -> None:
        """Looks again and again, until it is cancelled."""
        while True:
            self.look(stage)
            await asyncio.sleep(LOOKS_EACH_S)


def watched() -> Script:
    """The eye on what pods answer with, as a script that runs beside another."""
    return Answers({}).follow


def ready_pods(stage: Stage, app: str | None = "web") -> list[Stored]:
    """Of one app, or with None of all."""
    pods = stage.cluster.api.history.select(POD, KEY.namespace)
    return [each for each in pods if pod_facts.is_ready(each) and app in (None, each.labels.get("app"))]


def _reads(stage: Stage, pod: Stored) -> set[str]:
    read = stage.cluster.kubelets.configuration(pod.metadata["uid"])
    files = {content for each in read.volumes.values() for content in each.values()}
    return {*read.variables.values(), *files, *read.sub_paths.values()}


def _is_copy(manifest: Manifest) -> bool:
    return CONFIG_COPY in (manifest["metadata"].get("labels") or {})


# --- scenarios


async def edited(stage: Stage) -> None:
    """The canary answers with the new value, the stable pods with the old one, until somebody promotes it."""
    before, new = await at_gate(stage)
    assert values(stage) == {before: {"v1"}, new: {"v2"}}
    stage.annotate("promote", "true")
    await stage.until(lambda: stage.status.get("phase") == "Healthy")
    await until_all_answer(stage, "v2")


async def aborted(stage: Stage) -> None:
    """Everybody answers with the old value again; the source goes back to it, too."""
    before, _ = await at_gate(stage)
    stage.annotate("abort", "true")
    await stage.until(lambda: stage.status.get("phase") == "Aborted")
    await until_all_answer(stage, "v1")
    write(stage, "v1")
    await until_back(stage, before)


async def reverted(stage: Stage) -> None:
    """The former content comes back while the canary stands at its gate: the revision that has it does, too."""
    before, _ = await at_gate(stage)
    write(stage, "v1")
    await until_back(stage, before)


async def rolled_back(stage: Stage) -> None:
    """The new content is promoted; a rollback brings the old one back, though the source stays as it is."""
    before, new = await at_gate(stage)
    stage.annotate("promote", f"{new}@full")
    await until_all_answer(stage, "v2")
    await stage.until(lambda: stage.status.get("phase") == "Healthy")
    stage.annotate("promote", None)
    stage.annotate("rollback", before)
    await until_new(stage, "Paused", before=new)
    stage.annotate("promote", f"{before}@full")
    await stage.until(lambda: stage.status.get("phase") == "RolledBack")
    await until_all_answer(stage, "v1")


async def superseded(stage: Stage) -> None:
    """A third content comes while the canary of the second stands at its gate; an image comes with a fourth."""
    _, second = await at_gate(stage)
    write(stage, "v3")
    third = await until_new(stage, "Paused", before=second)
    write(stage, "v4")
    stage.image("2")
    await until_new(stage, "Paused", before=third)
    stage.annotate("promote", "true")
    await until_all_answer(stage, "v4")
    await stage.until(lambda: stage.status.get("phase") == "Healthy")


async def deleted_and_recreated(stage: Stage) -> None:
    """The source goes and comes again as it was: pods that start meanwhile have their copy, and nothing is rolled out."""
    before = await healthy(stage)
    stage.remove(CONFIG_MAP, CONF)
    await stage.until(lambda: stage.waits_for == "ConfigNotFound")
    stage.edit({"spec": {"replicas": 3}})
    await until_all_answer(stage, "v1", pods=3)
    stage.edit({"spec": {"replicas": 2}})
    write(stage, "v1")
    await stage.until(lambda: stage.status.get("phase") == "Healthy" and "waitingFor" not in stage.status)
    assert stage.status["currentRevision"] == before
    await until_all_answer(stage, "v1")


async def copies_deleted(stage: Stage) -> None:
    """Somebody deletes each copy: the stable one's can be made again with the content that the source has again."""
    _, new = await at_gate(stage)
    for name in copies(stage):
        stage.remove(CONFIG_MAP, name)
    await stage.until(lambda: [*copies(stage).values()] == ["v2"])
    await stage.until(lambda: "another content by now; pods that start" in copies_missing(stage))
    stage.annotate("abort", new)
    write(stage, "v1")
    await stage.until(lambda: "v1" in copies(stage).values() and "pods that start" not in copies_missing(stage))
    stage.edit({"spec": {"replicas": 3}})
    await until_all_answer(stage, "v1", pods=3)


async def retained_and_not(stage: Stage) -> None:
    """`retain` is set while there are two copies, and taken away; then somebody takes their owner away."""
    await at_gate(stage)
    assert owners_of_copies(stage) == [[KEY.name]] * 2
    stage.edit({"spec": {"configVersioning": {"retain": True}}})
    await stage.until(lambda: owners_of_copies(stage) == [[]] * 2)
    stage.edit({"spec": {"configVersioning": {"retain": False}}})
    await stage.until(lambda: owners_of_copies(stage) == [[KEY.name]] * 2)
    for name in copies(stage):
        stage.merge(CONFIG_MAP, name, {"metadata": {"ownerReferences": None}})
    await stage.until(lambda: owners_of_copies(stage) == [[KEY.name]] * 2)
    stage.annotate("promote", "true")
    await until_all_answer(stage, "v2")
    await stage.until(lambda: stage.status.get("phase") == "Healthy")


async def deleted(stage: Stage) -> None:
    """The Rollout is deleted in the middle of an update; its copies go with it."""
    await at_gate(stage)
    stage.delete()
    await stage.until(lambda: not stage.cluster.list(POD, KEY.namespace) and not copies(stage))


_LATER = (deleted_and_recreated, copies_deleted, retained_and_not, deleted)
CONFIGURED: dict[str, Script] = {
    each.__name__: each for each in (edited, aborted, reverted, rolled_back, superseded, *_LATER)
}
MANIFESTS = (config_map("v1"), configured())
