"""Promise: an update beside a Deployment keeps every pod that a Service leads to, in any order of events, and hands over all.

The Deployment's own controller acts at any time, as it does in a cluster (`deployments.py`). `ROLLOUTS_DEEP=1` looks at more.
"""

from __future__ import annotations

from functools import cache

from hypothesis import example, given
from hypothesis import strategies as st

from rollouts.core.decide import decide
from rollouts.core.model.frozen import replace
from rollouts.core.model.snapshot import Snapshot
from rollouts.core.model.status import Phase
from tests.core.deployments import deployed, template_changed, users
from tests.core.model import World, snapshot
from tests.core.test_any_world_is_safe_and_comes_to_rest import (
    BLUE_GREENS,
    ENVIRONMENT,
    MORE,
    ROUTED_STEPS,
    STEPS,
    Move,
)
from tests.core.test_any_world_of_a_deployment_is_safe_and_comes_to_rest import (
    ACTS,
    HARMLESS,
    OTHERS,
    PASSES,
    at_rest,
    healed,
)
from tests.core.updates import routed, with_services
from tests.core.worlds import edited, reconciled, settled, sizes, steps_of

STRATEGIES = (*BLUE_GREENS[:3], routed(*STEPS), routed(*ROUTED_STEPS))
BY_ITSELF = HARMLESS | {name: ENVIRONMENT[name] for name in ("one slice catches up", "gateways catch up")}
MOVES: dict[str, Move] = {
    **BY_ITSELF,
    **OTHERS,
    "another strategy": lambda there, i, _j: edited(there, strategy=(*STRATEGIES, with_services(*STEPS))[i % 6]),
}
TAPES = st.lists(
    st.tuples(
        st.one_of(st.sampled_from(PASSES), st.sampled_from(sorted(BY_ITSELF)), st.sampled_from(sorted(MOVES))),
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


def _led_to(there: World) -> set[str]:
    """The revisions that a Service selects or shows."""
    selected = {each.revision for each in there.services.values()}
    return selected.union(*(each.ready_by_revision for each in there.services.values())) - {""}


def _played(there: World, tape: list[tuple[str, int, int]]) -> World:
    stale: Snapshot | None = None
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
                after = [MOVES[name](there, i, j)]
        for each in after:
            if name == ACTS and not there.rollout.spec.strategy.by_ratio:
                _ends_no_pod_that_is_led_to(there, each)
            revisions = [replica_set.revision for replica_set in each.replica_sets]
            assert len(revisions) == len(set(revisions)), f"{name} makes a second ReplicaSet of one template"
            there = each
    return there


def _ends_no_pod_that_is_led_to(before: World, after: World) -> None:
    replicas, led_to, now = (
        before.rollout.spec.replicas,
        _led_to(before),
        {each.uid: each for each in after.replica_sets},
    )
    for each in before.replica_sets:
        if each.revision in led_to:
            size = now[each.uid].spec_replicas
            assert size >= min(each.spec_replicas, replicas), (
                f"{each.revision} shrinks from {each.spec_replicas} to {size}"
            )


@MORE
@example(number=0, replicas=1, begun=False, tape=[("scaled", 7, 5)])
@example(
    number=4,
    replicas=3,
    begun=True,
    tape=[("all settles", 5, 0), ("promote", 0, 0), ("all settles", 5, 0), ("scaled", 0, 2)],
)
@given(number=st.sampled_from(range(len(STRATEGIES))), replicas=st.integers(1, 10), begun=st.booleans(), tape=TAPES)
def test_any_update_beside_a_deployment_is_safe_and_comes_to_rest(
    number: int, replicas: int, begun: bool, tape: list[tuple[str, int, int]]
) -> None:
    """At its end the Deployment has all pods and its user's fields, or it is aborted or rolled back, and paused."""
    there = at_rest(healed(_played(_updated(number, replicas, begun=begun), tape)))

    assert decide(snapshot(there)).intents == ()
    status, workload, wanted = there.status, there.workload, there.rollout.spec.replicas
    assert workload is not None and workload.deployment is not None
    inside = {each.revision: each.spec_replicas for each in there.replica_sets if each.inside and each.spec_replicas}
    if status.phase is Phase.HEALTHY:
        assert sizes(there) == inside == ({workload.template_hash: wanted} if wanted else {})
        own = users(there.rollout.spec)
        assert (workload.deployment.held, workload.deployment.fields, workload.deployment.paused) == (None, own, False)
        assert all(
            each.inside and each.min_ready_s == (own.min_ready_s or 0)
            for each in there.replica_sets
            if each.spec_replicas
        )
    else:
        assert status.phase in (Phase.ABORTED, Phase.ROLLED_BACK), (status.phase, status.message)
        assert inside == ({status.stable_revision: wanted} if wanted else {})
        assert workload.deployment.paused
