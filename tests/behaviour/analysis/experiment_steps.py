"""A Rollout with the canary step `experiment`, played on the simulated cluster of `tests/controller/analysis/stage.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from rollouts.manifests.ownership import EXPERIMENT as OF_EXPERIMENT
from rollouts.objects import ANALYSIS_RUN, EXPERIMENT, POD, REPLICA_SET, ROLLOUT, Manifest
from rollouts.ports import MERGE_PATCH, Request
from tests import build
from tests.controller.analysis.stage import NAMESPACE, Stage

REVISIONS = (("old", "stable"), ("new", "canary"))


def both(**more: Any) -> list[Manifest]:
    """A template of the stable revision and one of the new one."""
    return [{"name": name, "specRef": of, **more} for name, of in REVISIONS]


def rollout(*steps: Manifest, image: str = "web:1", replicas: int = 2, **canary: Any) -> Manifest:
    """A canary with these steps."""
    return build.rollout(build.canary(*steps, **canary), namespace=NAMESPACE, image=image, replicas=replicas)


def edit(stage: Stage, patch: Manifest) -> None:
    """Merges into the Rollout, as `kubectl patch` does."""
    path = ROLLOUT.path(NAMESPACE, "web")
    assert stage.cluster.api.answer(Request("PATCH", path, {}, msgspec.json.encode(patch), MERGE_PATCH)).status == 200


def annotate(stage: Stage, verb: str, value: str) -> None:
    """Gives a command."""
    edit(stage, {"metadata": {"annotations": {f"rollouts.dev/{verb}": value}}})


def status(stage: Stage) -> Manifest:
    """Of the Rollout."""
    return (stage.cluster.get(ROLLOUT, NAMESPACE, "web") or {}).get("status") or {}


def made(stage: Stage) -> list[Manifest]:
    """The Experiments, the oldest first."""
    found = stage.cluster.list(EXPERIMENT, NAMESPACE)
    return sorted(found, key=lambda each: each["metadata"]["creationTimestamp"])


async def until_running(stage: Stage) -> Manifest:
    """Waits until all pods of the Experiment of the step are available, and returns it."""
    name = (await until(stage, lambda each: bool(each.get("analyses"))))["analyses"][-1]["run"]
    await stage.cluster.until(
        lambda found: ((found or {}).get("status") or {}).get("phase") == "Running",
        kind=EXPERIMENT, namespace=NAMESPACE, name=name, deadline_s=600,
    )  # fmt: skip
    return stage.cluster.get(EXPERIMENT, NAMESPACE, name) or {}


async def until_run(stage: Stage) -> None:
    """Waits until the run of an Experiment is on record there."""
    name = made(stage)[-1]["metadata"]["name"]
    await stage.cluster.until(
        lambda found: any(each.get("uid") for each in ((found or {}).get("status") or {}).get("analysisRuns", ())),
        kind=EXPERIMENT, namespace=NAMESPACE, name=name, deadline_s=600,
    )  # fmt: skip


async def until(stage: Stage, holds: Callable[[Manifest], bool], *, within_s: float = 3_600.0) -> Manifest:
    """Waits until the status of the Rollout is so, and returns it."""
    await stage.cluster.until(
        lambda found: found is not None and holds(found.get("status") or {}),
        kind=ROLLOUT, namespace=NAMESPACE, name="web", deadline_s=within_s,
    )  # fmt: skip
    return status(stage)


def stable(of: Manifest) -> bool:
    """The new revision is promoted, and nothing is left to do."""
    return of.get("phase") == "Healthy" and of.get("currentRevision") == of.get("stableRevision")


async def deploy(stage: Stage, manifest: Manifest, *objects: Manifest) -> str:
    """Deploys the first revision, which it returns."""
    for each in (*objects, manifest):
        stage.cluster.apply(each)
    revision: str = (await until(stage, stable))["stableRevision"]
    return revision


def change_image(stage: Stage, image: str) -> None:
    """Begins an update."""
    spec = (stage.cluster.get(ROLLOUT, NAMESPACE, "web") or {})["spec"]["template"]["spec"]
    edit(stage, {"spec": {"template": {"spec": {"containers": [{**spec["containers"][0], "image": image}]}}}})


async def begin(stage: Stage, manifest: Manifest, *objects: Manifest) -> str:
    """Deploys the first revision, and then begins the update; the first revision."""
    first = await deploy(stage, manifest, *objects)
    change_image(stage, "web:2")
    await until(stage, lambda each: each["currentRevision"] != first)
    return first


def end(stage: Stage) -> dict[str, Any]:
    """What is there at the end, without times, names and uids."""
    now = status(stage)
    sets = stage.cluster.list(REPLICA_SET, NAMESPACE)
    of_rollout = [each for each in sets if OF_EXPERIMENT not in each["metadata"].get("labels", {})]
    images = [each["spec"]["containers"][0]["image"] for each in stage.cluster.list(POD, NAMESPACE)]
    return {
        "phase": now["phase"],
        "promoted": now["stableRevision"] == now["currentRevision"],
        "aborted": bool(now.get("abort")),
        "sizes": sorted(each["spec"]["replicas"] for each in of_rollout),
        "images": sorted(images),
        "experiments": [each["status"]["phase"] for each in made(stage)],
        "runs": sorted(each["status"]["phase"] for each in stage.cluster.list(ANALYSIS_RUN, NAMESPACE)),
    }
