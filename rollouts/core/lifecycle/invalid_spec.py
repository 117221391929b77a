"""A Rollout whose spec cannot be carried out: its pods are counted and its commands answered all the same.

Nothing is carried out meanwhile. What status alone can judge (an abort, a retry, a pause, a restart) is put on record, and done
when the spec is repaired. What depends on the spec (a promotion, a rollback) is refused: a `true` for good, because nobody knows
what the person saw by then; another value until the spec is repaired.
"""

from __future__ import annotations

from rollouts.core.context.pass_context import context_of
from rollouts.core.lifecycle.commands import Reading, read_without_spec
from rollouts.core.lifecycle.progress import counted
from rollouts.core.model.changes import apply, record_commands
from rollouts.core.model.frozen import replace
from rollouts.core.model.rollout import BlueGreen, Canary, RolloutSpec
from rollouts.core.model.snapshot import Snapshot
from rollouts.core.model.status import RolloutStatus


def spec_on_record(status: RolloutStatus) -> RolloutSpec:
    """As much of a spec as status knows: the revision and the hash of the steps. Its strategy has no steps."""
    return RolloutSpec(
        replicas=status.hpa_replicas,
        selector_json=b"{}",
        selector_text=status.selector,
        template_json=b"{}",
        template_hash=status.current_revision,
        revision=status.current_revision,
        strategy=BlueGreen(active_service="") if status.active_revision else Canary(),
        strategy_hash=status.strategy_hash,
    )


def counted_and_answered(seen: Snapshot, *, all_seen: bool) -> tuple[RolloutStatus, Reading]:
    """The status with the pods that there are and with new commands on record, and these commands.

    Args:
        seen: with `spec_on_record`.
        all_seen: every ReplicaSet can be seen; else the counts stay as they are.
    """
    reading = read_without_spec(seen)
    status = apply(seen.status, (record_commands(reading.commands),)) if reading.fresh else seen.status
    if not all_seen:
        return status, reading
    now = counted(context_of(seen, status))
    return replace(now, selector=status.selector, hpa_replicas=status.hpa_replicas), reading
