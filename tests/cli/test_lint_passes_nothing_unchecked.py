"""What lint did not check does not pass, a wrong name is told with the right one, and other programs can read the findings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from rollouts.cli.main import main
from rollouts.objects import Manifest
from tests.linted import lint_text

SELECTOR = {"app": "cart"}
CONTAINER = {"name": "app", "image": "cart:1"}
ROLLOUT_KIND = "write kind: Rollout, apiVersion: rollouts.dev/v1alpha1"


def cart(steps: list[Manifest] | None = None, **spec: Any) -> Manifest:
    """A Rollout whose pods have no readiness probe."""
    template = {"metadata": {"labels": SELECTOR}, "spec": {"containers": [CONTAINER]}}
    strategy = {"canary": {"steps": steps or [{"setWeight": 25}, {"pause": {}}]}}
    return {"apiVersion": "rollouts.dev/v1alpha1", "kind": "Rollout", "metadata": {"name": "cart"},
            "spec": {"selector": {"matchLabels": SELECTOR}, "strategy": strategy, "template": template, **spec}}  # fmt: skip


def autoscaler(kind: str = "Rollout", api_version: str = "rollouts.dev/v1alpha1") -> Manifest:
    """A HorizontalPodAutoscaler about `cart`."""
    target = {"apiVersion": api_version, "kind": kind, "name": "cart"}
    return {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "cart"},
            "spec": {"scaleTargetRef": target, "maxReplicas": 9}}  # fmt: skip


def problems(*manifests: Manifest) -> list[str]:
    """The messages of the problems of a file."""
    return [each.message for each in lint_text(yaml.safe_dump_all(manifests)).problems]


@pytest.mark.parametrize("text", ["", "\n", "# nothing yet\n", "---\n---\n"])
def test_a_file_without_an_object_is_a_problem(text: str) -> None:
    """A template that rendered to nothing must not pass."""
    assert [each.message for each in lint_text(text).problems] == ["there is no object in it, so nothing was checked"]


@pytest.mark.parametrize(
    ("api_version", "kind", "words"),
    [
        ("rollouts.dev/v1", "Rollout", "apiVersion must be rollouts.dev/v1alpha1, not rollouts.dev/v1"),
        ("rollout.dev/v1alpha1", "Rollout", "apiVersion must be rollouts.dev/v1alpha1, not rollout.dev/v1alpha1"),
        ("argoproj.io/v1alpha1", "AnalysisTemplate", "another product's: change apiVersion to rollouts.dev/v1alpha1"),
        ("rollouts.kruise.io/v1beta1", "Rollout", "another product's"),
        ("rollouts.dev/v1alpha1", "Rolout", "there is no kind Rolout in rollouts.dev/v1alpha1; did you mean Rollout?"),
    ],
)
def test_an_object_that_was_meant_to_be_ours_is_a_problem(api_version: str, kind: str, words: str) -> None:
    """A wrong group or version is a typing error, and the API server would refuse it."""
    (said,) = problems({**cart(), "apiVersion": api_version, "kind": kind})

    assert words in said


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [("apps/v1", "Deployment"), ("rollouts.dev/v1alpha1", "AnalysisRun"), ("x.org/v1", "Rollout")],
)
def test_objects_of_others_are_no_problem(api_version: str, kind: str) -> None:
    """A folder has more in it than Rollouts."""
    assert problems(cart(), {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}}) == []


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        (cart(replica=3), "spec.replica: unknown field; did you mean replicas?"),
        (cart([{"setweight": 20}]), "spec.strategy.canary.steps[0].setweight: unknown field; did you mean setWeight?"),
        (cart(zzz=1), "spec.zzz: unknown field; the fields are replicas, "),
    ],
)
def test_an_unknown_field_is_told_with_the_one_that_was_meant(manifest: Manifest, words: str) -> None:
    """Where no name is near, none is guessed: all of them are told."""
    (problem,) = [each for each in problems(manifest) if each.startswith(words)]

    assert problem == words or words.endswith(", ")


def test_weights_that_fall_are_told() -> None:
    """The controller carries them out, and hardly anybody means them."""
    report = lint_text(yaml.safe_dump(cart([{"setWeight": 50}, {"pause": {}}, {"setWeight": 20}])))

    (found,) = [each for each in report.advice if each.rule == "FallingWeights"]
    assert (
        found.message
        == "warning: spec.strategy.canary.steps[2].setWeight: falls from 50 to 20: are the steps in order?"
    )
    assert not report.problems


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (
            autoscaler("Deployment", "apps/v1"),
            f"spec.scaleTargetRef.kind: scales Deployment cart, not the Rollout of that name; {ROLLOUT_KIND}",
        ),
        (
            autoscaler(api_version="x.io/v1"),
            "spec.scaleTargetRef.apiVersion: must be rollouts.dev/v1alpha1, not x.io/v1",
        ),
        (autoscaler(), ""),
    ],
)
def test_an_autoscaler_in_the_file_scales_the_rollout(target: Manifest, words: str) -> None:
    """An autoscaler that moved over from a Deployment scales what is no longer there."""
    assert problems(cart(), target) == ([words] if words else [])


def test_folders_are_read_and_one_note_can_be_silenced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All files below the folder, together; the rule's name is at the end of its line."""
    below = tmp_path / "shop" / "cart"
    below.mkdir(parents=True)
    (below / "cart.yaml").write_text(yaml.safe_dump_all([cart(), {"apiVersion": "apps/v1", "kind": "Deployment"}]))
    (tmp_path / "README.md").write_text("no manifest")

    assert main(["lint", "-f", str(tmp_path)]) == 0
    said = capsys.readouterr()
    assert f"{below / 'cart.yaml'}:" in said.out and "[NoReadinessProbe]" in said.out
    assert "1 Rollout checked" in said.out
    assert "1 Deployment" in said.err
    assert main(["lint", "-f", str(tmp_path), "--silence", "NoReadinessProbe"]) == 0
    assert "NoReadinessProbe" not in capsys.readouterr().out
    assert main(["lint", "-f", str(tmp_path / "shop"), "-f", str(below)]) == 0
    (below / "cart.yaml").unlink()
    assert main(["lint", "-f", str(tmp_path)]) == 2, "a folder without manifests is a wrong folder"


def test_other_programs_read_the_findings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """JSON for scripts, annotations for GitHub's pull requests, SARIF for code scanning."""
    file = tmp_path / "cart.yaml"
    file.write_text(yaml.safe_dump_all([cart(), cart(replica=3)]))

    def printed(output: str) -> str:
        assert main(["lint", "-f", str(file), "-o", output]) == 1
        return capsys.readouterr().out

    found = json.loads(printed("json"))
    (error,) = [each for each in found if each["severity"] == "error"]
    assert error["message"].startswith("spec.replica: unknown field") and error["object"] == "Rollout cart"
    assert {"unsafe"} == {each["severity"] for each in found if each["rule"] == "NoReadinessProbe"}
    annotations = printed("github").splitlines()
    assert f"::error file={file},line={error['line']},title=Rollout cart::{error['message']}" in annotations
    results = json.loads(printed("sarif"))["runs"][0]["results"]
    places = [each["locations"][0]["physicalLocation"] for each in results if each["level"] == "error"]
    assert {"artifactLocation": {"uri": str(file)}, "region": {"startLine": error["line"]}} in places


@pytest.mark.parametrize(
    "kustomization",
    [{"patches": [{"path": "service.yaml"}]}, {"patchesStrategicMerge": ["service.yaml"]}],
    ids=["patches", "patchesStrategicMerge"],
)
def test_a_patch_in_a_folder_is_no_object_and_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kustomization: Manifest
) -> None:
    """A part of a Service has no ports. It is not checked, so that is said, and how what comes out of it is checked."""
    patch = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "cart"}, "spec": {"type": "LoadBalancer"}}
    for name, manifest in (("rollout", cart()), ("service", patch)):
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(manifest))
    assert main(["lint", "-f", str(tmp_path)]) == 1
    assert "spec.ports: is required" in capsys.readouterr().out

    kind = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
    (tmp_path / "kustomization.yaml").write_text(
        yaml.safe_dump({**kind, "resources": ["rollout.yaml"], **kustomization})
    )

    assert main(["lint", "-f", str(tmp_path)]) == 0
    told = capsys.readouterr().err
    assert f"not checked, because Kustomize merges them into others: {tmp_path}/service.yaml" in told
    assert "kubectl kustomize FOLDER | rollouts lint -f -" in told
    assert main(["lint", "-f", str(tmp_path / "service.yaml")]) == 1, "named by itself it is checked"
