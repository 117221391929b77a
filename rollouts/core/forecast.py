"""Rehearses an update: `decide` runs on a model of the cluster in which nothing goes wrong. Pure.

So sizes, order, Services and waits are the controller's own decisions, not a second opinion. Pods become ready after a given
time, ReplicaSets and EndpointSlices follow at once, people promote at each gate, each analysis succeeds at once (how long it
measures, and what, nobody knows beforehand), and autoscalers are content with what there is. Failures are not rehearsed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import assert_never

from msgspec import Struct

from rollouts.core.context.waits import earliest
from rollouts.core.decide import decide
from rollouts.core.model.after import after
from rollouts.core.model.analysis import AnalysisGate, AnalysisKind, AnalysisPhase, OnFailure, RunDraft
from rollouts.core.model.autoscaling import AutoscalerSeen, AutoscalingSeen, ContainerUse, ScalingCondition
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import (
    AskAutoscaling,
    AskConfig,
    AskFeatures,
    AskLive,
    AskPods,
    CreateAnalysisRun,
    Decision,
    Intent,
    MakeRoute,
    SetTraffic,
)
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import BlueGreen, Canary, analyses
from rollouts.core.model.service_ref import ServiceRef
from rollouts.core.model.snapshot import Pod, PodsSeen, ReplicaSet, Service, ServiceSeen, Snapshot
from rollouts.core.model.status import RolloutStatus, Verb, WaitingFor
from rollouts.core.model.steps import WeightPercent
from rollouts.core.model.traffic import Acceptance, Answer, Feature, LiveSeen, RouteSeen, VerifiedBy
from rollouts.core.one_way import target_of
from rollouts.core.routing.ping_pong import seen_from_the_other_side

_PASSES_MAX = 5_000  # an update of 100 steps takes about 1,000
_MANY_PODS = 2**31 - 1
_ON_FAILURE = {
    OnFailure.ABORT: "aborts the update",
    OnFailure.HOLD: "holds the update",
    OnFailure.STEP_BACK: "takes the weight one step back and holds the update",
}
_BY_PEOPLE = frozenset({Reason.PROMOTION_NEEDED, Reason.PAUSED_BY_USER})


class StageKind(StrEnum):
    """The kinds of parts of an update."""

    FIRST = "first"  # nothing serves yet: no steps
    STEP = "step"  # a step of a canary
    FULL = "full"  # canary: all steps are done, the new revision takes all traffic
    PREVIEW = "preview"  # blue-green: until the gate
    SWITCH = "switch"  # blue-green: from the gate to the promotion
    AFTER = "after"  # the new revision is the stable one


class Pods(Struct, frozen=True):
    """How many pods the new revision has, the one that was stable before, and all others."""

    new: int
    old: int
    others: int

    @property
    def total(self) -> int:
        """All pods."""
        return self.new + self.old + self.others


class Waited(Struct, frozen=True):
    """One wait of a stage.

    Args:
        seconds: 0 when the time is not known beforehand; None when a person must act.
    """

    reason: Reason
    message: str
    seconds: float | None


class GrownSizes(Struct, frozen=True):
    """The sizes of all ReplicaSets right after one has grown.

    Args:
        revision: the one that has grown.
        sizes: pods of each revision; a revision without pods may be missing.
    """

    revision: str
    sizes: Mapping[str, int]


class Stage(Struct, frozen=True, kw_only=True):
    """One part of an update.

    Args:
        weight_percent: the canary's weight in status.
        pods: the sizes of the ReplicaSets at the end of the stage.
        most_pods: the largest sum of sizes at any moment of the stage.
        least_available: the fewest available pods at any moment of the stage.
        services: the revision that each managed Service selects at the end; "" for all pods.
        growths: the growths of the stage. One is left out when another has as many pods of each revision, or when it lies evenly
            between two others, as most of those do that replace pods one by one: no sum over pods is largest there.
    """

    kind: StageKind
    step_index: int | None
    weight_percent: WeightPercent | None
    pods: Pods
    most_pods: int
    least_available: int
    services: Mapping[ServiceRef, str]
    waits: tuple[Waited, ...] = ()
    growths: tuple[GrownSizes, ...] = ()


class Rehearsal(Struct, frozen=True, kw_only=True):
    """An update from its beginning until nothing changes any more.

    Args:
        revision: the one that is rolled out.
        stages: empty when there is nothing to do.
        stuck: the wait at which the update stops.
        end: the Snapshot at the end.
    """

    revision: str
    stable_before: str
    stages: tuple[Stage, ...]
    stuck: WaitingFor | None
    end: Snapshot


def rehearse(seen: Snapshot, *, startup_s: float) -> Rehearsal:
    """Rehearses the update from `seen` until nothing more happens by itself.

    Args:
        seen: must have every Service that the spec names.
        startup_s: seconds from the creation of a pod until it is ready.
    """
    forecast = _Forecast(seen, startup_s=startup_s, stable_before=seen.status.stable_revision)
    forecast.play()
    status, stages = forecast.seen.status, forecast.stages
    if len(stages) > 1 and stages[-1].kind is StageKind.AFTER and not stages[-1].waits:
        last, before = stages[-1], stages[-2]
        if (last.pods, last.services) == (before.pods, before.services):  # the end changes nothing
            stages.pop()
    finished = status.current_revision == status.stable_revision and status.waiting_for is None
    return Rehearsal(
        revision=status.current_revision,
        stable_before=forecast.stable_before,
        stages=tuple(stages),
        stuck=None if finished else status.waiting_for,
        end=forecast.seen,
    )


def with_revision(seen: Snapshot, revision: str) -> Snapshot:
    """The Snapshot after a change of the template to one with this hash."""
    spec = replace(seen.rollout.spec, template_hash=revision, revision=revision)
    return replace(seen, rollout=replace(seen.rollout, spec=spec, generation=seen.rollout.generation + 1))


@dataclass(slots=True)
class _Forecast:
    seen: Snapshot
    startup_s: float
    stable_before: str
    stages: list[Stage] = field(default_factory=list)
    starting: list[tuple[float, str, int]] = field(default_factory=list)  # (ready at, name of the ReplicaSet, pods)
    acted: set[tuple[Reason, int]] = field(default_factory=set)
    grown: list[GrownSizes] = field(default_factory=list)  # in this pass

    def play(self) -> None:
        self.seen = replace(self.seen, replica_sets=tuple(map(_caught_up, self.seen.replica_sets)))
        for replica_set in self.seen.replica_sets:
            self._start(replica_set.name, replica_set.spec_replicas - replica_set.available)
        gates = analyses(self.seen.rollout.spec.strategy)
        for _ in range(_PASSES_MAX):
            if gates:  # every analysis of the spec can begin
                latest = target_of(self.seen, self.seen.status)
                draft = RunDraft(b"{}", latest=latest, stable=self.seen.status.stable_revision)
                self.seen = replace(self.seen, drafts=dict.fromkeys(gates, draft))
            before = self.seen
            decision = decide(before)
            self._carry_out(decision)
            self._record(before.status)
            if self.seen == before and not self._time_passes(decision.requeue_at_s) and not self._person_acts():
                return

    def _carry_out(self, decision: Decision) -> None:
        self.grown.clear()
        for intent in decision.intents:
            self._write(intent)
            self._answer(intent)
        services = dict[ServiceRef, Service]()
        for name, service in self.seen.services.items():
            assert isinstance(service, ServiceSeen)  # noqa: S101 - `rehearse` asks for it
            ready = {
                replica_set.revision: replica_set.available
                for replica_set in self.seen.replica_sets
                if service.watched and replica_set.available and service.revision in ("", replica_set.revision)
            }
            services[name] = replace(service, ready_by_revision=ready, slices_seen=True)
        routes = self.seen.routes
        if decision.status.pong_is_stable != self.seen.status.pong_is_stable:  # the canary Service is another one now
            routes = {name: seen_from_the_other_side(route) for name, route in routes.items()}
        self.seen = replace(self.seen, status=decision.status, services=services, routes=routes)

    def _record(self, before: RolloutStatus) -> None:
        """Updates the present stage with the result of this pass, and opens the next one when it has begun."""
        status = self.seen.status
        if not self.stages and status.current_revision == status.stable_revision == self.stable_before:
            return  # nothing is rolled out
        now = self._stage(status)
        last = self.stages[-1] if self.stages else None
        # The pass that opens the gate of a blue-green update grows the preview already; one that records a step shrinks for it.
        past_gate = last is not None and last.kind is StageKind.PREVIEW and now.kind is not StageKind.PREVIEW
        begins = last is None or (last.kind, last.step_index) != (now.kind, now.step_index)
        if last is not None and before.current_revision == status.current_revision and not past_gate:
            self.stages[-1] = replace(
                last,
                pods=now.pods,
                services=now.services,
                most_pods=max(last.most_pods, now.most_pods),
                least_available=min(last.least_available, now.least_available),
            )
        if begins:
            self.stages.append(now)
        self.stages[-1] = replace(self.stages[-1], growths=_largest((*self.stages[-1].growths, *self.grown)))

    def _stage(self, status: RolloutStatus) -> Stage:
        kind, index = self._kind(status)
        sizes = {replica_set.revision: replica_set.spec_replicas for replica_set in self.seen.replica_sets}
        new, old = sizes.pop(status.current_revision, 0), sizes.pop(self.stable_before, 0)
        pods = Pods(new, old, sum(sizes.values()))
        return Stage(
            kind=kind,
            step_index=index,
            weight_percent=status.weight_percent,
            pods=pods,
            most_pods=pods.total,
            least_available=sum(replica_set.available for replica_set in self.seen.replica_sets),
            services={
                name: service.revision
                for name, service in self.seen.services.items()
                if isinstance(service, ServiceSeen)
            },
        )

    def _kind(self, status: RolloutStatus) -> tuple[StageKind, int | None]:
        if status.current_revision == status.stable_revision:
            return StageKind.AFTER, None
        if not status.stable_revision:
            return StageKind.FIRST, None
        match self.seen.rollout.spec.strategy:
            case Canary(steps=steps):
                if status.step_index < len(steps):
                    return StageKind.STEP, status.step_index
                return StageKind.FULL, None
            case BlueGreen():
                return (StageKind.SWITCH if status.gate_passed else StageKind.PREVIEW), None

    def _time_passes(self, requeue_at_s: float | None) -> bool:
        """Moves time to the next moment that changes anything; False when there is none, or only a person can change anything."""
        waiting = self.seen.status.waiting_for
        ready_s = earliest(at_s for at_s, _, _ in self.starting)
        if waiting is not None and waiting.reason in _BY_PEOPLE and ready_s is None:
            return False
        next_s = earliest((ready_s, requeue_at_s))
        if next_s is None:
            return False
        next_s = max(next_s, self.seen.now_s)
        if waiting is not None:
            self._waited(Waited(waiting.reason, waiting.message, next_s - self.seen.now_s))
        ready = Counter[str]()
        for at_s, name, count in self.starting:
            ready[name] += count if at_s <= next_s else 0
        self.starting = [start for start in self.starting if start[0] > next_s]
        sets = [
            _caught_up(replace(replica_set, available=replica_set.available + ready[replica_set.name]))
            for replica_set in self.seen.replica_sets
        ]
        self.seen = replace(self.seen, now_s=next_s, replica_sets=tuple(sets))
        return True

    def _person_acts(self) -> bool:
        """Promotes the revision or ends a pause; False when the update does not wait for that, or it did not help before."""
        waiting, status, rollout = self.seen.status.waiting_for, self.seen.status, self.seen.rollout
        if waiting is None or waiting.reason not in _BY_PEOPLE or (waiting.reason, status.step_index) in self.acted:
            return False
        self.acted.add((waiting.reason, status.step_index))
        self._waited(Waited(waiting.reason, waiting.message, None))
        annotations = {name: value for name, value in rollout.annotations.items() if name != Verb.PAUSE}
        if waiting.reason is Reason.PROMOTION_NEEDED:
            annotations[Verb.PROMOTE] = f"{status.current_revision}@{status.step_index}"
        rollout = replace(rollout, annotations=annotations, spec=replace(rollout.spec, paused=False))
        self.seen = replace(self.seen, rollout=rollout)
        return True

    def _waited(self, wait: Waited) -> None:
        if not self.stages:
            return
        last = self.stages[-1]
        waits = list(last.waits)
        same = waits and waits[-1].reason is wait.reason is not Reason.ANALYSIS_RUNNING
        if same and waits[-1].seconds is not None and wait.seconds is not None:
            waits[-1] = replace(waits[-1], seconds=waits[-1].seconds + wait.seconds)
        else:
            waits.append(wait)
        self.stages[-1] = replace(last, waits=tuple(waits))

    def _write(self, intent: Intent) -> None:
        """Applies a write and what the ReplicaSet controller does about it at once; only pods need time."""
        before = {replica_set.uid: replica_set.spec_replicas for replica_set in self.seen.replica_sets}
        written = after(self.seen, intent)
        self.seen = replace(written, replica_sets=tuple(map(_caught_up, written.replica_sets)))
        sizes = {replica_set.revision: replica_set.spec_replicas for replica_set in self.seen.replica_sets}
        for replica_set in self.seen.replica_sets:
            if (more := replica_set.spec_replicas - before.get(replica_set.uid, 0)) > 0:
                self._start(replica_set.name, more)
                self.grown.append(GrownSizes(replica_set.revision, sizes))

    def _answer(self, intent: Intent) -> None:
        match intent:
            case CreateAnalysisRun(name=name, gate=gate):
                self._tell_analysis(gate)
                # Nobody knows beforehand what will be measured, and an update that fails goes no further.
                runs = [
                    replace(run, phase=AnalysisPhase.SUCCESSFUL, measured=True, completed_at_s=run.created_at_s)
                    if run.name == name
                    else run
                    for run in self.seen.runs
                ]
                self.seen = replace(self.seen, runs=tuple(runs))
            case AskConfig(ref):  # nobody has replaced the copy
                copies = [replace(copy, checked=True) if copy.name == ref.name else copy for copy in self.seen.copies]
                self.seen = replace(self.seen, copies=tuple(copies))
            case AskPods():
                self.seen = replace(self.seen, pods=_pods_counted(self.seen))
            case AskAutoscaling():
                self.seen = replace(self.seen, autoscaling=_content(self.seen))
            case SetTraffic() | MakeRoute() | AskLive() | AskFeatures():
                self._gateways_follow(intent)
            case _:
                pass  # every Service and route is seen already; other questions are not modelled

    def _tell_analysis(self, gate: AnalysisGate) -> None:
        """Notes the analysis with the stage in which it begins."""
        analysis = analyses(self.seen.rollout.spec.strategy)[gate]
        what = f"{gate.kind} analysis" if gate.kind is not AnalysisKind.EXPERIMENT else gate.what
        what = f"{what} by {', '.join(analysis.templates)}" if analysis.templates else f"{what} without analyses"
        when = "at any later step" if gate.kind is AnalysisKind.BACKGROUND else "here"
        follows = f"a failure {_ON_FAILURE[analysis.on_failure]} {when}, and without a success nothing is promoted"
        self._waited(Waited(Reason.ANALYSIS_RUNNING, f"{what}: {follows}", 0.0))

    def _gateways_follow(self, intent: SetTraffic | MakeRoute | AskLive | AskFeatures) -> None:
        """Gateways accept a route at once, and follow it as soon as they are asked or their settle time is over."""
        route = self.seen.routes.get(intent.route)
        if not isinstance(route, RouteSeen):
            return
        match intent:
            case SetTraffic():
                route = replace(route, accepted=Acceptance(Answer.YES))
            case MakeRoute():
                route = replace(route, accepted=Acceptance(Answer.YES), features=frozenset(Feature))
            case AskLive():
                by = VerifiedBy.COUNTERS if route.counted else VerifiedBy.CONFIG
                version = route.resource_version
                route = replace(route, live=LiveSeen(at_s=self.seen.now_s, resource_version=version, live=True, by=by))
            case AskFeatures():
                route = replace(route, features=frozenset(Feature))
            case never:
                assert_never(never)
        self.seen = replace(self.seen, routes={**self.seen.routes, intent.route: route})

    def _start(self, name: str, count: int) -> None:
        if count > 0:
            ready_at_s = self.seen.now_s + self.startup_s + self.seen.rollout.spec.min_ready_s
            self.starting.append((ready_at_s, name, count))


def _largest(growths: tuple[GrownSizes, ...]) -> tuple[GrownSizes, ...]:
    """The growths without those that `Stage.growths` leaves out. Each is compared with the two before it of its revision only."""
    kept: list[GrownSizes] = []
    for growth in growths:
        before = [earlier for earlier in kept if earlier.revision == growth.revision][-2:]
        if any(_covers(earlier, growth) for earlier in before):
            continue
        for earlier in before:
            if _covers(growth, earlier) or (
                earlier is before[-1] is not before[0] and _between(before[0], earlier, growth)
            ):
                kept.remove(earlier)
        kept.append(growth)
    return tuple(kept)


def _covers(large: GrownSizes, small: GrownSizes) -> bool:
    return all(large.sizes.get(revision, 0) >= pods for revision, pods in small.sizes.items())


def _between(first: GrownSizes, middle: GrownSizes, last: GrownSizes) -> bool:
    """Whether `middle` is on the straight line from `first` to `last`."""
    revisions = first.sizes.keys() | middle.sizes.keys() | last.sizes.keys()
    steps = []
    for revision in sorted(revisions):
        begin, between, end = (growth.sizes.get(revision, 0) for growth in (first, middle, last))
        steps.append((between - begin, end - between))
    to, on = max(steps, key=lambda step: abs(step[0]))
    return to * on > 0 and all(a * on == b * to for a, b in steps)


def _caught_up(replica_set: ReplicaSet) -> ReplicaSet:
    """The ReplicaSet after its controller has created or deleted pods to match its size."""
    available = min(replica_set.available, replica_set.spec_replicas)
    return replace(
        replica_set,
        observed=True,
        replicas=replica_set.spec_replicas,
        ready=available,
        available=available,
        terminating=None if replica_set.terminating is None else 0,
    )


def _pods_counted(seen: Snapshot) -> PodsSeen:
    """Single pods are not modelled: the pods that ReplicaSets count as available, as if they had just been made."""
    pods = [
        Pod(name=name, uid=name, revision=replica_set.revision, created_at_s=seen.now_s, ready=True)
        for replica_set in seen.replica_sets
        for name in (f"{replica_set.name}-{number}" for number in range(replica_set.available))
    ]
    return PodsSeen(seen.now_s, tuple(pods))


def _content(seen: Snapshot) -> AutoscalingSeen:
    """An autoscaler that wants what there is, and containers with nothing to do: the load of that day nobody knows."""
    pods, at_s, works = seen.rollout.spec.replicas, seen.now_s, ScalingCondition(status=True)
    autoscaler = AutoscalerSeen(
        name=seen.rollout.name,
        min_replicas=pods,
        max_replicas=_MANY_PODS,
        current=pods,
        desired=pods,
        observed=True,
        scaling_active=works,
        able_to_scale=works,
    )
    use = {
        replica_set.revision: ContainerUse(
            used=0.0, requested=1.0, pods=replica_set.available, measured=replica_set.available, oldest_at_s=at_s
        )
        for replica_set in seen.replica_sets
    }
    return AutoscalingSeen(at_s=at_s, autoscalers=(autoscaler,), use=use)
