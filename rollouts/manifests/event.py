"""Events for people, `events.k8s.io/v1`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Protocol

from rollouts.core.model.intents import Notice
from rollouts.core.model.status import RolloutStatus
from rollouts.manifests.ownership import PREFIX, REVISION
from rollouts.objects import EVENT, ROLLOUT, Kind, Manifest

CONTROLLER = "rollouts.dev/controller"
WEIGHT = f"{PREFIX}weight"
"""Annotation of an Event about a Rollout: the share in percent that the canary was to have then, `25` or `12.5`."""

NO_ANNOTATIONS: Mapping[str, str] = {}
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
    regarding: Regarding,
    notice: Notice,
    *,
    at_s: float,
    name: str,
    instance: str,
    kind: Kind = ROLLOUT,
    annotations: Mapping[str, str] = NO_ANNOTATIONS,
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
        "metadata": {
            "name": name,
            "namespace": regarding.namespace,
            **({"annotations": dict(annotations)} if annotations else {}),
        },
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


def event_annotations(status: RolloutStatus) -> dict[str, str]:
    """Where the update stood, for programs: nobody has to read it from the words. {} without weights."""
    if status.weight_percent is None or not status.current_revision:
        return {}
    return {REVISION: status.current_revision, WEIGHT: f"{float(status.weight_percent):g}"}


def event_name(regarding: str, *, at_s: float, index: int = 0) -> str:
    """`<name of the object>.<hex>`, where hex is nanoseconds since 1970, plus `index` so that Events of one pass differ."""
    suffix = f".{round(at_s * 1_000_000) * 1000 + index:x}"
    return regarding[: 253 - len(suffix)].rstrip(".-") + suffix
