"""What `.status` of a Rollout tells of its autoscalers and of a container, to and from the wire. Nothing is decided by it."""

from __future__ import annotations

from typing import Any

from rollouts.api.status.reader import Reader
from rollouts.api.times import format_time, time_or_none
from rollouts.core.model.autoscaling import AutoscalerRecord, AutoscalingRecord, UseRecord
from rollouts.objects import AUTOSCALER, Manifest


def autoscaling_to_wire(record: AutoscalingRecord | None) -> Manifest | None:
    """`status.autoscaling`; what is unset is left out."""
    if record is None:
        return None
    return _present(
        at=format_time(record.at_s),
        autoscalers=[_autoscaler_to_wire(each) for each in record.autoscalers] or None,
        container=record.container or None,
        resource=record.resource or None,
        use=[_use_to_wire(each) for each in record.use] or None,
    )


def autoscaling_from_wire(wire: Reader) -> AutoscalingRecord:
    """Raises: FieldMissing, without its time: the next look tells it again."""
    return AutoscalingRecord(
        at_s=wire.need_time("at"),
        autoscalers=wire.parts("autoscalers", _autoscaler_from_wire),
        container=wire.text("container"),
        resource=wire.text("resource"),
        use=wire.parts("use", _use_from_wire),
    )


def _autoscaler_to_wire(record: AutoscalerRecord) -> Manifest:
    return _present(
        kind=AUTOSCALER.kind,
        name=record.name,
        owner=record.owner or None,
        desired=record.desired,
        max=record.max_replicas,
        headroomPercent=record.headroom_percent,
        settledSince=time_or_none(record.settled_since_s),
    )


def _autoscaler_from_wire(wire: Reader) -> AutoscalerRecord:
    return AutoscalerRecord(
        name=wire.need_text("name"),
        owner=wire.text("owner"),
        desired=wire.optional_number("desired"),
        max_replicas=wire.number("max"),
        headroom_percent=wire.optional_number("headroomPercent"),
        settled_since_s=wire.time("settledSince"),
    )


def _use_to_wire(record: UseRecord) -> Manifest:
    return _present(
        revision=record.revision,
        utilizationPercent=record.utilization_percent,
        measuredPods=record.measured,
        pods=record.pods,
        measuredAt=time_or_none(record.oldest_at_s),
    )


def _use_from_wire(wire: Reader) -> UseRecord:
    return UseRecord(
        revision=wire.need_text("revision"),
        utilization_percent=wire.optional_number("utilizationPercent"),
        measured=wire.number("measuredPods"),
        pods=wire.number("pods"),
        oldest_at_s=wire.time("measuredAt"),
    )


def _present(**fields: Any) -> Manifest:
    return {name: value for name, value in fields.items() if value is not None}
