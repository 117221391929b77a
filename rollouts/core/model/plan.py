"""What one part of the policy contributes to a Decision, and the roles that the ReplicaSets of a Rollout play."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rollouts.core.model.intents import Intent, Notice
from rollouts.core.model.limits import surge_and_unavailable
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import Canary, RolloutSpec
from rollouts.core.model.snapshot import ReplicaSet, Snapshot
from rollouts.core.model.status import RolloutStatus, Verb

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

NOT_SEEN = {Reason.OBJECT_UNREADABLE, Reason.WATCH_FAILED}
"""Waits for the controller's own sight: they say nothing of the revision."""

NOT_HELD_UP = PAUSES | {Reason.SCALE_DOWN_DELAY, Reason.RETRY_NEEDED, Reason.ROLLED_BACK, Reason.DRAINING} | NOT_SEEN
"""Waits that no progress deadline ends."""


@dataclass(frozen=True, slots=True)
class Wait:
    """What stops the Rollout from going on now.

    Args:
        deadline_s: when it is over; None where the progress deadline holds, or nothing does.
        spec_is_wrong: only another spec can end it, or another object than the one that the spec names.
        problem: what is wrong with the pods that it waits for, as the message says too; "" when that is not known.
    """

    reason: Reason
    message: str
    deadline_s: float | None = None
    spec_is_wrong: bool = False
    problem: str = ""


def pods_told(count: int) -> str:
    """So many pods, for people."""
    return "1 pod" if count == 1 else f"{count} pods"


def pods_wait(revision: str, *, wanted: int, available: int) -> Wait:
    """A wait for pods, with how many are there already."""
    are = "is" if available == 1 else "are"
    message = f"waiting for {pods_told(wanted)} of revision {revision} to be available; {available} {are}"
    return Wait(Reason.PODS_NOT_AVAILABLE, message)


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
    def promised(self) -> int:
        """Available pods that the spec promises at every moment: `replicas` − `maxUnavailable`."""
        strategy, replicas = self.spec.strategy, self.spec.replicas
        surge = strategy.max_surge if isinstance(strategy, Canary) else 1
        _, unavailable = surge_and_unavailable(
            max_surge=surge, max_unavailable=strategy.max_unavailable, replicas=replicas
        )
        return replicas - unavailable

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
    def held_by(self) -> str:
        """Who holds the steps, and what lets them go on; for when `paused`."""
        if self.spec.paused:
            return "paused by spec.paused: take it out of the manifest"
        return f"paused by the annotation rollouts.dev/pause: {self.command('resume')}"

    def command(self, verb: str) -> str:
        """The command line for people that gives this Rollout a verb."""
        return f"rollouts {verb} {self.seen.rollout.name} -n {self.seen.rollout.namespace}"

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
