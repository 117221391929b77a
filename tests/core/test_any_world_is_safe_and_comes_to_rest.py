"""Promise: whatever happens to a Rollout, and wherever a pass crashes, no write breaks an invariant; then it comes to rest.

`ROLLOUTS_DEEP=1` looks at many more worlds, `ROLLOUTS_WORLDS` says how many. `ROLLOUTS_MORE_WORLDS` says how many the other files
look at that begin with these worlds: `make unit` has less time for those.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Struct

from rollouts.core.model.analysis import Analysis, AnalysisPhase, OnDeadline, OnFailure
from rollouts.core.model.drain import DrainMode, DrainSpec, OnTimeout
from rollouts.core.model.frozen import replace
from rollouts.core.model.rollout import BlueGreen, Canary, Percent, PodMetadata, Strategy, TrafficRouting
from rollouts.core.model.snapshot import Snapshot
from rollouts.core.model.steps import (
    Analyze,
    MatchTrafficWeight,
    Pause,
    PauseUntilPromoted,
    RunExperiment,
    SetCanaryReplicas,
    SetCanaryScalePercent,
    SetHeaderRoute,
    SetMirrorRoute,
    SetWeight,
    TemplateWeight,
)
from rollouts.core.model.traffic import (
    ALL_TO_STABLE,
    MatchKind,
    MirrorRoute,
    NamedMatch,
    RequestMatch,
    RouteName,
    Split,
    TextMatch,
)
from tests.core.coming_to_rest import assert_comes_to_rest
from tests.core.config_worlds import CONF, CONFIGURATION, MAYBE, OF_SECRETS, REFS, source_written, with_configs
from tests.core.departures import Departures
from tests.core.load_moves import LOAD
from tests.core.measured_runs import RUNS, UNJUDGED, runs_measured
from tests.core.model import World, annotated, deleted, orphaned, service, snapshot, world
from tests.core.named_workloads import WORKLOADS, Change
from tests.core.updates import ASKED, TIMED, routed, with_services
from tests.core.worlds import (
    applied_again,
    deleting,
    edited,
    garbage_collected,
    gateways_caught_up,
    later,
    pods_heard,
    pods_ready,
    pods_unready,
    reconciled,
    replica_sets_caught_up,
    replica_sets_synced,
    route_put_back,
    running,
    settled,
    slices_caught_up,
    status_wiped,
    with_route,
    without_route,
)

EXAMPLES = int(os.environ.get("ROLLOUTS_WORLDS", "20000" if os.environ.get("ROLLOUTS_DEEP") == "1" else "600"))
UNHURRIED = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
MORE = settings(UNHURRIED, max_examples=int(os.environ.get("ROLLOUTS_MORE_WORLDS", EXAMPLES)))

STEPS = (SetWeight(25), PauseUntilPromoted(), SetWeight(50), Pause(5), SetWeight(75))
ROUTED_STEPS = (
    SetCanaryReplicas(1),
    SetWeight(25),
    Pause(5),
    SetCanaryScalePercent(50),
    SetWeight(75),
    MatchTrafficWeight(),
    PauseUntilPromoted(),
)
PINNED_STEPS = (SetWeight(50), SetCanaryReplicas(0), Pause(5), SetCanaryReplicas(9), PauseUntilPromoted())
NAMED = PodMetadata(labels={"role": "canary"})
STABLE = PodMetadata(labels={"role": "stable"}, annotations={"tier": "1"})

CANARIES = (
    Canary(steps=STEPS),
    with_services(*STEPS, max_surge=1, max_unavailable=0),
    with_services(*STEPS, max_surge=0, max_unavailable=1),
    Canary(steps=(SetWeight(50), SetWeight(0), SetWeight(100)), canary_service="cart-canary", stable_metadata=STABLE),
    Canary(max_surge=Percent(100), max_unavailable=Percent(50), canary_metadata=NAMED, stable_metadata=STABLE),
)
DYNAMIC = TrafficRouting(dynamic_stable_scale=True)
ROUTED = (
    with_services(*ROUTED_STEPS, traffic_routing=TrafficRouting()),
    Canary(steps=ROUTED_STEPS, traffic_routing=TrafficRouting(min_pods_per_replica_set=2), canary_metadata=NAMED),
    with_services(*STEPS, traffic_routing=DYNAMIC),
    Canary(steps=STEPS, traffic_routing=DYNAMIC, abort_scale_down_delay_s=0),
    Canary(steps=PINNED_STEPS, traffic_routing=TrafficRouting(), canary_service="c"),
)
HEADER = RequestMatch(headers=(NamedMatch("x-canary", TextMatch(MatchKind.EXACT, "yes")),))
COUNTED = RouteName("nginx", "HTTPRoute", "shop", "counted-cart")
OWN = RouteName("traefik", "HTTPRoute", "shop", "own-cart")
WITH_ROUTES = (
    routed(SetHeaderRoute("insiders", HEADER), *ROUTED_STEPS, SetMirrorRoute("copies", MirrorRoute("copies"))),
    routed(*STEPS, by=(ASKED, TIMED), dynamic=True),
    routed(*STEPS, by=(TIMED,), dynamic=True, max_unavailable=0, abort_scale_down_delay_s=0),
    routed(*STEPS, by=(COUNTED,), dynamic=True),
    routed(*STEPS, by=(OWN, ASKED), dynamic=True),
)
PING_PONG = replace(WITH_ROUTES[1], ping_pong=True)
BLUE_GREENS = (
    BlueGreen(active_service="cart"),
    BlueGreen(active_service="cart", preview_service="cart-preview", auto_promotion_enabled=False),
    BlueGreen(
        active_service="cart",
        preview_service="cart-preview",
        auto_promotion_s=20,
        preview_replica_count=1,
        scale_down_delay_revision_limit=1,
    ),
    BlueGreen(active_service="cart", active_metadata=STABLE, preview_metadata=NAMED, abort_scale_down_delay_s=0),
)
CHECKED = Analysis(path="spec.strategy.canary.steps[0].analysis", settings={}, templates=("good",))
HELD = replace(CHECKED, on_failure=OnFailure.HOLD)
BACK = replace(CHECKED, on_failure=OnFailure.STEP_BACK)
BACK_STEPS = (SetWeight(25), Pause(5), SetWeight(75), Analyze(BACK), PauseUntilPromoted(), Analyze(HELD))
ANALYSED_STEPS = (SetWeight(25), Analyze(CHECKED), Pause(5), SetWeight(75), Analyze(HELD))
TRIED_STEPS = (RunExperiment(CHECKED), SetWeight(25), RunExperiment(HELD), SetWeight(75), RunExperiment(BACK))
TO_BOTH = (TemplateWeight("blue", 10), TemplateWeight("green", Fraction(5, 2)))
SERVED_STEPS = (
    *(RunExperiment(CHECKED, TO_BOTH), SetWeight(25), RunExperiment(HELD, TO_BOTH)),
    *(SetWeight(90), RunExperiment(BACK, TO_BOTH[:1])),
)
SERVED = (
    replace(WITH_ROUTES[1], steps=SERVED_STEPS, analysis=CHECKED),
    replace(WITH_ROUTES[3], steps=SERVED_STEPS),
    replace(WITH_ROUTES[4], steps=SERVED_STEPS),
)
GOING_BACK = (
    Canary(steps=BACK_STEPS, analysis=replace(BACK, starting_step=2)),
    replace(WITH_ROUTES[1], steps=BACK_STEPS, analysis=BACK),
    replace(WITH_ROUTES[3], steps=(SetWeight(50), SetWeight(100), Analyze(BACK)), analysis=BACK, ping_pong=True),
)
GATE = replace(CHECKED, deadline_s=40.0)
GATED = (
    Canary(steps=STEPS, before_update=GATE),
    replace(WITH_ROUTES[0], before_update=replace(HELD, deadline_s=20.0, on_deadline=OnDeadline.ABORT)),
    BlueGreen(active_service="cart", preview_service="cart-preview", before_update=GATE, pre_promotion=CHECKED),
)
ASKED_STEPS = (
    SetWeight(25, HELD),
    Pause(5),
    SetWeight(75, replace(GATE, on_failure=OnFailure.STEP_BACK)),
    PauseUntilPromoted(),
)
INCREASES = (
    Canary(steps=ASKED_STEPS, analysis=BACK),
    replace(WITH_ROUTES[0], steps=ASKED_STEPS),
    replace(WITH_ROUTES[3], steps=(*ASKED_STEPS, SetWeight(100, CHECKED)), analysis=BACK),
)
ANALYSED = (
    *GOING_BACK,
    Canary(steps=ANALYSED_STEPS),
    Canary(steps=TRIED_STEPS),
    replace(WITH_ROUTES[1], steps=TRIED_STEPS, analysis=CHECKED),
    Canary(steps=STEPS, analysis=CHECKED, stable_service="cart", canary_service="cart-canary"),
    replace(WITH_ROUTES[1], steps=ANALYSED_STEPS, analysis=replace(HELD, starting_step=1)),
    replace(WITH_ROUTES[0], analysis=CHECKED),
    BlueGreen(active_service="cart", preview_service="cart-preview", pre_promotion=CHECKED, post_promotion=HELD),
    BlueGreen(active_service="cart", auto_promotion_enabled=False, pre_promotion=HELD, post_promotion=CHECKED),
    *SERVED,
    *INCREASES,
    *GATED,
)
EVERY = (*CANARIES, *ROUTED, *WITH_ROUTES, PING_PONG, *BLUE_GREENS, *ANALYSED)
REVISIONS = ("a", "b", "c", "d")
VALUES = (
    "true",
    "b",
    "b@full",
    "b@1",
    "c",
    "b@background",
    "b@pre-promotion",
    "b@before-update",
    "nobody",
    "a",
    "c@full",
)


class Film(Struct, frozen=True):
    """A world and the older view that a lagging watch may still show."""

    now: World
    stale: Snapshot | None = None


Move = Callable[[World, int, int], World]


def _each(there: World, number: int) -> str:
    return there.replica_sets[number % len(there.replica_sets)].revision if there.replica_sets else "a"


SPLITS = (ALL_TO_STABLE, Split(Fraction(1, 2)), None)


def _route(there: World, number: int) -> RouteName | None:
    return list(there.routes)[number % len(there.routes)] if there.routes else None


ENVIRONMENT: dict[str, Move] = {
    "replica sets catch up": lambda there, _i, _j: replica_sets_caught_up(there),
    "replica sets are looked at": lambda there, _i, _j: replica_sets_synced(there),
    "pods are heard of": lambda there, _i, _j: pods_heard(there),
    "some pods are ready": lambda there, i, _j: pods_ready(there, limit=i + 1),
    "all pods are ready": lambda there, _i, _j: replica_sets_caught_up(pods_ready(replica_sets_caught_up(there))),
    "slices catch up": lambda there, _i, _j: slices_caught_up(there),
    "one slice catches up": lambda there, i, _j: slices_caught_up(there, ("cart", "cart-canary", "cart-preview")[i % 3]),
    "gateways catch up": lambda there, _i, _j: gateways_caught_up(there),
    "one gateway catches up": lambda there, i, _j: gateways_caught_up(there, _route(there, i)),
    "requests can be counted, or not": lambda there, i, _j: replace(there, unheard=i % 2 == 0),
    "a route is edited": lambda there, i, j: with_route(there, _route(there, i), split=SPLITS[j % 3]),
    "a route goes": lambda there, i, _j: without_route(there, _route(there, i)),
    "a route is put back": lambda there, i, _j: route_put_back(there, i),
    **RUNS,
    "a template goes, or comes back": lambda there, i, _j: replace(there, templates_wrong="no such template" * (i % 2)),
    "pods fail": lambda there, i, j: replica_sets_caught_up(pods_unready(there, _each(there, i), limit=j + 1)),
    "a revision goes bad": lambda there, i, _j: replace(there, bad=there.bad ^ {REVISIONS[i % 4]}),
    "time passes": lambda there, i, j: later(there, (0.5, 3, 10, 40, 700)[i % 5] + j),
    "the clock jumps": lambda there, i, _j: later(there, (-60, 60, -300, 300)[i % 4]),
    "a replica set is deleted": lambda there, i, _j: deleted(there, _each(there, i)),
    "a replica set is being deleted": lambda there, i, _j: deleting(there, _each(there, i)),
    "a replica set that is being deleted goes": lambda there, _i, _j: garbage_collected(there),
    "a replica set loses its owner": lambda there, i, _j: orphaned(there, f"cart-{_each(there, i)}")
    if there.replica_sets
    else there,
    "a service goes": lambda there, i, _j: replace(
        there, services={name: each for name, each in there.services.items() if name != ("cart", "c", "cart-canary")[i % 3]}
    ),
    "a service is put back": lambda there, i, _j: replace(
        there, services={**there.services, "cart": service("cart", uid=f"uid-{there.version}", resource_version=f"x{i}")}
    ),
}  # fmt: skip
DRAINS = (
    DrainSpec(max_request_s=10.0),
    DrainSpec(mode=DrainMode.OFF),
    DrainSpec(max_request_s=60.0, timeout_s=20.0),
    DrainSpec(max_request_s=60.0, timeout_s=5.0, on_timeout=OnTimeout.PAUSE),
)
PEOPLE: dict[str, Move] = {
    "other drains": lambda there, i, _j: edited(there, drain=DRAINS[i % len(DRAINS)]),
    "a new template": lambda there, i, _j: edited(there, revision=REVISIONS[i % 4]),
    "another number of replicas": lambda there, i, _j: edited(there, replicas=i % 8),
    "scaled to 0": lambda there, _i, _j: edited(there, replicas=0),
    "scaled to 0 and back": lambda there, i, _j: edited(settled(edited(there, replicas=0), seconds=i), replicas=i + 1),
    "paused": lambda there, i, _j: edited(there, paused=i % 2 == 0),
    "a deadline that aborts": lambda there, i, _j: edited(
        there, progress_deadline_s=(30.0, 600.0)[i % 2], progress_deadline_abort=i < 4
    ),
    "pods take longer": lambda there, i, _j: edited(there, min_ready_s=(0, 5)[i % 2]),
    "a shorter history": lambda there, i, _j: edited(there, revision_history_limit=i % 3, history_limit=3 + i // 3),
    "other steps": lambda there, i, j: edited(there, strategy=_similar(there.rollout.spec.strategy, i + j)),
    "another strategy": lambda there, i, j: edited(there, strategy=EVERY[(i * 8 + j) % len(EVERY)]),
    "promote": lambda there, i, _j: annotated(there, "promote", (*VALUES, None)[i + 1]),
    "promote without a verdict": lambda there, i, _j: annotated(there, "promote", UNJUDGED[i]),
    "promote now": lambda there, _i, _j: annotated(there, "promote", "true"),
    "abort": lambda there, i, _j: annotated(there, "abort", ("true", "b", "c", None)[i % 4]),
    "retry": lambda there, i, _j: annotated(there, "retry", ("true", "b@1", "c@1", "b@2", None)[i % 5]),
    "rollback": lambda there, i, _j: annotated(there, "rollback", ("true", "previous@b", "a", "nobody", None)[i % 5]),
    "pause": lambda there, i, _j: annotated(there, "pause", ("true", None)[i % 2]),
    "restart": lambda there, i, _j: annotated(there, "restart", ("true", str(there.now_s - i), "yes", None)[i % 4]),
    "the status is wiped": lambda there, _i, _j: status_wiped(there),
    "deleted without its pods and applied again": lambda there, _i, _j: applied_again(there),
}


def _similar(strategy: Strategy, number: int) -> Strategy:
    if isinstance(strategy, Canary):
        return replace(strategy, steps=(STEPS, (), (SetWeight(50), Pause(20)))[number % 3])
    return strategy


def _of_workload(change: Change) -> Move:
    def move(there: World, i: int, _j: int) -> World:
        version = there.version + 1
        truth, sight = change(there.workload, there.sight, i, version)
        return replace(there, version=version, workload=truth, sight=sight)

    return move


WORKLOAD = {name: _of_workload(change) for name, change in WORKLOADS.items()}


def _pass(film: Film, i: int, j: int) -> Film:
    del i, j
    return Film(reconciled(film.now))


def _crash(film: Film, i: int, j: int) -> Film:
    del j
    return Film(reconciled(film.now, writes=i % 4))


def _stale(film: Film, i: int, j: int) -> Film:
    del i, j
    return Film(reconciled(film.now, seen=film.stale)) if film.stale else film


WATCHES = ("replica_sets", "services", "routes", "runs", "copies")


def _one_lags(film: Film, i: int, j: int) -> Film:
    """A pass for which the watch of one kind, or of two, has stood still, while the others show what is there."""
    if film.stale is None:
        return film
    seen = snapshot(film.now)
    late: dict[str, Any] = {}
    for name in {WATCHES[i % 5], WATCHES[j % 5]}:
        now, then = getattr(seen, name), getattr(film.stale, name)
        late[name] = {**now, **{key: then[key] for key in now if key in then}} if isinstance(now, dict) else then
    seen = replace(seen, **late)
    return Film(reconciled(film.now, seen=seen))


MOVES = {**CONFIGURATION, **OF_SECRETS, **LOAD, **WORKLOAD, **ENVIRONMENT, **PEOPLE}
PASSES = {"pass": _pass, "pass again": _pass, "crash": _crash, "stale pass": _stale, "one watch lags": _one_lags}
TAPES = st.lists(
    st.tuples(
        st.one_of(
            st.sampled_from(sorted(PASSES)),
            st.sampled_from(sorted(PASSES)),
            st.sampled_from(sorted({**ENVIRONMENT, **CONFIGURATION})),
            st.sampled_from(sorted(ENVIRONMENT)),
            st.sampled_from(sorted(PEOPLE)),
        ),
        st.integers(0, 7),
        st.integers(0, 7),
    ),
    max_size=60,
)


@cache
def start(number: int, replicas: int, drain: DrainSpec) -> World:
    """A new template comes. A third of these have a configuration from the start; to a third it comes with their next version."""
    kind = (number + replicas) % 3
    strategy, refs = EVERY[number], REFS if kind == 1 else ()
    there = settled(source_written(world(strategy, replicas=replicas, drain=drain, config_refs=refs), "v1"))
    return upgraded(there) if kind == 2 else edited(there, revision="b")


def upgraded(there: World) -> World:
    """The next version of this program finds what the pods of revision `a` read."""
    read = frozenset({(CONF.kind, CONF.name, "v1"), (MAYBE.kind, MAYBE.name, "")})
    return with_configs(edited(there, config_refs=REFS), meant={"a": ("a", read)})


@cache
def gone_back(number: int, replicas: int, drain: DrainSpec) -> World:
    """The world in which a failure has taken the weight back; `number` of EVERY."""
    measuring = settled(
        edited(replace(running(EVERY[number], replicas=replicas, drain=drain), unmeasured=True), revision="b")
    )
    there = settled(runs_measured(measuring, AnalysisPhase.FAILED, limit=1))
    assert there.status.stepped_back is not None
    return replace(there, unmeasured=False)


def played(start: World, tape: list[tuple[str, int, int]]) -> World:
    """The world at the end of the tape; every decision on the way is held to the invariants."""
    film, departures = Film(replace(start, patient=len(tape) % 2 == 1)), Departures()
    for name, i, j in tape:
        before = film.now
        if name in PASSES:
            film = PASSES[name](film, i, j)
            assert departures.broken_by(before, film.now) == []
        else:
            move = MOVES[name]
            film = Film(move(film.now, i, j), stale=film.stale or snapshot(film.now))
        departures = departures.after(before, film.now)
    return film.now


_ROUTED, _WITH_ROUTES = len(CANARIES), len(CANARIES) + len(ROUTED)
_ANALYSED = len(EVERY) - len(ANALYSED)
_BLUE_GREEN = _ANALYSED - len(BLUE_GREENS)
_GATED = len(EVERY) - len(GATED)
_SERVED = _GATED - len(INCREASES) - len(SERVED)
FAMILIES: dict[str, tuple[range, Callable[[int, int, DrainSpec], World]]] = {
    "by the ratio of pods, with and without Services": (range(_ROUTED), start),
    "`trafficRouting: {}`, setCanaryScale, minPodsPerReplicaSet, dynamicStableScale": (
        range(_ROUTED, _WITH_ROUTES),
        start,
    ),
    "late data planes, routes edited and deleted, two routers": (range(_WITH_ROUTES, _BLUE_GREEN), start),
    "blue-green, promoted by time and by hand": (range(_BLUE_GREEN, _ANALYSED), start),
    "analyses that end in any way, are deleted, or cannot begin": (range(_ANALYSED, _GATED), start),
    "Experiments that get requests": (range(_SERVED, _SERVED + len(SERVED)), start),
    "a gate before each increase": (range(_GATED - len(INCREASES), _GATED), start),
    "a gate before the update": (range(_GATED, len(EVERY)), start),
    "one weight back, forward only for a person": (range(_ANALYSED, _ANALYSED + len(GOING_BACK)), gone_back),
}


@pytest.mark.parametrize("family", FAMILIES)
@UNHURRIED
@given(data=st.data(), replicas=st.integers(1, 6), drain=st.sampled_from(DRAINS), tape=TAPES)
def test_any_world_is_safe_and_comes_to_rest(
    family: str, data: st.DataObject, replicas: int, drain: DrainSpec, tape: list[tuple[str, int, int]]
) -> None:
    """Crashes, stale views, edits, failures and verbs at any time."""
    numbers, begins = FAMILIES[family]
    number = data.draw(st.sampled_from(numbers))

    assert_comes_to_rest(played(begins(number, replicas, drain), tape))
