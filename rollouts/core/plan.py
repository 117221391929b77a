"""What one part of the policy contributes to a Decision, and the roles that the ReplicaSets of a Rollout play."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rollouts.core.intents import Intent, Notice
from rollouts.core.reasons import Reason
from rollouts.core.rollout import RolloutSpec
from rollouts.core.snapshot import ReplicaSet, Snapshot
from rollouts.core.status import RolloutStatus, Verb

PAUSES = frozenset(
    {
        Reason.TIMED_PAUSE,
        Reason.PROMOTION_NEEDED,
        Reason.PAUSED_BY_USER,
        Reason.AUTO_PROMOTION,
        Reason.DRAIN_TIMED_OUT,
    }
)
"""Waits that the user asked for: the progress deadline does not run."""

NOT_HELD_UP = PAUSES | {Reason.SCALE_DOWN_DELAY, Reason.RETRY_NEEDED, Reason.ROLLED_BACK, Reason.DRAINING}
"""Waits that no progress deadline ends."""


@dataclass(frozen=True, slots=True)
class Wait:
    """What stops the Rollout from going on now; `deadline_s` is None where the progress deadline holds, or nothing does."""

    reason: Reason
    message: str
    deadline_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A part of a Decision.

    Args:
        status: the memory after this part.
        intents: in order.
        wait: the first thing that is waited for; None when this part is done.
        wake_at_s: wall clock at which time alone changes the plan; None for never.
    """

    status: RolloutStatus
    intents: tuple[Intent, ...] = ()
    wait: Wait | None = None
    wake_at_s: float | None = None
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A snapshot with the roles of the update that `status` describes.

    Args:
        new: ReplicaSet of the revision that is to be stable in the end.
        stable: ReplicaSet of the last promoted revision; None when there is none, or it is `new`.
        older: all others, oldest first.
    """

    seen: Snapshot
    status: RolloutStatus
    new: ReplicaSet | None
    stable: ReplicaSet | None
    older: tuple[ReplicaSet, ...]

    @property
    def spec(self) -> RolloutSpec:
        """The wish."""
        return self.seen.rollout.spec

    @property
    def now_s(self) -> float:
        """The pass's one reading of the clock."""
        return self.seen.now_s

    @property
    def aborted(self) -> bool:
        """The current revision is held back."""
        return self.status.abort is not None and self.status.abort.revision == self.status.current_revision

    @property
    def paused(self) -> bool:
        """Somebody holds the steps."""
        return self.spec.paused or self.seen.rollout.annotations.get(Verb.PAUSE) == "true"

    @property
    def durable(self) -> bool:
        """The status that was seen is about this attempt at this revision: what cannot be taken back may follow from it."""
        seen, status = self.seen.status, self.status
        return (seen.current_revision, seen.strategy_hash, seen.attempt) == (
            status.current_revision,
            status.strategy_hash,
            status.attempt,
        )

    @property
    def promoted_full(self) -> bool:
        """Somebody let this attempt at the current revision pass every step of these."""
        return any(command.lets_pass(None, self.status) for command in self.status.commands)

    def promoted_past(self, step_index: int) -> bool:
        """Whether somebody let this attempt at the current revision pass this step of these."""
        return any(command.lets_pass(step_index, self.status) for command in self.status.commands)

    @property
    def rolled_back(self) -> bool:
        """A rollback holds the spec's revision back."""
        return self.status.current_revision != self.spec.revision

    def waiting_since_s(self, reason: Reason, *, default_s: float) -> float:
        """Since when status says that `reason` is waited for; `default_s` when it waits for something else, or for nothing."""
        waiting = self.seen.status.waiting_for
        return waiting.since_s if waiting is not None and waiting.reason is reason else default_s

    def with_status(self, status: RolloutStatus) -> View:
        """The same world with another memory; roles are kept."""
        return View(seen=self.seen, status=status, new=self.new, stable=self.stable, older=self.older)


def view_of(seen: Snapshot, status: RolloutStatus) -> View:
    """Gives each ReplicaSet its role under `status`."""
    by_revision = {replica_set.revision: replica_set for replica_set in seen.replica_sets}
    new = by_revision.get(status.current_revision)
    stable = by_revision.get(status.stable_revision) if status.stable_revision != status.current_revision else None
    if stable is not None and stable.deleting:
        stable = None
    older = tuple(
        sorted(
            (each for each in seen.replica_sets if each is not new and each is not stable and not each.deleting),
            key=lambda each: (each.number, each.created_at_s, each.name),
        )
    )
    return View(seen=seen, status=status, new=new, stable=stable, older=older)


def earliest(times: Iterable[float | None]) -> float | None:
    """The first of several moments; None when there is none."""
    return min((each for each in times if each is not None), default=None)
