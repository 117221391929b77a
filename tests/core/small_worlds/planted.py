"""Mistakes that are planted into the policy, one rule of it at a time, to see that the search finds them.

Replacing a function of the product is right here, and only here: these tests are about the search, which needs a broken subject.
The rest of the policy is the product's own, so a mistake is found only if nothing else makes up for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec import Struct

from rollouts.core import decide as decide_module
from rollouts.core import one_way, ordinary
from rollouts.core.context.contribution import Contribution
from rollouts.core.context.pass_context import PassContext
from rollouts.core.context.waits import Wait
from rollouts.core.drain import cutover
from rollouts.core.lifecycle import analyses, housekeeping
from rollouts.core.model import changes
from rollouts.core.model.analysis import AnalysisPhase
from rollouts.core.model.changes import CompleteStep, RecordAnalysis
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import AskPods, Decision
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import Canary
from rollouts.core.model.snapshot import ReplicaSet
from rollouts.core.model.steps import Pause
from rollouts.core.routing import routes, services
from rollouts.core.routing.services import ServiceSwitch
from rollouts.core.scale import canary_sizes, replicas, restarts, sizing
from rollouts.core.strategy import blue_green, canary, rules
from rollouts.core.strategy.blue_green import BlueGreenRules
from rollouts.core.strategy.canary_steps import step_goal

Plant = Callable[[pytest.MonkeyPatch], None]


class Mistake(Struct, frozen=True, kw_only=True):
    """A planted mistake, and what finds it.

    Args:
        plant: replaces one function of the policy.
        rule: the invariant that it breaks.
        world: the quick world in which it is found.
        moves: the length of the shortest path.
        peer: the published outage that it is like, by its number in our list and in the peers' trackers; "" for none.
    """

    plant: Plant
    rule: str
    world: str
    moves: int
    peer: str = ""


def _of(place: object, name: str, mistake: Callable[[Any], Any]) -> Plant:
    """Replaces `place.name` by what `mistake` makes of it."""

    def plant(monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(place, name, mistake(getattr(place, name)))

    return plant


def _both(*plants: Plant) -> Plant:
    """Two functions that make up for each other are replaced together."""

    def plant(monkeypatch: pytest.MonkeyPatch) -> None:
        for each in plants:
            each(monkeypatch)

    return plant


def _fact(place: type, name: str, value: Callable[[Any], object]) -> Plant:
    """Replaces a property."""

    def plant(monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(place, name, property(value))

    return plant


def _selected(ctx: PassContext) -> frozenset[str]:
    return frozenset(each.revision for each in ctx.services_seen.values()) - {""}


def _selected_still(_: Any) -> Any:
    return lambda ctx, left: ctx.services_seen[left.service].revision == left.from_revision


def _one_more_unavailable(right: Any) -> Any:
    def limits(**given: Any) -> tuple[int, int]:
        surge, unavailable = right(**given)
        return surge, unavailable + 1

    return limits


def _one_more_surge(right: Any) -> Any:
    def limits(**given: Any) -> tuple[int, int]:
        surge, unavailable = right(**given)
        return surge + 1, unavailable

    return limits


def _stable_follows_the_wish(right: Any) -> Any:
    """Stable shrinks with the weight that is asked for, before the traffic has left."""

    def size(**given: Any) -> Any:
        wish = given["weight_percent"]
        return right(**{**given, "recorded_weight_percent": wish, "dynamic": True})

    return size


def _two_steps(right: Any) -> Any:
    def stepped(ctx: PassContext, rules: Any, plan: Any) -> Any:
        done = right(ctx, rules, plan)
        changes = [
            replace(each, step_index=min(each.step_index + 1, len(rules.strategy.steps)))
            if isinstance(each, CompleteStep)
            else each
            for each in done.changes
        ]
        return replace(done, changes=tuple(changes))

    return stepped


def _no_wake(reason: Reason) -> Callable[[Any], Any]:
    def mistake(right: Any) -> Any:
        def concluded(*given: Any) -> Decision:
            decision: Decision = right(*given)
            waiting = decision.status.waiting_for
            if waiting is None or waiting.reason is not reason:
                return decision
            return replace(decision, requeue_at_s=None)

        return concluded

    return mistake


def _never_confirmed(right: Any) -> Any:
    wait = Wait(Reason.SERVICE_SWITCHING, "waiting for the EndpointSlices")
    return lambda service, *_, **__: ServiceSwitch(wait=wait, selects=service.revision)


def _pause_never_done(right: Any) -> Any:
    def done(ctx: PassContext, rules: Any, moves: Any, wait: Any) -> bool:
        step = rules.strategy.steps[ctx.status.step_index]
        return not isinstance(step, Pause) and bool(right(ctx, rules, moves, wait))

    return done


def _abort_without_effect(right: Any) -> Any:
    """An abort is on record, and the steps go on."""
    return lambda seen, status: replace(right(seen, status), aborted=False)


def _weight_after_an_abort(right: Any) -> Any:
    """The routes stay where the step has brought them."""

    def wanted(ctx: PassContext, strategy: Canary, asked: Any, *, stable: Any) -> Any:
        goes_on = replace(ctx, aborted=False)
        return right(goes_on, strategy, step_goal(goes_on, strategy).split, stable=stable)

    return wanted


def _to_and_fro(right: Any) -> Any:
    """After an abort the preview Service selects the revision that it does not select now."""

    def switches(rules: Any, ctx: PassContext) -> Any:
        preview, active = right(rules, ctx)
        if not ctx.aborted or ctx.new is None or ctx.stable is None:
            return preview, active
        other = ctx.stable if preview.selects == ctx.new.revision else ctx.new
        return services.switch_to(ctx, rules.strategy.preview_service, other, at_least=0), active

    return switches


def _none_of_stable(right: Any) -> Any:
    """When `replicas` changes during an update, the new revision gets all pods."""

    def sizes(rules: Any, ctx: PassContext, *given: Any) -> Any:
        wanted = right(rules, ctx, *given)
        scaled = ctx.stable is not None and ctx.stable.spec_replicas != ctx.spec.replicas
        return replace(wanted, stable=0) if scaled else wanted

    return sizes


def _everything_over_succeeded(right: Any) -> Any:
    def believed(*given: Any) -> Any:
        run = right(*given)
        return replace(run, phase=AnalysisPhase.SUCCESSFUL) if run is not None and run.phase.over else run

    return believed


def _verdicts_are_kept(right: Any) -> Any:
    return lambda status, *, at_s: replace(right(status, at_s=at_s), analyses=status.analyses)


def _one_name_for_all(right: Any) -> Any:
    return lambda _, gate, number: f"cart-{gate.kind}-{number}"


def _verdict_and_more(right: Any) -> Any:
    """What follows from a verdict is done in the pass that records it."""

    def on_record(ctx: PassContext, one_way: Any) -> bool:
        return bool(right(ctx, one_way)) or any(isinstance(each, RecordAnalysis) for each in one_way.changes)

    return on_record


def _none_is_kept(right: Any) -> Any:
    """Every ReplicaSet without pods is deleted, as with `revisionHistoryLimit: 0`."""

    def surplus(course: Any) -> Contribution:
        ctx = replace(course.ctx, spec=replace(course.ctx.spec, revision_history_limit=0))
        return Contribution(intents=housekeeping.surplus(ctx) if course.pods_may_go else ())

    return (*right, surplus)


def _asks_for_ever(right: Any) -> Any:
    def concluded(*given: Any) -> Decision:
        decision: Decision = right(*given)
        says_nothing = not decision.intents and decision.status == given[0].published
        return replace(decision, intents=(AskPods(),)) if says_nothing else decision

    return concluded


def _empty_is_missing(right: Any) -> Any:
    def context(seen: Any, status: Any) -> Any:
        ctx = right(seen, status)
        return replace(ctx, new=None) if ctx.new is not None and not ctx.new.spec_replicas else ctx

    return context


def _only_beside_stable(right: Any) -> Any:
    def available(ctx: PassContext, wanted: int) -> bool:
        return bool(right(ctx, wanted)) and ctx.stable_available >= ctx.promised

    return available


def _made_again(right: Any) -> Any:
    """A ReplicaSet whose controller has not reported yet is taken for missing."""

    def context(seen: Any, status: Any) -> Any:
        ctx = right(seen, status)
        return replace(ctx, new=None) if ctx.new is not None and not ctx.new.replicas and ctx.new.spec_replicas else ctx

    return context


MISTAKES = {
    "pods count as available when they are asked for": Mistake(
        plant=_fact(ReplicaSet, "staying_available", lambda each: each.spec_replicas),
        rule="S1", world="blue-green 2, a command", moves=4,
    ),
    "pods that are about to be deleted count as available": Mistake(
        plant=_fact(ReplicaSet, "staying_available", lambda each: each.available),
        rule="S1", world="blue-green 1, an edit", moves=15,
    ),
    "counts are believed while deleted pods are in them": Mistake(
        plant=_fact(ReplicaSet, "count_is_true", lambda _: True),
        rule="S3", world="ratio 2, an edit", moves=9,
    ),
    "slices do not matter": Mistake(
        plant=_fact(PassContext, "shown_revisions", _selected),
        rule="S2", world="ratio 2, a command", moves=9,
    ),
    "stable goes before its Service has left it": Mistake(
        plant=_both(
            _of(canary, "_holds_stable", lambda _: lambda *__: False),
            _of(canary_sizes, "_while_shown", lambda _: lambda *given: given[2]),
        ),
        rule="S2", world="ratio 2, a command", moves=8, peer="P2 argo-rollouts 2235",
    ),
    "one pod too many may be unavailable": Mistake(
        plant=_of(replicas, "surge_and_unavailable", _one_more_unavailable),
        rule="S3", world="ratio 2, a command", moves=0,
    ),
    "one pod too many": Mistake(
        plant=_of(replicas, "surge_and_unavailable", _one_more_surge),
        rule="S29", world="ratio 2, an edit", moves=2,
    ),
    "stable shrinks before the routes have moved": Mistake(
        plant=_of(canary_sizes, "routed_stable_replicas", _stable_follows_the_wish),
        rule="S4", world="route 1, a command", moves=19, peer="P1 argo-rollouts 2050",
    ),
    "an abort is recorded, and the steps go on": Mistake(
        plant=_of(decide_module, "context_of", _abort_without_effect),
        rule="S5", world="route 1, a command", moves=9,
    ),
    "an abort leaves the routes as they are": Mistake(
        plant=_of(routes, "_wanted", _weight_after_an_abort),
        rule="not at rest", world="route 1, a command", moves=14,
    ),
    "a step takes the next one with it": Mistake(
        plant=_of(canary, "_stepped", _two_steps),
        rule="S8", world="route 1, a command", moves=10,
    ),
    "a pause holds nothing": Mistake(
        plant=_fact(PassContext, "paused", lambda _: False),
        rule="S9", world="ratio 2, a command", moves=1,
    ),
    "a timed pause is over at once": Mistake(
        plant=_of(canary, "pause_end_s", lambda _: lambda ctx, pause: None if pause is None else ctx.now_s),
        rule="S9", world="route 1, a command", moves=11,
    ),
    "the gate opens at once": Mistake(
        plant=_of(blue_green, "_gate_end_s", lambda _: lambda ctx, __: ctx.status.gate_started_at_s),
        rule="S9", world="blue-green 1, an edit", moves=5,
    ),
    "pods go before they are drained": Mistake(
        plant=_of(sizing, "draining", lambda _: lambda *__: None),
        rule="S24", world="blue-green 1, an edit", moves=11, peer="P20, P8 argo-rollouts 4926, 3761",
    ),
    "a drain begins while slices lead to the old pods": Mistake(
        plant=_of(cutover, "_shows", _selected_still),
        rule="S24", world="blue-green 1, an edit", moves=8,
    ),
    "nothing wakes the controller after a pause": Mistake(
        plant=_of(decide_module, "_concluded", _no_wake(Reason.TIMED_PAUSE)),
        rule="not at rest", world="route 1, a command", moves=11,
    ),
    "a pause is never over": Mistake(
        plant=_of(canary, "_step_is_done", _pause_never_done),
        rule="L3", world="route 1, a command", moves=14,
    ),
    "a Service is never confirmed": Mistake(
        plant=_of(services, "_confirmation", _never_confirmed),
        rule="not at rest", world="ratio 2, a failure", moves=10,
    ),
    "the preview Service goes to and fro after an abort": Mistake(
        plant=_of(BlueGreenRules, "services", _to_and_fro),
        rule="no end", world="blue-green 2, bad, a command", moves=4, peer="P5 argo-rollouts 3078, 4442, 4973",
    ),
    "the stable revision pays for a smaller number of replicas": Mistake(
        plant=_of(BlueGreenRules, "sizes", _none_of_stable),
        rule="S2", world="blue-green 1, a scale", moves=1, peer="P15 argo-rollouts 1415",
    ),
    "a ReplicaSet is made again until its controller has reported": Mistake(
        plant=_of(decide_module, "context_of", _made_again),
        rule="S29", world="blue-green 1, an edit", moves=1, peer="P13, P26 kubernetes 129795, cluster-api 13649",
    ),
    "a true stays": Mistake(
        plant=_of(decide_module, "taken_off", lambda _: lambda __, status, **___: ((), status, None)),
        rule="S13", world="ratio 2, a command", moves=2,
    ),
    "all requests go back to a stable revision that has shrunk": Mistake(
        plant=_of(routes, "_within_capacity", lambda _: lambda *given: given[2]),
        rule="S1", world="dynamic 2, an analysis, a verdict", moves=15, peer="P14, P22 argo-rollouts 3372, flagger 635",
    ),
    "an update waits for a stable revision that is down": Mistake(
        plant=_of(blue_green, "_available", _only_beside_stable),
        rule="not at rest", world="blue-green 2, stable bad", moves=17, peer="P24 flagger 639",
    ),
    "requests go back to pods that have failed": Mistake(
        plant=_of(routes, "pods_behind", lambda _: lambda ctx, __: ctx.spec.replicas),
        rule="S1", world="route 1, a failure", moves=21, peer="P9 flagger 1898, 1931",
    ),
    "a restart evicts all old pods at once": Mistake(
        plant=_of(restarts, "_may_leave", lambda _: lambda __, old, ___: old),
        rule="S3", world="ratio 2 without a surge, only a restart", moves=3, peer="P17 argo-rollouts 4221",
    ),
    "a share of more than all requests": Mistake(
        plant=_of(routes, "_within_capacity", lambda _: lambda *given: replace(given[2], share=given[2].share * 3)),
        rule="S6", world="route 1, an edit", moves=7,
    ),
    "every run that is over has succeeded": Mistake(
        plant=_of(one_way, "believed_run", _everything_over_succeeded),
        rule="S7", world="route 1, analyses, a verdict", moves=14, peer="P18 argo-rollouts 4479",
    ),
    "a new update begins with the verdicts of the one before": Mistake(
        plant=_of(changes, "_at_first_step", _verdicts_are_kept),
        rule="S7", world="ratio 1, an analysis, an edit", moves=10, peer="P12 flagger 30",
    ),
    "a run's name is not bound to its update": Mistake(
        plant=_both(
            _of(analyses, "run_name", _one_name_for_all),
            _of(analyses, "_free_name", lambda _: lambda ctx, gate, number: (number, analyses.run_name(ctx, gate, number))),
        ),
        rule="S7", world="ratio 1, an analysis, an edit", moves=9, peer="P19 argo-rollouts 721, 505",
    ),
    "a verdict is recorded together with what follows from it": Mistake(
        plant=_of(decide_module, "_is_on_record", _verdict_and_more),
        rule="S10", world="route 1, analyses, a verdict", moves=13,
    ),
    "a promotion past a verdict does nothing": Mistake(
        plant=_of(one_way, "_verdict_passed", lambda _: lambda __: None),
        rule="not at rest", world="route 1, analyses, a verdict", moves=17, peer="P7 argo-rollouts 3015",
    ),
    "a settled world is asked about for ever (S11)": Mistake(
        plant=_of(decide_module, "_concluded", _asks_for_ever),
        rule="not at rest", world="ratio 2, a failure", moves=11,
    ),
    "a ReplicaSet without pods is taken for missing": Mistake(
        plant=_of(decide_module, "context_of", _empty_is_missing),
        rule="S12", world="blue-green 1, a scale", moves=2,
    ),
    "the revision to go back to is not kept": Mistake(
        plant=_of(ordinary, "ORDINARY", _none_is_kept),
        rule="S15", world="blue-green 2, stable bad", moves=16,
    ),
    "an update begins without its Services": Mistake(
        plant=_of(rules, "held_back", lambda _: lambda __: None),
        rule="S25", world="blue-green 1, a missing Service", moves=0,
    ),
    "no deadline aborts": Mistake(
        plant=_of(decide_module, "_late", lambda _: lambda *__: None),
        rule="not at rest", world="ratio 1, bad, a deadline that aborts", moves=7, peer="P21 argo-rollouts 4371",
    ),
}  # fmt: skip

NOT_HERE = {
    "P3": "a write: its version refuses it",
    "P4": "leader election: the controller's",
    "P6": "an empty answer: metrics",
    "P10": "a failed read: no configuration here",
    "P11": "a shared ConfigMap: no configuration here",
    "P16": "averages of usage: no autoscaling here",
    "P23": "a shared ConfigMap: no configuration here",
    "P25": "a frozen Secret: no configuration here",
}
"""Published outages that no small world can have, and why. Those of configuration and of autoscaling are the random worlds'."""
