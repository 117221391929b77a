"""What lint did not check does not pass, a wrong name is told with the right one, and other programs can read the findings."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from rollouts.cli.commands.lint_rules import RULES
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
    assert report.counts.total() == 0


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [("apps/v1", "Deployment"), ("argoproj.io/v1alpha1", "Workflow"), ("x.org/v1", "Rollout")],
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
    twice = typed("lint", "-f", str(tmp_path / "shop"), "-f", f"{below}/../cart/cart.yaml")
    assert "1 Rollout checked" in twice.out, "a file that is named in two ways is one"
    (below / "cart.yaml").unlink()
    typed("lint", "-f", str(tmp_path), code=2)  # a folder without manifests is a wrong folder


def test_other_programs_read_the_findings(typed: CommandLine) -> None:
    """JSON for scripts, annotations for GitHub's pull requests, SARIF for code scanning."""
    other = {**cart(replica=3), "metadata": {"name": "other"}}
    file = typed.file(cart(), other, name="my carts.yaml")

    def printed(output: str) -> str:
        return typed("lint", "-f", file, "-o", output, code=1).out

    found = json.loads(printed("json"))
    (error,) = [each for each in found if each["severity"] == "error"]
    assert error["message"].startswith("spec.replica: unknown field") and error["object"] == "Rollout other"
    assert (error["rule"], error["path"]) == ("SpecInvalid", "spec.replica")
    assert {"unsafe"} == {each["severity"] for each in found if each["rule"] == "NoReadinessProbe"}
    annotations = printed("github").splitlines()
    assert (
        f"::error file={file},line={error['line']},title=Rollout other%3A SpecInvalid::{error['message']}"
        in annotations
    )
    (run,) = json.loads(printed("sarif"))["runs"]
    places = [each["locations"][0]["physicalLocation"] for each in run["results"] if each["level"] == "error"]
    assert {"artifactLocation": {"uri": Path(file).as_uri()}, "region": {"startLine": error["line"]}} in places


def test_sarif_has_what_its_schema_requires(typed: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """GitHub refuses a whole file for one missing part, and shows the texts of the rules beside each finding.

    Source: https://docs.github.com/code-security/reference/code-scanning/sarif-support-for-code-scanning
    """
    monkeypatch.chdir(typed.folder)
    typed.file(cart(), cart(replica=3), name="my carts.yaml")
    typed.file({**cart(), "metadata": {"name": "other"}}, name="other.yaml")

    document = json.loads(typed("lint", "-f", "my carts.yaml", "-f", "other.yaml", "-o", "sarif", code=1).out)

    assert (document["version"], len(document["runs"])) == ("2.1.0", 1)
    driver, results = document["runs"][0]["tool"]["driver"], document["runs"][0]["results"]
    assert driver["name"] and driver["version"]
    assert all(rule["shortDescription"]["text"] and rule["help"]["text"] for rule in driver["rules"])
    assert {rule["defaultConfiguration"]["level"] for rule in driver["rules"]} == {"error", "warning"}
    for result in results:
        assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in ("error", "warning", "note") and result["message"]["text"]
        places = [each["physicalLocation"] for each in (*result["locations"], *result["relatedLocations"])]
        assert len(result["locations"]) == 1 and all(place["region"]["startLine"] >= 1 for place in places)
        assert {place["artifactLocation"]["uri"] for place in places} <= {"my%20carts.yaml", "other.yaml"}
    assert any(result["relatedLocations"] for result in results)


def test_an_annotation_of_a_pull_request_is_one_line(typed: CommandLine) -> None:
    """Whatever a message, a name or a file contains.

    Source: https://docs.github.com/actions/reference/workflow-commands-for-github-actions
    """
    file = typed.file({**cart(replica=3), "metadata": {"name": "a,b:c%\n::error::d"}}, name="a,b.yaml")

    lines = typed("lint", "-f", file, "-o", "github", code=1).out.splitlines()

    form = re.compile(
        r"::(error|warning|notice) file=[^,:]*a%2Cb\.yaml,line=\d+,title=Rollout a%2Cb%3Ac%25%0A[^,:]*::.+"
    )
    assert len(lines) > 1 and [line for line in lines if not form.fullmatch(line)] == []


def test_notes_that_are_alike_are_one(typed: CommandLine) -> None:
    """What holds for every Rollout of a folder is told once, with the number of the others; programs get their places."""
    for name in ("a", "b", "c"):
        typed.file({**cart(), "metadata": {"name": name}}, name=f"{name}.yaml")
    folder = str(typed.folder)

    said = [line for line in typed("lint", "-f", folder).out.splitlines() if "[KeptConnections]" in line]
    assert (
        len(said) == 1 and said[0].startswith(f"{folder}/a.yaml:") and "(and 2 other objects of these files)" in said[0]
    )
    found = json.loads(typed("lint", "-f", folder, "-o", "json").out)
    (note,) = [each for each in found if each["rule"] == "KeptConnections"]
    assert [each["object"] for each in note["others"]] == ["Rollout b", "Rollout c"]
    assert len([each for each in found if each["rule"] == "NoReadinessProbe"]) == 3, (
        "what is to be mended stays where it is"
    )


def test_a_router_moves_requests_and_not_connections() -> None:
    """So the note about connections is not for those whose clients a gateway serves."""
    routing = {"gatewayAPI": {"httpRoutes": [{"name": "cart"}]}}
    strategy = build.canary(stableService="cart", canaryService="cart-canary", trafficRouting=routing)

    report = lint_text(yaml.safe_dump(build.rollout(strategy, "cart")))

    assert "KeptConnections" not in {each.rule for each in report.advice}
    assert "KeptConnections" in {each.rule for each in lint_text(yaml.safe_dump(cart())).advice}


@pytest.mark.parametrize(
    ("other", "is_twice"),
    [
        (cart(), True),
        ({**cart(), "metadata": {"name": "cart", "namespace": "shop"}}, False),
        ({**cart(), "kind": "AnalysisTemplate"}, False),
        ({**cart(), "metadata": {"generateName": "cart-"}}, False),
    ],
    ids=["the same", "another namespace", "another kind", "a name that is made"],
)
def test_an_object_that_is_in_the_files_twice_is_a_problem(other: Manifest, is_twice: bool, typed: CommandLine) -> None:
    """The one that is applied last replaces the other: half of what was checked is lost."""
    one, two = typed.file(cart(), name="a.yaml"), typed.file(other, name="b.yaml")
    together = [each.message for each in lint_text(yaml.safe_dump_all([cart(), other])).problems]

    said = [
        line for line in typed("lint", "-f", one, "-f", two, code=None).out.splitlines() if "[DuplicateObject]" in line
    ]

    assert [any("line 4 has an object of the same kind" in each for each in together), len(said)] == [
        is_twice,
        is_twice,
    ]
    assert not is_twice or f"{two}:4: Rollout cart: metadata.name: {one}:4 has an object of the same kind" in said[0]


def test_objects_of_two_folders_may_be_for_two_clusters(typed: CommandLine) -> None:
    """`lint -f environments/` has all of them, so it is a warning, which can be silenced."""
    for folder in ("dev", "prod"):
        (typed.folder / folder).mkdir()
        typed.file(cart(), name=f"{folder}/cart.yaml")

    assert "[SameObject]" in typed("lint", "-f", str(typed.folder)).out
    assert "[SameObject]" not in typed("lint", "-f", str(typed.folder), "--silence", "SameObject").out


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_is_explained_and_on_the_page(rule: str, typed: CommandLine) -> None:
    """What a line ends with is what people ask for."""
    page = (Path(__file__).parents[2] / "docs" / "lint-rules.md").read_text(encoding="utf-8")

    assert typed("explain", rule.lower()).out.startswith(f"{rule}: ")
    assert f"| `{rule}` | {RULES[rule].meaning} | {RULES[rule].remedy} |" in page


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("NoReadinesProbe", "is no rule; did you mean NoReadinessProbe?"),
        ("SpecInvalid", "is a problem, not advice"),
    ],
)
def test_what_cannot_be_silenced_is_a_usage_error(rule: str, words: str, typed: CommandLine) -> None:
    """A typing error would leave the advice there, and everybody would take it for what could not be silenced."""
    assert f"{rule} {words}" in typed("lint", "-f", typed.file(cart()), "--silence", rule, code=2).error


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
