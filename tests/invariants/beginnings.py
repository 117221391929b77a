"""What no first pod of an update may break: S25 of the project's invariants, and of S7 what is about that pod."""

from __future__ import annotations

from rollouts.core.model.analysis import AnalysisGate, AnalysisKind, DraftProblem
from rollouts.core.model.intents import CreateReplicaSet, Intent
from rollouts.core.model.rollout import Canary, analyses, named_services
from rollouts.core.model.snapshot import ReplicaSet, ServiceAbsent, ServiceSeen, Snapshot
from rollouts.core.model.status import WAS_STABLE, RolloutStatus, Verb
from rollouts.core.model.traffic import RouteAbsent, RouteSeen
from tests.invariants.analyses import is_passed
from tests.invariants.violation import Violation, resized


def an_update_begins_when_everything_is_there(
    before: Snapshot, intent: Intent, status: RolloutStatus
) -> list[Violation]:
    """S25: while something is missing that the spec names, an update that has not begun makes no pod.

    Args:
        status: what the pass records: it names the update that the pod is for.
    """
    revision, first = _first_pods(before, intent)
    if not first or revision != status.current_revision or _goes_without(before, status):
        return []
    missing = [*_missing(before)]
    return [Violation("S25", f"revision {revision} begins, and this is missing: {missing}")] if missing else []


def no_pod_comes_before_its_gate(before: Snapshot, intent: Intent, status: RolloutStatus) -> list[Violation]:
    """S7: an update that has not begun makes no pod before its `beforeUpdate` has a success on record, or a person has passed it.

    Args:
        status: what the pass records: it names the update that the pod is for.
    """
    revision, more = _more_pods(before, intent)
    told, known = before.rollout.spec.strategy.before_update, before.status
    if told is None or not more or revision != status.current_revision or status.stable_revision in ("", revision):
        return []
    if _replica_set(before, status.stable_revision) is None:
        return []  # nothing else can serve
    if status.step_index or status.gate_passed or status.gate_started_at_s is not None:
        return []
    if any(each.refusal is None and each.promotes(status) and each.passes is None for each in status.commands):
        return []
    same = (known.current_revision, known.attempt, known.started_at_s) == (
        revision,
        status.attempt,
        status.started_at_s,
    )
    if same and is_passed(known, AnalysisGate(AnalysisKind.BEFORE_UPDATE)):
        return []
    return [Violation("S7", f"revision {revision} gets pods before its gate has passed: {known.analyses}")]


def _more_pods(before: Snapshot, intent: Intent) -> tuple[str, bool]:
    """The revision to which a write gives pods beside those that it may have of an earlier attempt."""
    if isinstance(intent, CreateReplicaSet):
        return intent.revision, intent.replicas > 0
    replica_set, size = resized(before, intent)
    return ("", False) if replica_set is None else (replica_set.revision, size > replica_set.spec_replicas)


def _first_pods(before: Snapshot, intent: Intent) -> tuple[str, bool]:
    """The revision to which a write gives its first pods."""
    if isinstance(intent, CreateReplicaSet):
        return intent.revision, intent.replicas > 0
    replica_set, size = resized(before, intent)
    return ("", False) if replica_set is None else (replica_set.revision, size > 0 == replica_set.spec_replicas)


def _goes_without(before: Snapshot, status: RolloutStatus) -> bool:
    """A way back, the only revision that can serve, an update that is further, or one that somebody sends past everything."""
    new, stable = status.current_revision, _replica_set(before, status.stable_revision)
    if stable is None or new == stable.revision:
        return True
    if status.step_index or status.gate_passed or status.gate_started_at_s is not None:
        return True
    told = [each for each in status.commands if each.refusal is None]
    if any(each.verb is Verb.ROLLBACK or (each.promotes(status) and each.passes is None) for each in told):
        return True
    there = _replica_set(before, new)
    was_stable = any(each.revision == new and each.outcome in WAS_STABLE for each in status.history)
    return there is not None and (was_stable or there.created_at_s < stable.created_at_s)


def _replica_set(before: Snapshot, revision: str) -> ReplicaSet | None:
    return next((each for each in before.replica_sets if each.revision == revision and not each.deleting), None)


def _missing(before: Snapshot) -> list[str]:
    strategy, ours = before.rollout.spec.strategy, before.rollout.name
    found = [
        str(gate)
        for gate in analyses(strategy)
        if isinstance(draft := before.drafts.get(gate), DraftProblem) and not draft.comes_later
    ]
    for name in named_services(strategy):
        seen = before.services.get(name)
        others = isinstance(seen, ServiceSeen) and seen.managed_by not in ("", ours)
        if others or isinstance(seen, ServiceAbsent):
            found.append(str(name))
    if isinstance(strategy, Canary) and strategy.routers:
        found += [str(name) for name, each in before.routes.items() if each.named and _is_useless(each, ours)]
    return found


def _is_useless(route: object, ours: str) -> bool:
    if isinstance(route, RouteAbsent):
        return not route.ours
    return isinstance(route, RouteSeen) and (
        route.managed_by not in ("", ours) or (route.split is None and not route.rewrite_because)
    )
