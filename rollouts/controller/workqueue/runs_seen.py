"""What decisions read of an AnalysisRun or an Experiment, read once for each version of it.

Nothing here trusts a status: one that cannot be read is that of a run that has not begun.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from rollouts.api.spec.analysis.run import parse_run
from rollouts.api.status.analysis_run import STATUS_VALUES_MAX, read_run_status
from rollouts.api.status.experiment import read_experiment_status
from rollouts.api.times import time_or_0
from rollouts.cluster.decoding import UnreadableObject, json_object
from rollouts.cluster.structs import AnalysisRunObject, ExperimentObject, Metadata
from rollouts.core.analysis.measurement import MetricResult
from rollouts.core.analysis.run import shortest_s
from rollouts.core.model.analysis import AnalysisKind, AnalysisPhase, RunSeen, TemplateService, run_spec_hash
from rollouts.core.model.frozen import replace
from rollouts.errors import SpecInvalid
from rollouts.manifests.analysis_run import gate_of
from rollouts.manifests.ownership import REVISION, kept_until_s
from rollouts.objects import has_more_values
from rollouts.recent import Recent

KEPT_MAX = 10_000  # runs, 1 KB each
MESSAGE_MAX = 300  # characters: it becomes a part of one line in status


class RunsSeen:
    """Reads AnalysisRuns and Experiments, and remembers what it read of the latest versions."""

    def __init__(self) -> None:
        self._seen: Recent[str, RunSeen] = Recent(KEPT_MAX)

    def seen(self, run: AnalysisRunObject | ExperimentObject) -> RunSeen:
        """The run, or the Experiment, as the policy sees it. Raises: nothing."""
        uid = run.metadata.uid
        known = self._seen.get(uid)
        if known is not None and known.resource_version == run.metadata.resource_version:
            return known
        seen = _read(run, known) if isinstance(run, AnalysisRunObject) else _read_experiment(run, known)
        self._seen[uid] = seen
        return seen

    def forget(self, uid: str) -> None:
        """Drops a run that is gone."""
        self._seen.pop(uid, None)


def unread(run: UnreadableObject) -> RunSeen:
    """A run that exists and cannot be read: it has no verdict, and no other run takes its place."""
    return replace(_unmeasured(run.metadata), message=f"it cannot be read ({run.why}); delete it"[:MESSAGE_MAX])


def _read(run: AnalysisRunObject, known: RunSeen | None) -> RunSeen:
    raw = bytes(run.status)
    status, _ = read_run_status({} if has_more_values(raw, most=STATUS_VALUES_MAX) else json_object(raw), latest=1)
    counted = [result for result in status.results if not result.dry_run]
    seen = _unmeasured(run.metadata)
    same_spec = known is not None and known.generation == seen.generation
    return replace(
        seen,
        phase=status.phase,
        message=(status.message or ("" if status.phase.over else _last_measured(counted)))[:MESSAGE_MAX],
        # Each metric that counts has a measurement with a verdict. A run that has begun has a result for each metric.
        measured=bool(status.results) and all(result.count > 0 for result in counted),
        errors_in_a_row=max((result.consecutive_error for result in counted if not result.phase.over), default=0),
        terminate=_is_told_to_end(bytes(run.spec)),
        completed_at_s=status.completed_at_s if status.phase.over else None,
        shortest_s=_shortest_s(run) if known is None else known.shortest_s,  # nobody changes the metrics of a run
        spec_hash=known.spec_hash if known and same_spec else run_spec_hash(bytes(run.spec)),
    )


def _read_experiment(experiment: ExperimentObject, known: RunSeen | None) -> RunSeen:
    raw, spec = bytes(experiment.status), bytes(experiment.spec)
    status, _ = read_experiment_status({} if has_more_values(raw, most=STATUS_VALUES_MAX) else json_object(raw))
    seen = _unmeasured(experiment.metadata)
    same_spec = known is not None and known.generation == seen.generation
    return replace(
        seen,
        phase=status.phase,
        message=status.message[:MESSAGE_MAX],
        terminate=_is_told_to_end(spec),
        completed_at_s=status.completed_at_s if status.phase.over else None,
        spec_hash=known.spec_hash if known and same_spec else run_spec_hash(spec),
        services=tuple([TemplateService(each.name, each.service_name) for each in status.groups if each.service_name]),
        kept_until_s=kept_until_s(experiment.metadata.annotations or {}),
    )


def _unmeasured(metadata: Metadata) -> RunSeen:
    """A run before its first measurement."""
    labels = metadata.labels or {}
    return RunSeen(
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        gate=gate_of(labels),
        revision=labels.get(REVISION, ""),
        created_at_s=time_or_0(metadata.creation_timestamp),
        phase=AnalysisPhase.PENDING,
        deleting=metadata.deletion_timestamp is not None,
        generation=metadata.generation,
    )


def _shortest_s(run: AnalysisRunObject) -> float | None:
    """None also for a run beside the steps, whose end is that of the update."""
    gate = gate_of(run.metadata.labels or {})
    if gate is None or gate.kind is AnalysisKind.BACKGROUND:
        return None
    try:
        return shortest_s(parse_run(json_object(bytes(run.spec))).rules)
    except SpecInvalid:
        return None  # it ends at once, and says why


def _last_measured(counted: Iterable[MetricResult]) -> str:
    """One word on each metric that was measured."""
    words = []
    for result in counted:
        if (last := result.last) is not None:
            # The value of a good one would be a write of the Rollout's status for each measurement; the run shows it.
            what = last.message if last.phase is AnalysisPhase.SUCCESSFUL else last.value or last.message
            words.append(f"{result.name} {last.phase}{f' ({what})' if what else ''}")
    return ", ".join(words)


class _Told(msgspec.Struct):
    terminate: bool = False


_TOLD = msgspec.json.Decoder(_Told)


def _is_told_to_end(spec: bytes) -> bool:
    try:
        return bool(spec) and _TOLD.decode(spec).terminate
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
