"""Promise: sizes that the policy wants of a DaemonSet's revisions become one write of its type, or pods that go."""

from __future__ import annotations

from typing import Any

import pytest

from rollouts.core.carrier.daemonset import as_own, carried, reachable
from rollouts.core.context.pass_context import context_of
from rollouts.core.model.frozen import replace
from rollouts.core.model.in_place_intents import DeletePod, RevertTemplate, StepDaemonSet
from rollouts.core.model.intents import AdoptReplicaSet, AskPods, Decision, Intent, PatchReplicaSet, RemoveAnnotation
from rollouts.core.model.nodes import ChosenNodes, DaemonSetSeen, HeldNodes, NodeRevision, NodeUpdate, OwnType
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import Canary, Percent
from rollouts.core.model.snapshot import Pod, PodsSeen, ReplicaSet, Snapshot
from rollouts.core.model.status import Abort, RolloutStatus, Verb
from rollouts.core.model.workload import HoldSeen, NamedReplicaSet, WorkloadSeen, WorkloadUnasked
from rollouts.core.model.workload_ref import Hold, NamedWorkload, OnAbort, WorkloadKind, WorkloadMode
from rollouts.core.scale.canary_sizes import Sizes
from tests.core.model import T0, world

NOW_S = T0 + 100
HELD = HeldNodes(number=3, own=OwnType(False))
BEGUN = RolloutStatus(current_revision="b", stable_revision="a")
PROMOTED = RolloutStatus(current_revision="b", stable_revision="b")
ABORT = Abort("b", T0, Reason.ROLLOUT_ABORTED, "")
ABORTED = replace(BEGUN, abort=ABORT)
REVERTED: dict[str, Any] = {"on_abort": OnAbort.REVERT_TEMPLATE}


def _pod(node: str, revision: str, **given: Any) -> Pod:
    """One that has long been ready, unless it is said otherwise."""
    pod = Pod(
        name=f"agent-{node}-{revision}", uid=f"uid-{node}-{revision}", revision=revision, created_at_s=T0, ready=True,
        ready_since_s=T0, resource_version=f"version-{node}", node=node,
    )  # fmt: skip
    return replace(pod, **given)


NOT_READY: dict[str, Any] = {"ready": False, "ready_since_s": None}
OLD = tuple(_pod(f"n{number}", "a") for number in range(5))
NEW = tuple(_pod(f"n{number}", "b") for number in range(5))


def _view(
    *pods: Pod,
    status: RolloutStatus = BEGUN,
    now: RolloutStatus | None = None,
    nodes: int = 5,
    limit: int = 1,
    min_ready_s: int = 0,
    ref: dict[str, Any] | None = None,
    on_delete: bool = True,
    limits: bool = True,
    held: HeldNodes | None = HELD,
    chosen: tuple[str, ...] | None = None,
    known: bool = True,
    **workload: Any,
) -> tuple[Snapshot, RolloutStatus]:
    """What is seen of a DaemonSet with template `b`, whose limits are read beside its type or are not; and the status decided."""
    named = NamedWorkload(kind=WorkloadKind.DAEMON_SET, name="agent", mode=WorkloadMode.IN_PLACE, **(ref or {}))
    strategy = Canary(max_surge=0, max_unavailable=limit)
    there = world(strategy, replicas=0, revision="b", workload_ref=named, min_ready_s=min_ready_s)
    daemon_set = DaemonSetSeen(
        update=NodeUpdate(on_delete=on_delete, **({"max_unavailable": limit} if limits else {})),
        current=nodes - 1,
        updated=sum(pod.revision == "b" for pod in pods) if pods else nodes - 1,
        ready=nodes - 2,
        available=nodes - 3,
        held=held,
        revisions=tuple(
            NodeRevision(name=f"agent-{each}", revision=each, number=number, created_at_s=T0 - number)
            for number, each in enumerate("zab", 1)
        ),
        chosen=None if chosen is None else ChosenNodes(at_s=NOW_S, names=frozenset(chosen)),
    )
    given: dict[str, Any] = {
        "replicas": nodes,
        "hold": HoldSeen(at_s=NOW_S, works=True) if known else None,
        "managed_by": "cart",
        **workload,
    }
    seen = WorkloadSeen(
        kind=WorkloadKind.DAEMON_SET, name="agent", uid="uid-agent", resource_version="7",
        watched=True, template_hash="b", in_place=daemon_set, **given,
    )  # fmt: skip
    pods_seen = PodsSeen(NOW_S, pods)
    view = Snapshot(now_s=NOW_S, rollout=there.rollout, status=status, workload=seen, pods=pods_seen)
    return view, status if now is None else now


def _moves(view: tuple[Snapshot, RolloutStatus], **sizes: int) -> tuple[Intent, ...]:
    """What is done when the policy wants other sizes of these revisions."""
    seen, status = view
    patches = [PatchReplicaSet(name=each, uid=each, revision=each, replicas=size) for each, size in sizes.items()]
    return carried(seen, Decision(status=status, intents=tuple(patches))).intents


def _gone(*nodes: str, revision: str = "a") -> tuple[DeletePod, ...]:
    return tuple(
        DeletePod(name=f"agent-{each}-{revision}", uid=f"uid-{each}-{revision}", resource_version=f"version-{each}")
        for each in nodes
    )


def _typed(*, on_delete: bool, number: int | None) -> tuple[StepDaemonSet]:
    held = None if number is None else replace(HELD, number=number)
    return (StepDaemonSet(name="agent", uid="uid-agent", resource_version="7", on_delete=on_delete, held=held),)


@pytest.mark.parametrize(
    ("view", "sizes", "gone"),
    [
        (_view(*OLD, limit=2), {"a": 2}, _gone("n0", "n1")),
        (_view(*OLD, limit=2), {"a": 4}, _gone("n0")),
        (_view(*OLD, limit=2), {}, ()),
        (_view(*OLD, limit=2), {"z": 0}, ()),
        (_view(*OLD, nodes=6), {"a": 2}, ()),
        (_view(*OLD, nodes=6, limit=2), {"a": 2}, _gone("n0")),
        (_view(*OLD, nodes=4, limit=2), {"a": 2}, _gone("n0", "n1")),
        (_view(*OLD[:3], _pod("n3", "a", **NOT_READY), _pod("n4", "b", **NOT_READY)), {"a": 0}, _gone("n3")),
        (_view(*OLD, limit=3, ref={"canary_nodes": "x=y"}, chosen=("n3", "n1")), {"a": 1}, _gone("n1", "n3", "n0")),
        (_view(*OLD, ref={"canary_nodes": "x=y"}), {"a": 1}, ()),
        (_view(*OLD, chosen=("n3", "n1")), {"a": 1}, _gone("n0")),
        (
            _view(_pod("n0", "a", **NOT_READY), *OLD[1:], ref={"canary_nodes": "x=y"}, chosen=("n1",)),
            {"a": 0},
            _gone("n0"),
        ),
        (
            _view(_pod("n0", "z"), _pod("n1", "z"), *OLD[2:], limit=9),
            {"a": 2, "z": 1},
            _gone("n0", revision="z") + _gone("n2"),
        ),
        (_view(_pod("", "a", name="y", uid="2"), _pod("", "a", name="x", uid="1"), limit=5), {"a": 1},
         (DeletePod(name="x", uid="1", resource_version="version-"),)),
        (_view(*OLD, limit=5, min_ready_s=100), {"a": 4}, _gone("n0")),
        (_view(*OLD, limit=4, min_ready_s=101), {"a": 3}, _gone("n0", "n1")),
        (_view(*OLD[:4], _pod("n4", "a", ready_since_s=NOW_S + 5)), {"a": 3}, _gone("n0")),
    ],
    ids=[
        "as many as may be unavailable", "as many as the policy wants", "no size is to change", "of no other revision",
        "a node without a pod is one of them", "a second one may be", "more nodes than it counts",
        "a broken one costs nothing", "chosen ones first", "chosen ones are not listed", "nothing is chosen",
        "a broken one behind a chosen one", "each revision by its size", "by name on no node",
        "available now", "available later", "ready by a clock that is ahead",
    ],
)  # fmt: skip
def test_the_pods_that_go_are_chosen_broken_and_first_by_name(
    view: tuple[Snapshot, RolloutStatus], sizes: dict[str, int], gone: tuple[DeletePod, ...]
) -> None:
    """Each available one costs one of the nodes that may be unavailable."""
    assert _moves(view, **sizes) == gone


_REVERT = (RevertTemplate(name="agent", uid="uid-agent", resource_version="7", controller_revision="agent-a"),)
_WITH_ITS_USERS_OWN: dict[str, Any] = {"held": replace(HELD, own=OwnType(True))}


@pytest.mark.parametrize(
    ("view", "moves"),
    [
        (_view(*OLD), _gone("n0")),
        (_view(*OLD, observed=False), ()),
        (_view(*OLD, held=None), _typed(on_delete=True, number=1)),
        (_view(*OLD, on_delete=False), _typed(on_delete=True, number=4)),
        (_view(*OLD, deleting=True), ()),
        (_view(*OLD, problem="unusable"), ()),
        (_view(*OLD, managed_by="another"), ()),
        (_view(*OLD, strays=None), ()),
        (_view(*OLD, strays=(NamedReplicaSet("x", "y"),)), ()),
        (_view(*OLD, now=replace(BEGUN, stable_revision="z")), ()),
        (_view(*OLD, now=replace(BEGUN, current_revision="c")), ()),
        (_view(*OLD, now=ABORTED), ()),
        (_view(*OLD, status=replace(BEGUN, stable_revision=""), on_delete=False), ()),
        (_view(*OLD, status=replace(BEGUN, stable_revision=""), now=BEGUN), ()),
        (_view(*OLD, status=replace(BEGUN, current_revision="a")), ()),
        (_view(*OLD, status=replace(BEGUN, current_revision="a"), on_delete=False), _typed(on_delete=True, number=4)),
        (_view(*OLD, status=replace(ABORTED, current_revision="a"), ref=REVERTED), ()),
        (_view(*OLD, status=ABORTED), ()),
        (_view(*OLD, status=ABORTED, held=None), ()),
        (_view(*OLD, status=ABORTED, ref=REVERTED), _REVERT),
        (_view(*OLD, status=ABORTED, ref=REVERTED, observed=False), ()),
        (_view(*OLD, status=ABORTED, ref=REVERTED, held=None), _typed(on_delete=True, number=1)),
        (_view(*OLD, status=replace(ABORTED, stable_revision="q"), ref=REVERTED), ()),
        (_view(*OLD, status=replace(BEGUN, abort=replace(ABORT, revision="c")), ref=REVERTED), _gone("n0")),
        (_view(*OLD, status=PROMOTED), _gone("n0")),
        (_view(*NEW, status=replace(PROMOTED, stable_revision="a")), ()),
        (_view(*NEW, status=PROMOTED), _typed(on_delete=False, number=None)),
        (_view(*NEW, status=PROMOTED, on_delete=False), _typed(on_delete=False, number=None)),
        (_view(*NEW, status=PROMOTED, on_delete=False, held=None), ()),
        (_view(*NEW, status=PROMOTED, held=None), _typed(on_delete=True, number=1)),
        (_view(*NEW, status=PROMOTED, held=None, known=False), ()),
        (_view(*NEW, status=PROMOTED, known=False), _typed(on_delete=True, number=None)),
        (_view(*NEW, status=PROMOTED, **_WITH_ITS_USERS_OWN), _typed(on_delete=True, number=None)),
        (_view(*NEW, status=PROMOTED, held=None, limits=False), ()),
        (_view(*NEW, status=PROMOTED, held=None, on_delete=False, ref={"hold": Hold.AT_REST}),
         _typed(on_delete=True, number=None)),
        (_view(*NEW, status=RolloutStatus(), held=None), _typed(on_delete=True, number=1)),
        (_view(*NEW, status=RolloutStatus()), _typed(on_delete=False, number=None)),
        (_view(*NEW, status=RolloutStatus(), held=None, limits=False), ()),
        (_view(*NEW, status=RolloutStatus(), held=None, now=PROMOTED), ()),
        (_view(*NEW, status=PROMOTED, now=RolloutStatus()), ()),
    ],
)  # fmt: skip
def test_the_next_write_follows_from_the_published_status_and_the_type(
    view: tuple[Snapshot, RolloutStatus], moves: tuple[Intent, ...]
) -> None:
    """The policy wants one old pod less. A write of the type has the next number of its note, or removes it."""
    assert _moves(view, a=4) == moves


def test_what_is_no_size_stays_in_the_decision_and_the_next_available_pod_is_looked_for() -> None:
    """Pods are listed as those of the DaemonSet."""
    seen, status = _view(_pod("n0", "b", ready_since_s=NOW_S - 5), *OLD[1:], limit=2, nodes=5, min_ready_s=20)
    other = RemoveAnnotation(verb=Verb.PROMOTE, value="true")
    own = PatchReplicaSet(name="a", uid="a", revision="a", number=3)
    size = replace(own, number=None, replicas=3)
    adopted = AdoptReplicaSet(name="x", uid="y", resource_version="1")
    decision = Decision(
        status=status, intents=(size, own, adopted, AskPods(), other), requeue_at_s=NOW_S + 30, status_first=True
    )

    moved = replace(decision, intents=(*_gone("n1"), AskPods("app=cart", "uid-agent"), other), requeue_at_s=NOW_S + 15)
    assert carried(seen, decision) == moved
    assert carried(seen, replace(decision, requeue_at_s=NOW_S + 9)).requeue_at_s == NOW_S + 9
    unlisted = replace(decision, intents=(AskPods("app=cart", "uid-agent"), other))
    assert carried(replace(seen, pods=None), decision) == unlisted
    absent = replace(seen, workload=WorkloadUnasked())
    assert carried(absent, decision) == replace(decision, intents=(AskPods("app=cart"), other))
    assert as_own(absent) is absent


def _set(revision: str, *, size: int, pods: int = 0, ready: int = 0, available: int = 0, made: int = 0) -> ReplicaSet:
    """As the policy sees a revision; `made` is the number of its ControllerRevision."""
    return ReplicaSet(
        name=f"agent-{revision}" if made else revision, uid=revision, resource_version="", revision=revision, number=0,
        created_at_s=T0 - made if made else 0.0, spec_replicas=size, replicas=pods, ready=ready, available=available,
        min_ready_s=20, inside=True,
    )  # fmt: skip


def test_the_policy_sees_a_set_for_each_revision_with_the_nodes_that_run_it() -> None:
    """The newest also has the nodes without a pod. On one with two pods the old one counts; pods that are leaving are there."""
    seen, _ = _view(
        _pod("n0", "b", ready_since_s=NOW_S - 20),
        _pod("n1", "b", ready_since_s=NOW_S - 19),
        _pod("n2", "b", created_at_s=T0 - 50, **NOT_READY),
        _pod("n2", "a"),
        _pod("n3", "a", **NOT_READY),
        _pod("n4", "z", deleting=True),
        _pod("n5", "z", deleting=True),
        _pod("", "c"),
        nodes=8,
        min_ready_s=20,
    )
    shown = as_own(seen)

    assert shown.rollout.spec.replicas == 8
    assert shown.replica_sets == (
        _set("a", size=2, pods=2, ready=1, available=1, made=2),
        _set("b", size=5, pods=2, ready=2, available=1, made=3),
        _set("c", size=1, pods=1, ready=1, available=1),
        _set("z", size=0, pods=2, made=1),
    )
    assert as_own(_view(*OLD, nodes=2, min_ready_s=20)[0]).rollout.spec.replicas == 5
    assert as_own(_view(*NEW, nodes=5)[0]).replica_sets[1].ready == 5  # the status has not counted all of them


def test_between_updates_the_policy_sees_what_the_status_counts() -> None:
    """All of it is the template's revision; without one there is no set of it."""
    seen, _ = _view(held=None, min_ready_s=20)
    shown = as_own(seen)

    older = (_set("z", size=0, made=1), _set("a", size=0, made=2))
    assert shown.rollout.spec.replicas == 5
    assert shown.replica_sets == (*older, _set("b", size=5, pods=4, ready=3, available=2, made=3))
    unknown = replace(seen.rollout, spec=replace(seen.rollout.spec, revision=""))
    assert as_own(replace(seen, rollout=unknown)).replica_sets == (*older, _set("b", size=0, made=3))


def _sizes(new: int, stable: int, older: tuple[int, ...], wanted_new: int, wanted_stable: int) -> Sizes:
    return Sizes(new=new, stable=stable, older=older, wanted_new=wanted_new, wanted_stable=wanted_stable)


@pytest.mark.parametrize(
    ("status", "asked", "held"),
    [
        (BEGUN, _sizes(1, 4, (0,), 1, 5), _sizes(3, 3, (0,), 3, 3)),
        (BEGUN, _sizes(1, 2, (3,), 9, 1), _sizes(3, 2, (1,), 5, 1)),
        (ABORTED, _sizes(0, 0, (0,), 0, 0), _sizes(2, 3, (1,), 2, 3)),
        (replace(BEGUN, current_revision="a"), _sizes(6, 1, (0, 0), 6, 1), _sizes(3, 0, (2, 1), 3, 0)),
        (PROMOTED, _sizes(6, 9, (1, 5), 6, 9), _sizes(4, 0, (1, 1), 6, 0)),
        (replace(BEGUN, current_revision="q"), _sizes(9, 9, (), 9, 9), _sizes(9, 9, (), 9, 9)),
    ],
    ids=["no old pod comes back", "old ones go", "aborted", "rolled back", "promoted", "no new one is seen"],
)
def test_sizes_that_no_deletion_leads_to_become_the_nearest_ones(
    status: RolloutStatus, asked: Sizes, held: Sizes
) -> None:
    """Of six nodes three are stable, one is older, one is new, and one has no pod: it gets a new one."""
    seen, _ = _view(*OLD[:3], _pod("n3", "z"), _pod("n4", "b"), nodes=6, status=status)

    assert reachable(context_of(as_own(seen), status), asked, held=False) == held


@pytest.mark.parametrize(
    ("update", "surges", "stopped"),
    [
        (NodeUpdate(on_delete=False, max_unavailable=1), False, False),
        (NodeUpdate(on_delete=False, max_unavailable=1, max_surge=0), False, False),
        (NodeUpdate(on_delete=False, max_surge=Percent(0)), False, False),
        (NodeUpdate(on_delete=True, max_surge=1), True, True),
        (NodeUpdate(on_delete=True, max_surge=Percent(1)), True, True),
        (NodeUpdate(on_delete=True, max_unavailable=1), False, True),
        (NodeUpdate(on_delete=True), False, False),
    ],
)
def test_a_hold_is_on_delete_beside_limits(update: NodeUpdate, surges: bool, stopped: bool) -> None:
    """The API server fills those in beside RollingUpdate alone."""
    assert (update.surges, update.is_stopped) == (surges, stopped)
