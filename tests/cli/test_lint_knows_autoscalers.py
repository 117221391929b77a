"""Promise: `lint` warns before a file and an autoscaler take turns in setting the number of pods, and says what to do."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from rollouts.cli.commands.lint_output import lint_files

HPA = ("autoscaling/v2", "HorizontalPodAutoscaler")
KEDA = ("keda.sh/v1alpha1", "ScaledObject")


def rollout(**spec: Any) -> dict[str, Any]:
    """A Rollout `web` that lint has no problem with."""
    labels = {"app": "web"}
    probe = {"httpGet": {"path": "/", "port": 80}}
    template = {"metadata": {"labels": labels},
                "spec": {"containers": [{"name": "app", "image": "web:1", "readinessProbe": probe}]}}  # fmt: skip
    return {"apiVersion": "rollouts.dev/v1alpha1", "kind": "Rollout", "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"selector": {"matchLabels": labels}, "strategy": {"canary": {}}, "template": template, **spec}}  # fmt: skip


def autoscaler(kind: tuple[str, str] = HPA, *, namespace: str = "shop", **target: str) -> dict[str, Any]:
    """An autoscaler of the Rollout `web`."""
    of = {"apiVersion": "rollouts.dev/v1alpha1", "kind": "Rollout", "name": "web", **target}
    return {"apiVersion": kind[0], "kind": kind[1], "metadata": {"name": "load", "namespace": namespace},
            "spec": {"maxReplicas": 9, "scaleTargetRef": of}}  # fmt: skip


def remarks(*files: dict[str, Any]) -> list[str]:
    """What lint says of `spec.replicas` in these files."""
    reports = lint_files(
        [(f"{index}.yaml", yaml.safe_dump(each)) for index, each in enumerate(files)], metrics=None, silenced=()
    )
    assert [each for report in reports for each in report.report.problems] == []
    advice = [each for report in reports for each in report.report.advice]
    return [each.message for each in advice if each.rule == "ReplicasOfAutoscaler"]


@pytest.mark.parametrize("kind", [HPA, KEDA], ids=["HPA", "KEDA"])
def test_a_number_that_an_autoscaler_sets_is_warned_of(kind: tuple[str, str]) -> None:
    """Each commit would put the pods back to the file's number, at the hour with the most load. Often it is in another file."""
    (said,) = remarks(rollout(replicas=3), autoscaler(kind))

    assert said.startswith(f"warning: spec.replicas: {kind[1]} load sets it too, so each apply of this file takes back")
    assert "leave it out of the file" in said


@pytest.mark.parametrize(
    "files",
    [
        (rollout(), autoscaler()),
        (rollout(replicas=3),),
        (rollout(replicas=3), autoscaler(name="other")),
        (rollout(replicas=3), autoscaler(namespace="other")),
    ],
    ids=["no number", "no autoscaler", "another target", "another namespace"],
)
def test_one_that_sets_it_alone_is_fine(files: tuple[dict[str, Any], ...]) -> None:
    """A warning about nothing teaches people to read none."""
    assert remarks(*files) == []
