"""Blue-green: the preview grows beside the active revision, passes its gate, gets the active Service, and is promoted.

The old revision keeps all its pods until the active Service's slices show only the new one, and `scaleDownDelaySeconds` longer.
"""

from __future__ import annotations

from msgspec import Struct

from rollouts.core.context.contribution import Contribution
from rollouts.core.context.pass_context import PassContext
from rollouts.core.context.waits import Wait, pods_wait
from rollouts.core.lifecycle.analyses import Guard, guarded
from rollouts.core.lifecycle.preview import preview_fact, preview_hint
from rollouts.core.lifecycle.update import promoted
from rollouts.core.model.changes import StatusChange, record_gate, record_selected, record_traffic, set_canary_weight
from rollouts.core.model.frozen import replace
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import BlueGreen
from rollouts.core.model.status import Cutover, RolloutStatus
from rollouts.core.routing.routes import Routing
from rollouts.core.routing.services import NEEDS_A_PERSON, ServiceSwitch, no_worse, selected_revision, switch_to
from rollouts.core.scale.canary_sizes import Sizes, no_pods
from rollouts.core.scale.sizing import aborted_size, keep_pods_of_stable, kept_size
from rollouts.core.strategy.autoscaling import gate_wait
from rollouts.core.strategy.guards import POST_PROMOTION, PRE_PROMOTION, guarding, is_judged
from rollouts.core.strategy.skeleton import Moves

GATE = 0  # index of the only gate of a blue-green update: the 0 in `promote: <revision>@0`


class BlueGreenRules(Struct, frozen=True):
    """The answers of a blue-green update to the questions of `StrategyRules`."""

    strategy: BlueGreen
    held: Contribution | None = None

    def alone(self, ctx: PassContext) -> tuple[StatusChange, ...]:
        return ()

    def opening(self, ctx: PassContext) -> tuple[StatusChange, ...]:
        """Records when the preview reached its gate and whether it passed; not while the update is held, aborted or paused.

        Removes the traffic record of an earlier canary strategy, whose routes are released.
        """
        status = ctx.status
        traffic = () if status.traffic is None else (record_traffic(None),)
        if self.held is not None or ctx.aborted or ctx.paused or status.gate_passed:
            return traffic
        started_s = status.gate_started_at_s
        if _fast(ctx):
            return (*traffic, record_gate(started_s, passed=True))
        if not _available(ctx, _wanted_new(ctx, self.strategy)):
            return traffic
        reached_s = ctx.now_s if started_s is None else started_s
        at_gate = ctx.recording((record_gate(reached_s, passed=False),))
        passed = is_judged(ctx, PRE_PROMOTION) and _opens(at_gate, self.strategy) and _autoscaling_wait(at_gate) is None
        if not passed and started_s is not None:
            return traffic
        return (*traffic, record_gate(reached_s, passed=passed))

    def services(self, ctx: PassContext) -> tuple[ServiceSwitch, ...]:
        """The switches of previewService, if it is named, and of activeService, in that order."""
        active, preview, replicas = self.strategy.active_service, self.strategy.preview_service, ctx.spec.replicas
        switching = ctx.new is not None and not ctx.aborted
        if ctx.new is not None and ctx.stable is not None and switching:
            switched = selected_revision(ctx, active) == ctx.new.revision
            switching = ctx.status.gate_passed and (switched or (_available(ctx, replicas) and not ctx.paused))
        serving = ctx.new if switching else ctx.stable
        at_least = replicas if switching and ctx.stable is not None else no_worse(ctx, active, serving)
        active_switch = switch_to(ctx, active, serving, at_least=at_least)
        if preview is None:
            return (active_switch,)
        nothing_new = ctx.aborted or self.held is not None
        previewed = ctx.stable if nothing_new and ctx.stable else ctx.new
        return (switch_to(ctx, preview, previewed, at_least=0), active_switch)

    def departures(self, ctx: PassContext, services: tuple[ServiceSwitch, ...]) -> tuple[Cutover, ...]:
        """The active Service leaves the revision that status records for it, if it selects another one now."""
        leaving, to = ctx.status.active_revision, services[-1].selects
        return (Cutover(service=self.strategy.active_service, from_revision=leaving, to_revision=to),)

    def observed(self, ctx: PassContext, services: tuple[ServiceSwitch, ...]) -> tuple[StatusChange, ...]:
        """Records the revisions that both Services select; removes the weight of an earlier canary strategy."""
        status, preview = ctx.status, services[0].selects if len(services) > 1 else ""
        selected = (services[-1].selects or status.active_revision, preview or status.preview_revision)
        seen = () if selected == (status.active_revision, status.preview_revision) else (record_selected(*selected),)
        return (*seen, *(() if status.weight_percent is None else (set_canary_weight(None),)))

    def trusted(self, ctx: PassContext, services: tuple[ServiceSwitch, ...]) -> tuple[ServiceSwitch, ...]:
        return services

    def routing(self, ctx: PassContext, services: tuple[ServiceSwitch, ...]) -> Routing:
        return Routing()

    def sizes(self, ctx: PassContext, services: tuple[ServiceSwitch, ...], routing: Routing) -> Sizes:
        """The stable revision keeps all `replicas` pods beside the pods of the new revision."""
        if ctx.spec.replicas == 0:
            return no_pods(ctx)
        limit = self.strategy.scale_down_delay_revision_limit
        new, stable = 0 if self.held is not None else _wanted_new(ctx, self.strategy), ctx.spec.replicas
        older = tuple(kept_size(ctx, replica_set, limit=limit) for replica_set in ctx.older)
        return Sizes(new=new, stable=stable, older=older, wanted_new=new, wanted_stable=stable)

    def reached(self, ctx: PassContext, sizes: Sizes) -> bool:
        """Whether the new revision has the available pods that it should have; other revisions do not count."""
        return _available(ctx, sizes.wanted_new)

    def guards(self, ctx: PassContext, moves: Moves) -> tuple[Guard, ...]:
        """The analysis of the preview, once tests can reach it, or the one of the revision that has the traffic."""
        *preview, active = moves.services
        previewed = ctx.recorded.gate_started_at_s is not None and all(switch.confirmed for switch in preview)
        begins = {PRE_PROMOTION: previewed and moves.reached, POST_PROMOTION: _serves(ctx, active)}
        return tuple([guarded(ctx, gate, begins=begins[gate]) for gate in guarding(ctx) if gate in begins])

    def wait(self, ctx: PassContext, moves: Moves) -> Wait | None:
        """Failures are reported first, then pods, the gate and the Services; after an abort only the active Service."""
        if ctx.new is not None and ctx.new.failure:
            return Wait(Reason.REPLICA_FAILURE, ctx.new.failure)
        *preview, active = moves.services
        blocked = next((switch.wait for switch in (active, *preview) if switch.wait is not None), None)
        if blocked is not None and blocked.reason in NEEDS_A_PERSON:
            return blocked
        if ctx.aborted:
            return active.wait
        if not moves.reached:
            revision, wanted = ctx.status.current_revision, moves.sizes.wanted_new
            pods = pods_wait(revision, wanted=wanted, available=ctx.new_available)
            return replace(pods, message=f"{pods.message}{preview_hint(ctx)}")
        verdict = next((guard.wait for guard in moves.guards), None)
        if ctx.status.gate_passed:
            return blocked or verdict
        last = (verdict or _autoscaling_wait(ctx)) if _opens(ctx, self.strategy) else None
        return last or _gate_wait(ctx, self.strategy, verdict)

    def weight(self, ctx: PassContext) -> tuple[StatusChange, ...]:
        return ()

    def wake_at_s(self, ctx: PassContext) -> float | None:
        return _gate_end_s(ctx, self.strategy)

    def complete(self, ctx: PassContext, moves: Moves, plan: Contribution) -> Contribution:
        """The promotion, once the active Service is confirmed to send all requests to the new revision; else the plan."""
        status = ctx.status
        unpromoted = status.current_revision != status.stable_revision and ctx.durable and ctx.recorded.gate_passed
        if plan.wait is not None or not unpromoted or not _serves(ctx, moves.services[-1]):
            return plan
        kept = () if ctx.stable is None else keep_pods_of_stable(ctx, delay_s=self.strategy.scale_down_delay_s)
        return promoted(ctx, plan, after=kept)


def gate_index(status: RolloutStatus) -> int | None:
    """`GATE` while the preview waits for its promotion; None before and after, and when the update is aborted."""
    waits = status.gate_started_at_s is not None and not status.gate_passed and status.abort is None
    return GATE if waits else None


def _fast(ctx: PassContext) -> bool:
    """Whether there is nothing to preview: no revision serves yet, a person promoted in full, or the gate is passed.

    An update to a revision that was active not long ago starts with its gate passed.
    """
    return ctx.stable is None or ctx.promoted_full or ctx.status.gate_passed


def _autoscaling_wait(ctx: PassContext) -> Wait | None:
    """The wait of `spec.autoscaling` before the switch: evidence counts since the preview is there."""
    started_s = ctx.status.gate_started_at_s
    if started_s is None or ctx.promoted_past(GATE):
        return None
    return gate_wait(ctx, since_s=started_s)


def _opens(ctx: PassContext, strategy: BlueGreen) -> bool:
    """Whether a person or the time has opened the gate; the verdict of an analysis is asked for besides."""
    end_s = _gate_end_s(ctx, strategy)
    return ctx.promoted_past(GATE) or (end_s is not None and ctx.now_s >= end_s)


def _serves(ctx: PassContext, active: ServiceSwitch) -> bool:
    """Whether the active Service is confirmed to send all requests to the new revision."""
    return active.confirmed and active.selects == ctx.status.current_revision


def _gate_end_s(ctx: PassContext, strategy: BlueGreen) -> float | None:
    """When the gate opens by itself; None when only a person opens it, it is not reached or is passed, or after an abort."""
    status = ctx.status
    if status.gate_started_at_s is None or status.gate_passed or ctx.aborted or not strategy.auto_promotion_enabled:
        return None
    return status.gate_started_at_s + strategy.auto_promotion_s


def _wanted_new(ctx: PassContext, strategy: BlueGreen) -> int:
    """Pods of the new revision: `previewReplicaCount`, if that is set, until the gate is passed; then all."""
    new, replicas = ctx.new, ctx.spec.replicas
    if replicas == 0:
        return 0
    if ctx.aborted:
        if new is None or ctx.stable is None:
            return replicas
        return aborted_size(ctx, new, delay_s=strategy.abort_scale_down_delay_s)
    if _fast(ctx) or strategy.preview_replica_count is None:
        return replicas
    active = ctx.services_seen.get(strategy.active_service)
    if new is None or active is None:
        return strategy.preview_replica_count
    # A retry that comes during a switch: the Service selects or shows the new revision although its gate is closed.
    still_active = active.revision == new.revision or active.ready_by_revision.get(new.revision, 0) > 0
    return replicas if still_active else strategy.preview_replica_count


def _gate_wait(ctx: PassContext, strategy: BlueGreen, verdict: Wait | None) -> Wait:
    """The wait of the gate, with what its analysis waits for beside it; one that holds the update is told first."""
    if verdict is not None and verdict.reason is not Reason.ANALYSIS_RUNNING:
        return verdict
    revision = ctx.status.current_revision
    analysis = f"; {verdict.message}" if verdict is not None else ""
    if strategy.auto_promotion_enabled:
        message = f"revision {revision} takes over {strategy.auto_promotion_s:g} s after its preview became available"
        return Wait(Reason.AUTO_PROMOTION, f"{message}{analysis}", _gate_end_s(ctx, strategy))
    fact = preview_fact(ctx, ctx.status)
    previewed = ", which is previewed" if fact is not None and fact[1] else ""
    message = f"waiting for promotion of revision {revision}{previewed}: {ctx.command('promote')}"
    return Wait(Reason.PROMOTION_NEEDED, f"{message}{analysis}")


def _available(ctx: PassContext, wanted: int) -> bool:
    return ctx.new is not None and not ctx.new.deleting and ctx.new_available >= wanted
