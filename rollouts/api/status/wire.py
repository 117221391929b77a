"""Converts `.status` of a Rollout to JSON and back, without loss: by the fields that `core/model/status.py` declares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from pydantic_core import from_json as parsed

from rollouts.api.status.codec import SHAPES, Derived, FieldMissing, JsonShape, from_json, schema_of, to_json
from rollouts.core.drain.cutover import SIGNAL
from rollouts.core.model.analysis import AnalysisGate, AnalysisKind
from rollouts.core.model.author import Author
from rollouts.core.model.autoscaling import AutoscalerRecord
from rollouts.core.model.pod_exit import Injection, injection_fields, read_injection
from rollouts.core.model.status import Command, Condition, Cutover, GivenBack, RolloutStatus, Verb
from rollouts.objects import AUTOSCALER, Manifest

_UPDATED = frozenset({"updatedReplicas", "updatedReadyReplicas", "updatedAvailableReplicas"})
_COUNTS = _UPDATED | {"replicas", "readyReplicas", "availableReplicas", "HPAReplicas"}
_CAN_WAIT = _COUNTS | {"progressedAt", "waitingFor", "message", "autoscaling"}
_ACCEPTED, _REFUSED, _OVER = "Accepted", "Refused", "Over"


class StatusRead(Struct, frozen=True):
    """The readable parts of a status, and a sentence with a path for each part that cannot be read."""

    status: RolloutStatus
    problems: tuple[str, ...] = ()


def status_to_wire(status: RolloutStatus, *, step_count: int = 0) -> Manifest:
    """The status as JSON; what is unset is left out. Messages are cut at 32,768 characters, times at microseconds.

    Args:
        step_count: number of the canary's steps, for the field `step` ("2/5": two of five are done); 0 leaves the field out.
    """
    wire = to_json(status)
    if step_count:
        wire["step"] = f"{min(status.step_index, step_count)}/{step_count}"
    return wire


def status_from_wire(wire: Mapping[str, Any] | bytes) -> RolloutStatus:
    """The status, with defaults for what cannot be read, which `read_status` also reports. Raises: nothing."""
    return read_status(wire).status


def read_status(wire: Mapping[str, Any] | bytes) -> StatusRead:
    """The status, and what in it cannot be read. Empty bytes and `{}` are the status of a new Rollout. Raises: nothing."""
    if isinstance(wire, bytes):
        try:
            # Else the parser keeps 16,384 texts, times above all, and each update brings seven new ones.
            wire = parsed(wire, cache_strings="keys") if wire else {}
        except ValueError:
            return StatusRead(RolloutStatus(), ("status: is not JSON",))
    if wire is None:
        wire = {}
    if not isinstance(wire, Mapping):
        return StatusRead(RolloutStatus(), ("status: is not an object",))
    problems: list[str] = []
    return StatusRead(from_json(RolloutStatus, wire, "status", problems), tuple(problems))


def status_schema() -> Manifest:
    """The schema of `.status` for the CRD."""
    return schema_of(RolloutStatus)


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


def _outcome(command: Command) -> str:
    if command.refusal is not None:
        return _REFUSED
    return _OVER if command.over else _ACCEPTED


def _read_command(values: dict[str, Any], wire: Mapping[str, Any]) -> None:
    """An unknown outcome counts as Refused. Older controllers wrote none for a command that they did not refuse."""
    outcome = wire.get("outcome")
    if outcome is None or outcome in (_ACCEPTED, _OVER):
        values["refusal"] = None
    # A controller that wrote no outcome recorded this abort and carried it out in one write.
    done = outcome is None and (values["verb"], values["value"]) == (Verb.ABORT, "true")
    values["over"] = done or outcome == _OVER


def _read_gate(values: dict[str, Any], _wire: Mapping[str, Any]) -> None:
    if (values.get("step") is not None) != AnalysisKind(values["kind"]).is_step:
        raise FieldMissing("step")


def _read_author(values: dict[str, Any], _wire: Mapping[str, Any]) -> None:
    if not values["name"]:
        raise FieldMissing("by")


def _waited_s(cutover: Cutover) -> float | None:
    if cutover.confirmed_at_s is None or cutover.until_s is None:
        return None
    return round(cutover.until_s - cutover.confirmed_at_s, 3)


def _read_cutover(values: dict[str, Any], _wire: Mapping[str, Any]) -> None:
    """Without its times it counts as not confirmed, and its wait begins again."""
    if values.get("confirmed_at_s") is None or values.get("until_s") is None:
        for name in values.keys() - {"service", "from_revision", "to_revision"}:
            del values[name]


SHAPES.update(
    {
        RolloutStatus: JsonShape(
            derived=(
                Derived(
                    "step", "How many steps are done, and how many there are: 1/4.", lambda _: None, "stepStartedAt"
                ),
            )
        ),
        Command: JsonShape(
            derived=(
                Derived(
                    "outcome",
                    "Accepted. Refused: reason and message say why. Over: it was carried out, or no longer applies.",
                    _outcome,
                    "refusal",
                ),
            ),
            read=_read_command,
        ),
        AnalysisGate: JsonShape(read=_read_gate),
        Author: JsonShape(read=_read_author),
        AutoscalerRecord: JsonShape(
            derived=(Derived("kind", "HorizontalPodAutoscaler.", lambda _: AUTOSCALER.kind, "name"),)
        ),
        Cutover: JsonShape(
            derived=(
                Derived(
                    "signal", "What confirmed that the Service had left the revision.", lambda _: SIGNAL, "confirmedAt"
                ),
                Derived(
                    "waitedSeconds",
                    "Seconds from confirmedAt for which the pods are, or were, kept.",
                    _waited_s,
                    "until",
                    schema={"type": "number"},
                ),
            ),
            written=lambda cutover, wire: (
                wire if _waited_s(cutover) is not None else {name: wire[name] for name in ("service", "from", "to")}
            ),
            read=_read_cutover,
        ),
        GivenBack: JsonShape(written=lambda given_back, wire: {"route": given_back.display_name} | wire),
        Injection: JsonShape(whole=(injection_fields, read_injection)),
        Condition: JsonShape(required=("type", "status")),
    }
)
