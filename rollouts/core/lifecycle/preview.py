"""Whether tests of a blue-green update may begin: what the preview Service leads to, as its EndpointSlices show it.

The Service leaves the revision before as soon as an update begins, and leads to no pod until one of the new revision is ready: a
test that asks until something answers must not meet the old version. That is no fault, so nothing warns of it.
"""

from __future__ import annotations

from rollouts.core.context.pass_context import PassContext
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import BlueGreen
from rollouts.core.model.snapshot import ServiceSeen
from rollouts.core.model.status import RolloutStatus

PREVIEW_READY = "PreviewReady"
"""The condition that tests wait for."""


def preview_fact(ctx: PassContext, status: RolloutStatus) -> tuple[str, bool, Reason, str] | None:
    """Whether `previewService` leads to the current revision alone, once that has its pods; None without one of the two."""
    preview = _preview(ctx)
    if preview is None or not status.current_revision:
        return None
    revision, name = status.current_revision, f"Service {preview.name}"
    begun = status.gate_started_at_s is not None or status.gate_passed
    ready = {shown for shown, count in preview.ready_by_revision.items() if count}
    holds, reason = False, Reason.PREVIEW_STARTING
    message = f"{name} leads to no other revision than {revision}, whose pods are not all ready"
    if ctx.aborted:
        reason = Reason.ROLLOUT_ABORTED
        message = f"revision {revision} is aborted: {name} returns to the stable revision"
    elif ready - {revision}:
        message = f"{name} still leads to other pods than those of revision {revision}"
    elif begun and preview.revision == revision and ready:
        holds, reason = True, Reason.PREVIEW_READY
        message = f"{name} leads to revision {revision} alone"
    return PREVIEW_READY, holds, reason, message


def preview_hint(ctx: PassContext) -> str:
    """The end of a wait for the preview's pods: that its Service leads to none yet, and what tests wait for; "" otherwise."""
    preview = _preview(ctx)
    if preview is None or ctx.status.gate_passed or any(preview.ready_by_revision.values()):
        return ""
    return f"; Service {preview.name} has no ready pod until then: tests wait for the condition {PREVIEW_READY}"


def _preview(ctx: PassContext) -> ServiceSeen | None:
    strategy = ctx.spec.strategy
    if not isinstance(strategy, BlueGreen) or strategy.preview_service is None:
        return None
    return ctx.services_seen.get(strategy.preview_service)
