"""Promise: the pods of an update in place are watched while a pass needs them, each Rollout's own, and no longer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from rollouts.cluster.store import Store
from rollouts.cluster.watch_state import FAILED_TELL_S
from rollouts.controller.observe.workloads import WorkloadReader
from rollouts.controller.workqueue.inbox import Inbox
from rollouts.controller.workqueue.pod_watches import PodWatches
from rollouts.core.model.frozen import replace
from rollouts.core.model.nodes import DaemonSetSeen, NodeUpdate
from rollouts.core.model.workload import ReferencedWorkload, WorkloadSeen, WorkloadUnasked
from rollouts.core.model.workload_ref import WorkloadKind
from rollouts.objects import Key
from rollouts.ports import Request, Response
from rollouts.sim.cluster import SimulatedCluster
from tests.controller.door import Door, refusal

pytestmark = pytest.mark.virtual_time

CART, WEB = Key("shop", "cart"), Key("shop", "web")
MIXED = WorkloadSeen(
    kind=WorkloadKind.DAEMON_SET, name="agent", uid="u", resource_version="1", managed_by="cart", watched=True,
    in_place=DaemonSetSeen(update=NodeUpdate(on_delete=True), current=2, updated=1),
)  # fmt: skip
EVEN = replace(MIXED, in_place=DaemonSetSeen(update=NodeUpdate(on_delete=True), current=2, updated=2))


def _pod(cluster: SimulatedCluster, name: str, namespace: str = "shop", app: str = "cart", **labels: str) -> None:
    meta = {"name": name, "namespace": namespace, "labels": {"app": app, **labels}}
    spec = {"containers": [{"name": "a", "image": "a:1"}]}
    cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})


class Watching:
    """Watches of pods behind a door, and whom they have woken."""

    def __init__(self, cluster: SimulatedCluster, group: asyncio.TaskGroup) -> None:
        self.cluster = cluster
        self.door = Door(cluster.api)
        self.woken: list[Key] = []
        self.watches = PodWatches(api=self.door, clock=cluster.clock, wake=self.woken.append)
        self.task = group.create_task(self.watches.run())
        store, inbox = Store(clock=cluster.clock), Inbox(clock=cluster.clock)
        self.reader = WorkloadReader(store, inbox, {}, lambda *_: "", self.watches)

    def names(self, key: Key = CART) -> list[str] | None:
        pods = self.watches.pods(key)
        return None if pods is None else sorted(pod.metadata.name for pod in pods)

    async def woke(self) -> set[Key]:
        """Whom the watches wake within a minute, in which a new pod becomes ready."""
        self.woken.clear()
        await asyncio.sleep(60)
        return set(self.woken)


@pytest.fixture
def watching(cluster: SimulatedCluster) -> Callable[[asyncio.TaskGroup], Watching]:
    """Makes the watches in a task group of the test."""
    for name in ("shop", "till"):
        cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    _pod(cluster, "a", tier="x")
    _pod(cluster, "b", app="other")
    _pod(cluster, "c", namespace="till", tier="x")
    return lambda group: Watching(cluster, group)


async def test_pods_are_those_of_the_selector_and_of_the_namespace(watching: Any, cluster: SimulatedCluster) -> None:
    """A change of them wakes their Rollout alone; another selector is another watch; for none nothing is asked."""
    async with asyncio.TaskGroup() as group:
        seen = watching(group)
        await asyncio.sleep(1)
        seen.watches.follow(CART, "")
        assert (await seen.woke(), seen.names(), seen.door.asked) == (set(), None, [])
        seen.watches.follow(CART, "app=cart")
        assert seen.names() is None
        assert await seen.woke() == {CART}
        assert (seen.names(), seen.names(WEB)) == (["a"], None)
        asked = len(seen.door.asked)
        seen.watches.follow(CART, "app=cart")
        assert (await seen.woke(), len(seen.door.asked)) == (set(), asked)
        assert {each.query["labelSelector"] for each in seen.door.asked} == {"app=cart"}

        seen.watches.follow(WEB, "app=other")
        assert await seen.woke() == {WEB}
        _pod(cluster, "d")
        assert await seen.woke() == {CART}
        assert (seen.names(), seen.names(WEB)) == (["a", "d"], ["b"])
        seen.watches.follow(CART, "tier=x")
        assert seen.names() is None
        assert await seen.woke() == {CART}
        assert seen.names() == ["a"]
        _pod(cluster, "e")
        assert await seen.woke() == set()

        seen.watches.follow(CART, "")
        assert seen.names() is None
        _pod(cluster, "a", tier="x", more="y")
        assert await seen.woke() == set()
        seen.task.cancel()


async def test_a_watch_that_fails_is_told_and_ends_the_waiting(watching: Any) -> None:
    """After 90 s a pass goes on without the pods, and says why."""
    async with asyncio.TaskGroup() as group:
        seen = watching(group)
        await asyncio.sleep(0)
        seen.door.answers = lambda _request: refusal(403, "Forbidden")
        assert seen.watches.failing(CART) == (0.0, "")
        assert not seen.reader.pods_known(CART, MIXED, "app=cart")
        await asyncio.sleep(1)
        since_s, why = seen.watches.failing(CART)
        assert 0 < since_s <= 1
        assert "403 Forbidden" in why
        await asyncio.sleep(FAILED_TELL_S - since_s - 0.5)
        assert not seen.reader.pods_known(CART, MIXED, "app=cart")
        await asyncio.sleep(0.5)
        assert seen.reader.pods_known(CART, MIXED, "app=cart")
        assert seen.names() is None
        seen.door.answers = lambda _request: None
        await asyncio.sleep(120)
        assert seen.watches.failing(CART) == (0.0, "")
        assert seen.names() == ["a"]
        seen.task.cancel()


@pytest.mark.parametrize(
    ("workload", "waits"),
    [
        (MIXED, True),
        (EVEN, False),
        (replace(MIXED, managed_by="web"), False),
        (replace(MIXED, watched=False), False),
        (replace(MIXED, in_place=None), False),
        (WorkloadUnasked(), False),
        (None, False),
    ],
    ids=["mixed", "of one revision", "another's", "not marked", "by its template", "not known", "none"],
)
async def test_pods_are_waited_for_where_their_revisions_differ(
    workload: ReferencedWorkload | None, waits: bool, watching: Any
) -> None:
    """At rest nothing is watched, and a plan, which watches nothing, waits for nothing."""
    async with asyncio.TaskGroup() as group:
        seen = watching(group)
        await asyncio.sleep(0)
        assert replace(seen.reader, watched_pods=None).pods_known(CART, workload, "app=cart")
        assert seen.reader.pods_known(CART, workload, "app=cart") is not waits
        await asyncio.sleep(1)
        assert seen.reader.pods_known(CART, workload, "app=cart")
        assert seen.names() == (["a"] if waits else None)
        assert bool(seen.door.asked) is waits
        seen.reader.forget(CART)
        assert seen.names() is None
        seen.task.cancel()


async def test_a_pod_that_cannot_be_read_is_not_left_out(watching: Any) -> None:
    """With it the list would look whole: it is none, and the Rollout is woken to say so."""

    def garbled(request: Request) -> Response:
        if "watch" in request.query:
            return refusal(422, "Invalid")  # of a server that knows lists alone
        pod = {"metadata": {"name": "a", "namespace": "shop", "uid": "u"}, "status": 7}
        return Response(200, json.dumps({"metadata": {"resourceVersion": "1"}, "items": [pod]}).encode())

    async with asyncio.TaskGroup() as group:
        seen = watching(group)
        await asyncio.sleep(0)
        seen.door.answers = garbled
        seen.watches.follow(CART, "app=cart")
        assert await seen.woke() == {CART}
        assert seen.names() is None
        seen.task.cancel()
