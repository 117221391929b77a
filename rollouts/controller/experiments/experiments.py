"""All Experiments of the cluster: their watches, their queue, and, while this controller leads, looks and writes.

Every controller watches them; only the leader looks at them. Without the CRD, or without the right to watch it, there are none.
A look does the same whatever woke it: it depends on what exists, and any prefix of its writes is safe.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from dataclasses import dataclass, field
from functools import partial
from typing import Any, assert_never

import msgspec
import structlog

from rollouts.api.spec.experiment import TOO_MANY_VALUES, parse_experiment
from rollouts.api.status.experiment import experiment_status_to_wire, read_experiment_status
from rollouts.api.status.wire import merge_patch
from rollouts.cluster.client import Client
from rollouts.cluster.decoding import UnreadableObject, json_object, metadata_of
from rollouts.cluster.store import Store, Table
from rollouts.cluster.structs import ExperimentObject, Metadata, ServiceObject
from rollouts.cluster.watch import OnChange, OnUnreadable
from rollouts.controller.act.events import EventSender
from rollouts.controller.act.status_writes import write_status
from rollouts.controller.experiments.viewing import ExperimentRead, view_of
from rollouts.controller.observe.analyses import WhyUnseen
from rollouts.controller.workqueue.barrier import Barrier
from rollouts.controller.workqueue.managed import is_rollout
from rollouts.controller.workqueue.optional_watch import OptionalWatch
from rollouts.controller.workqueue.owned import is_controlled_by
from rollouts.controller.workqueue.queue import WorkQueue
from rollouts.controller.workqueue.runs_seen import RunsSeen
from rollouts.controller.workqueue.runtime import log_error, reconcile_loop
from rollouts.controller.workqueue.triggers import SERVICE_NAME
from rollouts.core.experiment.decide import decide_experiment, decide_invalid_experiment
from rollouts.core.experiment.model import (
    DeleteService,
    ExperimentDecision,
    ExperimentIntent,
    ExperimentSpec,
    ExperimentStatus,
    ExperimentView,
    MakeReplicaSet,
    MakeRun,
    MakeService,
    SetReplicaSet,
)
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import TerminateAnalysisRun
from rollouts.errors import (
    ApiConflict,
    ApiExists,
    ApiInvalid,
    ApiNotFound,
    Delays,
    SpecInvalid,
    SpecProblem,
    TerminalError,
)
from rollouts.manifests.analysis_run import termination_patch
from rollouts.manifests.experiment import experiment_replica_set, experiment_run, experiment_service, pods_patch
from rollouts.manifests.ownership import EXPERIMENT as EXPERIMENT_LABEL
from rollouts.objects import (
    ANALYSIS_RUN,
    ENDPOINT_SLICE,
    EXPERIMENT,
    EXPERIMENT_REPLICA_SET,
    SERVICE,
    Key,
    Kind,
    Manifest,
    has_more_values,
)
from rollouts.ports import MERGE_PATCH, ApiServer, Clock
from rollouts.telemetry import Telemetry

LOOKS_AT_ONCE = 8
LOOK_DEADLINE_S = 60.0  # each request in it has a shorter deadline of its own
AGAIN_MIN_S = 0.01
AGAIN_MAX_S = 300.0  # a look costs no request, and the wall clock may have been set meanwhile
UNSEEN_AGAIN_S = 5.0
REFUSED_AGAIN_S = 10.0
STATUS_VALUES_MAX = 2_000
"""Fields and entries of lists: the controller writes no status with more, so one is somebody else's, and is not read."""

log = structlog.get_logger()


@dataclass(kw_only=True, eq=False)
class Experiments:
    """Carries out Experiments.

    Args:
        on_change, on_unreadable: told of Experiments, too: a Rollout may wait for one.
        why_unseen: why the objects of a kind and a namespace cannot be seen, runs and templates of analyses; "" when they can.
    """

    api: ApiServer
    client: Client
    store: Store
    events: EventSender
    telemetry: Telemetry
    clock: Clock
    rng: random.Random
    identity: str
    why_unseen: WhyUnseen
    on_change: OnChange
    on_unreadable: OnUnreadable

    _parsed: dict[str, tuple[int, ExperimentSpec | SpecInvalid]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._table: Table[ExperimentObject] = self.store.table(EXPERIMENT)
        self._queue = WorkQueue(clock=self.clock, rng=self.rng, workers=LOOKS_AT_ONCE)
        self._barrier = Barrier(store=self.store, queue=self._queue, clock=self.clock)
        self._runs = RunsSeen()
        self._watch = self._watch_of(EXPERIMENT)
        self._pods = self._watch_of(EXPERIMENT_REPLICA_SET, labels=EXPERIMENT_LABEL)

    def _watch_of(self, kind: Kind, *, labels: str = "") -> OptionalWatch:
        table = self.store.table(kind)
        return OptionalWatch(
            table,
            api=self.api,
            rng=self.rng,
            labels=labels,
            on_change=self.seen,
            on_unreadable=self._unreadable,
            on_seen=partial(self.telemetry.follow_table, table),
        )

    def why_not_seen(self, namespace: str) -> str:
        """Why Experiments of a namespace cannot be seen; "" when they can."""
        return self._watch.why_unseen(namespace)

    async def wait_listed(self) -> None:
        """Returns when it is known which Experiments there are. Cancellation: safe."""
        await self._watch.listed.wait()
        await self._pods.listed.wait()

    async def run(self) -> None:
        """Follows the cluster until cancelled. Raises: nothing on purpose."""
        async with asyncio.TaskGroup() as watches:
            watches.create_task(self._watch.run())
            watches.create_task(self._pods.run())

    async def lead(self) -> None:
        """Looks at Experiments until `close`. Cancellation: ends the looks at their next await."""
        async with asyncio.TaskGroup() as looks:
            for _ in range(LOOKS_AT_ONCE):
                work = reconcile_loop(
                    self._queue, self._reconcile, on_error=self._on_error, delays=Delays(), barrier=self._barrier
                )
                looks.create_task(work)

    def close(self) -> None:
        """Begins no more looks; those that have begun are finished."""
        self._queue.close()

    def seen(self, kind: Kind, before: Any, after: Any) -> None:
        """Queues the Experiment that a change of any watched object concerns. The store shows the change already."""
        metadata: Metadata = (after or before).metadata
        self._barrier.shown(kind, metadata.namespace, metadata.name)
        if kind == EXPERIMENT:
            self._changed(before, after)
            self.on_change(kind, before, after)
            return
        for one in (before, after):
            if one is not None:
                self._wake_owner(kind, one.metadata)
        if kind == ANALYSIS_RUN and after is None:
            self._runs.forget(metadata.uid)

    def _changed(self, before: ExperimentObject | None, after: ExperimentObject | None) -> None:
        if before is not None and (after is None or after.metadata.uid != before.metadata.uid):
            key = Key(before.metadata.namespace, before.metadata.name)
            self._barrier.forget(key)
            self._queue.forget(key)
            self._parsed.pop(before.metadata.uid, None)
            self.telemetry.show_experiment(key, None)
        if after is not None:
            self._queue.add(Key(after.metadata.namespace, after.metadata.name))

    def _wake_owner(self, kind: Kind, metadata: Metadata) -> None:
        """Queues the Experiment that controls an object, or, of an EndpointSlice, its Service."""
        owners = metadata.owner_references or ()
        if kind == ENDPOINT_SLICE:
            name = (metadata.labels or {}).get(SERVICE_NAME, "")
            service: ServiceObject | None = self.store.table(SERVICE).get(metadata.namespace, name)
            owners = () if service is None else service.metadata.owner_references or ()
        for owner in owners:
            if is_rollout(owner, EXPERIMENT):
                self._queue.add(Key(metadata.namespace, owner.name))

    def _unreadable(self, kind: Kind, seen: UnreadableObject) -> None:
        metadata = seen.metadata
        self._barrier.shown(kind, metadata.namespace, metadata.name)
        if kind == EXPERIMENT:
            self.on_unreadable(kind, seen)
            return
        log.error("object_unreadable", kind=kind.kind, namespace=metadata.namespace, name=metadata.name, why=seen.why)

    def _on_error(self, key: Key, error: Exception, retry_in_s: float) -> None:
        self.telemetry.experiments.errors.labels(type(error).__name__).inc()
        log_error("experiment", error, retry_in_s, experiment=str(key))

    async def _reconcile(self, key: Key) -> None:
        """Looks once. Raises: what `Client` raises; ApiConflict also when the Experiment has changed or is gone; TimeoutError."""
        async with asyncio.timeout(LOOK_DEADLINE_S):
            await self._look(key)

    async def _look(self, key: Key) -> None:
        seen = self._table.get(key.namespace, key.name)
        if seen is None or seen.metadata.deletion_timestamp is not None:
            return
        if (key.namespace, key.name) in self._table.unreadable:
            return
        if why := self._pods.why_unseen(key.namespace):
            log.debug("experiment_waits", experiment=str(key), why=why)
            self._wake_in(key, UNSEEN_AGAIN_S)
            return
        now_s = self.clock.now_s()
        status, problems = _status_of(seen)
        self.telemetry.show_experiment(key, status.phase)
        if problems:
            log.warning("experiment_status_unreadable", experiment=str(key), problems=problems)
        spec = self._spec_of(seen)
        if isinstance(spec, SpecInvalid):
            generation = seen.metadata.generation
            if not status.phase.over:
                decision = decide_invalid_experiment(status, str(spec), generation=generation, now_s=now_s)
                await self._record(key, seen, status, decision)
                return
            spec = _NOTHING  # what it has made goes all the same
        read = ExperimentRead(json_object(bytes(seen.spec)), spec, status)
        await self._go_on(key, seen, view_of(self.store, self._runs, self.why_unseen, seen, read, now_s=now_s))

    async def _go_on(self, key: Key, seen: ExperimentObject, view: ExperimentView) -> None:
        """Decides, writes what follows, and then the status."""
        decision = decide_experiment(view)
        refused: TerminalError | None = None
        for intent in decision.intents:
            try:
                await self._carry_out(key, view, intent)
            except TerminalError as exc:  # it needs a person, and keeps nothing else waiting
                refused = refused or exc
        if refused is not None and not decision.status.phase.over:
            decision = replace(decision, status=replace(decision.status, message=str(refused)))
        await self._record(key, seen, view.status, decision)
        if decision.wake_at_s is not None:
            self._wake_in(key, decision.wake_at_s - view.now_s)
        if refused is not None:
            self._wake_in(key, REFUSED_AGAIN_S)
            self._on_error(key, refused, REFUSED_AGAIN_S)

    def _wake_in(self, key: Key, wait_s: float) -> None:
        self._queue.add_at(key, self.clock.monotonic_s() + min(AGAIN_MAX_S, max(AGAIN_MIN_S, wait_s)))

    def _spec_of(self, seen: ExperimentObject) -> ExperimentSpec | SpecInvalid:
        """The spec, which is read once for each generation."""
        uid, generation = seen.metadata.uid, seen.metadata.generation
        known = self._parsed.get(uid)
        if known is not None and known[0] == generation:
            return known[1]
        raw = bytes(seen.spec)
        spec: ExperimentSpec | SpecInvalid
        try:
            if has_more_values(raw):
                raise SpecInvalid((SpecProblem("spec", TOO_MANY_VALUES),))
            spec = parse_experiment(json_object(raw))
        except SpecInvalid as exc:
            spec = exc
        self._parsed[uid] = generation, spec
        return spec

    async def _carry_out(self, key: Key, view: ExperimentView, intent: ExperimentIntent) -> None:
        match intent:
            case MakeReplicaSet(group):
                await self._make(key, view, EXPERIMENT_REPLICA_SET, experiment_replica_set(view, key.namespace, group))
            case MakeService(group):
                await self._make(key, view, SERVICE, experiment_service(view, key.namespace, group))
            case MakeRun():
                await self._make(key, view, ANALYSIS_RUN, experiment_run(view, key.namespace, intent))
            case SetReplicaSet(name=name, uid=uid):
                await self._patch(key, EXPERIMENT_REPLICA_SET, name, uid, pods_patch(intent))
            case TerminateAnalysisRun(name=name, uid=uid):
                await self._patch(key, ANALYSIS_RUN, name, uid, termination_patch(intent))
            case DeleteService(name=name, uid=uid, resource_version=version):
                with contextlib.suppress(ApiNotFound):  # it is gone already, as wanted
                    await self.client.delete(SERVICE, key.namespace, name, uid, version)
                self._barrier.wrote(key, SERVICE, name, resource_version=None, uid=uid)
            case _:
                assert_never(intent)

    async def _make(self, key: Key, view: ExperimentView, kind: Kind, manifest: Manifest) -> None:
        """Creates an object. Raises: ApiExists, when somebody else has its name; what `Client` raises."""
        name: str = manifest["metadata"]["name"]
        try:
            # A field that an older CRD drops would be missing in what is measured, and in the hash by which the run is known.
            made = metadata_of(await self.client.create(kind, key.namespace, manifest, strict=kind == ANALYSIS_RUN))
        except ApiExists as exc:
            # Most likely it is ours: the answer to an earlier attempt was lost, or our store is behind.
            try:
                made = metadata_of(await self.client.get(kind, key.namespace, name))
            except ApiNotFound:
                raise ApiConflict(f"{kind.kind} {name} was deleted while the controller read it") from exc
            if not is_controlled_by(made, key, view.uid, EXPERIMENT):
                why = "exists and is not controlled by this Experiment: delete it, or choose another name"
                raise ApiExists(f"{kind.kind} {name} {why}") from exc
        except ApiNotFound as exc:
            raise ApiConflict(f"namespace {key.namespace} is gone, or the CRD of {kind.plural}") from exc
        self._barrier.wrote(key, kind, name, resource_version=made.resource_version, uid=made.uid)

    async def _patch(self, key: Key, kind: Kind, name: str, uid: str, body: Manifest) -> None:
        try:
            answer = await self.client.patch(kind, key.namespace, name, body, MERGE_PATCH)
        except ApiNotFound as exc:
            raise ApiConflict(f"{kind.kind} {name} is gone") from exc
        except ApiInvalid as exc:
            if "metadata.uid" in str(exc):  # another object now has the name
                raise ApiConflict(str(exc)) from exc
            raise
        self._barrier.wrote(key, kind, name, resource_version=metadata_of(answer).resource_version, uid=uid)

    async def _record(
        self, key: Key, seen: ExperimentObject, before: ExperimentStatus, decision: ExperimentDecision
    ) -> None:
        """Writes the status if it differs, and then sends the Events."""
        patch = merge_patch(json_object(bytes(seen.status)), experiment_status_to_wire(decision.status))
        if patch:
            await write_status(self.client, self._barrier, EXPERIMENT, key, seen=seen.metadata, patch=patch)
        self.events.report(
            seen.metadata, decision.notices, at_s=self.clock.now_s(), instance=self.identity, kind=EXPERIMENT
        )
        if decision.status.phase is not before.phase:
            status = decision.status
            log.info("experiment", experiment=str(key), phase=status.phase, why=status.message)


_NOTHING = ExperimentSpec(groups=(), analyses=(), content_hash="")


def _status_of(seen: ExperimentObject) -> tuple[ExperimentStatus, tuple[str, ...]]:
    """Its status; what cannot be read is as if it were not there."""
    raw = bytes(seen.status)
    if has_more_values(raw, most=STATUS_VALUES_MAX):
        return ExperimentStatus(), (f"status: has more than {STATUS_VALUES_MAX:,} fields and entries of lists",)
    try:
        return read_experiment_status(msgspec.json.decode(raw) if raw else {})
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ExperimentStatus(), ("status: cannot be read",)
