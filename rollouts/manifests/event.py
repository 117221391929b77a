"""Events for people, `events.k8s.io/v1`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Protocol

from rollouts.core.model.intents import Notice
from rollouts.objects import EVENT, ROLLOUT, Kind, Manifest

CONTROLLER = "rollouts.dev/controller"
_NOTE_MAX_BYTES = 1024  # kube-apiserver refuses a longer note
_INSTANCE_MAX = 128
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Regarding(Protocol):
    """The fields of an object that an Event about it needs; they are known even if its spec cannot be read."""

    @property
    def namespace(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def uid(self) -> str: ...
    @property
    def resource_version(self) -> str: ...


def event(
    regarding: Regarding, notice: Notice, *, at_s: float, name: str, instance: str, kind: Kind = ROLLOUT
) -> Manifest:
    """One Event about an object, named by `event_name`, reported by a controller process (its pod's name).

    `at_s` is seconds since 1970.
    """
    note = notice.message
    if len(note.encode()) > _NOTE_MAX_BYTES:
        note = note.encode()[: _NOTE_MAX_BYTES - len("…".encode())].decode(errors="ignore") + "…"
    moment = _EPOCH + timedelta(microseconds=round(at_s * 1_000_000))
    return {
        **EVENT.head,
        "metadata": {"name": name, "namespace": regarding.namespace},
        "eventTime": moment.isoformat(timespec="microseconds").replace("+00:00", "Z"),
        "type": "Warning" if notice.warning else "Normal",
        "reason": notice.reason.value,
        "action": "Reconcile",
        "note": note,
        "reportingController": CONTROLLER,
        "reportingInstance": instance[:_INSTANCE_MAX],
        "regarding": {
            **kind.head,
            "namespace": regarding.namespace,
            "name": regarding.name,
            "uid": regarding.uid,
            "resourceVersion": regarding.resource_version,
        },
    }


def event_name(regarding: str, *, at_s: float, index: int = 0) -> str:
    """`<name of the object>.<hex>`, where hex is nanoseconds since 1970, plus `index` so that Events of one pass differ."""
    suffix = f".{round(at_s * 1_000_000) * 1000 + index:x}"
    return regarding[: 253 - len(suffix)].rstrip(".-") + suffix
