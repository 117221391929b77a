"""Promise: questions are asked beside the writes, and answered through the inbox, to the pass that asked and to no other."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from rollouts.cluster.decoding import decode
from rollouts.cluster.structs import WorkloadObject
from rollouts.controller.act.answers import ASK_AGAIN, AUTOSCALING_AGAIN_S, STARTS_AT_ONCE
from rollouts.controller.act.calls import Patch, WriteStatus
from rollouts.controller.act.performer import Performer
from rollouts.controller.observe.in_place import template_hash_of
from rollouts.controller.workqueue.inbox import POLICY_ANSWER_S, SetsAnswer, WorkloadAnswer
from rollouts.core.model.autoscaling import AutoscalingGate
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import (
    AskAutoscaling,
    AskHold,
    AskPods,
    AskReplicaSets,
    AskService,
    AskWorkload,
    EvictPod,
)
from rollouts.core.model.workload import HoldSeen, NamedReplicaSet
from rollouts.core.model.workload_ref import WorkloadKind
from rollouts.manifests.in_place import hold_question
from rollouts.objects import DEPLOYMENT, SERVICE
from rollouts.ports import MERGE_PATCH, Request, Response
from rollouts.sim.clock import EPOCH_S
from tests.controller.world import (
    CART,
    Answer,
    World,
    answered,
    error,
    metadata,
    obj,
    ok,
    owned,
    replica_set,
    says,
    service,
)

pytestmark = pytest.mark.virtual_time

STATUS = WriteStatus(patch={"phase": "Healthy"})
GATE = AutoscalingGate(settled=True)
NONE = msgspec.json.encode({"metadata": {"resourceVersion": "9"}, "items": []})


async def test_an_answer_is_for_the_gate_that_asked(world: World, performer: Performer) -> None:
    """Another gate may be about another container."""
    world.api.answers = [says(Response(200, NONE))]
    await performer.perform(world.target(), [AskAutoscaling(GATE)])
    assert await world.queue.take() == CART

    seen = world.inbox.autoscaling(CART, GATE)
    assert seen is not None
    assert (seen.autoscalers, seen.use, seen.message) == ((), None, "")
    assert world.inbox.autoscaling(CART, AutoscalingGate(min_headroom_percent=1)) is None
    world.inbox.forget(CART)
    assert world.inbox.autoscaling(CART, GATE) is None


async def test_an_answer_that_is_no_news_wakes_its_pass_a_second_later(world: World, performer: Performer) -> None:
    """The lists are shared for a while: a pass that finds the same one too old asks again at once, and again."""
    world.api.answers = [says(Response(200, NONE)), says(Response(200, NONE))]
    await performer.perform(world.target(), [AskAutoscaling(GATE)])
    await world.queue.take()
    world.queue.done(CART)
    first = world.inbox.autoscaling(CART, GATE)

    await performer.perform(world.target(), [AskAutoscaling(GATE)])
    asked_s = world.clock.monotonic_s()
    await world.queue.take()

    assert world.clock.monotonic_s() - asked_s >= AUTOSCALING_AGAIN_S
    assert world.inbox.autoscaling(CART, GATE) == first
    assert len(world.api.requests) == 1

    world.queue.done(CART)
    await asyncio.sleep(20)  # virtual: the lists are read anew
    await performer.perform(world.target(), [AskAutoscaling(GATE)])
    await world.queue.take()
    assert first is not None
    assert world.inbox.autoscaling(CART, GATE) == replace(first, at_s=world.clock.now_s())


async def test_a_question_holds_up_no_write_and_its_answer_wakes_the_key(world: World, performer: Performer) -> None:
    """A slow answer must never delay a reconcile."""

    def reply(request: Request) -> Response:
        return Response(200, msgspec.json.encode(service("web"))) if "services" in request.path else ok(8)

    world.api.answers = [reply, reply, reply]
    assert await performer.perform(world.target(), [AskService("web"), AskService("web"), STATUS]) == 1
    assert world.api.requests[0].path.endswith("/status")
    assert world.inbox.service(CART, "web") is None

    assert await world.queue.take() == CART
    answer = world.inbox.service(CART, "web")
    assert answer is not None
    assert answer.service is not None

    await answered()
    assert len(world.api.requests) == 2  # the same question is asked once at a time


async def test_questions_of_a_start_are_asked_few_at_a_time_and_those_that_wait_are_no_tasks(
    world: World, performer: Performer
) -> None:
    """A controller that starts asks about each workload in place: a thousand tasks would cost memory that it keeps."""
    before = len(asyncio.all_tasks())
    asks = [AskHold(WorkloadKind.DEPLOYMENT, f"web-{number}", f"uid-{number}") for number in range(3 * STARTS_AT_ONCE)]
    world.api.otherwise = says(Response(200, b'{"spec": {"paused": true}}'))
    await performer.perform(world.target(), [*asks, *asks])

    assert len(asyncio.all_tasks()) == before + STARTS_AT_ONCE
    await asyncio.sleep(0)
    assert len(world.api.requests) == STARTS_AT_ONCE
    await answered()
    assert len(world.api.requests) == len(asks)
    await performer.perform(world.target(), asks[:1])  # there is room again
    await answered()
    assert len(world.api.requests) == len(asks) + 1


def resting(kind: WorkloadKind, name: str, spec: dict[str, Any]) -> WorkloadObject:
    """A workload as a watch shows it; its uid is that of its name."""
    found: WorkloadObject = obj(kind.resource, {"metadata": metadata(name), "spec": spec})
    return found


def holds(kind: WorkloadKind) -> Response:
    """The answer to the question where a policy holds, or the workload does itself."""
    on_delete = kind is not WorkloadKind.DEPLOYMENT
    held = {"updateStrategy": {"type": "OnDelete"}} if on_delete else {"paused": True}
    return Response(200, msgspec.json.encode({"spec": held}))


async def test_one_yes_does_for_all_of_a_kind_and_a_namespace_that_ask_at_the_same_time(
    world: World, performer: Performer
) -> None:
    """A controller that starts asks about all of them; ten seconds later each is asked about again."""
    kind = WorkloadKind.DEPLOYMENT
    world.store.add(DEPLOYMENT, WorkloadObject)
    for number in range(9):
        world.store.table(DEPLOYMENT).put("", resting(kind, f"web-{number}", {}))
    asks = [AskHold(kind, f"web-{number}", f"web-{number}-uid") for number in range(9)]
    world.api.otherwise = says(holds(kind))
    await performer.perform(world.target(), asks)
    await answered()

    assert [request.path.rpartition("/")[2] for request in world.api.requests] == ["web-0"]
    answer = world.inbox.policy("shop", kind)
    assert answer == HoldSeen(at_s=EPOCH_S, works=True, since_s=EPOCH_S)
    assert [world.inbox.policy("shop", WorkloadKind.DAEMON_SET), world.inbox.policy("till", kind)] == [None, None]
    await asyncio.sleep(POLICY_ANSWER_S)
    assert world.inbox.policy("shop", kind) is None
    await performer.perform(world.target(), asks[1:2])
    await answered()
    assert len(world.api.requests) == 2


@pytest.mark.parametrize(
    ("kind", "spec", "reply"),
    [
        (WorkloadKind.DEPLOYMENT, {"paused": True}, holds(WorkloadKind.DEPLOYMENT)),
        (WorkloadKind.STATEFUL_SET, {"updateStrategy": {"type": "OnDelete"}}, holds(WorkloadKind.STATEFUL_SET)),
        (WorkloadKind.DAEMON_SET, {"updateStrategy": {"type": "OnDelete"}}, holds(WorkloadKind.DAEMON_SET)),
        (WorkloadKind.DEPLOYMENT, {}, Response(200, b'{"spec": {}}')),
        (WorkloadKind.DEPLOYMENT, {}, error(403, "Forbidden")),
    ],
    ids=["paused", "partition OnDelete", "nodes OnDelete", "a no", "refused"],
)
async def test_what_says_nothing_about_the_policy_is_an_answer_about_one_workload(
    kind: WorkloadKind, spec: dict[str, Any], reply: Response, world: World, performer: Performer
) -> None:
    """One that its own fields hold says yes in any case; a no may come from what only this one has, such as a webhook."""
    world.store.add(kind.resource, WorkloadObject)
    for name in ("web-0", "web-1"):
        world.store.table(kind.resource).put("", resting(kind, name, spec))
    world.api.otherwise = says(reply)
    await performer.perform(world.target(), [AskHold(kind, name, f"{name}-uid") for name in ("web-0", "web-1")])
    await answered()

    assert len(world.api.requests) == 2
    assert world.inbox.policy("shop", kind) is None


async def test_a_workload_that_rests_by_its_own_fields_is_asked_about_itself(
    world: World, performer: Performer
) -> None:
    """It was paused because of a no: the policy that holds others may not hold this one."""
    kind = WorkloadKind.DEPLOYMENT
    world.store.add(DEPLOYMENT, WorkloadObject)
    for name, spec in (("web-0", {}), ("web-1", {"paused": True})):
        world.store.table(DEPLOYMENT).put("", resting(kind, name, spec))
    world.api.answers = [says(holds(kind)), says(Response(200, b'{"spec": {}}'))]
    await performer.perform(world.target(), [AskHold(kind, name, f"{name}-uid") for name in ("web-0", "web-1")])
    await answered()

    answer = world.inbox.hold(CART, "web-1-uid")
    assert answer is not None
    assert not answer.works


async def test_an_absent_service_is_an_answer_and_an_error_is_none(world: World, performer: Performer) -> None:
    """An API error is never read as "absent"."""
    world.api.answers = [says(error(404, "NotFound")), says(error(403, "Forbidden"))]
    await performer.perform(world.target(), [AskService("gone"), AskService("secret")])
    assert await world.queue.take() == CART

    answer = world.inbox.service(CART, "gone")
    assert answer is not None
    assert answer.service is None
    assert world.inbox.service(CART, "secret") is None


@pytest.mark.parametrize(
    ("kind", "reply", "works", "why"),
    [
        (WorkloadKind.DEPLOYMENT, Response(200, b'{"spec": {"paused": true}}'), True, ""),
        (WorkloadKind.DEPLOYMENT, Response(200, b'{"spec": {}}'), False, ""),
        (WorkloadKind.DAEMON_SET, Response(200, b'{"spec": {"updateStrategy": {"type": "OnDelete"}}}'), True, ""),
        (WorkloadKind.DEPLOYMENT, error(403, "Forbidden"), False,
            "PATCH /apis/apps/v1/namespaces/shop/deployments/web: 403 Forbidden no"),
    ],
)  # fmt: skip
async def test_a_dry_run_tells_what_holds_a_workload(
    kind: WorkloadKind, reply: Response, works: bool, why: str, world: World, performer: Performer
) -> None:
    """Of that workload: one that was made again is asked about again. What refuses the question holds nothing."""
    world.api.answers = [says(reply)]
    await performer.perform(world.target(), [AskHold(kind, "web", "uid-1")])
    assert await world.queue.take() == CART

    (request,) = world.api.requests
    assert (request.method, request.query.get("dryRun")) == ("PATCH", "All")
    assert request.path == f"/apis/apps/v1/namespaces/shop/{kind.resource.plural}/web"
    assert world.api.body(0) == hold_question(kind, "uid-1")
    assert world.inbox.hold(CART, "uid-1") == HoldSeen(at_s=EPOCH_S, works=works, since_s=EPOCH_S, message=why)
    assert world.inbox.hold(CART, "uid-2") is None


DEPLOYED = {
    "metadata": {"name": "web", "namespace": "shop", "uid": "uid-1"},
    "spec": {"template": {"metadata": {"labels": {"app": "cart"}}}},
}


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        (Response(200, msgspec.json.encode(DEPLOYED)),
            {"workload": decode(DEPLOYMENT, msgspec.json.encode(DEPLOYED))}),
        (error(404, "NotFound"), {}),
        (error(403, "Forbidden"), {"forbidden": "the controller may not read deployments: name them in the chart's value "
            "workloads: [deployments]: GET /apis/apps/v1/namespaces/shop/deployments/web: 403 Forbidden no"}),
    ],
    ids=["there", "not there", "forbidden"],
)  # fmt: skip
async def test_a_workload_that_may_not_be_read_is_told_with_what_grants_it(
    reply: Response, answer: dict[str, Any], world: World, performer: Performer
) -> None:
    """A refusal is no absence."""
    world.api.answers = [says(reply)]
    await performer.perform(world.target(), [AskWorkload(WorkloadKind.DEPLOYMENT, "web")])
    assert await world.queue.take() == CART

    wanted = WorkloadAnswer(kind=WorkloadKind.DEPLOYMENT, name="web", asked_s=world.clock.monotonic_s(), **answer)
    assert world.inbox.of(CART).workload == wanted


async def test_the_replica_sets_of_a_deployment_are_listed_page_by_page(world: World, performer: Performer) -> None:
    """Of one that is there: that it has gone the watch says. Those that the Rollout controls count, too."""
    world.store.add(DEPLOYMENT, WorkloadObject)
    ask = AskReplicaSets("web", "app=cart")
    await performer.perform(world.target(), [ask])
    assert await world.queue.take() == CART
    world.queue.done(CART)
    assert (world.api.requests, world.inbox.sets(CART, watched=())) == ([], None)

    shown = decode(DEPLOYMENT, msgspec.json.encode(DEPLOYED))
    world.store.table(DEPLOYMENT).put("", shown)
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "uid-1", "controller": True}
    inside = {"metadata": {"name": "a", "uid": "u-a", "ownerReferences": [owner]}, "spec": {"replicas": 2}}
    beside = {
        "metadata": {"name": "b", "ownerReferences": owned(), "labels": {"pod-template-hash": "n"}},
        "spec": DEPLOYED["spec"],
    }
    pages = [{"metadata": {"continue": "more"}, "items": [inside]}, {"metadata": {}, "items": [beside]}]
    world.api.answers = [says(Response(200, msgspec.json.encode(page))) for page in pages]
    await performer.perform(world.target(), [ask])
    assert await world.queue.take() == CART

    assert [each.query.get("labelSelector") for each in world.api.requests] == ["app=cart"] * 2
    assert [each.query.get("continue") for each in world.api.requests] == [None, "more"]
    assert world.inbox.sets(CART, watched=()) == SetsAnswer(
        asked_s=world.clock.monotonic_s(), template_hash=template_hash_of(shown), held=False, revision="n",
        sets=(NamedReplicaSet("a", "u-a"),),
    )  # fmt: skip


async def test_the_same_answer_again_is_as_old_as_the_first(world: World, performer: Performer) -> None:
    """By that a first no is asked again soon, and an old one is not; another answer, or another Deployment, is a first one."""
    no, yes = (Response(200, msgspec.json.encode({"spec": {"paused": paused}})) for paused in (False, True))
    since_s = []
    for reply, uid in ((no, "uid-1"), (no, "uid-1"), (yes, "uid-1"), (no, "uid-2")):
        await asyncio.sleep(7)
        world.api.answers = [says(reply)]
        await performer.perform(world.target(), [AskHold(WorkloadKind.DEPLOYMENT, "cart", uid)])
        assert await world.queue.take() == CART
        world.queue.done(CART)
        answer = world.inbox.hold(CART, uid)
        assert answer is not None and answer.since_s is not None
        since_s.append(answer.since_s)

    assert [at_s - since_s[0] for at_s in since_s] == [0, 0, 14, 21]


async def test_only_pods_of_our_replica_sets_are_seen(world: World, performer: Performer) -> None:
    """A stray pod with our labels is not evicted, relabelled or counted, whatever it says of its owner."""

    def pod(name: str, /, **owner: object) -> dict[str, object]:
        true = {"kind": "ReplicaSet", "name": "cart-v1", "uid": "cart-v1-uid", "controller": True}
        references = [{"apiVersion": "apps/v1", **true, **owner}]
        waiting = {"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}
        metadata = {"labels": {"rollouts.dev/revision": "v1"}, "ownerReferences": references}
        return {
            "metadata": {"name": name, "namespace": "shop", "uid": name, **metadata},
            "status": {"phase": "Pending", "containerStatuses": [waiting]},
        }

    lies: tuple[dict[str, Any], ...] = (
        {"uid": "someone's"},
        {"name": "other"},
        {"kind": "Job"},
        {"apiVersion": "x/v1"},
        {"controller": False},
    )
    items = [pod("a"), *(pod(f"b{at}", **lie) for at, lie in enumerate(lies))]
    listed = {"metadata": {"resourceVersion": "9"}, "items": items}
    world.api.answers = [says(Response(200, msgspec.json.encode(listed)))]
    world.replica_sets.put("", replica_set())
    await performer.perform(world.target(), [AskPods()])
    await world.queue.take()

    seen = world.inbox.pods.get(CART)
    assert seen is not None
    assert [(each.name, each.revision, each.problem) for each in seen.pods] == [
        ("a", "v1", "ImagePullBackOff: no such image")
    ]


async def test_an_answer_about_a_service_lasts_10_s_or_until_we_write_to_it(world: World, performer: Performer) -> None:
    """The Service is not watched: an old answer may name a resourceVersion that is long gone."""
    reply = says(Response(200, msgspec.json.encode(service("web"))))
    world.api.answers = [reply, says(ok(3)), reply]
    ask = [AskService("web")]
    await performer.perform(world.target(), ask)
    await world.queue.take()
    world.queue.done(CART)

    assert world.inbox.service(CART, "web") is not None

    point = Patch(kind=SERVICE, name="web", uid="web-uid", body={}, content_type=MERGE_PATCH)
    await performer.perform(world.target(), [point])

    assert world.inbox.service(CART, "web") is None

    await performer.perform(world.target(), ask)
    await world.queue.take()
    await asyncio.sleep(10.5)  # virtual

    assert world.inbox.service(CART, "web") is None


async def test_what_the_inbox_knows_of_a_rollout_goes_with_it(world: World, performer: Performer) -> None:
    """Memory must not grow with Rollouts that come and go."""
    world.api.answers = [says(error(429, "TooManyRequests")), says(error(404, "NotFound"))]
    await performer.perform(world.target(), [AskService("web"), EvictPod(name="p", uid="u")])
    await world.queue.take()
    world.inbox.forget(CART)

    assert world.inbox.service(CART, "web") is None
    assert world.inbox.of(CART).eviction_refused is None
    assert world.inbox.service_askers.of(("shop", "web")) == frozenset()


@pytest.mark.parametrize(
    "answer",
    [
        Response(200, b'{"metadata":{"name":"web","labels":%b}}' % (b"[" * 1_100 + b"]" * 1_100)),
        Response(200, b'{"metadata":{"name":"web","resourceVersion":"seven"}}'),
        Response(200, b"[" * 9_000),
        Response(200, b"\xff"),
        Response(403, b"[" * 9_000),
    ],
    ids=["deep", "no version", "endless", "no text", "deep error"],
)
async def test_an_unreadable_answer_ends_nothing_else(answer: Response, world: World, performer: Performer) -> None:
    """One hostile object that a Rollout names ended the questions of all, and with them the leader."""
    world.api.answers = [lambda _request: answer]
    await performer.perform(world.target(), [AskService(name="web")])
    await asyncio.sleep(1)
    world.api.answers = [lambda _request: ok(4)]
    await performer.perform(world.target(), [AskService(name="other")])
    await asyncio.sleep(1)
    assert world.inbox.service(CART, "web") is None
    assert world.inbox.service(CART, "other") is not None


def crashes(_request: Request) -> Response:
    """A bug that an answer brings out."""
    raise RuntimeError("a bug")


@pytest.mark.parametrize(
    ("answer", "again_s"),
    [
        (crashes, ASK_AGAIN.crashed_s),
        (says(error(403, "Forbidden")), ASK_AGAIN.forbidden_s),
        (says(Response(200, b"<html>")), ASK_AGAIN.transient_s),
    ],
    ids=["a bug", "a missing right", "no API server"],
)
async def test_a_question_that_fails_is_its_rollouts_trouble_alone(
    answer: Answer, again_s: float, world: World, performer: Performer
) -> None:
    """The key comes again later, and the group of questions lives."""
    world.api.answers = [answer]
    began_s = asyncio.get_running_loop().time()
    await performer.perform(world.target(), [AskService(name="web")])

    assert await world.queue.take() == CART
    assert asyncio.get_running_loop().time() - began_s == pytest.approx(again_s, abs=0.1)
