"""The worker: one pass, and what becomes of it when something goes wrong."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest
from structlog.testing import capture_logs

from rollouts.controller.act.events import EventSender
from rollouts.controller.act.orphans import Orphans
from rollouts.controller.loop.deferred import DeferredStatus
from rollouts.controller.loop.refusals import with_help
from rollouts.controller.loop.worker import Worker
from rollouts.controller.observe.observer import Observation, Observer
from rollouts.core.model.status import RolloutStatus
from rollouts.errors import ApiForbidden, Delays
from rollouts.objects import Key
from rollouts.ports import Request, Response
from rollouts.telemetry import Telemetry
from tests.controller.world import CART, CART_UID, World, error, ok, rollout, says, service, stored

pytestmark = pytest.mark.virtual_time(limit_s=1_200)

TILL = Key("shop", "till")


class BuggyObserver(Observer):
    """A bug that one object's content sets off."""

    def observe(self, key: Key) -> Observation:
        """Fails for Rollout till."""
        if key == TILL:
            raise RuntimeError("poisoned")
        return super().observe(key)


class Shell:
    """Workers over a scripted API server."""

    def __init__(self, world: World, questions: asyncio.TaskGroup) -> None:
        self.world = world
        self.telemetry = Telemetry()
        self.managed = world.managed
        self.events = EventSender(client=world.client, telemetry=self.telemetry)
        self.worker = Worker(
            queue=world.queue,
            barrier=world.barrier,
            observer=BuggyObserver(store=world.store, inbox=world.inbox, managed=self.managed, clock=world.clock),
            inbox=world.inbox,
            performer=world.performer(questions),
            orphans=Orphans(client=world.client, store=world.store, barrier=world.barrier, managed=self.managed),
            deferred=DeferredStatus(clock=world.clock),
            events=self.events,
            telemetry=self.telemetry,
            clock=world.clock,
            identity="me",
        )

    async def passes(self, *keys: Key) -> None:
        """Hands the keys to one worker, which goes home after them."""
        for key in keys:
            self.world.queue.add(key)
        task = asyncio.create_task(self.worker.run())
        while (len(self.world.queue) or self.world.queue.active) and not task.done():  # noqa: ASYNC110 - turns of the loop
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})

    async def next_in_s(self) -> float:
        """Virtual seconds until the queue hands a key out again."""
        began_s = asyncio.get_running_loop().time()
        key = await self.world.queue.take()
        assert key is not None
        self.world.queue.done(key)
        return asyncio.get_running_loop().time() - began_s


@pytest.fixture
async def shell(world: World) -> AsyncIterator[Shell]:
    """Over an API server that says yes to everything."""
    async with asyncio.TaskGroup() as questions:
        yield Shell(world, questions)


async def test_a_new_rollout_gets_its_replica_set_and_then_its_status(shell: Shell) -> None:
    """The whole picture once: observe, decide, render, act, one line."""
    shell.world.rollouts.put("", rollout())
    with capture_logs() as lines:
        await shell.passes(CART)

    assert [line["event"] for line in lines] == ["reconciled"]
    assert lines[0]["rollout"] == "shop/cart"
    assert lines[0]["intents"] == ("CreateReplicaSet",)
    assert lines[0]["writes"] == 2

    assert [(request.method, request.path.rsplit("/", 1)[-1]) for request in shell.world.api.requests] == [
        ("POST", "replicasets"),
        ("PATCH", "status"),
    ]


async def test_a_pass_over_a_settled_world_writes_nothing(shell: Shell) -> None:
    """An idle Rollout costs no request."""
    world = shell.world
    world.rollouts.put("", rollout())
    await shell.passes(CART)
    made, wrote = (msgspec.json.decode(request.body) for request in world.api.requests)
    world.replica_sets.put("", stored(made, version=100))
    world.rollouts.put("", rollout(version=100, status=wrote["status"]))
    asked = len(world.api.requests)
    await shell.passes(CART)

    assert len(world.api.requests) == asked


async def test_one_poisoned_object_does_not_stop_the_others(shell: Shell) -> None:
    """No content of an object may end the process or hold up another Rollout; it is tried again, slowly."""
    shell.world.rollouts.put("", rollout())
    with capture_logs() as lines:
        await shell.passes(TILL, CART)

    assert [line["event"] for line in lines] == ["reconcile_crashed", "reconciled"]
    assert b'rollouts_pass_errors_total{error="RuntimeError"} 1.0' in shell.telemetry.exposition()
    shell.world.queue.forget(CART)
    assert await shell.next_in_s() == pytest.approx(Delays().crashed_s, abs=0.1)


async def test_a_refusal_becomes_a_condition_and_is_not_repeated_at_once(shell: Shell) -> None:
    """The user must see who has to change what; trying again at once would only fill the audit log."""
    said = 'User "rollouts" cannot create resource "replicasets" in API group "apps" in the namespace "shop"'
    shell.world.api.answers = [says(error(403, "Forbidden", said))]
    shell.world.rollouts.put("", rollout())
    with capture_logs() as lines:
        await shell.passes(CART)

    assert (lines[0]["event"], lines[0]["reason"]) == ("write_refused", "ApiForbidden")
    assert await shell.next_in_s() == pytest.approx(10.0, abs=0.1), "then it is Stalled"
    create, status = shell.world.api.requests
    patch = msgspec.json.decode(status.body)["status"]
    conditions = {condition["type"]: condition for condition in patch["conditions"]}

    assert create.method == "POST"
    assert conditions["RevisionRefused"]["status"] == "True"
    assert conditions["RevisionRefused"]["message"].endswith("grant the controller create of replicasets.apps")
    assert patch["waitingFor"]["reason"] == "ApiForbidden"


@pytest.mark.parametrize(
    ("said", "helps"),
    [
        ("exceeded quota: small, requested: pods=1", "raise the ResourceQuota, or delete what counts in it"),
        (
            'admission webhook "gate" denied the request: no',
            "change what it names, or ask who runs that policy for an exemption",
        ),
        ("ValidatingAdmissionPolicy 'gate' denied request: no", "ask who runs that policy for an exemption"),
        ("the namespace is being terminated", "the namespace is being terminated"),
    ],
)
def test_behind_a_refusal_stands_what_helps(said: str, helps: str) -> None:
    """Where the server's words tell who refuses; nothing is guessed elsewhere."""
    error_said = ApiForbidden(f"POST /apis/apps/v1/namespaces/shop/replicasets: 403 Forbidden {said}")

    assert with_help(error_said).endswith(helps)
    assert with_help(ApiForbidden(f"words of ours: {said}")) == f"words of ours: {said}"


async def test_a_failed_write_is_tried_again_soon(shell: Shell) -> None:
    """A 5xx says nothing about the spec."""
    shell.world.api.answers = [says(error(500, "InternalError"))]
    shell.world.rollouts.put("", rollout())
    with capture_logs() as lines:
        await shell.passes(CART)

    assert [line["event"] for line in lines] == ["reconcile_failed"], "and no line of a pass that is over"
    assert await shell.next_in_s() <= 0.05
    assert len(shell.world.api.requests) == 1


async def test_an_invalid_spec_is_reported_whole_and_nothing_else_is_touched(shell: Shell) -> None:
    """The running revision stays as it is while the user mends the spec."""
    shell.world.rollouts.put("", rollout(spec={"replicas": -1, "strategy": {}}))
    await shell.passes(CART)
    (status,) = shell.world.api.requests
    patch = msgspec.json.decode(status.body)["status"]

    assert status.path.endswith("/status")
    assert "spec.replicas" in patch["message"]
    assert "spec.strategy" in patch["message"]


async def test_changed_pod_counts_alone_wait_for_five_seconds(shell: Shell) -> None:
    """Counts change with every pod; a write costs the API server as much as one that matters."""
    world = shell.world
    world.rollouts.put("", rollout())
    await shell.passes(CART)
    made, wrote = (msgspec.json.decode(request.body) for request in world.api.requests)
    status = wrote["status"] | {"replicas": 1}  # the ReplicaSet below has none
    world.replica_sets.put("", stored(made, version=100))
    world.rollouts.put("", rollout(version=100, status=status))
    await shell.passes(CART)
    assert len(world.api.requests) == 2
    assert await shell.next_in_s() == pytest.approx(5.0, abs=0.1)
    await shell.passes(CART)
    assert len(world.api.requests) == 3


async def test_a_deleted_rollout_gives_its_services_back(shell: Shell) -> None:
    """Its selector would name one revision's pods for ever."""
    shell.world.api.answers = [says(error(404, "NotFound"))]
    world = shell.world
    managed = service("web", version=3, managed_by="cart", **{"rollouts.dev/revision": "v1"})
    world.rollouts.replace("", [], "5")
    world.services.replace("", [managed], "5")
    shell.managed.learn(None, managed)
    await shell.passes(CART)
    get, patch = world.api.requests
    body = msgspec.json.decode(patch.body)

    assert get.path.endswith("/rollouts/cart")
    assert patch.path.endswith("/services/web")
    assert body["spec"] == {"selector": {"rollouts.dev/revision": None, "pod-template-hash": None}}
    assert body["metadata"]["resourceVersion"] == "3"


async def test_a_deleted_rollout_is_no_longer_counted_while_its_services_wait(shell: Shell) -> None:
    """A pass that was under way when it went shows it once more; with a Service that cannot be given back it stayed for good."""
    managed = service("web", version=3, managed_by="cart")
    shell.world.api.answers = [says(error(403, "Forbidden"))]
    shell.world.rollouts.replace("", [], "5")
    shell.world.services.replace("", [managed], "5")
    shell.managed.learn(None, managed)
    shell.telemetry.show(CART, RolloutStatus())
    await shell.passes(CART)

    assert b"rollouts_phase{" not in shell.telemetry.exposition()


@pytest.mark.parametrize("synced", [True, False])
async def test_a_service_is_never_given_back_on_a_doubt(synced: bool, shell: Shell) -> None:
    """An API error, or a store that is not complete yet, is not "the Rollout is gone"."""
    shell.world.api.answers = [says(error(403, "Forbidden"))]
    managed = service("web", version=3, managed_by="cart")
    if synced:
        shell.world.rollouts.replace("", [], "5")
        shell.world.services.replace("", [managed], "5")
    shell.managed.learn(None, managed)
    await shell.passes(CART)

    assert [request.method for request in shell.world.api.requests] == (["GET"] if synced else [])


async def test_events_are_sent_beside_the_passes_and_never_fail_one(shell: Shell) -> None:
    """An admission webhook that refuses Events must not stop a rollout."""

    def answer(request: Request) -> Response:
        return error(403, "Forbidden") if request.path.endswith("/events") else ok(50, uid=CART_UID)

    shell.world.api.otherwise = answer
    sending = asyncio.create_task(shell.events.run())
    shell.world.rollouts.put("", rollout())
    with capture_logs() as lines:
        await shell.passes(CART)
        await shell.events.drained(deadline_s=5.0)
    sending.cancel()

    assert [line["event"] for line in lines if line["log_level"] != "debug"] == ["reconciled"]
    assert {line["namespace"] for line in lines if line["event"] == "event_dropped"} == {CART.namespace}
    assert b'rollouts_events_dropped_total{why="ApiForbidden"}' in shell.telemetry.exposition()
    paths = [request.path.rsplit("/", 1)[-1] for request in shell.world.api.requests]

    assert "events" in paths
