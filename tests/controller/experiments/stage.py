"""Experiments on the simulated cluster of `tests/controller/analysis/stage.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from rollouts.manifests.ownership import EXPERIMENT as LABEL
from rollouts.objects import (
    ANALYSIS_RUN,
    ANALYSIS_TEMPLATE,
    EVENT,
    EXPERIMENT,
    POD,
    REPLICA_SET,
    SERVICE,
    Kind,
    Manifest,
)
from rollouts.ports import MERGE_PATCH, Request
from tests import build
from tests.controller.analysis.stage import NAMESPACE, Stage, metric


def group(name: str = "blue", *, image: str = "web:1", port: int | None = None, **more: Any) -> Manifest:
    """A template of an Experiment: one pod labelled `app: NAME`."""
    container = {} if port is None else {"ports": [{"containerPort": port}]}
    template = build.pod_template(name, image=image, container=container)
    return {"name": name, "selector": {"matchLabels": {"app": name}}, "template": template, **more}


def experiment(*groups: Manifest, name: str = "exp", **spec: Any) -> Manifest:
    """An Experiment of one template, unless several are given, that lasts five minutes unless `spec` says otherwise."""
    usual = {"templates": list(groups) or [group()], "duration": "5m"}
    return build.manifest(
        EXPERIMENT, name, NAMESPACE, spec={key: part for key, part in {**usual, **spec}.items() if part is not None}
    )


def analysis_template(name: str = "good", *metrics: Manifest, **spec: Any) -> Manifest:
    """A template of a metric of its own name."""
    return build.manifest(ANALYSIS_TEMPLATE, name, NAMESPACE, spec={"metrics": list(metrics) or [metric(name)], **spec})


def uses(template: str = "good", name: str = "", **more: Any) -> Manifest:
    """An entry of `analyses`."""
    return {"name": name or template, "templateName": template, **more}


def seen(stage: Stage, name: str = "exp") -> Manifest:
    """The status of an Experiment; empty when there is none."""
    return (stage.cluster.get(EXPERIMENT, NAMESPACE, name) or {}).get("status") or {}


def owned(stage: Stage, kind: Kind, name: str = "exp") -> list[Manifest]:
    """What an Experiment has made of a kind, by its label."""
    found = stage.cluster.list(kind, NAMESPACE)
    return [each for each in found if (each["metadata"].get("labels") or {}).get(LABEL) == name]


def sizes(stage: Stage, name: str = "exp") -> list[int]:
    """How many pods each of its ReplicaSets is to have."""
    return [each["spec"]["replicas"] for each in owned(stage, REPLICA_SET, name)]


def edit(stage: Stage, patch: Manifest, name: str = "exp", *, subresource: str | None = None) -> int:
    """Merges into an Experiment, as `kubectl patch` does; the HTTP status."""
    request = Request(
        "PATCH", EXPERIMENT.path(NAMESPACE, name, subresource), {}, msgspec.json.encode(patch), MERGE_PATCH
    )
    return stage.cluster.api.answer(request).status


def events(stage: Stage, name: str = "exp") -> list[tuple[str, str]]:
    """Type and reason of the Events about an Experiment."""
    found = [each for each in stage.cluster.list(EVENT, NAMESPACE) if each["regarding"]["kind"] == EXPERIMENT.kind]
    return [(each["type"], each["reason"]) for each in found if each["regarding"]["name"] == name]


async def until(
    stage: Stage, holds: Callable[[Manifest], bool], name: str = "exp", *, within_s: float = 3_600.0
) -> Manifest:
    """Waits until the status is so, and returns it."""
    await stage.cluster.until(
        lambda found: found is not None and holds(found.get("status") or {}),
        kind=EXPERIMENT, namespace=NAMESPACE, name=name, deadline_s=within_s,
    )  # fmt: skip
    return seen(stage, name)


async def until_phase(stage: Stage, phase: str, name: str = "exp", *, within_s: float = 3_600.0) -> Manifest:
    """Waits until the Experiment has that phase."""
    return await until(stage, lambda status: status.get("phase") == phase, name, within_s=within_s)


async def until_over(stage: Stage, name: str = "exp", *, within_s: float = 3_600.0) -> Manifest:
    """Waits until the Experiment is over."""
    return await until(stage, lambda status: bool(status.get("completedAt")), name, within_s=within_s)


def end(stage: Stage) -> dict[str, Any]:
    """What is there at the end, without times and names, which have the hash of the Experiment's uid."""
    runs = stage.cluster.list(ANALYSIS_RUN, NAMESPACE)
    return {
        "experiments": [_told(each["status"]) for each in stage.cluster.list(EXPERIMENT, NAMESPACE)],
        "sizes": [each["spec"]["replicas"] for each in stage.cluster.list(REPLICA_SET, NAMESPACE)],
        "services": [each["metadata"]["name"] for each in stage.cluster.list(SERVICE, NAMESPACE)],
        "pods": [each["metadata"]["name"] for each in stage.cluster.list(POD, NAMESPACE)],
        "runs": [each["status"]["phase"] for each in runs],
    }


def _told(status: Manifest) -> Manifest:
    return {
        "phase": status["phase"],
        "message": status["message"],
        "templates": [(each["name"], each["status"], each["replicas"]) for each in status["templateStatuses"]],
        "analyses": [(each["name"], each["phase"]) for each in status.get("analysisRuns", ())],
    }
