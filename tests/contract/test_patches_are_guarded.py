"""Promise: a patch lands whole or not at all, and never on a version that it was not made for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from rollouts.objects import CONFIG_MAP, REPLICA_SET
from rollouts.ports import APPLY_PATCH, JSON_PATCH, MERGE_PATCH
from tests import build
from tests.build import replica_set
from tests.contract.conversation import STRATEGIC, WIDGET, Answer, Conversation, config_map, widget


async def test_a_merge_patch_merges_maps_and_removes_nulls(api: Conversation) -> None:
    """RFC 7396; scale, annotations and status go this way."""
    await api.made(CONFIG_MAP, config_map("a", labels={"keep": "1", "drop": "2"}, x="1"))

    patch = {"metadata": {"labels": {"drop": None, "new": "3"}}, "data": {"y": "2"}}
    answer = await api.patch(CONFIG_MAP, "a", patch, MERGE_PATCH)

    assert answer.status == 200
    assert answer.metadata["labels"] == {"keep": "1", "new": "3"}
    assert answer.body["data"] == {"x": "1", "y": "2"}


Write = Callable[[Conversation, Any], Awaitable[Answer]]


def guarded(api: Conversation, body: Any) -> Awaitable[Answer]:
    """A JSON patch that replaces the resourceVersion: the guard on users' objects."""
    version = {"op": "replace", "path": "/metadata/resourceVersion", "value": body["metadata"]["resourceVersion"]}
    change = {"op": "replace", "path": "/spec/replicas", "value": body["spec"]["replicas"]}
    return api.patch(WIDGET, "a", [version, change], JSON_PATCH)


WRITES: dict[str, Write] = {
    "merge patch": lambda api, body: api.patch(WIDGET, "a", body, MERGE_PATCH),
    "JSON patch": guarded,
    "PUT": lambda api, body: api.put(WIDGET, "a", body),
    "apply": lambda api, body: api.apply(WIDGET, "a", body, by="ours", force=True),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
async def test_a_write_that_was_computed_from_an_old_version_conflicts(api: Conversation, write: Write) -> None:
    """409 says that the plan is old; of two candidates for a Lease one wins by this rule."""
    made = await api.made(WIDGET, widget("a"))
    now = await api.patch(WIDGET, "a", {"spec": {"replicas": 2}}, MERGE_PATCH)
    old, new = (
        build.manifest(WIDGET, "a", metadata={"resourceVersion": each}, spec={"replicas": 7})
        for each in (made["metadata"]["resourceVersion"], str(now.version))
    )

    stale = await write(api, old)
    kept = await api.get(WIDGET, "a")
    fresh = await write(api, new)

    assert (stale.status, stale.reason) == (409, "Conflict")
    assert stale.body["details"] == {"name": "a", "group": WIDGET.group, "kind": "widgets"}
    assert "the object has been modified" in stale.message
    assert kept.body == now.body
    assert (fresh.status, fresh.body["spec"]["replicas"]) == (200, 7)


@pytest.mark.parametrize(
    "operations",
    [
        [{"op": "test", "path": "/spec/replicas", "value": 99}],
        [{"op": "test", "path": "/metadata/resourceVersion", "value": "1"}],
        [{"op": "replace", "path": "/spec/none/at", "value": 1}],
        [{"op": "remove", "path": "/spec/none"}],
    ],
)
async def test_a_json_patch_that_cannot_be_carried_out_is_422_without_a_cause(
    api: Conversation, operations: list[Any]
) -> None:
    """A failed `test` looks like any other refusal: the message says nothing, the details are empty."""
    await api.made(WIDGET, widget("a"))
    change = {"op": "add", "path": "/metadata/labels", "value": {"changed": "yes"}}

    answer = await api.patch(WIDGET, "a", [change, *operations], JSON_PATCH)

    assert (answer.status, answer.reason) == (422, "Invalid")
    assert answer.message == "the server rejected our request due to an error in our request"
    assert answer.body["details"] == {}
    assert "labels" not in (await api.get(WIDGET, "a")).metadata


async def test_a_json_patch_adds_removes_and_moves_in_lists(api: Conversation) -> None:
    """RFC 6902, indices and the end of a list."""
    await api.made(WIDGET, widget("a", steps=[{"n": 1}, {"n": 2}]))
    operations = [
        {"op": "add", "path": "/spec/steps/-", "value": {"n": 3}},
        {"op": "remove", "path": "/spec/steps/0"},
        {"op": "replace", "path": "/spec/steps/0/n", "value": 20},
        {"op": "add", "path": "/metadata/annotations", "value": {}},
        {"op": "add", "path": "/metadata/annotations/rollouts.dev~1x", "value": "1"},
    ]

    answer = await api.patch(WIDGET, "a", operations, JSON_PATCH)

    assert answer.status == 200, answer.body
    assert answer.body["spec"]["steps"] == [{"n": 20}, {"n": 3}]
    assert answer.metadata["annotations"] == {"rollouts.dev/x": "1"}


async def test_a_put_of_a_built_in_object_needs_no_version(api: Conversation) -> None:
    """Blind overwriting is possible there; of custom objects it is not (`test_bad_objects_are_refused.py`)."""
    await api.made(REPLICA_SET, replica_set("rs"))

    assert (await api.put(REPLICA_SET, "rs", replica_set("rs"))).status == 200


async def test_a_strategic_merge_patch_merges_containers_by_name(api: Conversation) -> None:
    """`kubectl set image` and `kubectl apply` of built-in types send it."""
    await api.made(REPLICA_SET, replica_set("rs"))
    containers = [{"name": "app", "image": "app:2"}, {"name": "side", "image": "side:1"}]

    patch = {"spec": {"template": {"spec": {"containers": containers}}}}
    answer = await api.patch(REPLICA_SET, "rs", patch, STRATEGIC)

    found = answer.body["spec"]["template"]["spec"]["containers"]
    assert {c["name"]: (c["image"], c["imagePullPolicy"]) for c in found} == {
        "app": ("app:2", "IfNotPresent"),
        "side": ("side:1", "IfNotPresent"),
    }


async def test_a_patch_cannot_change_who_an_object_is(api: Conversation) -> None:
    """uid and creation time are the server's; a patch of another uid is refused."""
    made = await api.made(WIDGET, widget("a"))

    ignored = await api.patch(WIDGET, "a", {"metadata": {"creationTimestamp": None, "generation": 9}}, MERGE_PATCH)
    other = await api.patch(WIDGET, "a", {"metadata": {"uid": "0" * 8}}, MERGE_PATCH)

    assert ignored.metadata["creationTimestamp"] == made["metadata"]["creationTimestamp"]
    assert ignored.metadata["generation"] == 1
    assert (other.status, other.reason) == (422, "Invalid")
    assert ("FieldValueInvalid", "metadata.uid") in other.causes


APPLIED = build.manifest(WIDGET, "a", spec={"replicas": 9})


@pytest.mark.parametrize(
    ("patch", "how", "query"),
    [
        ({"spec": {"replicas": 9}}, MERGE_PATCH, {}),
        (APPLIED, APPLY_PATCH, {"fieldManager": "ours", "force": "true"}),
    ],
    ids=["merge", "forced apply"],
)
async def test_a_dry_run_of_a_patch_changes_nothing(
    api: Conversation, patch: Any, how: str, query: dict[str, str]
) -> None:
    """The answer is what would be: `plan` shows it, and an apply takes nothing from its owner."""
    await api.made(WIDGET, widget("a"))

    answer = await api.patch(WIDGET, "a", patch, how, dryRun="All", **query)

    assert answer.body["spec"]["replicas"] == 9
    assert (await api.get(WIDGET, "a")).body["spec"]["replicas"] == 1
