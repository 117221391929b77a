"""How the canary's share came to be what it is, by the Events of its update. Pure.

Status has the present share only. The API server keeps Events for an hour, so an older part of an update is not known.
"""

from __future__ import annotations

import math

from msgspec import Struct

from rollouts.api.times import time_or_0
from rollouts.cli.view.objects import RolloutObjects, status_of
from rollouts.manifests.event import WEIGHT
from rollouts.manifests.ownership import REVISION
from rollouts.objects import Manifest, mapping

MARKS_MAX = 100  # whoever may create Events of a namespace may create any number


class WeightMark(Struct, frozen=True):
    """From when on the canary was to have that share, in percent."""

    at_s: float
    percent: float


def weights_of(seen: RolloutObjects) -> tuple[WeightMark, ...]:
    """The changes of the wanted share in the latest update, the oldest first; none without weights, or without Events.

    Of more than 100 the latest.
    """
    status = status_of(seen.rollout)
    found = sorted(
        (
            WeightMark(time_or_0(event.get("eventTime")), percent)
            for event in seen.events
            if (percent := _percent_in(event, status.current_revision)) is not None
        ),
        key=lambda mark: mark.at_s,
    )
    marks: list[WeightMark] = []
    for mark in found:
        if not marks or marks[-1].percent != mark.percent:
            marks.append(mark)
    wanted, begun_s = status.weight_percent, status.step_started_at_s
    if (
        marks
        and wanted is not None
        and begun_s is not None
        and begun_s > marks[-1].at_s
        and marks[-1].percent != wanted
    ):
        marks.append(WeightMark(begun_s, float(wanted)))  # the Event of it is late, or was lost
    return tuple(marks[-MARKS_MAX:])


def _percent_in(event: Manifest, revision: str) -> float | None:
    annotations = mapping(mapping(event.get("metadata")).get("annotations"))
    text = annotations.get(WEIGHT)
    if annotations.get(REVISION) != revision or not isinstance(text, str) or not time_or_0(event.get("eventTime")):
        return None
    try:
        percent = float(text)
    except ValueError:
        return None
    return percent if math.isfinite(percent) and 0 <= percent <= 100 else None
