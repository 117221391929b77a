"""Promise: sizes that the policy wants of a StatefulSet's revisions become one write of its partition, or one pod that goes."""

from __future__ import annotations

from typing import Any

import pytest

from rollouts.core.carrier.ordinals import as_own
from rollouts.core.carrier.statefulset import carried, reachable
from rollouts.core.context.pass_context import context_of
from rollouts.core.model.frozen import replace
from rollouts.core.model.in_place_intents import DeletePod, StepStatefulSet
from rollouts.core.model.intents import AdoptReplicaSet, AskPods, Decision, Intent, PatchReplicaSet, RemoveAnnotation
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import Canary
from rollouts.core.model.snapshot import Pod, PodsSeen, ReplicaSet, Snapshot
from rollouts.core.model.status import Abort, RolloutStatus, Verb
from rollouts.core.model.steps import PauseUntilPromoted, SetWeight
from rollouts.core.model.workload import (
    HoldSeen,
    NamedReplicaSet,
    PartitionFields,
    PartitionHeld,
    StatefulSetSeen,
    WorkloadSeen,
    WorkloadUnasked,
)
from rollouts.core.model.workload_ref import Hold, NamedWorkload, WorkloadKind, WorkloadMode
from rollouts.core.scale.canary_sizes import Sizes
from tests.core.model import T0, world
from tests.core.stateful_sets import MOST, USERS

NOW_S = T0 + 100
BEGUN = RolloutStatus(current_revision="b", stable_revision="a")
PROMOTED = RolloutStatus(current_revision="b", stable_revision="b")
ABORT = Abort("b", T0, Reason.ROLLOUT_ABORTED, "")
ABORTED = replace(BEGUN, abort=ABORT)
HOLDS = PartitionFields(partition=MOST)
UNTOLD: Any = ("something",)
ON_DELETE = PartitionFields(on_delete=True)


def _pod(ordinal: int, revision: str, **given: Any) -> Pod:
    """One of the revision that has long been ready; in capitals one that is not."""
    ready = revision.islower()
    pod = Pod(
        name=f"my-cart-{ordinal}", uid=f"uid-{ordinal}", revision=revision.lower(), created_at_s=T0, ready=ready,
        ready_since_s=T0 if ready else None, resource_version=f"version-{ordinal}",
    )  # fmt: skip
    return replace(pod, **given)


def _view(
    revisions: str,
    *others: Pod,
    partition: int | None = MOST,
    on_delete: bool = False,
    held: dict[str, Any] | None = None,
    begun: bool = True,
    status: RolloutStatus = BEGUN,
    now: RolloutStatus | None = None,
    hold: Hold = Hold.AUTO,
    steps: int = 2,
    workload: dict[str, Any] | None = None,
    **found: Any,
) -> tuple[Snapshot, RolloutStatus]:
    """What is seen of a StatefulSet with template `b` and pods of these revisions (`.`: none); and the status decided.

    Args:
        held: what its note says otherwise than the fields; `begun` whether it has one.
    """
    ref = NamedWorkload(kind=WorkloadKind.STATEFUL_SET, name="cart", mode=WorkloadMode.IN_PLACE, hold=hold)
    strategy = Canary(steps=(SetWeight(50), PauseUntilPromoted())[:steps], max_surge=0, max_unavailable=1)
    given = {"replicas": len(revisions), **(workload or {})}
    there = world(strategy, replicas=given["replicas"], revision="b", workload_ref=ref)
    pods = (*(_pod(number, each) for number, each in enumerate(revisions) if each != "."), *others)
    staying = [pod for pod in pods if not pod.deleting]
    note = {"number": 3, "replicas": len(revisions), "partition": partition or 0, "own": USERS, **(held or {})}
    fields: dict[str, Any] = {"current_revision": "a", "update_revision": "b", **found}
    seen = StatefulSetSeen(
        fields=PartitionFields(on_delete=on_delete, partition=None if on_delete else partition),
        held=PartitionHeld(**note) if begun else None,
        **{
            "pods": len(pods),
            "ready": sum(pod.ready for pod in pods),
            "current": sum(pod.revision == fields["current_revision"] for pod in staying),
            "updated": sum(pod.revision == fields["update_revision"] for pod in staying),
            **fields,
        },
    )
    shown = WorkloadSeen(
        kind=WorkloadKind.STATEFUL_SET, name="cart", uid="uid-set", resource_version="7", template_hash="b",
        in_place=seen,
        **{"managed_by": "cart", "watched": True, "available": 9, "hold": HoldSeen(at_s=NOW_S, works=True), **given},
    )  # fmt: skip
    snapshot = Snapshot(now_s=NOW_S, rollout=there.rollout, status=status, workload=shown, pods=PodsSeen(NOW_S, pods))
    return snapshot, status if now is None else now


def _moves(view: tuple[Snapshot, RolloutStatus], **sizes: int) -> tuple[Intent, ...]:
    """What is done when the policy wants other sizes of these revisions."""
    seen, status = view
    patches = [
        PatchReplicaSet(name=each, uid=f"uid-set/{each}", revision=each, replicas=size) for each, size in sizes.items()
    ]
    return carried(seen, Decision(status=status, intents=tuple(patches))).intents


def _stepped(
    partition: int, *, number: int = 4, replicas: int = 5, surplus: int = 0, own: PartitionFields = USERS
) -> tuple[StepStatefulSet]:
    fields = PartitionFields(partition=partition)
    held = PartitionHeld(number=number, replicas=replicas, partition=partition, own=own, surplus=surplus)
    return (StepStatefulSet(name="cart", uid="uid-set", resource_version="7", fields=fields, held=held),)


def _ended(own: PartitionFields) -> tuple[StepStatefulSet]:
    return (StepStatefulSet(name="cart", uid="uid-set", resource_version="7", fields=own, held=None),)


def _gone(ordinal: int) -> tuple[DeletePod]:
    return (DeletePod(name=f"my-cart-{ordinal}", uid=f"uid-{ordinal}", resource_version=f"version-{ordinal}"),)


FORWARD: dict[str, Any] = {
    "the first": (_view("aaaaa"), {"a": 4, "b": 1}, _stepped(4)),
    "one at a time": (_view("aaaaa"), {"a": 2, "b": 3}, _stepped(4)),
    "as many as may be unavailable": (_view("aaaaa", max_unavailable=2), {"a": 2, "b": 3}, _stepped(3)),
    "a broken one on top costs nothing": (_view("aaaaA", partition=5), {"a": 3, "b": 2}, _stepped(4)),
    "two broken ones on top": (_view("aaaAA", partition=5), {"a": 2, "b": 3}, _stepped(3)),
    "none that is needed": (_view("aaaAa", partition=5), {"a": 3, "b": 2}, ()),
    "the next": (_view("aaaab", partition=4), {"a": 3, "b": 2}, _stepped(3)),
    "none more": (_view("aaaab", partition=4), {}, ()),
    "not while the one above is not ready": (_view("aaaaB", partition=4), {"a": 3, "b": 2}, ()),
    "over new ones below": (_view("aabab", partition=4), {"a": 1, "b": 4}, _stepped(2)),
    "with what is left of the surplus": (
        _view("bbaaa", partition=5, held={"surplus": 3}), {"a": 2, "b": 3}, _stepped(4, surplus=2)
    ),
    "with all of the surplus": (
        _view("bbaaa", partition=5, held={"surplus": 1}), {"a": 2, "b": 3}, _stepped(4, surplus=1)
    ),
    "all of them at the end": (_view("aaaab", partition=4, status=PROMOTED), {}, _stepped(3)),
    "its watch is behind in old ones": (_view("aaaab", partition=4, current=3), {"a": 3, "b": 2}, ()),
    "its watch is behind in new ones": (_view("aaaab", partition=4, updated=2), {"a": 3, "b": 2}, ()),
    "one is leaving": (_view("aaaa.", _pod(4, "b", deleting=True), partition=4), {"a": 3, "b": 2}, ()),
    "older ones go back first": (_view("aacab", partition=4), {"a": 3, "b": 2}, _gone(2)),
    "nothing to go back to": (
        _view("accab", partition=4, current_revision="c", current=2), {"a": 1, "b": 2}, _stepped(3)
    ),
}  # fmt: skip
BACK: dict[str, Any] = {
    "fewer new ones: first the partition": (_view("aabbb", partition=2), {"a": 4, "b": 1}, _stepped(4)),
    "then the highest": (_view("aabbb", partition=4), {"a": 4, "b": 1}, _gone(3)),
    "of the highest that are too many": (_view("abBbb", partition=4), {"a": 3, "b": 2}, _gone(2)),
    "one too many": (_view("aaBbb", partition=4), {"a": 3, "b": 2}, ()),
    "no new ones": (_view("aaabb", partition=3), {"a": 5, "b": 0}, _stepped(MOST)),
    "an abort: first the partition": (_view("aaabb", partition=3, status=ABORTED), {}, _stepped(MOST)),
    "then one after the other": (_view("aaabb", status=ABORTED), {}, _gone(4)),
    "none that is needed": (_view("aAabb", status=ABORTED), {}, ()),
    "a broken one": (_view("aAabB", status=ABORTED), {}, _gone(4)),
    "the lowest broken one": (_view("aaaBB", status=ABORTED), {}, _gone(3)),
    "the highest where all start at once": (_view("aaaBB", status=ABORTED, ordered=False), {}, _gone(4)),
    "nothing that comes back as it is": (_view("aaabb", status=ABORTED, current_revision="b"), {}, ()),
    "another revision was aborted": (
        _view("aaaaa", status=replace(ABORTED, abort=replace(ABORT, revision="c"))), {"a": 4, "b": 1}, _stepped(4)
    ),
    "the template is another one": (
        _view("aacac", partition=3, status=replace(BEGUN, current_revision="c")), {}, _stepped(MOST)
    ),
    "a pod that is gone already": (_view("aaab.", status=ABORTED), {}, ()),
}  # fmt: skip
BEGINS: dict[str, Any] = {
    "the first is wanted": (_view("aaaaa", begun=False), {"a": 4, "b": 1}, _stepped(MOST, number=1, own=HOLDS)),
    "with the noted fields": (
        _view("aaaaa", begun=False, replaced=ON_DELETE), {"a": 4, "b": 1}, _stepped(MOST, number=1, own=ON_DELETE)
    ),
    "noted fields of before": (
        _view("aaaaa", begun=False, partition=2, replaced=ON_DELETE), {},
        _stepped(MOST, number=1, own=PartitionFields(partition=2)),
    ),
    "nothing is wanted": (_view("aaaaa", begun=False), {}, ()),
    "nothing keeps it": (_view("aaaaa", begun=False, partition=0), {}, _stepped(MOST, number=1)),
    "nothing keeps it by default": (
        _view("aaaaa", begun=False, partition=None), {}, _stepped(MOST, number=1, own=PartitionFields())
    ),
    "OnDelete keeps it": (_view("aaaaa", begun=False, on_delete=True), {}, ()),
    "OnDelete begins": (
        _view("aaaaa", begun=False, on_delete=True), {"a": 4, "b": 1}, _stepped(MOST, number=1, own=ON_DELETE)
    ),
    "OnDelete, and an old revision would come back": (
        _view("aaaaa", begun=False, on_delete=True, current_revision="z", current=0), {"a": 4, "b": 1}, ()
    ),
    "an abort with new pods": (_view("aaaab", begun=False, status=ABORTED), {}, _stepped(MOST, number=1, own=HOLDS)),
    "an abort without": (_view("aaaaa", begun=False, status=ABORTED), {}, ()),
    "its own controller does the rest": (_view("aaaab", begun=False, partition=0, status=PROMOTED), {}, ()),
}  # fmt: skip
NOTED: dict[str, Any] = {
    "somebody lowered it": (_view("aaaab", partition=0, held={"partition": 4, "surplus": 2}), {}, _stepped(4, surplus=2)),
    "somebody left it out": (_view("aaaab", partition=None, held={"partition": 4}), {}, _stepped(4)),
    "somebody made it OnDelete": (_view("aaaab", on_delete=True, held={"partition": 4}), {}, _stepped(4)),
    "somebody raised it": (_view("aaaab", partition=5, held={"partition": 4}), {}, ()),
    "scaled up": (
        _view("aaabbbbb", partition=3, held={"replicas": 5}), {"a": 5, "b": 3}, _stepped(6, replicas=8, surplus=3)
    ),
    "scaled down": (
        _view("aaa", partition=3, held={"replicas": 5}, current=3, updated=0), {}, _stepped(3, replicas=3)
    ),
    "scaled before the first": (_view("aaaaaaaa", held={"replicas": 5}), {}, ()),
    "scaled when none was new": (_view("aaaaaaaa", partition=5, held={"replicas": 5}), {}, ()),
    "the published status has another current one": (_view("aaaaa", now=replace(BEGUN, current_revision="c")), {"a": 4}, ()),
    "another stable one": (_view("aaaaa", now=replace(BEGUN, stable_revision="c")), {"a": 4}, ()),
    "no abort": (_view("aaabb", partition=3, now=ABORTED), {}, ()),
    "no verdict": (_view("aaaaa", now=replace(BEGUN, analyses=UNTOLD)), {"a": 4}, ()),
    "no command": (_view("aaaaa", now=replace(BEGUN, commands=UNTOLD)), {"a": 4}, ()),
    "no first revision": (_view("aaaaa", status=replace(BEGUN, stable_revision="")), {"a": 4}, ()),
    "its controller has not seen it": (_view("aaaaa", workload={"observed": False}), {"a": 4}, ()),
    "it is deleted": (_view("aaaaa", workload={"deleting": True}), {"a": 4}, ()),
    "not known": (_view("aaaaa", workload={"strays": None}), {"a": 4}, ()),
    "not watched": (_view("aaaaa", workload={"strays": (NamedReplicaSet("x", "y"),)}), {"a": 4}, ()),
    "another Rollout's": (_view("aaaaa", workload={"managed_by": "x"}), {"a": 4}, ()),
}  # fmt: skip
NEW: dict[str, Any] = {"status": PROMOTED, "current_revision": "b"}
OWN_ON_DELETE: dict[str, Any] = {"held": {"own": ON_DELETE}}
TWO = PartitionFields(partition=2)
AT_REST: dict[str, Any] = {
    "the fields go back": (_view("bbbbb", partition=0, **NEW), {}, _ended(USERS)),
    "from the partition": (_view("bbbbb", **NEW), {}, _ended(USERS)),
    "they are back": (_view("bbbbb", partition=0, begun=False, **NEW), {}, ()),
    "from what a policy has set": (
        _view("bbbbb", begun=False, replaced=TWO, **NEW), {}, _stepped(MOST, number=1, own=TWO)
    ),
    "not known what holds it": (_view("bbbbb", begun=False, workload={"hold": None}, **NEW), {}, ()),
    "not known, and noted": (
        _view("bbbbb", partition=0, workload={"hold": None}, held={"partition": 0}, **NEW), {}, _stepped(MOST)
    ),
    "nothing else holds it": (
        _view("bbbbb", partition=0, begun=False, hold=Hold.AT_REST, **NEW), {}, _stepped(MOST, number=1)
    ),
    "it is held": (_view("bbbbb", hold=Hold.AT_REST, **NEW), {}, ()),
    "it is held, by an older note": (_view("bbbbb", hold=Hold.AT_REST, held={"partition": 0}, **NEW), {}, _stepped(MOST)),
    "another manifest is applied": (
        _view("bbbbb", partition=2, hold=Hold.AT_REST, held={"partition": MOST}, **NEW), {}, _stepped(MOST, own=TWO)
    ),
    "another manifest without a partition": (
        _view("bbbbb", partition=None, hold=Hold.AT_REST, held={"partition": 0}, **NEW), {}, _stepped(MOST)
    ),
    "an OnDelete manifest is applied": (
        _view("bbbbb", on_delete=True, hold=Hold.AT_REST, held={"partition": 0}, **NEW), {}, _stepped(MOST, own=ON_DELETE)
    ),
    "an OnDelete of one's own": (_view("bbbbb", hold=Hold.AT_REST, **OWN_ON_DELETE, **NEW), {}, _ended(ON_DELETE)),
    "it is not current yet": (_view("bbbbb", status=PROMOTED, partition=0), {}, ()),
    "OnDelete never makes it current": (
        _view("bbbbb", status=PROMOTED, on_delete=True, begun=False), {}, _stepped(MOST, number=1, own=ON_DELETE)
    ),
    "OnDelete, noted": (_view("bbbbb", status=PROMOTED, **OWN_ON_DELETE), {}, ()),
    "OnDelete, not ready": (_view("bbbbB", status=PROMOTED, on_delete=True, begun=False), {}, ()),
    "OnDelete, one is missing": (_view("bbbb.", status=PROMOTED, on_delete=True, begun=False), {}, ()),
    "not OnDelete": (_view("bbbbb", status=PROMOTED, partition=0, begun=False), {}, ()),
}  # fmt: skip


@pytest.mark.parametrize(
    ("view", "sizes", "moves"),
    [
        pytest.param(*case, id=f"{name}: {what}")
        for name, table in (
            *(("forward", FORWARD), ("back", BACK), ("begins", BEGINS)),
            *(("noted", NOTED), ("at rest", AT_REST)),
        )
        for what, case in table.items()
    ],
)
def test_the_next_write_is_the_partition_or_the_pod_that_can_be_spared(
    view: tuple[Snapshot, RolloutStatus], sizes: dict[str, int], moves: tuple[Intent, ...]
) -> None:
    """It follows from the published status, and from what its controller has seen."""
    assert _moves(view, **sizes) == moves


def test_what_is_no_size_stays_in_the_decision_and_the_next_available_pod_is_looked_for() -> None:
    """Pods are listed as those of the StatefulSet."""
    (seen, status) = _view(
        "aaaa", _pod(4, "b", ready_since_s=NOW_S - 5), partition=4, min_ready_s=20, workload={"replicas": 5}
    )
    other = RemoveAnnotation(verb=Verb.PROMOTE, value="true")
    size = PatchReplicaSet(name="a", uid="uid-set/a", revision="a", replicas=5)
    own = replace(size, replicas=None, number=3)
    adopted = AdoptReplicaSet(name="x", uid="y", resource_version="1")
    decision = Decision(
        status=status, intents=(size, own, adopted, AskPods(), other), requeue_at_s=NOW_S + 30, status_first=True
    )

    intents = (AskPods("app=cart", "uid-set"), other)
    assert carried(seen, decision) == replace(decision, intents=intents, requeue_at_s=NOW_S + 15)
    assert carried(seen, replace(decision, requeue_at_s=NOW_S + 9)).requeue_at_s == NOW_S + 9
    absent = replace(seen, workload=WorkloadUnasked())
    assert carried(absent, decision) == replace(decision, intents=(AskPods(), other))
    assert as_own(absent) is absent
    assert isinstance(seen.workload, WorkloadSeen)
    unread = replace(seen, workload=replace(seen.workload, in_place=None))
    assert as_own(unread) is unread


def _set(revision: str, *, size: int, pods: int = 0, ready: int = 0, available: int = 0) -> ReplicaSet:
    return ReplicaSet(
        name=revision, uid=f"uid-set/{revision}", resource_version="7", revision=revision, number=0, created_at_s=0.0,
        spec_replicas=size, replicas=pods, ready=ready, available=available, observed=False, min_ready_s=20, inside=True,
    )  # fmt: skip


def test_the_policy_sees_a_set_for_each_revision_with_the_ordinals_that_have_it_or_will() -> None:
    """Below the partition a pod that goes comes back with the current revision, above it with the template's."""
    there = (
        _pod(2, "a", ready_since_s=NOW_S - 20),
        _pod(3, "a", ready_since_s=NOW_S - 19),
        _pod(4, "c", ready=False),
        _pod(5, "a", deleting=True),
        _pod(7, "b", ready_since_s=NOW_S - 20),
        _pod(8, "a"),
        _pod(9, "z", deleting=True),
        _pod(0, "y"),
        _pod(10, "y", name="my-cart-x"),
    )
    seen, _ = _view(
        "", *there, partition=5, start=2, min_ready_s=20, workload={"replicas": 8, "observed": False}, status=PROMOTED
    )
    own = replace(_set("q", size=1), inside=False)

    assert as_own(replace(seen, replica_sets=(own,))).replica_sets == (
        own,
        _set("a", size=4, pods=4, ready=2, available=1),
        _set("b", size=3, pods=1, ready=1, available=1),
        _set("c", size=1, pods=1),
        _set("y", size=0, pods=2),
        _set("z", size=0, pods=1),
    )
    assert as_own(replace(seen, pods=None)).replica_sets == (_set("a", size=5), _set("b", size=3))


def test_without_a_partition_every_ordinal_will_have_the_templates_revision() -> None:
    """Also the first one."""
    seen, _ = _view("aab", partition=None, min_ready_s=20, workload={"observed": False})

    assert as_own(seen).replica_sets == (
        _set("a", size=0, pods=2),
        _set("b", size=3, pods=1, ready=1, available=1),
    )


def test_with_on_delete_each_pod_has_its_own_revision() -> None:
    """One that is missing gets that of the template."""
    there = (_pod(0, "a"), _pod(1, "b"), _pod(2, "A"), _pod(3, "y", name="my-cart-x"))
    seen, _ = _view("", *there, on_delete=True, min_ready_s=20, workload={"replicas": 4, "observed": False})

    assert as_own(seen).replica_sets == (
        _set("a", size=2, pods=2, ready=1, available=1),
        _set("b", size=2, pods=1, ready=1, available=1),
        _set("y", size=0, pods=1),
    )


@pytest.mark.parametrize(("available", "counted"), [(2, 2), (9, 3)])
def test_between_updates_the_policy_sees_what_the_status_counts(available: int, counted: int) -> None:
    """All ordinals have one revision. Those that would go first count as ready."""
    seen, _ = _view(
        "aaaAA",
        _pod(9, "z"),
        begun=False,
        min_ready_s=20,
        pods=6,
        ready=3,
        current=6,
        workload={"observed": False, "available": available},
    )
    stable = replace(seen, status=replace(seen.status, stable_revision="s"))

    assert as_own(stable).replica_sets == (
        _set("a", size=5, pods=6, ready=3, available=counted),
        _set("b", size=0),
        _set("s", size=0),
    )


def _sizes(new: int, stable: int, older: tuple[int, ...], wanted_new: int, wanted_stable: int) -> Sizes:
    return Sizes(new=new, stable=stable, older=older, wanted_new=wanted_new, wanted_stable=wanted_stable)


WITHOUT_STABLE: dict[str, Any] = {"current_revision": "c", "current": 2}


@pytest.mark.parametrize(
    ("view", "asked", "held"),
    [
        (_view("aaaab", partition=4), _sizes(2, 3, (), 2, 3), _sizes(2, 3, (), 2, 3)),
        (_view("aaaab", partition=4), _sizes(5, 0, (), 5, 0), _sizes(4, 1, (), 4, 1)),
        (_view("aaaab", partition=4), _sizes(2, 3, (), 5, 0), _sizes(2, 3, (), 4, 1)),
        (_view("aaaab", partition=4, steps=0), _sizes(5, 0, (), 5, 0), _sizes(5, 0, (), 5, 0)),
        (_view("bbbbb", partition=0, current_revision="a"), _sizes(5, 0, (), 5, 0), _sizes(5, 0, (), 5, 0)),
        (_view("aa"), _sizes(2, 0, (), 2, 0), _sizes(1, 1, (), 1, 1)),
        (_view("a"), _sizes(1, 0, (), 1, 0), _sizes(1, 0, (), 1, 0)),
        (_view("aaabbbbb", partition=6, held={"surplus": 3}), _sizes(2, 6, (), 2, 6), _sizes(5, 3, (), 5, 3)),
        (_view("aaabbbbb", partition=6, held={"surplus": 2}), _sizes(2, 6, (), 2, 6), _sizes(4, 4, (), 4, 4)),
        (_view("aaabbbbb", partition=3, held={"replicas": 5}), _sizes(1, 7, (), 1, 7), _sizes(5, 3, (), 5, 3)),
        (_view("aaabbbbb", partition=6, begun=False), _sizes(2, 6, (), 2, 6), _sizes(2, 6, (), 2, 6)),
        (_view("aaabb", partition=3, status=ABORTED), _sizes(0, 5, (), 0, 5), _sizes(0, 5, (), 0, 5)),
        (_view("aaabb", status=ABORTED, current_revision="b"), _sizes(0, 5, (), 0, 4), _sizes(2, 3, (), 2, 3)),
        (_view("aaabb", status=ABORTED, current_revision="b"), _sizes(1, 3, (), 1, 5), _sizes(2, 4, (), 2, 4)),
        (_view("aaabb", status=ABORTED, current_revision="b"), _sizes(0, 0, (), 0, 0), _sizes(2, 0, (), 2, 0)),
        (_view("aaccdb", **WITHOUT_STABLE), _sizes(2, 4, (0, 0), 2, 4), _sizes(2, 2, (2, 0), 2, 2)),
        (_view("aaccdb", **WITHOUT_STABLE), _sizes(3, 1, (0, 9), 2, 0), _sizes(3, 1, (2, 1), 2, 0)),
        (_view("aaccdb", **WITHOUT_STABLE), _sizes(3, 9, (0, 0), 3, 9), _sizes(3, 2, (1, 0), 3, 2)),
        (_view("bbbbb", **NEW), _sizes(9, 9, (), 9, 9), _sizes(9, 9, (), 9, 9)),
        (_view("aaaab", status=replace(BEGUN, current_revision="q")), _sizes(9, 9, (1,), 9, 9), _sizes(9, 9, (1,), 9, 9)),
    ],
)  # fmt: skip
def test_sizes_that_no_partition_leads_to_become_the_nearest_ones(
    view: tuple[Snapshot, RolloutStatus], asked: Sizes, held: Sizes
) -> None:
    """One old pod stays until the steps are over, and so do new ones that a scale-up has made.

    What its controller cannot make any more has no more pods than there are.
    """
    seen, status = view

    assert reachable(context_of(as_own(seen), status), asked) == held
