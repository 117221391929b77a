"""Carries an update of a DaemonSet out in place: sizes become nodes whose old pod is deleted, in batches.

During an update the DaemonSet's type is OnDelete: its controller replaces no pod that nobody deletes, and what it makes is always
of the newest template. So the policy decides sizes as for ReplicaSets of its own (`as_own`): a set for each revision, with as
many pods as nodes run it. A node without a pod counts for the newest, which it gets. What the policy wants less of an old
revision are pods to delete. There is no way to more of an old one: an abort leaves the nodes as they are, until the template is
the stable one again.

How many nodes may be without an available pod is the DaemonSet's own `maxUnavailable`. A pod that is not available costs nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

from msgspec import Struct

from rollouts.core.carrier.deployment import rests_paused
from rollouts.core.carrier.update_in_place import is_published, parted
from rollouts.core.context.pass_context import PassContext
from rollouts.core.context.waits import earliest
from rollouts.core.model.frozen import replace
from rollouts.core.model.in_place_intents import DeletePod, RevertTemplate, StepDaemonSet
from rollouts.core.model.intents import (
    AskPods,
    Decision,
    Intent,
    PatchReplicaSet,
)
from rollouts.core.model.nodes import DaemonSetSeen, HeldNodes, OwnType
from rollouts.core.model.rollout import RolloutSpec
from rollouts.core.model.snapshot import Pod, ReplicaSet, Snapshot
from rollouts.core.model.status import RolloutStatus
from rollouts.core.model.workload import WorkloadSeen, to_write
from rollouts.core.model.workload_ref import OnAbort
from rollouts.core.scale.canary_sizes import Sizes


def as_own(seen: Snapshot) -> Snapshot:
    """The snapshot as the policy sees it: with a ReplicaSet for each revision, and with as many replicas as there are nodes."""
    spec, workload = seen.rollout.spec, seen.workload
    if not isinstance(workload, WorkloadSeen) or (daemon_set := workload.daemon_set) is None:
        return seen
    nodes = _nodes(seen, workload, daemon_set)
    if nodes is None:
        spec = replace(spec, replicas=workload.replicas)
        sets = {each.revision: _set(spec, each.revision, size=0) for each in daemon_set.revisions}
        counts = daemon_set.current, daemon_set.ready, daemon_set.available
        sets[spec.revision] = _set(spec, spec.revision, size=workload.replicas, counts=counts)
    else:
        spec = replace(spec, replicas=nodes.count)
        revisions = {each.revision for each in daemon_set.revisions} | {pod.revision for pod in nodes.pods.values()}
        sets = {each: _set_of(spec, nodes, each) for each in sorted(revisions | {spec.revision})}
    sets.pop("", None)
    made = {each.revision: each for each in daemon_set.revisions}
    named = [
        replace(each, name=made[each.revision].name, created_at_s=made[each.revision].created_at_s)
        if each.revision in made
        else each
        for each in sets.values()
    ]
    return replace(seen, rollout=replace(seen.rollout, spec=spec), replica_sets=tuple(named))


def _set_of(spec: RolloutSpec, nodes: _Nodes, revision: str) -> ReplicaSet:
    """The set of a revision: the newest also has the nodes without a pod."""
    pods = [pod for pod in nodes.pods.values() if pod.revision == revision]
    size = len(pods)
    if revision == spec.revision:
        size += nodes.count - len(nodes.pods)
    ready, available = sum(pod.ready for pod in pods), sum(map(nodes.is_available, pods))
    return _set(spec, revision, size=size, counts=(len(pods) + nodes.leaving[revision], ready, available))


def _set(spec: RolloutSpec, revision: str, *, size: int, counts: tuple[int, int, int] = (0, 0, 0)) -> ReplicaSet:
    """A set with `counts` of pods that there are, are ready, and are available."""
    pods, ready, available = counts
    return ReplicaSet(
        name=revision,
        uid=revision,
        resource_version="",
        revision=revision,
        number=0,
        created_at_s=0.0,
        spec_replicas=size,
        replicas=pods,
        ready=ready,
        available=available,
        min_ready_s=spec.min_ready_s,
        inside=True,
    )


class _Nodes(Struct, frozen=True, kw_only=True):
    """The nodes of a DaemonSet, each with its pod.

    Args:
        pods: by node, of those that are not being deleted: an old one before a new one, the oldest first.
        leaving: how many pods are being deleted, by revision.
        count: nodes that have a pod, or should have one.
        available_before_s: a pod that is ready since then is available.
    """

    pods: Mapping[str, Pod]
    leaving: Counter[str]
    count: int
    available_before_s: float

    def is_available(self, pod: Pod) -> bool:
        """Whether the pod has been ready for `minReadySeconds`."""
        since_s = math.inf if pod.ready_since_s is None else pod.ready_since_s
        return pod.ready and since_s <= self.available_before_s

    @property
    def unavailable(self) -> int:
        """Nodes without an available pod."""
        return self.count - sum(map(self.is_available, self.pods.values()))


def _nodes(seen: Snapshot, workload: WorkloadSeen, daemon_set: DaemonSetSeen) -> _Nodes | None:
    """None between updates: its pods are not watched then, and all are of one revision."""
    if seen.pods is None or not daemon_set.needs_pods:
        return None
    spec, pods = seen.rollout.spec, dict[str, Pod]()
    for pod in sorted(seen.pods.pods, key=lambda pod: (pod.revision == spec.revision, pod.created_at_s, pod.name)):
        if not pod.deleting:
            pods.setdefault(pod.node or pod.uid, pod)  # one that is not scheduled stands for its node
    return _Nodes(
        pods=pods,
        leaving=Counter(pod.revision for pod in seen.pods.pods if pod.deleting),
        count=max(workload.replicas, len(pods)),
        available_before_s=seen.now_s - spec.min_ready_s if spec.min_ready_s else math.inf,
    )


def reachable(ctx: PassContext, sizes: Sizes, *, held: bool) -> Sizes:
    """The nearest sizes that deletions lead to: no old pod comes back, and a node that loses one gets the newest revision.

    A node that has joined, or lost its pod, in a step has the newest one already: then that is more than the step asks for. After
    an abort nothing moves, and nothing before the update may begin: not even the pods of an update that it takes the place of.
    """
    new, stable = ctx.new, ctx.stable
    if new is None:
        return sizes
    stays = held or ctx.aborted or ctx.rolled_back
    older = tuple(
        [
            each.spec_replicas if stays else min(size, each.spec_replicas)
            for size, each in zip(sizes.older, ctx.older, strict=True)
        ]
    )
    kept = wanted = before = stable.spec_replicas if stable is not None else 0
    if not stays:
        kept, wanted = min(sizes.stable, kept), min(sizes.wanted_stable, wanted)
    nodes = new.spec_replicas + before + sum([each.spec_replicas for each in ctx.older])
    return Sizes(
        new=nodes - kept - sum(older),
        stable=kept,
        older=older,
        wanted_new=new.spec_replicas if stays else nodes - wanted,
        wanted_stable=wanted,
    )


def carried(seen: Snapshot, decision: Decision) -> Decision:
    """The decision with pods to delete in place of sizes, and a pass when the next pod becomes available."""
    workload, (ours, others) = to_write(seen.workload, seen.rollout.name), parted(decision.intents)
    asks = AskPods(
        seen.rollout.spec.selector_text, seen.workload.uid if isinstance(seen.workload, WorkloadSeen) else ""
    )
    others = tuple([asks if isinstance(each, AskPods) else each for each in others])
    if workload is None or workload.daemon_set is None:
        return replace(decision, intents=others)
    sizes = {
        each.revision: each.replicas for each in ours if isinstance(each, PatchReplicaSet) and each.replicas is not None
    }
    nodes = _nodes(seen, workload, workload.daemon_set)
    moves = _moves(_Update(seen, decision.status, workload, workload.daemon_set, nodes, sizes))
    wait_s = seen.rollout.spec.min_ready_s
    ready_s = [pod.ready_since_s for pod in nodes.pods.values()] if nodes is not None else []
    due_s = [at_s + wait_s for at_s in ready_s if at_s is not None]
    requeue_at_s = earliest([decision.requeue_at_s, *due_s], after_s=seen.now_s)
    return replace(decision, intents=(*moves, *others), requeue_at_s=requeue_at_s)


class _Update(Struct, frozen=True):
    """What the policy wants, and how the nodes are.

    Args:
        status: as it is decided; what is written follows from what was published before.
        sizes: those that the policy wants to change, by revision.
    """

    seen: Snapshot
    status: RolloutStatus
    workload: WorkloadSeen
    daemon_set: DaemonSetSeen
    nodes: _Nodes | None
    sizes: Mapping[str, int]

    @property
    def newest(self) -> str:
        """The revision of the template, which each new pod gets."""
        return self.seen.rollout.spec.revision

    @property
    def old(self) -> list[Pod]:
        """The pods of other revisions that stay until somebody deletes them."""
        return (
            [pod for pod in self.nodes.pods.values() if pod.revision != self.newest] if self.nodes is not None else []
        )

    def stepped(self, *, on_delete: bool, held: bool) -> tuple[StepDaemonSet]:
        """The write of the type, with the next number of the note, or without a note."""
        found, note = self.daemon_set, None
        if held:
            number = 1 if found.held is None else found.held.number + 1
            note = HeldNodes(number=number, own=OwnType(found.own_on_delete))
        name, uid, version = self.workload.name, self.workload.uid, self.workload.resource_version
        return (StepDaemonSet(name=name, uid=uid, resource_version=version, on_delete=on_delete, held=note),)

    def reverted(self) -> tuple[RevertTemplate, ...]:
        """The write of the stable template after an abort, if the spec asks for it and the template is known."""
        ref = self.seen.rollout.spec.workload_ref
        if ref is None or ref.on_abort is not OnAbort.REVERT_TEMPLATE:
            return ()
        stable = [each for each in self.daemon_set.revisions if each.revision == self.status.stable_revision]
        name, uid, version = self.workload.name, self.workload.uid, self.workload.resource_version
        return tuple(
            [
                RevertTemplate(name=name, uid=uid, resource_version=version, controller_revision=each.name)
                for each in stable
            ]
        )


def _moves(update: _Update) -> tuple[Intent, ...]:
    """The next move. The status that it follows from was published before."""
    status, found = update.status, update.daemon_set
    if not update.seen.status.stable_revision and not status.stable_revision and found.update.is_stopped:
        return _let_go(update)  # a policy holds updates, and this is the first revision
    if not is_published(update.seen, status):
        return ()
    is_over = status.stable_revision == status.current_revision == update.newest
    if is_over and not update.old:
        return _at_rest(update)
    aborted = status.abort is not None and status.abort.revision == status.current_revision
    forward = status.current_revision == update.newest and not aborted
    leaving = _leaving(update) if forward else ()
    reverts = update.reverted() if aborted else ()
    if not found.update.on_delete or (found.held is None and (leaving or reverts)):
        return update.stepped(on_delete=True, held=True)
    return (
        leaving or reverts if update.workload.observed else ()
    )  # until then its controller may act by the type before


def _at_rest(update: _Update) -> tuple[Intent, ...]:
    """When every node has the revision of the template, the DaemonSet gets its user's type back, unless nothing else holds it."""
    found = update.daemon_set
    paused = rests_paused(update.seen, update.workload)
    on_delete = found.own_on_delete or (found.update.on_delete if paused is None else paused)
    if found.held is None and found.update.on_delete is on_delete:
        return ()
    return update.stepped(on_delete=True, held=False) if on_delete else _let_go(update)


def _let_go(update: _Update) -> tuple[StepDaemonSet]:
    """Its controller goes on by RollingUpdate. What a policy has stopped stays so until an update takes it over: the note."""
    found = update.daemon_set
    if found.held is None:
        return update.stepped(on_delete=True, held=True)
    return update.stepped(on_delete=False, held=False)


def _leaving(update: _Update) -> tuple[DeletePod, ...]:
    """The pods that go now: of chosen nodes first, then those that are not available, then by the name of the node.

    One that is available costs an available node, of which the DaemonSet's `maxUnavailable` allows so many at once.
    """
    nodes, listed, ref = update.nodes, update.daemon_set.chosen, update.seen.rollout.spec.workload_ref
    chooses = ref is not None and ref.canary_nodes != ""
    if nodes is None or (chooses and listed is None):
        return ()
    chosen = listed.names if chooses and listed is not None else frozenset()
    spare = update.seen.rollout.spec.strategy.max_unavailable
    assert isinstance(spare, int)  # noqa: S101 - the observer has resolved a percentage; the type checker needs it
    spare -= nodes.unavailable
    pods_of = Counter(pod.revision for pod in update.old)
    too_many = {revision: count - update.sizes.get(revision, count) for revision, count in pods_of.items()}
    leaving = []
    in_order = sorted(update.old, key=lambda pod: (pod.node not in chosen, nodes.is_available(pod), pod.node, pod.name))
    for pod in in_order:
        cost = int(nodes.is_available(pod))
        if too_many[pod.revision] <= 0 or cost > max(spare, 0):
            continue
        spare, too_many[pod.revision] = spare - cost, too_many[pod.revision] - 1
        leaving.append(DeletePod(name=pod.name, uid=pod.uid, resource_version=pod.resource_version))
    return tuple(leaving)
