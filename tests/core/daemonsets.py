"""A world of nodes: a DaemonSet, its controller, its pods, and the Rollout that updates it in place.

Facts of k8s.io/kubernetes pkg/controller/daemon/{daemon_controller.go,update.go}, restated: a pod for each node that has none, of
the newest template; with RollingUpdate it deletes old pods that are not available, and others as `maxUnavailable` allows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from msgspec import Struct

from rollouts.core.context.waits import earliest
from rollouts.core.decide import decide
from rollouts.core.model.analysis import AnalysisKind, AnalysisPhase, RunDraft, RunSeen
from rollouts.core.model.frozen import replace
from rollouts.core.model.in_place_intents import DeletePod, RevertTemplate, StepDaemonSet
from rollouts.core.model.intents import (
    Ask,
    AskChosenNodes,
    AskHold,
    CreateAnalysisRun,
    Decision,
    DeleteAnalysisRun,
    DeleteExperiment,
    Intent,
    LetPodsGo,
    RemoveAnnotation,
    TerminateAnalysisRun,
)
from rollouts.core.model.nodes import ChosenNodes, DaemonSetSeen, HeldNodes, NodeRevision, NodeUpdate
from rollouts.core.model.rollout import Canary, Rollout, analyses
from rollouts.core.model.snapshot import Pod, PodsSeen, Snapshot
from rollouts.core.model.status import RolloutStatus
from rollouts.core.model.workload import HoldSeen, WorkloadSeen
from rollouts.core.model.workload_ref import Hold, NamedWorkload, OnAbort, WorkloadKind, WorkloadMode
from tests.core import measured_runs
from tests.core.model import T0, spec
from tests.core.refusal import RefusedError
from tests.invariants.every import broken_by


class Nodes(Struct, frozen=True, kw_only=True):
    """Everything there is.

    Args:
        version: counts writes of anybody; gives uids and resourceVersions.
        template: the newest revision; `made` has when each was first made.
        observed: the DaemonSet's controller has seen its latest spec.
        listed: the template whose revision is known from a list.
        max_unavailable: of the DaemonSet, in pods.
        told: nodes that it has counted last: all, with a pod, with one of the newest revision.
        bad: revisions whose pods never become ready.
        policy: a policy turns the type to OnDelete in the write of a new template, and keeps what it has stopped.
        hold_known: whether the controller knows that.
        deleted: pods that a pass of ours has deleted.
        runs: AnalysisRuns of its Rollout.
        unmeasured: nobody measures for them; otherwise they succeed by themselves.
        writes: calls of ours that wrote, by name.
    """

    now_s: float
    rollout: Rollout
    status: RolloutStatus = RolloutStatus()
    version: int = 1
    template: str = "a"
    made: tuple[tuple[str, float], ...] = (("a", T0),)
    on_delete: bool = False
    own_on_delete: bool = False
    max_unavailable: int = 1
    observed: bool = True
    listed: str = "a"
    held: HeldNodes | None = None
    told: tuple[int, int, int] = (0, 0, 0)
    nodes: tuple[str, ...] = ()
    chosen: frozenset[str] = frozenset()
    nodes_listed: bool = False
    pods: tuple[Pod, ...] = ()
    bad: frozenset[str] = frozenset()
    policy: bool = True
    hold_known: bool = True
    deleted: tuple[str, ...] = ()
    runs: tuple[RunSeen, ...] = ()
    unmeasured: bool = False
    writes: tuple[str, ...] = ()


Move: TypeAlias = Callable[[Nodes, int, int], Nodes]


def daemons(
    strategy: Canary,
    *,
    nodes: int = 6,
    max_unavailable: int = 1,
    hold: Hold = Hold.POLICY,
    own_on_delete: bool = False,
    min_ready_s: int = 0,
    chosen: tuple[str, ...] = (),
    on_abort: OnAbort = OnAbort.HOLD,
) -> Nodes:
    """A DaemonSet `agent` whose template `a` runs on every node, and a Rollout that was just created for it."""
    kind, mode = WorkloadKind.DAEMON_SET, WorkloadMode.IN_PLACE
    ref = NamedWorkload(
        kind=kind, name="agent", mode=mode, hold=hold, on_abort=on_abort, canary_nodes="tier=canary" if chosen else ""
    )
    limited = replace(strategy, max_surge=0, max_unavailable=max_unavailable)
    rollout = Rollout(
        namespace="shop", name="agent", uid="uid-agent", resource_version="1", generation=1, created_at_s=T0,
        spec=spec(limited, replicas=nodes, workload_ref=ref, min_ready_s=min_ready_s),
    )  # fmt: skip
    there = Nodes(
        now_s=T0,
        rollout=rollout,
        max_unavailable=max_unavailable,
        nodes=tuple(f"n{number}" for number in range(nodes)),
        on_delete=own_on_delete,
        own_on_delete=own_on_delete,
        chosen=frozenset(chosen),
        policy=hold is Hold.POLICY,
    )
    return later(quiet(there), min_ready_s)


def snapshot(there: Nodes) -> Snapshot:
    """The world as the controller sees it now: with pods only in an update."""
    limits = {} if there.own_on_delete else {"max_unavailable": there.max_unavailable, "max_surge": 0}
    nodes, current, updated = there.told
    ready = [pod for pod in there.pods if pod.ready and not pod.deleting]
    daemon_set = DaemonSetSeen(
        update=NodeUpdate(on_delete=there.on_delete, **limits),
        current=current,
        updated=updated,
        ready=len(ready),
        available=sum(_is_available(there, pod) for pod in ready),
        holds=True,
        held=there.held,
        revisions=tuple(
            NodeRevision(name=f"agent-{each}", revision=each, number=number, created_at_s=at_s)
            for number, (each, at_s) in enumerate(there.made, 1)
        ),
        chosen=ChosenNodes(at_s=there.now_s, names=there.chosen) if there.nodes_listed else None,
    )
    workload = WorkloadSeen(
        kind=WorkloadKind.DAEMON_SET,
        name="agent",
        uid="uid-daemonset",
        resource_version=str(there.version),
        managed_by="agent",
        watched=True,
        template_hash=there.template,
        replicas=nodes,
        available=daemon_set.available,
        observed=there.observed,
        in_place=daemon_set,
        hold=HoldSeen(at_s=there.now_s, works=there.policy) if there.hold_known else None,
        strays=() if there.listed == there.template else None,
    )
    revision = there.template if workload.strays == () else ""
    draft = RunDraft(b"{}", latest=revision, stable=there.status.stable_revision)
    joined = replace(there.rollout.spec, revision=revision, template_hash=revision)
    return Snapshot(
        now_s=there.now_s,
        rollout=replace(there.rollout, spec=joined),
        status=there.status,
        workload=workload,
        pods=PodsSeen(there.now_s, there.pods) if daemon_set.needs_pods else None,
        runs=there.runs,
        drafts=dict.fromkeys(analyses(there.rollout.spec.strategy), draft),
    )


def _is_available(there: Nodes, pod: Pod) -> bool:
    wait_s = there.rollout.spec.min_ready_s
    return pod.ready and not pod.deleting and there.now_s - (pod.ready_since_s or there.now_s) >= wait_s


def unavailable(there: Nodes) -> int:
    """Nodes without an available pod."""
    return len(set(there.nodes) - {pod.node for pod in there.pods if _is_available(there, pod)})


def runs(there: Nodes) -> dict[str, int]:
    """How many nodes run each revision."""
    return dict(sorted(Counter(pod.revision for pod in there.pods if not pod.deleting).items()))


# --- passes of ours


def reconciled(there: Nodes, *, seen: Snapshot | None = None, writes: int | None = None) -> Nodes:
    """The world after one pass, which crashes after so many of its calls; a refused call ends it."""
    view = snapshot(there) if seen is None else seen
    decision = decide(view)
    broken = broken_by(view, decision)
    assert broken == [], (broken, view, decision)
    calls = [*decision.intents]
    assert not (_is_closed(there) and any(isinstance(each, DeletePod) for each in calls)), "before its gate"
    for call in calls[:writes]:
        try:
            there = applied(there, call)
        except RefusedError:
            return there
    whole = writes is None or writes > len(calls)
    return _with_status(there, decision, view) if whole else there


def _is_closed(there: Nodes) -> bool:
    """Whether the update on record stands before a gate that nothing and nobody has opened."""
    status = there.status
    waits = (
        status.abort is None and status.step_index == 0 and status.stable_revision not in ("", status.current_revision)
    )
    opened = [
        each
        for each in status.analyses
        if each.gate.kind is AnalysisKind.BEFORE_UPDATE and (each.phase is AnalysisPhase.SUCCESSFUL or each.passed)
    ]
    return there.rollout.spec.strategy.before_update is not None and waits and not opened


def _with_status(there: Nodes, decision: Decision, view: Snapshot) -> Nodes:
    if decision.status == there.status or view.rollout.resource_version != there.rollout.resource_version:
        return there
    there = replace(there, version=there.version + 1)
    rollout = replace(there.rollout, resource_version=str(there.version))
    return replace(there, status=decision.status, rollout=rollout)


def applied(there: Nodes, intent: Intent) -> Nodes:
    """The world after one call. Raises: RefusedError, as the API server would refuse it."""
    match intent:
        case StepDaemonSet(resource_version=version, on_delete=on_delete, held=held):
            if version != str(there.version):
                raise RefusedError
            there = _written(there, "StepDaemonSet")
            kept = there.policy and there.held == held and (held is not None or _is_stopped(there))
            return replace(there, on_delete=there.on_delete if kept else on_delete, held=held, observed=False)
        case RevertTemplate(resource_version=version, controller_revision=name):
            if version != str(there.version):
                raise RefusedError
            there = _written(there, "RevertTemplate")
            return replace(there, template=name.removeprefix("agent-"), observed=False)
        case DeletePod(uid=uid, resource_version=version):
            found = next((pod for pod in there.pods if pod.uid == uid), None)
            if found is None or found.resource_version != version:
                raise RefusedError
            there = _written(there, "DeletePod")
            before = unavailable(there)
            there = _changed(there, {uid}, deleting=True)
            after = unavailable(there)
            assert after == before or after <= there.max_unavailable, f"{found.name} is needed"
            return replace(there, deleted=(*there.deleted, found.node))
        case RemoveAnnotation(verb=verb):
            return annotated(_written(there, "RemoveAnnotation"), verb, None)
        case CreateAnalysisRun() | TerminateAnalysisRun() | LetPodsGo() | DeleteAnalysisRun() | DeleteExperiment():
            there = _written(there, type(intent).__name__)
            return replace(
                there, runs=measured_runs.runs_written(there.runs, intent, version=there.version, now_s=there.now_s)
            )
        case AskChosenNodes():
            return replace(there, nodes_listed=True)
        case AskHold():
            return replace(there, hold_known=True)
        case Ask():
            return there
        case _:
            raise AssertionError(f"nothing of a DaemonSet is written so: {intent}")


def _written(there: Nodes, name: str) -> Nodes:
    return replace(there, version=there.version + 1, writes=(*there.writes, name))


def _changed(there: Nodes, uids: set[str], **changes: Any) -> Nodes:
    version = there.version + 1
    pods = [replace(pod, resource_version=str(version), **changes) if pod.uid in uids else pod for pod in there.pods]
    return replace(there, version=version, pods=tuple(pods)) if uids else there


# --- what happens by itself


def synced(there: Nodes) -> Nodes:
    """One sync of the DaemonSet's controller."""
    if not there.observed and there.template not in dict(there.made):
        there = replace(there, made=(*there.made, (there.template, there.now_s)))
    rolls = not there.on_delete
    there = replace(there, observed=True, listed=there.template)
    missing = [node for node in there.nodes if node not in {pod.node for pod in there.pods}]
    for node in missing:
        number = there.version + 1
        pod = Pod(
            name=f"agent-{number}", uid=f"pod-{number}", revision=there.template, created_at_s=there.now_s, ready=False,
            resource_version=str(number), node=node,
        )  # fmt: skip
        there = replace(there, version=number, pods=(*there.pods, pod))
    if rolls and not missing:
        old = [pod for pod in there.pods if pod.revision != there.template and not pod.deleting]
        broken = [pod.uid for pod in old if not _is_available(there, pod)]
        spare = max(0, there.max_unavailable - unavailable(there))
        others = [pod.uid for pod in old if pod.uid not in broken][:spare]
        there = _changed(there, {*broken, *others}, deleting=True)
    staying = {pod.node: pod.revision for pod in there.pods}
    updated = sum(revision == there.template for revision in staying.values())
    return replace(there, told=(len(there.nodes), len(staying), updated))


def ended(there: Nodes) -> Nodes:
    """Pods that are being deleted have ended."""
    return replace(there, pods=tuple(pod for pod in there.pods if not pod.deleting))


def ready(there: Nodes, limit: int = 1000) -> Nodes:
    """The oldest pods that can become ready do."""
    found = [pod.uid for pod in there.pods if not pod.ready and not pod.deleting and pod.revision not in there.bad]
    return _changed(there, set(found[:limit]), ready=True, ready_since_s=there.now_s)


def measured(there: Nodes, phase: AnalysisPhase) -> Nodes:
    """The runs that are under way end so."""
    return replace(there, runs=measured_runs.measured(there.runs, phase, version=there.version + 1, now_s=there.now_s))


def quiet(there: Nodes) -> Nodes:
    """One round of everything that happens by itself."""
    told = measured_runs.ended(there.runs, version=there.version + 1, now_s=there.now_s)
    there = replace(there, runs=told)
    there = there if there.unmeasured else measured(there, AnalysisPhase.SUCCESSFUL)
    return synced(ready(synced(ended(there))))


def later(there: Nodes, seconds: float) -> Nodes:
    """Time passes."""
    return replace(there, now_s=there.now_s + seconds)


def steps_of(there: Nodes, *, limit: int = 400) -> Iterator[Nodes]:
    """Passes and quiet rounds, one world after each, until nothing more happens by itself.

    Raises: AssertionError when that does not end.
    """
    idle = 0
    for _ in range(limit):
        view = snapshot(there)
        decision = decide(view)
        after = reconciled(there, seen=view)
        if after == there:
            after = quiet(there)
        if after != there:
            there = after
            yield there
            continue
        times = [pod.ready_since_s + there.rollout.spec.min_ready_s for pod in there.pods if pod.ready_since_s]
        wake_s = earliest([decision.requeue_at_s, *times], after_s=there.now_s)
        waits = there.status.waiting_for
        late = waits is not None and waits.deadline_s is not None and there.now_s > waits.deadline_s
        if wake_s is None or (late and idle > 12):
            return
        idle, there = idle + 1, replace(there, now_s=max(wake_s, there.now_s + 0.001))
        yield there
    raise AssertionError(f"no end after {limit} rounds: {there.status}, {decide(snapshot(there)).intents}")


def settled(there: Nodes, *, limit: int = 400) -> Nodes:
    """The world when nothing more happens by itself. Raises: AssertionError when that does not end."""
    for each in steps_of(there, limit=limit):
        there = each
    return there


# --- what people do


def template_changed(there: Nodes, revision: str) -> Nodes:
    """Somebody applies another template; where the policy works it stops the DaemonSet in the same write."""
    if revision == there.template:
        return there
    there = replace(there, version=there.version + 1, template=revision, observed=False)
    return replace(there, on_delete=there.on_delete or there.policy)


def _is_stopped(there: Nodes) -> bool:
    """Whether a hold has turned RollingUpdate to OnDelete."""
    return there.on_delete and not there.own_on_delete


def typed(there: Nodes) -> Nodes:
    """Somebody applies the manifest again, which names the user's own type; the policy's guard keeps an update as it is."""
    guarded = there.policy and (there.held is not None or _is_stopped(there))
    if guarded or there.on_delete == there.own_on_delete:
        return there
    return replace(there, version=there.version + 1, on_delete=there.own_on_delete, observed=False)


def limited(there: Nodes, max_unavailable: int) -> Nodes:
    """Somebody lets so many nodes be without an available pod."""
    if there.own_on_delete:
        return there
    strategy = replace(there.rollout.spec.strategy, max_unavailable=max_unavailable)
    rollout = replace(there.rollout, spec=replace(there.rollout.spec, strategy=strategy))
    return replace(there, version=there.version + 1, rollout=rollout, max_unavailable=max_unavailable, observed=False)


def joined(there: Nodes, nodes: int) -> Nodes:
    """Nodes join, or leave with their pods; at least one stays. The DaemonSet's controller counts them at once."""
    names = tuple(f"n{number}" for number in range(max(1, nodes)))
    return synced(replace(there, nodes=names, pods=tuple(pod for pod in there.pods if pod.node in names)))


def failing(there: Nodes, number: int) -> Nodes:
    """The pod of a node is not ready any more."""
    found = {pod.uid for pod in there.pods[number : number + 1] if pod.ready}
    return _changed(there, found, ready=False, ready_since_s=None)


def annotated(there: Nodes, verb: str, value: str | None) -> Nodes:
    """Somebody gives a command, or takes it back."""
    given = {name: text for name, text in there.rollout.annotations.items() if name != verb}
    given |= {} if value is None else {verb: value}
    version = there.version + 1
    rollout = replace(there.rollout, annotations=given, resource_version=str(version))
    return replace(there, rollout=rollout, version=version)
