"""Reads what `rollouts plan` needs of a cluster, and makes the Snapshot on which the controller decides once the file is applied.

GET and LIST only. The snapshot is taken by the controller's own `Observer`, from a store that is filled once.
"""

from __future__ import annotations

import asyncio
import json
import statistics
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Struct

from rollouts.api.times import parse_time
from rollouts.cli.plan.config import PlannedSource
from rollouts.cli.plan.routes import Routes
from rollouts.cli.plan.workload import NEW_TEMPLATE, NEXT
from rollouts.cli.terminal.errors import is_not_served
from rollouts.cli.view.config import uses_of
from rollouts.cli.view.follow import Collection, list_all
from rollouts.cli.view.objects import controlled_by, revision_of, status_of
from rollouts.cli.view.session import Session
from rollouts.cluster.decoding import decode, manifest_from
from rollouts.cluster.discovery import server_version
from rollouts.cluster.store import Store
from rollouts.cluster.structs import (
    ControllerRevisionObject,
    EndpointSliceObject,
    PodObject,
    ReplicaSetObject,
    RolloutObject,
    ServiceObject,
    WorkloadObject,
)
from rollouts.controller.facts.proxies import NATIVE_SLEEP, ClusterFacts, proxy_facts
from rollouts.controller.observe.in_place import revisions_answer, sets_answer
from rollouts.controller.observe.observer import Observer, Seen
from rollouts.controller.observe.pods import pods_of_workload
from rollouts.controller.observe.routes import RouteReader
from rollouts.controller.observe.workloads import WorkloadReader
from rollouts.controller.workqueue.inbox import Inbox, ServiceAnswer
from rollouts.controller.workqueue.managed import ManagedNames, ManagedRouteObjects
from rollouts.controller.workqueue.triggers import SERVICE_NAME
from rollouts.core.carrier.carriers import as_own
from rollouts.core.config.target import as_its_sources_say
from rollouts.core.model.config import ConfigUse
from rollouts.core.model.drain import ProxyMode
from rollouts.core.model.frozen import replace
from rollouts.core.model.nodes import NodeRevision
from rollouts.core.model.rollout import named_services
from rollouts.core.model.selectors import selects, users_selector
from rollouts.core.model.service_ref import ServiceRef
from rollouts.core.model.snapshot import ServiceSeen, Snapshot
from rollouts.core.model.traffic import Acceptance, Answer, RouteSeen
from rollouts.core.model.workload_ref import WORKLOAD_RESOURCES, WorkloadKind
from rollouts.errors import ApiForbidden, ApiNotFound, RolloutsError
from rollouts.manifests.ownership import MANAGED, MANAGED_VALUE, NAME, name_label
from rollouts.objects import (
    CONTROLLER_REVISION,
    DAEMON_SET,
    DEPLOYMENT,
    ENDPOINT_SLICE,
    NAMED_REPLICA_SET,
    POD,
    REPLICA_SET,
    ROLLOUT,
    SERVICE,
    Key,
    Kind,
    Manifest,
)
from rollouts.ports import Clock

_STRUCTS: Mapping[Kind, type[Any]] = {
    ROLLOUT: RolloutObject,
    REPLICA_SET: ReplicaSetObject,
    SERVICE: ServiceObject,
    ENDPOINT_SLICE: EndpointSliceObject,
}
"""What a Rollout with ReplicaSets of its own is seen by."""


class Live(Struct, frozen=True, kw_only=True):
    """One Rollout, None when it does not exist, and what belongs to it, as the API server gave them.

    Services are those of the namespace, slices those of managed Services; slices and pods that may not be read are empty. Without
    sources of its template its references stay as they are. `workload` is the one that is updated in place, as it will be, with
    the ControllerRevisions that a DaemonSet has.
    """

    rollout: Manifest | None
    workload: Manifest | None = None
    controller_revisions: tuple[Manifest, ...] = ()
    replica_sets: tuple[Manifest, ...] = ()
    services: tuple[Manifest, ...] = ()
    slices: tuple[Manifest, ...] = ()
    pods: tuple[Manifest, ...] = ()
    routes: Routes | None = None
    sources: tuple[PlannedSource, ...] = ()

    @property
    def in_place(self) -> str:
        """The workload that keeps its pods; "" for pods of the Rollout's own."""
        return "" if self.workload is None else f"{self.workload['kind']} {self.workload['metadata']['name']}"

    def running_config(self) -> tuple[ConfigUse, ...]:
        """What the current revision has of each source, as its ReplicaSet notes."""
        current = status_of(self.rollout).current_revision if self.rollout is not None else ""
        return tuple(
            use
            for replica_set in self.replica_sets
            if current and revision_of(replica_set) == current
            for use in uses_of(replica_set)
        )


class Startup(Struct, frozen=True):
    """Seconds that the running pods took from `status.startTime` until they were ready."""

    fastest_s: float
    usual_s: float


async def read_live(session: Session, key: Key, *, workload: Manifest | None = None, selector: str = "") -> Live:
    """Reads one Rollout and its surroundings.

    Args:
        workload: the one that it updates in place, as it will be.
        selector: of that workload, as text.

    Raises: what `Client` raises; ApiNotFound when the cluster has no Rollouts at all.
    """
    mine = {"labelSelector": f"{NAME}={name_label(key.name)}"}
    if workload is not None:
        mine = {"labelSelector": selector}
    rollout, replica_sets, services, slices, pods = await asyncio.gather(
        _rollout(session, key),
        _listed(session, Collection(kind=REPLICA_SET, namespace=key.namespace, query=mine)),
        _listed(session, Collection(kind=SERVICE, namespace=key.namespace)),
        _listed(session, Collection(kind=ENDPOINT_SLICE, namespace=key.namespace, query=_MANAGED, optional=True)),
        _listed(session, Collection(kind=POD, namespace=key.namespace, query=mine, optional=True)),
    )
    if workload is not None:
        uid = workload["metadata"]["uid"]
        controllers = {uid, "" if rollout is None else rollout["metadata"]["uid"]}
        inside = tuple(each for each in replica_sets if _controller_uid(each) in controllers)
        makers = {uid, *(each["metadata"]["uid"] for each in inside)}
        kept: tuple[Manifest, ...] = ()
        if workload["kind"] == DAEMON_SET.kind:
            kept = await _listed(session, Collection(kind=CONTROLLER_REVISION, namespace=key.namespace, query=mine))
        return Live(
            rollout=rollout,
            workload=workload,
            controller_revisions=kept,
            replica_sets=inside,
            services=services,
            slices=slices,
            pods=tuple(pod for pod in pods if _controller_uid(pod) in makers),
        )
    if rollout is None:
        return Live(rollout=None, services=services)
    owned = tuple(replica_set for replica_set in replica_sets if controlled_by(replica_set, rollout))
    return Live(rollout=rollout, replica_sets=owned, services=services, slices=slices, pods=pods)


async def read_facts(session: Session, *, proxy_mode: ProxyMode | None) -> ClusterFacts:
    """Reads what the waits depend on: how nodes proxy Services, and the server's version.

    Args:
        proxy_mode: the controller's `--proxy-mode`; None to detect it as the controller does.

    Raises: what `Client` raises. What may not be read is unknown, and not an error.
    """
    version, proxy = await asyncio.gather(
        server_version(session.api, deadline_s=session.request_timeout_s),
        proxy_facts(session.client, declared=proxy_mode),
    )
    return ClusterFacts(proxy=proxy, native_sleep=(version.major, version.minor) >= NATIVE_SLEEP)


def with_file(rollout: Manifest, live: Manifest | None, *, namespace: str) -> Manifest:
    """The Rollout as it would be after `kubectl apply`: metadata that is not in the file stays as it is in the cluster.

    Of the spec only `spec.replicas` stays, because an autoscaler may own it; all other fields are the file's.
    """
    metadata, spec = rollout["metadata"], dict(rollout["spec"])
    before: Manifest = live or {"metadata": {"uid": "not-created", "resourceVersion": "1"}, "spec": {}, "status": {}}
    if "replicas" not in spec and "replicas" in before["spec"]:
        spec["replicas"] = before["spec"]["replicas"]
    changed = spec != before["spec"]
    merged = {
        **before["metadata"],
        "name": metadata.get("name") or f"{metadata.get('generateName', '')}new",
        "namespace": namespace,
        "annotations": {**(before["metadata"].get("annotations") or {}), **(metadata.get("annotations") or {})},
        "generation": before["metadata"].get("generation", 0) + (1 if changed else 0),
    }
    return {**before, "metadata": merged, "spec": spec}


def snapshot_of(rollout: Manifest, live: Live, *, clock: Clock, facts: ClusterFacts) -> Snapshot:
    """The Snapshot that the controller would take of `rollout`, which is from `with_file`, with a spec that was checked.

    Raises: RolloutsError, when the server's objects cannot be read.
    """
    key = Key(rollout["metadata"]["namespace"], rollout["metadata"]["name"])
    store = Store(clock=clock)
    tables = {
        kind: store.add(kind, struct, by_owner=kind is REPLICA_SET, orphans_by=NAME, labels=(SERVICE_NAME,))
        for kind, struct in _STRUCTS.items()
    }
    managed, inbox = ManagedNames(), Inbox(clock=clock)
    services = {service["metadata"]["name"]: _struct(SERVICE, service) for service in live.services}
    watched = {
        name: service
        for name, service in services.items()
        if (service.metadata.labels or {}).get(MANAGED) == MANAGED_VALUE
    }
    for service in watched.values():
        managed.learn(None, service)
    tables[ROLLOUT].replace("", [_struct(ROLLOUT, rollout)], "1")
    tables[REPLICA_SET].replace("", _structs(REPLICA_SET, live.replica_sets), "1")
    tables[SERVICE].replace("", watched.values(), "1")
    tables[ENDPOINT_SLICE].replace("", _structs(ENDPOINT_SLICE, live.slices), "1")
    asked_s = clock.monotonic_s()
    routes = None
    if live.routes is not None:
        kinds, untold = live.routes.kinds, ManagedRouteObjects()
        routes = RouteReader(store=store, inbox=inbox, kinds=kinds, managed=untold, providers=live.routes.providers)
        for route, answer in live.routes.answers.items():
            inbox.put_route(key, route, answer)
    observer = Observer(
        store=store,
        inbox=inbox,
        managed=managed,
        clock=clock,
        routes=routes,
        facts=lambda: facts,
        workloads=_workload_reader(rollout, live, store, inbox, asked_s=asked_s),
    )
    first = observer.observe(key)
    if not isinstance(first, Seen):
        raise RolloutsError(f"Rollout {key} cannot be read")
    for name in {*named_services(first.snapshot.rollout.spec.strategy), *services}:
        if name not in watched:  # includes Services that no strategy names: the host of a DestinationRule
            inbox.put_service(key, name, ServiceAnswer(services.get(name), asked_s))
    seen = observer.observe(key)
    assert isinstance(seen, Seen)  # noqa: S101 - the first one was, and only answers were added since
    # Routes that only the record names are released before this update begins, like other routes that the spec no longer names.
    snapshot = replace(
        seen.snapshot, routes={name: route for name, route in seen.snapshot.routes.items() if route.named}
    )
    spec = replace(snapshot.rollout.spec, config_refs=tuple([planned.ref for planned in live.sources]))
    known = {(planned.ref.kind, planned.ref.name): planned.source for planned in live.sources}
    snapshot = as_its_sources_say(replace(snapshot, rollout=replace(snapshot.rollout, spec=spec), sources=known))
    if live.workload is not None:  # the policy decides in sizes, as for ReplicaSets of the Rollout's own
        if live.workload["kind"] != DEPLOYMENT.kind:
            pods = [msgspec.convert(pod, PodObject) for pod in live.pods]
            of_it = pods_of_workload(pods, live.workload["metadata"]["uid"], at_s=snapshot.now_s)
            snapshot = replace(snapshot, pods=of_it)
        snapshot = as_own(snapshot)
        spec = replace(snapshot.rollout.spec, workload_ref=None)
        snapshot = replace(snapshot, workload=None, pods=None, rollout=replace(snapshot.rollout, spec=spec))
    return snapshot if live.routes is None else _with_gateways(snapshot, live.routes)


def _workload_reader(
    rollout: Manifest, live: Live, store: Store, inbox: Inbox, *, asked_s: float
) -> WorkloadReader | None:
    """Reads the workload that is updated in place, whose ReplicaSets or revisions are all known; None without one."""
    if live.workload is None:
        return None
    metadata, resource = rollout["metadata"], WorkloadKind(live.workload["kind"]).resource
    key, workload = Key(metadata["namespace"], metadata["name"]), _struct(resource, live.workload)
    store.add(resource, WorkloadObject).replace("", [workload], "1")
    if resource is DEPLOYMENT:
        sets = _structs(NAMED_REPLICA_SET, live.replica_sets)
        inbox.put_sets(key, sets_answer(workload, sets, rollout_uid=metadata["uid"], asked_s=asked_s))
    if resource is DAEMON_SET:
        kept = [msgspec.convert(each, ControllerRevisionObject) for each in live.controller_revisions]
        answer = revisions_answer(workload, kept)
        if NEW_TEMPLATE in live.workload:
            last = answer.revisions[-1].number if answer.revisions else 0
            made = NodeRevision(name=NEXT, revision=NEXT, number=last + 1, created_at_s=0.0)
            answer = replace(answer, revisions=(*answer.revisions, made))
        inbox.put_revisions(key, answer)
    return WorkloadReader(store, inbox, {kind: ManagedNames() for kind in WORKLOAD_RESOURCES}, lambda *_: "")


def _with_gateways(seen: Snapshot, routes: Routes) -> Snapshot:
    """The Snapshot after a gateway has accepted the routes that are in the file only."""
    accepted = {
        name: replace(route, accepted=Acceptance(Answer.YES))
        for name, route in seen.routes.items()
        if isinstance(route, RouteSeen) and name in routes.from_file
    }
    return replace(seen, routes={**seen.routes, **accepted})


def with_service(seen: Snapshot, name: ServiceRef, service: Manifest | None) -> Snapshot:
    """The Snapshot with a Service of the strategy as it will be: its selector is the file's.

    A Service that does not exist gets the template's labels as its selector.
    """
    labels = seen.rollout.spec.template_labels
    selector = labels if service is None else (service.get("spec") or {}).get("selector") or {}
    users = users_selector(selector)
    before = seen.services.get(name)
    if not isinstance(before, ServiceSeen):
        before = ServiceSeen(
            name=name, uid=f"rehearsed-{name}", resource_version="1", revision="", managed_by="", watched=False
        )
    made = replace(before, has_selector=bool(users), selects_template=selects(users, labels))
    return replace(seen, services={**seen.services, name: made})


def startup_of(pods: Iterable[Manifest]) -> Startup | None:
    """How long pods took to become ready; None when no pod is ready, or all have restarted a container."""
    took = []
    for pod in pods:
        status = pod.get("status") or {}
        restarted = any(container.get("restartCount") for container in status.get("containerStatuses") or ())
        conditions = status.get("conditions") or ()
        ready: Manifest = next((condition for condition in conditions if condition.get("type") == "Ready"), {})
        if restarted or ready.get("status") != "True" or pod["metadata"].get("deletionTimestamp"):
            continue
        began = status.get("startTime") or pod["metadata"].get("creationTimestamp")
        with suppress(KeyError, TypeError, ValueError):
            took.append(max(0.0, parse_time(ready["lastTransitionTime"]) - parse_time(began)))
    return Startup(min(took), statistics.median_low(took)) if took else None


_MANAGED = {"labelSelector": f"{MANAGED}={MANAGED_VALUE}"}  # EndpointSlices inherit it from their Service


async def _rollout(session: Session, key: Key) -> Manifest | None:
    if not key.name:  # generateName: each `kubectl create` makes another one
        return None
    try:
        return manifest_from(await session.client.get(ROLLOUT, key.namespace, key.name))
    except ApiNotFound as absent:
        if is_not_served(absent):
            raise
        return None


def _controller_uid(thing: Manifest) -> str | None:
    return next(
        (each["uid"] for each in thing["metadata"].get("ownerReferences") or () if each.get("controller")), None
    )


async def _listed(session: Session, collection: Collection) -> tuple[Manifest, ...]:
    try:
        return (await list_all(session, collection))[0]
    except ApiForbidden:
        if not collection.optional:
            raise
        return ()


def _struct(kind: Kind, manifest: Manifest) -> Any:
    return decode(kind, json.dumps(manifest).encode())


def _structs(kind: Kind, manifests: Iterable[Manifest]) -> list[Any]:
    return [_struct(kind, manifest) for manifest in manifests]
