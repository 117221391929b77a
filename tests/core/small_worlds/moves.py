"""What can happen next in a small world: whatever happens by itself, and what an adversary does as long as it may.

A `Move` has a name, so that a path is a list of names (`played` in `paths.py`). What an adversary does costs one of a budget.
Time passes to the next moment that somebody waits for, in steps of 1/1024 s: then times are exact, and are not rounded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping

from msgspec import Struct

from rollouts.core.decide import decide
from rollouts.core.model.analysis import AnalysisKind, AnalysisPhase, RunSeen
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import Decision
from rollouts.core.model.snapshot import Snapshot
from rollouts.core.model.status import Verb
from tests.core.measured_runs import runs_ended, runs_measured
from tests.core.model import World, annotated, snapshot
from tests.core.worlds import (
    after_each_call,
    calls_of,
    edited,
    gateways_caught_up,
    later,
    pods_heard,
    pods_unready,
    replica_sets_synced,
    slices_caught_up,
)

TICK_S = 1 / 1024

PASS = "a pass"
TIME = "time passes"
MEANWHILE = f"{PASS}, and before it writes: "


class Move(Struct, frozen=True):
    """One thing that can happen.

    Args:
        apply: the world after it; the same object when it changes nothing.
        costs: the budget of the adversary that it takes one from; "" for what happens by itself.
        enabled: whether it can happen in a world.
    """

    name: str
    apply: Callable[[World], World]
    costs: str = ""
    enabled: Callable[[World], bool] = lambda _: True


def passes(there: World, view: Snapshot, decision: Decision) -> Iterator[tuple[str, World]]:
    """The world after a pass, first in full, then cut after each of its calls.

    A cut after a question is left out: its answer is only in the memory of the controller that crashed.
    """
    worlds = list(after_each_call(there, decision, view))
    yield PASS, worlds[-1] if worlds else there
    for number, (call, after) in enumerate(zip(calls_of(decision), worlds[:-1], strict=False), 1):
        if not type(call).__name__.startswith("Ask"):
            yield cut(number), after


def passes_meanwhile(
    there: World, view: Snapshot, decision: Decision, moves: Iterable[Move]
) -> Iterator[tuple[Move, World]]:
    """The world after a pass that has read before a move, and writes after it."""
    if not calls_of(decision):
        return
    for move in moves:
        if move.enabled(there) and (moved := move.apply(there)) is not there:
            for after in after_each_call(moved, decision, view, stale=True):
                moved = after
            yield move, moved


def cut(calls: int) -> str:
    """The name of a pass that crashes after so many calls."""
    return f"{PASS} that crashes after call {calls}"


def crashes_after(name: str) -> int | None:
    """After how many calls the pass of that name crashes; None for a full one."""
    return None if name == PASS else int(name.rpartition(" ")[2])


def _one_ready(revision: str) -> Callable[[World], World]:
    def apply(there: World) -> World:
        if revision in there.bad:
            return there
        found = next((each for each in there.pods if each.revision == revision and not each.ready), None)
        if found is None:
            return there
        pods = tuple([replace(each, ready=True, problem="") if each is found else each for each in there.pods])
        return replace(there, pods=pods, ready_since={**there.ready_since, found.uid: there.now_s})

    return apply


def _run_ends(kind: AnalysisKind, phase: AnalysisPhase) -> Callable[[World], World]:
    """The oldest run of that kind that is under way ends. A background run that succeeds goes on: it has measured."""

    def apply(there: World) -> World:
        found = _under_way(there, kind)
        if found is None:
            return there
        (ended,) = runs_measured(replace(there, runs=(found,)), phase).runs
        return (
            there
            if ended == found
            else replace(there, runs=tuple([ended if each is found else each for each in there.runs]))
        )

    return apply


def _under_way(there: World, kind: AnalysisKind) -> RunSeen | None:
    runs = (each for each in there.runs if not each.phase.over and each.gate is not None and each.gate.kind is kind)
    return next(runs, None)


HEARD, LOOKED_AT = "pods are heard of", "ReplicaSets are looked at"
BY_THEMSELVES = (
    Move(HEARD, pods_heard),
    Move(LOOKED_AT, replica_sets_synced),
    *(Move(f"a pod of {revision} becomes ready", _one_ready(revision)) for revision in "abc"),
    Move("slices catch up", slices_caught_up, enabled=lambda there: bool(there.services)),
    Move("gateways catch up", gateways_caught_up, enabled=lambda there: bool(there.routes)),
    Move("runs that were told to end do", runs_ended, enabled=lambda there: bool(there.runs)),
    *(
        Move(
            f"a {kind} run measures a success",
            _run_ends(kind, AnalysisPhase.SUCCESSFUL),
            enabled=lambda there: bool(there.runs),
        )
        for kind in AnalysisKind
    ),
)
"""What happens by itself, in the order in which a fair run lets it happen."""


def time_passes(there: World, requeue_at_s: float | None) -> World:
    """The world at the next moment that the controller or a ReplicaSet's controller waits for; the same when there is none."""
    wait_s = {each.revision: each.min_ready_s for each in there.replica_sets}
    times = [there.ready_since[pod.uid] + wait_s.get(pod.revision, 0) for pod in there.pods if pod.ready]
    later = [each for each in (*times, requeue_at_s) if each is not None and each > there.now_s]
    if not later:
        return there
    ticks = math.ceil((min(later) - there.now_s) / TICK_S)
    return replace(there, now_s=there.now_s + ticks * TICK_S)


def _command(verb: Verb, value: str | None = "true") -> Move:
    """An annotation is set that is not there, or with None taken off."""
    return Move(
        f"{verb}=true" if value else f"{verb} is taken off",
        lambda there: annotated(there, verb, value),
        costs=COMMAND,
        enabled=lambda there: (verb in there.rollout.annotations) is (value is None),
    )


def _edit(revision: str) -> Move:
    return Move(
        f"the template becomes {revision}",
        lambda there: edited(there, revision=revision),
        costs=EDIT,
        enabled=lambda there: there.rollout.spec.template_hash != revision,
    )


def _scale(by: int) -> Move:
    return Move(
        "one replica more" if by > 0 else "one replica less",
        lambda there: edited(there, replicas=there.rollout.spec.replicas + by),
        costs=SCALE,
        enabled=lambda there: there.rollout.spec.replicas + by >= 0,
    )


def _may_restart(there: World) -> bool:
    """Not while one is on record: in the normal form pods are older or younger than one restart."""
    on_record = any(each.verb is Verb.RESTART for each in there.status.commands)
    return Verb.RESTART not in there.rollout.annotations and not on_record


def _failure(revision: str) -> Move:
    return Move(
        f"a pod of {revision} fails",
        lambda there: pods_unready(there, revision, limit=1),
        costs=FAILURE,
        enabled=lambda there: any(each.ready and each.revision == revision for each in there.pods),
    )


def _verdict(kind: AnalysisKind, phase: AnalysisPhase) -> Move:
    return Move(
        f"a {kind} run ends {phase}",
        _run_ends(kind, phase),
        costs=VERDICT,
        enabled=lambda there: _under_way(there, kind) is not None,
    )


def _unjudged(kind: AnalysisKind) -> Move:
    def apply(there: World) -> World:
        run = _under_way(there, kind)
        assert run is not None
        assert run.gate is not None
        return annotated(there, Verb.PROMOTE, f"{run.revision}@skip-{run.gate.promoted_as}")

    return Move(
        f"a {kind} run is passed without a verdict",
        apply,
        costs=VERDICT,
        enabled=lambda there: _under_way(there, kind) is not None and Verb.PROMOTE not in there.rollout.annotations,
    )


COMMAND, EDIT, SCALE, FAILURE, RESTART, VERDICT = "command", "edit", "scale", "failure", "restart", "verdict"
DISTURBANCES: Mapping[str, tuple[Move, ...]] = {
    COMMAND: (
        *(_command(verb) for verb in (Verb.PROMOTE, Verb.ABORT, Verb.RETRY, Verb.ROLLBACK, Verb.PAUSE)),
        _command(Verb.PAUSE, None),
    ),
    EDIT: (_edit("a"), _edit("c")),
    SCALE: (_scale(1), _scale(-1)),
    RESTART: (
        Move(
            "restart=true, a second later",  # it does not touch pods of its own second
            lambda there: annotated(later(there, 1.0), Verb.RESTART, "true"),
            costs=RESTART,
            enabled=_may_restart,
        ),
    ),
    FAILURE: tuple(_failure(revision) for revision in "abc"),
    VERDICT: tuple(
        _verdict(kind, phase)
        for kind in AnalysisKind
        for phase in (AnalysisPhase.FAILED, AnalysisPhase.INCONCLUSIVE, AnalysisPhase.ERROR)
    )
    + tuple(_unjudged(kind) for kind in AnalysisKind),
}
"""What an adversary does, by the budget that it costs."""

MOVES = {each.name: each for each in (*BY_THEMSELVES, *(move for moves in DISTURBANCES.values() for move in moves))}


def moved_by(there: World, name: str) -> World:
    """The world after the move of that name. Raises: ValueError when it cannot happen there."""
    if name == TIME:
        return time_passes(there, decide(snapshot(there)).requeue_at_s)
    if name.startswith(MEANWHILE):
        view, move = snapshot(there), MOVES[name.removeprefix(MEANWHILE)]
        return next(after for _, after in passes_meanwhile(there, view, decide(view), [move]))
    if name.startswith(PASS):
        view = snapshot(there)
        calls = crashes_after(name)
        for number, after in enumerate(after_each_call(there, decide(view), view)):
            if calls is not None and number == calls:
                break
            there = after
        return there
    move = MOVES[name]
    if not move.enabled(there):
        raise ValueError(f"{name!r} cannot happen here")
    return move.apply(there)
