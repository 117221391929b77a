"""Act: writes go out one at a time, stopping at the first failure."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from rollouts.api.status.wire import status_to_wire
from rollouts.controller.act.calls import Adopt, Create, Delete, Evict, Patch, RemoveRolloutAnnotation, WriteStatus
from rollouts.controller.act.performer import CreationWriteRefused, Performer
from rollouts.controller.act.render import render, render_status
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import RemoveAnnotation
from rollouts.core.model.rollout import Canary
from rollouts.core.model.snapshot import PodsSeen
from rollouts.core.model.status import Phase, RolloutStatus, Verb
from rollouts.errors import ApiConflict, ApiExists, ApiForbidden, ApiInvalid, ApiUnavailable, NotLeader
from rollouts.objects import POD, REPLICA_SET, SERVICE
from rollouts.ports import MERGE_PATCH, Response
from tests.controller.world import CART, CART_UID, Answer, World, error, ok, owned, replica_set, rollout, says
from tests.core.model import snapshot
from tests.core.worlds import running

pytestmark = pytest.mark.virtual_time

GROW = Patch(
    kind=REPLICA_SET, name="cart-v1", uid="cart-v1-uid", body={"spec": {"replicas": 3}}, content_type=MERGE_PATCH
)
MAKE = Create(
    kind=REPLICA_SET,
    name="cart-v2",
    manifest={"metadata": {"name": "cart-v2"}},
    owner_uid=CART_UID,
    revision="v2",
)
ADOPT = Adopt(GROW)
OF_V2 = {"rollouts.dev/revision": "v2"}
STATUS = WriteStatus(patch={"phase": "Healthy"})


async def test_status_is_written_last_and_against_the_version_that_was_decided_on(
    world: World, performer: Performer
) -> None:
    """A stale plan gets a 409 rather than overwriting what somebody else has decided since."""
    assert await performer.perform(world.target("7"), [GROW, STATUS]) == 2

    assert [request.path.rsplit("/", 2)[-1] for request in world.api.requests] == ["cart-v1", "status"]
    assert world.api.body(1) == {"metadata": {"resourceVersion": "7"}, "status": {"phase": "Healthy"}}


async def test_writes_to_the_rollout_continue_from_the_version_that_the_last_one_made(
    world: World, performer: Performer
) -> None:
    """Two writes to one object in a pass must not conflict with each other."""
    world.api.answers = [says(ok(8)), says(ok(9))]
    verb = RemoveRolloutAnnotation(annotation="rollouts.dev/promote", value="true")
    await performer.perform(world.target("7"), [verb, STATUS])

    assert world.api.body(0) == [
        {"op": "test", "path": "/metadata/annotations/rollouts.dev~1promote", "value": "true"},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"},
        {"op": "remove", "path": "/metadata/annotations/rollouts.dev~1promote"},
    ]
    assert world.api.body(1)["metadata"] == {"resourceVersion": "8"}
    assert [each.path.partition("/namespaces/")[2] for each in world.api.requests] == [
        "shop/rollouts/cart",
        "shop/rollouts/cart/status",
    ]


def test_a_status_that_is_there_already_is_not_written() -> None:
    """And of one that differs, only what differs."""
    status = RolloutStatus(phase=Phase.PAUSED, step_index=2)
    there = status_to_wire(status)

    assert render_status(status, before=there)[0] is None
    assert render_status(replace(status, step_index=3), before=there)[0] == WriteStatus(patch={"currentStepIndex": 3})


async def test_a_command_that_is_taken_off_takes_the_note_of_who_gave_it_along(
    world: World, performer: Performer
) -> None:
    """Also where no policy removes it: a note without its command would stand beside the next one."""
    world.api.answers = [says(ok(8))]
    noted = {"promote": "true", "promote-by": "alice"}
    seen = snapshot(running(Canary()))
    seen = replace(seen, rollout=replace(seen.rollout, annotations=noted))
    await performer.perform(world.target("7"), render(seen, RemoveAnnotation(verb=Verb.PROMOTE, value="true")))

    removed = [each["path"].rpartition("~1")[2] for each in world.api.body(0) if each["op"] == "remove"]
    assert removed == ["promote", "promote-by"]


async def test_the_first_failure_stops_the_rest(world: World, performer: Performer) -> None:
    """Any prefix of a decision is safe; a decision with a hole in it is not."""
    world.api.answers = [says(ok(8)), says(error(403, "Forbidden"))]
    with pytest.raises(CreationWriteRefused, match="403 Forbidden"):
        await performer.perform(world.target(), [GROW, MAKE, STATUS])

    assert [request.method for request in world.api.requests] == ["PATCH", "POST"]


async def test_a_pod_that_may_not_be_changed_is_told_with_what_to_do(world: World, performer: Performer) -> None:
    """The right to change every pod is the chart's to leave out; a Rollout that needs it must not wait for a riddle's answer."""
    metadata = Patch(kind=POD, name="a", uid="a-uid", body={"metadata": {}}, content_type=MERGE_PATCH)
    world.api.answers = [says(error(403, "Forbidden", 'User "rollouts" cannot patch resource "pods"'))]
    with pytest.raises(ApiForbidden, match="set the chart's podMetadata, or remove canaryMetadata") as refused:
        await performer.perform(world.target(), [metadata])
    assert 'cannot patch resource "pods"' in str(refused.value)


async def test_no_write_leaves_without_the_lease(world: World, performer: Performer) -> None:
    """A leader that was paused past its lease may wake up anywhere in a pass."""
    world.leads = False
    with pytest.raises(NotLeader):
        await performer.perform(world.target(), [GROW])
    assert world.api.requests == []


async def test_a_replica_set_that_is_ours_already_is_as_good_as_made(world: World, performer: Performer) -> None:
    """The answer to the first attempt may have been lost on its way."""
    ours = ok(5, ownerReferences=owned(), labels=OF_V2)
    world.api.answers = [says(error(409, "AlreadyExists")), says(ours)]
    await performer.perform(world.target(), [MAKE, STATUS])

    assert world.store.is_behind(REPLICA_SET, "shop", "cart-v2")

    assert [request.method for request in world.api.requests] == ["POST", "GET", "PATCH"]


@pytest.mark.parametrize(
    "foreign",
    [
        ok(5, labels=OF_V2),
        ok(5, ownerReferences=owned(uid="an older cart"), labels=OF_V2),
        ok(5, ownerReferences=owned(), labels={"rollouts.dev/revision": "v1"}),
        ok(5, ownerReferences=owned(name="till"), labels=OF_V2),
        ok(5, ownerReferences=[{**owned()[0], "kind": "Job"}], labels=OF_V2),
    ],
)
async def test_a_name_that_another_owner_has_is_never_taken_over(
    foreign: Response, world: World, performer: Performer
) -> None:
    """Adopting somebody's pods would roll out what nobody asked for."""
    world.api.answers = [says(error(409, "AlreadyExists")), says(foreign)]
    with pytest.raises(ApiExists):
        await performer.perform(world.target(), [MAKE, STATUS])


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (ok(5, ownerReferences=owned(), labels=OF_V2, deletionTimestamp="2026-01-01T00:00:00Z"), "is being deleted"),
        (error(404, "NotFound"), "was deleted while"),
    ],
)
async def test_a_replica_set_of_ours_that_goes_is_not_as_good_as_made(
    found: Response, why: str, world: World, performer: Performer
) -> None:
    """Its pods go with it: the next pass makes another one, once the name is free."""
    world.api.answers = [says(error(409, "AlreadyExists")), says(found)]
    with pytest.raises(ApiConflict, match=why):
        await performer.perform(world.target(), [MAKE, STATUS])


@pytest.mark.parametrize("call", [GROW, MAKE, STATUS])
async def test_an_object_that_is_gone_means_that_our_view_is_old(
    call: Patch | Create | WriteStatus, world: World, performer: Performer
) -> None:
    """404 on a write is no verdict about the spec: observe again."""
    world.api.answers = [says(error(404, "NotFound"))]
    with pytest.raises(ApiConflict):
        await performer.perform(world.target(), [call])


@pytest.mark.parametrize(
    ("answer", "failure", "words"),
    [
        (error(422, "Invalid", "metadata.uid: field is immutable"), ApiConflict, "metadata.uid"),
        (
            error(400, "BadRequest", 'strict decoding error: unknown field "spec.more"'),
            ApiInvalid,
            "is older than that field: upgrade it",
        ),
        (error(422, "Invalid", "too long"), ApiInvalid, "too long$"),
    ],
    ids=["another object has the name", "an old CRD", "anything else"],
)
async def test_a_refused_patch_says_whether_to_look_again(
    answer: Response, failure: type[Exception], words: str, world: World, performer: Performer
) -> None:
    """A namesake is a matter of the next pass; a field that the cluster does not know needs a person."""
    world.api.answers = [says(answer)]
    with pytest.raises(failure, match=words):
        await performer.perform(world.target(), [replace(GROW, strict=True)])


async def test_a_replica_set_is_adopted_after_a_live_look_at_the_rollout(world: World, performer: Performer) -> None:
    """The watch may lag: what is adopted for a Rollout that is going would be collected with it."""
    world.api.answers = [says(ok(7, uid=CART_UID)), says(ok(8))]
    assert await performer.perform(world.target("7"), [ADOPT]) == 1

    assert [request.method for request in world.api.requests] == ["GET", "PATCH"]
    assert [request.path.rsplit("/", 1)[-1] for request in world.api.requests] == ["cart", "cart-v1"]


@pytest.mark.parametrize(
    "live",
    [
        ok(9, uid="another"),
        ok(9, uid=CART_UID, deletionTimestamp="2026-01-01T00:00:00Z"),
        error(404, "NotFound"),
    ],
    ids=["another", "going", "gone"],
)
async def test_nothing_is_adopted_for_a_rollout_that_is_not_there_any_more(
    live: Response, world: World, performer: Performer
) -> None:
    """Its pods would go with it, or to a Rollout that somebody else has applied."""
    world.api.answers = [says(live)]
    with pytest.raises(ApiConflict):
        await performer.perform(world.target("7"), [ADOPT])
    assert [request.method for request in world.api.requests] == ["GET"]


async def test_a_rollout_that_is_gone_is_left_alone_until_the_watch_says_so(world: World, performer: Performer) -> None:
    """Or each pass makes a ReplicaSet, the garbage collector takes it, and its end brings the next pass."""
    world.api.answers = [says(error(404, "NotFound"))]
    world.rollouts.put("", rollout())
    with pytest.raises(ApiConflict):
        await performer.perform(world.target(), [STATUS])

    assert world.barrier.holds_back(CART)
    world.rollouts.remove("", rollout(version=9))
    assert not world.barrier.holds_back(CART)


async def test_a_view_that_was_refused_is_not_decided_on_again(world: World, performer: Performer) -> None:
    """The same decision would be refused the same way, however many events of other objects ask for a pass."""
    world.api.answers = [says(error(409, "Conflict"))]
    world.rollouts.put("", rollout(version=7))
    with pytest.raises(ApiConflict):
        await performer.perform(world.target("7"), [STATUS])

    assert world.barrier.holds_back(CART)
    world.rollouts.put("", rollout(version=8))
    assert not world.barrier.holds_back(CART)


async def test_a_refusal_that_no_newer_version_follows_holds_its_key_for_thirty_seconds(
    world: World, performer: Performer
) -> None:
    """A webhook may say Conflict of a Rollout that nobody has changed: its watch has nothing more to show."""
    world.api.answers = [says(error(409, "Conflict"))]
    world.rollouts.put("", rollout(version=7))
    with pytest.raises(ApiConflict):
        await performer.perform(world.target("7"), [STATUS])
    await asyncio.sleep(29)
    assert world.barrier.holds_back(CART)
    await asyncio.sleep(2)
    assert not world.barrier.holds_back(CART)


async def test_deleting_what_is_gone_succeeds_and_deletes_nothing_else(world: World, performer: Performer) -> None:
    """Destructive writes carry uid and resourceVersion: a namesake is left alone."""
    world.api.answers = [says(error(404, "NotFound"))]
    call = Delete(kind=REPLICA_SET, name="cart-v0", uid="v0-uid", resource_version="3")
    assert await performer.perform(world.target(), [call]) == 1

    assert world.api.body(0)["preconditions"] == {"uid": "v0-uid", "resourceVersion": "3"}


async def test_a_refused_eviction_is_an_answer_not_a_failure(world: World, performer: Performer) -> None:
    """A PodDisruptionBudget says "not now"; the rest of the pass goes on and the next one knows."""
    world.api.answers = [says(error(429, "TooManyRequests", "needs 2 healthy pods"))]
    await performer.perform(world.target(), [Evict(pod="cart-v1-abcde", uid="u"), STATUS])

    refusal = world.inbox.refusal(CART)
    assert refusal is not None
    assert refusal.pod == "cart-v1-abcde"
    assert await world.queue.take() == CART

    assert world.api.requests[-1].path.endswith("/status")


@pytest.mark.parametrize("answer", [error(404, "NotFound"), error(409, "Conflict")], ids=["gone", "another pod"])
async def test_a_pod_that_is_gone_needs_no_eviction(answer: Response, world: World, performer: Performer) -> None:
    """The rest of the pass goes on, and the next one lists the pods."""
    world.inbox.put_pods(CART, PodsSeen(0.0, ()))
    world.api.answers = [says(answer)]

    assert await performer.perform(world.target(), [Evict(pod="cart-v1-abcde", uid="u"), STATUS]) == 2
    assert world.inbox.pods(CART) is None


async def test_an_eviction_without_an_answer_makes_the_list_of_pods_old(world: World, performer: Performer) -> None:
    """The pod may have been evicted, and the list still shows it as one that stays."""
    world.api.answers = [says(error(500, "InternalError"))]
    world.inbox.put_pods(CART, PodsSeen(0.0, ()))
    with pytest.raises(ApiUnavailable):
        await performer.perform(world.target(), [Evict(pod="cart-v1-abcde", uid="u")])

    assert world.inbox.pods(CART) is None


async def test_a_pass_waits_until_the_watch_has_shown_its_key_s_last_writes(world: World, performer: Performer) -> None:
    """Deciding on a view from before our own write would repeat it, or undo it."""
    world.api.answers = [says(ok(8))]
    world.replica_sets.put("", replica_set(version=4))
    await performer.perform(world.target(), [GROW])

    assert world.barrier.holds_back(CART)

    world.replica_sets.put("", replica_set(version=6))
    world.barrier.shown(REPLICA_SET, "shop", "cart-v1")

    assert world.barrier.holds_back(CART)

    world.replica_sets.put("", replica_set(version=8))
    world.barrier.shown(REPLICA_SET, "shop", "cart-v1")

    assert await world.queue.take() == CART
    assert not world.barrier.holds_back(CART)


async def test_a_write_that_is_never_shown_holds_its_key_until_the_watch_has_passed_it_by(
    world: World, performer: Performer
) -> None:
    """A lost event must not wedge a Rollout for ever, and a watch that is behind shows what is known to be old."""
    world.api.answers = [says(ok(8))]
    world.rollouts.put("", rollout(version=7))
    await performer.perform(world.target(), [STATUS])

    assert world.barrier.holds_back(CART)
    assert await world.queue.take() == CART
    assert asyncio.get_running_loop().time() == pytest.approx(30.0, abs=0.1)
    assert world.barrier.holds_back(CART)
    world.rollouts.bookmark("", "8")
    assert not world.barrier.holds_back(CART)


async def test_a_service_that_leaves_the_watch_unseen_holds_nobody_back(world: World, performer: Performer) -> None:
    """A Service that our label-filtered watch never had will not be shown by it either."""
    release = Patch(kind=SERVICE, name="web", uid="w", body={}, content_type=MERGE_PATCH, leaves_watch=True)
    await performer.perform(world.target(), [release])

    assert not world.barrier.holds_back(CART)


VERDICTS = WriteStatus(patch={"analyses": [{"run": "cart-b-step-1", "phase": "Pending"}]})


def answered_with(**status: Any) -> Answer:
    """The Rollout after a write of its status, of which a CRD keeps these fields."""
    metadata = {"name": "cart", "uid": "cart-uid", "resourceVersion": "8"}
    return says(Response(200, msgspec.json.encode({"metadata": metadata, "status": status})))


async def test_a_server_that_drops_verdicts_has_an_old_crd(world: World, performer: Performer) -> None:
    """It answers 200 and keeps nothing of them, so no verdict would ever count."""
    world.api.answers = [answered_with(phase="Progressing")]
    with pytest.raises(ApiInvalid, match=r"rollouts crds \| kubectl apply -f -"):
        await performer.perform(world.target("7"), [VERDICTS])


async def test_a_server_that_keeps_verdicts_is_believed(world: World, performer: Performer) -> None:
    """And one that was told of none has nothing to keep."""
    world.api.answers = [answered_with(**VERDICTS.patch), answered_with(phase="Healthy")]
    await performer.perform(world.target("7"), [VERDICTS])
    await performer.perform(world.target("7"), [STATUS])
