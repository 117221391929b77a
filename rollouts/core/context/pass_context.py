"""A Snapshot in the form that the rules of one pass use: the roles of its ReplicaSets, and facts that many rules need."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from msgspec import Struct

from rollouts.core.config.copies import uses_too_late
from rollouts.core.context.drain_numbers import drain_numbers
from rollouts.core.context.effective_weight import EffectiveWeight, effective_weight
from rollouts.core.model.analysis import AnalysisRecord, Passable
from rollouts.core.model.changes import StatusChange, apply
from rollouts.core.model.drain import DrainNumbers
from rollouts.core.model.frozen import replace
from rollouts.core.model.limits import surge_and_unavailable
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import RolloutSpec, named_services
from rollouts.core.model.service_ref import ServiceRef
from rollouts.core.model.snapshot import CreationRefused, ReplicaSet, ServiceSeen, Snapshot
from rollouts.core.model.status import RolloutStatus, Verb
from rollouts.core.model.traffic import Route


class PassContext(Struct, frozen=True, kw_only=True, dict=True):  # dict: facts are computed once and kept
    """A Snapshot with the roles of its ReplicaSets under `status`. Facts depend only on the Snapshot and the roles.

    Args:
        recorded: the published status, with an abort that is recorded only as a note on a ReplicaSet.
        status: `recorded` with the changes of this pass.
        new: ReplicaSet of the current revision, which becomes stable at the end.
        stable: ReplicaSet of the last promoted revision; None when it is missing, being deleted, or `new`.
        older: all others that are not being deleted, oldest first.
        durable: the published status is about this attempt at this revision and its steps, so irreversible actions may follow.
        passed: that past which somebody promoted the current revision in this attempt; None stands for every one.
        has_config: the template names sources, or a ReplicaSet was made with contents of some.
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
    passed: frozenset[Passable | None]
    has_config: bool

    @cached_property
    def limits(self) -> tuple[int, int]:
        """How many pods may exist above `replicas`, and how many of `replicas` may be missing."""
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
        """Whether the ratio of pods sets the shares of traffic, instead of Services or routers."""
        return self.spec.strategy.by_ratio

    @cached_property
    def routed(self) -> bool:
        """Whether routers move traffic by weights."""
        return bool(self.spec.strategy.routers)

    @cached_property
    def named_services(self) -> tuple[ServiceRef, ...]:
        """Every Service that the spec names, that of the stable revision first."""
        return named_services(self.spec.strategy)

    @cached_property
    def services_seen(self) -> Mapping[ServiceRef, ServiceSeen]:
        """The Services that were found, by name."""
        return {name: service for name, service in self.seen.services.items() if isinstance(service, ServiceSeen)}

    @cached_property
    def revisions_with_pods(self) -> frozenset[str]:
        """Revisions whose ReplicaSets have a size above 0."""
        return frozenset(
            [replica_set.revision for replica_set in self.seen.replica_sets if replica_set.spec_replicas > 0]
        )

    @cached_property
    def unnamed_routes(self) -> tuple[Route, ...]:
        """Routes that the spec does not name, or names no longer."""
        return tuple([route for route in self.seen.routes.values() if not route.named])

    @cached_property
    def new_available(self) -> int:
        """Available pods of the new revision that stay."""
        return self.new.staying_available if self.new is not None else 0

    @cached_property
    def stable_available(self) -> int:
        """Available pods of the stable revision that stay; 0 without a ReplicaSet other than `new`."""
        return self.stable.staying_available if self.stable is not None else 0

    @property
    def lacking_stable(self) -> str:
        """What the stable revision lacks to serve in place of the other, for the end of a message; "" for nothing.

        No counts: each change of a condition is a write at once, and pods come up one by one.
        """
        if self.stable_available >= self.promised:
            return ""
        if self.stable_available == 0:
            return ", and no pod of it is available"
        return f", with fewer than {self.promised} available pods"

    @cached_property
    def none_available(self) -> bool:
        """Whether the new revision has pods and none is available, so that no pod could answer its requests."""
        return self.new is not None and self.new.spec_replicas > 0 and self.new_available == 0

    @property
    def enough_for_all(self) -> int:
        """How many pods can take all of the traffic."""
        return max(1, self.promised)

    @cached_property
    def shown_revisions(self) -> frozenset[str]:
        """Revisions that some Service selects, or whose pods its EndpointSlices still show: they may be serving.

        A Service of the spec selects every revision while its selector has no revision key: not yet, or not any more. Until its
        EndpointSlices are seen it may show any of them.
        """
        shown = set[str]()
        for service in self.services_seen.values():
            shown.add(service.revision)
            for revision, count in service.ready_by_revision.items():
                if count:
                    shown.add(revision)
            any_pod = service.selects_template and not (service.revision and service.slices_seen)
            if any_pod and service.name in self.named_services:
                shown.update(
                    [replica_set.revision for replica_set in self.seen.replica_sets if replica_set.spec_replicas]
                )
        return frozenset(shown - {""})

    @cached_property
    def drain_numbers(self) -> DrainNumbers:
        """How long this Rollout must wait for drains in this cluster, and why."""
        return drain_numbers(self.spec.drain, self.seen.proxy)

    @cached_property
    def effective_weight(self) -> EffectiveWeight:
        """The range of traffic that the canary Service may get now. Findings of this pass count from the next pass on."""
        return effective_weight(self.seen)

    @cached_property
    def paused(self) -> bool:
        """Whether somebody has paused the steps."""
        return self.spec.paused or self.seen.rollout.annotations.get(Verb.PAUSE) == "true"

    @property
    def paused_because(self) -> str:
        """What pauses the steps, and how to resume them; only for a Rollout that is `paused`."""
        if self.spec.paused:
            return "paused by spec.paused: remove it from the manifest"
        return f"paused by the annotation rollouts.dev/pause: {self.command('resume')}"

    def command(self, verb: str) -> str:
        """The command line with which a person gives this Rollout the command `verb`."""
        return f"rollouts {verb} {self.seen.rollout.name} -n {self.seen.rollout.namespace}"

    @property
    def promoted_full(self) -> bool:
        """Whether somebody promoted the current revision past every step of this list, in this attempt."""
        return None in self.passed

    def promoted_past(self, gate: Passable) -> bool:
        """Whether somebody promoted the current revision past this step of this list, or this analysis, in this attempt."""
        return gate in self.passed or None in self.passed

    @cached_property
    def stepped_back(self) -> AnalysisRecord | None:
        """The failed verdict that took the weight back and holds the update, unless somebody has promoted it in full."""
        return None if self.promoted_full else self.status.stepped_back

    @property
    def rolled_back(self) -> bool:
        """Whether the current revision is another one than the spec's: a rollback is in effect."""
        return self.status.current_revision != self.spec.revision

    def of_revision(self, revision: str) -> ReplicaSet | None:
        """The first ReplicaSet of `revision`."""
        for replica_set in self.seen.replica_sets:
            if replica_set.revision == revision:
                return replica_set
        return None

    def waiting_since_s(self, reason: Reason, *, default_s: float) -> float:
        """Since when the wait in status has this `reason`; `default_s` for another reason, and without a wait."""
        waiting = self.recorded.waiting_for
        return waiting.since_s if waiting is not None and waiting.reason is reason else default_s

    @property
    def creation_refused(self) -> CreationRefused | None:
        """Why the ReplicaSet of the current revision is not tried now."""
        refused = self.seen.creation_refused
        if refused is None or self.new is not None or self.aborted or refused.revision != self.status.current_revision:
            return None
        lasts = refused.generation == self.seen.rollout.generation and self.now_s < refused.at_s + refused.again_s
        return refused if lasts else None

    def recording(self, changes: tuple[StatusChange, ...]) -> PassContext:
        """This pass with more recorded changes; roles and facts are kept.

        Args:
            changes: changes that alter no role, begin or end no abort and let no step pass; others need `context_of`.
        """
        return replace(self, status=apply(self.status, changes)) if changes else self


def context_of(seen: Snapshot, status: RolloutStatus) -> PassContext:
    """Gives each ReplicaSet its role under `status`. A stable one that is deleted has none, nor one whose pods cannot begin."""
    current, recorded = status.current_revision, seen.status
    by_revision: dict[str, ReplicaSet] = {}
    has_config = seen.config is not None
    for replica_set in seen.replica_sets:
        by_revision[replica_set.revision] = replica_set
        has_config = has_config or bool(replica_set.config)
    new = by_revision.get(current)
    stable = by_revision.get(status.stable_revision) if status.stable_revision != current else None
    if stable is not None and (stable.deleting or (stable.config and uses_too_late(stable, seen.sources))):
        stable = None
    older = [each for each in seen.replica_sets if each is not new and each is not stable and not each.deleting]
    older.sort(key=lambda replica_set: (replica_set.number, replica_set.created_at_s, replica_set.name))
    passed = [command.passes for command in status.commands if command.promotes(status)] if status.commands else ()
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
        passed=frozenset(passed),
        has_config=has_config,
    )
