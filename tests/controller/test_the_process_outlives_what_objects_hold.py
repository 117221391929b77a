"""Whatever one object holds, the process goes on, all other Rollouts are served, and the one concerned says why it is not."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Callable
from typing import Any

import pytest
from structlog.testing import capture_logs

from rollouts.controller.health.readiness import BLIND_MAX_S
from rollouts.controller.wiring import EXIT_BLIND, EXIT_STOPPED, run_controller
from rollouts.controller.workqueue.standing_watches import TEMPLATES, WATCHED_KINDS
from rollouts.core.model.frozen import replace
from rollouts.core.model.status import Verb
from rollouts.manifests.ownership import PREFIX
from rollouts.objects import ANALYSIS_RUN, ENDPOINT_SLICE, EVENT, LEASE, REPLICA_SET, ROLLOUT, SERVICE, Kind, Manifest
from rollouts.ports import ApiServer, Clock, Request, Response, WatchStream
from rollouts.settings import Settings
from rollouts.sim.cluster import SimulatedCluster
from rollouts.sim.faults import FaultyWatches, WatchFaults
from rollouts.telemetry import Telemetry
from tests import build

pytestmark = pytest.mark.virtual_time(limit_s=4_000)

FORBIDDEN = json.dumps({"kind": "Status", "code": 403, "reason": "Forbidden", "message": "may not watch"}).encode()


def rollout(name: str, *, image: str = "app:1", namespace: str = "default", **more: Any) -> Manifest:
    """A blue-green Rollout with a Service of its name."""
    template = build.pod_template(name, image=image, **more)
    return build.rollout({"blueGreen": {"activeService": name}}, name, namespace, template=template)


def served(cluster: SimulatedCluster, name: str, namespace: str = "default", **more: Any) -> None:
    """Applies both."""
    cluster.apply(build.service(name, namespace))
    cluster.apply(rollout(name, namespace=namespace, **more))


def annotate(cluster: SimulatedCluster, kind: Kind, name: str, annotation: str, text: str) -> None:
    """As somebody else."""
    noted = build.manifest(kind, name, "default", metadata={"annotations": {annotation: text}})
    cluster.apply(noted, manager="somebody")


def deep(data: bytes) -> bytes:
    """With lists in lists in place of `deep-LEVELS`: the simulated server itself could not hold them."""
    return re.sub(rb'"deep-(\d+)"', lambda found: b"[" * int(found[1]) + b"]" * int(found[1]), data)


class Spoiling:
    """An API server whose watch lines and lists are spoilt on the way, by kind and name, and whose watches may be refused."""

    def __init__(self, api: ApiServer) -> None:
        self.api = api
        self.spoilt: set[tuple[str, str]] = set()
        self.refused: set[str] = set()
        self.watches = 0
        self.streams: list[SpoilingStream] = []

    async def request(self, request: Request, *, deadline_s: float) -> Response:
        if request.method == "GET" and any(request.path.endswith(each) for each in self.refused):
            return Response(403, FORBIDDEN)
        answer = await self.api.request(request, deadline_s=deadline_s)
        return replace(answer, body=deep(answer.body))

    async def open_watch(self, request: Request, *, deadline_s: float, silence_s: float) -> WatchStream:
        self.watches += 1
        plural = request.path.rpartition("/")[2]
        if any(request.path.endswith(each) for each in self.refused):
            return Refused()
        watched = await self.api.open_watch(request, deadline_s=deadline_s, silence_s=silence_s)
        self.streams.append(SpoilingStream(self, plural, watched))
        return self.streams[-1]

    def refuse(self, kind: Kind, *, namespace: str = "") -> None:
        """The watches of that kind end, in one namespace or everywhere, and are refused from now on."""
        self.refused.add(kind.path(namespace) if namespace else f"/{kind.plural}")
        for stream in self.streams:
            if stream.plural == kind.plural:
                stream.ended.set()

    def spoil(self, plural: str, event: Manifest) -> bool:
        """Makes the object of an event unreadable, if it is to be; whether it did."""
        metadata = event.get("object", {}).get("metadata", {})
        if (plural, metadata.get("labels", {}).get("app") or metadata.get("name")) not in self.spoilt:
            return False
        metadata |= {"generation": "many"}
        return True

    async def aclose(self) -> None:
        """The cluster closes its own."""


class Refused:
    """A watch that RBAC refuses."""

    status = 403

    async def readline(self) -> bytes:
        return FORBIDDEN

    async def aclose(self) -> None:
        """Holds nothing."""


class SpoilingStream:
    """Changes lines."""

    def __init__(self, source: Spoiling, plural: str, stream: WatchStream) -> None:
        self.source, self.plural, self.stream = source, plural, stream
        self.status = stream.status
        self.ended = asyncio.Event()

    async def readline(self) -> bytes:
        ended = asyncio.ensure_future(self.ended.wait())
        line = asyncio.ensure_future(self.stream.readline())
        try:
            await asyncio.wait({ended, line}, return_when=asyncio.FIRST_COMPLETED)
            if not line.done():
                return b""
            return deep(self.spoil(line.result()))
        finally:
            ended.cancel()
            line.cancel()
            await asyncio.wait({ended, line})

    def spoil(self, line: bytes) -> bytes:
        event = json.loads(line or b"{}")
        return json.dumps(event).encode() + b"\n" if self.source.spoil(self.plural, event) else line

    async def aclose(self) -> None:
        await self.stream.aclose()


class Running:
    """A controller in a task."""

    def __init__(
        self, cluster: SimulatedCluster, api: ApiServer | None = None, *, clock: Clock | None = None, **settings: Any
    ) -> None:
        self.stop = asyncio.Event()
        self.telemetry: list[Telemetry] = []
        self.task = asyncio.create_task(
            run_controller(
                Settings(**{"leader_elect": False} | settings),
                api=api or cluster.api,
                lease_api=cluster.api,
                clock=clock or cluster.clock,
                rng=random.Random(1),  # noqa: S311 - jitter
                stop=self.stop,
                on_ready=self.telemetry.append,
            )
        )

    async def stopped(self) -> int:
        """Stops it in order; the exit code."""
        self.stop.set()
        return await self.task


async def until(cluster: SimulatedCluster, name: str, holds: Callable[[Manifest], bool]) -> Manifest:
    """Waits until that holds of a Rollout's status, which it gives."""

    def seen(found: Manifest | None) -> bool:
        return found is not None and holds(found.get("status") or {})

    await cluster.until(seen, kind=ROLLOUT, namespace="default", name=name, deadline_s=200)
    found = cluster.get(ROLLOUT, "default", name)
    assert found is not None
    return dict(found["status"])


def healthy(status: Manifest) -> bool:
    """Rolled out."""
    return status.get("phase") == "Healthy"


def waits_for(status: Manifest) -> str:
    """The reason of what it waits for."""
    return str((status.get("waitingFor") or {}).get("reason"))


async def test_a_deep_rollout_is_told_so_and_the_next_one_is_served(cluster: SimulatedCluster) -> None:
    """3 KB of brackets in one tenant's template stopped every tenant's rollouts, after every restart again."""
    api = Spoiling(cluster.api)
    running = Running(cluster, api)
    for name, levels in (("deep", 1_100), ("deeper", 9_000), ("high", 150), ("higher", 194)):
        served(cluster, name, more=f"deep-{levels}")
    served(cluster, "cart")
    await until(cluster, "cart", healthy)
    for name in ("deep", "deeper"):
        status = await until(cluster, name, lambda each: each.get("phase") == "Degraded")
        assert "nested" in status["message"], status["message"]
    for name in ("high", "higher"):
        await until(cluster, name, healthy)

    again = Running(cluster, api, identity="again")  # its list has them
    await asyncio.sleep(5)

    assert len(again.telemetry) == 1
    assert [await each.stopped() for each in (running, again)] == [EXIT_STOPPED] * 2


async def test_an_unreadable_replica_set_is_not_taken_for_absent(cluster: SimulatedCluster) -> None:
    """Without it the Rollout would make another, or end what serves; it waits and says why, and goes on when it can."""
    api = Spoiling(cluster.api)
    running = Running(cluster, api)
    for name in ("cart", "shop"):
        served(cluster, name)
        await until(cluster, name, healthy)
    api.spoilt.add((REPLICA_SET.plural, "cart"))
    watches = api.watches
    cluster.apply(rollout("cart", image="app:2"))
    status = await until(cluster, "cart", lambda each: waits_for(each) == "ObjectUnreadable")
    sets = len(cluster.list(REPLICA_SET, "default"))
    await asyncio.sleep(100)

    assert "ReplicaSet default/cart-" in status["message"]
    assert "delete it" in status["message"]
    assert len(cluster.list(REPLICA_SET, "default")) == sets
    assert b'rollouts_unreadable_objects{resource="replicasets"} 1.0' in running.telemetry[0].exposition()
    assert api.watches == watches  # no watch was opened again over it
    cluster.apply(rollout("shop", image="app:2"))
    await until(cluster, "shop", lambda each: not healthy(each))
    await until(cluster, "shop", healthy)

    api.spoilt.clear()
    for each in cluster.list(REPLICA_SET, "default"):
        annotate(cluster, REPLICA_SET, each["metadata"]["name"], "smaller", "now")
    await until(cluster, "cart", healthy)
    assert await running.stopped() == EXIT_STOPPED


async def test_an_unreadable_rollout_gets_an_event_and_its_service_is_kept(cluster: SimulatedCluster) -> None:
    """Its status is not known, so it is not written; and it is not gone, so what it manages is not given back."""
    api = Spoiling(cluster.api)
    running = Running(cluster, api)
    served(cluster, "cart")
    await until(cluster, "cart", healthy)
    before = cluster.get(SERVICE, "default", "cart")
    api.spoilt.add((ROLLOUT.plural, "cart"))
    cluster.apply(rollout("cart", image="app:2"))
    await asyncio.sleep(5)

    assert cluster.get(SERVICE, "default", "cart") == before
    events = [each for each in cluster.list(EVENT, "default") if each["reason"] == "ObjectUnreadable"]
    assert events
    assert "cannot read Rollout default/cart" in events[0]["note"]
    assert await running.stopped() == EXIT_STOPPED


async def test_a_watch_that_is_refused_for_good_is_told_and_the_lease_given_up(cluster: SimulatedCluster) -> None:
    """A leader that sees no ReplicaSets said "2 pods are to be available" for ever, beside a healthy standby."""
    api = Spoiling(cluster.api)
    first = Running(cluster, api, leader_elect=True, identity="first")
    await asyncio.sleep(5)
    second = Running(cluster, leader_elect=True, identity="second")
    served(cluster, "calm")
    await until(cluster, "calm", healthy)
    api.refuse(REPLICA_SET)
    served(cluster, "cart")
    status = await until(cluster, "cart", lambda each: waits_for(each) == "WatchFailed")

    assert "replicasets" in status["message"]
    assert "may not watch" in status["message"]
    assert "since" in status["message"]
    calm = cluster.get(ROLLOUT, "default", "calm")
    assert calm is not None
    assert healthy(calm["status"])  # it has nothing to wait for
    assert holder(cluster) == "first"

    assert await asyncio.wait_for(first.task, BLIND_MAX_S + 60) == EXIT_BLIND
    await until(cluster, "cart", healthy)
    assert holder(cluster) == "second"
    assert await second.stopped() == EXIT_STOPPED


def holder(cluster: SimulatedCluster) -> str | None:
    """Who holds the Lease."""
    lease = cluster.get(LEASE, "default", "rollouts-controller")
    return lease["spec"]["holderIdentity"] if lease else None


async def test_who_cannot_list_does_not_stand_for_election(cluster: SimulatedCluster) -> None:
    """An unready process kept the lease from a healthy standby for as long as it lived."""
    api = Spoiling(cluster.api)
    api.refuse(SERVICE)
    unready = Running(cluster, api, leader_elect=True, identity="unready")
    await asyncio.sleep(30)
    assert holder(cluster) is None
    able = Running(cluster, leader_elect=True, identity="able")
    await asyncio.sleep(30)

    assert holder(cluster) == "able"
    assert [await each.stopped() for each in (unready, able)] == [EXIT_STOPPED] * 2


async def test_a_namespace_whose_watch_is_refused_keeps_no_other_waiting(cluster: SimulatedCluster) -> None:
    """A Role that was deleted in one of several namespaces is that namespace's trouble; the process stays."""
    api = Spoiling(cluster.api)
    running = Running(cluster, api, namespaces=("default", "other"))
    await asyncio.sleep(5)
    api.refuse(REPLICA_SET, namespace="other")
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})
    served(cluster, "shop", "other")
    await asyncio.sleep(2 * BLIND_MAX_S)
    served(cluster, "cart")
    await until(cluster, "cart", healthy)

    shop = cluster.get(ROLLOUT, "other", "shop")
    assert shop is not None
    assert shop["status"]["waitingFor"]["reason"] == "WatchFailed"
    assert await running.stopped() == EXIT_STOPPED


async def test_a_short_outage_of_a_watch_is_no_news(cluster: SimulatedCluster) -> None:
    """Servers are restarted: nothing is written and nobody exits over a watch that is back within a minute."""
    api = Spoiling(cluster.api)
    running = Running(cluster, api, leader_elect=True, identity="first")
    served(cluster, "cart")
    await until(cluster, "cart", healthy)
    before = cluster.get(ROLLOUT, "default", "cart")
    for _ in range(5):
        api.refuse(REPLICA_SET)
        await asyncio.sleep(20)
        api.refused.clear()
        await asyncio.sleep(120)

    assert cluster.get(ROLLOUT, "default", "cart") == before
    assert await running.stopped() == EXIT_STOPPED


async def test_a_watch_that_breaks_is_logged_with_its_kind(cluster: SimulatedCluster) -> None:
    """The process has a dozen watches: without the kind, a line does not say which objects are seen late."""
    api = FaultyWatches(cluster.api, WatchFaults(break_after=0), random.Random(1))  # noqa: S311 - a test's
    with capture_logs() as logs:
        running = Running(cluster, api)
        await asyncio.sleep(10)
        assert await running.stopped() == EXIT_STOPPED

    watched = {*WATCHED_KINDS, *TEMPLATES, ANALYSIS_RUN}
    assert {each["kind"] for each in logs if each["event"] == "watch_trouble"} >= {each.kind for each in watched}


HARM: tuple[dict[str, Any], ...] = (
    {"generation": "many"},
    {"labels": {"app": 3}},
    {"annotations": []},
    {"ownerReferences": {"controller": "yes"}},
    {"creationTimestamp": {"deep": ["er"]}},
    {"deletionTimestamp": False},
    {"uid": 7},
)


class Harming(Spoiling):
    """Three lines in ten are of objects that nobody can read, of every kind that is watched."""

    def __init__(self, api: ApiServer, seed: int) -> None:
        super().__init__(api)
        self.rng = random.Random(seed)  # noqa: S311 - a test's
        self.harms = True

    def spoil(self, plural: str, event: Manifest) -> bool:  # noqa: ARG002 - whatever its kind
        if self.harms and event.get("type") in ("ADDED", "MODIFIED") and self.rng.random() < 0.3:
            event["object"]["metadata"] |= self.rng.choice(HARM)
            return True
        return False


@pytest.mark.parametrize("seed", range(10))
async def test_once_everything_can_be_read_again_everything_is_rolled_out(seed: int, cluster: SimulatedCluster) -> None:
    """Rollouts under way while objects of every kind become unreadable: nobody restarts, and each is finished afterwards."""
    api = Harming(cluster.api, seed)
    running = Running(cluster, api)
    names = ("cart", "shop", "web")
    for version in (1, 2, 3):
        for name in names:
            served(cluster, name, image=f"app:{version}")
        await asyncio.sleep(20)
    api.harms = False
    for kind in (ROLLOUT, REPLICA_SET, SERVICE, ENDPOINT_SLICE):
        for each in cluster.list(kind, "default"):
            annotate(cluster, kind, each["metadata"]["name"], "readable", "again")
    for name in names:
        await until(cluster, name, lambda each: healthy(each) and each["observedGeneration"] == 3)

    assert len(running.telemetry) == 1
    assert await running.stopped() == EXIT_STOPPED


class Webhooked(Spoiling):
    """An API server that asks an admission webhook about every write in namespace `slow`, which takes ten seconds."""

    async def request(self, request: Request, *, deadline_s: float) -> Response:
        if request.method != "GET" and "/namespaces/slow/" in request.path:
            await asyncio.sleep(10)
        return await super().request(request, deadline_s=deadline_s)


async def test_a_slow_webhook_in_one_namespace_delays_nobody_in_another(cluster: SimulatedCluster) -> None:
    """64 Rollouts behind it took all workers, and another tenant's first write came 50 s late."""
    running = Running(cluster, Webhooked(cluster.api))
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "slow"}})
    for index in range(64):
        cluster.apply(rollout(f"r{index}", namespace="slow"))
    await asyncio.sleep(2)
    cluster.apply(rollout("cart"))
    await asyncio.sleep(0.5)

    assert [each["metadata"]["labels"]["app"] for each in cluster.list(REPLICA_SET, "default")] == ["cart"]
    assert await running.stopped() == EXIT_STOPPED


BLINDED: dict[str, Callable[[Spoiling], None]] = {
    "ObjectUnreadable": lambda api: api.spoilt.add((REPLICA_SET.plural, "cart")),
    "WatchFailed": lambda api: api.refuse(REPLICA_SET),
}


@pytest.mark.parametrize("reason", BLINDED)
async def test_an_abort_is_put_on_record_while_not_all_can_be_seen(reason: str, cluster: SimulatedCluster) -> None:
    """Nothing is decided on half of the world. But silence is the worst answer to an abort, which is bound to the status."""
    api = Spoiling(cluster.api)
    running = Running(cluster, api)
    served(cluster, "cart")
    await until(cluster, "cart", healthy)
    BLINDED[reason](api)
    cluster.apply(rollout("cart", image="app:2"))
    await until(cluster, "cart", lambda each: waits_for(each) == reason)
    sets = len(cluster.list(REPLICA_SET, "default"))

    annotate(cluster, ROLLOUT, "cart", f"{PREFIX}{Verb.ABORT}", "true")
    status = await until(cluster, "cart", lambda each: bool(each.get("commands")))

    assert [each["verb"] for each in status["commands"]] == ["abort"]
    assert status["waitingFor"]["reason"] == reason, "which object or right to mend"
    await asyncio.sleep(30)
    assert len(cluster.list(REPLICA_SET, "default")) == sets
    assert await running.stopped() == EXIT_STOPPED
