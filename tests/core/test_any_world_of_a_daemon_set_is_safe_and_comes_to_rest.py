"""Promise: an update of a DaemonSet takes no more pods than `maxUnavailable` allows, in any order of events, and comes to rest.

The DaemonSet's own controller acts at any time (`daemonsets.py`). Judged by nodes: each deletion of ours that takes an available
pod leaves at most `maxUnavailable` nodes without one (`applied`). `ROLLOUTS_DEEP=1` looks at many more.
"""

from __future__ import annotations

from functools import cache

from hypothesis import given
from hypothesis import strategies as st

from rollouts.core.decide import decide
from rollouts.core.model.frozen import replace
from rollouts.core.model.rollout import Canary
from rollouts.core.model.snapshot import Snapshot
from rollouts.core.model.status import Phase
from rollouts.core.model.steps import Pause, PauseUntilPromoted, SetWeight
from rollouts.core.model.workload_ref import Hold, OnAbort
from tests.core.daemonsets import (
    Move,
    Nodes,
    annotated,
    daemons,
    ended,
    failing,
    joined,
    later,
    limited,
    measured,
    ready,
    reconciled,
    runs,
    settled,
    snapshot,
    synced,
    template_changed,
    typed,
)
from tests.core.measured_runs import PHASES
from tests.core.test_any_world_is_safe_and_comes_to_rest import GATED, MORE, STEPS

STRATEGIES = (
    Canary(steps=STEPS),
    Canary(steps=(SetWeight(50), PauseUntilPromoted(), SetWeight(20), Pause(5), SetWeight(100), PauseUntilPromoted())),
    Canary(),
    GATED[0],
)
HARMLESS: dict[str, Move] = {
    "the daemon set's controller acts": lambda there, _i, _j: synced(there),
    "deleted pods end": lambda there, _i, _j: ended(there),
    "a pod is ready": lambda there, _i, _j: ready(there, 1),
    "runs are measured": lambda there, i, _j: measured(there, PHASES[i % 4]),
    "pods are ready": lambda there, _i, _j: ready(there),
    "time passes": lambda there, i, _j: later(there, i),
    "a new template": lambda there, i, _j: template_changed(there, "abcd"[i % 4]),
    "promote": lambda there, i, _j: annotated(
        there, "promote", ("true", "b@before-update", "b@full", "c@full", "b@skip-before-update", None)[i % 6]
    ),
    "abort": lambda there, i, _j: annotated(there, "abort", ("true", "b", "c", None)[i % 4]),
    "retry": lambda there, i, _j: annotated(there, "retry", ("true", "b@1", "c@1", "b@2", None)[i % 5]),
    "another controller": lambda there, _i, _j: replace(there, hold_known=False),
    "pause": lambda there, i, _j: annotated(there, "pause", ("true", None)[i % 2]),
}
RACES: dict[str, Move] = {
    "a pod fails": lambda there, i, _j: failing(there, i),
    "a revision goes bad": lambda there, i, _j: replace(there, bad=there.bad ^ {"bcd"[i % 3]}),
    "nodes come and go": lambda there, i, j: joined(there, i + j),
    "applied again": lambda there, _i, _j: typed(there),
    "another limit": lambda there, i, _j: limited(there, 1 + i % 3),
}
"""What a pass cannot know before it has happened: after these no pass acts on an older view."""
PASSES = ("pass", "all settles", "crash", "stale pass", "the watch of pods lags")
TAPES = st.lists(
    st.tuples(
        st.one_of(st.sampled_from(PASSES), st.sampled_from(sorted({**HARMLESS, **RACES}))),
        st.integers(0, 7),
        st.integers(0, 7),
    ),
    max_size=40,
)


@cache
def _updated(number: int, nodes: int, hold: Hold, *, begun: bool) -> Nodes:
    """A new template comes, or the update is at its first step that waits. Some have a `minReadySeconds`, or OnDelete."""
    limit = 1 + nodes % 3
    there = daemons(
        STRATEGIES[number],
        nodes=nodes,
        max_unavailable=1 if nodes == 5 else limit,
        hold=hold,
        own_on_delete=nodes == 5,
        min_ready_s=5 * (nodes % 2),
        chosen=("n1", "n4"),
        on_abort=OnAbort.REVERT_TEMPLATE if nodes in (2, 6) else OnAbort.HOLD,
    )
    there = template_changed(settled(there), "b")
    return settled(there) if begun else there


def _played(there: Nodes, tape: list[tuple[str, int, int]]) -> Nodes:
    stale: Snapshot | None = None
    for name, i, j in tape:
        match name:
            case "pass":
                there, stale = reconciled(there), None
            case "all settles":
                there, stale = settled(there), None
            case "crash":
                there, stale = reconciled(there, writes=i % 4), None
            case "stale pass":
                there, stale = there if stale is None else reconciled(there, seen=stale), None
            case "the watch of pods lags":
                seen = snapshot(there)
                late = seen if stale is None or seen.pods is None else replace(seen, pods=stale.pods)
                there, stale = reconciled(there, seen=late), None
            case _:
                stale = snapshot(there) if stale is None and there.on_delete and name in HARMLESS else stale
                there = {**HARMLESS, **RACES}[name](there, i, j)
                stale = stale if name in HARMLESS and there.on_delete else None
    return there


def _healed(there: Nodes) -> Nodes:
    for verb in ("pause", "promote"):
        there = annotated(there, verb, None)
    return settled(replace(there, bad=frozenset()))


@MORE
@given(
    number=st.sampled_from(range(len(STRATEGIES))),
    nodes=st.integers(1, 7),
    hold=st.sampled_from((Hold.POLICY, Hold.AT_REST)),
    begun=st.booleans(),
    tape=TAPES,
)
def test_any_update_of_a_daemon_set_is_safe_and_comes_to_rest(
    number: int, nodes: int, hold: Hold, begun: bool, tape: list[tuple[str, int, int]]
) -> None:
    """At its end it is Healthy with its user's type, or aborted, and held as it stands."""
    there = _healed(_played(_updated(number, nodes, hold, begun=begun), tape))
    while there.status.phase is Phase.PAUSED:
        there = settled(annotated(there, "promote", f"{there.status.current_revision}@full"))

    assert decide(snapshot(there)).intents == ()
    status = there.status
    if status.phase is Phase.HEALTHY:
        assert runs(there) == {there.template: len(there.nodes)}
        assert there.held is None
        assert there.on_delete is (there.own_on_delete or hold is Hold.AT_REST)
    else:
        assert status.phase is Phase.ABORTED, (status.phase, status.message)
        assert there.on_delete
