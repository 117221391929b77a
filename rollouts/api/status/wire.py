"""Converts `.status` of a Rollout to JSON and back, without loss.

Reading never raises, because somebody may edit a status, and an older controller may read a newer one's. A part that cannot be
read gets its default and is reported as a problem; an abort whose reason is unknown stays an abort.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from pydantic_core import from_json

from rollouts.api.status.analyses import record_from_wire, record_to_wire
from rollouts.api.status.autoscaling import autoscaling_from_wire, autoscaling_to_wire
from rollouts.api.status.commands import command_from_wire, command_to_wire, given_from_wire, given_to_wire
from rollouts.api.status.reader import MESSAGE_MAX, FieldMissing, Reader, weight_to_wire
from rollouts.api.times import format_time, time_or_none
from rollouts.core.drain.cutover import SIGNAL
from rollouts.core.model.pod_exit import Injection, injection_fields, read_injection
from rollouts.core.model.reasons import Reason
from rollouts.core.model.service_ref import service_ref
from rollouts.core.model.status import (
    Abort,
    Condition,
    Cutover,
    GivenBack,
    HistoryEntry,
    Idle,
    Outcome,
    Phase,
    RolloutStatus,
    ScaleDown,
    Traffic,
    WaitingFor,
)
from rollouts.core.model.steps import WeightPercent
from rollouts.core.model.traffic import RouteName, VerifiedBy, route_place
from rollouts.objects import Manifest

_PONG = "pong"
_UPDATED = frozenset({"updatedReplicas", "updatedReadyReplicas", "updatedAvailableReplicas"})
_COUNTS = _UPDATED | {"replicas", "readyReplicas", "availableReplicas", "HPAReplicas"}
_CAN_WAIT = _COUNTS | {"progressedAt", "waitingFor", "message", "autoscaling"}


class StatusRead(Struct, frozen=True):
    """The readable parts of a status, and a sentence with a path for each part that cannot be read."""

    status: RolloutStatus
    problems: tuple[str, ...] = ()


def status_to_wire(status: RolloutStatus, *, step_count: int = 0) -> Manifest:
    """The status as JSON; what is unset is left out. Messages are cut at 32,768 characters, times at microseconds.

    Args:
        step_count: number of the canary's steps, for the field `step` ("2/5": two of five are done); 0 leaves the field out.
    """
    blue_green = {
        "activeRevision": status.active_revision or None,
        "previewRevision": status.preview_revision or None,
        "gateStartedAt": time_or_none(status.gate_started_at_s),
        "gatePassed": status.gate_passed or None,
    }
    wire = {
        "phase": status.phase.value,
        "message": status.message[:MESSAGE_MAX] or None,
        "observedGeneration": status.observed_generation,
        "currentRevision": status.current_revision or None,
        "stableRevision": status.stable_revision or None,
        "revisionNumber": status.revision_number,
        "strategyHash": status.strategy_hash or None,
        "currentStepIndex": status.step_index,
        "step": f"{min(status.step_index, step_count)}/{step_count}" if step_count else None,
        "stepStartedAt": time_or_none(status.step_started_at_s),
        "startedAt": time_or_none(status.started_at_s),
        "finishedAt": time_or_none(status.finished_at_s),
        "attempt": status.attempt or None,
        "abort": _abort_to_wire(status.abort),
        "progressedAt": time_or_none(status.progressed_at_s),
        "weight": weight_to_wire(status.weight_percent),
        "traffic": _traffic_to_wire(status.traffic),
        "givenBack": [_given_back_to_wire(one) for one in status.given_back] or None,
        "routesElsewhere": [_elsewhere_to_wire(one) for one in status.elsewhere] or None,
        "stablePingPong": _PONG if status.pong_is_stable else None,
        "blueGreen": _present(blue_green) or None,
        "restartedAt": time_or_none(status.restarted_at_s),
        "evictingSince": time_or_none(status.evicting_since_s),
        "replicas": status.replicas,
        "updatedReplicas": status.updated_replicas,
        "updatedReadyReplicas": status.updated_ready_replicas,
        "updatedAvailableReplicas": status.updated_available_replicas,
        "readyReplicas": status.ready_replicas,
        "availableReplicas": status.available_replicas,
        "HPAReplicas": status.hpa_replicas,
        "selector": status.selector or None,
        "waitingFor": _waiting_to_wire(status.waiting_for),
        "scaleDowns": [{"revision": one.revision, "at": format_time(one.at_s)} for one in status.scale_downs] or None,
        "drain": _drain_to_wire(status),
        "commands": [command_to_wire(one) for one in status.commands] or None,
        "authors": [given_to_wire(one) for one in status.authors] or None,
        "history": [_history_to_wire(one) for one in status.history] or None,
        "analyses": [record_to_wire(one) for one in status.analyses] or None,
        "autoscaling": autoscaling_to_wire(status.autoscaling),
        "conditions": [_condition_to_wire(one) for one in status.conditions] or None,
    }
    return _present(wire)


def status_from_wire(wire: Mapping[str, Any] | bytes) -> RolloutStatus:
    """The status, with defaults for what cannot be read, which `read_status` also reports. Raises: nothing."""
    return read_status(wire).status


def read_status(wire: Mapping[str, Any] | bytes) -> StatusRead:
    """The status, and what in it cannot be read. Empty bytes and `{}` are the status of a new Rollout. Raises: nothing."""
    if isinstance(wire, bytes):
        try:
            # Else the parser keeps 16,384 texts, times above all, and each update brings seven new ones.
            wire = from_json(wire, cache_strings="keys") if wire else {}
        except ValueError:
            return StatusRead(RolloutStatus(), ("status: is not JSON",))
    if wire is None:
        wire = {}
    if not isinstance(wire, Mapping):
        return StatusRead(RolloutStatus(), ("status: is not an object",))
    problems: list[str] = []
    status = Reader(wire, "status", problems)
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
        weight_percent=status.optional_weight("weight"),
        traffic=status.part("traffic", _traffic_from_wire),
        given_back=status.parts("givenBack", _given_back_from_wire),
        elsewhere=status.parts("routesElsewhere", _elsewhere_from_wire),
        pong_is_stable=status.text("stablePingPong") == _PONG,
        active_revision=blue_green.text("activeRevision"),
        preview_revision=blue_green.text("previewRevision"),
        gate_started_at_s=blue_green.time("gateStartedAt"),
        gate_passed=blue_green.flag("gatePassed"),
        restarted_at_s=status.time("restartedAt"),
        evicting_since_s=status.time("evictingSince"),
        replicas=status.number("replicas"),
        updated_replicas=status.number("updatedReplicas"),
        updated_ready_replicas=status.number("updatedReadyReplicas"),
        updated_available_replicas=status.number("updatedAvailableReplicas"),
        ready_replicas=status.number("readyReplicas"),
        available_replicas=status.number("availableReplicas"),
        hpa_replicas=status.number("HPAReplicas"),
        selector=status.text("selector"),
        waiting_for=status.part("waitingFor", _waiting_from_wire),
        scale_downs=status.parts("scaleDowns", _scale_down_from_wire),
        injection=drain.part("preStop", _injection_from_wire),
        cutovers=drain.parts("cutovers", _cutover_from_wire),
        commands=status.parts("commands", command_from_wire),
        authors=status.parts("authors", given_from_wire),
        history=status.parts("history", _history_from_wire),
        analyses=status.parts("analyses", record_from_wire),
        autoscaling=status.part("autoscaling", autoscaling_from_wire),
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
    """Whether a patch of the status may be written later: it changes only counts, figures, the wait, and its message."""
    return _CAN_WAIT.issuperset(patch)


def _present(wire: Mapping[str, Any]) -> Manifest:
    return {key: value for key, value in wire.items() if value is not None}


def _traffic_to_wire(traffic: Traffic | None) -> Manifest | None:
    if traffic is None:
        return None
    observed = None
    if traffic.observed_percent is not None or traffic.observed_routes:
        observed = _traffic_part(traffic.observed_percent, traffic.observed_routes)
    return _present(
        {
            "desired": _traffic_part(traffic.desired_percent, traffic.desired_routes),
            "seenAt": time_or_none(traffic.seen_at_s),
            "observed": observed,
            "verifiedBy": None if traffic.verified_by is None else traffic.verified_by.value,
        }
    )


def _traffic_part(percent: WeightPercent | None, routes: tuple[str, ...]) -> Manifest:
    return _present({"weight": weight_to_wire(percent), "routes": list(routes) or None})


def _given_back_to_wire(one: GivenBack) -> Manifest:
    return _present(
        {
            "route": one.display_name,
            "weight": weight_to_wire(one.percent),
            "settleSeconds": one.settle_s,
            "goneAt": time_or_none(one.gone_at_s),
        }
    )


def _elsewhere_to_wire(one: RouteName) -> Manifest:
    return {"router": one.router, "kind": one.kind, "namespace": one.namespace, "name": one.name}


def _drain_to_wire(status: RolloutStatus) -> Manifest | None:
    if status.injection is None and not status.cutovers:
        return None
    return _present(
        {
            "preStop": injection_fields(status.injection) if status.injection is not None else None,
            "cutovers": [_cutover_to_wire(one) for one in status.cutovers] or None,
        }
    )


def _cutover_to_wire(cutover: Cutover) -> Manifest:
    wire: Manifest = {"service": str(cutover.service), "from": cutover.from_revision, "to": cutover.to_revision}
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
            "message": cutover.message[:MESSAGE_MAX] or None,
            "timedOut": cutover.timed_out or None,
            "idle": _idle_to_wire(cutover.idle),
            "streamsIdle": _idle_to_wire(cutover.streams_idle),
            "drained": cutover.drained or None,
            "inFlight": cutover.in_flight,
            "streams": cutover.streams,
        }
    )


def _idle_to_wire(idle: Idle | None) -> Manifest | None:
    return None if idle is None else {"polls": idle.polls, "at": format_time(idle.at_s)}


def _abort_to_wire(abort: Abort | None) -> Manifest | None:
    if abort is None:
        return None
    return {
        "revision": abort.revision,
        "at": format_time(abort.at_s),
        "reason": abort.reason.value,
        "message": abort.message[:MESSAGE_MAX],
        "declared": abort.declared,
    }


def _waiting_to_wire(waiting: WaitingFor | None) -> Manifest | None:
    if waiting is None:
        return None
    return _present(
        {
            "reason": waiting.reason.value,
            "message": waiting.message[:MESSAGE_MAX],
            "since": format_time(waiting.since_s),
            "deadline": time_or_none(waiting.deadline_s),
            "problem": waiting.problem[:MESSAGE_MAX] or None,
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
            "message": entry.message[:MESSAGE_MAX] or None,
            "authors": [given_to_wire(one) for one in entry.authors] or None,
        }
    )


def _condition_to_wire(condition: Condition) -> Manifest:
    return {
        "type": condition.type,
        "status": "True" if condition.status else "False",
        "reason": condition.reason.value,
        "message": condition.message[:MESSAGE_MAX],
        "lastTransitionTime": format_time(condition.since_s),
        "observedGeneration": condition.observed_generation,
    }


def _traffic_from_wire(wire: Reader) -> Traffic:
    """Reads `traffic`. Without a desired weight the part is left out, and `decide` records and confirms the split again."""
    desired, observed = wire.child("desired"), wire.child("observed")
    return Traffic(
        desired_percent=desired.need_weight("weight"),
        desired_routes=desired.texts("routes"),
        seen_at_s=wire.time("seenAt"),
        observed_percent=observed.optional_weight("weight"),
        observed_routes=observed.texts("routes"),
        verified_by=wire.optional_word("verifiedBy", VerifiedBy),
    )


def _given_back_from_wire(wire: Reader) -> GivenBack:
    return GivenBack(
        route=route_place(wire.need_text("route")),
        percent=wire.need_weight("weight"),
        settle_s=wire.seconds("settleSeconds"),
        gone_at_s=wire.time("goneAt"),
    )


def _elsewhere_from_wire(wire: Reader) -> RouteName:
    return RouteName(*(wire.need_text(field) for field in ("router", "kind", "namespace", "name")))


def _abort_from_wire(wire: Reader) -> Abort:
    """Reads `abort`. It is left out only if it names no revision."""
    return Abort(
        revision=wire.need_text("revision"),
        at_s=wire.time("at") or 0.0,
        reason=wire.word("reason", Reason, Reason.ROLLOUT_ABORTED),
        message=wire.text("message"),
        declared=wire.flag("declared"),
    )


def _waiting_from_wire(wire: Reader) -> WaitingFor:
    return WaitingFor(
        reason=wire.need_word("reason", Reason),
        message=wire.text("message"),
        since_s=wire.need_time("since"),
        deadline_s=wire.time("deadline"),
        problem=wire.text("problem"),
    )


def _scale_down_from_wire(wire: Reader) -> ScaleDown:
    return ScaleDown(revision=wire.need_text("revision"), at_s=wire.need_time("at"))


def _injection_from_wire(wire: Reader) -> Injection:
    """Reads `drain.preStop`, which has the same fields as on a ReplicaSet. An incomplete one is left out."""
    injection = read_injection(wire.fields)
    if injection is None:
        raise FieldMissing("*")
    return injection


def _cutover_from_wire(wire: Reader) -> Cutover:
    """Reads a cutover. Without its times it counts as not confirmed, and its wait begins again."""
    confirmed_at_s, until_s = wire.time("confirmedAt"), wire.time("until")
    service = service_ref(wire.text("service"))
    if confirmed_at_s is None or until_s is None:
        return Cutover(service=service, from_revision=wire.need_text("from"), to_revision=wire.text("to"))
    return Cutover(
        service=service,
        from_revision=wire.need_text("from"),
        to_revision=wire.text("to"),
        confirmed_at_s=confirmed_at_s,
        proxy_lag_s=wire.seconds("proxyLagSeconds"),
        needed_s=wire.seconds("neededSeconds"),
        until_s=until_s,
        message=wire.text("message"),
        timed_out=wire.flag("timedOut"),
        idle=wire.part("idle", _idle_from_wire),
        streams_idle=wire.part("streamsIdle", _idle_from_wire),
        drained=wire.flag("drained"),
        in_flight=wire.optional_number("inFlight"),
        streams=wire.optional_number("streams"),
    )


def _idle_from_wire(wire: Reader) -> Idle:
    return Idle(wire.number("polls"), wire.need_time("at"))


def _history_from_wire(wire: Reader) -> HistoryEntry:
    return HistoryEntry(
        revision=wire.need_text("revision"),
        number=wire.number("number"),
        started_at_s=wire.need_time("startedAt"),
        finished_at_s=wire.need_time("finishedAt"),
        outcome=wire.need_word("outcome", Outcome),
        message=wire.text("message"),
        authors=wire.parts("authors", given_from_wire),
    )


def _condition_from_wire(wire: Reader) -> Condition:
    status = wire.need_text("status")
    if status not in ("True", "False"):
        raise FieldMissing("status")
    return Condition(
        type=wire.need_text("type"),
        status=status == "True",
        reason=wire.need_word("reason", Reason),
        message=wire.text("message"),
        since_s=wire.need_time("lastTransitionTime"),
        observed_generation=wire.number("observedGeneration"),
    )
