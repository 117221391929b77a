"""Promise: `lint` and `migrate` know Experiments: their spec, their pods, and their analyses with the templates of the files."""

from __future__ import annotations

import yaml

from tests.cli.command_line import CommandLine
from tests.controller.analysis.stage import metric
from tests.controller.experiments.stage import analysis_template, experiment, group, uses


def test_a_right_one_passes_with_its_templates(typed: CommandLine) -> None:
    """And is counted."""
    file = typed.file(analysis_template("good"), experiment(analyses=[uses("good")]))

    assert "1 Experiment" in typed("lint", "-f", file, code=0).out


def test_each_problem_has_its_path(typed: CommandLine) -> None:
    """Of the spec, and of pods that the API server would refuse."""
    wrong = group(selector={"matchLabels": {"app": "other"}})
    pods = group("green")
    pods["template"]["spec"]["containers"][0]["imagePullPolicy"] = "Sometimes"
    said = typed("lint", "-f", typed.file(experiment(wrong, pods)), code=1)

    text = said.out + said.err
    assert "spec.templates[0].template.metadata.labels: do not match spec.templates[0].selector" in text
    assert "spec.templates[1].template.spec.containers[0].imagePullPolicy" in text


def test_an_analysis_that_cannot_be_made_is_a_problem(typed: CommandLine) -> None:
    """If its template is in the files; one that is not may be in the cluster."""
    endless = analysis_template("endless", metric("endless", interval="1m"))
    said = typed("lint", "-f", typed.file(endless, experiment(duration=None, analyses=[uses("endless")])), code=1)

    assert "measures endless until somebody ends it" in said.out + said.err
    typed("lint", "-f", typed.file(experiment(analyses=[uses("elsewhere")])), code=0)


def test_argos_experiment_keeps_its_spec(typed: CommandLine) -> None:
    """Only `apiVersion` is another one."""
    ours = experiment(analyses=[uses("good")])
    argos = {**ours, "apiVersion": "argoproj.io/v1alpha1"}

    printed = typed("migrate", "-f", typed.file(argos), code=0).out
    (migrated,) = [each for each in yaml.safe_load_all(printed) if each]
    assert (migrated["apiVersion"], migrated["kind"], migrated["spec"]) == (
        ours["apiVersion"], "Experiment", ours["spec"],
    )  # fmt: skip
