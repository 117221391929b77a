"""A Snapshot as the rules of one pass look at it: the roles of its ReplicaSets, and facts that many rules ask for."""

from __future__ import annotations

from collections.abc import Mapping
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
from rollouts.core.model.service_ref import ServiceRef
from rollouts.core.model.snapshot import ReplicaSet, ServiceSeen, Snapshot
from rollouts.core.model.status import RolloutStatus, Verb
from rollouts.core.model.traffic import Route


@dataclass(frozen=True, kw_only=True)  # without slots: facts are kept once they are worked out
class PassContext:
    """One Snapshot in the roles of the update that `status` describes. Facts depend on the Snapshot and the roles.

    Args:
        recorded: the published status; an abort that only a note tells of is on record, too.
        status: the same with what this pass records.
        now_s: the pass's one reading of the clock, in seconds since 1970.
        new: ReplicaSet of the revision that is to be stable in the end.
        stable: ReplicaSet of the last promoted revision; None when there is none, or it is `new`.
        older: all others, oldest first.
        aborted: the current revision is held back.
        durable: the published status is about this attempt at this revision: what cannot be taken back may follow from it.
        passed: steps that somebody let this attempt at the current revision pass; None stands for every step.
    """

    seen: Snapshot
    spec: RolloutSpec
    recorded: RolloutStatus
    status: RolloutStatus
    now_s: float
    new: ReplicaSet | None
    stable: ReplicaSet | None
    older: tuple[ReplicaSet, ...]
    aborted: bool
    durable: bool
    passed: frozenset[int | None]

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

    @cached_property
    def by_ratio(self) -> bool:
        """The ratio of pods carries the shares of traffic, not Services or routers."""
        return self.spec.strategy.by_ratio

    @cached_property
    def routed(self) -> bool:
        """Routers move traffic by weights."""
        return bool(self.spec.strategy.routers)

    @cached_property
    def named_services(self) -> tuple[ServiceRef, ...]:
        """Every Service that the spec names, that of the stable revision first."""
        return named_services(self.spec.strategy)

    @cached_property
    def services_seen(self) -> Mapping[ServiceRef, ServiceSeen]:
        """The Services that were found, by name."""
        return {name: each for name, each in self.seen.services.items() if isinstance(each, ServiceSeen)}

    @cached_property
    def revisions_with_pods(self) -> frozenset[str]:
        """Revisions whose ReplicaSets are told to have pods."""
        return frozenset([each.revision for each in self.seen.replica_sets if each.spec_replicas > 0])

    @cached_property
    def unnamed_routes(self) -> tuple[Route, ...]:
        """Routes that the spec does not name, or names no longer."""
        return tuple([each for each in self.seen.routes.values() if not each.named])

    @cached_property
    def new_available(self) -> int:
        """Available pods of the new revision that stay; 0 without a ReplicaSet."""
        return self.new.staying_available if self.new is not None else 0

    @cached_property
    def stable_available(self) -> int:
        """Available pods of the stable revision that stay; 0 without a ReplicaSet other than `new`."""
        return self.stable.staying_available if self.stable is not None else 0

    @cached_property
    def none_available(self) -> bool:
        """The new revision has pods, and none of them is available: nobody could answer what comes to it."""
        return self.new is not None and self.new.spec_replicas > 0 and self.new_available == 0

    @property
    def enough_for_all(self) -> int:
        """Pods that can take all of the traffic."""
        return max(1, self.promised)

    @cached_property
    def shown_revisions(self) -> frozenset[str]:
        """Revisions that some Service selects, or whose pods its EndpointSlices still show: they may be serving.

        A Service that the spec names and that has not our key yet, or not any more, selects every revision.
        """
        shown = set[str]()
        for service in self.services_seen.values():
            shown.add(service.revision)
            for revision, count in service.ready_by_revision.items():
                if count:
                    shown.add(revision)
            if service.name in self.named_services and not service.revision and service.selects_template:
                shown.update([each.revision for each in self.seen.replica_sets if each.spec_replicas])
        return frozenset(shown - {""})

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

    @cached_property
    def paused(self) -> bool:
        """Somebody holds the steps."""
        return self.spec.paused or self.seen.rollout.annotations.get(Verb.PAUSE) == "true"

    @property
    def paused_because(self) -> str:
        """Who holds the steps, and what lets them go on; for when `paused`."""
        if self.spec.paused:
            return "paused by spec.paused: remove it from the manifest"
        return f"paused by the annotation rollouts.dev/pause: {self.command('resume')}"

    def command(self, verb: str) -> str:
        """The command line for people that gives this Rollout a verb."""
        return f"rollouts {verb} {self.seen.rollout.name} -n {self.seen.rollout.namespace}"

    @property
    def promoted_full(self) -> bool:
        """Somebody let this attempt at the current revision pass every step of these."""
        return None in self.passed

    def promoted_past(self, step_index: int) -> bool:
        """Whether somebody let this attempt at the current revision pass this step of these."""
        return step_index in self.passed or None in self.passed

    @property
    def rolled_back(self) -> bool:
        """A rollback holds the spec's revision back."""
        return self.status.current_revision != self.spec.revision

    def of_revision(self, revision: str) -> ReplicaSet | None:
        """The first ReplicaSet of that revision; None when there is none."""
        for each in self.seen.replica_sets:
            if each.revision == revision:
                return each
        return None

    def waiting_since_s(self, reason: Reason, *, default_s: float) -> float:
        """Since when status says that `reason` is waited for; `default_s` when it waits for something else, or for nothing."""
        waiting = self.recorded.waiting_for
        return waiting.since_s if waiting is not None and waiting.reason is reason else default_s

    def recording(self, changes: tuple[StatusChange, ...]) -> PassContext:
        """The same world, with more of what this pass records; roles and facts are kept.

        Args:
            changes: none gives a ReplicaSet another role, begins or ends an abort, or lets a step pass (`context_of`).
        """
        return replace(self, status=apply(self.status, changes)) if changes else self


def context_of(seen: Snapshot, status: RolloutStatus) -> PassContext:
    """Gives each ReplicaSet its role under `status`."""
    current, recorded = status.current_revision, seen.status
    by_revision = {replica_set.revision: replica_set for replica_set in seen.replica_sets}
    new = by_revision.get(current)
    stable = by_revision.get(status.stable_revision) if status.stable_revision != current else None
    if stable is not None and stable.deleting:
        stable = None
    older = [each for each in seen.replica_sets if each is not new and each is not stable and not each.deleting]
    older.sort(key=lambda each: (each.number, each.created_at_s, each.name))
    same_attempt = (recorded.strategy_hash, recorded.attempt) == (status.strategy_hash, status.attempt)
    return PassContext(
        seen=seen,
        spec=seen.rollout.spec,
        recorded=seen.status,
        status=status,
        now_s=seen.now_s,
        new=new,
        stable=stable,
        older=tuple(older),
        aborted=status.abort is not None and status.abort.revision == current,
        durable=same_attempt and recorded.current_revision == current,
        passed=frozenset([each.step for each in status.commands if each.lets_pass(each.step, status)]),
    )
