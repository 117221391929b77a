"""Which commands a workload that is updated in place carries out by its template alone, so that they are refused here."""

from __future__ import annotations

from rollouts.core.model.snapshot import Snapshot, is_in_place
from rollouts.core.model.status import Command, RolloutStatus, Verb
from rollouts.core.model.workload import WorkloadSeen
from rollouts.core.model.workload_ref import WorkloadKind


def needs_its_template(seen: Snapshot, status: RolloutStatus, command: Command) -> str:
    """Why such a command is refused, and what to type; "" for another one."""
    rollout, ref = seen.rollout, seen.rollout.spec.workload_ref
    if ref is None or not is_in_place(seen):
        return ""
    undoes = command.verb is Verb.ROLLBACK and not _makes_pods_of(seen, status, ref.kind, command.target)
    if not (undoes or command.verb is Verb.RESTART):
        return ""
    kubectl = f"kubectl rollout {'undo' if undoes else 'restart'} {ref.kind.lower()}/{ref.name} -n {rollout.namespace}"
    return f"{ref} is updated in place, so its template decides: {kubectl}; the steps of this Rollout follow"


def _makes_pods_of(seen: Snapshot, status: RolloutStatus, kind: WorkloadKind, revision: str) -> bool:
    """Whether the workload makes pods of that revision whatever its template is.

    A StatefulSet forgets the stable one when all pods of another were ready once; a DaemonSet knows only its template.
    """
    found = seen.workload.stateful_set if isinstance(seen.workload, WorkloadSeen) else None
    is_forgotten = found is not None and found.current_revision != revision
    return revision == status.stable_revision and kind is not WorkloadKind.DAEMON_SET and not is_forgotten
