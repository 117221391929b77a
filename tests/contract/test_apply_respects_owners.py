"""Promise: server-side apply owns what it says, takes nothing from others unless forced, and removes what it dropped."""

from __future__ import annotations

from typing import Any

import pytest

from rollouts.objects import REPLICA_SET, Manifest
from rollouts.ports import JSON_PATCH, MERGE_PATCH
from tests.build import replica_set
from tests.contract.conversation import WIDGET, Answer, Conversation

Write = tuple[str, Manifest]
"""By whom, and the spec."""


def owners(answer: Answer) -> list[tuple[str, str, str]]:
    """Manager, operation and subresource of each entry of managedFields."""
    entries = answer.metadata.get("managedFields", [])
    return sorted((entry["manager"], entry["operation"], entry.get("subresource", "")) for entry in entries)


def fields_of(answer: Answer, manager: str) -> Any:
    return next(e["fieldsV1"] for e in answer.metadata["managedFields"] if e["manager"] == manager)


def pods_of(**container: Any) -> Manifest:
    """A configuration that speaks of one container only."""
    return {"spec": {"template": {"spec": {"containers": [{"name": "app", **container}]}}}}


async def test_an_apply_creates_and_repeats_without_a_change(api: Conversation) -> None:
    """The first is 201, the same again is 200 with the same version: a no-op."""
    config = {"spec": {"replicas": 1, "note": "x"}}

    first = await api.apply(WIDGET, "a", config, by="ours")
    again = await api.apply(WIDGET, "a", config, by="ours")

    assert (first.status, again.status) == (201, 200)
    assert first.version == again.version
    assert owners(again) == [("ours", "Apply", "")]
    assert fields_of(again, "ours") == {"f:spec": {"f:replicas": {}, "f:note": {}}}


async def written(api: Conversation, *writes: Write) -> Answer:
    """The answer to the last write. An editor updates; everybody else applies, "FORCE" with force."""
    for by, spec in writes:
        if by == "editor":
            answer = await api.patch(WIDGET, "a", {"spec": spec}, MERGE_PATCH, fieldManager=by)
        else:
            answer = await api.apply(WIDGET, "a", {"spec": spec}, by=by, force=by == "FORCE")
    return answer


ONE, TWO, BOTH = {"replicas": 1}, {"replicas": 2}, {"replicas": 1, "note": "x"}
X, Y = {"name": "x", "value": "1"}, {"name": "y", "value": "2"}


KEPT: dict[str, tuple[list[Write], Manifest]] = {
    "two share an object": ([("ours", ONE), ("user", {"note": "theirs"})], {**ONE, "note": "theirs"}),
    "a field that is no longer applied goes": ([("ours", BOTH), ("ours", ONE)], ONE),
    "unless another owns it": ([("ours", BOTH), ("user", {"note": "x"}), ("ours", ONE)], BOTH),
    "or an update took it": ([("ours", BOTH), ("editor", TWO), ("ours", {"note": "x"})], {**TWO, "note": "x"}),
    "or an apply by force": ([("ours", BOTH), ("FORCE", TWO), ("ours", {"note": "x"})], {**TWO, "note": "x"}),
    "items of a custom list": ([("ours", {**ONE, "items": [X]}), ("user", {"items": [Y]})], {**ONE, "items": [X, Y]}),
    "one item goes": (
        [("ours", {**ONE, "items": [X]}), ("user", {"items": [Y]}), ("ours", ONE)],
        {**ONE, "items": [Y]},
    ),
}


@pytest.mark.parametrize(("writes", "left"), KEPT.values(), ids=KEPT)
async def test_an_apply_owns_what_it_says(api: Conversation, writes: list[Write], left: Manifest) -> None:
    """Users and the controller write the same object without undoing each other; what one drops goes if nobody else wants it."""
    assert (await written(api, *writes)).body["spec"] == {**left, "mode": "Fast"}


async def test_an_apply_is_noted_with_its_owner_and_fields(api: Conversation) -> None:
    """The loser of a forced field owns it no more, and an item of a list map is named by its key."""
    await written(api, ("ours", BOTH))

    forced = await written(api, ("FORCE", {**TWO, "items": [Y]}))

    assert owners(forced) == [("FORCE", "Apply", ""), ("ours", "Apply", "")]
    assert fields_of(forced, "ours") == {"f:spec": {"f:note": {}}}
    item: Manifest = {'k:{"name":"y"}': {".": {}, "f:name": {}, "f:value": {}}}
    assert fields_of(forced, "FORCE") == {"f:spec": {"f:replicas": {}, "f:items": item}}


async def test_metadata_that_is_no_longer_applied_is_removed_too(api: Conversation) -> None:
    """That is how an annotation or a label of ours goes away."""
    await api.apply(WIDGET, "a", {"spec": ONE, "metadata": {"labels": {"a": "1"}}}, by="ours")

    assert "labels" not in (await written(api, ("ours", ONE))).metadata


STEPS = [{"n": 1}, {"n": 2}]
CONFLICTS: dict[str, list[Write]] = {
    'conflict with "ours": .spec.replicas': [("ours", ONE), ("user", TWO)],
    # A list without a type is one value.
    'conflict with "ours": .spec.steps': [("ours", {**ONE, "steps": STEPS[:1]}), ("user", {"steps": STEPS})],
    # `kubectl edit` wins over an applier at once, and the applier's next apply is told.
    f'conflict with "editor" using {WIDGET.api_version}: .spec.replicas': [
        ("ours", ONE),
        ("editor", TWO),
        ("ours", ONE),
    ],
}


@pytest.mark.parametrize("told", CONFLICTS)
async def test_a_field_of_another_owner_with_another_value_conflicts(api: Conversation, told: str) -> None:
    """The answer names owner and field, so that a condition can."""
    answer = await written(api, *CONFLICTS[told])

    says, _, field = told.rpartition(": ")
    assert (answer.status, answer.reason) == (409, "Conflict")
    assert answer.causes == [("FieldManagerConflict", field)]
    assert answer.body["details"]["causes"][0]["message"] == says
    assert answer.message.startswith(f"Apply failed with 1 conflict: {says}")


async def test_several_conflicts_are_all_named(api: Conversation) -> None:
    """One look is enough to see what another manager holds."""
    await api.made(REPLICA_SET, replica_set("rs"))
    await api.apply(REPLICA_SET, "rs", pods_of(env=[{"name": "A", "value": "1"}], tty=True), by="ours")

    answer = await api.apply(REPLICA_SET, "rs", pods_of(env=[{"name": "A", "value": "2"}], tty=False), by="user")

    container = '.spec.template.spec.containers[name="app"]'
    assert answer.status == 409
    assert answer.causes == [
        ("FieldManagerConflict", f"{container}.tty"),
        ("FieldManagerConflict", f'{container}.env[name="A"].value'),
    ]
    assert answer.message == (
        f'Apply failed with 2 conflicts: conflicts with "ours":\n- {container}.tty\n- {container}.env[name="A"].value'
    )


async def test_the_same_value_is_shared_not_refused(api: Conversation) -> None:
    """Two managers that agree both own."""
    await api.apply(WIDGET, "a", {"spec": {"replicas": 1}}, by="ours")

    shared = await api.apply(WIDGET, "a", {"spec": {"replicas": 1}}, by="user")
    left = await api.apply(WIDGET, "a", {"spec": {"replicas": 1}, "metadata": {"labels": {"x": "y"}}}, by="ours")

    assert shared.status == 200
    assert owners(shared) == [("ours", "Apply", ""), ("user", "Apply", "")]
    assert left.status == 200


async def test_an_item_of_a_list_map_is_removed_whole(api: Conversation) -> None:
    """A container that is no longer applied goes with the defaults that the server gave it."""
    both = [{"name": "app", "image": "app:1"}, {"name": "side", "image": "side:1"}]
    base = replica_set("rs")
    spec = {**base["spec"], "template": {**base["spec"]["template"], "spec": {"containers": both}}}
    await api.apply(REPLICA_SET, "rs", {"spec": spec}, by="ours")

    answer = await api.apply(REPLICA_SET, "rs", {"spec": base["spec"]}, by="ours")

    containers = answer.body["spec"]["template"]["spec"]["containers"]
    assert [container["name"] for container in containers] == ["app"]


async def test_the_status_subresource_has_owners_of_its_own(api: Conversation) -> None:
    """A status write is no conflict with an apply of the spec."""
    await api.apply(WIDGET, "a", {"spec": {"replicas": 1}}, by="ours")
    await api.patch(WIDGET, "a", {"status": {"phase": "Ready"}}, MERGE_PATCH, "status", fieldManager="ours")

    answer = await api.apply(WIDGET, "a", {"spec": {"replicas": 2}}, by="ours")

    assert answer.status == 200
    assert answer.body["status"] == {"phase": "Ready"}
    assert owners(answer) == [("ours", "Apply", ""), ("ours", "Update", "status")]


async def test_a_json_patch_takes_an_owner_off(api: Conversation) -> None:
    """What was given back is nobody's, so the next apply of its user is no conflict; a patch of an older entry fails."""
    metadata = {"labels": {"mark": "1"}}
    await api.apply(WIDGET, "a", {"spec": BOTH}, by="user")
    await api.patch(WIDGET, "a", {"spec": TWO, "metadata": metadata}, MERGE_PATCH, fieldManager="ours")
    given = await api.patch(WIDGET, "a", {"spec": ONE}, MERGE_PATCH, fieldManager="ours")
    entries = given.metadata["managedFields"]
    index = next(index for index, entry in enumerate(entries) if entry["manager"] == "ours")
    at, fields = f"/metadata/managedFields/{index}/fieldsV1", entries[index]["fieldsV1"]
    left = {name: part for name, part in fields.items() if name != "f:spec"}
    patch = [{"op": "test", "path": at, "value": fields}, {"op": "replace", "path": at, "value": left}]

    answer = await api.patch(WIDGET, "a", patch, JSON_PATCH, fieldManager="ours")
    again = await api.patch(WIDGET, "a", patch, JSON_PATCH, fieldManager="ours")
    applied = await api.apply(WIDGET, "a", {"spec": {**BOTH, **TWO}}, by="user")

    assert (answer.status, fields_of(answer, "ours")) == (200, {"f:metadata": {"f:labels": {".": {}, "f:mark": {}}}})
    assert fields_of(answer, "user") == {"f:spec": {"f:note": {}}}
    assert again.status == 422
    assert applied.status == 200


async def test_a_json_patch_removes_the_entry_of_an_owner(api: Conversation) -> None:
    """All that it owned was given back."""
    await api.apply(WIDGET, "a", {"spec": BOTH}, by="user")
    given = await api.patch(WIDGET, "a", {"spec": TWO}, MERGE_PATCH, fieldManager="ours")
    index = next(index for index, entry in enumerate(given.metadata["managedFields"]) if entry["manager"] == "ours")
    remove = [{"op": "remove", "path": f"/metadata/managedFields/{index}"}]

    answer = await api.patch(WIDGET, "a", remove, JSON_PATCH, fieldManager="ours")

    assert (answer.status, answer.body["spec"]) == (200, given.body["spec"])
    assert owners(answer) == [("user", "Apply", "")]
