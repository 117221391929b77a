"""The verdict on an object that an administrator declares for the whole cluster, and how its status says it."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from rollouts.api.times import format_time
from rollouts.cluster.client import Client
from rollouts.cluster.decoding import json_object
from rollouts.cluster.structs import ProviderObject
from rollouts.core.model.reasons import Reason
from rollouts.errors import SpecInvalid
from rollouts.manifests.ownership import FIELD_MANAGER
from rollouts.objects import Kind, Manifest
from rollouts.ports import MERGE_PATCH, Clock

MESSAGE_MAX = 8_000  # characters: a status must not contain whole objects


class Judged(Struct, frozen=True):
    """The verdict on a declaration.

    Args:
        ready: whether it may be used.
        reason: one of `core/model/reasons.py`, or one that an earlier version wrote.
        again_in_s: when to try again; None to wait for a change.
    """

    ready: bool
    reason: str
    message: str
    again_in_s: float | None = None


def invalid(exc: SpecInvalid) -> Judged:
    """The verdict on a declaration that is wrong in itself."""
    return Judged(False, Reason.INVALID_SPEC, "; ".join(map(str, exc.problems))[:MESSAGE_MAX])


def status_of(judged: Judged, *, generation: int, before: Manifest, now_s: float) -> Manifest:
    """`.status` for a verdict, with conditions in kstatus form; equal to `before` when nothing differs."""
    old = {each.get("type"): each for each in before.get("conditions") or () if isinstance(each, dict)}
    conditions = []
    for kind, holds in (("Ready", judged.ready), ("Stalled", not judged.ready)):
        was = old.get(kind, {})
        word = "True" if holds else "False"
        since = was.get("lastTransitionTime") if was.get("status") == word else None
        conditions.append(
            {
                "type": kind,
                "status": word,
                "reason": str(judged.reason),
                "message": judged.message,
                "lastTransitionTime": since or format_time(float(int(now_s))),
                "observedGeneration": generation,
            }
        )
    return {"observedGeneration": generation, "conditions": conditions}


def judged_before(status: Manifest, *, generation: int) -> Judged | None:
    """The verdict of an earlier or another controller on that generation, if it was Ready; else None."""
    said = _ready(status, generation)
    if said.get("status") != "True":
        return None
    return Judged(True, str(said.get("reason", "")), str(said.get("message", "")))


class JudgedEntry(Protocol):
    """What is known of one declaration.

    Args:
        judged: None while it was not judged yet.
        unsaid: whether the verdict is new since the status was written last.
    """

    seen: ProviderObject
    judged: Judged | None
    unsaid: bool


async def write_status(kind: Kind, entry: JudgedEntry, *, client: Client, clock: Clock) -> None:
    """Writes a new verdict once. Another installation may judge the same object differently, and the two must not fight.

    Raises: what `Client.patch` raises; then the verdict is still unsaid.
    """
    seen, judged = entry.seen, entry.judged
    if judged is None:
        return
    metadata, before = seen.metadata, json_object(bytes(seen.status))
    wanted = status_of(judged, generation=metadata.generation, before=before, now_s=clock.now_s())
    shown = _ready(before, metadata.generation).get("status") in ("True", "False")
    if wanted != before and (entry.unsaid or not shown):
        body: Manifest = {
            "metadata": {"uid": metadata.uid, "resourceVersion": metadata.resource_version},
            "status": wanted,
        }
        await client.patch(
            kind, None, metadata.name, body, MERGE_PATCH, subresource="status", field_manager=FIELD_MANAGER
        )
    entry.unsaid = False


def generation_of(seen: ProviderObject) -> tuple[str, int]:
    """What tells one declaration from its next version: uid and generation."""
    return seen.metadata.uid, seen.metadata.generation


def _ready(status: Manifest, generation: int) -> Manifest:
    """The Ready condition for that generation; empty when there is none."""
    for each in status.get("conditions") or ():
        if isinstance(each, dict) and (each.get("type"), each.get("observedGeneration")) == ("Ready", generation):
            return each
    return {}
