"""Promise: several templates, nested or not, become one run: metrics and arguments of all of them, each template once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from rollouts.api.problems import Problems
from rollouts.api.spec.analysis.arguments import Updated, field_value
from rollouts.api.spec.analysis.run import parse_run
from rollouts.api.spec.analysis.templates import BYTES_MAX, DEPTH_MAX, TemplateName, run_of, use_of
from rollouts.api.spec.reading import read_model
from rollouts.api.v1alpha1.analysis import AnalysisWire
from rollouts.errors import SpecInvalid, SpecProblem
from tests.api.analysis_specs import PROMETHEUS
from tests.api.specs import Spec

ROLLOUT: Spec = {
    "metadata": {"name": "cart", "namespace": "shop",
        "labels": {"region": "eu-west-1", "app.kubernetes.io/name": "cart"}},
    "spec": {"replicas": 3, "paused": False,
        "template": {"metadata": {"labels": {"version": "1.2"}}, "spec": {"containers": [{"image": "cart:1"}]}}},
    "status": {"alb": {"canaryTargetGroup": {"name": "tg-1"}}},
}  # fmt: skip
OF = Updated(manifest=ROLLOUT, stable="7d4b9", latest="5c6f8")


def template(*metrics: str, args: list[Spec] | None = None, templates: list[str] | None = None, **more: Any) -> Spec:
    """A template with metrics of those names; `@name` in `templates` is one of the cluster."""
    references = [{"templateName": name.lstrip("@"), "clusterScope": name.startswith("@")} for name in templates or ()]
    spec = {
        "metrics": [{"name": name, "provider": PROMETHEUS} for name in metrics],
        "args": args,
        "templates": references,
    }
    return {key: part for key, part in {**spec, **more}.items() if part}


def _run(templates: Mapping[str, Spec], use: Spec, of: Updated | None = OF) -> Spec:
    problems = Problems()
    wire = read_model(AnalysisWire, use, problems, root="spec.analysis")
    assert problems.found() == ()

    def find(name: TemplateName) -> Spec | None:
        return templates.get(f"{'@' if name.cluster_scope else ''}{name.name}")

    return run_of(use_of(wire, "spec.analysis"), find, of)


def _problems(templates: Mapping[str, Spec], use: Spec, of: Updated | None = OF) -> list[SpecProblem]:
    with pytest.raises(SpecInvalid) as refused:
        _run(templates, use, of)
    return list(refused.value.problems)


def _names(run: Spec) -> list[str]:
    return [metric["name"] for metric in run["metrics"]]


def _values(**values: str) -> list[Spec]:
    return [{"name": name, "value": value} for name, value in values.items()]


NESTED: list[tuple[dict[str, Spec], list[str], list[str]]] = [
    ({"a": template("m")}, ["a"], ["m"]),
    ({"a": template("m"), "b": template("n")}, ["a", "b"], ["m", "n"]),
    ({"a": template("m"), "b": template("n")}, ["b", "a"], ["n", "m"]),
    ({"a": template("m"), "@b": template("n")}, ["@b", "a"], ["m", "n"]),
    ({"a": template("m", templates=["b"]), "b": template("n")}, ["a"], ["m", "n"]),
    ({"a": template(templates=["b", "c"]), "b": template("n"), "c": template("o")}, ["a"], ["n", "o"]),
    ({"a": template("m", templates=["@a"]), "@a": template("n")}, ["a"], ["m", "n"]),
    ({"a": template("m"), "b": template("n", templates=["a"])}, ["a", "b"], ["m", "n"]),
    ({"a": template(templates=["b", "c"]), "b": template("m", templates=["c"]), "c": template("n")}, ["a", "c"],
        ["m", "n"]),
    ({"a": template("m")}, ["a", "a"], ["m"]),
]  # fmt: skip


@pytest.mark.parametrize(("templates", "use", "names"), NESTED)
def test_metrics_of_all_templates_are_in_the_run(templates: dict[str, Spec], use: list[str], names: list[str]) -> None:
    """Those of the namespace before those of the cluster, and none twice."""
    assert _names(_run(templates, template(templates=use))) == names


def test_a_circle_of_templates_is_refused() -> None:
    """Argo Rollouts follows it until it dies."""
    templates = {"a": template("m", templates=["b"]), "b": template("n", templates=["a"])}

    (problem,) = _problems(templates, template(templates=["a"]))

    assert problem == SpecProblem(
        "AnalysisTemplate/b.spec.templates[0]",
        "leads back to where it comes from: AnalysisTemplate/a → AnalysisTemplate/b → AnalysisTemplate/a",
    )


def test_templates_may_be_nested_so_deep_and_no_deeper() -> None:
    """A chain is not a circle, and costs as much."""
    chain = {str(depth): template(f"m{depth}", templates=[str(depth + 1)]) for depth in range(DEPTH_MAX - 1)}
    chain[str(DEPTH_MAX - 1)] = template("last")
    assert len(_names(_run(chain, template(templates=["0"])))) == DEPTH_MAX

    chain[str(DEPTH_MAX - 1)] = template("m", templates=["x"])
    chain["x"] = template("y")
    (problem,) = _problems(chain, template(templates=["0"]))
    assert "levels deep" in problem.message


def test_a_fan_of_templates_has_an_end() -> None:
    """A run has so many metrics at most, whoever writes the templates."""
    templates = {str(each): template(f"m{each}") for each in range(80)}
    templates |= {f"top{part}": template(templates=[str(part * 20 + each) for each in range(20)]) for part in range(4)}

    problems = _problems(templates, template(templates=[f"top{part}" for part in range(4)]))

    assert all("64 in all" in problem.message for problem in problems)


def test_templates_are_not_read_once_there_are_too_many_metrics() -> None:
    """A pass reads templates, and anybody in a namespace may write them: one of them must not make it slow for all."""
    metrics = [f"m{number}" for number in range(40)]
    templates = {str(each): template(*metrics) for each in range(30)}
    asked: list[str] = []

    def find(name: TemplateName) -> Spec | None:
        asked.append(name.name)
        return templates[name.name]

    use = use_of(AnalysisWire.model_validate(template(templates=list(templates))), "spec.analysis")
    with pytest.raises(SpecInvalid) as refused:
        run_of(use, find, OF)

    assert asked == ["0", "1"]
    assert refused.value.problems == (
        SpecProblem(
            "spec.analysis.templates[1]", "is too much: a run has at most 64 metrics, of all its templates together"
        ),
    )


@pytest.mark.parametrize(("count", "refused"), [(3, False), (4, True)])
def test_a_run_carries_so_many_bytes_of_templates(count: int, refused: bool) -> None:
    """They are copied into the run, and read again with each look at it."""
    filler = "x" * (BYTES_MAX // 4)
    templates = {
        str(each): {"metrics": [{"name": f"m{each}", "provider": {"job": {"spec": {"a": filler}}}}]}
        for each in range(count)
    }
    use = template(templates=list(templates))

    if not refused:
        assert len(_names(_run(templates, use))) == count
        return
    (problem,) = _problems(templates, use)
    assert (problem.path, str(BYTES_MAX) in problem.message) == (f"spec.analysis.templates[{count - 1}]", True)


def _secret(key: str) -> list[Spec]:
    return [{"name": "x", "valueFrom": {"secretKeyRef": {"name": "s", "key": key}}}]


BROKEN: list[tuple[str, dict[str, Spec], Spec, str, str]] = [
    ("no templates", {}, {}, "spec.analysis.templates", "is required"),
    ("a template without a name", {}, {"templates": [{}]}, "spec.analysis.templates[0].templateName", "is required"),
    ("a template that is not there", {}, template(templates=["a"]), "spec.analysis.templates[0]", "AnalysisTemplate/a"),
    ("one of the cluster that is not there", {"a": template("m")}, template(templates=["@a"]),
        "spec.analysis.templates[0]", "ClusterAnalysisTemplate/a, which does not exist"),
    ("an inner one that is not there", {"a": template("m", templates=["b"])}, template(templates=["a"]),
        "AnalysisTemplate/a.spec.templates[0]", "does not exist"),
    ("two metrics of one name", {"a": template("m"), "@b": template("n", "m")}, template(templates=["a", "@b"]),
        "ClusterAnalysisTemplate/b.spec.metrics[1].name", "a metric of AnalysisTemplate/a too"),
    ("two defaults",
        {"a": template("m", args=_values(x="1")), "b": template("n", args=_values(x="2"))},
        template(templates=["a", "b"], args=_values(x="3")), "AnalysisTemplate/b.spec.args[0]", "another default"),
    ("two secrets", {"a": template("m", args=_secret("a")), "b": template("n", args=_secret("b"))},
        template(templates=["a", "b"]), "AnalysisTemplate/b.spec.args[0]", "another default"),
    ("an argument without value", {"a": template("m", args=[{"name": "x"}])}, template(templates=["a"]),
        "spec.analysis.args", "needs a value for 'x'"),
    ("two dry runs of one name", {"a": template("m", dryRun=[{"metricName": "m"}])},
        template(templates=["a"], dryRun=[{"metricName": "m"}]), "spec.analysis.dryRun[1].metricName", "another rule"),
    ("two retentions of one name",
        {name: template(name, measurementRetention=[{"metricName": "a", "limit": 1}]) for name in "ab"},
        template(templates=["a", "b"]), "spec.analysis.measurementRetention[1].metricName", "another rule"),
    ("a dry run of nothing", {"a": template("m")}, template(templates=["a"], dryRun=[{"metricName": "n"}]),
        "spec.analysis.dryRun[0].metricName", "matches no metric"),
    ("a template that is wrong itself",
        {"a": template("m", metrics=[{"name": "m", "count": 2, "provider": PROMETHEUS}])}, template(templates=["a"]),
        "AnalysisTemplate/a.spec.metrics[0].interval", "is required"),
    ("a field that is not there", {"a": template("m", args=[{"name": "x"}])},
        template(templates=["a"], args=[{"name": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['y']"}}}]),
        "spec.analysis.args[0].valueFrom.fieldRef.fieldPath", "'y' is not there"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("templates", "use", "path", "words"), [row[1:] for row in BROKEN], ids=[row[0] for row in BROKEN]
)
def test_what_does_not_fit_together_is_refused(templates: dict[str, Spec], use: Spec, path: str, words: str) -> None:
    """With the template's name where it is the template's."""
    problems = _problems(templates, use)

    assert any(path == problem.path and words in problem.message for problem in problems), problems


def test_problems_of_several_templates_come_together() -> None:
    """One round trip."""
    templates = {"a": template("m", metrics=[{"name": "m"}]), "b": template("n", metrics=[{"name": "n"}])}

    paths = {problem.path for problem in _problems(templates, template(templates=["a", "b", "c"]))}

    assert paths == {
        "AnalysisTemplate/a.spec.metrics[0].provider",
        "AnalysisTemplate/b.spec.metrics[0].provider",
        "spec.analysis.templates[2]",
    }


def test_what_is_given_comes_before_a_default() -> None:
    """And what no template asks for is left out, as in Argo Rollouts."""
    secret = {"secretKeyRef": {"name": "s", "key": "k"}}
    args = [*_values(a="1"), {"name": "b"}, {"name": "c", "valueFrom": secret}, *_values(d="4")]

    run = _run({"t": template("m", args=args)}, template(templates=["t"], args=_values(a="9", b="8", c="7", x="6")))

    assert run["args"] == _values(a="9", b="8", c="7", d="4")


def test_a_default_of_one_template_is_a_default_of_all() -> None:
    """Whichever of them comes first."""
    some, none = template("m", args=_values(a="1")), template("n", args=[{"name": "a"}])

    for templates in ({"s": some, "t": none}, {"s": none, "t": some}):
        assert _run(templates, template(templates=["s", "t"]))["args"] == _values(a="1")


def test_arguments_are_taken_from_the_rollout_once() -> None:
    """The run has their values; a Secret stays a reference, as everybody may read a run who may not read Secrets."""
    secret = {"secretKeyRef": {"name": "s", "key": "k"}}
    args = [{"name": name} for name in ("region", "stable", "latest", "version")]
    given: list[Spec] = [
        {"name": "region", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['region']"}}},
        {"name": "stable", "valueFrom": {"podTemplateHashValue": "Stable"}},
        {"name": "latest", "valueFrom": {"podTemplateHashValue": "Latest"}},
        {"name": "version", "valueFrom": {"fieldRef": {"fieldPath": "spec.template.metadata.labels.version"}}},
    ]
    asked = template("m", args=[*args, {"name": "token", "valueFrom": secret}])

    run = _run({"t": asked}, template(templates=["t"], args=given))

    values = _values(region="eu-west-1", stable="7d4b9", latest="5c6f8", version="1.2")
    assert run["args"] == [*values, {"name": "token", "valueFrom": secret}]
    parse_run(run)


def test_without_a_rollout_nothing_can_be_taken_from_it() -> None:
    """A run that is made by hand."""
    given = [{"name": "x", "valueFrom": {"podTemplateHashValue": "Stable"}}]

    (problem,) = _problems({"t": template("m", args=[{"name": "x"}])}, template(templates=["t"], args=given), None)

    assert problem.path == "spec.analysis.args[0].valueFrom"


def test_a_run_has_its_metrics_as_they_were_written() -> None:
    """Places stay places: they are filled when it measures, and people see where a value went."""
    metrics = [{"name": "m", "interval": "{{args.a}}", "provider": PROMETHEUS}]
    asked = template(metrics=metrics, args=[{"name": "a", "value": "5m"}], dryRun=[{"metricName": "m"}])

    run = _run({"t": asked}, template(templates=["t"]))

    assert run == {"metrics": metrics, "args": [{"name": "a", "value": "5m"}], "dryRun": [{"metricName": "m"}]}


FIELDS = [
    ("metadata.name", "cart"), ("metadata.labels['region']", "eu-west-1"),
    ("metadata.labels['app.kubernetes.io/name']", "cart"), ('metadata.labels["region"]', "eu-west-1"),
    ("spec.replicas", "3"), ("spec.paused", "false"), ("spec.template.metadata.labels.version", "1.2"),
    ("spec.template.spec.containers[0].image", "cart:1"), ("status.alb.canaryTargetGroup.name", "tg-1"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value"), FIELDS)
def test_a_field_is_found_by_its_path(path: str, value: str) -> None:
    """The forms of the downward API and of Argo Rollouts."""
    assert field_value(ROLLOUT, path) == value


@pytest.mark.parametrize(
    "path",
    [
        *("", ".", "metadata.", "[", "metadata.labels[region]", "metadata.labels['region'", "x.y", "metadata.labels"),
        "metadata.labels['a-label-that-nobody-set']",
        *("spec.template.spec.containers", "spec.template.spec.containers[1].image", "spec.replicas.x"),
        "spec.template.spec.containers[-1].image",
    ],
)
def test_a_path_that_leads_to_no_value_is_refused(path: str) -> None:
    """An empty value would be measured as if somebody had meant it."""
    with pytest.raises(ValueError, match=r"path|Rollout has no|must be"):
        field_value(ROLLOUT, path)
