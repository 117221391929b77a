"""One run: the real controller on the simulated cluster in virtual time, from an empty cluster to rest."""

from __future__ import annotations

import asyncio
import random
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import msgspec

from rollouts.api.schema import crd_manifests
from rollouts.bounded.here import Here
from rollouts.controller.wiring import run_controller
from rollouts.core.model.frozen import replace
from rollouts.manifests.ownership import ABORT_ACCEPTED, CONFIG_NOTE, PREFIX, REVISION, config_note_of
from rollouts.objects import ANALYSIS_RUN, CONFIG_MAP, EVENT, POD, REPLICA_SET, ROLLOUT, SERVICE, Key, Kind, Manifest
from rollouts.ports import MERGE_PATCH, ApiServer, Clock, DataPlanes, Request
from rollouts.settings import Settings
from rollouts.sim.actors.kubelet import KubeletSettings
from rollouts.sim.clock import run_virtual
from rollouts.sim.cluster import SimulatedCluster
from rollouts.sim.faults import Crashed, FaultTape, Faulty
from rollouts.sim.network.data_planes import SimDataPlanes
from rollouts.sim.network.gateway import GatewaySettings
from rollouts.sim.network.gateway_types import gateway_crds
from rollouts.sim.network.prometheus.faults import PrometheusFault
from rollouts.sim.network.prometheus.scraping import ScrapeSettings
from rollouts.sim.network.prometheus.server import DEFAULT_URL
from rollouts.telemetry import Telemetry
from tests import build
from tests.behaviour.plane_witness import PlaneWitness
from tests.behaviour.route_truth import ROUTE_KINDS
from tests.behaviour.witness import Witness

KEY = Key("default", "web")
GATEWAY_NAME = "public"
QUIET_S = 125.0  # longer than the longest back-off, the longest pause of a watch and the barrier's patience together
RESTART_S = 1.0
LIMIT_S = 3_600.0
AT_ONCE_S = 0.001
ALONE = Settings(leader_elect=False, identity="controller", routers=("gatewayAPI",))  # as the chart has it

Between: TypeAlias = Callable[[ApiServer], ApiServer]
"""Puts faults between a controller and the API server."""

EVERY_SECOND = ScrapeSettings(interval_s=1.0, discovery_s=0.1)
_BOUND_NAME = re.compile(r"-(step-\d+|background|pre-promotion|post-promotion|before-update)-[0-9a-z]+")
"""The end of an AnalysisRun's name; its last part follows from the moment at which the update began."""

TIMES = frozenset(
    {
        *("at", "since", "deadline", "lastTransitionTime", "startedAt", "finishedAt"),
        *("stepStartedAt", "progressedAt", "gateStartedAt", "confirmedAt", "until", "seenAt", "goneAt"),
        *("settledSince", "measuredAt"),
    }
)

EndState: TypeAlias = dict[str, Any]
Script: TypeAlias = Callable[["Stage"], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What one run left behind.

    Args:
        end: everything that is there at the end, but for times and for what is drawn by chance.
        faultable: writes that a tape numbers, in the order in which they were sent.
        seamless: those of them before which nothing had happened since the write before.
        effects: writes that took effect, by verb and kind.
        accepted: writes that took effect; without Leases and Events.
        refused: those that reached the server and did not.
        violations: broken invariants.
        unexpected: errors that no fault explains: of passes, and of the simulation itself.
        senders: controllers that sent anything.
        digest: over every request and answer.
        requests: all of them, watches too.
        questions: to Prometheus.
    """

    end: EndState
    faultable: int
    seamless: frozenset[int]
    effects: Counter[str]
    accepted: int
    refused: int
    violations: list[str]
    unexpected: list[str]
    senders: set[str]
    digest: str
    requests: int
    questions: int

    def assert_clean(self) -> None:
        """No rule was broken, and nothing unexpected happened."""
        assert (self.violations, self.unexpected) == ([], []), (self.violations, self.unexpected)


@dataclass(frozen=True, slots=True, kw_only=True)
class Behind:
    """The gateway that users come through.

    Args:
        planes: what the controller can ask of it; None for nobody to ask.
        pinned: see `PlaneWitness`.
    """

    settings: GatewaySettings
    planes: Callable[[SimDataPlanes], DataPlanes] | None = lambda planes: planes
    pinned: bool = False


class Stage:
    """A cluster, and people who use it."""

    def __init__(
        self,
        cluster: SimulatedCluster,
        *,
        grace_s: float = AT_ONCE_S,
        behind: Behind | None = None,
        prometheus: Mapping[int, PrometheusFault] | None = None,
        settings: Settings = ALONE,
    ) -> None:
        self.cluster = cluster
        self.settings = settings
        if prometheus is not None:
            self.prometheus = cluster.prometheus(settings=EVERY_SECOND, faults=prometheus)
            self.settings = replace(settings, prometheus_url=DEFAULT_URL)
        self.witness = Witness(cluster, KEY, grace_s=grace_s)
        self.planes: DataPlanes | None = None
        if behind is not None:
            self.gateway = cluster.gateway(namespace=KEY.namespace, name=GATEWAY_NAME, settings=behind.settings)
            self.plane = PlaneWitness(cluster, self.witness, self.gateway, KEY, route=KEY.name, pinned=behind.pinned)
            if behind.planes is not None:
                self.planes = behind.planes(SimDataPlanes([self.gateway], clock=cluster.clock))
        self.telemetry: list[Telemetry] = []
        self._stop = asyncio.Event()

    @property
    def status(self) -> Manifest:
        """The Rollout's; empty when there is none."""
        return (self.cluster.get(ROLLOUT, KEY.namespace, KEY.name) or {}).get("status") or {}

    @property
    def waits_for(self) -> str:
        """The reason for which the Rollout waits; "" for none."""
        return str((self.status.get("waitingFor") or {}).get("reason", ""))

    def condition(self, kind: str) -> Manifest:
        """A condition of the Rollout; empty when there is none."""
        return next((each for each in self.status.get("conditions") or () if each["type"] == kind), {})

    def events(self, reason: str) -> list[str]:
        """Notes of the Events of a reason."""
        return [each["note"] for each in self.cluster.list(EVENT, KEY.namespace) if each["reason"] == reason]

    def find(self, kind: Kind, name: str = KEY.name) -> Manifest:
        """An object that is there."""
        found = self.cluster.get(kind, KEY.namespace, name)
        assert found is not None, f"{kind.kind} {name} is not there"
        return found

    def sizes(self) -> dict[str, int]:
        """Pods that each ReplicaSet is to have, by its image's tag."""
        return {_tag(each): each["spec"]["replicas"] for each in self.cluster.list(REPLICA_SET, KEY.namespace)}

    def available(self, tag: str) -> int:
        return sum(_available(each) for each in self.cluster.list(REPLICA_SET, KEY.namespace) if _tag(each) == tag)

    def edit(self, patch: Manifest) -> None:
        self.merge(ROLLOUT, KEY.name, patch)

    def merge(self, kind: Kind, name: str, patch: Manifest, *, part: str = "") -> None:
        """Merges into an object, as `kubectl patch` does."""
        path = kind.path(KEY.namespace if kind.namespaced else None, name, part)
        answer = self.cluster.api.answer(Request("PATCH", path, {}, msgspec.json.encode(patch), MERGE_PATCH))
        assert answer.status == 200, answer.body

    def remove(self, kind: Kind, name: str) -> None:
        path = kind.path(KEY.namespace if kind.namespaced else None, name)
        assert self.cluster.api.answer(Request("DELETE", path)).status == 200

    def image(self, tag: str) -> None:
        pod = self.find(ROLLOUT)["spec"]["template"]["spec"]
        containers = [dict(each, image=f"web:{tag}") for each in pod["containers"]]
        self.edit({"spec": {"template": {"spec": {"containers": containers}}}})

    async def update(self, tag: str, phase: str) -> None:
        self.image(tag)
        await self.until_phase(phase, tag)

    def annotate(self, verb: str, value: str | None) -> None:
        """Gives an order by annotation, or takes it back."""
        self.edit({"metadata": {"annotations": {f"{PREFIX}{verb}": value}}})

    async def order(self, verb: str, value: str, phase: str, tag: str) -> None:
        self.annotate(verb, value)
        await self.until_phase(phase, tag)

    def delete(self) -> None:
        self.remove(ROLLOUT, KEY.name)

    async def delete_and_orphan(self) -> Manifest:
        """`kubectl delete --cascade=orphan`: its ReplicaSets stay. Answers what `kubectl apply` would make it of again."""
        before = self.find(ROLLOUT)
        body = msgspec.json.encode({"propagationPolicy": "Orphan"})
        answer = self.cluster.api.answer(Request("DELETE", ROLLOUT.path(KEY.namespace, KEY.name), body=body))
        assert answer.status == 200, answer.body
        await self.until(lambda: self.cluster.get(ROLLOUT, KEY.namespace, KEY.name) is None)
        return build.manifest(ROLLOUT, KEY.name, KEY.namespace, spec=before["spec"])

    async def until(self, holds: Callable[[], bool], *, within_s: float = 900.0) -> None:
        """Waits until something is true of the cluster. Raises: AssertionError after `within_s` virtual seconds."""
        changed = asyncio.Event()
        unlisten = self.cluster.api.history.listen(None, lambda _: changed.set())
        try:
            async with asyncio.timeout(within_s):
                while not holds():
                    changed.clear()
                    await changed.wait()
        except TimeoutError:
            raise AssertionError(f"did not come: {self.sizes()} {self.status}") from None
        finally:
            unlisten()

    async def until_phase(self, phase: str, tag: str) -> None:
        def holds() -> bool:
            sets = self.cluster.list(REPLICA_SET, KEY.namespace)
            current = {each["metadata"]["labels"].get(REVISION, ""): _tag(each) for each in sets}
            return self.status.get("phase") == phase and current.get(self.status.get("currentRevision", "")) == tag

        await self.until(holds)

    async def until_quiet(self) -> None:
        """Waits until no controller has written for so long that none will. Raises: AssertionError when they never stop."""
        loop = asyncio.get_running_loop()
        quiet_from_s = loop.time()
        give_up_s = quiet_from_s + 1_200
        while loop.time() < quiet_from_s + QUIET_S:
            await asyncio.sleep(quiet_from_s + QUIET_S - loop.time())
            quiet_from_s = max(quiet_from_s, self.witness.last_write_s())
            assert loop.time() < give_up_s, f"never at rest: {self.status}"

    async def keep_running(self, between: Between, *, tape: FaultTape, seed: int) -> None:
        """Runs the controller, and another one after a crash, until `stop`."""
        with suppress(Crashed):
            try:
                await self.control(between(Faulty(self.witness.door("first"), tape)), seed=seed)
            except BaseExceptionGroup as group:
                _, rest = group.split(Crashed)
                if rest is not None:
                    raise rest from None
                raise Crashed from None
            return
        await asyncio.sleep(RESTART_S)
        await self.control(between(self.witness.door("second")), seed=seed + 1)

    def stop(self) -> None:
        self._stop.set()

    async def control(
        self, api: ApiServer, *, seed: int, settings: Settings | None = None, clock: Clock | None = None
    ) -> int:
        """One controller until `stop`; its exit code."""
        return await run_controller(
            settings or self.settings,
            api=api,
            clock=clock or self.cluster.clock,
            rng=random.Random(seed),  # noqa: S311 - jitter
            stop=self._stop,
            on_ready=self.telemetry.append,
            planes=self.planes,
            metrics=self.cluster.metrics,
            bounded=Here(),
        )

    def end_state(self) -> EndState:
        """All that is in the Rollout's namespace, without times; pods by revision."""
        rollout = self.cluster.get(ROLLOUT, KEY.namespace, KEY.name) or {"metadata": {}}
        return {
            "replicaSets": self._named(
                REPLICA_SET,
                lambda each: [_tag(each), each["spec"]["replicas"], _available(each), _annotations(each)],
            ),
            "pods": dict(
                Counter(each["metadata"]["labels"].get(REVISION, "") for each in self.cluster.list(POD, KEY.namespace))
            ),
            "services": self._named(
                SERVICE, lambda each: [each["spec"]["selector"], each["metadata"].get("labels") or {}]
            ),
            "routes": {each["metadata"]["name"]: _route(each) for each in self._routes()},
            "configMaps": self._named(
                CONFIG_MAP, lambda each: [each.get("data"), each.get("immutable"), _owners(each)]
            ),
            "runs": self._runs(),
            "status": _without_run_names(_without_times(self.status)),
            "annotations": rollout["metadata"].get("annotations") or {},
        }

    def _named(self, kind: Kind, of: Callable[[Manifest], list[Any]]) -> EndState:
        return {each["metadata"]["name"]: of(each) for each in self.cluster.list(kind, KEY.namespace)}

    def _runs(self) -> list[Any]:
        """What became of each AnalysisRun; what it measured depends on the moments."""
        found = []
        for each in self.cluster.list(ANALYSIS_RUN, KEY.namespace):
            status = each.get("status") or {}
            judged = {result["name"]: result["phase"] for result in status.get("metricResults") or ()}
            told = each["spec"].get("terminate", False)
            found.append([each["metadata"]["name"], status.get("phase", ""), told, judged])
        return sorted(_without_run_names(found), key=repr)

    def _routes(self) -> list[Manifest]:
        found = self.cluster.api.registry.find
        served = [each for each in ROUTE_KINDS if found(each.group, each.version, each.plural)]
        return [route for kind in served for route in self.cluster.list(kind, KEY.namespace)]

    def summary(self, *, faultable: int, bugs: list[str]) -> Run:
        """The run so far."""
        arrivals = self.witness.arrivals
        return Run(
            end=self.end_state(),
            faultable=faultable,
            seamless=frozenset(self.witness.seamless),
            effects=self.witness.effects(),
            accepted=sum(each.is_rollout_write and each.status < 300 for each in arrivals),
            refused=sum(each.is_rollout_write and each.status >= 300 for each in arrivals),
            violations=self.witness.violations,
            unexpected=[*bugs, *_unexpected(self.telemetry)],
            senders={each.sender for each in arrivals},
            digest=self.witness.digest(),
            requests=len(arrivals),
            questions=sum(len(each.questions) for each in self.cluster.metrics.servers),
        )


def play(
    manifests: tuple[Manifest, ...],
    script: Script,
    *,
    seed: int = 1,
    tape: FaultTape | None = None,
    between: Between = lambda api: api,
    alongside: Script | None = None,
    grace_s: float = AT_ONCE_S,
    slice_lag_s: float = 0.02,
    behind: Behind | None = None,
    kernel: str = "6.1.0",
    more_crds: tuple[Manifest, ...] = (),
    prometheus: Mapping[int, PrometheusFault] | None = None,
    settings: Settings = ALONE,
    hold_policies: bool = False,
) -> Run:
    """Plays a script from an empty cluster to rest.

    Args:
        tape: faults of the first controller's writes; after a crash a second one runs, without faults.
        between: more faults, of every controller.
        alongside: runs beside the script, and is cancelled when the script has ended.
        grace_s: the longest that a fault can hold a pass up, which then ends on an older spec.
        slice_lag_s: from a pod's change to its EndpointSlice.
        behind: with a gateway, and an eye on what it does (`PlaneWitness`).
        kernel: of the nodes.
        more_crds: of routers that no gateway here obeys.
        prometheus: with a Prometheus that fails so at these of its questions; None for none.
        settings: of the controller.
        hold_policies: the chart's policies hold workloads that a Rollout updates in place.

    Raises: AssertionError when the script's next scene or rest does not come; what else goes wrong in the controller.
    """
    tape = tape or FaultTape({})

    async def main() -> Run:
        loop = asyncio.get_running_loop()
        bugs: list[str] = []
        loop.set_exception_handler(lambda _, context: bugs.append(repr(context)))
        kubelet = KubeletSettings(startup_s=(0.3, 0.9), kernel=kernel)
        types = (*crds(), *(gateway_crds() if behind is not None else ()), *more_crds)
        async with SimulatedCluster(
            seed=seed, crds=types, kubelet=kubelet, slice_lag_s=slice_lag_s, hold_policies=hold_policies
        ) as cluster:
            stage = Stage(cluster, grace_s=grace_s, behind=behind, prometheus=prometheus, settings=settings)
            controller = asyncio.create_task(stage.keep_running(between, tape=tape, seed=seed))
            disturbance = asyncio.ensure_future(alongside(stage)) if alongside is not None else None
            for manifest in manifests:
                cluster.apply(manifest)
            try:
                await script(stage)
                if disturbance is not None:
                    disturbance.cancel()
                    await asyncio.wait({disturbance})
                await stage.until_quiet()
            finally:
                stage.stop()
                await controller
            return stage.summary(faultable=tape.seen, bugs=bugs)

    return run_virtual(main(), limit_s=LIMIT_S)


EXPECTED_ERRORS = frozenset(("ApiConflict", "ApiThrottled", "ApiUnavailable", "NotLeader"))


def _unexpected(telemetry: list[Telemetry]) -> list[str]:
    """Errors of passes and of looks at runs that no fault here explains: a bug that the worker has confined to its key."""
    counters = [counter for each in telemetry for counter in (each.errors, each.analysis.errors)]
    errors = [sample for counter in counters for metric in counter.collect() for sample in metric.samples]
    return [
        f'{each.name}{{error="{each.labels["error"]}"}} {each.value}'
        for each in errors
        if each.labels["error"] not in EXPECTED_ERRORS
    ]


@cache
def crds() -> tuple[Manifest, ...]:
    """The project's CRDs, made once."""
    return crd_manifests()


def _tag(replica_set: Manifest) -> str:
    return str(replica_set["spec"]["template"]["spec"]["containers"][0]["image"]).rpartition(":")[2]


def _available(replica_set: Manifest) -> int:
    return int((replica_set.get("status") or {}).get("availableReplicas", 0))


def _annotations(replica_set: Manifest) -> Manifest:
    """Without whether an abort was noted there, and which version of a ConfigMap was read: both depend on the moment."""
    annotations = replica_set["metadata"].get("annotations") or {}
    noted = [(use.kind, use.source, use.content, use.copy) for use in config_note_of(annotations) or ()]
    return {**annotations, CONFIG_NOTE: noted, ABORT_ACCEPTED: None}


def _owners(manifest: Manifest) -> list[str]:
    return [each["name"] for each in manifest["metadata"].get("ownerReferences") or ()]


def _without_run_names(value: Any) -> Any:
    return msgspec.json.decode(_BOUND_NAME.sub(r"-\1", msgspec.json.encode(value).decode()))


def _route(manifest: Manifest) -> list[Any]:
    metadata = manifest["metadata"]
    return [manifest["spec"], metadata.get("labels") or {}, metadata.get("annotations") or {}]


def _without_times(value: Any) -> Any:
    """Without what differs from one run to the next: times, and the uids of AnalysisRuns."""
    match value:
        case dict():
            return {key: _without_times(item) for key, item in value.items() if key not in (*TIMES, "uid")}
        case list():
            return [_without_times(item) for item in value]
        case _:
            return value
