"""Act: writes go out one at a time, stopping at the first failure."""

from __future__ import annotations

import asyncio
from typing import Any, TypeAlias

import msgspec
import pytest

from rollouts.api.status.wire import status_to_wire
from rollouts.cluster.structs import WorkloadObject
from rollouts.controller.act.calls import (
    Adopt,
    Create,
    Delete,
    Patch,
    RemoveRolloutAnnotation,
    Write,
    WriteStatus,
)
from rollouts.controller.act.performer import CreationWriteRefused, Performer
from rollouts.controller.act.render import render, render_status
from rollouts.controller.workqueue.inbox import WorkloadAnswer
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import EvictPod, ReleaseService, RemoveAnnotation
from rollouts.core.model.rollout import Canary
from rollouts.core.model.snapshot import PodsSeen
from rollouts.core.model.status import Phase, RolloutStatus, Verb
from rollouts.core.model.workload_ref import WorkloadKind
from rollouts.errors import ApiConflict, ApiExists, ApiForbidden, ApiInvalid, ApiUnavailable, NotLeader
from rollouts.objects import DEPLOYMENT, POD, REPLICA_SET, SERVICE
from rollouts.ports import JSON_PATCH, MERGE_PATCH, Request, Response
from tests.controller.world import (
    CART,
    CART_UID,
    World,
    error,
    metadata,
    obj,
    ok,
    owned,
    rendered,
    replica_set,
    rollout,
    says,
    service,
)
from tests.core.model import snapshot
from tests.core.worlds import running

pytestmark = pytest.mark.virtual_time

GROW = Patch(
    kind=REPLICA_SET, name="cart-v1", uid="cart-v1-uid", body={"spec": {"replicas": 3}}, content_type=MERGE_PATCH
)
MAKE = Create(
    kind=REPLICA_SET, name="cart-v2", manifest={"metadata": {"name": "cart-v2"}}, owner_uid=CART_UID, revision="v2"
)
ADOPT = Adopt(GROW)
OF_V1, OF_V2 = ({"rollouts.dev/revision": each} for each in ("v1", "v2"))
STATUS = WriteStatus(patch={"phase": "Healthy"})


async def test_status_is_written_last_and_against_the_version_decided_on(world: World, performer: Performer) -> None:
    """A stale plan gets a 409 rather than overwriting what somebody else has decided since."""
    assert await performer.perform(world.target("7"), [GROW, STATUS]) == 2

    assert [request.path.rsplit("/", 2)[-1] for request in world.api.requests] == ["cart-v1", "status"]
    assert [request.query for request in world.api.requests] == [{"fieldManager": "rollouts"}] * 2
    assert world.api.body(1) == {"metadata": {"resourceVersion": "7"}, "status": {"phase": "Healthy"}}


async def test_writes_to_the_rollout_continue_from_the_last_ones_version(world: World, performer: Performer) -> None:
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


async def test_a_command_that_goes_takes_the_note_of_who_gave_it_along(world: World, performer: Performer) -> None:
    """Also where no policy removes it: a note without its command would stand beside the next one."""
    world.api.answers = [says(ok(8))]
    noted = {"promote": "true", "promote-by": "alice"}
    seen = snapshot(running(Canary()))
    seen = replace(seen, rollout=replace(seen.rollout, annotations=noted))
    await performer.perform(world.target("7"), render(seen, RemoveAnnotation(verb=Verb.PROMOTE, value="true")))

    removed = [each["path"].rpartition("~1")[2] for each in world.api.body(0) if each["op"] == "remove"]
    assert removed == ["promote", "promote-by"]


GOING = "2026-01-01T00:00:00Z"
EXISTS, NOT_FOUND, FORBIDDEN = error(409, "AlreadyExists"), error(404, "NotFound"), error(403, "Forbidden")
OLD_CRD = error(400, "BadRequest", 'strict decoding error: unknown field "spec.more"')
STRICT = replace(GROW, strict=True)
VERDICTS = WriteStatus(patch={"analyses": [{"run": "cart-b-step-1", "phase": "Pending"}]})


def made(**metadata: Any) -> Response:
    """The ReplicaSet that has the name already: ours, unless its metadata says otherwise."""
    return ok(5, **{"ownerReferences": owned(), "labels": OF_V2, **metadata})


def kept(**status: Any) -> Response:
    """The Rollout after a write of its status, of which a CRD keeps these fields."""
    metadata = {"name": "cart", "uid": "cart-uid", "resourceVersion": "8"}
    return Response(200, msgspec.json.encode({"metadata": metadata, "status": status}))


Refused: TypeAlias = tuple[list[Write], list[Response], type[Exception], str]
REFUSED: dict[str, Refused] = {
    "a failure stops the rest": ([GROW, MAKE, STATUS], [ok(8), FORBIDDEN], CreationWriteRefused, "403 Forbidden"),
    "nobody owns what has the name": ([MAKE, STATUS], [EXISTS, ok(5, labels=OF_V2)], ApiExists, ""),
    "an older Rollout owns it": ([MAKE, STATUS], [EXISTS, made(ownerReferences=owned(uid="older"))], ApiExists, ""),
    "it is of another revision": ([MAKE, STATUS], [EXISTS, made(labels=OF_V1)], ApiExists, ""),
    "another Rollout owns it": ([MAKE, STATUS], [EXISTS, made(ownerReferences=owned(name="till"))], ApiExists, ""),
    "a Job owns it": ([MAKE, STATUS], [EXISTS, made(ownerReferences=[{**owned()[0], "kind": "Job"}])], ApiExists, ""),
    "ours is going": ([MAKE, STATUS], [EXISTS, made(deletionTimestamp=GOING)], ApiConflict, "is being deleted"),
    "ours went meanwhile": ([MAKE, STATUS], [EXISTS, NOT_FOUND], ApiConflict, "was deleted while"),
    "what is changed is gone": ([GROW], [NOT_FOUND], ApiConflict, ""),
    "the namespace is gone": ([MAKE], [NOT_FOUND], ApiConflict, ""),
    "the Rollout is gone": ([STATUS], [NOT_FOUND], ApiConflict, ""),
    "a namesake": ([STRICT], [error(422, "Invalid", "metadata.uid: field is immutable")], ApiConflict, "metadata.uid"),
    "a field that the CRD lacks": ([STRICT], [OLD_CRD], ApiInvalid, "is older than that field: upgrade it"),
    "a value that is wrong": ([STRICT], [error(422, "Invalid", "too long")], ApiInvalid, "too long$"),
    "adopted for another Rollout": ([ADOPT], [ok(9, uid="another")], ApiConflict, ""),
    "adopted for one that is going": ([ADOPT], [ok(9, uid=CART_UID, deletionTimestamp=GOING)], ApiConflict, ""),
    "adopted for one that is gone": ([ADOPT], [NOT_FOUND], ApiConflict, ""),
    "a CRD that drops verdicts": (
        [VERDICTS],
        [kept(phase="x")],
        ApiInvalid,
        r"rollouts crds \| kubectl apply --server-side",
    ),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
async def test_a_refused_write_is_the_last_of_its_pass(case: Refused, world: World, performer: Performer) -> None:
    """Any prefix of a decision is safe. An old view is looked at again, and nobody's pods are taken over."""
    calls, answers, failure, words = case
    world.api.answers = [says(each) for each in answers]
    with pytest.raises(failure, match=words or None):
        await performer.perform(world.target("7"), calls)

    assert len(world.api.requests) == len(answers)


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
    world.api.answers = [says(EXISTS), says(made())]
    await performer.perform(world.target(), [MAKE, STATUS])

    assert world.store.is_behind(REPLICA_SET, "shop", "cart-v2")

    assert [request.method for request in world.api.requests] == ["POST", "GET", "PATCH"]


async def test_a_replica_set_is_adopted_after_a_live_look_at_the_rollout(world: World, performer: Performer) -> None:
    """The watch may lag: what is adopted for a Rollout that is going would be collected with it."""
    world.api.answers = [says(ok(7, uid=CART_UID)), says(ok(8))]
    assert await performer.perform(world.target("7"), [ADOPT]) == 1

    assert [request.method for request in world.api.requests] == ["GET", "PATCH"]
    assert [request.path.rsplit("/", 1)[-1] for request in world.api.requests] == ["cart", "cart-v1"]


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


async def test_a_refusal_without_a_newer_version_holds_its_key_for_30_s(world: World, performer: Performer) -> None:
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
    await performer.perform(world.target(), [EvictPod(name="cart-v1-abcde", uid="u"), STATUS])

    refusal = world.inbox.of(CART).eviction_refused
    assert refusal is not None
    assert refusal.pod == "cart-v1-abcde"
    assert await world.queue.take() == CART

    assert world.api.requests[-1].path.endswith("/status")


@pytest.mark.parametrize("answer", [error(404, "NotFound"), error(409, "Conflict")], ids=["gone", "another pod"])
async def test_a_pod_that_is_gone_needs_no_eviction(answer: Response, world: World, performer: Performer) -> None:
    """The rest of the pass goes on, and the next one lists the pods."""
    world.inbox.pods[CART] = PodsSeen(0.0, ())
    world.api.answers = [says(answer)]

    assert await performer.perform(world.target(), [EvictPod(name="cart-v1-abcde", uid="u"), STATUS]) == 2
    assert world.inbox.pods.get(CART) is None


async def test_an_eviction_without_an_answer_makes_the_list_of_pods_old(world: World, performer: Performer) -> None:
    """The pod may have been evicted, and the list still shows it as one that stays."""
    world.api.answers = [says(error(500, "InternalError"))]
    world.inbox.pods[CART] = PodsSeen(0.0, ())
    with pytest.raises(ApiUnavailable):
        await performer.perform(world.target(), [EvictPod(name="cart-v1-abcde", uid="u")])

    assert world.inbox.pods.get(CART) is None


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


async def test_an_unseen_write_holds_its_key_until_the_watch_is_beyond_it(world: World, performer: Performer) -> None:
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


async def test_a_release_that_the_watch_showed_before_its_answer_holds_nobody_back(
    world: World, performer: Performer
) -> None:
    """The Service has left the watch, which shows nothing of it again: only its uid tells that this was the end of our own."""
    world.services.put("", service(version=7, managed_by="cart"))

    def leaves_first(_request: Request) -> Response:
        world.services.remove("", service(version=8))
        return ok(8)

    world.api.answers = [leaves_first]
    await performer.perform(world.target(), rendered(ReleaseService(name="web", uid="web-uid", resource_version="7")))

    assert not world.barrier.holds_back(CART)


async def test_a_server_that_keeps_verdicts_is_believed(world: World, performer: Performer) -> None:
    """And one that was told of none has nothing to keep."""
    world.api.answers = [says(kept(**VERDICTS.patch)), says(kept(phase="Healthy"))]
    await performer.perform(world.target("7"), [VERDICTS])
    await performer.perform(world.target("7"), [STATUS])


OURS = {"manager": "rollouts", "operation": "Update", "fieldsV1": {"f:spec": {"f:paused": {}}}}
GIVE_BACK = Patch(
    kind=DEPLOYMENT, name="web", uid="web-uid", body={"spec": {"paused": None}}, content_type=MERGE_PATCH, disowns=True
)


def written(version: int, *, owns: bool = True) -> Response:
    """The Deployment after a write, with our field manager in it or without."""
    metadata = {
        "name": "web",
        "uid": "web-uid",
        "resourceVersion": str(version),
        "managedFields": [OURS] if owns else [],
    }
    return Response(200, msgspec.json.encode({"metadata": metadata, "spec": {}}))


CONFLICT, INVALID = error(409, "Conflict"), error(422, "Invalid")


@pytest.mark.parametrize(
    ("answers", "methods", "seen_at"),
    [
        ([written(8, owns=False)], "PATCH", 8),
        ([written(8), written(9, owns=False)], "PATCH PATCH", 9),
        ([written(8), CONFLICT, written(10), written(11, owns=False)], "PATCH PATCH GET PATCH", 11),
        ([written(8), INVALID, written(10, owns=False)], "PATCH PATCH GET", 10),
        ([written(8), NOT_FOUND], "PATCH PATCH", 8),
        ([written(8), *[CONFLICT, written(9)] * 3], "PATCH" + " PATCH GET" * 3, 9),
    ],
    ids=["nothing is ours", "at once", "a writer in between", "given back by another", "gone", "it goes on changing"],
)
async def test_a_field_that_is_given_back_is_owned_by_nobody_of_ours(
    answers: list[Response], methods: str, seen_at: int, world: World, performer: Performer
) -> None:
    """The next pass waits for the last of these writes; an object that goes on changing holds nobody up."""
    world.store.add(DEPLOYMENT, WorkloadObject).put("", obj(DEPLOYMENT, {"metadata": metadata("web", version=7)}))
    world.api.answers = [says(each) for each in answers]
    assert await performer.perform(world.target(), [GIVE_BACK]) == 1

    assert [each.method for each in world.api.requests] == methods.split()
    assert {each.path for each in world.api.requests} == {"/apis/apps/v1/namespaces/shop/deployments/web"}
    for request in world.api.requests[1:]:
        if request.method == "PATCH":
            assert request.content_type == JSON_PATCH
            assert [each["op"] for each in msgspec.json.decode(request.body)] == ["test", "test", "test", "remove"]
    held = []
    for version in (seen_at - 1, seen_at):
        world.store.table(DEPLOYMENT).put("", obj(DEPLOYMENT, {"metadata": metadata("web", version=version)}))
        held.append(world.barrier.holds_back(CART))
    assert held == [True, False]


@pytest.mark.parametrize("leaves", [False, True])
async def test_a_workload_that_may_not_be_written_is_told_by_the_next_pass(
    leaves: bool, world: World, performer: Performer
) -> None:
    """The pods that run need nothing of it; where it was to be released, nobody waits."""
    world.store.add(DEPLOYMENT, WorkloadObject)
    world.api.answers = [says(FORBIDDEN)]
    assert await performer.perform(world.target(), [replace(GIVE_BACK, leaves_watch=leaves)]) == 1

    told = (
        "the controller may not patch deployments: name them in the chart's value workloads: [deployments]: "
        "PATCH /apis/apps/v1/namespaces/shop/deployments/web: 403 Forbidden no"
    )
    wanted = WorkloadAnswer(
        kind=WorkloadKind.DEPLOYMENT, name="web", asked_s=world.clock.monotonic_s(), forbidden=told
    )  # fmt: skip
    assert world.inbox.of(CART).workload == (None if leaves else wanted)
    assert len(world.queue) == (0 if leaves else 1)


async def test_what_was_read_of_a_workload_is_forgotten_with_a_write_to_it(world: World, performer: Performer) -> None:
    """The next pass would decide by what was there before it."""
    world.store.add(DEPLOYMENT, WorkloadObject)
    world.inbox.put_workload(CART, WorkloadAnswer(kind=WorkloadKind.DEPLOYMENT, name="web", asked_s=0.0))
    world.api.answers = [says(written(8, owns=False))]

    assert await performer.perform(world.target(), [GIVE_BACK]) == 1

    assert world.inbox.of(CART).workload is None
