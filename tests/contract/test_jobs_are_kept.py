"""Promise: Jobs get the same defaults and the same refusals from the real server and from the simulated one."""

from __future__ import annotations

from typing import Any

import pytest

from rollouts.objects import JOB, Manifest
from rollouts.ports import MERGE_PATCH
from tests.contract.conversation import Conversation

POD = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "test:1"}]}
INDEXED = {"completionMode": "Indexed", "completions": 2}
RULES = {"rules": [{"succeededCount": 1}]}


def job(name: str = "smoke", **spec: Any) -> Manifest:
    """A Job that does not run."""
    return {"metadata": {"name": name}, "spec": {"template": {"spec": POD}, "suspend": True, **spec}}


async def test_a_job_gets_defaults(api: Conversation) -> None:
    """Readers rely on them: a Job is compared with what was asked for."""
    made = await api.made(JOB, job())

    uid = made["metadata"]["uid"]
    own = {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": "smoke",
        "controller-uid": uid,
        "job-name": "smoke",
    }
    spec = {name: value for name, value in made["spec"].items() if name != "template"}
    assert spec == {
        "backoffLimit": 6,
        "completionMode": "NonIndexed",
        "completions": 1,
        "manualSelector": False,
        "parallelism": 1,
        "podReplacementPolicy": "TerminatingOrFailed",
        "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}},
        "suspend": True,
    }
    assert made["spec"]["template"]["metadata"]["labels"] == own
    assert made["metadata"]["labels"] == own
    assert made["metadata"]["generation"] == 1
    assert made["status"] == {}


@pytest.mark.parametrize(
    ("given", "filled"),
    [
        ({"parallelism": 3}, {"parallelism": 3}),
        ({"completions": 3}, {"parallelism": 1, "completions": 3}),
        ({**INDEXED, "backoffLimitPerIndex": 1}, {"parallelism": 1, "completions": 2, "backoffLimit": 2_147_483_647}),
    ],
    ids=["work queue", "completions", "indexed"],
)
async def test_defaults_depend_on_each_other(api: Conversation, given: Manifest, filled: Manifest) -> None:
    """A work queue has no completions; a limit for each index replaces the common one."""
    made = await api.made(JOB, job(**given))

    names = ("parallelism", "completions", *(["backoffLimit"] if "backoffLimit" in filled else []))
    assert {name: made["spec"][name] for name in names if name in made["spec"]} == filled


@pytest.mark.parametrize(
    ("spec", "cause"),
    [
        ({"template": {"spec": {**POD, "restartPolicy": "Always"}}}, ("FieldValueRequired", "restartPolicy")),
        ({"template": {"spec": {"containers": POD["containers"]}}}, ("FieldValueRequired", "restartPolicy")),
        ({"template": {"spec": {**POD, "containers": []}}}, ("FieldValueRequired", "containers")),
        ({"backoffLimit": -1}, ("FieldValueInvalid", "backoffLimit")),
        ({"activeDeadlineSeconds": -1}, ("FieldValueInvalid", "activeDeadlineSeconds")),
        ({"completionMode": "Indexed"}, None),
        ({"completionMode": "Indexed", "parallelism": 2}, ("FieldValueRequired", "completions")),
        ({"completionMode": "Random"}, ("FieldValueNotSupported", "completionMode")),
        ({"successPolicy": RULES}, ("FieldValueInvalid", "successPolicy")),
        ({**INDEXED, "successPolicy": {"rules": []}}, ("FieldValueRequired", "rules")),
        ({**INDEXED, "successPolicy": {"rules": [{}]}}, ("FieldValueRequired", "rules[0]")),
        ({"selector": {"matchLabels": {"app": "else"}}}, ("FieldValueInvalid", "selector")),
    ],
    ids=lambda value: str(value)[:50],
)
async def test_a_job_of_the_wrong_shape_is_refused(
    api: Conversation, spec: Manifest, cause: tuple[str, str] | None
) -> None:
    """With the field that is wrong."""
    answer = await api.create(JOB, job(**spec))

    if cause is None:
        assert answer.status == 201
        return
    assert (answer.status, answer.reason) == (422, "Invalid")
    assert cause in [(reason, field.rpartition(".")[2]) for reason, field in answer.causes], answer.causes


@pytest.mark.parametrize(
    ("change", "refused"),
    [
        ({"completions": 3}, True),
        ({"completionMode": "Indexed"}, True),
        ({"selector": {"matchLabels": {"job-name": "smoke"}}}, True),
        ({"template": {"spec": {"activeDeadlineSeconds": 5}}}, True),
        ({"parallelism": 2}, False),
        ({"backoffLimit": 2}, False),
        ({"activeDeadlineSeconds": 60}, False),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_most_of_a_job_does_not_change(api: Conversation, change: Manifest, refused: bool) -> None:
    """A Job that was asked for once is judged as it was asked for."""
    await api.made(JOB, job(suspend=False))

    answer = await api.patch(JOB, "smoke", {"spec": change}, MERGE_PATCH)

    assert answer.status == (422 if refused else 200), answer.body
    if refused:
        assert answer.causes == [("FieldValueInvalid", f"spec.{next(iter(change))}")]


async def test_applying_the_same_job_twice_changes_nothing(api: Conversation) -> None:
    """A controller that crashed after the write applies it again."""
    first, again = [await api.apply(JOB, "smoke", job(), by="rollouts") for _ in range(2)]

    assert (first.status, again.status) == (201, 200)
    assert (first.body["spec"], first.metadata["generation"]) == (again.body["spec"], again.metadata["generation"])


async def test_a_job_that_is_deleted_without_a_word_leaves_its_pods(api: Conversation) -> None:
    """The old default of batch/v1; whoever wants the pods to go must say Background."""
    await api.made(JOB, job("kept"))
    await api.made(JOB, job("gone"))

    kept = await api.delete(JOB, "kept", {})
    gone = await api.delete(JOB, "gone", {"propagationPolicy": "Background"})

    assert (kept.status, kept.body["kind"]) == (200, "Job")
    assert kept.body["metadata"]["finalizers"] == ["orphan"]
    assert (gone.status, gone.body["kind"]) == (200, "Status")
