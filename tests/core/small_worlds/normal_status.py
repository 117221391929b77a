"""Status and AnalysisRuns of a world in their normal form (`normal_form.py`), and what shapes the times of a world."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from types import SimpleNamespace
from typing import Any, cast

from msgspec import Struct

from rollouts.core.context.drain_numbers import drain_numbers
from rollouts.core.context.pass_context import PassContext
from rollouts.core.lifecycle import analyses
from rollouts.core.lifecycle.commands import REMOVED_AFTER_S
from rollouts.core.model import rollout
from rollouts.core.model.analysis import AnalysisGate, AnalysisRecord, RunSeen
from rollouts.core.model.frozen import replace
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import BlueGreen, Canary
from rollouts.core.model.status import (
    Abort,
    Command,
    Condition,
    Cutover,
    HistoryEntry,
    RolloutStatus,
    ScaleDown,
    Traffic,
    Verb,
    WaitingFor,
)
from rollouts.core.model.steps import Pause
from rollouts.core.scale.restarts import COUNTED_WITHIN_S
from tests.core.model import PROXY, T0, World

EARLIER = T0 - 100_000.0
"""When the update began; what was before that was `BEFORE`."""

BEFORE = T0 - 200_000.0

VERSION = 100
"""Pods that are made later have names after those of the normal form: its numbers have two digits."""


class Bounds(Struct, frozen=True, kw_only=True):
    """Up to which age, in seconds, a time of status makes a difference.

    Args:
        step_s: the pause of the current step.
        gate_s: until blue-green promotes by itself.
        drain_s: the drain of a cutover.
        settle_s: until a route counts as followed where nobody can be asked.
        command_s: until a `true` is taken off.
        progress_s: the progress deadline, where it aborts.
        ready_s: `minReadySeconds`.
    """

    step_s: float = 0.0
    gate_s: float = 0.0
    drain_s: float = 0.0
    settle_s: float = 0.0
    command_s: float = REMOVED_AFTER_S
    progress_s: float = 0.0
    ready_s: float = 0.0


def bounds_of(there: World) -> Bounds:
    """The bounds of a world."""
    spec = there.rollout.spec
    step_s = gate_s = 0.0
    match spec.strategy:
        case Canary(steps=steps):
            step = steps[there.status.step_index] if there.status.step_index < len(steps) else None
            step_s = step.duration_s if isinstance(step, Pause) else 0.0
        case BlueGreen(auto_promotion_s=gate_s):
            pass
    drain_s = drain_numbers(spec.drain, PROXY).drain_s
    return Bounds(
        step_s=step_s,
        gate_s=gate_s,
        drain_s=drain_s,
        settle_s=max((each.settle_s for each in there.routes.values() if not each.can_be_asked), default=0.0),
        progress_s=spec.progress_deadline_s if spec.progress_deadline_abort else 0.0,
        ready_s=float(spec.min_ready_s),
    )


class Frame(Struct, frozen=True):
    """What shapes the times of one world.

    Args:
        started_at_s: when its update began.
        began_s: when that is in the normal form: `EARLIER`, unless a cutover of before is still waited for.
        restart_s: when the restart was asked for that is on record as a command; None without one.
        evicts: pods may have been evicted that a ReplicaSet still counts, so a list of pods is believed.
    """

    now_s: float
    bounds: Bounds
    started_at_s: float | None
    began_s: float | None
    restart_s: float | None
    evicts: bool

    def aged(self, at_s: float, bound_s: float) -> float:
        """A time in the past as it is in the normal form: its age, up to the bound."""
        return T0 - min(max(self.now_s - at_s, 0.0), bound_s)

    def left(self, at_s: float) -> float:
        """A deadline as it is in the normal form: what is left of it."""
        return T0 + max(0.0, at_s - self.now_s)


def frame_of(there: World) -> Frame:
    """What shapes the times of a world."""
    status, bounds = there.status, bounds_of(there)
    restart_s = max((each.at_s for each in status.commands if each.verb is Verb.RESTART), default=None)
    frame = Frame(
        there.now_s,
        bounds,
        status.started_at_s,
        None if status.started_at_s is None else EARLIER,
        restart_s,
        status.evicting_since_s is not None,
    )
    if status.started_at_s is not None and any(_outlasts(each, frame) for each in status.cutovers):
        return replace(frame, began_s=frame.aged(status.started_at_s, bounds.drain_s))
    return frame


def _outlasts(cutover: Cutover, frame: Frame) -> bool:
    """Whether a cutover of before this update is still waited for."""
    return _is_of_before(cutover, frame) and cutover.until_s is not None and cutover.until_s > frame.now_s


def _is_of_before(cutover: Cutover, frame: Frame) -> bool:
    confirmed_at_s, started_at_s = cutover.confirmed_at_s, frame.started_at_s
    return confirmed_at_s is not None and started_at_s is not None and confirmed_at_s < started_at_s


STATUS_KEPT = (
    "current_revision", "stable_revision", "revision_number", "strategy_hash", "step_index", "attempt", "weight_percent",
    "elsewhere", "pong_is_stable", "active_revision", "preview_revision", "gate_passed", "injection",
)  # fmt: skip
WORDS = "words"
"""In place of all messages: they decide nothing, and none may be empty."""
STATUS_DROPPED = ("phase", "message", "observed_generation", "hpa_replicas", "selector", "authors")
"""For people and autoscalers; each pass works them out."""

STATUS_COUNTS = (
    "replicas", "updated_replicas", "updated_ready_replicas", "updated_available_replicas", "ready_replicas",
    "available_replicas",
)  # fmt: skip
"""Compared with those of the next pass by the clock of the progress deadline: kept where that aborts."""

STATUS_WITH_RUNS = ("analyses",)
"""Shaped together with the runs that they are about (`records_and_runs`)."""

STATUS_NOT_HERE = ("given_back", "autoscaling")
"""No small world has these so far: they would need their own argument."""


def _time(bound: Callable[[Bounds], float]) -> Callable[[float | None, Frame], float | None]:
    return lambda at_s, frame: None if at_s is None else frame.aged(at_s, bound(frame.bounds))


def _abort(abort: Abort | None, frame: Frame) -> Abort | None:
    return None if abort is None else Abort(abort.revision, T0, abort.reason, WORDS, abort.declared)


def _restarted(at_s: float | None, frame: Frame) -> float | None:
    """Whether the restart that is on record is done."""
    done = at_s is not None and frame.restart_s is not None and at_s >= frame.restart_s
    return T0 if done else None


def _traffic(traffic: Traffic | None, frame: Frame) -> Traffic | None:
    if traffic is None or traffic.seen_at_s is None:
        return traffic
    return replace(traffic, seen_at_s=frame.aged(traffic.seen_at_s, frame.bounds.settle_s))


def _waiting_for(waiting: WaitingFor | None, frame: Frame) -> WaitingFor | None:
    if waiting is None:
        return None
    bound_s = frame.bounds.settle_s if waiting.reason is Reason.TRAFFIC_SWITCHING else 0.0
    return WaitingFor(waiting.reason, WORDS, frame.aged(waiting.since_s, bound_s), None)


def _each(shape: Callable[[Any, Frame], Any]) -> Callable[[tuple[Any, ...], Frame], tuple[Any, ...]]:
    return lambda values, frame: tuple([shape(each, frame) for each in values])


def _scale_down(scale_down: ScaleDown, frame: Frame) -> ScaleDown:
    return ScaleDown(scale_down.revision, frame.left(scale_down.at_s))


def _cutover(cutover: Cutover, frame: Frame) -> Cutover:
    confirmed_at_s = cutover.confirmed_at_s
    if confirmed_at_s is not None:
        over = _is_of_before(cutover, frame) and not _outlasts(cutover, frame)
        confirmed_at_s = BEFORE if over else frame.aged(confirmed_at_s, frame.bounds.drain_s)
    until_s = None if cutover.until_s is None else frame.left(cutover.until_s)
    return replace(cutover, confirmed_at_s=confirmed_at_s, until_s=until_s, message=WORDS)


def _command(command: Command, frame: Frame) -> Command:
    refusal = command.refusal
    return replace(
        command,
        at_s=frame.aged(command.at_s, frame.bounds.command_s),
        refusal=None if refusal is None else replace(refusal, message=WORDS),
    )


def _history(entry: HistoryEntry, frame: Frame) -> HistoryEntry:
    return replace(entry, started_at_s=BEFORE, finished_at_s=BEFORE, message=WORDS, authors=())


def _conditions(conditions: tuple[Condition, ...], frame: Frame) -> tuple[Condition, ...]:
    """Only one is read by a rule."""
    read = [each for each in conditions if each.type == "InvalidSpec"]
    return tuple([replace(each, message=WORDS, since_s=T0, observed_generation=0) for each in read])


NUMBERS = range(1, 4)
"""Of the runs of one gate in one attempt: a person passes few of them in a small world."""

Records = tuple[AnalysisRecord, ...]
Runs = tuple[RunSeen, ...]


class _Update(Struct, frozen=True):
    """What the name of a run is made of."""

    revision: str
    number: int
    started_at_s: float | None
    strategy_hash: str
    attempt: int


def records_and_runs(there: World, frame: Frame, *, version: str) -> tuple[Records, Runs]:
    """The records of status and the runs.

    A run's name is a hash of its update, with the time when that began. In the normal form updates begin at another time, so each
    run gets the name that it would have there, and its uid follows its name. A run that is over, and that no record waits for, is
    left out: no gate can mean it any more, and small worlds make fewer runs than are kept for their history.
    """
    status = there.status
    if not status.analyses and not there.runs:
        return (), ()
    now = _Update(
        status.current_revision, status.revision_number, status.started_at_s, status.strategy_hash, status.attempt
    )
    normal = replace(now, started_at_s=frame.began_s)
    names: dict[str, str] = {}
    gates = {each.gate for each in status.analyses} | {each.gate for each in there.runs}
    for gate in gates - {None}:
        for number in NUMBERS:
            name = _name(analyses.run_name, there.rollout.uid, now, gate, number)
            names[name] = _name(analyses.run_name, there.rollout.uid, normal, gate, number)
    settled = {each.run for each in status.analyses if each.settled}
    for each in there.runs:
        if each.name not in names and not each.phase.over:
            names[each.name] = f"earlier-{len(names)}"
    kept = [each for each in there.runs if not each.phase.over or (each.name in names and each.name not in settled)]
    runs = tuple([_run(each, names[each.name], version) for each in kept])
    uids = {each.uid: f"uid-{names[each.name]}" for each in kept}
    specs = rollout.analyses(there.rollout.spec.strategy)
    limits = {gate: each.deadline_s or 0.0 for gate, each in specs.items()}
    records = [_record(each, names, uids, frame, limits.get(each.gate, 0.0)) for each in status.analyses]
    return tuple(records), runs


@cache
def _name(
    named: Callable[[PassContext, AnalysisGate, int], str],
    rollout_uid: str,
    update: _Update,
    gate: AnalysisGate,
    number: int,
) -> str:
    recorded = RolloutStatus(
        current_revision=update.revision,
        revision_number=update.number,
        started_at_s=update.started_at_s,
        strategy_hash=update.strategy_hash,
        attempt=update.attempt,
    )
    context = SimpleNamespace(
        recorded=recorded, seen=SimpleNamespace(rollout=SimpleNamespace(uid=rollout_uid, name="cart"))
    )
    return named(cast(PassContext, context), gate, number)


def _run(run: RunSeen, name: str, version: str) -> RunSeen:
    return replace(
        run,
        name=name,
        uid=f"uid-{name}",
        resource_version=version,
        created_at_s=T0,
        message=WORDS,
        completed_at_s=None if run.completed_at_s is None else T0,
    )


def _record(
    record: AnalysisRecord, names: Mapping[str, str], uids: Mapping[str, str], frame: Frame, limit_s: float
) -> AnalysisRecord:
    """Its text is for people, and so is its time where no deadline counts from it. A run that is gone has a uid of its own.

    Args:
        limit_s: the deadline; 0 for none.
    """
    return replace(
        record,
        run=names.get(record.run, record.run),
        message=WORDS,
        at_s=T0 if record.settled else frame.aged(record.at_s, limit_s),
        uid=uids.get(record.uid, "gone") if record.uid else "",
    )


STATUS_SHAPED: Mapping[str, Callable[[Any, Frame], Any]] = {
    "step_started_at_s": _time(lambda bounds: bounds.step_s),
    "gate_started_at_s": _time(lambda bounds: bounds.gate_s),
    "progressed_at_s": _time(lambda bounds: bounds.progress_s),
    "evicting_since_s": _time(lambda _: COUNTED_WITHIN_S + 1.0),
    "restarted_at_s": _restarted,
    "started_at_s": lambda _, frame: frame.began_s,
    "finished_at_s": lambda at_s, _: None if at_s is None else EARLIER,
    "abort": _abort,
    "traffic": _traffic,
    "waiting_for": _waiting_for,
    "scale_downs": _each(_scale_down),
    "cutovers": _each(_cutover),
    "commands": _each(_command),
    "history": _each(_history),
    "conditions": _conditions,
}
"""Fields whose times are shifted and whose texts are dropped."""


def normal_status(there: World, frame: Frame) -> tuple[RolloutStatus, Runs]:
    """The status, and the runs that it has records of."""
    status = there.status
    assert_not_here(status, RolloutStatus(), STATUS_NOT_HERE)
    values: dict[str, Any] = {name: getattr(status, name) for name in STATUS_KEPT}
    if frame.bounds.progress_s:
        values |= {name: getattr(status, name) for name in STATUS_COUNTS}
    for name, shape in STATUS_SHAPED.items():
        values[name] = shape(getattr(status, name), frame)
    values["analyses"], runs = records_and_runs(there, frame, version=str(VERSION))
    return RolloutStatus(**values), runs


def assert_not_here(value: Struct, plain: Struct, names: tuple[str, ...]) -> None:
    for name in names:
        assert getattr(value, name) == getattr(plain, name), f"the normal form has no line for {name}"
