"""`.status` of a Rollout to and from the wire, without loss.

Somebody may edit a status, an older controller may read a newer one's: reading never raises. A part that cannot be read falls
back to its default and is named in the problems; an abort whose reason is unknown stays an abort (hold, never promote).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

from pydantic_core import from_json

from rollouts.api.times import format_time, parse_time
from rollouts.core.cutover import SIGNAL
from rollouts.core.pre_stop import Injection
from rollouts.core.reasons import Reason
from rollouts.core.status import (
    Abort,
    Command,
    Condition,
    Cutover,
    HistoryEntry,
    Outcome,
    Phase,
    RolloutStatus,
    ScaleDown,
    Verb,
    WaitingFor,
)
from rollouts.objects import Manifest

_MESSAGE_MAX = 32_768  # characters, as a condition's message in apimachinery; the CRD says the same
_CAN_WAIT = frozenset(
    {"replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "progressedAt", "waitingFor", "message"}
)
_T = TypeVar("_T")
_W = TypeVar("_W", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class StatusRead:
    """A status as it could be read, and what could not: one sentence with a path for each."""

    status: RolloutStatus
    problems: tuple[str, ...] = ()


def status_to_wire(status: RolloutStatus, *, step_count: int = 0) -> Manifest:
    """The status as JSON; what is unset is left out. Messages are cut at 32,768 characters, times at microseconds.

    Args:
        step_count: of the canary; gives `step` for the printer column, "2/5" when two of five are done. 0 leaves it out.
    """
    blue_green = {
        "activeRevision": status.active_revision or None,
        "previewRevision": status.preview_revision or None,
        "gateStartedAt": _time(status.gate_started_at_s),
        "gatePassed": status.gate_passed or None,
    }
    wire = {
        "phase": status.phase.value,
        "message": status.message[:_MESSAGE_MAX] or None,
        "observedGeneration": status.observed_generation,
        "currentRevision": status.current_revision or None,
        "stableRevision": status.stable_revision or None,
        "revisionNumber": status.revision_number,
        "strategyHash": status.strategy_hash or None,
        "currentStepIndex": status.step_index,
        "step": f"{min(status.step_index, step_count)}/{step_count}" if step_count else None,
        "stepStartedAt": _time(status.step_started_at_s),
        "startedAt": _time(status.started_at_s),
        "finishedAt": _time(status.finished_at_s),
        "attempt": status.attempt or None,
        "abort": _abort_to_wire(status.abort),
        "progressedAt": _time(status.progressed_at_s),
        "weight": status.weight_percent,
        "blueGreen": _present(blue_green) or None,
        "restartedAt": _time(status.restarted_at_s),
        "replicas": status.replicas,
        "updatedReplicas": status.updated_replicas,
        "readyReplicas": status.ready_replicas,
        "availableReplicas": status.available_replicas,
        "selector": status.selector or None,
        "waitingFor": _waiting_to_wire(status.waiting_for),
        "scaleDowns": [{"revision": one.revision, "at": format_time(one.at_s)} for one in status.scale_downs] or None,
        "drain": _drain_to_wire(status),
        "commands": [_command_to_wire(one) for one in status.commands] or None,
        "history": [_history_to_wire(one) for one in status.history] or None,
        "conditions": [_condition_to_wire(one) for one in status.conditions] or None,
    }
    return _present(wire)


def status_from_wire(wire: Mapping[str, Any] | bytes) -> RolloutStatus:
    """The status, with defaults for what cannot be read; see `read_status` for what that was. Raises: nothing."""
    return read_status(wire).status


def read_status(wire: Mapping[str, Any] | bytes) -> StatusRead:
    """The status and everything in it that could not be read. Empty bytes and `{}` are a new Rollout's. Raises: nothing."""
    if isinstance(wire, bytes):
        try:
            wire = from_json(wire) if wire else {}
        except ValueError:
            return StatusRead(RolloutStatus(), ("status: is not JSON",))
    if wire is None:
        wire = {}
    if not isinstance(wire, Mapping):
        return StatusRead(RolloutStatus(), ("status: is not an object",))
    problems: list[str] = []
    status = _Reader(wire, "status", problems)
    blue_green, drain = status.child("blueGreen"), status.child("drain")
    read = RolloutStatus(
        phase=status.word("phase", Phase, Phase.PROGRESSING),
        message=status.text("message"),
        observed_generation=status.number("observedGeneration"),
        current_revision=status.text("currentRevision"),
        stable_revision=status.text("stableRevision"),
        revision_number=status.number("revisionNumber"),
        strategy_hash=status.text("strategyHash"),
        step_index=status.number("currentStepIndex"),
        step_started_at_s=status.time("stepStartedAt"),
        started_at_s=status.time("startedAt"),
        finished_at_s=status.time("finishedAt"),
        attempt=status.number("attempt"),
        abort=status.part("abort", _abort_from_wire),
        progressed_at_s=status.time("progressedAt"),
        weight_percent=status.optional_number("weight"),
        active_revision=blue_green.text("activeRevision"),
        preview_revision=blue_green.text("previewRevision"),
        gate_started_at_s=blue_green.time("gateStartedAt"),
        gate_passed=blue_green.flag("gatePassed"),
        restarted_at_s=status.time("restartedAt"),
        replicas=status.number("replicas"),
        updated_replicas=status.number("updatedReplicas"),
        ready_replicas=status.number("readyReplicas"),
        available_replicas=status.number("availableReplicas"),
        selector=status.text("selector"),
        waiting_for=status.part("waitingFor", _waiting_from_wire),
        scale_downs=status.parts("scaleDowns", _scale_down_from_wire),
        injection=drain.part("preStop", _injection_from_wire),
        cutovers=drain.parts("cutovers", _cutover_from_wire),
        commands=status.parts("commands", _command_from_wire),
        history=status.parts("history", _history_from_wire),
        conditions=status.parts("conditions", _condition_from_wire),
    )
    return StatusRead(read, tuple(problems))


def merge_patch(old: Mapping[str, Any], new: Mapping[str, Any]) -> Manifest:
    """The JSON merge patch that turns `old` into `new`; {} when they are equal. Source: RFC 7396."""
    patch: Manifest = {}
    for key, value in new.items():
        before = old.get(key)
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            if inner := merge_patch(before, value):
                patch[key] = inner
        elif key not in old or before != value or type(before) is not type(value):
            patch[key] = value
    for key in old:
        if key not in new:
            patch[key] = None
    return patch


def can_wait(patch: Mapping[str, Any]) -> bool:
    """Whether a patch of the status only tells people more of the same: pod counts, and what the same phase waits for."""
    return _CAN_WAIT.issuperset(patch)


def _present(wire: Mapping[str, Any]) -> Manifest:
    return {key: value for key, value in wire.items() if value is not None}


def _time(at_s: float | None) -> str | None:
    return None if at_s is None else format_time(at_s)


def _drain_to_wire(status: RolloutStatus) -> Manifest | None:
    if status.injection is None and not status.cutovers:
        return None
    return _present(
        {
            "preStop": _injection_to_wire(status.injection),
            "cutovers": [_cutover_to_wire(one) for one in status.cutovers] or None,
        }
    )


def _injection_to_wire(injection: Injection | None) -> Manifest | None:
    if injection is None:
        return None
    return {
        "containers": list(injection.containers),
        "seconds": injection.pre_stop_s,
        "graceSeconds": injection.grace_s,
        "native": injection.native,
    }


def _cutover_to_wire(cutover: Cutover) -> Manifest:
    wire: Manifest = {"service": cutover.service, "from": cutover.from_revision, "to": cutover.to_revision}
    if cutover.confirmed_at_s is None or cutover.until_s is None:
        return wire
    return _present(
        {
            **wire,
            "signal": SIGNAL,
            "confirmedAt": format_time(cutover.confirmed_at_s),
            "proxyLagSeconds": cutover.proxy_lag_s,
            "neededSeconds": cutover.needed_s,
            "waitedSeconds": round(cutover.until_s - cutover.confirmed_at_s, 3),
            "until": format_time(cutover.until_s),
            "message": cutover.message[:_MESSAGE_MAX] or None,
            "timedOut": cutover.timed_out or None,
        }
    )


def _abort_to_wire(abort: Abort | None) -> Manifest | None:
    if abort is None:
        return None
    return {
        "revision": abort.revision,
        "at": format_time(abort.at_s),
        "reason": abort.reason.value,
        "message": abort.message[:_MESSAGE_MAX],
        "declared": abort.declared,
    }


def _waiting_to_wire(waiting: WaitingFor | None) -> Manifest | None:
    if waiting is None:
        return None
    return _present(
        {
            "reason": waiting.reason.value,
            "message": waiting.message[:_MESSAGE_MAX],
            "since": format_time(waiting.since_s),
            "deadline": _time(waiting.deadline_s),
        }
    )


def _command_to_wire(command: Command) -> Manifest:
    return _present(
        {
            "verb": command.verb.value,
            "value": command.value,
            "revision": command.revision,
            "at": format_time(command.at_s),
            "step": command.step,
            "target": command.target or None,
            "takenOff": command.taken_off or None,
        }
    )


def _history_to_wire(entry: HistoryEntry) -> Manifest:
    return _present(
        {
            "revision": entry.revision,
            "number": entry.number,
            "startedAt": format_time(entry.started_at_s),
            "finishedAt": format_time(entry.finished_at_s),
            "outcome": entry.outcome.value,
            "message": entry.message[:_MESSAGE_MAX] or None,
        }
    )


def _condition_to_wire(condition: Condition) -> Manifest:
    return {
        "type": condition.type,
        "status": "True" if condition.status else "False",
        "reason": condition.reason.value,
        "message": condition.message[:_MESSAGE_MAX],
        "lastTransitionTime": format_time(condition.since_s),
        "observedGeneration": condition.observed_generation,
    }


class _Unreadable(Exception):
    """A part that makes no sense without the field named in the message."""


class _Reader:
    """Reads the fields of one JSON object, never raising, except for `need_…`, which give the whole part up."""

    def __init__(self, wire: Mapping[str, Any], path: str, problems: list[str]) -> None:
        self._wire = wire
        self._path = path
        self._problems = problems

    def text(self, name: str) -> str:
        value = self._wire.get(name)
        return value if isinstance(value, str) else self._default(name, "a string", "")

    def texts(self, name: str) -> tuple[str, ...]:
        value = self._wire.get(name)
        if isinstance(value, list) and all(isinstance(each, str) for each in value):
            return tuple(value)
        return self._default(name, "a list of strings", ())

    def seconds(self, name: str) -> float:
        value = self._wire.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
            return float(value)
        return self._default(name, "a number of 0 or more", 0.0)

    def number(self, name: str) -> int:
        return self.optional_number(name) or 0

    def optional_number(self, name: str) -> int | None:
        value = self._wire.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
        return self._default(name, "an integer of 0 or more", None)

    def flag(self, name: str) -> bool:
        value = self._wire.get(name)
        return value if isinstance(value, bool) else self._default(name, "true or false", False)

    def time(self, name: str) -> float | None:
        value = self._wire.get(name)
        if isinstance(value, str):
            try:
                return parse_time(value)
            except ValueError:
                pass
        return self._default(name, "an RFC 3339 time", None)

    def word(self, name: str, words: type[_W], default: _W) -> _W:
        value = self._wire.get(name)
        if isinstance(value, str) and value in words._value2member_map_:
            return words(value)
        return self._default(name, f"a {words.__name__} of this version", default)

    def child(self, name: str) -> _Reader:
        value = self._wire.get(name)
        if not isinstance(value, Mapping):
            value = self._default(name, "an object", {})
        return _Reader(value, f"{self._path}.{name}", self._problems)

    def part(self, name: str, read: Callable[[_Reader], _T]) -> _T | None:
        if self._wire.get(name) is None:
            return None
        value = self._wire[name]
        if not isinstance(value, Mapping):
            return self._default(name, "an object", None)
        return self._whole(f"{self._path}.{name}", value, read)

    def parts(self, name: str, read: Callable[[_Reader], _T]) -> tuple[_T, ...]:
        value = self._wire.get(name)
        if not isinstance(value, list):
            return self._default(name, "a list", ())
        found = []
        for index, entry in enumerate(value):
            path = f"{self._path}.{name}[{index}]"
            if not isinstance(entry, Mapping):
                self._problems.append(f"{path}: is not an object")
            elif (part := self._whole(path, entry, read)) is not None:
                found.append(part)
        return tuple(found)

    def absent(self, name: str) -> bool:
        return self._wire.get(name) is None

    def need_text(self, name: str) -> str:
        value = self._wire.get(name)
        if not isinstance(value, str):
            raise _Unreadable(name)
        return value

    def need_time(self, name: str) -> float:
        try:
            return parse_time(self.need_text(name))
        except ValueError as error:
            raise _Unreadable(name) from error

    def need_word(self, name: str, words: type[_W]) -> _W:
        value = self.need_text(name)
        if value not in words._value2member_map_:
            raise _Unreadable(name)
        return words(value)

    def _whole(self, path: str, value: Mapping[str, Any], read: Callable[[_Reader], _T]) -> _T | None:
        try:
            return read(_Reader(value, path, self._problems))
        except _Unreadable as field:
            self._problems.append(f"{path}.{field}: cannot be read, so {path} is left out")
            return None

    def _default(self, name: str, wanted: str, default: _T) -> _T:
        if self._wire.get(name) is not None:
            self._problems.append(f"{self._path}.{name}: is not {wanted}")
        return default


def _abort_from_wire(wire: _Reader) -> Abort:
    """Anything that names a revision holds it back; only an abort of nothing is left out."""
    return Abort(
        revision=wire.need_text("revision"),
        at_s=wire.time("at") or 0.0,
        reason=wire.word("reason", Reason, Reason.ROLLOUT_ABORTED),
        message=wire.text("message"),
        declared=wire.flag("declared"),
    )


def _waiting_from_wire(wire: _Reader) -> WaitingFor:
    return WaitingFor(
        reason=wire.need_word("reason", Reason),
        message=wire.text("message"),
        since_s=wire.need_time("since"),
        deadline_s=wire.time("deadline"),
    )


def _scale_down_from_wire(wire: _Reader) -> ScaleDown:
    return ScaleDown(revision=wire.need_text("revision"), at_s=wire.need_time("at"))


def _injection_from_wire(wire: _Reader) -> Injection:
    return Injection(
        containers=wire.texts("containers"),
        pre_stop_s=wire.number("seconds"),
        grace_s=wire.number("graceSeconds"),
        native=wire.flag("native"),
    )


def _cutover_from_wire(wire: _Reader) -> Cutover:
    """One without its times is one that nothing has confirmed: its wait begins anew."""
    confirmed_at_s, until_s = wire.time("confirmedAt"), wire.time("until")
    if confirmed_at_s is None or until_s is None:
        return Cutover(service=wire.text("service"), from_revision=wire.need_text("from"), to_revision=wire.text("to"))
    return Cutover(
        service=wire.text("service"),
        from_revision=wire.need_text("from"),
        to_revision=wire.text("to"),
        confirmed_at_s=confirmed_at_s,
        proxy_lag_s=wire.seconds("proxyLagSeconds"),
        needed_s=wire.seconds("neededSeconds"),
        until_s=until_s,
        message=wire.text("message"),
        timed_out=wire.flag("timedOut"),
    )


def _command_from_wire(wire: _Reader) -> Command:
    step = wire.optional_number("step")
    if step is None and not wire.absent("step"):
        raise _Unreadable("step")  # None would let every step pass
    return Command(
        verb=wire.need_word("verb", Verb),
        value=wire.need_text("value"),
        revision=wire.need_text("revision"),
        at_s=wire.need_time("at"),
        step=step,
        target=wire.text("target"),
        taken_off=wire.flag("takenOff"),
    )


def _history_from_wire(wire: _Reader) -> HistoryEntry:
    return HistoryEntry(
        revision=wire.need_text("revision"),
        number=wire.number("number"),
        started_at_s=wire.need_time("startedAt"),
        finished_at_s=wire.need_time("finishedAt"),
        outcome=wire.need_word("outcome", Outcome),
        message=wire.text("message"),
    )


def _condition_from_wire(wire: _Reader) -> Condition:
    status = wire.need_text("status")
    if status not in ("True", "False"):
        raise _Unreadable("status")
    return Condition(
        type=wire.need_text("type"),
        status=status == "True",
        reason=wire.need_word("reason", Reason),
        message=wire.text("message"),
        since_s=wire.need_time("lastTransitionTime"),
        observed_generation=wire.number("observedGeneration"),
    )
