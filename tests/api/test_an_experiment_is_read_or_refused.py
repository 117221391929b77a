"""Promise: the spec of an Experiment becomes core values, or every problem of it is named with its path.

Manifests of Argo Rollouts' examples, documentation and end-to-end tests are restated here with short values.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from rollouts.api.spec.analysis.run import parse_run
from rollouts.api.spec.analysis.templates import TemplateName
from rollouts.api.spec.experiment import drafts_of, parse_experiment
from rollouts.api.status.experiment import experiment_status_to_wire, read_experiment_status
from rollouts.core.analysis.metric import SecretReference
from rollouts.core.analysis.source import Comparison
from rollouts.core.experiment.model import (
    ExperimentStatus,
    GroupPhase,
    GroupStatus,
    RunRecord,
    hash_of_pods,
    name_of_pods,
)
from rollouts.core.model.analysis import AnalysisPhase, DraftProblem, RunDraft
from rollouts.core.model.reasons import Reason
from rollouts.core.model.status import Condition
from rollouts.errors import SpecInvalid
from tests.api.comparison_specs import CPU, HITS, against_baseline
from tests.api.specs import GONE
from tests.controller.analysis.stage import metric
from tests.controller.experiments.stage import group, uses

HOST = [{"name": "host", "value": "purple"}]
ARGOS: dict[str, dict[str, Any]] = {
    "features/experiment.md": {
        "duration": "20m",
        "progressDeadlineSeconds": 30,
        "templates": [
            group("purple", port=8080, replicas=1, service={"name": "service-name"}),
            group("orange", port=8080, replicas=1, minReadySeconds=10),
        ],
        "analyses": [
            uses("http-benchmark", "purple", args=HOST),
            uses("http-benchmark", "orange", args=HOST),
            uses("compare", "compare-results", args=HOST, requiredForCompletion=True),
        ],
    },
    "examples/experiment-with-analysis.yaml": {
        "templates": [group("baseline"), group("canary")],
        "analyses": [
            uses("random-fail", "random-fail"),
            uses("pass", "pass", requiredForCompletion=True),
        ],
    },
    "functional/experiment-basic.yaml": {"duration": "30s", "templates": [group("baseline"), group("canary")]},
    "functional/experiment-dry-run-analysis.yaml": {
        "duration": "30s",
        "progressDeadlineSeconds": 30,
        "templates": [group("baseline", replicas=1, service={})],
        "analyses": [uses("dry-run-job")],
        "dryRun": [{"metricName": "test.*"}],
    },
    "functional/experiment-measurement-retention-analysis.yaml": {
        "duration": "30s",
        "templates": [group("baseline")],
        "analyses": [uses("mr-job")],
        "measurementRetention": [{"metricName": "test.*", "limit": 2}],
    },
    "functional/experiment-with-service.yaml": {
        "duration": "10s",
        "scaleDownDelaySeconds": 5,
        "templates": [group("test", port=8080, service={})],
    },
    "expectedfailures/experiment-degrade.yaml": {
        "duration": "30s", "progressDeadlineSeconds": 30, "templates": [group("baseline"), group("bad-image")],
    },
    "expectedfailures/experiment-error-template-missing.yaml": {
        "duration": "10s", "templates": [group("baseline")], "analyses": [uses("does-not-exist")],
    },
}  # fmt: skip


@pytest.mark.parametrize("where", ARGOS)
def test_what_argo_rollouts_takes_is_taken(where: str) -> None:
    """Whoever comes from there changes `apiVersion`, and nothing else."""
    spec = parse_experiment(ARGOS[where])

    assert [one.name for one in spec.groups] == [one["name"] for one in ARGOS[where]["templates"]]
    assert spec.scale_down_delay_s == ARGOS[where].get("scaleDownDelaySeconds", 30)
    assert spec.progress_deadline_s == ARGOS[where].get("progressDeadlineSeconds", 600)


def _without(**changes: Any) -> dict[str, Any]:
    """The usual template with other fields; None leaves one out."""
    return {name: part for name, part in {**group("blue"), **changes}.items() if part is not None}


BAD: list[tuple[dict[str, Any], str, str]] = [
    ({}, "spec.templates", "needs at least one template"),
    ({"templates": []}, "spec.templates", "needs at least one template"),
    ({"templates": [group(), group()]}, "spec.templates[1].name", "'blue' is the name of another one too"),
    ({"templates": [_without(name="Blue!")]}, "spec.templates[0].name", "lower-case letters"),
    ({"templates": [_without(name="b" * 64)]}, "spec.templates[0].name", "63 at most"),
    ({"templates": [_without(selector=None)]}, "spec.templates[0].selector", "is required"),
    ({"templates": [_without(selector={})]}, "spec.templates[0].selector", "would select every pod"),
    ({"templates": [_without(template=None)]}, "spec.templates[0].template", "is required"),
    ({"templates": [_without(template={"metadata": {"labels": {"app": "blue"}}})]}, "spec.templates[0].template.spec",
     "is required"),
    ({"templates": [_without(selector={"matchLabels": {"app": "red"}})]}, "spec.templates[0].template.metadata.labels",
     "do not match"),
    ({"templates": [_without(selector={"matchLabels": {"rollouts.dev/revision": "a"}})]}, "spec.templates[0].selector",
     "the controller sets it"),
    ({"templates": [_without(replicas=-1)]}, "spec.templates[0].replicas", "must be 0 or more"),
    ({"templates": [_without(minReadySeconds=60)], "progressDeadlineSeconds": 60}, "spec.templates[0].minReadySeconds",
     "must be less than progressDeadlineSeconds"),
    ({"templates": [_without(service={"name": "9.a"})]}, "spec.templates[0].service.name", "begins with a letter"),
    ({"templates": [group("a", service={"name": "s"}), group("b", service={"name": "s"})]},
     "spec.templates[1].service.name", "another template's Service"),
    ({"templates": [_without(specRef="stable")]}, "spec.templates[0].specRef", "unknown field"),
    ({"templates": [_without(weight=5)]}, "spec.templates[0].weight", "unknown field"),
    ({"templates": [group()], "duration": "soon"}, "spec.duration", "must be seconds or a duration"),
    ({"templates": [group()], "scaleDownDelaySeconds": -1}, "spec.scaleDownDelaySeconds", "must be 0 or more"),
    ({"templates": [group()], "analyses": [uses("a"), uses("a")]}, "spec.analyses[1].name", "another one too"),
    ({"templates": [group()], "analyses": [{"name": "a"}]}, "spec.analyses[0].templateName", "is required"),
    ({"templates": [group()], "analyses": [uses("a", args=[{"name": "x"}, {"name": "x"}])]}, "spec.analyses[0].args[1].name",
     "is the name of another argument too"),
    ({"templates": [group()], "analyses": [uses("a", args=[{"name": "x", "valueFrom": {"secretKeyRef": {"name": "s"}}}])]},
     "spec.analyses[0].args[0].valueFrom.secretKeyRef.key", "is required"),
    ({"templates": [group()], "analyses": [uses("a", args=[{"name": "x", "valueFrom": {}}])]},
     "spec.analyses[0].args[0].valueFrom", "needs exactly one of secretKeyRef, fieldRef"),
    ({"templates": [group()], "analysisRunMetadata": {"labels": {"rollouts.dev/name": "web"}}},
     "spec.analysisRunMetadata.labels[rollouts.dev/name]", "must not be set"),
    ({"templates": [group()], "dryRun": [{}]}, "spec.dryRun[0].metricName", "is required"),
    ({"templates": [group(f"g{number}") for number in range(17)]}, "spec.templates", "at most 16 entries"),
    ({"templates": [_without(template={**group()["template"], "x": [0] * 10_001})]}, "spec", "fields and entries of lists"),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "path", "words"), BAD, ids=lambda each: each if isinstance(each, str) else "")
def test_what_is_wrong_is_named_with_its_path(spec: dict[str, Any], path: str, words: str) -> None:
    """And nothing is made of it."""
    with pytest.raises(SpecInvalid) as refused:
        parse_experiment(spec)

    assert [words in each.message for each in refused.value.problems if each.path == path] == [True]


def test_only_what_may_change_later_leaves_the_hash_as_it_is() -> None:
    """Another template is another experiment."""
    before = {"templates": [group()], "duration": "5m"}
    later = {**before, "duration": "1h", "terminate": True, "scaleDownDelaySeconds": 1, "progressDeadlineSeconds": 9}
    other = {**before, "templates": [group(image="web:2")]}

    assert parse_experiment(later).content_hash == parse_experiment(before).content_hash
    assert parse_experiment(other).content_hash != parse_experiment(before).content_hash


SENDS = {"web": {"url": "https://x", "headers": [{"key": "X", "value": "{{args.hash}}"}]}}
OF_ROLLOUTS = {"pods": {"kubernetes": {}}, "use": CPU, "hits": HITS, "scaled": {"hpa": {}}}
BOTH = [group("baseline", replicas=2), group("canary", replicas=2)]
TEMPLATES = {
    "good": {"metrics": [metric("good")], "args": [{"name": "hash", "value": "none"}]},
    "endless": {"metrics": [metric("endless", interval="1m")]},
    "against-baseline": against_baseline(),
    "sends": {"metrics": [metric("sends", successCondition="result == 1", provider=SENDS)], "args": [{"name": "hash"}]},
    **{name: {"metrics": [{"name": name, "provider": provider}]} for name, provider in OF_ROLLOUTS.items()},
    "fresh-use": against_baseline(kind="value", of=CPU, total=GONE, effect="10%"),
    "asks": {
        "metrics": [metric("asks", provider={"prometheus": {"query": 'up{a="{{args.hash}}"}'}})],
        "args": [{"name": "hash"}],
    },
}


def _drafts(*analyses: dict[str, Any], **spec: Any) -> dict[str, Any]:
    raw = {"templates": [group()], "analyses": list(analyses), **spec}

    def find(name: TemplateName) -> dict[str, Any] | None:
        return TEMPLATES.get(name.name)

    return drafts_of(raw, parse_experiment(raw), find, name="exp", uid="u", available_at_s=0.0)


def test_arguments_are_put_in_before_the_run_is_made() -> None:
    """A run is a copy without any reference."""
    draft = _drafts(uses("good", args=[{"name": "hash", "value": "{{templates.blue.podTemplateHash}}"}]))["good"]
    spec = parse_experiment({"templates": [group()]})

    assert isinstance(draft, RunDraft)
    assert hash_of_pods("u", spec.groups[0]).encode() in draft.spec_json
    assert name_of_pods("exp", "u", spec.groups[0]).endswith(hash_of_pods("u", spec.groups[0]))


@pytest.mark.parametrize(
    ("drafts", "words"),
    [
        (
            lambda: _drafts(uses("missing")),
            "spec.analyses[0].templateName: names AnalysisTemplate/missing, which does not exist",
        ),
        (lambda: _drafts(uses("good", args=[{"name": "hash", "value": "{{templates.red.podTemplateHash}}"}])), "{{"),
        *((lambda of=of: _drafts(uses(of)), f"measures {of} of pods of a Rollout") for of in OF_ROLLOUTS),
        (lambda: _drafts(uses("fresh-use"), templates=BOTH), "measures errors of pods of a Rollout"),
        (lambda: _drafts(uses("endless")), "measures endless until somebody ends it"),
        (lambda: _drafts(uses("endless", requiredForCompletion=True), duration="1h"), "measures endless until"),
        (lambda: _drafts(uses("good"), dryRun=[{"metricName": "other"}]), "matches no metric"),
        (
            lambda: _drafts(
                uses("good", args=[{"name": "hash", "valueFrom": {"podTemplateHashValue": "Latest"}}]), duration="1h"
            ),
            "is taken from a Rollout",
        ),
    ],
)
def test_an_analysis_that_cannot_be_made_says_why(drafts: Any, words: str) -> None:
    """Before the first pod."""
    assert [words in draft.message for draft in drafts().values() if isinstance(draft, DraftProblem)] == [True]


KEY = {"name": "hash", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "token"}}}


def test_a_secret_stays_a_reference_until_a_request_is_sent() -> None:
    """No value of a Secret is in an Experiment, or in a run."""
    draft = _drafts(uses("sends", args=[KEY]))["sends"]

    assert isinstance(draft, RunDraft)
    assert json.loads(draft.spec_json)["args"] == [KEY]
    (measured,) = parse_run(json.loads(draft.spec_json)).metrics
    assert measured.secrets == (SecretReference(argument="hash", name="keys", key="token"),)


def test_a_secret_may_not_stand_in_a_query() -> None:
    """As a Secret of a template may not: an answer may quote it."""
    problem = _drafts(uses("asks", args=[KEY]))["asks"]

    assert isinstance(problem, DraftProblem)
    assert "uses {{args.hash}}, which is a secret; it may stand in headers" in problem.message


def test_a_comparison_with_a_baseline_is_between_the_experiments_pods() -> None:
    """The run names both, so that everybody sees what was compared."""
    draft = _drafts(uses("against-baseline"), templates=BOTH)["against-baseline"]
    baseline, canary = (hash_of_pods("u", each) for each in parse_experiment({"templates": BOTH}).groups)

    assert isinstance(draft, RunDraft)
    (measured,) = parse_run(json.loads(draft.spec_json)).metrics
    assert isinstance(measured.source, Comparison)
    assert (measured.source.canary, measured.source.stable) == (canary, baseline)
    assert "baseline" in TEMPLATES["against-baseline"]["metrics"][0]["provider"]["compare"], (
        "the template is left alone"
    )


@pytest.mark.parametrize(
    ("templates", "message"),
    [
        (
            [group("blue"), group("canary")],
            "spec.templates: have no baseline, and AnalysisTemplate/against-baseline compares canary with baseline",
        ),
        ([group("baseline")], "spec.templates: have no canary, and"),
        (
            [group("canary", replicas=3), group("baseline", replicas=2)],
            "spec.templates[1].replicas: is 2 and must be 3, as of canary",
        ),
        ([group("canary", replicas=3), group("baseline")], "spec.templates[1].replicas: is 1 and must be 3"),
    ],
)
def test_a_baseline_is_of_as_many_pods(templates: list[dict[str, Any]], message: str) -> None:
    """Or their load differs. It is told before the first pod; an analysis without a baseline minds nothing."""
    drafts = _drafts(uses("against-baseline"), uses("good"), templates=templates)

    problem = drafts["against-baseline"]
    assert isinstance(problem, DraftProblem)
    assert problem.message.startswith(message)
    assert isinstance(drafts["good"], RunDraft)


def test_an_endless_metric_is_right_where_the_duration_ends_it() -> None:
    """As in the background of a canary."""
    assert isinstance(_drafts(uses("endless"), duration="1h")["endless"], RunDraft)


def test_a_status_survives_the_wire() -> None:
    """All that is remembered there is read again."""
    condition = Condition(
        type="Completed",
        status=True,
        reason=Reason.EXPERIMENT_FAILED,
        message="why",
        since_s=5.0,
        observed_generation=2,
    )
    status = ExperimentStatus(
        phase=AnalysisPhase.FAILED,
        message="why",
        started_at_s=1.0,
        available_at_s=2.0,
        ending_at_s=3.0,
        completed_at_s=4.0,
        groups=(
            GroupStatus(
                name="blue", phase=GroupPhase.FAILED, message="m", replicas=3, ready_replicas=2, available_replicas=1,
                pod_template_hash="h", service_name="s", since_s=6.0,
            ),
        ),
        runs=(
            RunRecord(
                name="a", run="exp-a", phase=AnalysisPhase.FAILED, message="m", at_s=7.0, spec_hash="x", uid="u"
            ),
        ),
        content_hash="c",
        observed_generation=2,
        conditions=(condition,),
    )  # fmt: skip

    assert read_experiment_status(experiment_status_to_wire(status)) == (status, ())
    assert read_experiment_status(None) == (ExperimentStatus(), ())
    assert read_experiment_status({"templateStatuses": [{"name": 1}], "phase": "?"})[0] == ExperimentStatus()
