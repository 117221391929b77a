"""Promise: an update in place keeps the pods that the StatefulSet promises, in any order of events, and gives the fields back.

The StatefulSet's own controller acts at any time, as it does in a cluster (`stateful_sets.py`). Judged by pods: no pass takes a
ready pod away that is needed, at once or by a partition that its controller follows. `ROLLOUTS_DEEP=1` looks at many more.
"""

from __future__ import annotations

from functools import cache

from hypothesis import example, given
from hypothesis import strategies as st

from rollouts.core.decide import decide
from rollouts.core.model.analysis import AnalysisPhase
from rollouts.core.model.frozen import replace
from rollouts.core.model.rollout import Canary
from rollouts.core.model.snapshot import Pod, Snapshot
from rollouts.core.model.status import Phase
from rollouts.core.model.steps import Pause, PauseUntilPromoted, SetWeight
from rollouts.core.model.workload import PartitionFields, StatefulSetSeen
from rollouts.core.model.workload_ref import Hold
from tests.core.measured_runs import runs_measured
from tests.core.model import World, annotated, snapshot
from tests.core.stateful_sets import MOST, USERS, ended, new_template, rescaled, stateful, workload_synced
from tests.core.test_any_world_is_safe_and_comes_to_rest import (
    ENVIRONMENT,
    GATED,
    GOING_BACK,
    MORE,
    REVISIONS,
    STEPS,
    Move,
)
from tests.core.worlds import edited, reconciled, settled, steps_of

STRATEGIES = (
    Canary(steps=STEPS),
    Canary(steps=(SetWeight(50), PauseUntilPromoted(), SetWeight(20), Pause(5), SetWeight(100), PauseUntilPromoted())),
    GOING_BACK[0],
    GATED[0],
)
KINDS = (
    (USERS, Hold.POLICY, True, None),
    (PartitionFields(), Hold.POLICY, False, None),
    (USERS, Hold.AT_REST, True, None),
    (PartitionFields(on_delete=True), Hold.POLICY, True, None),
    (USERS, Hold.POLICY, False, 2),
)
"""The user's fields, what holds them, whether pods start one after another, and the user's `maxUnavailable`."""
HARMLESS: dict[str, Move] = {
    "its controller acts": lambda there, _i, _j: workload_synced(there),
    "pods end": lambda there, _i, _j: ended(there),
    **{name: ENVIRONMENT[name] for name in ("some pods are ready", "all pods are ready", "time passes")},
}
"""What happens by itself. None of it may take a pod away that is needed."""
OTHERS: dict[str, Move] = {
    "pods fail": ENVIRONMENT["pods fail"],
    "a revision goes bad": ENVIRONMENT["a revision goes bad"],
    "a run fails": lambda there, _i, _j: runs_measured(there, AnalysisPhase.FAILED, limit=1),
    "a new template": lambda there, i, _j: new_template(there, REVISIONS[i % 4], policy=_has_policy(there)),
    "scaled": lambda there, i, j: rescaled(there, (i * 3 + j) % 13),
    "paused": lambda there, i, _j: edited(there, paused=i % 2 == 0),
    "promote": lambda there, i, _j: annotated(there, "promote", ("true", "b", "b@full", "c@full", None)[i % 5]),
    "abort": lambda there, i, _j: annotated(there, "abort", ("true", "b", "c", None)[i % 4]),
    "rollback": lambda there, i, _j: annotated(there, "rollback", ("true", "previous@b", "a", "b", None)[i % 5]),
    "retry": lambda there, i, _j: annotated(there, "retry", ("true", "b@1", "c@1", "b@2", None)[i % 5]),
    "a pod is deleted": lambda there, i, _j: _without(there, i),
}
PASSES = ("pass", "all settles", "crash", "stale pass", "the watch of pods lags")
TAPES = st.lists(
    st.tuples(
        st.one_of(
            st.sampled_from(PASSES), st.sampled_from(sorted(HARMLESS)), st.sampled_from(sorted({**HARMLESS, **OTHERS}))
        ),
        st.integers(0, 7),
        st.integers(0, 7),
    ),
    max_size=40,
)


def _found(there: World) -> StatefulSetSeen:
    assert there.workload is not None and there.workload.stateful_set is not None
    return there.workload.stateful_set


def _has_policy(there: World) -> bool:
    return there.workload is not None and there.workload.hold_works is True


def _ordinal(pod: Pod) -> int:
    return int(pod.name.rpartition("-")[2])


def _without(there: World, i: int) -> World:
    """Somebody deletes a pod, or its node drains."""
    pods = [replace(pod, deleting=True) if _ordinal(pod) == i else pod for pod in there.pods]
    return replace(there, pods=tuple(pods))


@cache
def _updated(number: int, kind: int, replicas: int, *, begun: bool) -> World:
    """A new template comes; or the update is at its first step that waits. Each other one has a `minReadySeconds`."""
    fields, hold, ordered, unavailable = KINDS[kind]
    there = stateful(
        STRATEGIES[number],
        replicas=replicas,
        hold=hold,
        fields=fields,
        ordered=ordered,
        max_unavailable=unavailable,
        min_ready_s=5 * (replicas % 2),
    )
    there = settled(there)
    there = new_template(there, "b", policy=_has_policy(there))
    return settled(there, seconds=1) if begun else there


def _staying(there: World, also: frozenset[str] = frozenset()) -> int:
    """Ready pods that its controller leaves alone: those below the partition, or with the revision of the template.

    Args:
        also: pods that are as good as ready, by uid.
    """
    found, replicas = _found(there), there.rollout.spec.replicas
    least = replicas if found.fields.on_delete else found.fields.partition or 0
    return sum(
        not pod.deleting
        and (pod.ready or pod.uid in also)
        and _ordinal(pod) < replicas
        and (_ordinal(pod) < least or pod.revision == there.rollout.spec.revision)
        for pod in there.pods
    )


def _needed(there: World) -> int:
    """Pods that the StatefulSet promises: all but its `maxUnavailable`, which is one where it says nothing."""
    unavailable = _found(there).max_unavailable
    return there.rollout.spec.replicas - (unavailable if isinstance(unavailable, int) else 1)


def _is_behind(there: World) -> bool:
    """Whether passes go by a status that still counts a pod which is lost: no pass can know of it sooner."""
    assert there.workload is not None
    return not _found(there).needs_pods and there.workload.available > sum(
        pod.ready and not pod.deleting for pod in there.pods
    )


def _played(there: World, tape: list[tuple[str, int, int]]) -> World:
    stale: Snapshot | None = None
    for name, i, j in tape:
        late = frozenset[str]()
        match name:
            case "pass":
                after, stale = [reconciled(there)], None
            case "all settles":
                after, stale = list(steps_of(there, until_s=there.now_s + i)), None
            case "crash":
                after, stale = [reconciled(there, writes=i % 4)], None
            case "stale pass" | "the watch of pods lags":
                seen = snapshot(there)
                if stale is not None:
                    seen = stale if name == "stale pass" else replace(seen, pods=stale.pods or seen.pods)
                    late = frozenset(pod.uid for pod in (seen.pods.pods if seen.pods is not None else ()) if pod.ready)
                after, stale = [reconciled(there, seen=seen)], None
            case _:
                stale = stale or snapshot(there)
                after = [{**HARMLESS, **OTHERS}[name](there, i, j)]
        for each in after:
            kept = _staying(each, late) >= min(_staying(there, late), _needed(each))
            assert kept or name in OTHERS or _is_behind(there), f"{name} takes away a pod that is needed"
            there = each
    return there


def _at_rest(there: World) -> World:
    there = settled(there)
    if there.status.phase is Phase.PAUSED:
        there = settled(annotated(there, "promote", f"{there.status.current_revision}@full"))
    return there


def _healed(there: World) -> World:
    for verb in ("pause", "promote"):
        there = annotated(there, verb, None)
    return edited(replace(there, bad=frozenset(), patient=False), paused=False)


@MORE
@example(number=0, kind=0, replicas=5, begun=True, tape=[("abort", 0, 0)])
@given(
    number=st.sampled_from(range(len(STRATEGIES))),
    kind=st.sampled_from(range(len(KINDS))),
    replicas=st.integers(1, 8),
    begun=st.booleans(),
    tape=TAPES,
)
def test_any_update_of_a_stateful_set_is_safe_and_comes_to_rest(
    number: int, kind: int, replicas: int, begun: bool, tape: list[tuple[str, int, int]]
) -> None:
    """At its end it is Healthy with its user's fields, or aborted or rolled back, and held by a partition that no pod is above.

    Where its controller has forgotten the stable revision, as all pods were new and ready once, nothing goes back.
    """
    there = _at_rest(_healed(_played(_updated(number, kind, replicas, begun=begun), tape)))

    assert decide(snapshot(there)).intents == ()
    status, found, wanted = there.status, _found(there), there.rollout.spec.replicas
    revisions, fields = [pod.revision for pod in there.pods], KINDS[kind][0]
    if status.phase is Phase.HEALTHY:
        assert revisions == [there.rollout.spec.revision] * wanted
        own = found.fields if found.held is None else found.held.own
        assert own == fields
        assert (found.fields.partition == MOST) is (KINDS[kind][1] is Hold.AT_REST)
    elif found.current_revision == status.stable_revision:
        assert status.phase in (Phase.ABORTED, Phase.ROLLED_BACK), (status.phase, status.message)
        assert revisions == [status.stable_revision] * wanted
        assert found.fields.partition == MOST or found.fields.on_delete
