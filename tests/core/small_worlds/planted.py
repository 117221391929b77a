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


class Mistake(Struct, frozen=True):
    """A planted mistake, and what finds it.

    Args:
        plant: replaces one function of the policy.
        found: the invariant that it breaks, the quick world in which that is seen, and the length of the shortest path.
        peer: the published outage that it is like, by its number in our list and in the peers' trackers; "" for none.
    """

    plant: Plant
    found: tuple[str, str, int]
    peer: str = ""


def _of(place: object, name: str, mistake: Callable[[Any], Any]) -> Plant:
    """Replaces `place.name` by what `mistake` makes of it."""
    return lambda monkeypatch: monkeypatch.setattr(place, name, mistake(getattr(place, name)))


def _says(place: object, name: str, changed: Callable[..., Any]) -> Plant:
    """`place.name` says something else: `changed` gets its answer, and what it was asked with."""
    return _of(place, name, lambda right: lambda *given, **named: changed(right(*given, **named), *given, **named))


def _both(*plants: Plant) -> Plant:
    """Two functions that make up for each other are replaced together."""

    def plant(monkeypatch: pytest.MonkeyPatch) -> None:
        for each in plants:
            each(monkeypatch)

    return plant


def _fact(place: type, name: str, value: Callable[[Any], object]) -> Plant:
    """Replaces a property."""
    return lambda monkeypatch: monkeypatch.setattr(place, name, property(value))


def _selected(ctx: PassContext) -> frozenset[str]:
    return frozenset(each.revision for each in ctx.services_seen.values()) - {""}


def _stable_follows_the_wish(right: Any) -> Any:
    """Stable shrinks with the weight that is asked for, before the traffic has left."""
    return lambda weight_percent, **given: right(
        **{**given, "weight_percent": weight_percent, "recorded_weight_percent": weight_percent, "dynamic": True}
    )


def _two_steps(done: Any, ctx: PassContext, rules: Any, plan: Any) -> Any:
    last = len(rules.strategy.steps)
    after = changes.apply(ctx.status, done.changes)
    further = changes.begin_step(min(after.step_index + 1, last), ctx.now_s)
    return done if after.step_index == ctx.status.step_index else replace(done, changes=(*done.changes, further))


def _no_wake(decision: Decision, *_: Any) -> Decision:
    waiting = decision.status.waiting_for
    timed = waiting is not None and waiting.reason is Reason.TIMED_PAUSE
    return replace(decision, requeue_at_s=None) if timed else decision


def _never_confirmed(_: Any, service: Any, *__: Any, **___: Any) -> ServiceSwitch:
    wait = Wait(Reason.SERVICE_SWITCHING, "waiting for the EndpointSlices")
    return ServiceSwitch(wait=wait, selects=service.revision)


def _pause_never_done(done: bool, ctx: PassContext, rules: Any, *_: Any) -> bool:
    return done and not isinstance(rules.strategy.steps[ctx.status.step_index], Pause)


def _weight_after_an_abort(right: Any) -> Any:
    """The routes stay where the step has brought them."""

    def wanted(ctx: PassContext, strategy: Canary, asked: Any, *, stable: Any) -> Any:
        goes_on = replace(ctx, aborted=False)
        return right(goes_on, strategy, step_goal(goes_on, strategy).split, stable=stable)

    return wanted


def _to_and_fro(switches: Any, rules: Any, ctx: PassContext) -> Any:
    """After an abort the preview Service selects the revision that it does not select now."""
    preview, active = switches
    if not ctx.aborted or ctx.new is None or ctx.stable is None:
        return preview, active
    other = ctx.stable if preview.selects == ctx.new.revision else ctx.new
    return services.switch_to(ctx, rules.strategy.preview_service, other, at_least=0), active


def _none_of_stable(wanted: Any, rules: Any, ctx: PassContext, *_: Any) -> Any:
    """When `replicas` changes during an update, the new revision gets all pods."""
    scaled = ctx.stable is not None and ctx.stable.spec_replicas != ctx.spec.replicas
    return replace(wanted, stable=0) if scaled else wanted


def _everything_over_succeeded(run: Any, *_: Any) -> Any:
    return replace(run, phase=AnalysisPhase.SUCCESSFUL) if run is not None and run.phase.over else run


def _verdict_and_more(on_record: bool, ctx: PassContext, one_way: Any) -> bool:
    """What follows from a verdict is done in the pass that records it."""
    recorded = changes.apply(ctx.status, one_way.changes).analyses
    return on_record or any(record not in ctx.status.analyses for record in recorded)


def _none_is_kept(right: Any) -> Any:
    """Every ReplicaSet without pods is deleted, as with `revisionHistoryLimit: 0`."""

    def surplus(course: Any) -> Contribution:
        ctx = replace(course.ctx, spec=replace(course.ctx.spec, revision_history_limit=0))
        return Contribution(intents=housekeeping.surplus(ctx) if course.pods_may_go else ())

    return (*right, surplus)


def _asks_for_ever(decision: Decision, begun: Any, *_: Any) -> Decision:
    says_nothing = not decision.intents and decision.status == begun.ctx.recorded
    return replace(decision, intents=(AskPods(),)) if says_nothing else decision


def _empty_is_missing(ctx: PassContext, *_: Any) -> PassContext:
    return replace(ctx, new=None) if ctx.new is not None and not ctx.new.spec_replicas else ctx


def _made_again(ctx: PassContext, *_: Any) -> PassContext:
    """A ReplicaSet whose controller has not reported yet is taken for missing."""
    unreported = ctx.new is not None and not ctx.new.replicas and ctx.new.spec_replicas
    return replace(ctx, new=None) if unreported else ctx


MISTAKES = {
    "pods count as available when they are asked for": Mistake(
        _fact(ReplicaSet, "staying_available", lambda each: each.spec_replicas), ("S1", "blue-green 2, a command", 4)
    ),
    "pods that are about to be deleted count as available": Mistake(
        _fact(ReplicaSet, "staying_available", lambda each: each.available), ("S1", "blue-green 1, an edit", 15)
    ),
    "counts are believed while deleted pods are in them": Mistake(
        _fact(ReplicaSet, "count_is_true", lambda _: True), ("S3", "ratio 2, an edit", 9)
    ),
    "slices do not matter": Mistake(_fact(PassContext, "shown_revisions", _selected), ("S2", "ratio 2, a command", 9)),
    "stable goes before its Service has left it": Mistake(
        _both(
            _of(canary, "_holds_stable", lambda _: lambda *__: False),
            _of(canary_sizes, "_while_shown", lambda _: lambda *given: given[2]),
        ),
        ("S2", "ratio 2, a command", 8),
        "P2 argo-rollouts 2235",
    ),
    "one pod too many may be unavailable": Mistake(
        _says(replicas, "surge_and_unavailable", lambda limits, **_: (limits[0], limits[1] + 1)),
        ("S3", "ratio 2, a command", 0),
    ),
    "one pod too many": Mistake(
        _says(replicas, "surge_and_unavailable", lambda limits, **_: (limits[0] + 1, limits[1])),
        ("S29", "ratio 2, an edit", 2),
    ),
    "stable shrinks before the routes have moved": Mistake(
        _of(canary_sizes, "routed_stable_replicas", _stable_follows_the_wish),
        ("S4", "route 1, a command", 19),
        "P1 argo-rollouts 2050",
    ),
    "an abort is recorded, and the steps go on": Mistake(
        _says(decide_module, "context_of", lambda ctx, *_: replace(ctx, aborted=False)), ("S5", "route 1, a command", 9)
    ),
    "an abort leaves the routes as they are": Mistake(
        _of(routes, "_wanted", _weight_after_an_abort), ("not at rest", "route 1, a command", 14)
    ),
    "a step takes the next one with it": Mistake(
        _says(canary, "_stepped", _two_steps), ("S8", "route 1, a command", 10)
    ),
    "a pause holds nothing": Mistake(_fact(PassContext, "paused", lambda _: False), ("S9", "ratio 2, a command", 1)),
    "a timed pause is over at once": Mistake(
        _of(canary, "pause_end_s", lambda _: lambda ctx, pause: None if pause is None else ctx.now_s),
        ("S9", "route 1, a command", 11),
    ),
    "the gate opens at once": Mistake(
        _of(blue_green, "_gate_end_s", lambda _: lambda ctx, __: ctx.status.gate_started_at_s),
        ("S9", "blue-green 1, an edit", 5),
    ),
    "pods go before they are drained": Mistake(
        _of(sizing, "draining", lambda _: lambda *__: None),
        ("S24", "blue-green 1, an edit", 11),
        "P20, P8 argo-rollouts 4926, 3761",
    ),
    "a drain begins while slices lead to the old pods": Mistake(
        _says(cutover, "_shows", lambda _, ctx, left: ctx.services_seen[left.service].revision == left.from_revision),
        ("S24", "blue-green 1, an edit", 8),
    ),
    "nothing wakes the controller after a pause": Mistake(
        _says(decide_module, "_concluded", _no_wake), ("not at rest", "route 1, a command", 11)
    ),
    "a pause is never over": Mistake(
        _says(canary, "_step_is_done", _pause_never_done), ("L3", "route 1, a command", 14)
    ),
    "a Service is never confirmed": Mistake(
        _says(services, "_confirmation", _never_confirmed), ("not at rest", "ratio 2, a failure", 10)
    ),
    "the preview Service goes to and fro after an abort": Mistake(
        _says(BlueGreenRules, "services", _to_and_fro),
        ("no end", "blue-green 2, bad, a command", 4),
        "P5 argo-rollouts 3078, 4442, 4973",
    ),
    "the stable revision pays for a smaller number of replicas": Mistake(
        _says(BlueGreenRules, "sizes", _none_of_stable), ("S2", "blue-green 1, a scale", 1), "P15 argo-rollouts 1415"
    ),
    "a ReplicaSet is made again until its controller has reported": Mistake(
        _says(decide_module, "context_of", _made_again),
        ("S29", "blue-green 1, an edit", 1),
        "P13, P26 kubernetes 129795, cluster-api 13649",
    ),
    "a true stays": Mistake(
        _of(decide_module, "remove_annotations", lambda _: lambda __, status, **___: ((), status, None)),
        ("S13", "ratio 2, a command", 2),
    ),
    "all requests go back to a stable revision that has shrunk": Mistake(
        _of(routes, "_within_capacity", lambda _: lambda *given: given[2]),
        ("S1", "dynamic 2, an analysis, a verdict", 15),
        "P14, P22 argo-rollouts 3372, flagger 635",
    ),
    "an update waits for a stable revision that is down": Mistake(
        _says(blue_green, "_available", lambda there, ctx, _: there and ctx.stable_available >= ctx.promised),
        ("not at rest", "blue-green 2, stable bad", 17),
        "P24 flagger 639",
    ),
    "requests go back to pods that have failed": Mistake(
        _of(routes, "pods_behind", lambda _: lambda ctx, __: ctx.spec.replicas),
        ("S1", "route 1, a failure", 21),
        "P9 flagger 1898, 1931",
    ),
    "a restart evicts all old pods at once": Mistake(
        _of(restarts, "_may_leave", lambda _: lambda __, old, ___: old),
        ("S3", "ratio 2 without a surge, only a restart", 3),
        "P17 argo-rollouts 4221",
    ),
    "a share of more than all requests": Mistake(
        _of(routes, "_within_capacity", lambda _: lambda *given: replace(given[2], share=given[2].share * 3)),
        ("S6", "route 1, an edit", 7),
    ),
    "every run that is over has succeeded": Mistake(
        _says(one_way, "believed_run", _everything_over_succeeded),
        ("S7", "route 1, analyses, a verdict", 14),
        "P18 argo-rollouts 4479",
    ),
    "a new update begins with the verdicts of the one before": Mistake(
        _says(changes, "_at_first_step", lambda now, status, **_: replace(now, analyses=status.analyses)),
        ("S7", "ratio 1, an analysis, an edit", 10),
        "P12 flagger 30",
    ),
    "a run's name is not bound to its update": Mistake(
        _both(
            _says(analyses, "run_name", lambda _, __, gate, number: f"cart-{gate.kind}-{number}"),
            _of(
                analyses,
                "_free_name",
                lambda _: lambda ctx, gate, number: (number, analyses.run_name(ctx, gate, number)),
            ),
        ),
        ("S7", "ratio 1, an analysis, an edit", 9),
        "P19 argo-rollouts 721, 505",
    ),
    "a verdict is recorded together with what follows from it": Mistake(
        _says(decide_module, "_is_on_record", _verdict_and_more), ("S10", "route 1, analyses, a verdict", 13)
    ),
    "a promotion past a verdict does nothing": Mistake(
        _of(one_way, "_verdict_passed", lambda _: lambda __: None),
        ("not at rest", "route 1, analyses, a verdict", 17),
        "P7 argo-rollouts 3015",
    ),
    "a settled world is asked about for ever (S11)": Mistake(
        _says(decide_module, "_concluded", _asks_for_ever), ("not at rest", "ratio 2, a failure", 11)
    ),
    "a ReplicaSet without pods is taken for missing": Mistake(
        _says(decide_module, "context_of", _empty_is_missing), ("S12", "blue-green 1, a scale", 2)
    ),
    "the revision to go back to is not kept": Mistake(
        _of(ordinary, "ORDINARY", _none_is_kept), ("S15", "blue-green 2, stable bad", 16)
    ),
    "an update begins without its Services": Mistake(
        _of(rules, "prerequisites", lambda _: lambda __: None), ("S25", "blue-green 1, a missing Service", 0)
    ),
    "an update begins before its gate has passed": Mistake(
        _of(rules, "closed_gate", lambda _: lambda __: None), ("S7", "ratio 1, a gate, a verdict", 0)
    ),
    "no deadline aborts": Mistake(
        _of(decide_module, "_late", lambda _: lambda *__: None),
        ("not at rest", "ratio 1, bad, a deadline that aborts", 7),
        "P21 argo-rollouts 4371",
    ),
}

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
