"""What lint did not check does not pass, a wrong name is told with the right one, and other programs can read the findings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from rollouts.objects import Manifest
from tests import build
from tests.cli.command_line import CommandLine
from tests.linted import lint_text


def cart(*steps: Manifest, **spec: Any) -> Manifest:
    """A Rollout whose pods have no readiness probe."""
    return build.rollout(build.canary(*(steps or ({"setWeight": 25}, {"pause": {}}))), "cart", **spec)


def problems(*manifests: Manifest) -> list[str]:
    """The messages of the problems of a file."""
    return [each.message for each in lint_text(yaml.safe_dump_all(manifests)).problems]


@pytest.mark.parametrize(
    "text",
    ["", "\n", "# nothing yet\n", "---\n---\n", "apiVersion: v1\nkind: List\nitems: []\n"],
    ids=["empty", "a line", "a comment", "no document", "kubectl get in the wrong namespace"],
)
def test_a_file_without_an_object_is_a_problem(text: str) -> None:
    """A template that rendered to nothing must not pass."""
    assert [each.message for each in lint_text(text).problems] == ["there is no object in it, so nothing was checked"]


@pytest.mark.parametrize(
    ("api_version", "kind", "words"),
    [
        ("rollouts.dev/v1", "Rollout", "apiVersion must be rollouts.dev/v1alpha1, not rollouts.dev/v1"),
        ("rollout.dev/v1alpha1", "Rollout", "apiVersion must be rollouts.dev/v1alpha1, not rollout.dev/v1alpha1"),
        ("argoproj.io/v1alpha1", "Rollout", "another product's: change apiVersion to rollouts.dev/v1alpha1"),
        ("argoproj.io/v1alpha1", "AnalysisTemplate", "another product's: change apiVersion to rollouts.dev/v1alpha1"),
        ("rollouts.kruise.io/v1beta1", "Rollout", "another product's"),
        ("rollouts.dev/v1alpha1", "Rolout", "there is no kind Rolout in rollouts.dev/v1alpha1; did you mean Rollout?"),
    ],
)
def test_an_object_that_was_meant_to_be_ours_is_a_problem(api_version: str, kind: str, words: str) -> None:
    """A wrong group or version is a typing error, and the API server would refuse it."""
    report = lint_text(yaml.safe_dump({**cart(), "apiVersion": api_version, "kind": kind}))

    assert [words in each.message for each in report.problems] == [True]
    assert report.checked == 0


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [("apps/v1", "Deployment"), ("rollouts.dev/v1alpha1", "AnalysisRun"), ("x.org/v1", "Rollout")],
)
def test_objects_of_others_are_no_problem(api_version: str, kind: str) -> None:
    """A folder has more in it than Rollouts."""
    assert problems(cart(), {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}}) == []


def test_weights_that_fall_are_told() -> None:
    """The controller carries them out, and hardly anybody means them."""
    report = lint_text(yaml.safe_dump(cart({"setWeight": 50}, {"pause": {}}, {"setWeight": 20})))

    (found,) = [each for each in report.advice if each.rule == "FallingWeights"]
    where = "spec.strategy.canary.steps[2].setWeight"
    assert found.message == f"warning: {where}: falls from 50 to 20: are the steps in order?"
    assert not report.problems


def test_folders_are_read_and_one_note_can_be_silenced(tmp_path: Path, typed: CommandLine) -> None:
    """All files below the folder, together; the rule's name is at the end of its line."""
    below = tmp_path / "shop" / "cart"
    below.mkdir(parents=True)
    (below / "cart.yaml").write_text(yaml.safe_dump_all([cart(), {"apiVersion": "apps/v1", "kind": "Deployment"}]))
    (tmp_path / "README.md").write_text("no manifest")

    said = typed("lint", "-f", str(tmp_path))
    assert f"{below / 'cart.yaml'}:" in said.out and "[NoReadinessProbe]" in said.out
    assert "1 Rollout checked" in said.out
    assert "1 Deployment" in said.err
    assert "NoReadinessProbe" not in typed("lint", "-f", str(tmp_path), "--silence", "NoReadinessProbe").out
    typed("lint", "-f", str(tmp_path / "shop"), "-f", str(below))
    (below / "cart.yaml").unlink()
    typed("lint", "-f", str(tmp_path), code=2)  # a folder without manifests is a wrong folder


def test_other_programs_read_the_findings(typed: CommandLine) -> None:
    """JSON for scripts, annotations for GitHub's pull requests, SARIF for code scanning."""
    file = typed.file(cart(), cart(replica=3))

    def printed(output: str) -> str:
        return typed("lint", "-f", file, "-o", output, code=1).out

    found = json.loads(printed("json"))
    (error,) = [each for each in found if each["severity"] == "error"]
    assert error["message"].startswith("spec.replica: unknown field") and error["object"] == "Rollout cart"
    assert {"unsafe"} == {each["severity"] for each in found if each["rule"] == "NoReadinessProbe"}
    annotations = printed("github").splitlines()
    assert f"::error file={file},line={error['line']},title=Rollout cart::{error['message']}" in annotations
    results = json.loads(printed("sarif"))["runs"][0]["results"]
    places = [each["locations"][0]["physicalLocation"] for each in results if each["level"] == "error"]
    assert {"artifactLocation": {"uri": file}, "region": {"startLine": error["line"]}} in places


@pytest.mark.parametrize(
    "kustomization",
    [{"patches": [{"path": "service.yaml"}]}, {"patchesStrategicMerge": ["service.yaml"]}],
    ids=["patches", "patchesStrategicMerge"],
)
def test_a_patch_in_a_folder_is_no_object_and_is_told(typed: CommandLine, kustomization: Manifest) -> None:
    """A part of a Service has no ports. It is not checked, so that is said, and how what comes out of it is checked."""
    patch = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "cart"}, "spec": {"type": "LoadBalancer"}}
    typed.file(cart(), name="rollout.yaml")
    service = typed.file(patch, name="service.yaml")
    assert "spec.ports: is required" in typed("lint", "-f", str(typed.folder), code=1).out

    kind = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
    typed.file({**kind, "resources": ["rollout.yaml"], **kustomization}, name="kustomization.yaml")

    told = typed("lint", "-f", str(typed.folder)).err
    assert f"not checked, because Kustomize merges them into others: {service}" in told
    assert "kubectl kustomize FOLDER | rollouts lint -f -" in told
    typed("lint", "-f", service, code=1)  # named by itself it is checked
