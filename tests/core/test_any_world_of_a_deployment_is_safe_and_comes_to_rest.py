"""Promise: an update in place keeps the pods that the Deployment promises, in any order of events, and gives the fields back.

The Deployment's own controller acts at any time, as it does in a cluster (`deployments.py`). Judged by pods: no pass and no
controller takes a ready pod away that is needed. `ROLLOUTS_DEEP=1` looks at many more.
"""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rollouts.core.decide import decide
from rollouts.core.model.analysis import AnalysisPhase
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import PatchReplicaSet
from rollouts.core.model.rollout import Canary
from rollouts.core.model.snapshot import Snapshot
from rollouts.core.model.status import Phase
from rollouts.core.model.steps import Pause, PauseUntilPromoted, SetWeight
from tests.core.deployments import (
    deployed,
    deployment_synced,
    fields_applied,
    limits,
    scaled,
    template_changed,
    users,
)
from tests.core.measured_runs import runs_measured
from tests.core.model import World, annotated, snapshot
from tests.core.test_any_world_is_safe_and_comes_to_rest import (
    ENVIRONMENT,
    GATED,
    GOING_BACK,
    MORE,
    REVISIONS,
    STEPS,
    Move,
)
from tests.core.updates import with_services
from tests.core.worlds import edited, reconciled, settled, sizes, steps_of

STRATEGIES = (
    Canary(steps=STEPS),
    Canary(steps=STEPS, max_surge=1, max_unavailable=0),
    Canary(steps=STEPS, max_surge=0, max_unavailable=1),
    Canary(steps=(SetWeight(50), PauseUntilPromoted(), SetWeight(20), Pause(5), SetWeight(100), PauseUntilPromoted())),
    GOING_BACK[0],
    with_services(*STEPS, max_surge=1, max_unavailable=0),
    GATED[0],
)
ACTS = "the deployment's controller acts"
HARMLESS: dict[str, Move] = {
    ACTS: lambda there, _i, _j: deployment_synced(there),
    **{
        name: ENVIRONMENT[name]
        for name in (
            *("replica sets catch up", "replica sets are looked at", "pods are heard of"),
            *("some pods are ready", "all pods are ready", "time passes", "slices catch up"),
        )
    },
}
"""What happens by itself. None of it may take a pod away that is needed."""
OTHERS: dict[str, Move] = {
    "pods fail": ENVIRONMENT["pods fail"],
    "a revision goes bad": ENVIRONMENT["a revision goes bad"],
    "a run fails": lambda there, _i, _j: runs_measured(there, AnalysisPhase.FAILED, limit=1),
    "a new template": lambda there, i, _j: template_changed(there, REVISIONS[i % 4]),
    "the manifest is applied again": lambda there, _i, _j: fields_applied(there),
    "scaled": lambda there, i, j: scaled(there, (i * 3 + j) % 13),
    "paused": lambda there, i, _j: edited(there, paused=i % 2 == 0),
    "promote": lambda there, i, _j: annotated(there, "promote", ("true", "b", "b@full", "c@full", None)[i % 5]),
    "abort": lambda there, i, _j: annotated(there, "abort", ("true", "b", "c", None)[i % 4]),
    "rollback": lambda there, i, _j: annotated(there, "rollback", ("true", "previous@b", "a", "b", None)[i % 5]),
    "restart": lambda there, i, _j: annotated(there, "restart", ("true", None)[i % 2]),
    "retry": lambda there, i, _j: annotated(there, "retry", ("true", "b@1", "c@1", "b@2", None)[i % 5]),
}
PASSES = ("pass", "all settles", "crash", "stale pass", "the watch of ReplicaSets lags")
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


@cache
def _updated(number: int, replicas: int, *, begun: bool) -> World:
    """A new template comes; or the update is at its first step that waits. Each other one has a `minReadySeconds`."""
    there = deployed(STRATEGIES[number], replicas=replicas, min_ready_s=5 * (replicas % 2))
    there = template_changed(settled(there), "b")
    return settled(there, seconds=1) if begun else there


def _needed(there: World, sizes_asked: list[int]) -> int:
    """Ready pods that the Deployment promises: its replicas without `maxUnavailable`, as its user says it.

    Scaled in a step to so few that both of the step's limits round to 0, its controller takes one for `maxUnavailable`. And pods
    may go that were too many for a moment.

    Args:
        sizes_asked: the replicas that it had so far.
    """
    replicas = min(sizes_asked)
    return replicas - max(limits(users(there.rollout.spec), replicas)[1], int(len(sizes_asked) > 1))


def _ready(there: World) -> int:
    return sum(pod.ready for pod in there.pods)


def _played(there: World, tape: list[tuple[str, int, int]]) -> World:
    stale: Snapshot | None = None
    asked = [there.rollout.spec.replicas]
    for name, i, j in tape:
        match name:
            case "pass":
                after, stale = [reconciled(there)], None
            case "all settles":
                after, stale = list(steps_of(there, until_s=there.now_s + i)), None
            case "crash":
                after, stale = [reconciled(there, writes=i % 4)], None
            case "stale pass":
                after, stale = [] if stale is None else [reconciled(there, seen=stale)], None
            case "the watch of ReplicaSets lags":
                seen = snapshot(there)
                late = seen if stale is None else replace(seen, replica_sets=stale.replica_sets)
                after, stale = [reconciled(there, seen=late)], None
            case _:
                stale = stale or snapshot(there)
                after = [{**HARMLESS, **OTHERS}[name](there, i, j)]
        for each in after:
            asked += [each.rollout.spec.replicas] if name == "scaled" else []
            kept = name in OTHERS or _ready(each) >= min(_ready(there), _needed(each, asked))
            assert kept, f"{name} takes away a pod that is needed"
            revisions = [replica_set.revision for replica_set in each.replica_sets]
            assert len(revisions) == len(set(revisions)), f"{name} makes a second ReplicaSet of one template"
            there = each
    return there


def at_rest(there: World) -> World:
    """Until nothing happens any more; an update that waits for its promotion gets it."""
    there = settled(there)
    if there.status.phase is Phase.PAUSED:
        there = settled(annotated(there, "promote", f"{there.status.current_revision}@full"))
    return there


def healed(there: World) -> World:
    """No pod is bad, and nobody holds the Rollout."""
    for verb in ("pause", "promote"):
        there = annotated(there, verb, None)
    return edited(replace(there, bad=frozenset(), patient=False), paused=False)


SCALED_TO_LESS_THAN_A_SHARE = [("scaled", 0, 1), (ACTS, 0, 0), ("all settles", 0, 0)]


SCALED_TO_NOTHING_AND_BACK = [("scaled", 7, 5), (ACTS, 0, 0), ("scaled", 0, 2)]
"""Its controller makes all pods new ones, which are fewer than the surge of the step would let it make."""

SCALED_WHILE_IT_WAS_OUT = [
    *[("all settles", 5, 0), ("promote", 0, 0), ("pass", 0, 0), ("pass", 0, 0), ("pass", 0, 0), ("abort", 0, 0)],
    *[("all settles", 0, 0), ("retry", 0, 0), ("scaled", 3, 0)],
]
"""The ReplicaSet returns with a note of fewer replicas: the Deployment's controller takes that for scaling, and spreads anew."""

OVERWRITTEN_BEFORE_A_VERDICT = [
    ("all settles", 5, 0),
    ("promote", 0, 0),
    ("the manifest is applied again", 0, 0),
    ("pass", 0, 0),
]
"""The step's fields are to be written again in the very pass that reads a verdict, which is recorded first."""


@MORE
@example(number=4, replicas=1, begun=False, tape=OVERWRITTEN_BEFORE_A_VERDICT)
@example(number=0, replicas=3, begun=False, tape=SCALED_WHILE_IT_WAS_OUT)
@example(number=0, replicas=4, begun=True, tape=SCALED_TO_LESS_THAN_A_SHARE)
@example(number=0, replicas=1, begun=True, tape=SCALED_TO_NOTHING_AND_BACK)
@given(number=st.sampled_from(range(len(STRATEGIES))), replicas=st.integers(1, 10), begun=st.booleans(), tape=TAPES)
def test_any_update_in_place_is_safe_and_comes_to_rest(
    number: int, replicas: int, begun: bool, tape: list[tuple[str, int, int]]
) -> None:
    """At its end it is Healthy with its user's fields, or aborted or rolled back, and paused."""
    there = at_rest(healed(_played(_updated(number, replicas, begun=begun), tape)))

    assert decide(snapshot(there)).intents == ()
    status, workload, wanted = there.status, there.workload, there.rollout.spec.replicas
    assert workload is not None and workload.deployment is not None
    if status.phase is Phase.HEALTHY:
        assert sizes(there) == ({workload.template_hash: wanted} if wanted else {})
        assert workload.deployment.held is None
        own = users(there.rollout.spec)
        assert (workload.deployment.fields, workload.deployment.paused) == (own, False)
        assert all(each.inside for each in there.replica_sets)
    else:
        assert status.phase in (Phase.ABORTED, Phase.ROLLED_BACK), (status.phase, status.message)
        assert sizes(there) == ({status.stable_revision: wanted} if wanted else {})
        assert workload.deployment.paused


@pytest.mark.parametrize("ready", [1, 7], ids="pods are ready in each round {}".format)
@pytest.mark.parametrize("late", [1, 3, 8], ids="acts in each round {}".format)
@pytest.mark.parametrize("limits", [(1, 0), (0, 1), (0, 2)], ids="surge and unavailable {}".format)
@pytest.mark.parametrize("listed", [True, False], ids=["", "pods are not listed"])
def test_a_newer_template_in_a_step_keeps_the_pods_however_late_others_are(
    limits: tuple[int, int], late: int, ready: int, listed: bool
) -> None:
    """The fields in force may take stable pods away later: until they have, no pod of the older update goes instead.

    Nor does a ready one of which a controller that has just started does not know for how long it is.
    """
    surge, unavailable = limits
    steps = (SetWeight(25), Pause(5), SetWeight(50), PauseUntilPromoted())
    strategy = Canary(steps=steps, max_surge=surge, max_unavailable=unavailable)
    there = settled(template_changed(settled(deployed(strategy, replicas=8, min_ready_s=1)), "b"))
    assert sizes(there) == {"a": 4, "b": 4}
    there = reconciled(template_changed(there, "c"))
    for round_ in range(60 * late):
        for name in ("replica sets catch up", "all pods are ready", "pods are heard of", ACTS, "time passes", "pass"):
            if round_ % {ACTS: late, "all pods are ready": ready}.get(name, 1):
                continue
            if name == "pass":
                seen = snapshot(there)
                after = reconciled(there, seen=seen if listed or round_ > ready * late else replace(seen, pods=None))
            else:
                after = HARMLESS[name](there, 0, 0)
            assert _ready(after) >= min(_ready(there), _needed(after, [8])), f"{name} takes away a pod that is needed"
            there = after
    assert sizes(settled(there)) == {"a": 4, "c": 4}


def test_no_pod_of_an_older_update_goes_while_fields_are_carried_out() -> None:
    """The Deployment may still take pods of the stable revision, which have become available meanwhile."""
    steps = (SetWeight(25), Pause(5), SetWeight(50), PauseUntilPromoted())
    strategy = Canary(steps=steps, max_surge=0, max_unavailable=2)
    there = settled(template_changed(settled(deployed(strategy, replicas=8, min_ready_s=1)), "b"))
    there = reconciled(template_changed(there, "c"))
    for _ in range(40):
        for name in ("replica sets catch up", "pods are heard of", ACTS, "time passes"):
            there = HARMLESS[name](there, 0, 0)
        there = reconciled(there)
        if (
            there.workload is not None
            and there.workload.deployment is not None
            and not there.workload.deployment.paused
        ):
            break
    assert sizes(there) == {"a": 8, "b": 2}
    assert there.workload is not None
    seen = snapshot(replace(there, workload=replace(there.workload, observed=True)))
    sets = [replace(each, ready=8, available=8) if each.revision == "a" else each for each in seen.replica_sets]

    intents = decide(replace(seen, replica_sets=tuple(sets))).intents
    assert [each for each in intents if isinstance(each, PatchReplicaSet)] == []
