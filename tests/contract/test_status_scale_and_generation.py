"""Promise: spec, status and scale are written on paths of their own, and generation counts changes of the spec only."""

from __future__ import annotations

from rollouts.objects import CONFIG_MAP, REPLICA_SET
from rollouts.ports import JSON_PATCH, MERGE_PATCH, Request
from tests.build import replica_set
from tests.contract.conversation import WIDGET, Conversation, config_map, widget
from tests.patience import PATIENCE_S


async def test_the_main_path_does_not_write_status(api: Conversation) -> None:
    """Nobody claims a state by creating it, and an apply of a manifest with an old status cannot turn the clock back."""
    made = await api.made(WIDGET, {**widget("a"), "status": {"phase": "Ready"}})
    await api.patch(WIDGET, "a", {"status": {"phase": "Ready"}}, MERGE_PATCH, "status")

    answer = await api.patch(WIDGET, "a", {"spec": {"replicas": 2}, "status": {"phase": "Old"}}, MERGE_PATCH)

    assert "status" not in made
    assert answer.body["status"] == {"phase": "Ready"}
    assert answer.body["spec"]["replicas"] == 2


async def test_the_status_path_writes_nothing_else(api: Conversation) -> None:
    """Neither spec nor labels, and the generation stays. What a newer controller writes beside is forgotten and not refused."""
    await api.made(WIDGET, widget("a"))

    status = {"phase": "Ready", "replicas": 3}
    patch = {"metadata": {"labels": {"x": "y"}}, "spec": {"replicas": 9}, "status": {**status, "later": 1}}
    answer = await api.patch(WIDGET, "a", patch, MERGE_PATCH, "status")

    assert (answer.status, answer.body["status"]) == (200, status)
    assert answer.body["spec"]["replicas"] == 1
    assert "labels" not in answer.metadata
    assert answer.metadata["generation"] == 1


async def test_a_status_can_be_put_and_patched_with_a_guard(api: Conversation) -> None:
    """One writer at a time: a stale version conflicts on this path, too."""
    made = await api.made(WIDGET, widget("a"))
    first = await api.put(WIDGET, "a", {**made, "status": {"phase": "One"}}, "status")
    stale = await api.put(WIDGET, "a", {**made, "status": {"phase": "Two"}}, "status")
    guard = [
        {"op": "test", "path": "/metadata/resourceVersion", "value": str(first.version)},
        {"op": "replace", "path": "/status/phase", "value": "Three"},
    ]
    patched = await api.patch(WIDGET, "a", guard, JSON_PATCH, "status")

    assert first.body["status"] == {"phase": "One"}
    assert (stale.status, stale.reason) == (409, "Conflict")
    assert patched.body["status"] == {"phase": "Three"}


async def test_generation_counts_changes_of_the_spec_only(api: Conversation) -> None:
    """observedGeneration is compared with it."""
    generations = [(await api.made(WIDGET, widget("a")))["metadata"]["generation"]]
    for patch in (
        {"metadata": {"labels": {"x": "y"}, "annotations": {"x": "y"}}},
        {"spec": {"replicas": 2}},
        {"spec": {"replicas": 2}},
        {"spec": {"note": "x"}},
    ):
        generations.append((await api.patch(WIDGET, "a", patch, MERGE_PATCH)).metadata["generation"])  # noqa: PERF401  # it awaits

    assert generations == [1, 1, 2, 2, 3]


async def test_a_scale_shows_what_its_paths_point_at(api: Conversation) -> None:
    """HPAs and `kubectl scale` read it; the selector finds the pods."""
    made = await api.made(WIDGET, widget("a", replicas=3))
    status = {"replicas": 2, "selector": "app=a"}
    await api.patch(WIDGET, "a", {"status": status}, MERGE_PATCH, "status")

    scale = await api.get(WIDGET, "a", "scale")

    assert (scale.body["kind"], scale.body["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert scale.body["spec"] == {"replicas": 3}
    assert scale.body["status"] == {"replicas": 2, "selector": "app=a"}
    assert scale.metadata["uid"] == made["metadata"]["uid"]


async def test_a_scale_write_changes_the_replicas_and_the_generation(api: Conversation) -> None:
    """By PUT and by PATCH; the object's other fields stay."""
    await api.made(WIDGET, widget("a", note="x"))

    scale = await api.get(WIDGET, "a", "scale")
    put = await api.put(WIDGET, "a", {**scale.body, "spec": {"replicas": 5}}, "scale")
    patched = await api.patch(WIDGET, "a", {"spec": {"replicas": 7}}, MERGE_PATCH, "scale")
    stale = await api.put(WIDGET, "a", scale.body, "scale")

    assert (put.body["spec"], patched.body["spec"]) == ({"replicas": 5}, {"replicas": 7})
    assert (stale.status, stale.reason) == (409, "Conflict")
    after = await api.get(WIDGET, "a")
    assert after.body["spec"] == {"replicas": 7, "note": "x", "mode": "Fast"}
    assert after.metadata["generation"] == 3


async def test_a_replica_set_scales_and_says_its_selector(api: Conversation) -> None:
    """The built-in type has the selector in its spec."""
    await api.made(REPLICA_SET, replica_set("rs"))

    scale = await api.patch(REPLICA_SET, "rs", {"spec": {"replicas": 0}}, MERGE_PATCH, "scale")

    assert scale.body["status"] == {"replicas": 0, "selector": "app=rs"}


async def test_a_type_without_a_scale_has_no_such_path(api: Conversation) -> None:
    """A wrong target of an HPA is a 404."""
    await api.made(CONFIG_MAP, config_map("a"))

    answer = await api.api.request(Request("GET", api.path(CONFIG_MAP, "a", "scale")), deadline_s=PATIENCE_S)

    assert answer.status == 404
