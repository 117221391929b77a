"""The whole controller and ConfigMaps: an edit is an update, each revision keeps its own content, and nothing is asked twice."""

from __future__ import annotations

import asyncio

import pytest

from rollouts.controller.wiring import EXIT_STOPPED
from rollouts.objects import CONFIG_MAP, ROLLOUT
from rollouts.ports import JSON, Request, Response
from tests.controller.configured import SOURCE, Configured, canary, config_map, forbidden
from tests.controller.test_the_process_outlives_what_objects_hold import Running

pytestmark = pytest.mark.virtual_time(limit_s=4_000)


@pytest.fixture
async def first(stage: Configured) -> str:
    """The revision of a Rollout that reads a ConfigMap, and is Healthy."""
    stage.apply(config_map(), canary())
    return await stage.until_healthy()


async def test_an_edit_takes_the_steps_and_a_revert_is_the_former_revision(stage: Configured, first: str) -> None:
    """At the gate new pods read the new content and old pods the old one; what was before comes back under its own name."""
    assert stage.names(first) != [SOURCE]
    stage.apply(config_map(data={"color": "green"}))
    paused = await stage.until(lambda one: one.get("phase") == "Paused")
    second = paused["currentRevision"]
    assert (stage.color(first), stage.color(second)) == ("blue", "green")
    stage.annotate("promote", f"{second}@full")
    assert await stage.until_healthy(at=first) == second
    stage.apply(config_map())
    assert await stage.promoted(at=second) == first
    assert stage.color(first) == "blue"
    assert len(stage.copies()) == 2


async def test_a_rollback_brings_the_content_back_while_the_source_keeps_the_edit(stage: Configured) -> None:
    """A bad edit is taken back without an editor."""
    stage.apply(config_map(), canary(rollbackWindow={"revisions": 3}))
    first = await stage.until_healthy()
    stage.apply(config_map(data={"color": "green"}))
    second = await stage.promoted(at=first)
    stage.annotate("rollback", first)
    back = await stage.until(lambda one: one.get("stableRevision") == first and one.get("phase") == "RolledBack")
    await asyncio.sleep(30)
    assert back["currentRevision"] == first
    assert (stage.color(first), stage.color(second)) == ("blue", "green")


async def test_content_is_read_once_for_each_version_and_never_while_nothing_changes(stage: Configured) -> None:
    """The watch brings no content, and a hundred Rollouts that name one ConfigMap are one read."""
    stage.apply(config_map(), canary("a"), canary("b"), canary("c"))
    first = [await stage.until_healthy(name) for name in "abc"]
    stage.door.asked.clear()
    await asyncio.sleep(600)
    assert stage.reads == []
    stage.apply(config_map(data={"color": "green"}))
    for name, at in zip("abc", first, strict=True):
        await stage.promoted(name, at=at)
    assert stage.reads == [SOURCE] * 4  # its hash; and a copy for each


async def test_a_restart_reads_nothing_because_replica_sets_note_what_they_read(stage: Configured, first: str) -> None:
    """A thousand Rollouts would be three thousand reads at each start of the controller."""
    stage.door.asked.clear()
    await stage.restarted()
    await asyncio.sleep(120)
    assert stage.reads == []
    assert list(stage.replica_sets()) == [first]


@pytest.mark.parametrize("settings", [{"leader_elect": True, "identity": "leader"}], ids=["a leader"])
async def test_a_standby_sees_configmaps_before_it_leads(stage: Configured) -> None:
    """A takeover of a cluster with fifty thousand ConfigMaps would begin with a list of them."""
    stage.apply(config_map(), canary())
    await stage.until_healthy()
    lists = stage.lists
    standby = Running(stage.cluster, stage.door, leader_elect=True, identity="standby")
    await asyncio.sleep(1)
    assert stage.lists == 2 * lists
    assert await standby.stopped() == EXIT_STOPPED


async def test_without_a_rollout_that_names_one_configmaps_are_not_even_watched(stage: Configured) -> None:
    """A cluster has thousands of them."""
    plain = canary()
    del plain["spec"]["template"]["spec"]["containers"][0]["envFrom"]
    stage.apply(config_map(), plain)
    await stage.until_healthy()
    assert (stage.lists, stage.reads) == (0, [])


async def test_a_missing_source_is_waited_for_and_a_deleted_one_harms_nobody(stage: Configured) -> None:
    """Its coming is enough. `kubectl replace --force` deletes and creates: pods have their copies, and no revision is new."""
    stage.apply(canary())
    assert "app-config does not exist" in await stage.until_waiting("ConfigNotFound")
    assert stage.replica_sets() == {}
    stage.apply(config_map())
    first = await stage.until_healthy()
    stage.delete(SOURCE)
    await stage.until_waiting("ConfigNotFound")
    await asyncio.sleep(300)
    assert list(stage.replica_sets()) == [first]
    assert stage.color(first) == "blue"
    stage.apply(config_map())
    assert await stage.until_healthy() == first


async def test_an_api_error_is_no_absence(stage: Configured, first: str) -> None:
    """`etcdserver: leader changed` for a minute: the Rollout stays where it is, and says what it waits for."""
    broken = b'{"kind":"Status","code":500,"reason":"InternalError","message":"etcdserver: leader changed"}'
    stage.door.answers = lambda request: (
        Response(500, broken) if request.path.endswith(SOURCE) and request.accept == JSON else None
    )
    stage.apply(config_map(data={"color": "green"}))
    assert "leader changed" in await stage.until_waiting("ConfigNotRead")
    await asyncio.sleep(60)
    assert list(stage.replica_sets()) == [first]
    stage.door.answers = lambda _request: None
    await stage.promoted(at=first)


@pytest.mark.parametrize("accept", [JSON, None])
async def test_a_missing_right_is_told_with_what_to_grant(accept: str | None, stage: Configured) -> None:
    """To watch, or to read one: the running revision stays, and somebody reads what is missing."""
    stage.door.answers = forbidden(accept=accept)
    stage.apply(config_map(), canary())
    assert "grant get" in await stage.until_waiting("ConfigForbidden")
    stage.door.answers = lambda _request: None
    await stage.until_healthy()


async def test_a_copy_that_may_not_be_created_is_told_and_keeps_what_runs(stage: Configured, first: str) -> None:
    """A quota of ConfigMaps is full."""
    stage.door.answers = forbidden("POST")
    stage.apply(config_map(data={"color": "green"}))
    status = await stage.until(lambda one: one.get("phase") == "Degraded")
    stalled = next(each for each in status["conditions"] if each["type"] == "Stalled")
    assert "grant create of configmaps" in stalled["message"]
    assert list(stage.replica_sets()) == [first]
    stage.door.answers = lambda _request: None
    await stage.promoted(at=first)


async def test_an_immutable_source_is_used_as_it_is(stage: Configured) -> None:
    """The hashed names of Kustomize and Helm are copies already."""
    stage.apply(config_map(immutable=True), canary())
    first = await stage.until_healthy()
    assert (stage.names(first), stage.copies()) == ([SOURCE], {})


async def test_a_source_that_opts_out_is_left_alone(stage: Configured) -> None:
    """An application that reloads its configuration by itself."""
    off = {"annotations": {"rollouts.dev/config-versioning": "off"}}
    stage.apply(config_map(metadata=off), canary())
    first = await stage.until_healthy()
    stage.apply(config_map(data={"color": "green"}, metadata=off))
    await asyncio.sleep(60)
    assert list(stage.replica_sets()) == [first]
    assert (stage.names(first), stage.copies()) == ([SOURCE], {})


@pytest.mark.parametrize("settings", [{"config_versioning": False}], ids=["off"])
async def test_an_upgrade_rolls_nobody_and_the_first_edit_after_it_does(stage: Configured, first: str) -> None:
    """With --config-versioning=off, as in the version before, nothing is read; what is seen first afterwards is what it has."""
    assert (stage.names(first), stage.copies(), stage.lists, stage.reads) == ([SOURCE], {}, 0, [])
    await stage.restarted()
    await asyncio.sleep(120)
    assert list(stage.replica_sets()) == [first]
    assert "rollouts.dev/config" in stage.replica_sets()[first]["metadata"]["annotations"]
    stage.apply(config_map(data={"color": "green"}))
    second = await stage.promoted(at=first)
    assert (stage.names(first), stage.color(second)) == ([SOURCE], "green")
    await stage.restarted(config_versioning=False)


async def test_a_deleted_rollout_takes_its_copies_along_unless_it_retains_them(stage: Configured) -> None:
    """Copies are the Rollout's, sources the user's."""
    stage.apply(config_map(), canary("gone"), canary("kept", configVersioning={"retain": True}))
    for name in ("gone", "kept"):
        await stage.until_healthy(name)
    kept = stage.names(next(iter(stage.replica_sets("kept"))), "kept")
    for name in ("gone", "kept"):
        stage.delete(name, kind=ROLLOUT)
    await asyncio.sleep(120)
    assert list(stage.copies()) == kept
    assert stage.cluster.get(CONFIG_MAP, "default", SOURCE) is not None


async def test_copies_that_no_revision_names_go(stage: Configured) -> None:
    """revisionHistoryLimit is about configuration too."""
    stage.apply(config_map(), canary(revisionHistoryLimit=0))
    first = await stage.until_healthy()
    stage.apply(config_map(data={"color": "green"}))
    second = await stage.promoted(at=first)
    await asyncio.sleep(300)
    assert list(stage.copies()) == stage.names(second)


async def test_a_copy_that_somebody_deletes_comes_back(stage: Configured, first: str) -> None:
    """A pod that starts without it would not start."""
    (name,) = stage.names(first)
    stage.delete(name)
    await asyncio.sleep(30)
    assert list(stage.copies()) == [name]
    assert stage.color(first) == "blue"


async def test_a_foreign_object_under_the_name_of_a_copy_is_told(stage: Configured, first: str) -> None:
    """It is somebody's: it is neither taken over nor deleted."""
    stage.apply(config_map(data={"color": "green"}))
    second = await stage.promoted(at=first)
    (name,) = stage.names(second)
    stage.annotate("rollback", first)
    stage.delete(name)
    stage.apply(config_map(name, data={"color": "foreign"}))
    status = await stage.until(lambda one: one.get("phase") == "Degraded")
    stalled = next(each for each in status["conditions"] if each["type"] == "Stalled")
    assert f"ConfigMap {name} is not the copy" in stalled["message"]


async def test_a_copy_without_an_owner_is_taken_back(stage: Configured, first: str) -> None:
    """After `kubectl delete --cascade=orphan` and a new Rollout of that name: the pods went on, and so do their copies."""
    request = Request("DELETE", ROLLOUT.path("default", "web"), body=b'{"propagationPolicy":"Orphan"}')
    assert stage.cluster.api.answer(request).status == 200
    await asyncio.sleep(10)
    stage.apply(canary())
    assert await stage.until_healthy() == first
    await asyncio.sleep(10)
    (copy,) = stage.copies().values()
    rollout = stage.cluster.get(ROLLOUT, "default", "web")
    assert rollout is not None
    assert [each["uid"] for each in copy["metadata"]["ownerReferences"]] == [rollout["metadata"]["uid"]]


async def test_a_copy_that_cannot_go_is_told_and_used_again_once_it_is_gone(stage: Configured) -> None:
    """Somebody has put a finalizer on it. The next Rollout of that name would be without a word in status."""
    stage.apply(config_map(), canary())
    await stage.until_healthy()
    (name,) = stage.copies()
    stage.patch(name, {"metadata": {"finalizers": ["tests.dev/kept"]}})
    stage.delete("web", kind=ROLLOUT)
    await stage.cluster.until(lambda one: one is None, kind=ROLLOUT, namespace="default", name="web", deadline_s=60)
    stage.apply(canary())
    told = await stage.until(lambda one: one.get("phase") == "Degraded")
    assert told["waitingFor"]["reason"] == "ConfigCopyNotUsable"
    assert f"ConfigMap {name} is being deleted" in told["message"]
    stage.patch(name, {"metadata": {"finalizers": None}})
    await stage.until_healthy()


async def test_a_copy_that_cannot_go_holds_up_no_update(stage: Configured, first: str) -> None:
    """The pods of its revision read it until it is gone, and then it is made again."""
    (name,) = stage.copies()
    stage.apply(config_map(data={"color": "green"}))
    second = await stage.promoted(at=first)
    stage.patch(name, {"metadata": {"finalizers": ["tests.dev/kept"]}})
    stage.delete(name)
    stage.apply(config_map())
    assert await stage.promoted(at=second) == first
    stage.patch(name, {"metadata": {"finalizers": None}})
    await asyncio.sleep(30)
    assert "deletionTimestamp" not in stage.copies()[name]["metadata"]
