"""The status that people and tools read: counts, phase, what is waited for, and conditions in kstatus form.

`Ready` is what `kubectl wait` looks at; `Reconciling` and `Stalled` are there only while they are true (kstatus); the others
are Deployment's and Argo Rollouts' conditions where they mean the same.
"""

from __future__ import annotations

from rollouts.core.commands import problems_of
from rollouts.core.cutover import numbers_of
from rollouts.core.drain import DrainMode, ProxyMode
from rollouts.core.findings import Finding
from rollouts.core.frozen import replace
from rollouts.core.plan import NOT_HELD_UP, PAUSES, View, Wait
from rollouts.core.pre_stop import unsafe
from rollouts.core.proxy_findings import port_reuse
from rollouts.core.reasons import Reason
from rollouts.core.revision import REVISION_LABEL
from rollouts.core.rollout import BlueGreen, RolloutSpec
from rollouts.core.scaling import surge_and_unavailable
from rollouts.core.service_findings import steered_findings
from rollouts.core.status import Condition, Phase, RolloutStatus, WaitingFor

WARNED = frozenset({"DrainUnsafe", "DrainTimedOut", "ServiceUnsafe"})
"""Conditions that an Event tells once, when they begin or say something else."""


_HELD = "spec.paused or the pause annotation holds the Rollout"


def concluded(view: View, wait: Wait | None) -> RolloutStatus:
    """`view.status` with everything that follows from it and from what was seen."""
    status = _counted(view)
    if wait is None and view.aborted and status.abort is not None:
        message = f"revision {status.current_revision} is held back: {status.abort.message}; {_way_on(view)}"
        wait = Wait(Reason.RETRY_NEEDED, message)
    if wait is None and view.paused and not _finished(status):
        wait = Wait(Reason.PAUSED_BY_USER, _HELD)
    if wait is None and view.rolled_back and _finished(status):
        wait = Wait(Reason.ROLLED_BACK, _rolled_back(view))
    progressed_at_s = _progressed_at_s(view, status, wait)
    waiting = _waiting_for(view, status, wait, progressed_at_s=progressed_at_s)
    phase = _phase(view, status, waiting, progressed_at_s=progressed_at_s)
    message = waiting.message if waiting else _next_held() if view.paused else ""
    return replace(  # at once: a copy of all these fields costs more than finding them
        status,
        phase=phase,
        message=message,
        progressed_at_s=progressed_at_s,
        waiting_for=waiting,
        conditions=_conditions(view, status, phase, waiting),
        observed_generation=view.seen.rollout.generation,
    )


def deadline_exceeded(
    waiting: WaitingFor | None, *, progressed_at_s: float | None, now_s: float, progress_deadline_s: float
) -> bool:
    """Whether something that should move has not moved for the progress deadline."""
    held_up = waiting is not None and waiting.reason not in NOT_HELD_UP
    return held_up and progressed_at_s is not None and now_s >= progressed_at_s + progress_deadline_s


def with_command_problems(status: RolloutStatus, *, generation: int, now_s: float) -> RolloutStatus:
    """The status with its condition about refused commands as its commands have it; nothing else of it changes."""
    others = tuple(each for each in status.conditions if each.type != "InvalidCommand")
    facts = _dated(_command_facts(status), status.conditions, now_s=now_s, generation=generation)
    return replace(status, conditions=(*others, *facts))


def with_invalid_spec(status: RolloutStatus, *, message: str, generation: int, now_s: float) -> RolloutStatus:
    """The status of a Rollout whose spec cannot be carried out; nothing else of its memory changes."""
    reason = Reason.INVALID_SPEC
    facts = [
        ("Ready", False, reason, message),
        ("Stalled", True, reason, message),
        ("InvalidSpec", True, reason, message),
    ]
    kept = [each for each in status.conditions if each.type in ("Available", "Aborted", "Paused")]
    conditions = _dated(facts, status.conditions, now_s=now_s, generation=generation)
    return replace(
        status,
        phase=Phase.DEGRADED,
        message=message,
        observed_generation=generation,
        waiting_for=None,
        conditions=(*conditions, *kept),
    )


def _counted(view: View) -> RolloutStatus:
    sets = view.seen.replica_sets
    updated = view.new.replicas if view.new else 0
    counted = sets
    selector = view.spec.selector_text
    if isinstance(view.spec.strategy, BlueGreen):  # the autoscaler measures the pods that serve
        active = view.status.active_revision or view.status.stable_revision or view.status.current_revision
        counted = tuple(each for each in sets if each.revision == active)
        selector = f"{selector},{REVISION_LABEL}={active}"
    return replace(
        view.status,
        replicas=sum(each.replicas for each in counted),
        updated_replicas=updated,
        ready_replicas=sum(each.ready for each in counted),
        available_replicas=sum(each.available for each in counted),
        selector=selector,
    )


def _progressed_at_s(view: View, status: RolloutStatus, wait: Wait | None) -> float:
    """The progress clock: now when anything moved, or when a wait that it measures has just begun."""
    before = view.seen.status
    if status.progressed_at_s is None or status.progressed_at_s != before.progressed_at_s:
        return view.now_s if status.progressed_at_s is None else status.progressed_at_s
    moved = (
        status.updated_replicas > before.updated_replicas
        or status.available_replicas > before.available_replicas
        or status.ready_replicas > before.ready_replicas
        or status.replicas < before.replicas
    )
    was_held_up = before.waiting_for is not None and before.waiting_for.reason not in NOT_HELD_UP
    begins = wait is not None and wait.reason not in NOT_HELD_UP and not was_held_up
    return view.now_s if (moved and was_held_up) or begins else status.progressed_at_s


def _waiting_for(view: View, status: RolloutStatus, wait: Wait | None, *, progressed_at_s: float) -> WaitingFor | None:
    if wait is None:
        return None
    before = view.seen.status.waiting_for
    same = before is not None and before.reason is wait.reason and view.seen.status.step_index == status.step_index
    since_s = before.since_s if same and before is not None else view.now_s
    deadline_s = wait.deadline_s
    if deadline_s is None and wait.reason not in NOT_HELD_UP:
        deadline_s = progressed_at_s + view.spec.progress_deadline_s
    return WaitingFor(wait.reason, wait.message, since_s, deadline_s)


def _finished(status: RolloutStatus) -> bool:
    return bool(status.stable_revision) and status.stable_revision == status.current_revision


def _phase(view: View, status: RolloutStatus, waiting: WaitingFor | None, *, progressed_at_s: float) -> Phase:
    if view.aborted:
        return Phase.ABORTED
    deadline_s = view.spec.progress_deadline_s
    if deadline_exceeded(waiting, progressed_at_s=progressed_at_s, now_s=view.now_s, progress_deadline_s=deadline_s):
        return Phase.DEGRADED
    if waiting is not None and waiting.reason in PAUSES:
        return Phase.PAUSED
    at_rest = (Reason.SCALE_DOWN_DELAY, Reason.DRAINING, Reason.ROLLED_BACK)
    if _finished(status) and (waiting is None or waiting.reason in at_rest):
        return Phase.ROLLED_BACK if view.rolled_back else Phase.HEALTHY
    return Phase.PROGRESSING


def _conditions(view: View, status: RolloutStatus, phase: Phase, waiting: WaitingFor | None) -> tuple[Condition, ...]:
    message = waiting.message if waiting else phase
    reason = waiting.reason if waiting else Reason.HEALTHY
    facts: list[tuple[str, bool, Reason, str]] = []
    match phase:
        case Phase.HEALTHY:
            done = f"revision {status.current_revision} is rolled out"
            facts += [("Ready", True, Reason.HEALTHY, done), ("Progressing", True, Reason.ROLLOUT_COMPLETED, done)]
        case Phase.PROGRESSING:
            going = f"revision {status.current_revision} is being rolled out"
            facts += [
                ("Ready", False, Reason.ROLLOUT_UPDATED, going),
                ("Reconciling", True, Reason.ROLLOUT_UPDATED, going),
                ("Progressing", True, Reason.ROLLOUT_UPDATED, going),
            ]
        case Phase.PAUSED:
            facts += [
                ("Ready", False, reason, message),
                ("Paused", True, reason, message),
                ("Progressing", True, Reason.ROLLOUT_PAUSED, message),
            ]
        case Phase.ABORTED:
            facts += [
                ("Ready", False, Reason.ROLLOUT_ABORTED, message),
                ("Stalled", True, Reason.ROLLOUT_ABORTED, message),
            ]
            facts += [
                ("Aborted", True, Reason.ROLLOUT_ABORTED, message),
                ("Progressing", False, Reason.ROLLOUT_ABORTED, message),
            ]
        case Phase.ROLLED_BACK:
            facts += [
                (kind, kind == "Stalled", Reason.ROLLED_BACK, _rolled_back(view))
                for kind in ("Ready", "Stalled", "Progressing")
            ]
        case Phase.DEGRADED:
            late = f"nothing moved for {view.spec.progress_deadline_s:g} s: {message}"
            facts += [
                (kind, kind == "Stalled", Reason.PROGRESS_DEADLINE_EXCEEDED, late)
                for kind in ("Ready", "Stalled", "Progressing")
            ]
    facts += [_available(view, status), *_drain_facts(view, status), *_service_facts(view)]
    if view.rolled_back:
        facts.append(("RolledBack", True, Reason.ROLLED_BACK, _rolled_back(view)))
    if view.paused and phase is not Phase.PAUSED:
        facts.append(("Paused", True, Reason.PAUSED_BY_USER, _next_held()))
    facts += _command_facts(status)
    return _dated(facts, view.seen.status.conditions, now_s=view.now_s, generation=view.seen.rollout.generation)


def _command_facts(status: RolloutStatus) -> list[tuple[str, bool, Reason, str]]:
    problems = problems_of(status)
    if not problems:
        return []
    return [("InvalidCommand", True, problems[0][0], "; ".join(message for _, message in problems))]


def _rolled_back(view: View) -> str:
    """From where to where, and what goes forward."""
    name, revision = view.seen.rollout.name, view.spec.revision
    forward = f"`kubectl rollouts rollback {name} --to {revision}` goes forward again, and so does a new template"
    verb = "rolled back" if _finished(view.status) else "going back"
    return f"{verb} from revision {revision} to {view.status.current_revision}; {forward}"


def _next_held() -> str:
    return f"{_HELD}: the next step waits until somebody resumes it"


def _way_on(view: View) -> str:
    return f"`kubectl rollouts retry {view.seen.rollout.name}` tries it again"


def _available(view: View, status: RolloutStatus) -> tuple[str, bool, Reason, str]:
    spec: RolloutSpec = view.spec
    surge_limit = 1 if isinstance(spec.strategy, BlueGreen) else spec.strategy.max_surge
    _, unavailable = surge_and_unavailable(
        max_surge=surge_limit, max_unavailable=spec.strategy.max_unavailable, replicas=spec.replicas
    )
    needed = spec.replicas - unavailable
    if status.available_replicas >= needed:
        return "Available", True, Reason.AVAILABLE, f"at least {needed} pods are available"
    return "Available", False, Reason.UNAVAILABLE, f"fewer than {needed} pods are available"


def _drain_facts(view: View, status: RolloutStatus) -> list[tuple[str, bool, Reason, str]]:
    """What keeps requests from being safe at the end of a pod; each is there only while it is so."""
    drain = view.spec.drain
    if drain.mode is DrainMode.OFF:
        return []
    facts: list[tuple[str, bool, Reason, str]] = []
    numbers = numbers_of(view)
    lacking = unsafe(drain, view.spec.ends, numbers)
    problems = [f"{lacking} ({numbers.pre_stop_why})"] if lacking else []
    if nodes := port_reuse(view.seen.proxy):
        problems.append(f"nodes: {nodes.what}; {nodes.fix}")
    if problems:
        facts.append(("DrainUnsafe", True, Reason.DRAIN_UNSAFE, "; ".join(problems)))
    if view.seen.proxy.mode is ProxyMode.UNKNOWN:
        facts.append(("ProxyModeKnown", False, Reason.PROXY_MODE_UNKNOWN, view.seen.proxy.known_by))
    last = status.cutovers[-1] if status.cutovers else None
    if last is not None and last.timed_out:
        message = f"revision {last.from_revision} after {drain.timeout_s:g} s: {last.message}"
        facts.append(("DrainTimedOut", True, Reason.DRAIN_TIMED_OUT, message))
    return facts


def _service_facts(view: View) -> list[tuple[str, bool, Reason, str]]:
    """What in the Services bends shares or makes a switch unsafe, with the remedy; nothing when nothing does."""
    by_finding: dict[Finding, list[str]] = {}
    for name, finding in steered_findings(view.spec.strategy, view.seen.services.values()):
        by_finding.setdefault(finding, []).append(name)
    if not by_finding:
        return []
    sentences = (
        f"Service {' and '.join(sorted(names))}: {finding.path}: {finding.what}; {finding.fix}"
        for finding, names in by_finding.items()
    )
    return [("ServiceUnsafe", True, Reason.SERVICE_UNSAFE, ". ".join(sentences))]


def _dated(
    facts: list[tuple[str, bool, Reason, str]], before: tuple[Condition, ...], *, now_s: float, generation: int
) -> tuple[Condition, ...]:
    """Conditions with the time of their last transition kept where the status did not change."""
    known = {each.type: each for each in before}
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
