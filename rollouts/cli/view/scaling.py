"""What a person is shown of autoscalers, and of the use of a container. Pure."""

from __future__ import annotations

from rollouts.cli.view.counts import count_of
from rollouts.cli.view.durations import short
from rollouts.cli.view.tree import ScalingLine, UseLine
from rollouts.core.model.autoscaling import AutoscalingRecord


def scaling_lines(record: AutoscalingRecord | None) -> tuple[ScalingLine, ...]:
    """The autoscalers in `status.autoscaling`."""
    if record is None:
        return ()
    return tuple(
        ScalingLine(
            name=f"{autoscaler.name} of {autoscaler.owner}" if autoscaler.owner else autoscaler.name,
            desired=autoscaler.desired,
            most=autoscaler.max_replicas,
            headroom_percent=autoscaler.headroom_percent,
            settled_since_s=autoscaler.settled_since_s,
            at_s=record.at_s,
        )
        for autoscaler in record.autoscalers
    )


def uses_by_revision(record: AutoscalingRecord | None) -> dict[str, UseLine]:
    """The use of the gate's container in `status.autoscaling`, by revision."""
    if record is None:
        return {}
    what = " ".join(filter(None, (record.container, record.resource)))
    return {
        each.revision: UseLine(what, each.utilization_percent, each.measured, each.pods, each.oldest_at_s)
        for each in record.use
    }


def scaling_text(scaling: ScalingLine, *, now_s: float) -> str:
    """One autoscaler: `autoscaler cart wants 4 of 5 pods: headroom 20 %, settled for 3m (read 12s ago)`."""
    read = f"(read {short(now_s - scaling.at_s)} ago)"
    if scaling.desired is None:
        return f"autoscaler {scaling.name} does not say how many of {count_of(scaling.most, 'pod')} it wants {read}"
    wants = f"autoscaler {scaling.name} wants {scaling.desired} of {count_of(scaling.most, 'pod')}"
    room = "" if scaling.headroom_percent is None else f": headroom {scaling.headroom_percent} %"
    since_s = scaling.settled_since_s
    state = "not settled" if since_s is None else f"settled for {short(now_s - since_s)}"
    return f"{wants}{room}, {state} {read}"


def use_text(use: UseLine, *, now_s: float) -> str:
    """The use beside its revision: `app cpu 173 % 12s ago`, `app cpu ? (1 of 2 pods measured)`."""
    if use.percent is None:
        return f"{use.what} ? ({use.measured} of {count_of(use.pods, 'pod')} measured)"
    age = f" {short(now_s - use.at_s)} ago" if use.at_s is not None else ""
    return f"{use.what} {use.percent} %{age}"
