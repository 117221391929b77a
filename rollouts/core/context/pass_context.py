"""A Snapshot as the rules of one pass look at it: the roles of its ReplicaSets, and facts that many rules ask for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from rollouts.core.context.drain_numbers import drain_numbers
from rollouts.core.context.effective_weight import EffectiveWeight, effective_weight, known_weight
from rollouts.core.model.changes import StatusChange, apply
from rollouts.core.model.drain import DrainNumbers
from rollouts.core.model.frozen import replace
from rollouts.core.model.limits import surge_and_unavailable
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import RolloutSpec, named_services
from rollouts.core.model.snapshot import ReplicaSet, ServiceSeen, Snapshot
from rollouts.core.model.status import RolloutStatus, Verb


@dataclass(frozen=True, kw_only=True)  # without slots: facts are kept once they are worked out
class PassContext:
    """One Snapshot in the roles of the update that `status` describes. Facts depend on the Snapshot alone.

    Args:
        recorded: the published status; an abort that only a note tells of is on record, too.
        status: the same with what this pass records.
        now_s: the pass's one reading of the clock, in seconds since 1970.
        new: ReplicaSet of the revision that is to be stable in the end.
        stable: ReplicaSet of the last promoted revision; None when there is none, or it is `new`.
        older: all others, oldest first.
    """

    seen: Snapshot
    spec: RolloutSpec
    recorded: RolloutStatus
    status: RolloutStatus
    now_s: float
    new: ReplicaSet | None
    stable: ReplicaSet | None
    older: tuple[ReplicaSet, ...]

    @cached_property
    def limits(self) -> tuple[int, int]:
        """Pods that may exist above `replicas`, and pods of it that may be missing."""
        strategy = self.spec.strategy
        return surge_and_unavailable(
            max_surge=strategy.max_surge, max_unavailable=strategy.max_unavailable, replicas=self.spec.replicas
        )

    @cached_property
    def promised(self) -> int:
        """Available pods that the spec promises at every moment: `replicas` − `maxUnavailable`."""
        return self.spec.replicas - self.limits[1]

    @property
    def enough_for_all(self) -> int:
        """Pods that can take all of the traffic."""
        return max(1, self.promised)

    @cached_property
    def shown_revisions(self) -> frozenset[str]:
        """Revisions that some Service selects, or whose pods its EndpointSlices still show: they may be serving.

        A Service that the spec names and that has not our key yet, or not any more, selects every revision.
        """
        seen = [each for each in self.seen.services.values() if isinstance(each, ServiceSeen)]
        selected = {service.revision for service in seen}
        named = named_services(self.spec.strategy)
        if any(each.name in named and not each.revision and each.selects_template for each in seen):
            selected |= {each.revision for each in self.seen.replica_sets if each.spec_replicas}
        shown = {revision for service in seen for revision, count in service.ready_by_revision.items() if count}
        return frozenset((selected | shown) - {""})

    @cached_property
    def drain_numbers(self) -> DrainNumbers:
        """What this Rollout has to wait in this cluster."""
        return drain_numbers(self.spec.drain, self.seen.proxy)

    @cached_property
    def effective_weight(self) -> EffectiveWeight:
        """What the canary Service may be getting now. What this pass finds out counts from the next one on."""
        return effective_weight(self.seen)

    @cached_property
    def known_weight(self) -> EffectiveWeight:
        """The same without what is only possible."""
        return known_weight(self.seen)

    @property
    def aborted(self) -> bool:
        """The current revision is held back."""
        return self.status.abort is not None and self.status.abort.revision == self.status.current_revision

    @cached_property
    def paused(self) -> bool:
        """Somebody holds the steps."""
        return self.spec.paused or self.seen.rollout.annotations.get(Verb.PAUSE) == "true"

    @property
    def paused_because(self) -> str:
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
        seen, status = self.recorded, self.status
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
        waiting = self.recorded.waiting_for
        return waiting.since_s if waiting is not None and waiting.reason is reason else default_s

    def recording(self, changes: Iterable[StatusChange]) -> PassContext:
        """The same world, with more of what this pass records; roles and facts are kept."""
        status = apply(self.status, changes)
        return self if status is self.status else replace(self, status=status)


def context_of(seen: Snapshot, status: RolloutStatus) -> PassContext:
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
    return PassContext(
        seen=seen,
        spec=seen.rollout.spec,
        recorded=seen.status,
        status=status,
        now_s=seen.now_s,
        new=new,
        stable=stable,
        older=older,
    )
