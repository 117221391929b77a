"""The status that people and tools read: counts, phase, the current wait, and conditions in kstatus form.

`kubectl wait` looks at `Ready`. `Reconciling` and `Stalled` exist only while they are true (kstatus). The other conditions have
the names of Deployment's and Argo Rollouts' conditions where they mean the same.
"""

from __future__ import annotations

import math
from typing import TypeAlias

from rollouts.core.advice.findings import Finding, Severity
from rollouts.core.advice.proxy_findings import port_reuse
from rollouts.core.advice.service_findings import Relation, trait_findings, weight_findings
from rollouts.core.advice.shared_selectors import shared_text
from rollouts.core.context.pass_context import PassContext
from rollouts.core.context.waits import CONFIG_HOLDS, PAUSES, WORKLOAD_HOLDS, Wait, pods_text
from rollouts.core.drain.pre_stop import cut_short, unsafe
from rollouts.core.lifecycle.commands import problems_of
from rollouts.core.lifecycle.holds import AT_REST, hold_of, is_reading, with_hold
from rollouts.core.lifecycle.housekeeping import not_adopted
from rollouts.core.lifecycle.in_place import (
    after_abort,
    beyond_step,
    daemon_set_of,
    has_fields_of_a_step,
    ordinal_facts,
    stable_is_lost,
)
from rollouts.core.lifecycle.lost_copies import forged_copies, gone_copies
from rollouts.core.lifecycle.preview import preview_fact
from rollouts.core.lifecycle.progress import counted, needs_a_person, overdue, progressed_at_s, stalls_at_s, waiting_for
from rollouts.core.model.autoscaling import (
    AutoscalerRecord,
    AutoscalingGate,
    AutoscalingRecord,
    AutoscalingSeen,
    UseRecord,
)
from rollouts.core.model.drain import DrainMode, ProxyMode
from rollouts.core.model.frozen import replace
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import BlueGreen
from rollouts.core.model.status import Abort, Condition, Phase, RolloutStatus, WaitingFor
from rollouts.core.model.workload import WorkloadSeen
from rollouts.core.model.workload_ref import Hold, WorkloadKind
from rollouts.core.routing.routes import refused_routes
from rollouts.core.scale.settling import headroom_percent, is_settled, lacking_word

WARNED = frozenset(
    {
        *("DrainUnsafe", "DrainTimedOut", "ServiceUnsafe", "ReplicaSetNotAdopted"),
        *("ConfigCopyMissing", "ConfigUnusable", "WorkloadUnusable", "HoldNotEffective"),
        *("RevisionRefused", "RouteRefused", "SelectorShared", "NodeJoinedInStep"),
        *("ScaledInStep", "TemplateNeedsRevert"),
    }
)
"""Conditions that get a Warning Event when they begin and when their message changes."""

_IN_PHASE = {
    Phase.HEALTHY: {"Ready": True, "Progressing": True},
    Phase.PROGRESSING: {"Ready": False, "Reconciling": True, "Progressing": True},
    Phase.PAUSED: {"Ready": False, "Paused": True, "Progressing": True},
    Phase.ABORTED: {"Ready": False, "Stalled": True, "Aborted": True, "Progressing": False},
    Phase.ROLLED_BACK: {"Ready": False, "Stalled": True, "Progressing": False},
    Phase.DEGRADED: {"Ready": False, "Stalled": True, "Progressing": False},
}
"""The conditions that follow from each phase, and whether they hold."""
_OF_ITS_OWN = {
    (Phase.HEALTHY, "Progressing"): Reason.ROLLOUT_COMPLETED,
    (Phase.PAUSED, "Progressing"): Reason.ROLLOUT_PAUSED,
}
"""Reasons that differ from that of the other conditions of a phase."""

_AT_REST = {WorkloadKind.STATEFUL_SET: "has a partition that no pod reaches", WorkloadKind.DAEMON_SET: "has OnDelete"}
"""What holds a workload that no policy holds; a Deployment is paused."""

Fact: TypeAlias = tuple[str, bool, Reason, str]
"""A condition's type, whether it holds, its reason and its message."""


def concluded(ctx: PassContext, wait: Wait | None) -> RolloutStatus:
    """`ctx.status` with counts, phase, wait and conditions filled in."""
    status = counted(ctx)
    if wait is None:
        wait = _standing_wait(ctx, status)
    held, told, generation = wait, wait, ctx.seen.rollout.generation
    if ctx.seen.config is not None or ctx.spec.workload_ref is not None:
        held = with_hold(ctx, wait)
        if is_reading(ctx):
            generation = ctx.recorded.observed_generation
        told = wait if wait is not None and held is not None and held.reason is wait.reason else held
    moved_at_s = progressed_at_s(ctx, status, held)
    waiting = waiting_for(ctx, status, held, progressed_at_s=moved_at_s)
    phase = _phase(ctx, status, waiting, progressed_at_s=moved_at_s)
    message = waiting.message if waiting else ctx.paused_because if ctx.paused else ""
    done = replace(  # one call: each copy of all these fields costs more than computing them
        status,
        phase=phase,
        message=message,
        progressed_at_s=moved_at_s,
        waiting_for=waiting,
        conditions=_conditions(ctx, status, phase, told, generation=generation),
        observed_generation=generation,
    )
    return with_autoscaling(ctx, done)


def _standing_wait(ctx: PassContext, status: RolloutStatus) -> Wait | None:
    """The wait of a Rollout that no rule keeps waiting: for a person who aborted, paused or rolled it back."""
    if ctx.aborted and status.abort is not None:
        return Wait(Reason.RETRY_NEEDED, _held_back(ctx, status.abort))
    if ctx.paused and not _finished(status):
        return Wait(Reason.PAUSED_BY_USER, ctx.paused_because)
    if ctx.rolled_back and _finished(status):
        return Wait(Reason.ROLLED_BACK, _rolled_back(ctx))
    if _finished(status) and has_fields_of_a_step(ctx.seen):
        message = f"{ctx.spec.workload_ref} is about to have the fields again that its user wrote"
        return Wait(Reason.FIELDS_NOT_GIVEN_BACK, message)
    return None


def with_command_problems(status: RolloutStatus, *, generation: int, now_s: float) -> RolloutStatus:
    """The status with its condition `InvalidCommand` brought up to date; nothing else changes."""
    others = tuple(condition for condition in status.conditions if condition.type != "InvalidCommand")
    facts = _dated(_command_facts(status), status.conditions, now_s=now_s, generation=generation)
    return replace(status, conditions=(*others, *facts))


def with_invalid_spec(status: RolloutStatus, *, message: str, generation: int, now_s: float) -> RolloutStatus:
    """The status of a Rollout whose spec cannot be carried out; what it remembers of the update does not change."""
    reason, kinds = Reason.INVALID_SPEC, {"Ready": False, "Stalled": True, "InvalidSpec": True}
    facts = [*((kind, holds, reason, message) for kind, holds in kinds.items()), *_command_facts(status)]
    conditions = _dated(facts, status.conditions, now_s=now_s, generation=generation)
    kept = [condition for condition in status.conditions if condition.type in ("Available", "Aborted", "Paused")]
    before = status.waiting_for
    since_s = before.since_s if before is not None and before.reason is reason else now_s
    return replace(
        status,
        phase=Phase.DEGRADED,
        message=message,
        observed_generation=generation,
        waiting_for=WaitingFor(reason, message, since_s, None),
        conditions=(*conditions, *kept),
    )


def _held_back(ctx: PassContext, abort: Abort) -> str:
    instead = f"the stable revision takes its place{ctx.lacking_stable}"
    if ctx.stable is None:  # somebody deleted it, and what it ran is known nowhere else
        instead = f"no pods take the place of those that revision {abort.revision} has: the ReplicaSet of the stable one is gone"
    if (daemon_set := daemon_set_of(ctx)) is not None:
        instead = after_abort(ctx, daemon_set)
    if (lost := stable_is_lost(ctx)) != "":
        instead = lost
    return f"{abort.message}; {instead}; to try revision {abort.revision} again: {ctx.command('retry')}"


def _finished(status: RolloutStatus) -> bool:
    return bool(status.stable_revision) and status.stable_revision == status.current_revision


def _phase(ctx: PassContext, status: RolloutStatus, waiting: WaitingFor | None, *, progressed_at_s: float) -> Phase:
    if ctx.aborted:
        return Phase.ABORTED
    if waiting is not None and waiting.reason in PAUSES:
        return Phase.PAUSED
    stalls_s = stalls_at_s(waiting)
    stalled = stalls_s is not None and ctx.now_s >= stalls_s
    if stalled or overdue(ctx, waiting, progressed_at_s=progressed_at_s):
        return Phase.DEGRADED
    if _finished(status) and (waiting is None or waiting.reason in AT_REST):
        return Phase.ROLLED_BACK if ctx.rolled_back else Phase.HEALTHY
    return Phase.PROGRESSING


def _conditions(
    ctx: PassContext, status: RolloutStatus, phase: Phase, wait: Wait | None, *, generation: int
) -> tuple[Condition, ...]:
    facts = _phase_facts(ctx, status, phase, wait)
    needed = pods_text(ctx.promised)
    available = ("Available", True, Reason.AVAILABLE, f"at least {needed} available")
    if status.available_replicas < ctx.promised:
        available = ("Available", False, Reason.UNAVAILABLE, f"fewer than {needed} available")
    facts += [available, *_drain_facts(ctx, status), *_traffic_facts(ctx)]
    facts += [*_policy_facts(ctx), *ordinal_facts(ctx)] if ctx.seen.workload is not None else []
    if beyond := beyond_step(ctx):
        facts.append(("NodeJoinedInStep", True, Reason.NODE_JOINED_IN_STEP, beyond))
    if isinstance(ctx.spec.strategy, BlueGreen) and (preview := preview_fact(ctx, status)) is not None:
        facts.append(preview)
    if strangers := not_adopted(ctx.seen):
        facts.append(("ReplicaSetNotAdopted", True, Reason.NOT_ADOPTED, strangers))
    if ctx.has_config and (gone := "; ".join(filter(None, (gone_copies(ctx), forged_copies(ctx))))):
        facts.append(("ConfigCopyMissing", True, Reason.CONFIG_COPY_MISSING, gone))
    if (refused := ctx.creation_refused) is not None:
        facts.append(("RevisionRefused", True, refused.reason, refused.message))
    facts += _hold_facts(ctx, wait)
    if ctx.seen.shares_pods_with:
        facts.append(("SelectorShared", True, Reason.SELECTOR_SHARED, shared_text(list(ctx.seen.shares_pods_with))))
    if ctx.rolled_back:
        facts.append(("RolledBack", True, Reason.ROLLED_BACK, _rolled_back(ctx)))
    if ctx.paused and phase is not Phase.PAUSED:
        facts.append(("Paused", True, Reason.PAUSED_BY_USER, ctx.paused_because))
    facts += _command_facts(status)
    return _dated(facts, ctx.recorded.conditions, now_s=ctx.now_s, generation=generation)


def _phase_facts(ctx: PassContext, status: RolloutStatus, phase: Phase, wait: Wait | None) -> list[Fact]:
    revision = status.current_revision
    message, reason = (wait.message, wait.reason) if wait is not None else (phase.value, Reason.HEALTHY)
    match phase:
        case Phase.HEALTHY:
            message, reason = f"revision {revision} is rolled out", Reason.HEALTHY
        case Phase.PROGRESSING:
            if reason not in CONFIG_HOLDS | WORKLOAD_HOLDS:
                message = f"revision {revision} is being rolled out"
            reason = Reason.ROLLOUT_UPDATED
        case Phase.PAUSED:
            if reason is Reason.PAUSED_BY_USER:  # `waitingFor` has the rest, which changes with every pod
                message = ctx.paused_because
        case Phase.ABORTED:
            if status.abort is not None:
                message = _held_back(ctx, status.abort)
            reason = Reason.ROLLOUT_ABORTED
        case Phase.ROLLED_BACK:
            message, reason = _rolled_back(ctx), Reason.ROLLED_BACK
        case Phase.DEGRADED:
            if not needs_a_person(reason):
                message = f"no progress for {ctx.spec.progress_deadline_s:g} s: {message}"
                reason = Reason.PROGRESS_DEADLINE_EXCEEDED
    kinds = _IN_PHASE[phase].items()
    facts: list[Fact] = [(kind, holds, _OF_ITS_OWN.get((phase, kind), reason), message) for kind, holds in kinds]
    if phase is Phase.DEGRADED and wait is not None and wait.spec_is_wrong:
        facts.append(("InvalidSpec", True, reason, message))
    return facts


def _hold_facts(ctx: PassContext, wait: Wait | None) -> list[Fact]:
    """What needs a person before another revision can be taken up, unless the Rollout waits for that alone."""
    hold = hold_of(ctx)
    if hold is None or not needs_a_person(hold.reason) or (wait is not None and wait.reason is hold.reason):
        return []
    kind = "WorkloadUnusable" if hold.reason in WORKLOAD_HOLDS else "ConfigUnusable"
    return [(kind, True, hold.reason, hold.message)]


def _policy_facts(ctx: PassContext) -> list[Fact]:
    """The condition about a policy that the spec relies on and that holds nothing; it exists only while it is true."""
    ref, workload = ctx.spec.workload_ref, ctx.seen.workload
    answer = workload.hold if isinstance(workload, WorkloadSeen) else None
    if ref is None or ref.hold is not Hold.POLICY or answer is None or answer.works:
        return []
    why = f": {answer.message}" if answer.message else ""
    message = f"no policy of the API server holds {ref}{why}; it {_AT_REST.get(ref.kind, 'is paused')} between updates"
    return [("HoldNotEffective", True, Reason.HOLD_NOT_EFFECTIVE, message)]


def _command_facts(status: RolloutStatus) -> list[Fact]:
    problems = problems_of(status) if status.commands else ()
    if not problems:
        return []
    return [("InvalidCommand", True, problems[0][0], "; ".join(message for _, message in problems))]


def _rolled_back(ctx: PassContext) -> str:
    """Message of a rollback: from which revision to which, and how to go forward again."""
    revision = ctx.spec.revision
    forward = f"to go forward again, change the template or run: {ctx.command('rollback')} --to {revision}"
    verb = "rolled back" if _finished(ctx.status) else "rolling back"
    return f"{verb} from revision {revision} to {ctx.status.current_revision}; {forward}"


def _drain_facts(ctx: PassContext, status: RolloutStatus) -> list[Fact]:
    """Conditions about requests that may be lost when a pod ends; each exists only while it is true."""
    drain = ctx.spec.drain
    if drain.mode is DrainMode.OFF:
        return []
    facts: list[Fact] = []
    numbers = ctx.drain_numbers
    lacking = unsafe(drain, ctx.spec.ends, numbers)
    problems = [f"{lacking} ({numbers.pre_stop_why})"] if lacking else []
    for replica_set in ctx.seen.replica_sets:
        if not replica_set.spec_replicas or replica_set.grace_s is None:
            continue
        if short := cut_short(replica_set, template=ctx.spec.revision, ends=ctx.spec.ends):
            problems.append(short)
    if nodes := port_reuse(ctx.seen.proxy):
        problems.append(f"nodes: {nodes.what}; {nodes.fix}")
    if problems:
        facts.append(("DrainUnsafe", True, Reason.DRAIN_UNSAFE, "; ".join(problems)))
    if ctx.seen.proxy.mode is ProxyMode.UNKNOWN:
        facts.append(("ProxyModeKnown", False, Reason.PROXY_MODE_UNKNOWN, ctx.seen.proxy.known_by))
    last = status.cutovers[-1] if status.cutovers else None
    if last is not None and last.timed_out:
        message = f"the drain of revision {last.from_revision} was not over after {drain.timeout_s:g} s: {last.message}"
        facts.append(("DrainTimedOut", True, Reason.DRAIN_TIMED_OUT, message))
    return facts


def _traffic_facts(ctx: PassContext) -> list[Fact]:
    """Conditions about Services and routes; each exists only while it is true.

    They tell of Services whose settings distort the shares or make a switch unsafe, of weights that reach no client, and of
    writes of routes that are refused. A Service that is missing or has no selector stops the update, and that wait reports it.
    """
    facts: list[Fact] = []
    if refused := refused_routes(ctx):
        facts.append(("RouteRefused", True, refused[0].reason, "; ".join(route.message for route in refused)))
    for finding in () if ctx.seen.routes else weight_findings(ctx.spec, severity=Severity.WARNING):
        message = f"{finding.what}; {finding.fix}"
        facts.append(("WeightWithoutEffect", True, Reason.WEIGHT_WITHOUT_EFFECT, message))
    by_finding: dict[Finding, list[str]] = {}
    for service in ctx.services_seen.values():
        if service.name in ctx.named_services:
            for finding in trait_findings(service.traits, relation=Relation.MANAGED):
                by_finding.setdefault(finding, []).append(str(service.name))
    if not by_finding:
        return facts
    sentences = (
        f"Service {' and '.join(sorted(names))}: {finding.path}: {finding.what}; {finding.fix}"
        for finding, names in by_finding.items()
    )
    return [*facts, ("ServiceUnsafe", True, Reason.SERVICE_UNSAFE, ". ".join(sentences))]


def _dated(facts: list[Fact], before: tuple[Condition, ...], *, now_s: float, generation: int) -> tuple[Condition, ...]:
    """The facts as conditions; the time of the last transition is kept where the condition's status did not change."""
    known = {condition.type: condition for condition in before}
    conditions = []
    for kind, holds, reason, message in facts:
        old = known.get(kind)
        since_s = old.since_s if old is not None and old.status == holds else now_s
        conditions.append(
            Condition(
                type=kind, status=holds, reason=reason, message=message, since_s=since_s, observed_generation=generation
            )
        )
    return tuple(conditions)


# --- `status.autoscaling`: what the gate `spec.autoscaling` was last told, for people. No rule decides by it.
#
# The figures change with each look, every 15 s, and a status that changed with them would be written as often. So they are
# recorded when they say something else than before, when another part of status is written anyway, and seldom otherwise.

CHANGE_PERCENT = 5
"""Percentage points of a request. An autoscaler does not scale for a difference of 10 % of its target."""

RENEWED_AFTER_S = 600.0
"""So that the age of the figures tells whether anybody still looks."""


def with_autoscaling(ctx: PassContext, status: RolloutStatus) -> RolloutStatus:
    """The status with what the gate was last told about this update; without it when no update goes through the gate."""
    gate, began_s, seen = ctx.spec.autoscaling, status.started_at_s, ctx.seen.autoscaling
    kept = status.autoscaling
    ended = status.stable_revision in ("", status.current_revision) or ctx.aborted
    if gate is None or ended or began_s is None:
        return status if kept is None else replace(status, autoscaling=None)
    if kept is not None and (kept.at_s < began_s or kept.container != _container(gate)):
        kept = None
    record = kept
    if seen is not None and seen.at_s >= began_s and (kept is None or seen.at_s > kept.at_s):
        now = _record(ctx, gate, seen, kept)
        if kept is None or status != ctx.recorded or _says_more(kept, now):
            record = now
    return status if record == status.autoscaling else replace(status, autoscaling=record)


def _record(
    ctx: PassContext, gate: AutoscalingGate, seen: AutoscalingSeen, before: AutoscalingRecord | None
) -> AutoscalingRecord:
    autoscalers, use = [], []
    settled = {known.name: known.settled_since_s for known in before.autoscalers} if before is not None else {}
    for autoscaler in seen.autoscalers or ():
        name, most, judged = autoscaler.name, autoscaler.max_replicas, not lacking_word(autoscaler)
        headroom = headroom_percent(pods=max(autoscaler.desired or 0, ctx.spec.replicas), most=most)
        since_s = None
        if is_settled(autoscaler, now_s=seen.at_s, replicas=ctx.spec.replicas):
            known_s = settled.get(name)
            since_s = seen.at_s if known_s is None else known_s
        autoscalers.append(
            AutoscalerRecord(
                name=name,
                owner=autoscaler.owner,
                desired=autoscaler.desired if judged else None,
                max_replicas=most,
                headroom_percent=headroom if judged else None,
                settled_since_s=since_s,
            )
        )
    for revision, container in sorted((seen.use or {}).items()):
        percent = container.utilization_percent
        use.append(
            UseRecord(
                revision=revision,
                utilization_percent=math.ceil(percent) if percent is not None and 0 <= percent < math.inf else None,
                measured=container.measured,
                pods=container.pods,
                oldest_at_s=container.oldest_at_s,
            )
        )
    return AutoscalingRecord(
        at_s=seen.at_s,
        autoscalers=tuple(autoscalers),
        container=_container(gate),
        resource=gate.container.resource.value if gate.container is not None else "",
        use=tuple(use),
    )


def _says_more(kept: AutoscalingRecord, now: AutoscalingRecord) -> bool:
    """Whether people would read something else in the new figures, or the old ones have become too old."""
    if now.at_s - kept.at_s >= RENEWED_AFTER_S or now.autoscalers != kept.autoscalers:
        return True
    before, after = (
        [(use.revision, use.measured, use.pods, use.utilization_percent is None) for use in record.use]
        for record in (kept, now)
    )
    changes = (
        abs((new.utilization_percent or 0) - (old.utilization_percent or 0))
        for old, new in zip(kept.use, now.use, strict=False)
    )
    return before != after or any(change >= CHANGE_PERCENT for change in changes)


def _container(gate: AutoscalingGate) -> str:
    return gate.container.container if gate.container is not None else ""
