"""Asks questions beside the passes: the answer goes into the inbox, and the key back into the queue.

A pass never waits for an answer. The same question is under way only once. A question that failed wakes a pass, which asks again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar, assert_never

import structlog

from rollouts.cluster.client import Client
from rollouts.cluster.decoding import Decoder, Page, decode, decode_route, json_object
from rollouts.cluster.store import Store
from rollouts.cluster.structs import (
    ControllerRevisionObject,
    KubernetesObject,
    NodeObject,
    PodObject,
    RouteObject,
    WorkloadObject,
)
from rollouts.controller.act.calls import AskDataPlanes, OwnQuestion, ReadClasses, ReadRoute
from rollouts.controller.facts.gateway_classes import GatewayClasses
from rollouts.controller.facts.gateway_lags import GatewayLags
from rollouts.controller.facts.proxies import NODE
from rollouts.controller.facts.route_kinds import RouteKinds, missing
from rollouts.controller.observe.in_place import is_held, rests_free, revisions_answer, sets_answer
from rollouts.controller.observe.pods import pod_page, pods_seen
from rollouts.controller.workqueue.inbox import Inbox, RouteAnswer, ServiceAnswer, WorkloadAnswer
from rollouts.controller.workqueue.owned import replica_sets_of
from rollouts.controller.workqueue.queue import WorkQueue
from rollouts.controller.workqueue.workload_watches import forbidden_workload
from rollouts.core.model.config import CopyLook
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import (
    AskAutoscaling,
    AskChosenNodes,
    AskHold,
    AskPods,
    AskPodTemplate,
    AskReplicaSets,
    AskRevisions,
    AskSecretCopy,
    AskService,
    AskWorkload,
)
from rollouts.core.model.nodes import ChosenNodes
from rollouts.core.model.revision import canonical_json
from rollouts.core.model.snapshot import DrainSeen
from rollouts.core.model.workload import HoldSeen
from rollouts.core.model.workload_ref import WorkloadKind
from rollouts.errors import ApiExists, ApiForbidden, ApiInvalid, ApiNotFound, Delays, RolloutsError, remedy
from rollouts.manifests.config_copy import config_copy_probe
from rollouts.manifests.in_place import hold_question
from rollouts.manifests.ownership import pods_selector, revision_of
from rollouts.objects import (
    CONTROLLER_REVISION,
    DAEMON_SET,
    DEPLOYMENT,
    POD,
    REPLICA_SET,
    SECRET,
    SERVICE,
    Key,
    Kind,
    mapping,
)
from rollouts.ports import MERGE_PATCH, Clock, ClusterLoad, DataPlanes, DrainQuestion

ASK_AGAIN = Delays(transient_s=1.0, refused_s=60.0)
TEMPLATE_AGAIN_S = 1.0
REVISIONS_AGAIN_S = 1.0  # the watch shows the DaemonSet as it is now, or its controller makes what is missing
AUTOSCALING_AGAIN_S = 1.0  # an answer that says the same again
ASKS_AT_ONCE = 64  # as many as the connection's pool has room for
LISTS_AT_ONCE = 4  # the API server looks at every pod of a namespace to find those of one Rollout
PLANES_AT_ONCE = 32
STARTS_AT_ONCE = 1  # all workloads in place are asked about when a controller starts: the first answer may do for all
PLANES_DEADLINE_S = 5.0

_GRANT = "name its router in the chart's `routers`, or grant get, list, watch and patch"

_SETS: Decoder[WorkloadObject] = Decoder(WorkloadObject)
_NODES: Decoder[NodeObject] = Decoder(NodeObject)
_NODES_GRANT = "name daemonsets in the chart's `workloads`, without `watchNamespaces`, or grant list"
_REVISIONS: Decoder[ControllerRevisionObject] = Decoder(ControllerRevisionObject)
_T = TypeVar("_T", bound=KubernetesObject)

log = structlog.get_logger()


@dataclass(slots=True, eq=False)
class _Room:
    """Questions of which few are under way at once; those that wait are no tasks, which cost 2 KiB each."""

    free: int
    waiting: deque[tuple[Key, str, OwnQuestion]] = field(default_factory=deque)


@dataclass(slots=True, kw_only=True, eq=False)
class Answers:
    """Runs questions and stores their answers.

    Args:
        lags: learns from the answers of data planes.
        questions: owns the tasks; they end with it.
    """

    client: Client
    store: Store
    inbox: Inbox
    queue: WorkQueue
    kinds: RouteKinds
    classes: GatewayClasses
    load: ClusterLoad
    planes: DataPlanes
    lags: GatewayLags
    clock: Clock
    questions: asyncio.TaskGroup
    _asked: set[tuple[Key, OwnQuestion]] = field(default_factory=set)
    _asking: set[asyncio.Task[None]] = field(default_factory=set)
    _room_for_asks: _Room = field(default_factory=partial(_Room, ASKS_AT_ONCE))
    _room_for_lists: _Room = field(default_factory=partial(_Room, LISTS_AT_ONCE))
    _room_for_starts: _Room = field(default_factory=partial(_Room, STARTS_AT_ONCE))
    _room_for_planes: _Room = field(default_factory=partial(_Room, PLANES_AT_ONCE))

    def ask(self, key: Key, uid: str, ask: OwnQuestion) -> None:
        """Starts a question for the Rollout of that key and uid, unless it is under way; one without room waits for its turn."""
        if (key, ask) in self._asked:
            return
        room = self._room_for_asks
        if isinstance(ask, AskPods | DrainQuestion):
            room = self._room_for_lists
        elif isinstance(ask, AskHold | AskReplicaSets):
            room = self._room_for_starts
        elif isinstance(ask, AskDataPlanes):
            room = self._room_for_planes
        self._asked.add((key, ask))
        room.waiting.append((key, uid, ask))
        if room.free:
            room.free -= 1
            task = self.questions.create_task(self._ask_in(room))
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)

    def stop(self) -> None:
        """Ends all questions, because no pass will read their answers."""
        for task in self._asking:
            task.cancel()

    async def _ask_in(self, room: _Room) -> None:
        """Asks one question after the other until none waits there."""
        while room.waiting:
            await self._question(*room.waiting.popleft())
        room.free += 1

    async def _question(self, key: Key, uid: str, ask: OwnQuestion) -> None:
        """Runs one question until it is answered or has failed; never fails the task group."""
        name = type(ask).__name__
        try:
            pass_in_s = await self._answered(key, uid, ask)
        except Exception as exc:
            pass_in_s = remedy(exc, ASK_AGAIN).in_s
            if isinstance(exc, RolloutsError):
                log.warning("question_failed", rollout=str(key), question=name, error=str(exc), again_in_s=pass_in_s)
            else:  # a bug; it affects this Rollout alone, whatever the answer was
                log.exception("question_crashed", rollout=str(key), question=name, again_in_s=pass_in_s)
        finally:
            self._asked.discard((key, ask))
        if pass_in_s > 0:
            self.queue.add_at(key, self.clock.monotonic_s() + pass_in_s)
        else:
            self.queue.add(key)

    async def _answered(self, key: Key, uid: str, ask: OwnQuestion) -> float:
        """Puts the answer into the inbox; in how many seconds a pass should look at it, 0 when it is news."""
        match ask:
            case AskService(name=name):
                asked_s, service = self.clock.monotonic_s(), None
                with suppress(ApiNotFound):
                    service = decode(SERVICE, await self.client.get(SERVICE, key.namespace, str(name)))
                self.inbox.put_service(key, str(name), ServiceAnswer(service, asked_s))
            case AskWorkload(kind=of, name=name):
                self.inbox.put_workload(key, await self._workload(key, of, name))
            case AskHold():
                await self._ask_hold(key, ask)
            case ReadRoute(route=route):
                asked_s = self.clock.monotonic_s()
                try:
                    answer = await read_route(ask, client=self.client, kinds=self.kinds, clock=self.clock)
                except ApiForbidden as exc:
                    log.warning("route_forbidden", route=str(route), why=str(exc))
                    message = f"the controller may not read {route}; {_GRANT}: {exc}"
                    answer = RouteAnswer(asked_s=asked_s, message=message)
                self.inbox.put_route(key, route, answer)
            case ReadClasses(gateways):
                await self.classes.ask(gateways, client=self.client)
            case AskDataPlanes(route=route, pace=pace, question=question):
                self.lags.asked(question)
                live = await self.planes.live(question, deadline_s=PLANES_DEADLINE_S)
                self.lags.answered(question, live)
                if not self.inbox.put_live(key, route, live):
                    return min(pace.again_s(live) - self.clock.now_s(), pace.most_s)
            case DrainQuestion(revision=revision):
                self.inbox.put_drained(key, revision, await self._drained(key, ask))
            case AskAutoscaling(gate):
                if not self.inbox.put_autoscaling(key, gate, await self.load.seen(key, gate)):
                    return AUTOSCALING_AGAIN_S
            case AskSecretCopy(name=name):
                self.inbox.put_copy(key, name, await self._tried(key, name))
            case AskReplicaSets(name=name, selector=selector):
                deployment: WorkloadObject | None = self.store.table(DEPLOYMENT).get(key.namespace, name)
                if deployment is not None:  # else it has just gone, and the watch says so
                    asked_s = self.clock.monotonic_s()
                    sets = await self._list(key, REPLICA_SET, _SETS.page, selector)
                    self.inbox.put_sets(key, sets_answer(deployment, sets, rollout_uid=uid, asked_s=asked_s))
            case AskPodTemplate(name=name, uid=of):
                with suppress(ApiNotFound):
                    found = json_object(await self.client.get(REPLICA_SET, key.namespace, name))
                    if mapping(found.get("metadata")).get("uid") == of:
                        template = mapping(mapping(found.get("spec")).get("template"))
                        self.inbox.put_template(key, of, canonical_json(template))
                        return 0.0
                return TEMPLATE_AGAIN_S  # it has just gone, and the watch says so
            case AskRevisions(name=name, selector=selector):
                return await self._listed_revisions(key, name, selector)
            case AskChosenNodes(selector):
                self.inbox.put_nodes(key, selector, await self._chosen(key, selector))
            case AskPods(selector=selector, workload_uid=workload_uid):
                at_s, table = self.clock.now_s(), self.store.table(REPLICA_SET)
                pods = await self._list_pods(key, selector)
                owners = [*replica_sets_of(table, key, uid), *table.owned_by(key.namespace, workload_uid)]
                self.inbox.pods[key] = pods_seen(pods, owners, at_s=at_s, workload_uid=workload_uid)
            case _:
                assert_never(ask)
        return 0.0

    async def _listed_revisions(self, key: Key, name: str, selector: str) -> float:
        """The ControllerRevisions of a DaemonSet whose spec has not changed since its controller has seen it."""
        before: WorkloadObject | None = self.store.table(DAEMON_SET).get(key.namespace, name)
        if before is None:  # it has just gone, and the watch says so
            return 0.0
        listed = await self._list(key, CONTROLLER_REVISION, _REVISIONS.page, selector)
        after = decode(DAEMON_SET, await self.client.get(DAEMON_SET, key.namespace, name)).metadata
        if (after.uid, after.generation) != (before.metadata.uid, before.metadata.generation):
            return REVISIONS_AGAIN_S
        found = revisions_answer(before, listed)
        self.inbox.put_revisions(key, found)
        return 0.0 if found.revisions else REVISIONS_AGAIN_S

    async def _chosen(self, key: Key, selector: str) -> ChosenNodes:
        at_s = self.clock.now_s()
        try:
            found = await self._list(None, NODE, _NODES.page, selector)
        except ApiForbidden as exc:
            log.warning("nodes_forbidden", rollout=str(key), why=str(exc))
            return ChosenNodes(
                at_s=at_s, refused=f"canaryNodes: the controller may not list nodes; {_NODES_GRANT}: {exc}"
            )
        return ChosenNodes(at_s=at_s, names=frozenset([node.metadata.name for node in found]))

    async def _workload(self, key: Key, kind: WorkloadKind, name: str) -> WorkloadAnswer:
        """The answer about the workload that the Rollout names."""
        resource, answer = kind.resource, WorkloadAnswer(kind=kind, name=name, asked_s=self.clock.monotonic_s())
        try:
            found = decode(resource, await self.client.get(resource, key.namespace, name))
        except ApiNotFound:
            return answer
        except ApiForbidden as exc:
            log.warning("workload_forbidden", rollout=str(key), workload=f"{kind} {name}", why=str(exc))
            return replace(answer, forbidden=forbidden_workload(resource, "read", str(exc)))
        return replace(answer, workload=found)

    async def _ask_hold(self, key: Key, ask: AskHold) -> None:
        """Asks whether a policy holds the workload, unless that was found of another one while this question waited."""
        free = rests_free(self.store, ask.kind, key.namespace, ask.name)
        if free and self.inbox.policy(key.namespace, ask.kind) is not None:
            return  # the pass that comes now reads that
        answer = await self._held(key, ask)
        self.inbox.put_hold(key, ask.uid, answer)
        if free and answer.works:
            self.inbox.put_policy(key.namespace, ask.kind, answer)

    async def _held(self, key: Key, ask: AskHold) -> HoldSeen:
        """Whether a new template would come out held. What refuses the question says why nothing holds."""
        at_s, kind, question = self.clock.now_s(), ask.kind.resource, hold_question(ask.kind, ask.uid)
        try:
            answer = await self.client.patch(kind, key.namespace, ask.name, question, MERGE_PATCH, dry_run=True)
        except (ApiForbidden, ApiInvalid, ApiNotFound) as exc:
            log.warning("hold_not_seen", rollout=str(key), workload=f"{ask.kind} {ask.name}", why=str(exc))
            return HoldSeen(at_s=at_s, works=False, since_s=at_s, message=str(exc))
        return HoldSeen(at_s=at_s, works=is_held(ask.kind, decode(kind, answer)), since_s=at_s)

    async def _tried(self, key: Key, name: str) -> CopyLook:
        """Whether a Secret of that name is there: only a create as a dry run tells that without the right to read it.

        Admission comes first: what refuses the question says nothing about the Secret.
        """
        at_s = self.clock.now_s()
        manifest = config_copy_probe(key.namespace, name, rollout=key.name)
        try:
            await self.client.create(SECRET, key.namespace, manifest, dry_run=True)
        except ApiExists:
            return CopyLook(at_s, there=True)
        except (ApiForbidden, ApiInvalid, ApiNotFound) as exc:
            log.warning("secret_copy_not_seen", rollout=str(key), name=name, why=str(exc))
            return CopyLook(at_s, there=None)
        return CopyLook(at_s, there=False)

    async def _drained(self, key: Key, question: DrainQuestion) -> DrainSeen:
        addresses, others = set[str](), set[str]()
        for pod in await self._list_pods(key, question.selector) if question.needs_addresses else ():
            left = revision_of(pod.metadata.labels or {}) == question.revision
            (addresses if left else others).add(pod.status.pod_ip)
        asked = replace(question, addresses=frozenset(addresses - {""}), others=frozenset(others - {""}))
        return await self.planes.drained(asked, deadline_s=PLANES_DEADLINE_S)

    async def _list_pods(self, key: Key, selector: str = "") -> list[PodObject]:
        return await self._list(key, POD, pod_page, selector or pods_selector(key.name))

    async def _list(self, key: Key | None, kind: Kind, page_of: Callable[[bytes], Page[_T]], selector: str) -> list[_T]:
        """All objects that the selector finds: in the Rollout's namespace, or without a key in the cluster."""
        namespace = None if key is None else key.namespace
        found: list[_T] = []
        token = ""
        while True:
            answer = await self.client.list_page(kind, namespace, label_selector=selector, continue_token=token)
            page = page_of(answer)
            found += page.items
            if not (token := page.continue_token):
                return found


async def read_route(ask: ReadRoute, *, client: Client, kinds: RouteKinds, clock: Clock) -> RouteAnswer:
    """Reads one route, and the object that we own beside it.

    Raises: what `Client` and `RouteKinds.find` raise, except ApiNotFound.
    """
    asked_s = clock.monotonic_s()
    kind = await kinds.find(ask.kinds)
    if kind is None:
        return RouteAnswer(asked_s=asked_s, message=missing(ask.kinds))
    namespace = ask.route.namespace
    user = await _get_route(client, kind, namespace, ask.route.name)
    if user is None:
        kinds.forget(ask.kinds)  # either the route is missing, or its kind
        kind = await kinds.find(ask.kinds)
        return RouteAnswer(asked_s=asked_s, kind=kind, message="" if kind is not None else missing(ask.kinds))
    if not ask.owned_name:
        return RouteAnswer(asked_s=asked_s, kind=kind, user=user)
    owned_kind = await kinds.find(ask.owned_kinds)
    if owned_kind is None:
        return RouteAnswer(asked_s=asked_s, kind=kind, message=missing(ask.owned_kinds))
    owned = await _get_route(client, owned_kind, namespace, ask.owned_name)
    return RouteAnswer(asked_s=asked_s, kind=kind, user=user, owned_kind=owned_kind, owned=owned)


async def _get_route(client: Client, kind: Kind, namespace: str, name: str) -> RouteObject | None:
    try:
        return decode_route(await client.get(kind, namespace, name))
    except ApiNotFound:
        return None
