"""Promise: an update makes its first pod when everything that its spec names is there, at whatever step it will be needed.

An update that comes to a step whose template is missing stands there with a part of the traffic, and nobody looks any more. What
brings the stable revision back, and what has begun, is not held up.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rollouts.core.context.pass_context import context_of
from rollouts.core.decide import decide
from rollouts.core.model.analysis import Analysis, AnalysisGate, AnalysisKind, DraftProblem
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import CreateReplicaSet
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import BlueGreen, Canary, Strategy, analyses
from rollouts.core.model.status import Phase
from rollouts.core.model.steps import Analyze, PauseUntilPromoted, SetCanaryReplicas, SetWeight
from rollouts.core.strategy.beginning import RECHECK_S, SHOWN_MAX, prerequisites
from tests.core.model import World, annotated, route, service, snapshot, world
from tests.core.updates import TIMED, condition, measuring, routed, updating, waits_for, with_services
from tests.core.worlds import edited, later, one, reconciled, route_put_back, running, settled, sizes, with_route

CHECKED = Analysis(path="spec.strategy.canary.steps[3].analysis", settings={}, templates=("good",))
STEPS = (SetWeight(25), PauseUntilPromoted(), SetWeight(50), Analyze(CHECKED), SetWeight(75), Analyze(CHECKED))
AT_STEPS = Canary(steps=STEPS)
NO_SURGE = Canary(steps=STEPS, max_surge=0, max_unavailable=1)
SERVICES = with_services(*STEPS, analysis=CHECKED)
ROUTED = routed(SetCanaryReplicas(2), *STEPS, by=(TIMED,), dynamic=True, analysis=CHECKED)
PING_PONG = replace(ROUTED, ping_pong=True)
GREEN = BlueGreen(
    active_service="cart",
    preview_service="cart-preview",
    preview_replica_count=1,
    auto_promotion_enabled=False,
    pre_promotion=CHECKED,
    post_promotion=CHECKED,
)
AHEAD = AnalysisGate(AnalysisKind.STEP, 5)

Change = Callable[[World], World]


def _without_template(gate: AnalysisGate) -> Change:
    return lambda there: replace(there, templates_missing=frozenset({gate}))


def _without_service(name: str) -> Change:
    return lambda there: replace(there, services={key: each for key, each in there.services.items() if key != name})


def _with_others_service(name: str) -> Change:
    others = service(name, managed_by="till", watched=True)
    return lambda there: replace(there, services={**there.services, name: others})


def _unreadable_route(there: World) -> World:
    return with_route(there, next(iter(there.routes)), split=None)


def _others_route(there: World) -> World:
    return replace(there, routes={name: route(name, managed_by="till") for name in there.routes})


def _of(gate: AnalysisGate) -> str:
    return f"{gate}: names AnalysisTemplate/good"


def _with_templates(name: str, strategy: Strategy) -> dict[str, tuple[Strategy, Change, Reason, str]]:
    return {
        f"{name}, template of {gate}": (strategy, _without_template(gate), Reason.ANALYSIS_INVALID, _of(gate))
        for gate in analyses(strategy)
    }


IN_CANARY, IN_GREEN = "spec.strategy.canary", "spec.strategy.blueGreen"
MISSING: dict[str, tuple[Strategy, Change, Reason, str]] = {
    **_with_templates("canary", AT_STEPS),
    **_with_templates("canary without surge", NO_SURGE),
    **_with_templates("canary with Services", SERVICES),
    **_with_templates("canary with routes", ROUTED),
    **_with_templates("blue-green", GREEN),
    "stable Service": (SERVICES, _without_service("cart"), Reason.SERVICE_NOT_FOUND,
        f"{IN_CANARY}.stableService: Service cart does not exist"),
    "canary Service": (SERVICES, _without_service("cart-canary"), Reason.SERVICE_NOT_FOUND,
        f"{IN_CANARY}.canaryService: Service cart-canary does not exist"),
    "ping Service": (PING_PONG, _without_service("cart"), Reason.SERVICE_NOT_FOUND,
        f"{IN_CANARY}.pingPong.pingService: Service cart does not exist"),
    "another's canary Service": (SERVICES, _with_others_service("cart-canary"), Reason.SERVICE_NOT_USABLE,
        f"{IN_CANARY}.canaryService: Service cart-canary belongs to Rollout till"),
    "active Service": (GREEN, _without_service("cart"), Reason.SERVICE_NOT_FOUND,
        f"{IN_GREEN}.activeService: Service cart does not exist"),
    "preview Service": (GREEN, _without_service("cart-preview"), Reason.SERVICE_NOT_FOUND,
        f"{IN_GREEN}.previewService: Service cart-preview does not exist"),
    "route": (ROUTED, lambda there: replace(there, routes={}), Reason.ROUTE_NOT_FOUND,
        f"{IN_CANARY}.trafficRouting.istio: HTTPRoute cart does not exist"),
    "a route that cannot be managed": (ROUTED, _unreadable_route, Reason.ROUTE_NOT_USABLE,
        f"{IN_CANARY}.trafficRouting.istio: HTTPRoute cart: no rule names both Services"),
    "another's route": (ROUTED, _others_route, Reason.ROUTE_NOT_USABLE,
        f"{IN_CANARY}.trafficRouting.istio: HTTPRoute cart belongs to Rollout till"),
}  # fmt: skip
EVERYTHING = pytest.mark.parametrize(("strategy", "breaks", "reason", "told"), MISSING.values(), ids=list(MISSING))


def _mended(there: World, before: World) -> World:
    """Everything is there again, made anew by its user."""
    kept = {name: each for name, each in there.services.items() if each.managed_by != "till"}
    services = {name: service(name, uid=f"uid-again-{name}") for name in before.services}
    there = replace(there, templates_missing=frozenset(), services={**services, **kept})
    return route_put_back(there, 1) if before.routes else there


def _revisions(there: World) -> set[str]:
    return {each.revision for each in there.replica_sets}


@EVERYTHING
def test_no_pod_of_an_update_exists_before_everything_is_there(
    strategy: Strategy, breaks: Change, reason: Reason, told: str
) -> None:
    """What is missing is told with its path, and Stalled after 10 s. The stable revision keeps all of its pods and traffic.

    Nobody touches the Rollout then: what was missing is made, and the update begins.
    """
    before = running(strategy)

    there = settled(edited(breaks(before), revision="b"), seconds=700)

    assert (_revisions(there), sizes(there), one(there, "a").available) == ({"a"}, {"a": 4}, 4)
    assert (there.status.current_revision, there.status.stable_revision) == ("b", "a")
    assert (there.status.step_index, there.status.gate_started_at_s, there.runs) == (0, None, ())
    assert (waits_for(there), there.status.phase) == (reason, Phase.DEGRADED)
    assert f"revision b has no pods until all is there: {told}" in there.status.message
    stalled = condition(there, "Stalled")
    assert (stalled.reason, told in stalled.message) == (reason, True)
    assert any(each.warning and each.reason is reason and told in each.message for each in there.notices)

    there = settled(_mended(there, before), seconds=30)
    assert "b" in sizes(there)
    assert not [each for each in there.status.conditions if each.type == "Stalled"]


@pytest.mark.parametrize("strategy", [AT_STEPS, NO_SURGE, SERVICES, ROUTED, GREEN])
def test_an_update_that_waits_to_begin_follows_the_autoscaler(strategy: Strategy) -> None:
    """The stable revision serves alone: it gets every pod that is asked for, and gives back what is not.

    Steps done at 0 replicas, where no pod can be analysed, would be done without a look at what comes later.
    """
    there = settled(edited(replace(running(strategy), templates_missing=frozenset(analyses(strategy))), revision="b"))
    for replicas in (7, 2, 0, 4):
        there = settled(edited(there, replicas=replicas))
        assert sizes(there) == ({"a": replicas} if replicas else {})
        assert one(there, "a").available == replicas
        assert (there.status.stable_revision, there.status.step_index) == ("a", 0)

    assert "b" in sizes(settled(replace(there, templates_missing=frozenset())))


def test_all_that_is_missing_is_told_at_once() -> None:
    """One look is enough to mend all of it."""
    there = _without_template(AHEAD)(_without_service("cart-canary")(running(SERVICES)))

    there = settled(edited(there, revision="b"))

    assert waits_for(there) is Reason.SERVICE_NOT_FOUND
    for told in ("canaryService: Service cart-canary does not exist", _of(AHEAD)):
        assert told in there.status.message


def test_a_long_list_of_what_is_missing_is_cut() -> None:
    """Status and Events are one line; the same thing is told once."""
    steps = tuple(Analyze(CHECKED) for _ in range(SHOWN_MAX + 3))
    there = running(Canary(steps=(SetWeight(25), *steps)))
    missing = frozenset(analyses(there.rollout.spec.strategy))

    several = settled(edited(replace(there, templates_missing=missing), revision="b"))
    same = settled(edited(replace(there, templates_wrong="no AnalysisRun can be made"), revision="b"))

    assert several.status.message.count("does not exist") == SHOWN_MAX
    assert several.status.message.endswith("; and 3 more")
    assert same.status.message.count("no AnalysisRun can be made") == 1


def test_a_field_of_status_may_come_later() -> None:
    """A `fieldPath` into status may be there at its step only: waiting for it would be waiting for the update itself."""
    there = updating(AT_STEPS)
    begun = snapshot(edited(running(AT_STEPS), revision="b"))
    ctx = context_of(begun, replace(there.status, step_index=0))
    problem = DraftProblem("the Rollout has no status.canary.weights: 'canary' is not there", comes_later=True)

    later = context_of(replace(begun, drafts={**begun.drafts, AHEAD: problem}), ctx.status)
    now = context_of(replace(begun, drafts={**begun.drafts, AHEAD: replace(problem, comes_later=False)}), ctx.status)

    assert prerequisites(later) is None
    assert prerequisites(now) is not None


def test_templates_that_one_pass_cannot_read_are_looked_at_in_the_next() -> None:
    """Nothing else wakes the Rollout then. Where nothing was looked at, only an event brings more, and nobody polls."""
    seen = snapshot(reconciled(edited(running(AT_STEPS), revision="b")))
    waiting = replace(seen, replica_sets=tuple(each for each in seen.replica_sets if each.revision == "a"))

    partly = decide(replace(waiting, drafts={AHEAD: waiting.drafts[AHEAD]}))
    nothing = decide(replace(waiting, drafts={}))

    for decision in (partly, nothing):
        assert [each for each in decision.intents if isinstance(each, CreateReplicaSet)] == []
    assert partly.requeue_at_s == waiting.now_s + RECHECK_S
    assert nothing.requeue_at_s is None


# --- what is not held up


def _without_stable(there: World) -> World:
    """Its ReplicaSet is gone: without the new revision nothing would serve."""
    return replace(there, replica_sets=(), pods=(), heard=())


BEGIN: dict[str, tuple[Callable[[], World], str]] = {
    "a first revision is not analysed, and harms nothing that serves": (lambda: world(AT_STEPS), "a"),
    "somebody has decided that no analysis counts": (
        lambda: annotated(edited(running(AT_STEPS), revision="b"), "promote", "b@full"), "b"),
    "the only revision that can serve": (lambda: edited(_without_stable(running(AT_STEPS)), revision="b"), "b"),
}  # fmt: skip


@pytest.mark.parametrize(("there", "revision"), BEGIN.values(), ids=list(BEGIN))
def test_what_begins_without_its_templates(there: Callable[[], World], revision: str) -> None:
    """The way out for a fix that cannot wait for them, too."""
    assert sizes(settled(_without_template(AHEAD)(there()))) == {revision: 4}


def test_an_update_that_has_begun_goes_on_to_its_step() -> None:
    """What is deleted meanwhile is waited for where it is needed: no pod of a good update goes because somebody tidies up."""
    there = updating(AT_STEPS)

    there = settled(annotated(_without_template(AnalysisGate(AnalysisKind.STEP, 3))(there), "promote", "b@1"))

    assert (there.status.step_index, waits_for(there), sizes(there)) == (3, Reason.ANALYSIS_INVALID, {"a": 2, "b": 2})


@pytest.mark.parametrize("breaks", [_without_template(AHEAD), _without_service("cart-canary")])
@pytest.mark.parametrize("strategy", [SERVICES, replace(ROUTED, steps=STEPS)])
def test_an_abort_of_an_update_that_has_not_begun_leaves_the_stable_revision_alone(
    strategy: Strategy, breaks: Change
) -> None:
    """There is nothing to take back."""
    there = settled(edited(breaks(running(strategy)), revision="b"), seconds=30)

    there = settled(annotated(there, "abort", "b"), seconds=60)

    assert (there.status.phase, _revisions(there), sizes(there)) == (Phase.ABORTED, {"a"}, {"a": 4})


@pytest.mark.parametrize("strategy", [AT_STEPS, SERVICES, ROUTED, GREEN])
def test_the_way_back_needs_nothing(strategy: Strategy) -> None:
    """A template that is missing keeps no bad revision alive: `git revert` goes back at once, in the middle and afterwards.

    An earlier revision's pods come, by command too, and the analyses at their steps judge it as always.
    """
    there, missing = updating(strategy), frozenset(analyses(strategy))
    back = settled(edited(replace(there, templates_missing=missing), revision="a"))
    assert (back.status.current_revision, sizes(back), back.status.phase) == ("a", {"a": 4}, Phase.HEALTHY)

    there = settled(annotated(there, "promote", "b@full"))
    there = replace(settled(later(there, 3600)), templates_missing=missing)
    assert (there.status.stable_revision, sizes(there)) == ("b", {"b": 4})

    assert "a" in sizes(settled(annotated(there, "rollback", "a")))
    assert "a" in sizes(settled(edited(annotated(there, "rollback", None), revision="a")))


def test_an_aborted_revision_without_pods_begins_again_when_everything_is_there() -> None:
    """A retry is another beginning; while its pods are still there it goes on with them."""
    there = settled(annotated(updating(AT_STEPS), "abort", "true"))
    assert sizes(there) == {"a": 4}
    there = settled(annotated(_without_template(AHEAD)(there), "retry", "true"))
    assert (sizes(there), waits_for(there)) == ({"a": 4}, Reason.ANALYSIS_INVALID)

    there = settled(replace(there, templates_missing=frozenset()))

    assert sizes(there) == {"a": 3, "b": 1}


def test_a_newer_revision_takes_the_place_of_one_that_has_begun() -> None:
    """The older one leaves as always, while the newer one waits: no traffic stays at a revision that was given up."""
    there = measuring(ROUTED)
    there = settled(annotated(there, "promote", "b@2"))
    assert (there.status.weight_percent, "b" in sizes(there)) == (50, True)

    there = settled(edited(replace(there, templates_missing=frozenset(analyses(ROUTED))), revision="c"))

    assert (_revisions(there) - {"a", "b"}, sizes(there)) == (set(), {"a": 4})
