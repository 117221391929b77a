"""Promise: every invariant has teeth: a decision with one planted mistake is found, by the right rule."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest

from rollouts.core.decide import decide
from rollouts.core.model.analysis import (
    Analysis,
    AnalysisGate,
    AnalysisKind,
    AnalysisPhase,
    DraftProblem,
    RunDraft,
    RunSeen,
)
from rollouts.core.model.drain import DrainSpec, PrometheusProbe, ProxyFacts, ProxyMode
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import (
    AdoptReplicaSet,
    CreateAnalysisRun,
    CreateReplicaSet,
    Decision,
    DeleteAnalysisRun,
    DeleteReplicaSet,
    EvictPod,
    Intent,
    LetPodsGo,
    PatchReplicaSet,
    SetTraffic,
    SwitchService,
    TerminateAnalysisRun,
)
from rollouts.core.model.rollout import BlueGreen, Canary, PodMetadata, Strategy, TrafficRouting, analyses
from rollouts.core.model.snapshot import OrphanedReplicaSet, PodsSeen, ServiceSeen, Snapshot
from rollouts.core.model.status import Abort, Cutover, HistoryEntry, Outcome, RolloutStatus
from rollouts.core.model.steps import Analyze, Pause, PauseUntilPromoted, SetCanaryReplicas, SetWeight
from rollouts.core.model.traffic import RouteSeen, Split
from tests.core.model import router, service, snapshot
from tests.core.worlds import edited, reconciled, replica_sets_caught_up, running, settled
from tests.invariants.every import broken_by, nothing_more_to_do
from tests.invariants.ownership import only_ours_and_as_seen, the_way_back_is_on_record, the_way_back_stays

GREEN = BlueGreen(active_service="cart", auto_promotion_enabled=False)
CANARY = Canary(
    steps=(SetWeight(50), PauseUntilPromoted(), Pause(60)), stable_service="cart", canary_service="cart-canary"
)
ROUTED = replace(CANARY, traffic_routing=TrafficRouting())
WITH_ROUTE = replace(CANARY, traffic_routing=TrafficRouting(routers=(router("istio", "cart"),)))


def _gate(strategy: Strategy) -> Snapshot:
    there = settled(edited(running(strategy), revision="b"))
    return replace(snapshot(there), pods=PodsSeen(there.now_s, there.pods))


def _fresh(strategy: Strategy) -> Snapshot:
    """The new ReplicaSet is there, its pods are not."""
    return snapshot(replica_sets_caught_up(reconciled(edited(running(strategy), revision="b"))))


def _rules(seen: Snapshot, *intents: Intent, **status: object) -> set[str]:
    after = replace(seen.status, **status)  # type: ignore[arg-type]
    return {each.rule for each in broken_by(seen, Decision(status=after, intents=intents))}


def _cart(seen: Snapshot, name: str = "cart") -> ServiceSeen:
    found = seen.services[name]
    assert isinstance(found, ServiceSeen)
    return found


def _point(seen: Snapshot, name: str, revision: str) -> SwitchService:
    found = _cart(seen, name)
    return SwitchService(name=name, uid=found.uid, resource_version=found.resource_version, revision=revision)


def _size(seen: Snapshot, revision: str, replicas: int, *, version: str | None = None) -> PatchReplicaSet:
    found = next(each for each in seen.replica_sets if each.revision == revision)
    seen_version = found.resource_version if version is None else version
    return PatchReplicaSet(
        name=found.name, uid=found.uid, revision=revision, resource_version=seen_version, replicas=replicas
    )


NAMED = [(GREEN, "cart"), (CANARY, "cart"), (CANARY, "cart-canary")]


@pytest.mark.parametrize(("strategy", "name"), NAMED)
def test_s1_a_service_that_goes_to_a_revision_without_ready_pods(strategy: Strategy, name: str) -> None:
    """Requests would be refused."""
    seen = _fresh(strategy)

    assert "S1" in _rules(seen, _point(seen, name, "b"))


@pytest.mark.parametrize(("strategy", "name"), [*NAMED, (ROUTED, "cart")])
def test_s1_a_service_that_goes_to_a_replica_set_that_is_being_deleted(strategy: Strategy, name: str) -> None:
    """Its pods still count as available, and are about to go with it."""
    seen = _gate(strategy)
    enough = tuple(replace(each, spec_replicas=4, replicas=4, available=4) for each in seen.replica_sets)
    all_there = replace(seen, replica_sets=enough)
    leaving = replace(seen, replica_sets=tuple(replace(each, deleting=each.revision == "b") for each in enough))

    assert "S1" not in _rules(all_there, _point(seen, name, "b"))
    assert "S1" in _rules(leaving, _point(seen, name, "b"))


def test_s1_a_route_that_brings_more_to_a_replica_set_that_is_being_deleted() -> None:
    """The canary Service still selects its pods, which are about to go."""
    seen = _gate(WITH_ROUTE)
    route = next(each for each in seen.routes.values() if isinstance(each, RouteSeen))
    raised = SetTraffic(
        route=route.route, uid=route.uid, resource_version=route.resource_version, split=Split(Fraction(3, 4))
    )
    going = tuple(replace(each, deleting=each.revision == "b") for each in seen.replica_sets)

    assert "S1" not in _rules(seen, raised)
    assert "S1" in _rules(replace(seen, replica_sets=going), raised)


def _gone(seen: Snapshot) -> tuple[Intent, ...]:
    return (_size(seen, "a", 0),)


def _gone_after_the_switch(seen: Snapshot) -> tuple[Intent, ...]:
    return _point(seen, "cart", "b"), _size(seen, "a", 0)


def _deleted(seen: Snapshot) -> tuple[Intent, ...]:
    found = seen.replica_sets[0]
    return (DeleteReplicaSet(name=found.name, uid=found.uid, resource_version=found.resource_version),)


def _evicted(seen: Snapshot) -> tuple[Intent, ...]:
    assert seen.pods is not None
    return tuple(EvictPod(name=each.name, uid=each.uid) for each in seen.pods.pods)


def _shrunk(seen: Snapshot) -> tuple[Intent, ...]:
    """The stable revision may have to take everything back."""
    return (_size(seen, "a", 1),)


PLANTED = {
    "a revision goes while its Service selects it": ("S2", _gone, (GREEN, CANARY, ROUTED)),
    "a revision goes while slices show it": ("S2", _gone_after_the_switch, (GREEN, CANARY, ROUTED)),
    "a ReplicaSet is deleted with its pods": ("S2", _deleted, (CANARY,)),
    "all pods are evicted": ("S3", _evicted, (CANARY, ROUTED)),
    "the stable revision shrinks too far": ("S4", _shrunk, (GREEN, ROUTED, CANARY)),
}


@pytest.mark.parametrize("mistake", PLANTED)
def test_a_pass_that_takes_pods_away_is_found(mistake: str) -> None:
    """Before the switch and without it, behind it while proxies follow the slices, and below what is to stay."""
    rule, planted, strategies = PLANTED[mistake]

    for strategy in strategies:
        seen = _gate(strategy)
        assert rule in _rules(seen, *planted(seen)), strategy


@pytest.mark.parametrize("strategy", [GREEN, CANARY, ROUTED])
def test_s24_a_revision_that_shrinks_before_it_is_drained(strategy: Strategy) -> None:
    """From the recorded moment until the requests are over, or until the time that the spec gives them."""
    drain = DrainSpec(max_request_s=20.0)
    seen = _gate(strategy)
    at_s = seen.now_s
    cutover = Cutover(service="cart", from_revision="a", to_revision="b", confirmed_at_s=at_s, until_s=at_s + 23.0)
    spec = replace(seen.rollout.spec, drain=drain)
    status = replace(seen.status, cutovers=(cutover,))
    selects_a = _cart(seen)
    assert selects_a.revision == "a"
    services = {**seen.services, "cart": replace(selects_a, revision="b")}
    seen = replace(seen, rollout=replace(seen.rollout, spec=spec), status=status, services=services)
    timed = replace(seen, rollout=replace(seen.rollout, spec=replace(spec, drain=replace(drain, timeout_s=5.0))))
    came_back = (cutover, Cutover(service="cart", from_revision="b", to_revision="a"))

    assert "S24" in _rules(replace(seen, now_s=at_s + 22.0), _size(seen, "a", 0))
    assert "S24" not in _rules(replace(seen, now_s=at_s + 23.0), _size(seen, "a", 0))
    assert "S24" not in _rules(replace(timed, now_s=at_s + 6.0), _size(seen, "a", 0))
    assert "S24" not in _rules(replace(seen, now_s=at_s + 22.0), _size(seen, "b", 0))
    assert "S24" not in _rules(replace(seen, now_s=at_s + 22.0), _size(seen, "a", 0), cutovers=came_back)
    selected_again = replace(seen, services={**services, "cart": selects_a})
    assert "S24" not in _rules(replace(selected_again, now_s=at_s + 22.0), _size(seen, "a", 0))


@pytest.mark.parametrize(
    ("facts", "lag_s"),
    [
        (ProxyFacts(mode=ProxyMode.IPTABLES, min_sync_period_s=10.0), 12.0),
        (ProxyFacts(mode=ProxyMode.NFTABLES), 3.0),
        (ProxyFacts(mode=ProxyMode.NFTABLES, learnt_lag_s=4.0, gateway_lag_s=7.0), 7.0),
        (ProxyFacts(mode=ProxyMode.IPVS, oldest_kernel=(5, 8)), 123.0),
        (ProxyFacts(mode=ProxyMode.IPVS, oldest_kernel=(5, 9)), 3.0),
        (ProxyFacts(mode=ProxyMode.OTHER), 5.0),
        (ProxyFacts(), 125.0),
    ],
)
def test_s24_a_drain_that_is_recorded_shorter_than_requests_last(facts: ProxyFacts, lag_s: float) -> None:
    """The lag of the proxies and the longest request; the lag alone where probes found nothing in flight."""
    seen = _left(DrainSpec(max_request_s=20.0), facts)
    probed = _left(DrainSpec(max_request_s=20.0, probes=(PrometheusProbe(name="p", query="q"),)), facts)

    assert _records(seen, lag_s + 20.0) == set()
    assert _records(seen, lag_s + 19.9) == {"S24"}
    assert _records(seen, lag_s, drained=True) == {"S24"}
    assert _records(probed, lag_s, drained=True) == set()
    assert _records(probed, lag_s - 0.1, drained=True) == {"S24"}
    assert _records(_left(DrainSpec(max_request_s=20.0, timeout_s=2.0), facts), 2.0) == set()


def test_s24_a_clock_that_starts_before_the_service_has_left() -> None:
    """While the Service selects the old revision, while its slices show it, and where it is not ours to know."""
    seen = _left(DrainSpec(), ProxyFacts())
    there = _cart(seen)
    still = {"revision": "a"}, {"ready_by_revision": {"a": 1, "b": 4}}, {"managed_by": "wagon"}

    assert _records(seen, 155.0) == set()
    for each in still:
        services = {**seen.services, "cart": replace(there, **each)}
        assert _records(replace(seen, services=services), 155.0) == {"S24"}


def _left(drain: DrainSpec, facts: ProxyFacts) -> Snapshot:
    """The users' Service has left revision a."""
    seen = _gate(GREEN)
    services = {**seen.services, "cart": replace(_cart(seen), revision="b", ready_by_revision={"b": 4})}
    rollout = replace(seen.rollout, spec=replace(seen.rollout.spec, drain=drain))
    return replace(seen, services=services, rollout=rollout, proxy=facts)


def _records(seen: Snapshot, wait_s: float, *, drained: bool = False) -> set[str]:
    until_s = seen.now_s + wait_s
    cutover = Cutover(
        service="cart", from_revision="a", to_revision="b", confirmed_at_s=seen.now_s, until_s=until_s, drained=drained
    )
    return _rules(seen, cutovers=(cutover,))


def test_s3_shrinks_and_evictions_are_summed_over_a_pass() -> None:
    """Each alone is within `maxUnavailable`, all together are not."""
    seen = _gate(CANARY)

    assert "S3" not in _rules(seen, _evicted(seen)[0])
    assert "S3" not in _rules(seen, _size(seen, "b", 1))
    assert "S3" in _rules(seen, _size(seen, "b", 1), _size(seen, "a", 1))


@pytest.mark.parametrize(
    ("strategy", "change", "rule"),
    [
        (CANARY, {"step_index": 0}, "S8"),
        (CANARY, {"step_index": 3}, "S8"),
        (CANARY, {"revision_number": 1}, "S8"),
        (CANARY, {"stable_revision": "b"}, "S8"),
        (CANARY, {"stable_revision": "c"}, "S8"),
        (CANARY, {"step_index": 2}, "S9"),
        (GREEN, {"gate_passed": True}, "S9"),
    ],
)
def test_s8_and_s9_steps_that_are_skipped_or_undone(strategy: Strategy, change: dict[str, object], rule: str) -> None:
    """The gate of step 1 is closed, and that of blue-green opens by itself: nobody promoted it."""
    assert rule in _rules(_gate(strategy), **change)


def test_s8_an_abort_that_is_not_written_alone() -> None:
    """If the write of status failed, nobody would know why the pods went."""
    seen = _gate(CANARY)
    abort = Abort("b", seen.now_s, decide(seen).status.conditions[0].reason, "because")

    assert "S8" in _rules(seen, _size(seen, "b", 1), abort=abort, step_index=0)
    assert _rules(seen, abort=abort, step_index=0) == set()


def test_s9_a_pause_that_is_too_short() -> None:
    """59 of 60 seconds."""
    seen = _gate(CANARY)
    started = replace(seen.status, step_index=2, step_started_at_s=seen.now_s)
    early, late = (replace(seen, status=started, now_s=seen.now_s + elapsed_s) for elapsed_s in (59, 60))

    assert _rules(early, step_index=3) == {"S9"}
    assert _rules(late, step_index=3) == set()


@pytest.mark.parametrize("change", [{"weight_percent": 80}, {"step_index": 2}])
def test_s9_a_held_rollout_that_moves(change: dict[str, int]) -> None:
    """Weight and step stay."""
    seen = _gate(CANARY)
    held = replace(seen, rollout=replace(seen.rollout, annotations={"pause": "true"}))

    assert "S9" in _rules(held, **change)
    assert "S9" in _rules(held, _size(held, "a", 1))


def test_s11_a_settled_world_that_is_written_to() -> None:
    """Intents, or another status."""
    seen = snapshot(running(CANARY))

    assert nothing_more_to_do(seen, Decision(status=seen.status)) == []
    assert nothing_more_to_do(seen, Decision(status=RolloutStatus())) != []
    assert nothing_more_to_do(seen, Decision(status=seen.status, intents=(_size(seen, "a", 5),))) != []


def test_l3_a_standstill_that_says_nothing() -> None:
    """Nothing is written, nobody is named, no deadline runs."""
    seen = _gate(CANARY)
    silent = replace(seen, status=replace(seen.status, waiting_for=None))

    assert "L3" in _rules(silent)
    assert "L3" not in _rules(seen)
    assert "L3" not in _rules(silent, _size(seen, "a", 5))


def test_s12_a_second_replica_set_of_a_revision() -> None:
    """There is one already."""
    create = CreateReplicaSet(revision="b", number=3, replicas=1, pod_metadata=PodMetadata())

    assert _rules(_gate(CANARY), create) == {"S12"}


ORPHAN = OrphanedReplicaSet(name="cart-z", uid="uid-z", resource_version="7", revision="z")
ADOPT = AdoptReplicaSet(name="cart-z", uid="uid-z", resource_version="7")


def test_s12_a_pass_that_does_anything_before_pods_of_ours_are_adopted() -> None:
    """It would make pods a second time, or record a revision as the first one."""
    seen = replace(_gate(CANARY), orphans=(ORPHAN,))

    assert _rules(seen, ADOPT) == set()
    assert "S12" in _rules(seen)
    assert "S12" in _rules(seen, ADOPT, _size(seen, "b", 3))
    assert "S12" in _rules(seen, ADOPT, revision_number=9)


def test_s13_a_replica_set_that_is_adopted_and_is_not_ours_or_not_as_seen() -> None:
    """Scaling and deleting would follow."""
    stranger = replace(_gate(CANARY), orphans=(replace(ORPHAN, problem="its selector is another"),))
    ours = replace(_gate(CANARY), orphans=(ORPHAN,))

    assert _rules(stranger, ADOPT) == {"S13"}
    assert _rules(ours, replace(ADOPT, resource_version="6")) == {"S13"}
    assert _rules(ours, replace(ADOPT, uid="another")) == {"S13"}


def test_s13_a_second_write_of_a_pass_that_is_bound_to_the_version_before_the_first() -> None:
    """The API server would refuse it, and the rest of the pass with it."""
    seen = _gate(CANARY)

    assert _rules(seen, _point(seen, "cart-canary", "b")) == set()
    assert "S13" in _rules(seen, _point(seen, "cart-canary", "a"), _point(seen, "cart-canary", "b"))


def test_s13_writes_to_what_is_not_ours_or_has_moved() -> None:
    """Another uid, an older version, a Service of another Rollout."""
    seen = _gate(ROUTED)
    theirs = replace(seen, services={"cart": service("cart", revision="b", managed_by="wagon", watched=True)})

    assert "S13" in _rules(seen, replace(_size(seen, "b", 3), uid="another"))
    assert "S13" in _rules(seen, _size(seen, "b", 1, version=""))
    assert "S13" in _rules(seen, EvictPod(name="somebody", uid="else"))
    assert "S13" in _rules(theirs, _point(theirs, "cart", "a"))


def test_s13_a_run_that_is_not_what_was_seen() -> None:
    """Each of these would judge the update by something else, or take evidence away."""
    gate = AnalysisGate(AnalysisKind.STEP, 1)
    draft = RunDraft(spec_json=b"{}", latest="b", stable="a")
    made = CreateAnalysisRun(name="r", gate=gate, revision="b", attempt=0, draft=draft)
    before = replace(_gate(CANARY), drafts={gate: draft})

    assert only_ours_and_as_seen(before, made) == []
    for seen, wrong in (
        (before, replace(made, revision="a")),
        (before, replace(made, draft=replace(draft, spec_json=b"[]"))),
        (before, replace(made, gate=AnalysisGate(AnalysisKind.BACKGROUND))),
        (replace(before, drafts={gate: DraftProblem("no template")}), made),
        (replace(before, taken_runs=frozenset({"r"})), made),
    ):
        assert only_ours_and_as_seen(seen, wrong) != []


@pytest.mark.parametrize(("strategy", "missing"), [(CANARY, "template"), (CANARY, "Service"), (WITH_ROUTE, "route")])
def test_s25_a_first_pod_while_something_is_missing(strategy: Canary, missing: str) -> None:
    """The update would come to the step that needs it and stand there, with a part of the traffic at the new revision."""
    checked = Analysis(path="spec.strategy.canary.steps[3].analysis", settings={}, templates=("good",))
    there = running(replace(strategy, steps=(*strategy.steps, Analyze(checked))))
    there = edited(there, revision="b")
    whole = snapshot(there)
    made = [each for each in decide(whole).intents if isinstance(each, CreateReplicaSet)]
    lacking = {
        "template": replace(there, templates_missing=frozenset(analyses(there.rollout.spec.strategy))),
        "Service": replace(there, services={name: each for name, each in there.services.items() if name == "cart"}),
        "route": replace(there, routes={}),
    }[missing]
    waiting = snapshot(reconciled(lacking))

    assert made
    assert "S25" not in _rules(whole, *made, current_revision="b", step_index=0)
    assert "S25" in _rules(waiting, *made)


def test_s13_a_run_that_is_ended_or_deleted_although_it_may_not_be() -> None:
    """One that still measures is told to end, and only one that is over is deleted; one made by hand is left alone."""
    ids: dict[str, Any] = {"name": "r", "uid": "u", "resource_version": "7"}
    gate, running = AnalysisGate(AnalysisKind.BACKGROUND), AnalysisPhase.RUNNING
    run = RunSeen(**ids, gate=gate, revision="b", created_at_s=0.0, phase=running)
    over = replace(run, phase=AnalysisPhase.FAILED)
    end = TerminateAnalysisRun(name="r", uid="u")
    delete = DeleteAnalysisRun(name="r", uid="u", resource_version="7")

    def broken(seen: RunSeen, intent: TerminateAnalysisRun | LetPodsGo | DeleteAnalysisRun) -> bool:
        return bool(only_ours_and_as_seen(replace(_gate(CANARY), runs=(seen,)), intent))

    assert not broken(run, end)
    assert not broken(over, delete)
    assert broken(over, end)
    assert broken(run, delete)
    assert broken(over, replace(delete, resource_version="6"))
    assert broken(replace(over, uid="another"), delete)
    assert broken(replace(over, gate=None), delete)
    assert broken(replace(run, gate=None), end)
    kept, let_go = replace(over, kept_until_s=math.inf), LetPodsGo(name="r", uid="u", until_s=2e9)
    assert broken(kept, delete)
    assert not broken(kept, let_go)
    assert broken(replace(kept, kept_until_s=2e9), let_go), "they were let go already"
    assert broken(kept, replace(let_go, until_s=0.0)), "that is past"


def _entry(revision: str, outcome: Outcome) -> HistoryEntry:
    return HistoryEntry(revision=revision, number=1, started_at_s=0.0, finished_at_s=1.0, outcome=outcome)


@pytest.mark.parametrize(
    ("limit", "revision", "found"), [(1, "a", True), (1, "b", True), (0, "a", False), (1, "c", False)]
)
def test_s15_a_replica_set_that_a_rollback_needs(*, limit: int, revision: str, found: bool) -> None:
    """a was stable before b, which is stable now; c was given up. Only a limit of 0 lets a go."""
    there = settled(edited(running(CANARY, revision_history_limit=limit), revision="c"))
    history = (_entry("a", Outcome.PROMOTED), _entry("b", Outcome.PROMOTED), _entry("c", Outcome.ABORTED))
    (set_of_a,) = (each for each in there.replica_sets if each.revision == "a")
    seen = snapshot(replace(there, replica_sets=tuple(replace(set_of_a, revision=each, uid=each) for each in "abc")))
    seen = replace(seen, status=replace(seen.status, stable_revision="b", history=history))
    delete = DeleteReplicaSet(name="cart", uid=revision, resource_version="1")

    assert ([each.rule for each in the_way_back_stays(seen, delete)] == ["S15"]) is found


@pytest.mark.parametrize("left", ["bc", "acd", "cd", ""])
def test_s15_a_history_that_forgets_what_was_stable_before(left: str) -> None:
    """An update that comes to nothing pushes the entry of a out, which a rollback would look for."""
    seen = _gate(CANARY)
    kinds = {"a": Outcome.PROMOTED, "b": Outcome.PROMOTED, "c": Outcome.ABORTED, "d": Outcome.SUPERSEDED}
    status = replace(seen.status, stable_revision="b", history=tuple(_entry(each, kinds[each]) for each in "abc"))
    seen = replace(seen, status=status)

    after = replace(status, history=tuple(_entry(each, kinds[each]) for each in left))
    assert [each.rule for each in the_way_back_is_on_record(seen, after)] == ["S15"]
    kept = replace(status, history=tuple(_entry(each, kinds[each]) for each in "abd"))
    assert the_way_back_is_on_record(seen, kept) == []


@pytest.mark.parametrize("strategy", [GREEN, CANARY, ROUTED])
def test_s29_pods_that_nobody_asks_for(strategy: Strategy) -> None:
    """Beyond `replicas` and the surge, and any pod at all at 0 replicas."""
    seen = _gate(strategy)
    off = replace(seen, rollout=replace(seen.rollout, spec=replace(seen.rollout.spec, replicas=0)))
    smaller = replace(off, replica_sets=tuple(replace(each, spec_replicas=1) for each in off.replica_sets))

    assert "S29" in _rules(seen, _size(seen, "a", 6))
    assert "S29" in _rules(smaller, _size(smaller, "b", 2))
    assert "S29" not in _rules(smaller, _size(smaller, "b", 0))
    create = CreateReplicaSet(revision="b", number=2, replicas=1, pod_metadata=PodMetadata())
    assert "S29" in _rules(off, create)
    assert "S29" not in _rules(off, replace(create, replicas=0))

    old = replace(seen.replica_sets[0], name="cart-o", uid="rs-o", revision="o", spec_replicas=1)
    with_old = replace(seen, replica_sets=(old, *seen.replica_sets))
    assert "S29" in _rules(with_old, _size(with_old, "o", 2)), "an old revision never grows"


def test_s29_what_a_step_pins_and_a_preview_asks_for_is_asked_for() -> None:
    """Both may be more than `replicas`."""
    pinned = _gate(replace(ROUTED, steps=(SetCanaryReplicas(7), PauseUntilPromoted())))
    assert "S29" not in _rules(pinned, _size(pinned, "b", 7))
    assert "S29" in _rules(pinned, _size(pinned, "b", 8))

    preview = _gate(replace(GREEN, preview_replica_count=6))
    assert "S29" not in _rules(preview, _size(preview, "b", 6))
