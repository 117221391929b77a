"""Builders and a hand-made API server for the tests of the controller's shell."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec

from rollouts.api.spec.parse import parse_rollout, parse_spec
from rollouts.cluster.client import Client
from rollouts.cluster.decoding import decode
from rollouts.cluster.store import Store
from rollouts.cluster.structs import (
    AnalysisRunObject,
    AnalysisTemplateObject,
    ConfigMapObject,
    EndpointSliceObject,
    ExperimentObject,
    ReplicaSetObject,
    RolloutObject,
    ServiceObject,
)
from rollouts.controller.act.answers import Answers
from rollouts.controller.act.calls import RolloutCall
from rollouts.controller.act.performer import Performer, RolloutVersion
from rollouts.controller.act.render import render
from rollouts.controller.configs.contents import Contents
from rollouts.controller.configs.sources import Sources
from rollouts.controller.facts.cluster_metrics import ClusterMetrics
from rollouts.controller.facts.gateway_classes import GatewayClasses
from rollouts.controller.facts.gateway_lags import GatewayLags
from rollouts.controller.facts.route_kinds import RouteKinds
from rollouts.controller.observe.analyses import Analyses
from rollouts.controller.observe.observer import Observer
from rollouts.controller.observe.routes import RouteReader
from rollouts.controller.workqueue.barrier import Barrier
from rollouts.controller.workqueue.inbox import Inbox
from rollouts.controller.workqueue.managed import ManagedNames
from rollouts.controller.workqueue.queue import WorkQueue
from rollouts.controller.workqueue.triggers import Triggers
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import Intent
from rollouts.core.model.rollout import Rollout
from rollouts.core.model.snapshot import Snapshot
from rollouts.core.model.status import RolloutStatus
from rollouts.manifests.ownership import FIELD_MANAGER, NAME
from rollouts.objects import (
    ANALYSIS_RUN,
    ANALYSIS_TEMPLATE,
    CLUSTER_ANALYSIS_TEMPLATE,
    CONFIG_MAP,
    ENDPOINT_SLICE,
    EXPERIMENT,
    REPLICA_SET,
    ROLLOUT,
    SERVICE,
    Key,
    Kind,
    Manifest,
)
from rollouts.ports import DataPlanes, Request, Response, WatchStream
from rollouts.sim.clock import SimClock
from tests import build
from tests.controller.door import refusal

CART = Key("shop", "cart")
CART_UID = "cart-uid"


def metadata(name: str, *, version: int = 1, **more: Any) -> dict[str, Any]:
    """Metadata of an object in namespace shop."""
    of = {"name": name, "namespace": "shop", "uid": f"{name}-uid", "resourceVersion": str(version), "generation": 1}
    return of | more


def obj(kind: Kind, manifest: dict[str, Any]) -> Any:
    """The struct that a watch would bring."""
    return decode(kind, msgspec.json.encode(manifest))


def spec_of(*steps: Manifest, name: str = "cart", image: str = "app:1", **fields: Any) -> Manifest:
    """A spec that can be carried out; `fields` are those of its canary."""
    spec: Manifest = build.rollout(build.canary(*steps, **fields), name, image=image)["spec"]
    return spec


def rollout(
    name: str = "cart", *, version: int = 1, status: Any = None, spec: Any = None, **more: Any
) -> RolloutObject:
    """A Rollout with a spec that can be carried out."""
    meta, whole = metadata(name, version=version, **more), spec or spec_of({"setWeight": 50}, name=name)
    return cast(RolloutObject, obj(ROLLOUT, {"metadata": meta, "spec": whole, "status": status or {}}))


def parsed(**changes: Any) -> Rollout:
    """Rollout cart as the core sees it; `changes` are fields of its spec."""
    return parse_rollout(
        namespace="shop",
        name="cart",
        uid=CART_UID,
        resource_version="7",
        generation=1,
        created_at_s=0.0,
        annotations={},
        spec=replace(parse_spec(bytes(rollout().spec)), **changes),
        deleting=False,
    )


def rendered(intent: Intent) -> Sequence[RolloutCall]:
    """The calls of an intent for Rollout cart."""
    return render(Snapshot(now_s=0.0, rollout=parsed(), status=RolloutStatus()), intent)


def owned(name: str = "cart", uid: str = CART_UID) -> list[dict[str, Any]]:
    """Owner references that make a Rollout the controller."""
    owner = {"apiVersion": "rollouts.dev/v1alpha1", "kind": "Rollout", "name": name, "uid": uid, "controller": True}
    return [owner]


def replica_set(name: str = "cart-v1", *, version: int = 1, status: Any = None, **more: Any) -> ReplicaSetObject:
    """A ReplicaSet of Rollout cart."""
    labels = {"rollouts.dev/name": "cart", "rollouts.dev/revision": name.removeprefix("cart-")}
    meta = metadata(name, version=version, ownerReferences=owned(), labels=labels) | more
    of = {"metadata": meta, "spec": {"replicas": 2}, "status": status or {}}
    return cast(ReplicaSetObject, obj(REPLICA_SET, of))


def stored(manifest: dict[str, Any], *, version: int) -> ReplicaSetObject:
    """A ReplicaSet that was created with that manifest, as the watch then brings it; it has no pods yet."""
    meta = manifest["metadata"] | {"uid": f"{manifest['metadata']['name']}-uid", "resourceVersion": str(version)}
    return cast(ReplicaSetObject, obj(REPLICA_SET, manifest | {"metadata": meta}))


def service(name: str = "web", *, version: int = 1, managed_by: str = "", **more: Any) -> ServiceObject:
    """A Service, managed or not."""
    managed = {"labels": {"rollouts.dev/managed": "true"}, "annotations": {"rollouts.dev/managed-by": managed_by}}
    meta = metadata(name, version=version, **(managed if managed_by else {}))
    return cast(ServiceObject, obj(SERVICE, {"metadata": meta, "spec": {"selector": {"app": "cart"} | more}}))


def slice_of(service_name: str, *pods: str, version: int = 1, name: str = "") -> EndpointSliceObject:
    """An EndpointSlice whose endpoints are those pods, all ready."""
    endpoints = [{"conditions": {"ready": True}, "targetRef": {"kind": "Pod", "name": pod}} for pod in pods]
    labels = {"kubernetes.io/service-name": service_name, "rollouts.dev/managed": "true"}
    meta = metadata(name or f"{service_name}-x", version=version, labels=labels)
    return cast(EndpointSliceObject, obj(ENDPOINT_SLICE, {"metadata": meta, "endpoints": endpoints}))


def analysis_run(
    name: str = "cart-run", *, version: int = 1, spec: Any = None, status: Any = None, **more: Any
) -> AnalysisRunObject:
    """The AnalysisRun of step 0 of revision v2 of Rollout cart."""
    labels = {"rollouts.dev/name": "cart", "rollouts.dev/revision": "v2"}
    labels |= {"rollouts.dev/analysis": "step", "rollouts.dev/step": "0"}
    meta = metadata(name, version=version, ownerReferences=owned(), labels=labels) | more
    of = {"metadata": meta, "spec": spec or {}, "status": status or {}}
    return cast(AnalysisRunObject, obj(ANALYSIS_RUN, of))


def template(name: str = "errors", *, version: int = 1, cluster: bool = False, **spec: Any) -> AnalysisTemplateObject:
    """An analysis template that measures one metric of its name, unless `spec` says more."""
    prometheus = {"query": "sum(errors)"}
    metric = {"name": name, "successCondition": "result[0] < 1", "provider": {"prometheus": prometheus}}
    kind = CLUSTER_ANALYSIS_TEMPLATE if cluster else ANALYSIS_TEMPLATE
    meta = metadata(name, version=version) | ({"namespace": ""} if cluster else {})
    return cast(AnalysisTemplateObject, obj(kind, {"metadata": meta, "spec": {"metrics": [metric], **spec}}))


Answer = Callable[[Request], Response]


@dataclass
class ScriptedApi:
    """An API server that answers as it is told and remembers what it was asked."""

    answers: list[Answer] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    otherwise: Answer = lambda _request: ok(99)

    async def request(self, request: Request, *, deadline_s: float) -> Response:  # noqa: ARG002 - answers come at once
        """The next scripted answer, or `otherwise`."""
        self.requests.append(request)
        await asyncio.sleep(0)
        answer = self.answers.pop(0) if self.answers else self.otherwise
        return answer(request)

    async def open_watch(self, request: Request, *, deadline_s: float, silence_s: float) -> WatchStream:
        """No test here watches through it."""
        raise NotImplementedError

    async def aclose(self) -> None:
        """Nothing to close."""

    def body(self, index: int) -> Any:
        """Decoded body of the request at `index`."""
        return msgspec.json.decode(self.requests[index].body)


def ok(version: int, **more: Any) -> Response:
    """200 with an object at that resourceVersion."""
    meta = {"name": "x", "uid": "x-uid", "resourceVersion": str(version)} | more
    return Response(200, msgspec.json.encode({"metadata": meta}))


error = refusal


def says(response: Response) -> Answer:
    """Always that response."""
    return lambda _request: response


class World:
    """Store, queue, inbox, barrier and performer over one scripted API server; make it inside a running loop."""

    def __init__(self) -> None:
        self.clock = SimClock(asyncio.get_running_loop())
        self.api = ScriptedApi()
        self.leads = True
        self.store = Store(clock=self.clock)
        self.rollouts = self.store.add(ROLLOUT, RolloutObject)
        self.replica_sets = self.store.add(REPLICA_SET, ReplicaSetObject, by_owner=True, orphans_by=NAME)
        self.services = self.store.add(SERVICE, ServiceObject)
        self.slices = self.store.add(ENDPOINT_SLICE, EndpointSliceObject, labels=("kubernetes.io/service-name",))
        self.runs = self.store.add(ANALYSIS_RUN, AnalysisRunObject, by_owner=True)
        self.store.add(EXPERIMENT, ExperimentObject, by_owner=True)
        self.templates = self.store.add(ANALYSIS_TEMPLATE, AnalysisTemplateObject)
        self.cluster_templates = self.store.add(CLUSTER_ANALYSIS_TEMPLATE, AnalysisTemplateObject)
        self.config_maps = self.store.add(CONFIG_MAP, ConfigMapObject, labels=(NAME,), metadata_only=True)
        self.contents = Contents()
        self.unseen: dict[Kind, str] = {}
        """Kinds that cannot be watched, and why."""
        self.analyses = Analyses(self.store, why_unseen=lambda kind, _namespace: self.unseen.get(kind, ""))
        self.found_kinds: list[Kind] = []
        rng = random.Random(1)  # noqa: S311 - jitter
        self.queue = WorkQueue(clock=self.clock, rng=rng, workers=32)
        self.inbox = Inbox(clock=self.clock)
        self.managed = ManagedNames()
        self.barrier = Barrier(store=self.store, queue=self.queue, clock=self.clock)
        self.kinds = RouteKinds(api=self.api, on_found=self.found_kinds.append)
        self.client = Client(
            self.api,
            clock=self.clock,
            may_write=lambda: self.leads,
            request_deadline_s=5.0,
            rng=rng,
            field_manager=FIELD_MANAGER,
        )
        self.load = ClusterMetrics(self.client, self.clock)

    @property
    def _shared(self) -> dict[str, Any]:
        """What nearly every part has."""
        return {"store": self.store, "inbox": self.inbox, "clock": self.clock}

    def observer(self, routes: RouteReader | None = None, **more: Any) -> Observer:
        """What reads it into core values."""
        return Observer(**self._shared, managed=self.managed, analyses=self.analyses, routes=routes, **more)

    def triggers(self) -> Triggers:
        """Whom a change concerns."""
        seen, asked, named = self.analyses.seen, self.analyses.askers, self.contents.askers
        return Triggers(inbox=self.inbox, store=self.store, runs=seen, templates=asked, sources=named)

    def performer(
        self, questions: asyncio.TaskGroup, *, planes: DataPlanes | None = None, lags: GatewayLags | None = None
    ) -> Performer:
        """A performer whose questions that group owns."""
        shared = {**self._shared, "client": self.client, "queue": self.queue}
        answers = Answers(
            **shared,
            kinds=self.kinds,
            classes=GatewayClasses(clock=self.clock),
            load=self.load,
            planes=cast(DataPlanes, planes),  # None where nobody asks them
            lags=lags or GatewayLags(clock=self.clock),
            questions=questions,
        )
        of_sources = {name: part for name, part in shared.items() if name != "inbox"}
        sources = Sources(**of_sources, contents=self.contents, barrier=self.barrier, reads=questions)
        return Performer(**shared, barrier=self.barrier, answers=answers, sources=sources)

    def target(self, version: str = "7") -> RolloutVersion:
        """Rollout cart, decided on at that version."""
        return RolloutVersion(key=CART, uid=CART_UID, resource_version=version)


async def answered() -> None:
    """Returns when all questions have their answers; those that failed have been asked again by then."""
    while others := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(others)
