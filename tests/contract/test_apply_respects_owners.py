"""Promise: server-side apply owns what it says, takes nothing from others unless forced, and removes what it dropped."""

from __future__ import annotations

from typing import Any

from rollouts.objects import CONFIG_MAP, REPLICA_SET, Manifest
from rollouts.ports import MERGE_PATCH
from tests.build import replica_set
from tests.contract.conversation import WIDGET, Answer, Conversation


def owners(answer: Answer) -> list[tuple[str, str, str]]:
    """Manager, operation and subresource of each entry of managedFields."""
    entries = answer.metadata.get("managedFields", [])
    return sorted((entry["manager"], entry["operation"], entry.get("subresource", "")) for entry in entries)


def fields_of(answer: Answer, manager: str) -> Any:
    """The field tree that a manager owns."""
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


async def test_two_appliers_share_an_object_field_by_field(api: Conversation) -> None:
    """Users and the controller write the same ReplicaSet without undoing each other."""
    await api.apply(WIDGET, "a", {"spec": {"replicas": 1}}, by="ours")

    answer = await api.apply(WIDGET, "a", {"spec": {"note": "theirs"}}, by="user")

    assert answer.body["spec"] == {"replicas": 1, "note": "theirs", "mode": "Fast"}
    assert owners(answer) == [("ours", "Apply", ""), ("user", "Apply", "")]


async def test_a_field_of_another_owner_with_another_value_conflicts(api: Conversation) -> None:
    """The answer names owner and field, so that a condition can."""
    await api.apply(WIDGET, "a", {"spec": {"replicas": 1}}, by="ours")

    answer = await api.apply(WIDGET, "a", {"spec": {"replicas": 2}}, by="user")

    assert (answer.status, answer.reason) == (409, "Conflict")
    assert answer.causes == [("FieldManagerConflict", ".spec.replicas")]
    assert answer.body["details"]["causes"][0]["message"] == 'conflict with "ours"'
    assert answer.message == 'Apply failed with 1 conflict: conflict with "ours": .spec.replicas'


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


async def test_force_takes_the_field(api: Conversation) -> None:
    """The loser owns it no more, and dropping it later does not remove it."""
    await api.apply(WIDGET, "a", {"spec": {"replicas": 1, "note": "x"}}, by="ours")

    forced = await api.apply(WIDGET, "a", {"spec": {"replicas": 2}}, by="user", force=True)
    after = await api.apply(WIDGET, "a", {"spec": {"note": "x"}}, by="ours")

    assert forced.body["spec"]["replicas"] == 2
    assert fields_of(forced, "ours") == {"f:spec": {"f:note": {}}}
    assert after.body["spec"]["replicas"] == 2


async def test_a_field_that_is_no_longer_applied_is_removed(api: Conversation) -> None:
    """That is how an annotation or env variable of ours goes away."""
    await api.apply(WIDGET, "a", {"spec": {"replicas": 1, "note": "x"}, "metadata": {"labels": {"a": "1"}}}, by="ours")

    answer = await api.apply(WIDGET, "a", {"spec": {"replicas": 1}}, by="ours")

    assert answer.body["spec"] == {"replicas": 1, "mode": "Fast"}
    assert "labels" not in answer.metadata


async def test_a_field_that_another_manager_also_owns_stays(api: Conversation) -> None:
    """Removal takes only what nobody else wants."""
    await api.apply(WIDGET, "a", {"spec": {"replicas": 1, "note": "x"}}, by="ours")
    await api.apply(WIDGET, "a", {"spec": {"note": "x"}}, by="user")

    answer = await api.apply(WIDGET, "a", {"spec": {"replicas": 1}}, by="ours")

    assert answer.body["spec"]["note"] == "x"


async def test_an_item_of_a_list_map_is_removed_whole(api: Conversation) -> None:
    """A container that is no longer applied goes with the defaults that the server gave it."""
    both = [{"name": "app", "image": "app:1"}, {"name": "side", "image": "side:1"}]
    base = replica_set("rs")
    spec = {**base["spec"], "template": {**base["spec"]["template"], "spec": {"containers": both}}}
    await api.apply(REPLICA_SET, "rs", {"spec": spec}, by="ours")

    answer = await api.apply(REPLICA_SET, "rs", {"spec": base["spec"]}, by="ours")

    containers = answer.body["spec"]["template"]["spec"]["containers"]
    assert [container["name"] for container in containers] == ["app"]


async def test_items_of_a_custom_list_map_are_owned_one_by_one(api: Conversation) -> None:
    """`x-kubernetes-list-type: map` in our CRDs means that others may add their own."""
    await api.apply(WIDGET, "a", {"spec": {"replicas": 1, "items": [{"name": "x", "value": "1"}]}}, by="ours")

    added = await api.apply(WIDGET, "a", {"spec": {"items": [{"name": "y", "value": "2"}]}}, by="user")
    dropped = await api.apply(WIDGET, "a", {"spec": {"replicas": 1}}, by="ours")

    assert added.body["spec"]["items"] == [{"name": "x", "value": "1"}, {"name": "y", "value": "2"}]
    assert dropped.body["spec"]["items"] == [{"name": "y", "value": "2"}]
    assert fields_of(added, "user") == {
        "f:spec": {"f:items": {'k:{"name":"y"}': {".": {}, "f:name": {}, "f:value": {}}}}
    }


async def test_a_list_without_a_type_is_one_value(api: Conversation) -> None:
    """Two appliers of an atomic list conflict over all of it."""
    await api.apply(WIDGET, "a", {"spec": {"replicas": 1, "steps": [{"n": 1}]}}, by="ours")

    answer = await api.apply(WIDGET, "a", {"spec": {"steps": [{"n": 1}, {"n": 2}]}}, by="user")

    assert answer.causes == [("FieldManagerConflict", ".spec.steps")]


async def test_an_update_takes_what_it_changes(api: Conversation) -> None:
    """`kubectl edit` wins over an applier at once, and the applier's next apply is told."""
    await api.apply(WIDGET, "a", {"spec": {"replicas": 1, "note": "x"}}, by="ours")
    await api.patch(WIDGET, "a", {"spec": {"replicas": 5}}, MERGE_PATCH, fieldManager="editor")

    answer = await api.apply(WIDGET, "a", {"spec": {"replicas": 1, "note": "x"}}, by="ours")

    assert answer.status == 409
    cause = answer.body["details"]["causes"][0]
    assert cause["message"] == f'conflict with "editor" using {WIDGET.api_version}'
    assert cause["field"] == ".spec.replicas"


async def test_an_apply_that_drops_what_an_update_took_leaves_it(api: Conversation) -> None:
    """Scaling by an autoscaler: we stop speaking of replicas, its number stays."""
    await api.apply(WIDGET, "a", {"spec": {"replicas": 1, "note": "x"}}, by="ours")
    await api.patch(WIDGET, "a", {"spec": {"replicas": 5}}, MERGE_PATCH, fieldManager="scaler")

    answer = await api.apply(WIDGET, "a", {"spec": {"note": "x"}}, by="ours")

    assert answer.status == 200
    assert answer.body["spec"]["replicas"] == 5


async def test_an_apply_needs_a_name_for_its_owner(api: Conversation) -> None:
    """Nobody owns anonymously."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    answer = await api.patch(CONFIG_MAP, "a", body, "application/apply-patch+yaml", fieldManager="")

    assert (answer.status, answer.reason) == (422, "Invalid")
    assert answer.causes == [("FieldValueRequired", "fieldManager")]


async def test_the_status_subresource_has_owners_of_its_own(api: Conversation) -> None:
    """A status write is no conflict with an apply of the spec."""
    await api.apply(WIDGET, "a", {"spec": {"replicas": 1}}, by="ours")
    await api.patch(WIDGET, "a", {"status": {"phase": "Ready"}}, MERGE_PATCH, "status", fieldManager="ours")

    answer = await api.apply(WIDGET, "a", {"spec": {"replicas": 2}}, by="ours")

    assert answer.status == 200
    assert answer.body["status"] == {"phase": "Ready"}
    assert owners(answer) == [("ours", "Apply", ""), ("ours", "Update", "status")]
