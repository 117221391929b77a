"""Promise: a Job of a measurement is bound to it and to its run, and its status says what it says, and no more."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollouts.core.analysis.source import JobMetric
from rollouts.core.model.analysis import AnalysisPhase
from rollouts.core.model.frozen import replace
from rollouts.manifests.analysis_job import (
    MeasuringJob,
    is_made_for,
    job_manifest,
    job_problem,
    job_verdict,
    success_policy_holds,
)
from rollouts.objects import Manifest

ACCOUNT = "jobs"
POD = {"containers": [{"name": "test", "image": "test:1"}]}
OF = MeasuringJob(namespace="shop", run="run-1", uid="uid-1", metric="Smoke Test", number=2, service_account=ACCOUNT)


def metric(pod: Manifest | None = None, **spec: Any) -> JobMetric:
    """A metric with a Job."""
    metadata = {"labels": {"team": "a"}, "annotations": {"note": "b"}}
    return JobMetric(metadata=metadata, spec={"template": {"spec": POD if pod is None else pod}, **spec})


def job(*conditions: tuple[str, str], **status: Any) -> Manifest:
    """A Job with these conditions, all true: type and reason."""
    found = [{"type": kind, "status": "True", "reason": reason} for kind, reason in conditions]
    return {"status": {**({"conditions": found} if found else {}), **status}}


def test_its_name_is_that_of_the_measurement() -> None:
    """Made a second time it is the same Job; short enough for the host names of an Indexed Job's pods."""
    others = [
        replace(OF, metric=name, number=number)
        for name in ("Smoke Test", "smoke-test", "smoke test", "x" * 300, "日本", "-", "1")
        for number in (1, 2, 10**9)
    ]
    names = [each.name for each in (*others, replace(OF, uid="uid-2"))]

    assert OF.name in names
    assert OF.name.startswith("smoke-test-")
    assert OF.name.endswith("-2")
    assert OF.numbered(7) == f"{OF.name.removesuffix('-2')}-7"
    assert len(set(names)) == len(names)
    for name in names:
        assert len(name) <= 52
        assert name.strip("abcdefghijklmnopqrstuvwxyz0123456789-") == ""
        assert name[0] != "-"
        assert "--" not in name


def test_it_is_the_runs_and_runs_as_the_account_of_jobs() -> None:
    """Garbage collection takes it with the run; nothing in a template chooses its rights."""
    made = job_manifest(OF, metric())

    run = {"apiVersion": "rollouts.dev/v1alpha1", "kind": "AnalysisRun", "name": "run-1", "uid": "uid-1"}
    assert made["metadata"]["ownerReferences"] == [{**run, "controller": True}]
    assert is_made_for(made, "uid-1")
    assert not is_made_for(made, "uid-2")
    assert not any(is_made_for(each, "uid-1") for each in ({}, {"metadata": {"ownerReferences": [{"uid": "uid-1"}]}}))
    assert made["metadata"]["labels"] == {"team": "a", "rollouts.dev/analysis-run-uid": "uid-1"}
    assert made["metadata"]["annotations"]["rollouts.dev/analysis-run"] == "run-1"
    assert made["metadata"]["annotations"]["note"] == "b"
    assert made["spec"]["template"]["spec"] == {**POD, "restartPolicy": "Never", "serviceAccountName": ACCOUNT}


def test_what_the_template_says_stays() -> None:
    """But for a time to live in which nobody could look at its end; the metric itself is not changed."""
    given = metric({**POD, "restartPolicy": "OnFailure"}, backoffLimit=1, ttlSecondsAfterFinished=0)
    made = job_manifest(OF, given)

    assert made["spec"]["template"]["spec"]["restartPolicy"] == "OnFailure"
    assert made["spec"]["backoffLimit"] == 1
    assert made["spec"]["ttlSecondsAfterFinished"] == 600
    assert job_manifest(OF, metric(ttlSecondsAfterFinished=900))["spec"]["ttlSecondsAfterFinished"] == 900
    assert "ttlSecondsAfterFinished" not in job_manifest(OF, metric())["spec"]
    assert given.spec["ttlSecondsAfterFinished"] == 0
    assert "serviceAccountName" not in given.spec["template"]["spec"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (metric(), ""),
        (metric({**POD, "serviceAccountName": ACCOUNT}), ""),
        (metric({**POD, "serviceAccountName": "admin"}), "serviceAccountName: Jobs of metrics run as jobs"),
        (metric({**POD, "serviceAccount": "admin"}), "serviceAccount: Jobs of metrics run as jobs"),
        (metric(manualSelector=True), "manualSelector"),
        (metric(selector={"matchLabels": {"app": "cart"}}), "selector"),
        (metric({}), "template.spec is missing"),
        (JobMetric(metadata={}, spec={"template": []}), "template.spec is missing"),
    ],
)
def test_what_would_give_its_author_more_is_refused(given: JobMetric, words: str) -> None:
    """Another account's rights, and pods of others that a selector of one's own would take."""
    problem = job_problem(given, service_account=ACCOUNT)

    assert (words in problem) if words else problem == ""


POLICY = {"successPolicy": {"rules": [{"succeededIndexes": "0,2-3", "succeededCount": 2}]}}


@pytest.mark.parametrize(
    ("seen", "spec", "phase", "words"),
    [
        (job(), {}, "Running", ""),
        ({}, {}, "Running", ""),
        (job(("Suspended", "JobSuspended")), {}, "Running", "suspended"),
        (job(("Complete", "CompletionsReached"), succeeded=1), {}, "Successful", ""),
        (job(("Complete", "CompletionsReached")), {}, "Inconclusive", "none of its pods has succeeded"),
        (job(("Complete", ""), succeeded=0), {"completions": 0}, "Inconclusive", "none of its pods"),
        (job(("Failed", "BackoffLimitExceeded"), failed=7), {}, "Failed", "the Job failed (BackoffLimitExceeded)"),
        (job(("Failed", "DeadlineExceeded")), {}, "Failed", "DeadlineExceeded"),
        (job(("Failed", "<b>pl4nted</b>")), {}, "Failed", "without a reason"),
        (job(("FailureTarget", "PodFailurePolicy")), {}, "Failed", "PodFailurePolicy"),
        (job(("SuccessCriteriaMet", "SuccessPolicy"), succeeded=2), POLICY, "Successful", ""),
        (job(("SuccessCriteriaMet", "SuccessPolicy")), POLICY, "Successful", ""),
        (job(("SuccessCriteriaMet", ""), ("Complete", ""), succeeded=2), {}, "Successful", ""),
        (job(("Failed", "BackoffLimitExceeded"), ("SuccessCriteriaMet", "")), {}, "Failed", "BackoffLimit"),
        (job(("Failed", "MaxFailedIndexesExceeded"), completedIndexes="0,2"), POLICY, "Failed", "Max"),
        (job(completedIndexes="0,2", active=1), POLICY, "Successful", "successPolicy holds"),
        (job(completedIndexes="0,1", active=1), POLICY, "Running", ""),
        (job(completedIndexes="", active=1), POLICY, "Running", ""),
        (job(completedIndexes="0,2", active=1), {}, "Running", ""),
        (job(succeeded=3, active=1), {}, "Running", ""),
        ({"status": {"conditions": [{"type": "Complete", "status": "False"}], "succeeded": 1}}, {}, "Running", ""),
        ({"status": {"conditions": [{"type": "Complete", "status": "Unknown"}]}}, {}, "Running", ""),
        ({"status": {"conditions": ["Complete", None, {"status": "True"}]}}, {}, "Running", ""),
        ({"status": []}, {}, "Running", ""),
        ({"status": {"conditions": {"type": "Complete"}}}, {"successPolicy": []}, "Running", ""),
    ],
)
def test_its_status_is_the_verdict(seen: Manifest, spec: dict[str, Any], phase: str, words: str) -> None:
    """A failure comes first, as in Kubernetes; complete without a pod that succeeded is no evidence."""
    verdict = job_verdict(seen, metric(**spec))

    assert verdict.phase is AnalysisPhase(phase)
    assert (words in verdict.message) if words else verdict.message == ""
    assert "pl4nted" not in verdict.message


@pytest.mark.parametrize(
    ("rules", "completed", "holds"),
    [
        ([{"succeededIndexes": "0"}], "0", True),
        ([{"succeededIndexes": "0"}], "1-9", False),
        ([{"succeededIndexes": "0,2-3"}], "0-2", False),
        ([{"succeededIndexes": "0,2-3"}], "0-3", True),
        ([{"succeededCount": 2}], "7,9", True),
        ([{"succeededCount": 2}], "7", False),
        ([{"succeededIndexes": "0-4", "succeededCount": 3}], "0-1,5-9", False),
        ([{"succeededIndexes": "0-4", "succeededCount": 3}], "0-1,4,9", True),
        ([{"succeededIndexes": "0"}, {"succeededCount": 3}], "1-3", True),
        ([{"succeededCount": 0}], "0-9", False),
        ([{"succeededIndexes": ""}], "0-9", False),
        ([{}], "0-9", False),
        ([None, "a"], "0-9", False),
        ("a", "0-9", False),
        ([{"succeededIndexes": "a-b,-,1-"}], "1", True),
        ([{"succeededCount": 1}], "0-99999999999", True),
        ([{"succeededCount": 1}], "x,5-1", False),
    ],
)
def test_a_success_policy_is_that_of_kubernetes(rules: Any, completed: str, holds: bool) -> None:
    """All of the indexes, or that many of them, or that many of all; one rule is enough. Nothing in it takes long."""
    assert success_policy_holds({"rules": rules}, completed) is holds


def test_a_success_policy_costs_what_is_written_not_what_it_means() -> None:
    """20 rules of `0-99999` were sets of 2,000,000 numbers at each look: 7.7 s in which no Rollout of anybody had a pass."""
    rules = [{"succeededIndexes": "0-99999,0-99999"}] * 20
    tracemalloc.start()
    try:
        assert success_policy_holds({"rules": rules}, "0-99998") is False
        assert success_policy_holds({"rules": rules}, "0-50000,40000-99999") is True
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak_bytes < 100_000


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ({"rules": [{"succeededIndexes": ",".join(["1"] * 2_048)}] * 20}, ""),
        ({"rules": [{"succeededCount": 1}] * 21}, ".rules: at most 20"),
        (
            {"rules": [{}, {"succeededIndexes": ",".join(["1"] * 2_050)}]},
            ".rules[1].succeededIndexes: at most 4,096 characters; write ranges, such as 0-99",
        ),
        ({"rules": "a"}, ""),
        ("a", ""),
    ],
)
def test_a_success_policy_has_a_size(policy: Any, words: str) -> None:
    """Each look reads it, so what is longer than anybody writes is refused before a Job is made."""
    problem = job_problem(metric(successPolicy=policy), service_account=ACCOUNT)

    assert problem.startswith(f"job.spec.successPolicy{words}") if words else problem == ""


def test_of_a_long_list_of_completed_indexes_whole_numbers_are_read() -> None:
    """A number that is cut off in its middle is another number, which may not have succeeded."""
    completed = ",".join(str(each) for each in range(10_000, 20_000, 2))

    assert success_policy_holds({"rules": [{"succeededCount": 682}]}, completed) is True
    assert success_policy_holds({"rules": [{"succeededCount": 683}]}, completed) is False


@given(
    st.lists(st.integers(0, 30)),
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=8),
    st.integers(1, 9),
)
def test_intervals_say_what_sets_of_numbers_say(done: list[int], wanted: list[tuple[int, int]], count: int) -> None:
    """A model in sets, which take too long only for large numbers."""
    numbers = {each for begin, end in wanted for each in range(begin, end + 1)}
    given_text = ",".join(f"{begin}-{end}" for begin, end in wanted)
    completed = ",".join(map(str, done))

    counted = success_policy_holds({"rules": [{"succeededIndexes": given_text, "succeededCount": count}]}, completed)
    whole = success_policy_holds({"rules": [{"succeededIndexes": given_text}]}, completed)

    assert counted is (len(numbers & set(done)) >= count)
    assert whole is (numbers != set() and numbers <= set(done))
